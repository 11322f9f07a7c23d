//! One candidate: the inputs of its score, and the result.

use pointsman_domain::{
    Candidate, Catalog, Circuit, EndpointHealth, EndpointId, Objective, OutputCostSpread, Prediction, Quality, Reopens,
    ScoreInputs, ScoreTerms,
};
use pointsman_routing::decide::{score_unit, term_names};
use serde::{Deserialize, Serialize};

use super::exact::{Digits, Exact};

/// A candidate with all inputs of its score. Numbers are exact; those that JSON has no number for are strings such as
/// `Infinity`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "RecordedCandidate"))]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedCandidate {
    /// Id of the model, such as `meadow/small`. `null` if the endpoint has been removed from the configuration since.
    model: Option<String>,
    /// Slug of the provider: its name in the configuration, in requests and in filters. `null` if the endpoint has been
    /// removed from the configuration since.
    provider_slug: Option<String>,
    /// Number of the endpoint, 64 bits; the exploration noise depends on it.
    endpoint: Digits,
    /// Place in the plan, from 0.
    place: u32,
    /// Position of its provider in the catalog; later attempts prefer other providers.
    provider: u32,
    /// Position of its model in the request, from 0.
    target: u32,
    /// What ranks before the score: `target`, or 0 for all if models compete.
    group: u32,
    /// Whether the call tests a half-open breaker.
    probe: bool,
    /// Whether it is called only because nothing else is left.
    panic: bool,
    /// The recorded score.
    score: Exact,
    /// The terms that add up to it.
    score_terms: Vec<Exact>,
    /// Predicted probability of failure.
    failure_probability: Exact,
    /// Predicted median of the seconds to the first token.
    ttft_p50_s: Exact,
    /// Everything that the score was computed from.
    inputs: RecordedInputs,
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(deny_unknown_fields)]
struct RecordedInputs {
    /// Natural logarithm of the seconds to the first token without load and prompt.
    intercept: Exact,
    /// How strongly load lengthens it.
    load_exponent: Exact,
    /// Attempts in progress from which on load lengthens it.
    knee: Exact,
    /// Variance of that logarithm.
    variance: Exact,
    /// Seconds that each prompt token adds.
    prompt_slope: Exact,
    /// Tokens of the prompt.
    prompt_tokens: u32,
    /// Those of them that may be in its cache.
    cached_tokens: u32,
    /// Observations behind the time to the first token; old ones count less.
    weight: Exact,
    /// Natural logarithm of the seconds per output token.
    per_token: Exact,
    /// Variance of that logarithm.
    pace_variance: Exact,
    /// Observations behind it; old ones count less.
    pace_weight: Exact,
    /// Share of output tokens that answers show.
    shown: Exact,
    /// Failures; old ones count less.
    failures: Exact,
    /// Whole answers; old ones count less.
    successes: Exact,
    /// Usual probability of failure of related endpoints.
    usual_failure: Exact,
    /// Seconds since the last observation; `Infinity` without one.
    age_s: Exact,
    /// Attempts in progress at it.
    in_flight: u32,
    /// Expected output tokens.
    output_tokens: Exact,
    /// Variance of their natural logarithm.
    output_variance: Exact,
    /// Cost that it was ranked with, in US dollars.
    cost_usd: Exact,
    /// Least probability of failure, from its breaker or its silence.
    failure_floor: Exact,
    /// Expected seconds to the first token of a stream, or to the whole answer.
    expected_s: Exact,
    /// Standard deviation of their natural logarithm.
    spread: Exact,
    /// What ranks before the score: place in `provider.order`, then missed preferences.
    tier: u32,
    /// When its breaker or its spacing lets a call pass, in microseconds on the clock of `tick_us`; 0 without either.
    until_us: u64,
    /// How good its answers are, for the class of the task; absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    quality: Option<EndpointQuality>,
}

/// How good the answers of an endpoint are.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(deny_unknown_fields)]
struct EndpointQuality {
    /// Probability that an answer is acceptable.
    mean: Exact,
    /// Lower tenth of it.
    p10: Exact,
    /// Ratings that count in it; old ones count less.
    ratings: Exact,
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
        let names = term_names(objective);
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
            terms: ScoreTerms::new(names.get(..self.score_terms.len()).unwrap_or(names), values),
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
            quality,
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
            quality: quality.map(|Quality { mean, tenth, ratings }| EndpointQuality {
                mean: Exact(mean),
                p10: Exact(tenth),
                ratings: Exact(ratings),
            }),
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
            quality: self.quality.map(|quality| Quality {
                mean: quality.mean.0,
                tenth: quality.p10.0,
                ratings: quality.ratings.0,
            }),
        }
    }
}
