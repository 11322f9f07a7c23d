//! Who could take part: the endpoints behind a request's targets, screened and forecast.

use super::{
    candidate::{PoolCandidate, Role, TargetRank},
    context::DecisionContext,
    exclusion::{behind, shut},
    filter::{HardFilters, purpose},
    live_state::LiveState,
    preferences::tier,
};
use crate::{
    domain::{ExcludedEndpoint, Target, Tick},
    stats::{EndpointStats, Facts, Gate},
};

/// The endpoints of a request's pool, sorted into those that may serve and those that may not.
#[derive(Debug, Default)]
pub(crate) struct CandidatePool<'a> {
    pub rows: Vec<PoolCandidate<'a>>,
    pub excluded: Vec<ExcludedEndpoint>,
    /// Expected cost of what passed the hard filters and is no row.
    pub costs: Vec<f64>,
    /// When the earliest gate that lets nobody pass will open.
    pub opens: Option<Tick>,
    /// Saves looking for rows that need more thought.
    pub counts: Counts,
}

/// How many rows do not serve as things are, and how many of them are only saturated, or half-open.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub held: usize,
    pub saturated: usize,
    pub half_open: usize,
}

/// What was found out about an endpoint of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Never,
    Excluded,
    Passed,
}

impl<'a> CandidatePool<'a> {
    /// The pool of the case's query, target by target. An endpoint that several targets stand for belongs to the
    /// first for which it passes.
    pub(crate) fn of(case: &DecisionContext<'a>) -> CandidatePool<'a> {
        let mut field = CandidatePool::default();
        let several = case.query.targets.len() > 1;
        let mut seen = if several { vec![Seen::Never; case.catalog.endpoints.len()] } else { Vec::new() };
        for (target, asked) in (0_u32..).zip(&case.query.targets) {
            let place = TargetRank::of(target, case.query.routing.provider.across_models);
            match *asked {
                Target::Model(position) => field.enter_model(case, place, position, &mut seen),
                Target::Alias(position) => field.enter_alias(case, place, position, &mut seen),
            }
        }
        if case.has_wishes {
            field.rows.iter_mut().for_each(|row| row.class |= u64::from(tier(case, row)));
        }
        if case.rules.minds_slowness() {
            add_slowness(case, &mut field.rows);
        }
        field
    }

    /// Whether nothing but their scores orders the rows, probes aside.
    pub(crate) fn is_of_one_class(&self, case: &DecisionContext<'_>) -> bool {
        let has_one_target = case.query.targets.len() < 2 && !case.has_wishes;
        has_one_target || self.rows.is_sorted_by(|row, next| row.class == next.class)
    }

    fn enter_model(&mut self, case: &DecisionContext<'a>, place: TargetRank, position: u32, seen: &mut [Seen]) {
        let screen = HardFilters::new(case.catalog, &case.snapshot.lengths, case.query, None);
        let endpoints = case.catalog.model(position).map_or(&[][..], |model| &model.endpoints);
        for &index in endpoints {
            let Some(stats) = case.snapshot.endpoints.get(index as usize) else { continue };
            if screen.passes(&stats.facts) && seen.is_empty() || self.admits(&screen, index, stats, seen) {
                self.pass(case, place, index, stats);
            }
        }
    }

    fn enter_alias(&mut self, case: &DecisionContext<'a>, place: TargetRank, position: u32, seen: &mut [Seen]) {
        let screen = HardFilters::new(case.catalog, &case.snapshot.lengths, case.query, case.catalog.alias(position));
        let endpoints = &case.snapshot.endpoints;
        self.rows.reserve(endpoints.len());
        for (index, stats) in (0_u32..).zip(endpoints) {
            if screen.passes(&stats.facts) && seen.is_empty()
                || is_in_pool(case, &stats.facts) && self.admits(&screen, index, stats, seen)
            {
                self.pass(case, place, index, stats);
            }
        }
    }

    /// Whether an endpoint of the pool passes the hard filters, and for the first time. If it is refused, it is excluded.
    #[inline(never)]
    fn admits(&mut self, screen: &HardFilters<'a>, index: u32, stats: &EndpointStats, seen: &mut [Seen]) -> bool {
        let before = seen.get(index as usize).copied().unwrap_or(Seen::Never);
        if before == Seen::Passed {
            return false;
        }
        let refusal = screen.refusal_of(index, &stats.facts);
        let refused = refusal.is_some();
        if let Some(seen) = seen.get_mut(index as usize) {
            *seen = if refused { Seen::Excluded } else { Seen::Passed };
        }
        match (before, refusal) {
            (Seen::Never, Some((reason, detail))) => {
                self.excluded.push(ExcludedEndpoint { index, endpoint: stats.facts.id, reason, detail });
            }
            (Seen::Excluded, None) => self.excluded.retain(|excluded| excluded.index != index),
            _ => {}
        }
        !refused
    }

    /// An endpoint that no hard filter refuses.
    #[inline(always)]
    fn pass(&mut self, case: &DecisionContext<'a>, place: TargetRank, index: u32, stats: &'a EndpointStats) {
        match PoolCandidate::at_ease(case, place, index, stats) {
            Some(row) => self.rows.push(row),
            None => self.pass_in_full(case, place, index, stats),
        }
    }

    /// The same where anything may be the matter. Behind a gate that lets nobody pass it only counts for the costs. A
    /// call of its own: most endpoints are spared it.
    #[inline(never)]
    fn pass_in_full(&mut self, case: &DecisionContext<'a>, place: TargetRank, index: u32, stats: &'a EndpointStats) {
        let moment = LiveState::of(case, stats, case.live.endpoint(index));
        if let Gate::Cooling { until } | Gate::ConfigFault { until } = moment.gate {
            self.costs.push(moment.uncached_cost());
            self.opens = Some(self.opens.map_or(until, |opens| opens.min(until)));
            let (failures, last) = behind(case, index, stats.facts.provider, moment.gate);
            self.excluded.push(shut((index, stats.facts.id), moment.gate, case.now, failures, last));
            return;
        }
        let mut row = PoolCandidate::of(case, place, index, stats, moment);
        let (open, saturated) =
            (row.is_open(), case.is_saturated(row.forecast.load, row.stats.estimates.fit.knee_is_sure));
        if open && !saturated {
            row.role = Role::Candidate;
        } else {
            self.counts.held += 1;
            self.counts.saturated += usize::from(open);
            self.counts.half_open += usize::from(!open && matches!(row.moment.gate, Gate::HalfOpen { .. }));
        }
        self.rows.push(row);
    }
}

/// Adds how likely answers are too slow. A call of its own: as a loop without anything beside it, it is worked off two rows at
/// a time.
#[inline(never)]
fn add_slowness(case: &DecisionContext<'_>, rows: &mut [PoolCandidate<'_>]) {
    for row in rows {
        row.add_slowness(case);
    }
}

/// An alias stands for every endpoint of a model that gives what the call is for, at a provider that is on.
fn is_in_pool(case: &DecisionContext<'_>, facts: &Facts) -> bool {
    facts.on && facts.output.contains(purpose(case.query.api))
}
