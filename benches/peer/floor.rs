//! The floor: what actix-web and awc cost by themselves, on the gateway's allocator. A handler that checks for a key, reads the
//! whole body, forwards it on a kept connection and returns the whole answer.

use std::net::SocketAddr;

use actix_web::{
    App, HttpRequest, HttpResponse, HttpServer,
    http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST},
    rt::System,
    web::{self, Bytes, Data, PayloadConfig},
};
use awc::{Client, Connector};

use crate::{Failure, say};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Largest body that is read and answered.
const MOST: usize = 1024 * 1024;

/// What the handler knows.
#[derive(Clone)]
struct Known {
    upstream: SocketAddr,
    authorization: String,
}

/// Forwards to `upstream` what comes with `key`, and answers every GET itself. Prints its address first.
pub(crate) fn serve(upstream: SocketAddr, key: &str) -> Result<(), Failure> {
    let known = Known { upstream, authorization: format!("Bearer {key}") };
    let app = move || {
        let client = Client::builder().connector(Connector::new().limit(0)).disable_redirects().no_default_headers();
        App::new()
            .app_data(PayloadConfig::new(MOST))
            .app_data(Data::new(known.clone()))
            .app_data(Data::new(client.disable_timeout().finish()))
            .default_service(web::get().to(async || "ok"))
            .route("/api/v1/chat/completions", web::post().to(forward))
    };
    System::new().block_on(async {
        let server = HttpServer::new(app).workers(1).tcp_nodelay(true).shutdown_timeout(1).bind(("127.0.0.1", 0))?;
        server.addrs().iter().try_for_each(|address| say(&address.to_string()))?;
        Ok(server.run().await?)
    })
}

async fn forward(request: HttpRequest, body: Bytes, known: Data<Known>, client: Data<Client>) -> HttpResponse {
    if request.headers().get(AUTHORIZATION).is_none_or(|given| given != known.authorization.as_str()) {
        return HttpResponse::Unauthorized().finish();
    }
    let call = client
        .post(format!("http://{}/v1/chat/completions", known.upstream))
        .insert_header((HOST, known.upstream.to_string()))
        .insert_header((CONTENT_TYPE, "application/json"))
        .insert_header((ACCEPT, "application/json"));
    let Ok(mut answer) = call.send_body(body).await else { return HttpResponse::BadGateway().finish() };
    match answer.body().limit(MOST).await {
        Ok(body) => HttpResponse::build(answer.status()).insert_header((CONTENT_TYPE, "application/json")).body(body),
        Err(_) => HttpResponse::BadGateway().finish(),
    }
}
