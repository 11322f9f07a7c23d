//! `GET /admin/running`: streams in progress, oldest first.

use std::sync::Arc;

use actix_web::HttpResponse;
use pointsman_actors::{actors::ledger::ReadRunning, domain::Generation};
use serde::Serialize;

use crate::{
    api::{answer::uncached, auth::Administrator, generations::key_name, readings::rfc_3339},
    base::{clock, error::ApiError},
    state::{ask::ask, gateway::Worker},
};

/// Most streams in one answer.
const MOST: usize = 200;

/// Shows the streams that run now. Calls without a stream are only part of `in_flight`.
///
/// # Errors
/// 503 when the ledger does not answer in time.
pub(crate) async fn show(_: Administrator, worker: Worker) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&RunningBody::now(&worker).await?))
}

/// Calls in progress.
#[derive(Serialize)]
pub(crate) struct RunningBody {
    /// Streams, oldest first, at most [`MOST`].
    pub(crate) data: Vec<RunningCallBody>,
    /// All streams, those included that are not listed.
    pub(crate) total: usize,
    /// All calls in flight, with and without a stream.
    pub(crate) in_flight: u32,
}

/// One stream in progress.
#[derive(Serialize)]
pub(crate) struct RunningCallBody {
    pub(crate) id: String,
    pub(crate) created_at: String,
    pub(crate) age_ms: u64,
    /// `waiting` before the first output, then `streaming`.
    pub(crate) phase: &'static str,
    pub(crate) requested_model: String,
    /// `null` while no endpoint gave output.
    pub(crate) model: Option<String>,
    pub(crate) provider_slug: Option<String>,
    /// `null` for a key that is no longer in the configuration.
    pub(crate) key: Option<String>,
    /// Tokens of the prompt as estimated for the decision.
    pub(crate) prompt_tokens: u64,
    /// Attempts that have failed so far.
    pub(crate) failed_attempts: usize,
}

impl RunningBody {
    /// The calls that run now.
    ///
    /// # Errors
    /// 503 when the ledger does not answer in time.
    pub(crate) async fn now(worker: &Worker) -> Result<RunningBody, ApiError> {
        worker.shared.event_batchers.flush();
        let running = ask(&worker.shared.control.ledger(), ReadRunning { most: MOST }).await?;
        let now_ms = clock::unix_millis();
        let body = |call: &Arc<Generation>| RunningCallBody::new(call, key_name(worker, call.owner, call.key), now_ms);
        Ok(RunningBody {
            data: running.calls.iter().map(body).collect(),
            total: running.total,
            in_flight: worker.setup.admission.in_flight(),
        })
    }
}

impl RunningCallBody {
    fn new(call: &Generation, key: Option<String>, now_ms: i64) -> RunningCallBody {
        let has_output = call.latency_ms.is_some();
        RunningCallBody {
            id: call.id.as_str().to_owned(),
            created_at: rfc_3339(call.created_ms),
            age_ms: u64::try_from(now_ms.saturating_sub(call.created_ms)).unwrap_or_default(),
            phase: if has_output { "streaming" } else { "waiting" },
            requested_model: call.requested_model.as_ref().to_owned(),
            model: call.model.as_deref().filter(|_| has_output).map(str::to_owned),
            provider_slug: call.provider_slug.as_deref().filter(|_| has_output).map(str::to_owned),
            key,
            prompt_tokens: u64::from(call.decision.prompt_tokens),
            failed_attempts: call.attempts.len(),
        }
    }
}
