//! Every path on one page.
//!
//! The same resources stand under `/api/v1`, `/api` and, unless switched off, `/v1`. The one difference:
//! `/api/models` lists models of every output kind, the versioned list only those that write text.

use actix_web::{
    Resource, Scope, guard,
    middleware::from_fn,
    web::{self, ServiceConfig},
};
use actix_web_lab::extract::LocalData;

use crate::{
    api::{
        admin, calibration, chat, explain, generation, health, image, key, memory,
        metrics::{self, Exposure},
        models, preview, providers, replay, slo, stats,
    },
    cors,
    error::ApiError,
    frame::frame,
    gateway::Desk,
};

/// Methods of pages that are read.
const READ: &str = "GET, HEAD";
/// Methods of calls that are made.
const CALL: &str = "POST";
/// Methods of explain, which answers both ways.
const EITHER: &str = "GET, HEAD, POST";

/// Mounts the whole gateway. Register it last: it answers every path that nobody else did.
pub fn mount(app: &mut ServiceConfig, desk: &LocalData<Desk>) {
    let setup = desk.shared().setup.load_full();
    let config = &setup.config;
    let mut root = web::scope("")
        .app_data(desk.clone())
        .app_data(Exposure { loopback: config.server.is_loopback() })
        .configure(health_pages)
        .service(scope("/api/v1", Version::V1))
        .service(scope("/api", Version::Unversioned));
    if config.server.mount_v1 {
        root = root.service(scope("/v1", Version::V1));
    }
    let root = root.default_service(web::to(unknown_path));
    // The layer named last is the outermost.
    if config.cors.is_on() {
        app.service(root.wrap(cors::layer(&config.cors)).wrap(from_fn(frame)));
    } else {
        app.service(root.wrap(from_fn(frame)));
    }
}

/// Mounts the pages of the listener for administration, and those that both listeners have.
pub fn mount_admin(app: &mut ServiceConfig, desk: &LocalData<Desk>) {
    let loopback = desk.shared().setup.load().config.admin.is_loopback();
    let admin = web::scope("/api/v1/admin").configure(administration).default_service(web::to(unknown_path));
    let root = web::scope("").app_data(desk.clone()).app_data(Exposure { loopback }).configure(health_pages);
    app.service(root.service(admin).default_service(web::to(unknown_path)).wrap(from_fn(frame)));
}

fn administration(api: &mut ServiceConfig) {
    api.service(page("/status").route(read().to(admin::status::show)))
        .service(call("/reload").route(web::post().to(admin::config::reload)))
        .service(page("/keys").route(read().to(admin::keys::list)))
        .service(page("/keys/{name}").route(read().to(admin::keys::one)))
        .service(call("/keys/{name}/disable").route(web::post().to(admin::keys::disable)))
        .service(call("/keys/{name}/enable").route(web::post().to(admin::keys::enable)))
        .service(page("/ledger").route(read().to(admin::ledger::show)))
        .service(resource("/ledger/records", "DELETE").route(web::delete().to(admin::ledger::delete)));
}

/// Which of the mounts a resource stands under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    Unversioned,
}

/// The resources under `path`. The scope answers for itself what it does not hold: its own bare path would else have
/// no body.
fn scope(path: &str, version: Version) -> Scope {
    web::scope(path).configure(|api| resources(api, version)).default_service(web::to(unknown_path))
}

fn health_pages(app: &mut ServiceConfig) {
    app.service(page("/health").route(read().to(health::status)))
        .service(page("/health/live").route(read().to(health::live)))
        .service(page("/healthz").route(read().to(health::live)))
        .service(page("/health/ready").route(read().to(health::ready)))
        .service(page("/readyz").route(read().to(health::ready)))
        .service(page("/metrics").route(read().to(metrics::show)));
}

fn resources(api: &mut ServiceConfig, version: Version) {
    let models_page = match version {
        Version::V1 => page("/models").route(read().to(models::list_text)),
        Version::Unversioned => page("/models").route(read().to(models::list_all)),
    };
    health_pages(api);
    api.service(call("/chat/completions").route(web::post().to(chat::create)))
        .service(call("/images/generations").route(web::post().to(image::create)))
        .service(call("/images").route(web::post().to(image::create)))
        .service(page("/images/models").route(read().to(models::list_images)))
        .service(page("/images/files/{name}").route(read().to(image::file)))
        .service(call("/route/preview").route(web::post().to(preview::show)))
        .service(either("/route/explain").route(read().to(explain::by_query)).route(web::post().to(explain::by_body)))
        .service(page("/route/replay").route(read().to(replay::show)))
        .service(page("/generation").route(read().to(generation::show)))
        .service(models_page)
        .service(page("/models/count").route(read().to(models::count)))
        .service(page("/models/stats").route(read().to(stats::show)))
        .service(page("/models/{id:.+}/endpoints").route(read().to(models::endpoints)))
        .service(page("/models/{id:.+}").route(read().to(models::bare)))
        .service(page("/model/{id:.+}").route(read().to(models::wrapped)))
        .service(page("/providers").route(read().to(providers::list)))
        .service(page("/health/calibration").route(read().to(calibration::show)))
        .service(page("/health/memory").route(read().to(memory::show)))
        .service(page("/health/providers").route(read().to(health::providers)))
        .service(page("/health/providers/{slug}").route(read().to(health::provider)))
        .service(page("/health/slo").route(read().to(slo::show)))
        .service(page("/key").route(read().to(key::show)))
        .service(page("/auth/key").route(read().to(key::show)))
        .service(page("/credits").route(read().to(key::credits)));
}

/// `GET`, and `HEAD` with it.
fn read() -> actix_web::Route {
    web::route().guard(guard::Any(guard::Get()).or(guard::Head()))
}

fn page(path: &str) -> Resource {
    resource(path, READ)
}

fn call(path: &str) -> Resource {
    resource(path, CALL)
}

fn either(path: &str) -> Resource {
    resource(path, EITHER)
}

/// A path that says which methods it answers.
fn resource(path: &str, allowed: &'static str) -> Resource {
    web::resource(path)
        .default_service(web::to(move || std::future::ready(Err::<String, _>(ApiError::method_not_allowed(allowed)))))
}

async fn unknown_path() -> Result<String, ApiError> {
    Err(ApiError::unknown_path())
}
