//! An endpoint that passed the hard filters: how it stands, what is expected of it, how it takes part.

use super::{
    context::DecisionContext,
    forecast::Forecast,
    live_state::{LiveState, inputs},
};
use crate::{
    domain::{EndpointId, ScoreInputs, Tick},
    stats::{EndpointStats, Gate},
};

/// When a gate opens whose probe is out: nobody knows, so after every date; and no float rounds it.
const PROBE_OUT: Tick = Tick(1 << 52);

/// Bits of a class that hold the grade.
pub(crate) const GRADE_BITS: u32 = 8;

/// How a row takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Not at all.
    Out,
    /// As a candidate.
    Candidate,
    /// As the probe of a half-open breaker.
    Probe,
    /// Past a shut gate, because nothing else is left.
    Panic,
}

/// An endpoint that passed the hard filters.
#[derive(Debug, Clone)]
pub(crate) struct PoolCandidate<'a> {
    pub stats: &'a EndpointStats,
    pub index: u32,
    /// Which of the query's targets it belongs to.
    pub target: u32,
    pub role: Role,
    /// What ranks before any score: group, then tier.
    pub class: u64,
    pub live: LiveState,
    pub forecast: Forecast,
    /// What it is ordered by within its class: its score, once it takes part. Never negative.
    pub rank: f64,
    /// The score it would have without noise.
    pub noiseless: f64,
}

/// Where among the query's targets a row belongs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TargetRank {
    target: u32,
    class: u64,
}

impl TargetRank {
    /// That of a target. Models that compete are of one class.
    pub(crate) fn of(target: u32, compete: bool) -> TargetRank {
        TargetRank { target, class: if compete { 0 } else { u64::from(target) << 32 } }
    }
}

impl<'a> PoolCandidate<'a> {
    /// An endpoint whose role is still to be found.
    pub(crate) fn of(
        context: &DecisionContext<'_>,
        place: TargetRank,
        index: u32,
        stats: &'a EndpointStats,
        live: LiveState,
    ) -> PoolCandidate<'a> {
        let inputs = inputs(stats, &live);
        let noise = context.noise.at(stats.facts.id);
        PoolCandidate {
            stats,
            index,
            target: place.target,
            role: Role::Out,
            class: place.class,
            live,
            forecast: Forecast::of(&inputs, &stats.curve, &context.rules, noise),
            rank: 0.0,
            noiseless: 0.0,
        }
    }

    /// Its stable id.
    pub(crate) fn endpoint(&self) -> EndpointId {
        self.stats.facts.id
    }

    /// Position of its provider.
    pub(crate) fn provider(&self) -> u32 {
        self.stats.facts.provider
    }

    /// Whom it ranks with before anything else: those of its target, or everybody where models compete.
    pub(crate) fn group(&self) -> u32 {
        (self.class >> 32) as u32
    }

    /// TargetRank in `provider.order`, then how well preferences are kept.
    pub(crate) fn tier(&self) -> u32 {
        self.class as u32
    }

    /// Group and place in `provider.order` alone.
    pub(crate) fn order_rank(&self) -> u64 {
        self.class >> GRADE_BITS
    }

    /// When its gate, pace or quota lets it pass, if that is a matter of time.
    pub(crate) fn until(&self) -> Tick {
        match self.live.gate {
            Gate::Probing { .. } => PROBE_OUT,
            gate => gate.until().or(self.live.due).unwrap_or_default(),
        }
    }

    /// Whether neither a gate nor a pace holds requests back.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.live.gate.is_passing() && self.live.due.is_none()
    }

    /// Everything its score was made from.
    #[inline]
    pub(crate) fn inputs(&self, context: &DecisionContext<'_>) -> ScoreInputs {
        let inputs = inputs(self.stats, &self.live);
        ScoreInputs {
            expected: self.forecast.expected(&context.rules),
            spread: self.forecast.spread(&inputs, &self.stats.curve, &context.rules),
            tier: self.tier(),
            until: self.until(),
            ..inputs
        }
    }
}
