//! Ratings of answers: `/generations/{id}/feedback`, and many at once at `/feedback`.
//!
//! An answer is rated by the account that got it, or by an administrator. It can be rated for seven days, or for as long as the ledger
//! has its record.

use std::{sync::Arc, time::Instant};

use actix_web::{HttpResponse, http::header, web};
use futures_util::{StreamExt as _, stream};
use pointsman_base::clock;
use pointsman_config::Scope;
use pointsman_dialect::refuse_repeated;
use pointsman_domain::{Generation, GenerationId, GenerationStatus, Invalid, InvalidReason, RatingSource};
use pointsman_ledger::{generations::GenerationStore, ratings::RatedAnswer};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::{
    feedback_body::RatingBody,
    feedback_view::{BatchRatedBody, RatedBody, RatingsBody, WithdrawnBody, views},
    generation_list::unreadable,
    lookup,
};
use crate::{
    access::{keys::Caller, lease::Moment},
    api::{answer::uncached, auth::Authorized, path_name::PathName, query_parameters::QueryParameters},
    base::{error::ApiError, events::QualityDrifted},
    state::{
        feedback::{ChangeKind, Outcome, RatingChange},
        gateway::Worker,
    },
};

/// Most ratings of a batch.
const MOST: usize = 1_000;
/// Look-ups of a batch at the same time: one waits 0.6 s where replicas share records and none has this one.
const AT_ONCE: usize = 32;
/// Answers that requests name as rejected, and that are looked up and rated at the same time.
static REJECTIONS: Semaphore = Semaphore::const_new(32);
/// Age at which an answer is rated no more.
const MOST_AGE_MS: i64 = 7 * 24 * 60 * 60 * 1_000;

/// Rates an answer.
///
/// # Errors
/// 400 for a wrong member, 403 for a key that may neither call models nor administrate, 404 for an id that the caller may not read, 409
/// while the answer is running, 410 when it is too old, 429 at a limit of the key or after ten ratings, 503 when the disk fails.
pub(crate) async fn rate(by: Authorized, payload: web::Payload, id: PathName) -> Result<HttpResponse, ApiError> {
    let ledger = may_rate(&by)?;
    let _admitted = by.worker.setup.admission.admit(&by.caller, Moment::at(Instant::now()))?;
    let rating = RatingBody::read(&json(&by, payload).await?, "", &by.worker.setup.config.feedback.labels)?;
    let change = change(&by.caller, &by.worker, &ledger, &id, &rating).await?;
    let outcome = make(&by.worker, ledger, vec![change]).await?.pop().ok_or_else(ApiError::internal)?;
    if outcome == Outcome::TooMany {
        return Err(ApiError::too_many_ratings());
    }
    accepted(&RatedBody::of(outcome))
}

/// Rates the answer that a request names in its tags as rejected: `previous_generation_id`, and `rejected` as true. What comes of it
/// concerns no request, so this returns at once, and beyond [`REJECTIONS`] under way it does nothing.
pub(crate) fn reject_previous(tags: &[(String, String)], caller: &Arc<Caller>, worker: &Worker) {
    let tag = |name: &str| tags.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let Some(id) = tag("previous_generation_id").filter(|_| tag("rejected") == Some("true")) else { return };
    let (Some(ledger), Ok(turn)) = (worker.shared.records.ledger.clone(), REJECTIONS.try_acquire()) else { return };
    let (id, caller, worker) = (id.to_owned(), Arc::clone(caller), worker.clone());
    actix_rt::spawn(async move {
        let _turn = turn;
        let rated = async {
            let change = change(&caller, &worker, &ledger, &id, &RatingBody::rejection()).await?;
            make(&worker, Arc::clone(&ledger), vec![change]).await
        };
        if let Err(error) = rated.await {
            log::debug!(event = "feedback"; "an answer that a request names is not rated: {}", error.finest_reason());
        }
    });
}

