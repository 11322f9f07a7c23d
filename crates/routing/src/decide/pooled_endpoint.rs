//! An endpoint that passed the hard filters, with its live state, forecast and role.

use pointsman_domain::{EndpointId, Reopens, ScoreInputs};

use super::{
    context::DecisionContext,
    forecast::Forecast,
    live_state::{LiveState, inputs},
    precedence::Precedence,
};
use crate::stats::{EndpointStats, Gate};

/// Role in the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// None yet, or none: excluded for now.
    Excluded,
    /// Called in the order of the scores.
    Candidate,
    /// Probe of a half-open breaker.
    Probe,
    /// Called although its gate or its pace refuses requests, because no candidate is left: what proxies call panic mode.
    Panic,
}

/// An endpoint that passed the hard filters: a candidate if its role says so.
#[derive(Debug, Clone)]
pub(crate) struct PooledEndpoint<'a> {
    pub stats: &'a EndpointStats,
    pub index: u32,
    pub target: u32,
    pub role: Role,
    /// Rank before any score.
    pub precedence: Precedence,
    pub live: LiveState,
    pub forecast: Forecast,
    /// Rank within the same precedence: the score, once it has a role. Never negative.
    pub rank: f64,
    /// The score without noise.
    pub noiseless: f64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct TargetRank {
    target: u32,
    pub precedence: Precedence,
}

impl TargetRank {
    /// Rank of a target. Competing models share one.
    pub(crate) fn new(target: u32, compete: bool) -> TargetRank {
        TargetRank { target, precedence: Precedence::of_group(if compete { 0 } else { target }) }
    }
}

impl<'a> PooledEndpoint<'a> {
    /// An endpoint that no role was given yet.
    pub(crate) fn new(
        context: &DecisionContext<'_>,
        rank: TargetRank,
        index: u32,
        stats: &'a EndpointStats,
        live: LiveState,
    ) -> PooledEndpoint<'a> {
        let inputs = inputs(stats, &live);
        let noise = context.noise.at(stats.facts.id);
        PooledEndpoint {
            stats,
            index,
            target: rank.target,
            role: Role::Excluded,
            precedence: rank.precedence,
            live,
            forecast: Forecast::new(&inputs, &stats.curve, &context.rules, noise),
            rank: 0.0,
            noiseless: 0.0,
        }
    }

    #[inline]
    pub(crate) fn endpoint(&self) -> EndpointId {
        self.stats.facts.id
    }

    #[inline]
    pub(crate) fn provider(&self) -> u32 {
        self.stats.facts.provider
    }

    /// Group and position in `provider.order`.
    pub(crate) fn order_rank(&self) -> Precedence {
        self.precedence.without_grade()
    }

    /// When its gate, pacing or quota allows a request.
    pub(crate) fn reopens(&self) -> Reopens {
        match self.live.gate {
            Gate::Probing { .. } => Reopens::AfterProbe,
            gate => gate.until().or(self.live.due).map_or(Reopens::Now, Reopens::At),
        }
    }

    /// Whether neither a gate nor pacing refuses requests.
    #[inline]
    pub(crate) fn accepts_requests(&self) -> bool {
        self.live.gate.is_passing() && self.live.due.is_none()
    }

    #[inline]
    pub(crate) fn inputs(&self, context: &DecisionContext<'_>) -> ScoreInputs {
        let inputs = inputs(self.stats, &self.live);
        ScoreInputs {
            expected: self.forecast.expected(&context.rules),
            spread: self.forecast.spread(&inputs, &self.stats.curve, &context.rules),
            tier: self.precedence.tier(),
            reopens: self.reopens(),
            ..inputs
        }
    }
}
