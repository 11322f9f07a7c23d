//! The gateway inside an actix-web application of your own: beside your own routes, under your middleware, and, where
//! you like, below a scope. It answers its own paths; all others stay yours, your 404 among them.
//!
//! Try it: `POINTSMAN__SIMULATION__MODE=on cargo run --example mount`, then ask `127.0.0.1:8088` for
//! `/api/v1/models` (the gateway), `/llm/api/v1/models` (the same below a scope), `/api/users` and `/hello` (the
//! application), and `/nowhere` (the application's 404).

use actix_web::{App, HttpResponse, HttpServer, middleware, web};
use pointsman::app::{cli, server::Gateway};
use pointsman_config::{Config, Environment};

#[actix_web::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = Config::load(None, &Environment::of_process()).map_err(|faults| cli::report(&faults))?;
    let gateway = Gateway::start(config).await?;
    let mounted = gateway.clone();
    // Runs once per worker thread.
    let app = move || {
        App::new()
            .wrap(middleware::DefaultHeaders::new().add(("x-served-by", "host")))
            .configure(|app| mounted.mount(app)) // at the root: first or last, as you like
            .service(web::scope("/llm").configure(|app| mounted.mount(app)))
            .route("/hello", web::get().to(async || "hello from the host application"))
            .route("/api/users", web::get().to(async || "users of the host application"))
            .default_service(web::to(async || HttpResponse::NotFound().body("the host application has no such page")))
    };
    // Without half-closed connections a client that leaves is noticed at once, and its provider let go.
    HttpServer::new(app).h1_allow_half_closed(false).tcp_nodelay(true).bind("127.0.0.1:8088")?.run().await?;
    gateway.close().await;
    Ok(())
}
