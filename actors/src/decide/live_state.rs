//! What a forecast takes from the moment and the request, and the inputs that makes with the slow statistics.

use super::{
    context::DecisionContext,
    forecast::{is_evidence, lateness},
};
use crate::{
    domain::{ScoreInputs, Tick},
    stats::{EndpointStats, Gate, LiveEndpoint},
};

/// Lower bound on the failure probability behind a gate that is not open ...
const UNSURE: f64 = 0.5;
/// ... and of an endpoint gone silent: however cheap it is, nobody bets on its answering after all.
const SILENT: f64 = 1.0;

/// What a forecast takes from the moment and the request, beside the slow statistics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveState {
    /// Its own gate, or its provider's where that is stricter.
    pub gate: Gate,
    pub in_flight: u32,
    pub late: f64,
    /// Lower bound on its failure probability.
    pub floor: f64,
    /// Requests as good as failed.
    pub stuck: u32,
    /// When a paced endpoint, or one whose quota this request exceeds, takes it.
    pub due: Option<Tick>,
    pub output_tokens: f64,
    pub output_variance: f64,
    /// Prompt tokens, as its model counts them.
    pub prompt_tokens: u32,
    /// Prompt tokens in its cache.
    pub cached_tokens: u32,
    /// Dollars these save ...
    pub saving: f64,
    /// ... and what the request costs after that.
    pub cost: f64,
}

impl LiveState {
    /// That of an endpoint at which anything may be the matter.
    #[inline]
    pub(crate) fn of(case: &DecisionContext<'_>, stats: &EndpointStats, live: &LiveEndpoint) -> LiveState {
        let moment = LiveState::of_calm(case, stats, live);
        let gate = live.gate.and(case.live.provider(stats.facts.provider).gate);
        let cached_tokens = case.cached_at(stats.facts.id).min(moment.prompt_tokens);
        let saving = f64::from(cached_tokens) * stats.prices.cached_saving;
        LiveState {
            gate,
            late: lateness(live.overdue, &stats.curve),
            floor: floor(gate, live.silent),
            due: due(live, moment.prompt_tokens, moment.output_tokens),
            cached_tokens,
            saving,
            cost: moment.cost - saving,
            ..moment
        }
    }

    /// What the request would cost, were nothing in the cache.
    pub(crate) fn uncached_cost(&self) -> f64 {
        self.cost + self.saving
    }

    /// The same, unless there is more to it than that requests are in flight: a gate, a pace, a quota, requests that are
    /// late, a cache. Of most endpoints there is not.
    #[inline(always)]
    pub(crate) fn at_ease(case: &DecisionContext<'_>, stats: &EndpointStats, live: &LiveEndpoint) -> Option<LiveState> {
        let passes = live.gate.is_passing() && case.live.provider(stats.facts.provider).gate.is_passing();
        let takes = passes && live.due.is_none() && live.tokens.is_none() && !live.silent && live.stuck == 0;
        let at_ease = takes && !is_evidence(live.overdue, &stats.curve) && !case.may_be_cached_at(stats.facts.id);
        at_ease.then(|| LiveState::of_calm(case, stats, live))
    }

    /// What is read of every endpoint alike.
    #[inline(always)]
    fn of_calm(case: &DecisionContext<'_>, stats: &EndpointStats, live: &LiveEndpoint) -> LiveState {
        let facts = &stats.facts;
        let prompt_tokens = case.snapshot.prompts.of(facts.model).tokens(case.prompt_tokens).round();
        let (output_tokens, output_variance) = case.lengths.expected(facts.model, facts.longest_answer);
        LiveState {
            gate: Gate::Passing,
            in_flight: live.in_flight,
            late: 0.0,
            floor: 0.0,
            stuck: live.stuck,
            due: None,
            output_tokens,
            output_variance,
            prompt_tokens: prompt_tokens as u32,
            cached_tokens: 0,
            saving: 0.0,
            cost: stats.prices.cost(prompt_tokens, output_tokens * case.answers, case.images),
        }
    }
}

fn floor(gate: Gate, silent: bool) -> f64 {
    match (gate.is_passing(), silent) {
        (true, false) => 0.0,
        (false, false) => UNSURE,
        (_, true) => SILENT,
    }
}

/// When an endpoint takes such a request, if not at once: its pace, and its quota of tokens.
#[inline]
fn due(live: &LiveEndpoint, prompt_tokens: u32, output_tokens: f64) -> Option<Tick> {
    let Some(quota) = live.tokens else { return live.due };
    let tokens = u64::from(prompt_tokens) + output_tokens as u64;
    live.due.max((quota.left < tokens).then_some(quota.until))
}

/// The recorded inputs of a forecast; what only a candidate has (`expected`, `spread`, `tier`, `until`) is left at 0.
#[inline(always)]
pub(crate) fn inputs(stats: &EndpointStats, moment: &LiveState) -> ScoreInputs {
    let estimates = &stats.estimates;
    ScoreInputs {
        intercept: estimates.fit.intercept,
        load_exponent: estimates.fit.load_exponent,
        knee: estimates.fit.knee,
        variance: estimates.fit.variance,
        prompt_slope: stats.curve.prompt_token,
        prompt_tokens: moment.prompt_tokens,
        cached_tokens: moment.cached_tokens,
        weight: estimates.weight,
        per_token: estimates.per_token,
        pace_variance: estimates.per_token_variance,
        pace_weight: estimates.pace_weight,
        shown: estimates.shown,
        failures: estimates.failures + f64::from(moment.stuck),
        successes: estimates.successes,
        usual_failure: estimates.usual_failure,
        age: estimates.age,
        in_flight: moment.in_flight,
        late: moment.late,
        output_tokens: moment.output_tokens,
        output_variance: moment.output_variance,
        cost: moment.cost,
        floor: moment.floor,
        expected: 0.0,
        spread: 0.0,
        tier: 0,
        until: Tick(0),
    }
}
