//! Gates that changed, for those who publish it.

use pointsman_domain::{FailureCause, Tick};

use super::{
    breaker::{Breaker, PassedAs},
    gate::Gate,
};

/// Gates that changed when a claim was finished or its answer began.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BreakerChange {
    /// Position of the endpoint.
    pub index: u32,
    /// Position of its provider.
    pub provider: u32,
    /// Change of the endpoint's gate.
    pub endpoint_gate: Option<GateChange>,
    /// Change of the provider's gate.
    pub provider_gate: Option<GateChange>,
    /// The failure that caused it; `None` if the probe was answered.
    pub cause: Option<FailureCause>,
}

/// Change from one gate to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GateChange {
    /// Before.
    pub from: Gate,
    /// After.
    pub to: Gate,
}

/// Tells the breaker that the answer of a request has begun.
pub(crate) fn begun(breaker: &mut Breaker, now: Tick, passed_as: PassedAs) -> Option<GateChange> {
    let from = breaker.gate(now);
    breaker.begin_answer(passed_as);
    moved(from, breaker.gate(now))
}

/// The change, if it is one.
pub(crate) fn moved(from: Gate, to: Gate) -> Option<GateChange> {
    (std::mem::discriminant(&from) != std::mem::discriminant(&to)).then_some(GateChange { from, to })
}