/// Rates up to a thousand answers. A rating that cannot be recorded stops no other.
///
/// # Errors
/// As [`rate`]; what concerns one answer alone is told in its place.
pub(crate) async fn rate_many(by: Authorized, payload: web::Payload) -> Result<HttpResponse, ApiError> {
    let ledger = may_rate(&by)?;
    let _admitted = by.worker.setup.admission.admit(&by.caller, Moment::at(Instant::now()))?;
    let body = json(&by, payload).await?;
    let ratings = body.as_array().filter(|ratings| ratings.len() <= MOST).ok_or_else(|| {
        let message = format!("The body must be a list of at most {MOST} ratings.");
        Invalid::body(InvalidReason::InvalidValue, message)
    })?;
    let labels = &by.worker.setup.config.feedback.labels;
    let read = |(at, rating)| RatingBody::read(rating, &format!("[{at}]"), labels);
    let ratings: Vec<RatingBody> = ratings.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    let found = stream::iter(&ratings).map(|rating| {
        let id = rating.generation.as_deref().unwrap_or_default();
        change(&by.caller, &by.worker, &ledger, id, rating)
    });
    let found: Vec<_> = found.buffered(AT_ONCE).collect().await;
    if let Some(Err(error)) = found.iter().find(|found| found.as_ref().is_err_and(ApiError::is_capacity_error)) {
        return Err(error.clone());
    }
    let refused: Vec<_> = found.iter().map(|found| found.as_ref().err().map(ApiError::finest_reason)).collect();
    let mut outcomes = make(&by.worker, ledger, found.into_iter().flatten().collect()).await?.into_iter();
    let mut rated = |refused: Option<&'static str>| match refused {
        Some(reason) => RatedBody::refused(reason),
        None => outcomes.next().map_or(RatedBody::refused("not_stored"), RatedBody::of),
    };
    let data = ratings.into_iter().zip(refused).map(|(rating, refused)| BatchRatedBody {
        generation_id: rating.generation.unwrap_or_default(),
        rated: rated(refused),
    });
    accepted(&BatchBody { data: data.collect() })
}

/// Shows the ratings of an answer.
///
/// # Errors
/// 404 for an id that the caller may not read, 503 when the ledger does not answer.
pub(crate) async fn show(by: Authorized, id: PathName) -> Result<HttpResponse, ApiError> {
    let ledger = may_see(&by)?;
    QueryParameters::read(by.query(), &[])?;
    let id = lookup::find(&by.worker, &by.caller, Some(id.to_owned())).await?.id;
    let ratings = web::block(move || ledger.ratings_of(id)).await.map_err(|_| ApiError::internal())?;
    Ok(uncached(&RatingsBody { data: views(&ratings.map_err(unreadable)?) }))
}

