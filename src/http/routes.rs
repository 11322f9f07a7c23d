//! All paths of the gateway.
//!
//! The same resources are mounted below `/api/v1`, `/api` and, unless switched off, `/v1`, with two differences:
//! `/api/models` lists models of every output kind, the versioned paths only models that generate text; and the list at
//! `/v1/models` has the member `object`. What the Anthropic API has is also below `/anthropic/v1`.

use actix_web::{
    HttpRequest, Resource, Scope,
    middleware::from_fn,
    web::{self, ServiceConfig},
};
use actix_web_lab::extract::LocalData;
use pointsman_config::Config;

use crate::{
    access::issued::HolderKind,
    api::{
        admin::{self, diff_job},
        decisions::{explain, preview, replay},
        diff::{regret_report::RegretReport, report::DiffReport},
        front_page,
        generations::{activity, feedback, generation, generation_list},
        health::{
            calibration, gateway_health,
            metrics::{self, Exposure},
            providers, quality, routing_memory, shadows, slo, splits, stats,
        },
        image,
        inference::{chat, completions, embeddings, messages, responses},
        keys::{issued_keys, own_key},
        models::model_handlers,
        openapi::{self, Document},
    },
    base::{
        error::ApiError,
        resources::{call, page, page_and_call, read, resource},
    },
    console::{Console, headers},
    http::{cors, middleware::frame},
    state::gateway::WorkerHandle,
};

/// The prefix of the paths of the Anthropic API alone.
const ANTHROPIC: &str = "/anthropic/v1";
/// The base address of clients that append `/v1/messages`.
const MESSAGES_BASE: &str = "/api";

/// Mounts the whole gateway on its own listener; unknown paths are answered with 404.
pub(crate) fn serve(app: &mut ServiceConfig, worker: &LocalData<WorkerHandle>) {
    let setup = worker.shared().setup.load_full();
    let config = &setup.config;
    let root = web::scope("").app_data(worker.clone()).app_data(Exposure { loopback: config.server.is_loopback() });
    let root = root.app_data(Document::Inference);
    // Paths are compared in this order: those that are called most come first.
    let root = prefixes(config).into_iter().fold(root, |root, (path, version)| {
        // Without a default service of the scope, the 404 of its bare path would have no body.
        let scope = add_all(web::scope(path), resources(config, "", version));
        let scope = if path == MESSAGES_BASE { add_all(scope.service(hello("/hello")), probes("")) } else { scope };
        root.service(scope.default_service(web::to(unknown_path)))
    });
    let root = add_all(add_all(add_all(root, anthropic_pages(ANTHROPIC)), health_pages("")), documents(""));
    let root = add_all(root, probes("/anthropic"));
    let root = root.default_service(web::to(unknown_path));
    // The last `wrap` is the outermost layer.
    if config.cors.is_on() {
        app.service(root.wrap(cors::layer(&config.cors)).wrap(from_fn(frame)));
    } else {
        app.service(root.wrap(from_fn(frame)));
    }
}

/// Mounts each path of the gateway separately in a host application: the application answers all other paths, also those
/// below `/api` and `/v1`.
pub(crate) fn mount(app: &mut ServiceConfig, worker: &LocalData<WorkerHandle>) {
    let setup = worker.shared().setup.load_full();
    let config = &setup.config;
    let exposure = Exposure { loopback: config.server.is_loopback() };
    let below = prefixes(config).into_iter().flat_map(|(path, version)| resources(config, path, version));
    for page in below.chain(anthropic_pages(ANTHROPIC)).chain(health_pages("")) {
        let page = page.app_data(worker.clone()).app_data(exposure);
        if config.cors.is_on() {
            app.service(page.wrap(cors::layer(&config.cors)).wrap(from_fn(frame)));
        } else {
            app.service(page.wrap(from_fn(frame)));
        }
    }
}

