//! The candidate pool: the endpoints of a request's targets, filtered and forecast.

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

/// The endpoints of a request's pool, sorted into those that passed the hard filters and excluded ones.
#[derive(Debug, Default)]
pub(crate) struct CandidatePool<'a> {
    pub candidates: Vec<PoolCandidate<'a>>,
    pub excluded: Vec<ExcludedEndpoint>,
    /// Expected costs of endpoints that passed the hard filters and are not candidates.
    pub costs: Vec<f64>,
    /// When the earliest refusing gate opens.
    pub opens: Option<Tick>,
    /// Counts that save searches for candidates that may need another role.
    pub counts: Counts,
}

/// Number of pool candidates without a role, and how many of them are saturated or half-open.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub held: usize,
    pub saturated: usize,
    pub half_open: usize,
}

/// Result of screening an endpoint of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Never,
    Excluded,
    Passed,
}

impl<'a> CandidatePool<'a> {
    /// The pool of a query, target by target. An endpoint of several targets belongs to the first for which it passes.
    pub(crate) fn of(context: &DecisionContext<'a>) -> CandidatePool<'a> {
        let mut pool = CandidatePool::default();
        let several = context.query.targets.len() > 1;
        let mut seen = if several { vec![Seen::Never; context.catalog.endpoints.len()] } else { Vec::new() };
        for (target, requirements) in (0_u32..).zip(&context.query.targets) {
            let place = TargetRank::of(target, context.query.routing.provider.across_models);
            match *requirements {
                Target::Model(position) => pool.enter_model(context, place, position, &mut seen),
                Target::Alias(position) => pool.enter_alias(context, place, position, &mut seen),
            }
        }
        if context.has_preferences {
            pool.candidates.iter_mut().for_each(|candidate| candidate.class |= u64::from(tier(context, candidate)));
        }
        pool
    }

    fn enter_model(&mut self, context: &DecisionContext<'a>, place: TargetRank, position: u32, seen: &mut [Seen]) {
        let filters = HardFilters::new(context.catalog, &context.snapshot.lengths, context.query, None);
        let endpoints = context.catalog.model(position).map_or(&[][..], |model| &model.endpoints);
        for &index in endpoints {
            let Some(stats) = context.snapshot.endpoints.get(index as usize) else { continue };
            if filters.passes(&stats.facts) && seen.is_empty() || self.admits(&filters, index, stats, seen) {
                self.pass(context, place, index, stats);
            }
        }
    }

    fn enter_alias(&mut self, context: &DecisionContext<'a>, place: TargetRank, position: u32, seen: &mut [Seen]) {
        let filters = HardFilters::new(
            context.catalog,
            &context.snapshot.lengths,
            context.query,
            context.catalog.alias(position),
        );
        let endpoints = &context.snapshot.endpoints;
        self.candidates.reserve(endpoints.len());
        for (index, stats) in (0_u32..).zip(endpoints) {
            if filters.passes(&stats.facts) && seen.is_empty()
                || is_in_pool(context, &stats.facts) && self.admits(&filters, index, stats, seen)
            {
                self.pass(context, place, index, stats);
            }
        }
    }

    /// Whether an endpoint passes the hard filters and is not in the pool yet. A refused one is excluded.
    fn admits(&mut self, filters: &HardFilters<'a>, index: u32, stats: &EndpointStats, seen: &mut [Seen]) -> bool {
        let before = seen.get(index as usize).copied().unwrap_or(Seen::Never);
        if before == Seen::Passed {
            return false;
        }
        let refusal = filters.refusal_of(index, &stats.facts);
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

    /// Adds an endpoint that passed the hard filters. Behind a refusing gate only its cost is used.
    fn pass(&mut self, context: &DecisionContext<'a>, place: TargetRank, index: u32, stats: &'a EndpointStats) {
        let live = LiveState::of(context, stats, &context.live.endpoint(index));
        if let Gate::Cooling { until } | Gate::ConfigFault { until } = live.gate {
            self.costs.push(live.uncached_cost());
            self.opens = Some(self.opens.map_or(until, |opens| opens.min(until)));
            let (failures, last) = behind(context, index, stats.facts.provider, live.gate);
            self.excluded.push(shut((index, stats.facts.id), live.gate, context.now, failures, last));
            return;
        }
        let mut candidate = PoolCandidate::of(context, place, index, stats, live);
        let (open, saturated) = (
            candidate.is_open(),
            context.is_saturated(candidate.forecast.load, candidate.stats.estimates.fit.knee_is_sure),
        );
        if open && !saturated {
            candidate.role = Role::Candidate;
        } else {
            self.counts.held += 1;
            self.counts.saturated += usize::from(open);
            self.counts.half_open += usize::from(!open && matches!(candidate.live.gate, Gate::HalfOpen { .. }));
        }
        self.candidates.push(candidate);
    }
}

/// An alias stands for every endpoint with the required output modality, at a provider that is on.
fn is_in_pool(context: &DecisionContext<'_>, facts: &Facts) -> bool {
    facts.on && facts.output.contains(purpose(context.query.api))
}
