//! The gates that a decision met, as it records them.

use super::{context::DecisionContext, pool::CandidatePool};
use crate::{domain::RecordedGate, stats::Gate};

/// Every endpoint of the pool whose gate does not let every request pass, whether or not it was excluded for that.
pub(crate) fn recorded(case: &DecisionContext<'_>, field: &CandidatePool<'_>) -> Vec<RecordedGate> {
    // Where no row is held back, every row passed.
    let rows = if field.counts.held == 0 { &[] } else { &*field.rows };
    let rows = rows.iter().map(|row| (row.index, row.moment.gate));
    let excluded = field.excluded.iter().map(|excluded| (excluded.index, gate(case, excluded.index)));
    let closed = |(index, gate): (u32, Gate)| gate.state().map(|(state, until)| RecordedGate { index, state, until });
    rows.chain(excluded).filter_map(closed).collect()
}

fn gate(case: &DecisionContext<'_>, index: u32) -> Gate {
    let provider = case.catalog.endpoint(index).map_or(Gate::Passing, |at| case.live.provider(at.provider).gate);
    case.live.endpoint(index).gate.and(provider)
}
