//! The wire shapes of a route that preview and explain share: candidates with their numbers, and what
//! was excluded and why.
//!
//! A decision points into the catalog of its time. [`Places`] finds an endpoint in the catalog at hand also
//! after a reload; what is gone by then is `null`.

use pointsman_actors::domain::{
    Candidate, Catalog, Decision, Detail, Endpoint, Excluded, Health, Prediction, Price, Pricing, ScoreTerm,
};
use serde::Serialize;

use super::{
    condition::Condition,
    number::{Figure, Text},
};

/// Where the positions of a decision point to, as far as this catalog knows them.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a>(pub(crate) &'a Catalog);

impl<'a> Places<'a> {
    /// The names of an endpoint, if it is there.
    pub(crate) fn name(self, endpoint: Option<&'a Endpoint>) -> Named<'a> {
        let model = endpoint.and_then(|endpoint| self.0.model_of(endpoint));
        let provider = endpoint.and_then(|endpoint| self.0.provider_of(endpoint));
        Named {
            model: model.map(|model| model.id.as_str()),
            provider_name: provider.map(|provider| &*provider.name),
            provider_slug: provider.map(|provider| provider.slug.as_str()),
        }
    }
}

/// The names of an endpoint.
#[derive(Serialize, Default)]
pub(crate) struct Named<'a> {
    model: Option<&'a str>,
    provider_name: Option<&'a str>,
    provider_slug: Option<&'a str>,
}

/// One endpoint that may serve.
#[derive(Serialize)]
pub(crate) struct CandidateBody<'a> {
    rank: usize,
    selected: bool,
    #[serde(flatten)]
    endpoint: Named<'a>,
    score: Figure,
    score_unit: &'static str,
    score_terms: Vec<ScoreTermBody>,
    selection_probability: Option<Figure>,
    predicted: PredictionBody,
    health: HealthBody,
    pricing: Option<PricePairBody>,
    context_length: Option<u32>,
}

#[derive(Serialize)]
struct ScoreTermBody {
    name: &'static str,
    value: Figure,
}

/// What is expected of an endpoint; what cannot be known is null.
#[derive(Serialize)]
struct PredictionBody {
    ttft_ms: PercentilesBody,
    throughput_tps: Figure,
    total_ms: PercentilesBody,
    cost: Figure,
    failure_probability: Figure,
    /// Whether any of it rests on measurements; otherwise on expectations alone.
    measured: bool,
}

#[derive(Serialize)]
struct PercentilesBody {
    p50: Figure,
    p95: Figure,
}

#[derive(Serialize)]
struct HealthBody {
    state: &'static str,
    circuit: &'static str,
    success_rate: Option<Figure>,
    samples: u64,
    in_flight: u32,
}

#[derive(Serialize)]
struct PricePairBody {
    prompt: Text<Price>,
    completion: Text<Price>,
}

/// One endpoint that may not serve.
#[derive(Serialize)]
pub(crate) struct ExcludedBody<'a> {
    #[serde(flatten)]
    endpoint: Named<'a>,
    reason: &'static str,
    detail: Text<&'a Detail>,
}

/// The sizes a decision was made for.
#[derive(Serialize)]
pub(crate) struct EstimateBody {
    prompt_tokens: u32,
    completion_tokens: u32,
}

impl EstimateBody {
    pub(crate) const fn new(prompt_tokens: u32, completion_tokens: u32) -> EstimateBody {
        EstimateBody { prompt_tokens, completion_tokens }
    }
}

/// The first `most` candidates of a decision, in order.
pub(crate) fn candidates<'a>(decision: &'a Decision, places: Places<'a>, most: usize) -> Vec<CandidateBody<'a>> {
    let ranked = (1_usize..).zip(&decision.candidates).take(most);
    ranked.map(|(rank, candidate)| CandidateBody::new(rank, candidate, places)).collect()
}

/// Every endpoint that was excluded.
pub(crate) fn excluded<'a>(excluded: &'a [Excluded], places: Places<'a>) -> Vec<ExcludedBody<'a>> {
    let body = |excluded: &'a Excluded| ExcludedBody {
        endpoint: places.name(places.0.find(excluded.index, excluded.endpoint)),
        reason: excluded.reason.as_str(),
        detail: Text(&excluded.detail),
    };
    excluded.iter().map(body).collect()
}