/// Mounts the pages of the admin listener, those that both listeners have, and the console.
pub(crate) fn serve_admin(app: &mut ServiceConfig, worker: &LocalData<WorkerHandle>, console: &Console) {
    let loopback = worker.shared().setup.load().config.admin.is_loopback();
    let admin = add_all(web::scope("/api/v1/admin"), admin_pages("")).default_service(web::to(unknown_admin_path));
    let root = web::scope("").app_data(worker.clone()).app_data(Exposure { loopback });
    let root = add_all(root.app_data(Document::Admin), documents(""));
    // Before the keys, whose paths are longer.
    let root = add_all(add_all(root, health_pages("")).service(admin), key_pages("/api/v1")).service(console.scope());
    app.service(root.default_service(web::to(unknown_admin_path)).wrap(from_fn(frame)).wrap(from_fn(headers::secure)));
}

/// Mounts each page for administrators separately, as [`mount`] does.
pub(crate) fn mount_admin(app: &mut ServiceConfig, worker: &LocalData<WorkerHandle>) {
    for page in admin_pages("/api/v1/admin") {
        app.service(page.app_data(worker.clone()).wrap(from_fn(frame)));
    }
}

/// The prefixes below which the resources are mounted.
fn prefixes(config: &Config) -> Vec<(&'static str, Version)> {
    let mut prefixes = vec![("/api/v1", Version::V1), (MESSAGES_BASE, Version::Unversioned)];
    if config.server.mount_v1 {
        prefixes.push(("/v1", Version::OpenAi));
    }
    prefixes
}

fn add_all(scope: Scope, pages: Vec<Resource>) -> Scope {
    pages.into_iter().fold(scope, Scope::service)
}

fn admin_pages(below: &str) -> Vec<Resource> {
    let at = |path: &str| format!("{below}{path}");
    vec![
        page(&at("/status")).route(read().to(admin::status::show)),
        page(&at("/config")).route(read().to(admin::config_values::show)),
        call(&at("/reload")).route(web::post().to(admin::config::reload)),
        page(&at("/reload/preview")).route(read().to(admin::config::preview)),
        page(&at("/keys")).route(read().to(admin::keys::list)),
        page(&at("/keys/{name}")).route(read().to(admin::keys::show)),
        call(&at("/keys/{name}/disable")).route(web::post().to(admin::keys::disable)),
        call(&at("/keys/{name}/enable")).route(web::post().to(admin::keys::enable)),
        holders(&at("/accounts"), HolderKind::Account),
        holder(&at("/accounts/{name}"), HolderKind::Account),
        holder_switch(&at("/accounts/{name}/disable"), HolderKind::Account, false),
        holder_switch(&at("/accounts/{name}/enable"), HolderKind::Account, true),
        holders(&at("/teams"), HolderKind::Team),
        holder(&at("/teams/{name}"), HolderKind::Team),
        holder_switch(&at("/teams/{name}/disable"), HolderKind::Team, false),
        holder_switch(&at("/teams/{name}/enable"), HolderKind::Team, true),
        page(&at("/audit")).route(read().to(admin::audit::show)),
        page(&at("/refused")).route(read().to(admin::refused::show)),
        page(&at("/alerts")).route(read().to(admin::alerts::show)),
        call(&at("/alerts/test")).route(web::post().to(admin::alerts::test)),
        page(&at("/activity")).route(read().to(admin::activity::show)),
        page(&at("/activity.csv")).route(read().to(admin::activity::csv)),
        page(&at("/activity/explain")).route(read().to(admin::activity::explain)),
        page(&at("/generations")).route(read().to(admin::generations::list)),
        page(&at("/generations.csv")).route(read().to(admin::generations::csv)),
        page(&at("/series")).route(read().to(admin::series::show)),
        page(&at("/running")).route(read().to(admin::running::show)),
        page(&at("/live")).route(read().to(admin::live::show)),
        page(&at("/verdict")).route(read().to(admin::verdict::show)),
        call(&at("/diff")).route(web::post().to(admin::diff::begin)),
        resource(&at("/diff/{diff}"), "GET, HEAD, DELETE")
            .route(read().to(diff_job::show::<DiffReport>))
            .route(web::delete().to(diff_job::cancel::<DiffReport>)),
        call(&at("/regret")).route(web::post().to(admin::regret::begin)),
        resource(&at("/regret/{regret}"), "GET, HEAD, DELETE")
            .route(read().to(diff_job::show::<RegretReport>))
            .route(web::delete().to(diff_job::cancel::<RegretReport>)),
        call(&at("/shadows/{name}/promote")).route(web::post().to(admin::promotion::promote)),
        page(&at("/ledger")).route(read().to(admin::ledger::show)),
        page(&at("/ledger/verification")).route(read().to(admin::ledger::verify)),
        resource(&at("/ledger/records"), "DELETE").route(web::delete().to(admin::ledger::delete)),
    ]
}

