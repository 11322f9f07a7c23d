//! An endpoint that passed the hard filters: how it stands, what is expected of it, how it takes part.

use super::{
    case::Case,
    moment::{Moment, inputs},
    predict::Forecast,
    score::Scoring,
    wishes::GRADE_BITS,
};
use crate::{
    domain::{EndpointId, Inputs, Tick},
    stats::{EndpointStats, Gate},
};

/// When a gate opens whose probe is out: nobody knows, so after every date; and no float rounds it.
const PROBE_OUT: Tick = Tick(1 << 52);

/// How a row takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
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
pub(super) struct Row<'a> {
    pub stats: &'a EndpointStats,
    pub index: u32,
    /// Which of the query's targets it belongs to.
    pub target: u32,
    pub role: Role,
    /// What ranks before any score: group, then tier.
    pub class: u64,
    pub moment: Moment,
    pub forecast: Forecast,
    /// What it is ordered by within its class: its score, once it takes part. Never negative.
    pub rank: f64,
    /// The score it would have without noise.
    pub calm: f64,
}

/// Where among the query's targets a row belongs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    target: u32,
    class: u64,
}

impl Place {
    /// That of a target. Models that compete are of one class.
    pub(super) fn of(target: u32, compete: bool) -> Place {
        Place { target, class: if compete { 0 } else { u64::from(target) << 32 } }
    }
}

impl<'a> Row<'a> {
    /// That of an endpoint at which nothing is the matter, as it is with most of them: arithmetic from one end to the
    /// other, without a call around which the figures at hand would have to be put aside.
    #[inline(always)]
    pub(super) fn at_ease(case: &Case<'a>, place: Place, index: u32, stats: &'a EndpointStats) -> Option<Row<'a>> {
        let moment = Moment::at_ease(case, stats, case.live.endpoint(index))?;
        let inputs = inputs(case, stats, &moment);
        let forecast = Forecast::at_ease(&inputs, stats, &case.rules, || case.noise.at(stats.facts.id))?;
        Some(Row { role: Role::Candidate, ..Row::new(place, index, stats, moment, forecast) })
    }

    /// That of any endpoint, whose role is still to be found.
    #[inline]
    pub(super) fn of(case: &Case<'_>, place: Place, index: u32, stats: &'a EndpointStats, moment: Moment) -> Row<'a> {
        let inputs = inputs(case, stats, &moment);
        let forecast = Forecast::of(&inputs, &stats.curve, &case.rules, case.noise.at(stats.facts.id));
        Row::new(place, index, stats, moment, forecast)
    }

    #[inline(always)]
    fn new(place: Place, index: u32, stats: &'a EndpointStats, moment: Moment, forecast: Forecast) -> Row<'a> {
        Row {
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
    pub(super) fn endpoint(&self) -> EndpointId {
        self.stats.facts.id
    }

    /// Position of its provider.
    pub(super) fn provider(&self) -> u32 {
        self.stats.facts.provider
    }

    /// Whom it ranks with before anything else: those of its target, or everybody where models compete.
    pub(super) fn group(&self) -> u32 {
        (self.class >> 32) as u32
    }

    /// Place in `provider.order`, then how well preferences are kept.
    pub(super) fn tier(&self) -> u32 {
        self.class as u32
    }

    /// Group and place in `provider.order` alone.
    pub(super) fn wish(&self) -> u64 {
        self.class >> GRADE_BITS
    }

    /// When its gate, pace or quota lets it pass, if that is a matter of time.
    pub(super) fn until(&self) -> Tick {
        match self.moment.gate {
            Gate::Probing { .. } => PROBE_OUT,
            gate => gate.until().or(self.moment.due).unwrap_or_default(),
        }
    }

    /// Whether neither a gate nor a pace holds requests back.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.moment.gate.is_passing() && self.moment.due.is_none()
    }

    /// Its score, were nothing in its cache.
    pub(super) fn uncached_score(&self, case: &Case<'_>, scoring: &Scoring) -> f64 {
        let moment = self.moment;
        let moment = Moment { cached_tokens: 0, saving: 0.0, cost: moment.uncached_cost(), ..moment };
        let inputs = inputs(case, self.stats, &moment);
        let forecast = Forecast::of(&inputs, &self.stats.curve, &case.rules, case.noise.at(self.endpoint()));
        scoring.score(&forecast, moment.cost)
    }

    /// Adds how likely its answer is too slow.
    #[inline(always)]
    pub(super) fn add_slowness(&mut self, case: &Case<'_>) {
        let inputs = inputs(case, self.stats, &self.moment);
        self.forecast = self.forecast.with_slowness(&inputs, &case.rules);
    }

    /// Everything its score was made from.
    #[inline]
    pub(super) fn inputs(&self, case: &Case<'_>) -> Inputs {
        let inputs = inputs(case, self.stats, &self.moment);
        Inputs {
            expected: self.forecast.expected(&inputs, &case.rules),
            spread: self.forecast.spread(&inputs, &self.stats.curve, &case.rules),
            tier: self.tier(),
            until: self.until(),
            ..inputs
        }
    }
}
