//! Jobs that make recorded decisions again: comparisons ([`super::diff`]) and reviews ([`super::regret`]). One at a time, on a
//! thread of its own; the last one is kept.

use std::{
    marker::PhantomData,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
};

use actix_web::{HttpResponse, http::header};
use pointsman_base::clock;
use pointsman_ledger::traffic::Traffic;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    api::{
        answer::{Data, uncached},
        auth::Authorized,
        models::measurements::rfc_3339,
    },
    base::{error::ApiError, events},
    state::{
        diff_job::{DiffJob, DiffState},
        gateway::Worker,
    },
};

/// A comparison, or a review.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct JobBody<R> {
    /// Its id.
    id: String,
    /// `running`, `done`, `no_answer` or `cancelled`.
    #[cfg_attr(test, schemars(with = "String"))]
    state: &'static str,
    /// When it began. RFC 3339, UTC.
    started_at: String,
    /// The report, once it is done.
    #[cfg_attr(test, schemars(with = "Option<R>"))]
    report: Option<Box<RawValue>>,
    /// Why there is no answer.
    why: Option<String>,
    #[serde(skip)]
    of: PhantomData<R>,
}

/// Begins what makes recorded decisions again, on a thread of its own. `work` gives the report as JSON.
///
/// # Errors
/// 404 without a durable ledger, 409 while another one runs.
pub(super) fn start(
    by: &Authorized,
    (prefix, what): (&str, &str),
    entered: Vec<(String, String)>,
    work: impl FnOnce(&Traffic, &DiffJob) -> Result<String, String> + Send + 'static,
) -> Result<Arc<DiffJob>, ApiError> {
    let place = by.worker.setup.config.ledger.data_dir.clone().filter(|_| by.worker.shared.records.ledger.is_some());
    let place = place.ok_or_else(ApiError::no_durable_ledger)?;
    let id = format!("{prefix}{:016x}", rand::random::<u64>());
    let job =
        by.worker.shared.process.diffs.begin(id, clock::unix_millis(), entered).ok_or_else(ApiError::diff_runs)?;
    events::administered(&by.caller.key.name, what, None);
    let running = Arc::clone(&job);
    let run = move || {
        let report = Traffic::open(&place).map_err(|fault| fault.to_string()).and_then(|all| work(&all, &running));
        running.end(match report {
            _ if running.stop.load(Relaxed) => DiffState::Cancelled,
            Ok(report) => DiffState::Done(report.into()),
            Err(why) => DiffState::NoAnswer(why),
        });
    };
    if thread::Builder::new().name("diff".to_owned()).spawn(run).is_err() {
        job.end(DiffState::NoAnswer("the system gives the gateway no further thread".to_owned()));
    }
    Ok(job)
}

/// 202 with a job that was begun.
pub(super) fn accepted(job: &impl Serialize) -> Result<HttpResponse, ApiError> {
    let answer = serde_json::to_string(&Data { data: job }).map_err(|_| ApiError::internal())?;
    Ok(HttpResponse::Accepted()
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .content_type(header::ContentType::json())
        .body(answer))
}

/// The last job, by its id, which begins with `prefix`.
pub(super) fn found(worker: &Worker, prefix: &str, id: &str) -> Result<Arc<DiffJob>, ApiError> {
    let job = worker.shared.process.diffs.find(id).filter(|job| job.id.starts_with(prefix));
    job.ok_or_else(|| ApiError::no_diff(id))
}

pub(super) fn shown<R: Serialize>(worker: &Worker, prefix: &str, id: &str) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&Data { data: JobBody::<R>::new(&*found(worker, prefix, id)?) }))
}

/// Cancels the last job, by its id, which begins with `prefix`; `what` it is, for the log.
pub(super) fn cancelled<R: Serialize>(
    by: &Authorized,
    (prefix, what): (&str, &str),
    id: &str,
) -> Result<HttpResponse, ApiError> {
    let job = found(&by.worker, prefix, id)?;
    job.stop.store(true, Relaxed);
    events::administered(&by.caller.key.name, &format!("cancels {what}"), Some(&job.id));
    Ok(uncached(&Data { data: JobBody::<R>::new(&job) }))
}

impl<R> JobBody<R> {
    pub(super) fn new(job: &DiffJob) -> JobBody<R> {
        let (state, report, why) = match job.state() {
            DiffState::Running => ("running", None, None),
            DiffState::Done(report) => ("done", RawValue::from_string(report.as_ref().to_owned()).ok(), None),
            DiffState::NoAnswer(why) => ("no_answer", None, Some(why)),
            DiffState::Cancelled => ("cancelled", None, None),
        };
        JobBody { id: job.id.clone(), state, started_at: rfc_3339(job.started_ms), report, why, of: PhantomData }
    }
}
