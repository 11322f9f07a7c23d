//! The gates that a decision met, for its record.

use super::{context::DecisionContext, pool::CandidatePool};
use crate::{domain::RecordedGate, stats::Gate};

/// Every endpoint of the pool with a refusing or half-open gate, whether or not it was excluded for that.
pub(crate) fn recorded(context: &DecisionContext<'_>, pool: &CandidatePool<'_>) -> Vec<RecordedGate> {
    // Without refused rows every gate passes.
    let rows = if pool.counts.held == 0 { &[] } else { &*pool.rows };
    let rows = rows.iter().map(|row| (row.index, row.live.gate));
    let excluded = pool.excluded.iter().map(|excluded| (excluded.index, gate(context, excluded.index)));
    let closed = |(index, gate): (u32, Gate)| gate.state().map(|(state, until)| RecordedGate { index, state, until });
    rows.chain(excluded).filter_map(closed).collect()
}

fn gate(context: &DecisionContext<'_>, index: u32) -> Gate {
    let provider = context.catalog.endpoint(index).map_or(Gate::Passing, |at| context.live.provider(at.provider).gate);
    context.live.endpoint(index).gate.and(provider)
}
