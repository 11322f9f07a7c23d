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

/// What a record says of a value, exactly, and the value again.
trait Recorded<T> {
    fn of(value: T) -> Self;
    fn value(self) -> T;
}

impl Recorded<f64> for Exact {
    fn of(value: f64) -> Exact {
        Exact(value)
    }

    fn value(self) -> f64 {
        self.0
    }
}

impl Recorded<u32> for u32 {
    fn of(value: u32) -> u32 {
        value
    }

    fn value(self) -> u32 {
        self
    }
}

impl Recorded<Reopens> for u64 {
    fn of(value: Reopens) -> u64 {
        value.recorded()
    }

    fn value(self) -> Reopens {
        Reopens::of_recorded(self)
    }
}

impl<T, R: Recorded<T>> Recorded<Option<T>> for Option<R> {
    fn of(value: Option<T>) -> Option<R> {
        value.map(R::of)
    }

    fn value(self) -> Option<T> {
        self.map(R::value)
    }
}

/// Declares what a record says of a structure: each member with the field that it tells. A new field does not compile
/// until it is listed.
macro_rules! recorded {
    (
        $(#[$about:meta])*
        struct $name:ident($value:ident) { $($(#[$about_member:meta])* $member:ident($field:ident): $kind:ty,)* }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
        #[serde(deny_unknown_fields)]
        struct $name {
            $($(#[$about_member])* $member: $kind,)*
        }

        impl Recorded<$value> for $name {
            fn of(value: $value) -> $name {
                $name { $($member: Recorded::of(value.$field),)* }
            }

            fn value(self) -> $value {
                $value { $($field: self.$member.value(),)* }
            }
        }
    };
}

recorded! {
    struct RecordedInputs(ScoreInputs) {
        /// Natural logarithm of the seconds to the first token without load and prompt.
        intercept(intercept): Exact,
        /// How strongly load lengthens it.
        load_exponent(load_exponent): Exact,
        /// Attempts in progress from which on load lengthens it.
        knee(knee): Exact,
        /// Variance of that logarithm.
        variance(variance): Exact,
        /// Seconds that each prompt token adds.
        prompt_slope(prompt_slope): Exact,
        /// Tokens of the prompt.
        prompt_tokens(prompt_tokens): u32,
        /// Those of them that may be in its cache.
        cached_tokens(cached_tokens): u32,
        /// Observations behind the time to the first token; old ones count less.
        weight(weight): Exact,
        /// Natural logarithm of the seconds per output token.
        per_token(per_token): Exact,
        /// Variance of that logarithm.
        pace_variance(pace_variance): Exact,
        /// Observations behind it; old ones count less.
        pace_weight(pace_weight): Exact,
        /// Share of output tokens that answers show.
        shown(shown): Exact,
        /// Failures; old ones count less.
        failures(failures): Exact,
        /// Whole answers; old ones count less.
        successes(successes): Exact,
        /// Usual probability of failure of related endpoints.
        usual_failure(usual_failure): Exact,
        /// Seconds since the last observation; `Infinity` without one.
        age_s(age): Exact,
        /// Attempts in progress at it.
        in_flight(in_flight): u32,
        /// Expected output tokens.
        output_tokens(output_tokens): Exact,
        /// Variance of their natural logarithm.
        output_variance(output_variance): Exact,
        /// Cost that it was ranked with, in US dollars.
        cost_usd(cost): Exact,
        /// Least probability of failure, from its breaker or its silence.
        failure_floor(floor): Exact,
        /// Expected seconds to the first token of a stream, or to the whole answer.
        expected_s(expected): Exact,
        /// Standard deviation of their natural logarithm.
        spread(spread): Exact,
        /// What ranks before the score: place in `provider.order`, then missed preferences.
        tier(tier): u32,
        /// When its breaker or its spacing lets a call pass, in microseconds on the clock of `tick_us`; 0 without either.
        until_us(reopens): u64,
        /// How good its answers are, for the class of the task; absent if that is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quality(quality): Option<EndpointQuality>,
    }
}

recorded! {
    /// How good the answers of an endpoint are.
    struct EndpointQuality(Quality) {
        /// Probability that an answer is acceptable.
        mean(mean): Exact,
        /// Lower tenth of it.
        p10(tenth): Exact,
        /// Ratings that count in it; old ones count less.
        ratings(ratings): Exact,
    }
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
            inputs: RecordedInputs::of(candidate.inputs),
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
            inputs: self.inputs.value(),
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
