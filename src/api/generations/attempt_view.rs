//! JSON of a generation's attempts: reason, times, outcome and cost of each.

use pointsman_domain::{AttemptRecord, Generation};
use serde::Serialize;

use crate::api::number::Dollars;

/// One attempt. `started_ms` counts from the acceptance of the request and includes `queue_ms`, the wait for a concurrency
/// permit of the provider. `first_byte_ms` and `first_token_ms` count from the start of the attempt, `stream_ms` from the
/// first content.
#[derive(Serialize)]
pub(crate) struct AttemptBody<'a> {
    pub(crate) n: u32,
    pub(crate) reason: &'static str,
    pub(crate) model: &'a str,
    pub(crate) provider_name: &'a str,
    pub(crate) provider_slug: &'a str,
    pub(crate) status: Option<u16>,
    pub(crate) error_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cause: Option<&'a str>,
    pub(crate) outcome: &'a str,
    pub(crate) started_ms: u64,
    pub(crate) duration_ms: u64,
    pub(crate) queue_ms: u64,
    pub(crate) connect_ms: Option<u64>,
    pub(crate) tls_ms: Option<u64>,
    pub(crate) first_byte_ms: Option<u64>,
    pub(crate) first_token_ms: Option<u64>,
    pub(crate) stream_ms: Option<u64>,
    /// `null` at an unknown price.
    pub(crate) cost: Option<Dollars>,
    /// Whether the cost rests on tokens that the gateway estimated.
    pub(crate) estimated: bool,
    /// The cost that the provider reported.
    pub(crate) reported_cost: Option<Dollars>,
}

/// Cost of hedges and failed attempts, and the total with the answer; `null` where a price is unknown.
#[derive(Serialize)]
pub(crate) struct SpentBody {
    pub(crate) hedge_cost: Option<Dollars>,
    pub(crate) failed_cost: Option<Dollars>,
    pub(crate) ledger_cost: Option<Dollars>,
}

impl<'a> AttemptBody<'a> {
    pub(crate) fn new(attempt: &'a AttemptRecord) -> AttemptBody<'a> {
        AttemptBody {
            n: attempt.n,
            reason: attempt.reason.as_str(),
            model: &attempt.model,
            provider_name: &attempt.provider_name,
            provider_slug: &attempt.provider_slug,
            status: attempt.status,
            error_type: attempt.error_type.as_deref(),
            cause: attempt.cause.as_deref(),
            outcome: attempt.outcome(),
            started_ms: attempt.started_ms,
            duration_ms: attempt.duration_ms,
            queue_ms: attempt.queue_ms,
            connect_ms: attempt.connect_ms,
            tls_ms: attempt.tls_ms,
            first_byte_ms: attempt.first_byte_ms,
            first_token_ms: attempt.first_token_ms,
            stream_ms: attempt.stream_ms,
            cost: attempt.cost.map(Dollars),
            estimated: attempt.estimated,
            reported_cost: attempt.reported_cost.map(Dollars),
        }
    }
}

impl SpentBody {
    pub(in crate::api) fn new(generation: &Generation) -> SpentBody {
        SpentBody {
            hedge_cost: generation.hedge_cost().map(Dollars),
            failed_cost: generation.failed_cost().map(Dollars),
            ledger_cost: generation.spent().map(Dollars),
        }
    }
}
