//! The first choice of another policy, from the terms of a decision that was made: where the other policy only weighs or explores
//! otherwise, both have the same candidates, at the same costs and times.

use pointsman_domain::Objective;

use super::{
    context::DecisionContext,
    first_choice::FirstChoice,
    forecast::Forecast,
    live_state::{LiveState, inputs},
    objective_profile::{Baselines, quality_figure},
    plan::{self, RankKey, Ranked},
    pool::CandidatePool,
    pooled_endpoint::{PooledEndpoint, Role},
    precedence::Precedence,
    score::Scoring,
};
use crate::stats::{EndpointStats, Gate};

/// The terms of a decision.
#[derive(Debug, Clone)]
pub struct DecisionTerms {
    objective: Objective,
    baselines: Baselines,
    /// Position in the catalog of the endpoint that was drawn at random.
    drawn: Option<u32>,
    candidates: Vec<CandidateTerms>,
    /// Expected costs of endpoints that passed the hard filters and are not candidates.
    other_costs: Vec<f64>,
}

/// The terms of a candidate.
#[derive(Debug, Clone)]
struct CandidateTerms {
    index: u32,
    precedence: Precedence,
    live: LiveState,
    forecast: Forecast,
}

/// A candidate as another policy ranks it.
struct RankedTerms<'t> {
    terms: &'t CandidateTerms,
    stats: &'t EndpointStats,
    forecast: Forecast,
    rank: f64,
}

impl DecisionTerms {
    /// Of a ranked decision. `None` where more than the order of the candidates depends on the policy: probes and other candidates
    /// past a gate, quality, and draws that may cost no more than the best candidate.
    pub(super) fn new(
        context: &DecisionContext<'_>,
        pool: &CandidatePool<'_>,
        baselines: Baselines,
        drawn: Option<u32>,
    ) -> Option<DecisionTerms> {
        let is_plain = |candidate: &PooledEndpoint<'_>| {
            matches!(candidate.role, Role::Candidate | Role::Excluded)
                && !matches!(candidate.live.gate, Gate::HalfOpen { .. })
        };
        let exploration = context.query.exploration;
        let draws_cheap_ones = exploration.share > 0.0 && exploration.max_extra_cost <= 0.0;
        if draws_cheap_ones || counts_quality(context) || !pool.candidates.iter().all(is_plain) {
            return None;
        }
        let is_candidate = |candidate: &&PooledEndpoint<'_>| candidate.role == Role::Candidate;
        let others = pool.candidates.iter().filter(|candidate| !is_candidate(candidate));
        Some(DecisionTerms {
            objective: context.query.objective.value,
            baselines,
            drawn,
            candidates: pool.candidates.iter().filter(is_candidate).map(CandidateTerms::new).collect(),
            other_costs: others.map(|one| one.live.uncached_cost()).chain(pool.costs.iter().copied()).collect(),
        })
    }

    /// The first choice of the policy of `context`, beside the endpoint at the position `other`. It has the snapshot of the decision,
    /// and its request but for objective and weights. `only_weighs`: under one objective it has the noise of the decision, too.
    /// `None` if quality counts.
    pub(crate) fn first_choice(
        &self,
        context: &DecisionContext<'_>,
        only_weighs: bool,
        other: Option<u32>,
    ) -> Option<FirstChoice> {
        if counts_quality(context) {
            return None;
        }
        let query = context.query;
        let has_its_noise = only_weighs && query.objective.value == self.objective;
        let candidate = |terms| RankedTerms::new(terms, context, has_its_noise);
        let mut ranked: Vec<RankedTerms<'_>> = self.candidates.iter().filter_map(candidate).collect();
        let baselines = if has_its_noise { self.baselines } else { self.baselines_of(query.objective.value) };
        let scoring = Scoring::new(context.policy, query.objective.value, query.weights, baselines);
        for candidate in &mut ranked {
            candidate.rank = scoring.score(&candidate.forecast, candidate.terms.live.cost);
        }
        let find = |index: Option<u32>| ranked.iter().find(|candidate| Some(candidate.terms.index) == index);
        let first = plan::first(ranked.iter(), find(self.drawn))?;
        Some(FirstChoice {
            index: first.terms.index,
            gap: find(other).map(|other| other.rank - first.rank),
            cost: first.terms.live.cost,
            first_token: first.forecast.first_token,
            failure: first.forecast.noiseless.failure,
        })
    }

    /// The baselines under another objective.
    fn baselines_of(&self, objective: Objective) -> Baselines {
        let times = self.candidates.iter().map(|candidate| candidate.forecast.uncached_time());
        let costs = || self.candidates.iter().map(|candidate| candidate.live.uncached_cost());
        Baselines::new(objective, times, costs(), costs().chain(self.other_costs.iter().copied()))
    }
}

fn counts_quality(context: &DecisionContext<'_>) -> bool {
    quality_figure(context.policy, context.query.objective.value, context.query.weights).is_some()
}

impl CandidateTerms {
    fn new(candidate: &PooledEndpoint<'_>) -> CandidateTerms {
        let PooledEndpoint { index, precedence, live, forecast, .. } = candidate;
        CandidateTerms { index: *index, precedence: *precedence, live: *live, forecast: *forecast }
    }
}

impl<'t> RankedTerms<'t> {
    fn new(terms: &'t CandidateTerms, context: &DecisionContext<'t>, has_its_noise: bool) -> Option<RankedTerms<'t>> {
        let stats = context.snapshot.endpoints.get(terms.index as usize)?;
        let forecast = if has_its_noise {
            terms.forecast
        } else {
            let noise = context.noise.at(stats.facts.id);
            terms.forecast.with_noise_of(&inputs(stats, &terms.live), &context.rules, noise)
        };
        Some(RankedTerms { terms, stats, forecast, rank: 0.0 })
    }
}

impl Ranked for RankedTerms<'_> {
    #[inline]
    fn key(&self) -> RankKey {
        RankKey {
            precedence: self.terms.precedence,
            rank: self.rank,
            failure: self.forecast.noiseless.failure,
            cost: self.terms.live.cost,
            in_flight: self.terms.live.in_flight,
            endpoint: self.stats.facts.id,
            provider: self.stats.facts.provider,
            role: Role::Candidate,
        }
    }

    #[inline]
    fn place(&self) -> (Precedence, u64) {
        (self.terms.precedence, self.rank.to_bits())
    }
}
