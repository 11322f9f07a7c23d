//! `GET /health` and below: liveness, readiness, and the health of providers.

use actix_web::{
    HttpResponse,
    http::{
        StatusCode,
        header::{self, HeaderValue},
    },
};
use futures_util::future::join_all;
use pointsman_actors::{catalog::CurrentCatalog, ledger::CountRecords, provider_health::Ping, router};
use pointsman_base::clock;
use serde::Serialize;

use super::{
    health_view::ProviderHealthBody,
    ledger_health::LedgerHealthBody,
    readiness::{Checks, ReadinessBody},
    stores_health::StoresBody,
};
use crate::{
    api::{
        answer::{Data, uncached},
        auth::Reader,
        models::measurements::{Clocks, Measurements, rfc_3339},
        path_name::PathName,
    },
    base::{build, error::ApiError},
    state::{
        ask::ask,
        gateway::{GatewayView, Worker},
    },
};

/// Liveness: answers as long as the process serves.
pub(crate) async fn live() -> HttpResponse {
    uncached(&LiveBody { status: "ok" })
}

/// Shows version, uptime and the state of the configuration.
pub(crate) async fn status(worker: Worker) -> HttpResponse {
    let (process, config) = (ProcessBody::now(&worker), ConfigBody::now(&worker));
    let body = StatusBody { process, config, ledger: LedgerHealthBody::now(&worker), stores: StoresBody::now(&worker) };
    uncached(&body)
}

/// Readiness: whether every actor answers, a model can be served, and the process is not draining. Else 503, with the same
/// body.
pub(crate) async fn ready(worker: Worker) -> HttpResponse {
    let body = ReadinessBody::new(worker.shared.is_draining(), checks(&worker).await);
    let mut response = uncached(&body);
    if !body.is_ready() {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Lists all providers, enabled ones first.
///
/// # Errors
/// 403 without the scope `read`.
pub(crate) async fn providers(by: Reader) -> Result<HttpResponse, ApiError> {
    show(&by.worker, None).await
}

/// Shows one provider by slug, in a list of one.
///
/// # Errors
/// 403 without the scope `read`, 404 for an unknown slug.
pub(crate) async fn provider(by: Reader, slug: PathName) -> Result<HttpResponse, ApiError> {
    show(&by.worker, Some(&slug)).await
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct LiveBody {
    /// Always `ok`: a process that does not serve does not answer.
    status: &'static str,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct StatusBody {
    #[serde(flatten)]
    process: ProcessBody,
    /// State of the configuration.
    config: ConfigBody,
    /// State of the store of records.
    ledger: LedgerHealthBody,
    /// The stores that replicas share; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    stores: Option<StoresBody>,
}

/// Public state of the process.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct ProcessBody {
    /// `draining` from the moment that the process was asked to stop: it ends its calls and refuses new ones.
    #[cfg_attr(test, schemars(extend("enum" = ["ok", "draining"])))]
    pub(crate) status: &'static str,
    /// Version of the gateway.
    pub(crate) version: &'static str,
    /// Facts of the build.
    pub(crate) build: BuildBody,
    /// Seconds since the process started.
    pub(crate) uptime_secs: u64,
    /// When the process started. RFC 3339, UTC, with milliseconds.
    pub(crate) started_at: String,
}

/// Facts of the build; `unknown` where the build did not know.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct BuildBody {
    /// Commit; `unknown` if the build did not know it.
    pub(crate) revision: &'static str,
    /// Date of the commit; `unknown` if the build did not know it.
    pub(crate) date: &'static str,
    /// Version of the compiler.
    pub(crate) rustc: &'static str,
    /// Target triple.
    pub(crate) target: &'static str,
    /// Features of the build, separated by commas; `unknown` without any.
    pub(crate) features: &'static str,
}

impl ProcessBody {
    pub(crate) fn now(worker: &GatewayView) -> ProcessBody {
        let clocks = Clocks { now: clock::now(), unix_millis: clock::unix_millis() };
        ProcessBody {
            status: if worker.shared.is_draining() { "draining" } else { "ok" },
            version: build::VERSION,
            build: BuildBody {
                revision: build::REVISION,
                date: build::DATE,
                rustc: build::RUSTC,
                target: build::TARGET,
                features: build::FEATURES,
            },
            uptime_secs: clock::uptime_seconds(),
            started_at: clocks.format(clock::started()),
        }
    }
}

view! {
    /// Public state of the configuration, without faults, which may name files and hosts.
    struct ConfigBody {
        fn now(worker: &Worker) {
            let status = &worker.shared.process.reloads.status;
            let last = status.last();
        }

        /// Number of the configuration in force, counted from 1 since the start: each reload that changes something adds 1.
        version: u64 = worker.setup.version,
        /// When that version came into force. RFC 3339, UTC, with milliseconds.
        loaded_at: String = rfc_3339(status.loaded_ms()),
        /// Result of the last reload since the start; `null` without one. After `refused` the version before it stays in
        /// force.
        #[cfg_attr(test, schemars(with = "Option<crate::base::words::ReloadResult>"))]
        last_reload: Option<&'static str> = last.as_ref().map(|reload| reload.outcome.as_str()),
        /// Whether a changed setting takes effect only after a restart.
        restart_pending: bool = last.is_some_and(|reload| !reload.pending.is_empty()),
    }
}

async fn show(worker: &Worker, slug: Option<&str>) -> Result<HttpResponse, ApiError> {
    let measurements = Measurements::now(worker).await?;
    let data = provider_bodies(worker, &measurements, slug);
    if slug.is_some() && data.is_empty() {
        return Err(ApiError::no_such("provider"));
    }
    Ok(uncached(&Data { data }))
}

/// The health of all providers or of one, enabled ones first.
pub(crate) fn provider_bodies<'a>(
    worker: &'a Worker,
    measurements: &Measurements,
    slug: Option<&str>,
) -> Vec<ProviderHealthBody<'a>> {
    let catalog = &worker.setup.catalog;
    let wanted = (0_u32..).zip(&catalog.providers);
    let wanted = wanted.filter(|(_, provider)| slug.is_none_or(|slug| provider.slug.as_str() == slug));
    let (on, off): (Vec<_>, Vec<_>) = wanted.partition(|(_, provider)| provider.is_on());
    let all = on.into_iter().chain(off);
    all.map(|(position, provider)| ProviderHealthBody::new(catalog, position, provider, measurements)).collect()
}

/// Pings all actors concurrently.
async fn checks(worker: &Worker) -> Checks {
    let control = &worker.shared.actors.control;
    let routers = worker.shared.actors.routers.all();
    let routers = routers.iter().map(|router| ask(router, router::Ping));
    let (catalog, health, ledger) = (control.catalog(), control.health(), control.ledger());
    let (catalog, health, ledger, routers) = futures_util::join!(
        ask(&catalog, CurrentCatalog),
        ask(&health, Ping),
        ask(&ledger, CountRecords { now_ms: clock::unix_millis() }),
        join_all(routers),
    );
    let published = &worker.setup.catalog;
    let measurements = Measurements { live: worker.setup.published.live.view(clock::now()), ..Measurements::default() };
    Checks {
        models: catalog
            .ok()
            .map(|catalog| catalog.models.iter().filter(|model| catalog.is_served(model, clock::today())).count()),
        health_answers: health.is_ok(),
        providers_available: measurements.available_providers(published),
        providers_configured: published.providers.len(),
        routers_answer: routers.iter().all(Result::is_ok),
        records: ledger.ok(),
        in_flight: worker.setup.admission.in_flight(),
        load: worker.setup.admission.load().read(),
    }
}