impl<'a> CandidateBody<'a> {
    fn new(rank: usize, candidate: &'a Candidate, places: Places<'a>) -> CandidateBody<'a> {
        let endpoint = places.0.find(candidate.index, candidate.endpoint);
        CandidateBody {
            rank,
            selected: rank == 1,
            endpoint: places.name(endpoint),
            score: Figure::significant(candidate.score),
            score_unit: candidate.unit.as_str(),
            score_terms: candidate.terms.iter().map(|term| ScoreTermBody::new(&term)).collect(),
            selection_probability: candidate.selection_probability.map(Figure::share),
            predicted: PredictionBody::new(&candidate.predicted),
            health: HealthBody::new(candidate.health),
            pricing: endpoint.map(|endpoint| PricePairBody::new(&endpoint.pricing)),
            context_length: endpoint.map(|endpoint| endpoint.limits.context_length),
        }
    }
}

impl ScoreTermBody {
    fn new(term: &ScoreTerm) -> ScoreTermBody {
        ScoreTermBody { name: term.name, value: Figure::significant(term.value) }
    }
}

impl PredictionBody {
    fn new(predicted: &Prediction) -> PredictionBody {
        PredictionBody {
            ttft_ms: PercentilesBody::millis(predicted.first_token_p50, predicted.first_token_p95),
            throughput_tps: Figure::rounded(predicted.tokens_per_second, 1),
            total_ms: PercentilesBody::millis(predicted.total_p50, predicted.total_p95),
            cost: Figure::significant(predicted.cost),
            failure_probability: Figure::rounded(predicted.failure, 6),
            measured: predicted.measured,
        }
    }
}

impl PercentilesBody {
    fn millis(p50: f64, p95: f64) -> PercentilesBody {
        PercentilesBody { p50: Figure::millis(p50), p95: Figure::millis(p95) }
    }
}

impl HealthBody {
    fn new(health: Health) -> HealthBody {
        HealthBody {
            state: Condition::of(health.circuit, health.success_rate).as_str(),
            circuit: health.circuit,
            success_rate: health.success_rate.map(Figure::share),
            samples: health.samples,
            in_flight: health.in_flight,
        }
    }
}

impl PricePairBody {
    fn new(pricing: &Pricing) -> PricePairBody {
        PricePairBody { prompt: Text(pricing.prompt), completion: Text(pricing.completion) }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::{
        super::{route_samples::decision, samples::catalog},
        *,
    };

    #[test]
    fn candidates_and_what_was_excluded_have_their_names_and_numbers() {
        let catalog = catalog();
        let decision = decision(&catalog);
        let shown = (candidates(&decision, Places(&catalog), 1), excluded(&decision.excluded, Places(&catalog)));
        expect![[r#"
            [
              [
                {
                  "rank": 1,
                  "selected": true,
                  "model": "acme/small",
                  "provider_name": "Acme",
                  "provider_slug": "acme",
                  "score": 5.1e-6,
                  "score_unit": "usd",
                  "score_terms": [
                    {
                      "name": "expected_cost",
                      "value": 4.8e-6
                    },
                    {
                      "name": "failure",
                      "value": 3e-7
                    }
                  ],
                  "selection_probability": 0.94,
                  "predicted": {
                    "ttft_ms": {
                      "p50": 230,
                      "p95": 510
                    },
                    "throughput_tps": 95,
                    "total_ms": {
                      "p50": 2900,
                      "p95": null
                    },
                    "cost": 4.8e-6,
                    "failure_probability": 0.004,
                    "measured": true
                  },
                  "health": {
                    "state": "healthy",
                    "circuit": "closed",
                    "success_rate": 0.998,
                    "samples": 1204,
                    "in_flight": 2
                  },
                  "pricing": {
                    "prompt": "0.00000015",
                    "completion": "0.0000006"
                  },
                  "context_length": 128000
                }
              ],
              [
                {
                  "model": "beta/medium",
                  "provider_name": "Beta Cloud",
                  "provider_slug": "beta",
                  "reason": "blocked_model",
                  "detail": "matches beta/*"
                }
              ]
            ]"#]]
        .assert_eq(&serde_json::to_string_pretty(&shown).unwrap());
    }

    #[test]
    fn terms_sum_to_the_score() {
        let catalog = catalog();
        let decision = decision(&catalog);
        for candidate in candidates(&decision, Places(&catalog), 9) {
            let candidate = serde_json::to_value(candidate).unwrap();
            let terms = candidate["score_terms"].as_array().unwrap();
            let sum: f64 = terms.iter().map(|term| term["value"].as_f64().unwrap()).sum();
            assert!((sum - candidate["score"].as_f64().unwrap()).abs() < 1e-15);
        }
    }
}
