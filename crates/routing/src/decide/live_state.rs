//! Live figures of an endpoint that a forecast uses, and the forecast's recorded inputs.

use pointsman_domain::{Quality, Reopens, ScoreInputs, Tick};

use super::context::DecisionContext;
use crate::stats::{EndpointStats, Gate, LiveEndpoint};

/// Lower bound on the failure probability behind a refusing gate ...
const UNSURE: f64 = 0.5;
/// ... and of a silent endpoint.
const SILENT: f64 = 1.0;

/// Inputs of a forecast beside the published statistics: live figures, and the request's tokens and cost at this
/// endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveState {
    /// The stricter gate of the endpoint and its provider.
    pub gate: Gate,
    pub in_flight: u32,
    /// Lower bound on the failure probability.
    pub floor: f64,
    /// When pacing or the token quota allows this request.
    pub due: Option<Tick>,
    pub output_tokens: f64,
    pub output_variance: f64,
    /// Expected prompt tokens.
    pub prompt_tokens: u32,
    /// Expected cached prompt tokens.
    pub cached_tokens: u32,
    /// Dollars saved by the cache ...
    pub saving: f64,
    /// ... and the cost after that.
    pub cost: f64,
    /// Quality for the class of the task, if it is known.
    pub quality: Option<Quality>,
}

impl LiveState {
    /// Reads the live figures of one endpoint for this request.
    pub(crate) fn new(context: &DecisionContext<'_>, stats: &EndpointStats, live: &LiveEndpoint) -> LiveState {
        let facts = &stats.facts;
        let gate = live.gate.and(context.live.provider(facts.provider).gate);
        let prompt = context.snapshot.prompts.of(facts.model).tokens(context.prompt_tokens).round();
        let prompt_tokens = prompt as u32;
        let (output_tokens, output_variance) = context.lengths.expected(facts.model, facts.longest_answer);
        let cached_tokens = context.cached_at(facts.id).min(prompt_tokens);
        let rates = stats.prices.asked(context.query.needs.service, prompt);
        let saving = f64::from(cached_tokens) * rates.cached_saving;
        LiveState {
            gate,
            in_flight: live.in_flight,
            floor: floor(gate, live.silent),
            due: due(live, prompt_tokens, output_tokens),
            output_tokens,
            output_variance,
            prompt_tokens,
            cached_tokens,
            saving,
            cost: rates.cost(prompt, output_tokens * context.answers, context.images) - saving,
            quality: None,
        }
    }

    /// Cost of the request without the cache.
    pub(crate) fn uncached_cost(&self) -> f64 {
        self.cost + self.saving
    }
}

fn floor(gate: Gate, silent: bool) -> f64 {
    match (gate.is_passing(), silent) {
        (true, false) => 0.0,
        (false, false) => UNSURE,
        (_, true) => SILENT,
    }
}

/// When pacing and the token quota allow such a request; `None` means at once.
#[inline]
fn due(live: &LiveEndpoint, prompt_tokens: u32, output_tokens: f64) -> Option<Tick> {
    let Some(quota) = live.tokens else { return live.due };
    let tokens = u64::from(prompt_tokens) + output_tokens as u64;
    live.due.max((quota.left < tokens).then_some(quota.until))
}

/// The recorded inputs of a forecast. `expected`, `spread`, `tier` and `reopens` are set for candidates only.
#[inline(always)]
pub(crate) fn inputs(stats: &EndpointStats, live: &LiveState) -> ScoreInputs {
    let estimates = &stats.estimates;
    ScoreInputs {
        intercept: estimates.fit.intercept,
        load_exponent: estimates.fit.load_exponent,
        knee: estimates.fit.knee,
        variance: estimates.fit.variance,
        prompt_slope: stats.curve.prompt_token,
        prompt_tokens: live.prompt_tokens,
        cached_tokens: live.cached_tokens,
        weight: estimates.weight,
        per_token: estimates.per_token,
        pace_variance: estimates.per_token_variance,
        pace_weight: estimates.pace_weight,
        shown: estimates.shown,
        failures: estimates.failures,
        successes: estimates.successes,
        usual_failure: estimates.usual_failure,
        age: estimates.age,
        in_flight: live.in_flight,
        output_tokens: live.output_tokens,
        output_variance: live.output_variance,
        cost: live.cost,
        floor: live.floor,
        expected: 0.0,
        spread: 0.0,
        tier: 0,
        reopens: Reopens::Now,
        quality: live.quality,
    }
}
