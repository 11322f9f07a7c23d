//! The gateway inside an actix-web application of your own, beside your own routes.
//!
//! Try it: `POINTSMAN__SIMULATION__MODE=on cargo run --example mount`, then ask `127.0.0.1:8088/hello`
//! and `127.0.0.1:8088/api/v1/models`.

use actix_web::{App, HttpServer, web};
use pointsman::{
    cli,
    config::{Config, Environment},
    server::Gateway,
};

#[actix_web::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = Config::load(None, &Environment::of_process()).map_err(|faults| cli::report(&faults))?;
    let gateway = Gateway::start(config).await?;
    let app = move || {
        App::new()
            .route("/hello", web::get().to(async || "hello from the host application"))
            .configure(|app| gateway.mount(app)) // last: it answers every other path
    };
    HttpServer::new(app).h1_allow_half_closed(false).tcp_nodelay(true).bind("127.0.0.1:8088")?.run().await?;
    Ok(())
}
