//! One candidate: the inputs of its score, and the result.

use pointsman_domain::{
    Candidate, Catalog, Circuit, EndpointHealth, EndpointId, Objective, OutputCostSpread, Prediction, Reopens,
    ScoreInputs, ScoreTerms,
};
use pointsman_routing::decide::{score_unit, term_names};
use serde::{Deserialize, Serialize};

use super::exact::{Digits, Exact};

/// A candidate as recorded.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedCandidate {
    model: Option<String>,
    provider_slug: Option<String>,
    /// Stable id of the endpoint; the exploration noise depends on it.
    endpoint: Digits,
    /// Position in the plan, from 0.
    place: u32,
    /// Position of its provider in the catalog; later attempts prefer other providers.
    provider: u32,
    /// Position of its model in the request.
    target: u32,
    /// Groups rank before scores: the target, or 0 for all candidates if models compete.
    group: u32,
    probe: bool,
    panic: bool,
    score: Exact,
    score_terms: Vec<Exact>,
    failure_probability: Exact,
    ttft_p50_s: Exact,
    inputs: RecordedInputs,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedInputs {
    /// ln seconds.
    intercept: Exact,
    load_exponent: Exact,
    knee: Exact,
    variance: Exact,
    /// Seconds per prompt token.
    prompt_slope: Exact,
    prompt_tokens: u32,
    cached_tokens: u32,
    weight: Exact,
    /// ln seconds.
    per_token: Exact,
    /// Variance of ln seconds per output token.
    pace_variance: Exact,
    pace_weight: Exact,
    shown: Exact,
    failures: Exact,
    successes: Exact,
    /// Usual failure probability of related endpoints.
    usual_failure: Exact,
    age_s: Exact,
    in_flight: u32,
    output_tokens: Exact,
    /// Variance of ln output tokens.
    output_variance: Exact,
    cost_usd: Exact,
    failure_floor: Exact,
    expected_s: Exact,
    /// Standard deviation of ln `expected_s`.
    spread: Exact,
    tier: u32,
    until_us: u64,
}

impl RecordedCandidate {
    pub(super) fn new(candidate: &Candidate, catalog: &Catalog) -> RecordedCandidate {
        let endpoint = catalog.find(candidate.index, candidate.endpoint);
        RecordedCandidate {
            model: endpoint.and_then(|endpoint| Some(catalog.model_of(endpoint)?.id.to_string())),
            provider_slug: endpoint.and_then(|endpoint| Some(catalog.provider_of(endpoint)?.slug.to_string())),
            endpoint: Digits(candidate.endpoint.0),
            place: candidate.place,
            provider: candidate.provider,
            target: candidate.target,
            group: candidate.group,
            probe: candidate.probe,
            panic: candidate.panic,
            score: Exact(candidate.score),
            score_terms: candidate.terms.iter().map(|term| Exact(term.value)).collect(),
            failure_probability: Exact(candidate.predicted.failure),
            ttft_p50_s: Exact(candidate.predicted.first_token_p50),
            inputs: RecordedInputs::new(&candidate.inputs),
        }
    }

    pub(super) fn candidate(&self, objective: Objective) -> Candidate {
        let mut values = [0.0; ScoreTerms::MAX_TERMS];
        values.iter_mut().zip(&self.score_terms).for_each(|(value, term)| *value = term.0);
        Candidate {
            index: 0,
            endpoint: EndpointId(self.endpoint.0),
            place: self.place,
            target: self.target,
            group: self.group,
            provider: self.provider,
            score: self.score.0,
            unit: score_unit(objective),
            terms: ScoreTerms::new(term_names(objective), values),
            selection_probability: None,
            predicted: Prediction {
                first_token_p50: self.ttft_p50_s.0,
                first_token_p95: f64::NAN,
                tokens_per_second: f64::NAN,
                total_p50: f64::NAN,
                total_p95: f64::NAN,
                cost: self.inputs.cost_usd.0,
                failure: self.failure_probability.0,
                measured: self.inputs.weight.0 > 0.0,
            },
            health: EndpointHealth {
                circuit: Circuit::Closed,
                success_rate: None,
                samples: 0,
                in_flight: self.inputs.in_flight,
            },
            output: OutputCostSpread::default(),
            saving: None,
            inputs: self.inputs.inputs(),
            probe: self.probe,
            panic: self.panic,
        }
    }

    pub(super) const fn id(&self) -> u64 {
        self.endpoint.0
    }

    pub(super) fn name(&self) -> Option<String> {
        Some(format!("{} at {}", self.model.as_deref()?, self.provider_slug.as_deref()?))
    }
}

impl RecordedInputs {
    fn new(inputs: &ScoreInputs) -> RecordedInputs {
        // Exhaustive pattern: a new input does not compile until it is listed here.
        let ScoreInputs {
            intercept,
            load_exponent,
            knee,
            variance,
            prompt_slope,
            prompt_tokens,
            cached_tokens,
            weight,
            per_token,
            pace_variance,
            pace_weight,
            shown,
            failures,
            successes,
            usual_failure,
            age,
            in_flight,
            output_tokens,
            output_variance,
            cost,
            floor,
            expected,
            spread,
            tier,
            reopens,
        } = *inputs;
        RecordedInputs {
            intercept: Exact(intercept),
            load_exponent: Exact(load_exponent),
            knee: Exact(knee),
            variance: Exact(variance),
            prompt_slope: Exact(prompt_slope),
            prompt_tokens,
            cached_tokens,
            weight: Exact(weight),
            per_token: Exact(per_token),
            pace_variance: Exact(pace_variance),
            pace_weight: Exact(pace_weight),
            shown: Exact(shown),
            failures: Exact(failures),
            successes: Exact(successes),
            usual_failure: Exact(usual_failure),
            age_s: Exact(age),
            in_flight,
            output_tokens: Exact(output_tokens),
            output_variance: Exact(output_variance),
            cost_usd: Exact(cost),
            failure_floor: Exact(floor),
            expected_s: Exact(expected),
            spread: Exact(spread),
            tier,
            until_us: reopens.recorded(),
        }
    }

    fn inputs(&self) -> ScoreInputs {
        ScoreInputs {
            intercept: self.intercept.0,
            load_exponent: self.load_exponent.0,
            knee: self.knee.0,
            variance: self.variance.0,
            prompt_slope: self.prompt_slope.0,
            prompt_tokens: self.prompt_tokens,
            cached_tokens: self.cached_tokens,
            weight: self.weight.0,
            per_token: self.per_token.0,
            pace_variance: self.pace_variance.0,
            pace_weight: self.pace_weight.0,
            shown: self.shown.0,
            failures: self.failures.0,
            successes: self.successes.0,
            usual_failure: self.usual_failure.0,
            age: self.age_s.0,
            in_flight: self.in_flight,
            output_tokens: self.output_tokens.0,
            output_variance: self.output_variance.0,
            cost: self.cost_usd.0,
            floor: self.failure_floor.0,
            expected: self.expected_s.0,
            spread: self.spread.0,
            tier: self.tier,
            reopens: Reopens::of_recorded(self.until_us),
        }
    }
}
