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
    pub moment: LiveState,
    pub forecast: Forecast,
    /// What it is ordered by within its class: its score, once it takes part. Never negative.
    pub rank: f64,
    /// The score it would have without noise.
    pub calm: f64,
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
    /// That of an endpoint at which nothing is the matter, as it is with most of them: arithmetic from one end to the
    /// other, without a call around which the figures at hand would have to be put aside.
    #[inline(always)]
    pub(crate) fn at_ease(
        case: &DecisionContext<'a>,
        place: TargetRank,
        index: u32,
        stats: &'a EndpointStats,
    ) -> Option<PoolCandidate<'a>> {
        let moment = LiveState::at_ease(case, stats, case.live.endpoint(index))?;
        let inputs = inputs(stats, &moment);
        let forecast = Forecast::at_ease(&inputs, stats, &case.rules, || case.noise.at(stats.facts.id))?;
        Some(PoolCandidate { role: Role::Candidate, ..PoolCandidate::new(place, index, stats, moment, forecast) })
    }

    /// That of any endpoint, whose role is still to be found.
    #[inline]
    pub(crate) fn of(
        case: &DecisionContext<'_>,
        place: TargetRank,
        index: u32,
        stats: &'a EndpointStats,
        moment: LiveState,
    ) -> PoolCandidate<'a> {
        let inputs = inputs(stats, &moment);
        let forecast = Forecast::of(&inputs, &stats.curve, &case.rules, case.noise.at(stats.facts.id));
        PoolCandidate::new(place, index, stats, moment, forecast)
    }

    #[inline(always)]
    fn new(
        place: TargetRank,
        index: u32,
        stats: &'a EndpointStats,
        moment: LiveState,
        forecast: Forecast,
    ) -> PoolCandidate<'a> {
        PoolCandidate {
            stats,
            index,
            target: place.target,
            role: Role::Out,
            class: place.class,
            moment,
            forecast,
            rank: 0.0,
            calm: 0.0,
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
    pub(crate) fn wish(&self) -> u64 {
        self.class >> GRADE_BITS
    }

    /// When its gate, pace or quota lets it pass, if that is a matter of time.
    pub(crate) fn until(&self) -> Tick {
        match self.moment.gate {
            Gate::Probing { .. } => PROBE_OUT,
            gate => gate.until().or(self.moment.due).unwrap_or_default(),
        }
    }

    /// Whether neither a gate nor a pace holds requests back.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.moment.gate.is_passing() && self.moment.due.is_none()
    }

    /// Adds how likely its answer is too slow.
    #[inline(always)]
    pub(crate) fn add_slowness(&mut self, case: &DecisionContext<'_>) {
        let inputs = inputs(self.stats, &self.moment);
        self.forecast = self.forecast.with_slowness(&inputs, &case.rules);
    }

    /// Everything its score was made from.
    #[inline]
    pub(crate) fn inputs(&self, case: &DecisionContext<'_>) -> ScoreInputs {
        let inputs = inputs(self.stats, &self.moment);
        ScoreInputs {
            expected: self.forecast.expected(&inputs, &case.rules),
            spread: self.forecast.spread(&inputs, &self.stats.curve, &case.rules),
            tier: self.tier(),
            until: self.until(),
            ..inputs
        }
    }
}
