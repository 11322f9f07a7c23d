//! Jobs that make recorded decisions again: comparisons ([`super::diff`]) and reviews ([`super::regret`]). One at a time, on a
//! thread of its own; the last one is kept.

use std::{
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use actix_web::{HttpResponse, http::header};
use pointsman_base::clock;
use pointsman_domain::{Invalid, InvalidReason};
use pointsman_ledger::traffic::Traffic;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::{
    api::{
        answer::{Data, uncached},
        auth::{Administrator, Authorized},
        models::measurements::rfc_3339,
        path_name::PathName,
    },
    base::{background, error::ApiError, events},
    state::{
        diff_job::{DiffJob, DiffState},
        gateway::Worker,
    },
};

/// What is said of a job that a panic ended.
pub(crate) const FAILED: &str = "the gateway has a fault that ended this job; calls and the next job are not concerned. Its log has \
                                 the place behind 'panic at': please report it";

/// A comparison, or a review.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct JobBody<R> {
    /// Its id.
    id: String,
    /// `running`, `done`, `no_answer`, `cancelled` or `failed`.
    #[cfg_attr(test, schemars(with = "String"))]
    state: &'static str,
    /// When it began. RFC 3339, UTC.
    started_at: String,
    /// The report, once it is done.
    #[cfg_attr(test, schemars(with = "Option<R>"))]
    report: Option<Box<RawValue>>,
    /// Why there is no answer, or that the gateway failed at it.
    why: Option<String>,
    #[serde(skip)]
    of: PhantomData<R>,
}

/// A report, by which comparisons and reviews are told apart.
pub(crate) trait JobReport: Serialize {
    /// Beginning of the ids of such jobs.
    const PREFIX: &'static str;
    /// What the log says of its begin.
    const BEGINS: &'static str;
    /// What the log says of its cancellation.
    const CANCELS: &'static str;
}

/// What a call asks for.
///
/// # Errors
/// 400 for a wrong body.
pub(super) fn asked<B: DeserializeOwned>(body: &[u8]) -> Result<B, ApiError> {
    let wrong = |error: serde_json::Error| Invalid::body(InvalidReason::InvalidValue, error.to_string());
    serde_json::from_slice(body).map_err(|error| ApiError::invalid(wrong(error)))
}

/// Begins what makes recorded decisions again, on a thread of its own.
///
/// # Errors
/// 404 without a durable ledger, 409 while another one runs.
pub(super) fn start<R: JobReport>(
    by: &Authorized,
    entered: Vec<(String, String)>,
    work: impl FnOnce(&Traffic, &AtomicBool) -> Result<R, String> + Send + 'static,
) -> Result<Arc<DiffJob>, ApiError> {
    let shared = &by.worker.shared;
    let place = by.worker.setup.config.ledger.data_dir.clone().filter(|_| shared.records.ledger.is_some());
    let place = place.ok_or_else(ApiError::no_durable_ledger)?;
    let id = format!("{}{:016x}", R::PREFIX, rand::random::<u64>());
    let begun = shared.process.diffs.begin(id, clock::unix_millis(), entered);
    let (job, running) = begun.ok_or_else(ApiError::diff_runs)?;
    events::administered(&by.caller.key.name, R::BEGINS, None);
    let report = move |stop: &AtomicBool| {
        let traffic = Traffic::open(&place).map_err(|fault| fault.to_string())?;
        serde_json::to_string(&work(&traffic, stop)?).map_err(|error| error.to_string())
    };
    let run = move |stop: &AtomicBool| match report(stop) {
        _ if stop.load(Relaxed) => DiffState::Cancelled,
        Ok(report) => DiffState::Done(report.into()),
        Err(why) => DiffState::NoAnswer(why),
    };
    if background::spawn("diff", move || running.run(run)).is_err() {
        job.end(DiffState::NoAnswer("the system gives the gateway no further thread".to_owned()));
    }
    Ok(job)
}

/// 202 with a job that was begun.
pub(super) fn accepted<R: JobReport>(job: &DiffJob) -> Result<HttpResponse, ApiError> {
    let answer = Data { data: JobBody::<R>::new(job) };
    let answer = serde_json::to_string(&answer).map_err(|_| ApiError::internal())?;
    Ok(HttpResponse::Accepted()
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .content_type(header::ContentType::json())
        .body(answer))
}

/// The last job, by its id.
///
/// # Errors
/// 404 if another one is the last, or one of the other kind.
pub(crate) fn find<R: JobReport>(worker: &Worker, id: &str) -> Result<Arc<DiffJob>, ApiError> {
    let job = worker.shared.process.diffs.find(id).filter(|job| job.id.starts_with(R::PREFIX));
    job.ok_or_else(|| ApiError::no_diff(id))
}

/// Shows the last job.
///
/// # Errors
/// As [`find`].
pub(crate) async fn show<R: JobReport>(
    _: Administrator,
    worker: Worker,
    id: PathName,
) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&Data { data: JobBody::<R>::new(&*find::<R>(&worker, &id)?) }))
}

/// Cancels the last job.
///
/// # Errors
/// As [`find`].
pub(crate) async fn cancel<R: JobReport>(by: Administrator, id: PathName) -> Result<HttpResponse, ApiError> {
    let job = find::<R>(&by.worker, &id)?;
    job.stop.store(true, Relaxed);
    events::administered(&by.caller.key.name, R::CANCELS, Some(&job.id));
    Ok(uncached(&Data { data: JobBody::<R>::new(&job) }))
}

impl<R> JobBody<R> {
    pub(super) fn new(job: &DiffJob) -> JobBody<R> {
        let (state, report, why) = match job.state() {
            DiffState::Running => ("running", None, None),
            DiffState::Done(report) => ("done", RawValue::from_string(report.as_ref().to_owned()).ok(), None),
            DiffState::NoAnswer(why) => ("no_answer", None, Some(why)),
            DiffState::Cancelled => ("cancelled", None, None),
            DiffState::Failed => ("failed", None, Some(FAILED.to_owned())),
        };
        JobBody { id: job.id.clone(), state, started_at: rfc_3339(job.started_ms), report, why, of: PhantomData }
    }
}