fn holders(path: &str, kind: HolderKind) -> Resource {
    page(path).route(read().to(move |by| admin::accounts::list(kind, by)))
}

fn holder(path: &str, kind: HolderKind) -> Resource {
    resource(path, "PUT, DELETE")
        .route(web::put().to(move |by, payload, name| admin::accounts::put(kind, by, payload, name)))
        .route(web::delete().to(move |by, name| admin::accounts::remove(kind, by, name)))
}

fn holder_switch(path: &str, kind: HolderKind, on: bool) -> Resource {
    call(path).route(web::post().to(move |by, name| admin::accounts::post_switch(kind, on, by, name)))
}

/// Issuing keys. On the public listener too, where client libraries look for it; always with the scope `admin`.
fn key_pages(below: &str) -> Vec<Resource> {
    let at = |path: &str| format!("{below}{path}");
    vec![
        page_and_call(&at("/keys")).route(read().to(issued_keys::list)).route(web::post().to(issued_keys::create)),
        resource(&at("/keys/{hash}"), "GET, HEAD, PATCH, DELETE")
            .route(read().to(issued_keys::show))
            .route(web::patch().to(issued_keys::update))
            .route(web::delete().to(issued_keys::revoke)),
        call(&at("/keys/{hash}/rotate")).route(web::post().to(issued_keys::rotate)),
    ]
}

/// Whether the prefix of a resource names a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    /// As `V1`; lists of models have one more member, which clients of the OpenAI API expect at this prefix.
    OpenAi,
    Unversioned,
}

/// What agents ask for below the base address that they were given, to learn whether it can be reached. A host application
/// answers such questions itself.
fn probes(base: &str) -> Vec<Resource> {
    vec![hello(base), hello(&format!("{base}/api/hello"))]
}

fn hello(path: &str) -> Resource {
    page(path).route(read().to(gateway_health::live))
}

/// The front page and the description of the listener's paths. A host application describes its paths itself.
fn documents(below: &str) -> Vec<Resource> {
    let at = |path: &str| format!("{below}{path}");
    vec![
        page(&at("/")).route(read().to(front_page::show)),
        page(&at("/openapi.json")).route(read().to(openapi::json)),
        page(&at("/docs")).route(read().to(openapi::html)),
    ]
}

fn health_pages(below: &str) -> Vec<Resource> {
    let at = |path: &str| format!("{below}{path}");
    vec![
        page(&at("/health")).route(read().to(gateway_health::status)),
        page(&at("/health/live")).route(read().to(gateway_health::live)),
        page(&at("/healthz")).route(read().to(gateway_health::live)),
        page(&at("/health/ready")).route(read().to(gateway_health::ready)),
        page(&at("/readyz")).route(read().to(gateway_health::ready)),
        page(&at("/metrics")).route(read().to(metrics::show)),
    ]
}

/// What clients of the Anthropic API call, where some of them expect it.
fn anthropic_pages(below: &str) -> Vec<Resource> {
    let at = |path: &str| format!("{below}{path}");
    vec![
        call(&at("/messages")).route(web::post().to(messages::create)),
        call(&at("/messages/count_tokens")).route(web::post().to(messages::count_tokens)),
        page(&at("/models")).route(read().to(model_handlers::list_text)),
        page(&at("/models/{id:.+}")).route(read().to(model_handlers::retrieve)),
    ]
}