/// Withdraws ratings of an answer: all, or those of a `name`, of a `source`, or of both.
///
/// # Errors
/// As [`show`], and 429 at a limit of the key.
pub(crate) async fn withdraw(by: Authorized, id: PathName) -> Result<HttpResponse, ApiError> {
    let ledger = may_rate(&by)?;
    let _admitted = by.worker.setup.admission.admit(&by.caller, Moment::at(Instant::now()))?;
    let query = QueryParameters::read(by.query(), &["name", "source"])?;
    let source = query.get("source").map(|name| {
        RatingSource::named(name).ok_or_else(|| {
            let allowed = RatingSource::ALL.map(RatingSource::as_str).join(", ");
            ApiError::bad_query("source", format!("'source' must be one of {allowed}."))
        })
    });
    let kind = ChangeKind::Withdraw { name: query.get("name").map(Box::from), source: source.transpose()? };
    let generation = lookup::find(&by.worker, &by.caller, Some(id.to_owned())).await?;
    let change = RatingChange { answer: RatedAnswer::of(&generation), kind };
    let outcomes = make(&by.worker, ledger, vec![change]).await?;
    let withdrawn = outcomes.first().map_or(0, |outcome| match outcome {
        Outcome::Withdrawn(count) => *count,
        _ => 0,
    });
    Ok(uncached(&WithdrawnBody { withdrawn }))
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(crate) struct BatchBody {
    /// What became of each rating, in their order.
    data: Vec<BatchRatedBody>,
}

/// The ledger, for a caller that may rate answers.
fn may_rate(by: &Authorized) -> Result<Arc<GenerationStore>, ApiError> {
    by.caller.require(Scope::Feedback)?;
    by.worker.shared.records.ledger.clone().ok_or_else(ApiError::no_durable_ratings)
}

/// The same for one that only looks.
fn may_see(by: &Authorized) -> Result<Arc<GenerationStore>, ApiError> {
    by.caller.require(Scope::Read).or_else(|_| by.caller.require(Scope::Feedback))?;
    by.worker.shared.records.ledger.clone().ok_or_else(ApiError::no_durable_ratings)
}

async fn json(by: &Authorized, payload: web::Payload) -> Result<Value, ApiError> {
    let body = by.read_json(payload).await?;
    let invalid = || Invalid::body(InvalidReason::InvalidJson, "The body must be JSON, such as {\"value\": true}.");
    let value = serde_json::from_slice(&body).map_err(|_| invalid())?;
    // It names the member, which may be a text.
    refuse_repeated(&body).map_err(|_| invalid())?;
    Ok(value)
}

/// The rating of an answer of the caller, checked but for the number of ratings.
async fn change(
    caller: &Caller,
    worker: &Worker,
    ledger: &Arc<GenerationStore>,
    id: &str,
    rating: &RatingBody,
) -> Result<RatingChange, ApiError> {
    let now_ms = clock::unix_millis();
    let generation = rated_generation(caller, worker, ledger, id, now_ms).await?;
    if generation.status == GenerationStatus::Running {
        return Err(ApiError::rated_while_running());
    }
    let kind = ChangeKind::Rate(rating.rating(caller.owner, now_ms));
    Ok(RatingChange { answer: RatedAnswer::of(&generation), kind })
}

/// The generation with this id, if it may be rated by the caller and now. Whether an id is too old is told from the id alone, so that
/// foreign and unknown ids get the same answer.
async fn rated_generation(
    caller: &Caller,
    worker: &Worker,
    ledger: &Arc<GenerationStore>,
    id: &str,
    now_ms: i64,
) -> Result<Arc<Generation>, ApiError> {
    let parsed = GenerationId::parse(id).ok_or_else(ApiError::unknown_generation)?;
    let seconds = parsed.parts().0.and_then(|seconds| i64::try_from(seconds).ok()).unwrap_or(i64::MAX);
    let made_ms = seconds.saturating_mul(1_000);
    if made_ms < now_ms.saturating_sub(MOST_AGE_MS) {
        return Err(ApiError::rated_too_late());
    }
    let found = lookup::find(worker, caller, Some(id.to_owned())).await;
    if found.is_err() {
        let ledger = Arc::clone(ledger);
        let size = web::block(move || ledger.entries().size()).await.map_err(|_| ApiError::internal())?;
        if size.is_ok_and(|size| size.aged_out_ms.is_some_and(|gone_ms| made_ms <= gone_ms)) {
            return Err(ApiError::rated_too_late());
        }
    }
    found
}

/// Makes changes on a thread that may block, and tells of what they reveal.
async fn make(
    worker: &Worker,
    ledger: Arc<GenerationStore>,
    changes: Vec<RatingChange>,
) -> Result<Vec<Outcome>, ApiError> {
    let shared = Arc::clone(&worker.shared);
    let made = web::block(move || shared.records.feedback.change(&ledger, &changes)).await;
    let (outcomes, drifts) = made.map_err(|_| ApiError::internal())?.map_err(ApiError::unstored_rating)?;
    for found in &drifts {
        QualityDrifted { model: &found.model, task: found.task, drift: found.drift }.emit();
    }
    Ok(outcomes)
}

fn accepted(body: &impl Serialize) -> Result<HttpResponse, ApiError> {
    Ok(HttpResponse::Accepted().insert_header((header::CACHE_CONTROL, "no-store")).json(body))
}
