//! The candidate pool: the endpoints of a request's targets, filtered and forecast.

use pointsman_domain::{ExcludedEndpoint, Target, Tick};

use super::{
    context::DecisionContext,
    conversation_model::keep_model,
    exclusion::refused_by_gate,
    filter::{HardFilters, purpose},
    live_state::LiveState,
    pending_tool_calls::prefer_keepers,
    pooled_endpoint::{PooledEndpoint, Role, TargetRank},
    preferences::preferred,
};
use crate::stats::{EndpointStats, Facts, Gate};

/// The endpoints of a request's pool, sorted into those that passed the hard filters and excluded ones.
#[derive(Debug, Default)]
pub(crate) struct CandidatePool<'a> {
    pub candidates: Vec<PooledEndpoint<'a>>,
    pub excluded: Vec<ExcludedEndpoint>,
    /// Expected costs of endpoints that passed the hard filters and are not candidates.
    pub costs: Vec<f64>,
    /// When the earliest refusing gate opens.
    pub opens: Option<Tick>,
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
    pub(crate) fn new(context: &DecisionContext<'a>) -> CandidatePool<'a> {
        let mut pool = CandidatePool::default();
        let several = context.query.targets.len() > 1;
        let mut seen = if several { vec![Seen::Never; context.catalog.endpoints.len()] } else { Vec::new() };
        for (target, requested) in (0_u32..).zip(&context.query.targets) {
            let rank = TargetRank::new(target, context.query.routing.provider.across_models);
            pool.enter(context, rank, *requested, &mut seen);
        }
        if context.has_preferences {
            pool.candidates.iter_mut().for_each(|candidate| candidate.precedence = preferred(context, candidate));
        }
        pool.read_quality(context);
        keep_model(context, &mut pool.candidates);
        prefer_keepers(context, &mut pool.candidates);
        pool
    }

    /// Reads how good the answers of the candidates are, where anything is known of that.
    fn read_quality(&mut self, context: &DecisionContext<'_>) {
        let table = &context.snapshot.quality;
        let Some(class) = context.query.task_class.filter(|_| !table.is_empty()) else { return };
        for candidate in &mut self.candidates {
            candidate.live.quality = table.get(candidate.index, class.task);
        }
    }

    /// Screens the endpoints of one target.
    fn enter(&mut self, context: &DecisionContext<'a>, rank: TargetRank, target: Target, seen: &mut [Seen]) {
        let alias = match target {
            Target::Alias(position) => context.catalog.alias(position),
            Target::Model(_) => None,
        };
        let mut filters = HardFilters::new(context.snapshot, context.query, alias);
        let of_model: &[u32] = match target {
            Target::Model(position) => context.catalog.model(position).map_or(&[][..], |model| &model.endpoints),
            Target::Alias(_) => &[],
        };
        self.candidates.reserve(of_model.len());
        of_model.first().into_iter().for_each(|index| filters.pass_model(*index));
        let mut screen = |index: u32, stats: &'a EndpointStats| {
            if self.admits(&filters, index, stats, seen) {
                self.pass(context, rank, index, stats);
            }
        };
        let endpoints = &context.snapshot.endpoints;
        match target {
            Target::Model(_) => {
                let known = of_model.iter().filter_map(|index| Some((*index, endpoints.get(*index as usize)?)));
                known.for_each(|(index, stats)| screen(index, stats));
            }
            Target::Alias(_) => {
                let of_pool = (0_u32..).zip(endpoints).filter(|(_, stats)| is_in_pool(context, &stats.facts));
                of_pool.for_each(|(index, stats)| screen(index, stats));
            }
        }
    }

    /// Whether an endpoint passes the hard filters and is not in the pool yet. A refused one is excluded.
    fn admits(&mut self, filters: &HardFilters<'a>, index: u32, stats: &EndpointStats, seen: &mut [Seen]) -> bool {
        let before = seen.get(index as usize).copied().unwrap_or(Seen::Never);
        if before == Seen::Passed {
            return false;
        }
        let refusal = filters.refusal_of(index);
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
    fn pass(&mut self, context: &DecisionContext<'a>, rank: TargetRank, index: u32, stats: &'a EndpointStats) {
        let live = LiveState::new(context, stats, &context.live.endpoint(index));
        if let Gate::Cooling { until } | Gate::ConfigFault { until } = live.gate {
            self.costs.push(live.uncached_cost());
            self.opens = Some(self.opens.map_or(until, |opens| opens.min(until)));
            self.excluded.push(refused_by_gate(context, (index, stats.facts.id), stats.facts.provider, live.gate));
            return;
        }
        let mut candidate = PooledEndpoint::new(context, rank, index, stats, live);
        let fit = &stats.estimates.fit;
        if candidate.accepts_requests() && !context.is_saturated(candidate.forecast.load, fit.knee_is_sure) {
            candidate.role = Role::Candidate;
        }
        self.candidates.push(candidate);
    }
}

/// An alias stands for every endpoint with the required output modality, at a provider that is on.
fn is_in_pool(context: &DecisionContext<'_>, facts: &Facts) -> bool {
    facts.on && facts.output.contains(purpose(context.query.api))
}