fn resources(config: &Config, below: &str, version: Version) -> Vec<Resource> {
    let at = |path: &str| format!("{below}{path}");
    let (models_page, count) = (page(&at("/models")), page(&at("/models/count")));
    let (models_page, count) = match version {
        Version::V1 => (
            models_page.route(read().to(model_handlers::list_text)),
            count.route(read().to(model_handlers::count_text)),
        ),
        Version::OpenAi => (
            models_page.route(read().to(model_handlers::list_for_openai)),
            count.route(read().to(model_handlers::count_text)),
        ),
        Version::Unversioned => {
            (models_page.route(read().to(model_handlers::list_all)), count.route(read().to(model_handlers::count_all)))
        }
    };
    let mut resources = vec![
        call(&at("/chat/completions")).route(web::post().to(chat::create)),
        call(&at("/messages")).route(web::post().to(messages::create)),
        call(&at("/messages/count_tokens")).route(web::post().to(messages::count_tokens)),
        call(&at("/responses")).route(web::post().to(responses::create)),
        call(&at("/responses/input_tokens")).route(web::post().to(responses::input_tokens)),
        call(&at("/embeddings")).route(web::post().to(embeddings::create)),
        call(&at("/images/generations")).route(web::post().to(image::create)),
        call(&at("/images")).route(web::post().to(image::create)),
        page(&at("/images/models")).route(read().to(model_handlers::list_images)),
        page(&at("/images/files/{name}")).route(read().to(image::file)),
        call(&at("/route/preview")).route(web::post().to(preview::show)),
        page_and_call(&at("/route/explain"))
            .route(read().to(explain::by_query))
            .route(web::post().to(explain::by_body)),
        page(&at("/route/replay")).route(read().to(replay::show)),
        page(&at("/generation")).route(read().to(generation::show)),
        resource(&at("/generations/{generation}/feedback"), "GET, HEAD, POST, DELETE")
            .route(read().to(feedback::show))
            .route(web::post().to(feedback::rate))
            .route(web::delete().to(feedback::withdraw)),
        call(&at("/feedback")).route(web::post().to(feedback::rate_many)),
        page(&at("/generations")).route(read().to(generation_list::list)),
        page(&at("/activity")).route(read().to(activity::show)),
        page(&at("/activity.csv")).route(read().to(activity::csv)),
        page(&at("/activity/explain")).route(read().to(activity::explanation::show)),
        models_page,
        count,
        page(&at("/models/stats")).route(read().to(stats::show)),
        page(&at("/models/{id:.+}/endpoints")).route(read().to(model_handlers::endpoints)),
        page(&at("/models/{id:.+}")).route(read().to(model_handlers::retrieve)),
        page(&at("/model/{id:.+}")).route(read().to(model_handlers::retrieve_enveloped)),
        page(&at("/providers")).route(read().to(providers::list)),
        page(&at("/health/calibration")).route(read().to(calibration::show)),
        page(&at("/health/memory")).route(read().to(routing_memory::show)),
        page(&at("/health/providers")).route(read().to(gateway_health::providers)),
        page(&at("/health/providers/{slug}")).route(read().to(gateway_health::provider)),
        page(&at("/health/quality")).route(read().to(quality::show)),
        page(&at("/health/shadows")).route(read().to(shadows::show)),
        page(&at("/health/slo")).route(read().to(slo::show)),
        page(&at("/health/splits")).route(read().to(splits::show)),
        page(&at("/key")).route(read().to(own_key::show)),
        page(&at("/auth/key")).route(read().to(own_key::show)),
        page(&at("/credits")).route(read().to(own_key::credits)),
    ];
    if config.server.legacy_completions {
        resources.push(call(&at("/completions")).route(web::post().to(completions::create)));
    }
    resources.extend(health_pages(below));
    resources.extend(key_pages(below));
    resources
}

async fn unknown_path(request: HttpRequest) -> Result<String, ApiError> {
    Err(match request.path() {
        path if path.contains("/v1/v1/") => ApiError::doubled_version(),
        path => ApiError::unknown_path(path),
    })
}

async fn unknown_admin_path() -> Result<String, ApiError> {
    Err(ApiError::unknown_admin_path())
}
