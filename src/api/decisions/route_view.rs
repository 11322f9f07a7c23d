//! JSON shared by preview and explain: candidates with their predictions, and excluded endpoints with the reasons.
//!
//! A decision refers to the catalog it was made with. [`CatalogView`] finds its endpoints in a later version too; the names
//! of removed ones are `null`.

use pointsman_domain::{
    AttemptRecord, CacheSaving, Candidate, Catalog, Decision, Endpoint, EndpointHealth, ExcludedEndpoint,
    ExclusionDetail, Generation, Price, Pricing, RoutingParameters, ScoreTerm,
};
use pointsman_routing::decide::position_and_grade;
use serde::Serialize;

use super::{previewed_parameters::PreviewedParameters, quality_view::QualityBody};
use crate::api::{
    condition::Condition,
    number::{Dollars, Figure, Text},
};

/// Finds the endpoints of a decision, and their names, in a catalog.
#[derive(Clone, Copy)]
pub(crate) struct CatalogView<'a>(pub(crate) &'a Catalog);

impl<'a> CatalogView<'a> {
    /// The names of an endpoint; all `null` without one.
    pub(crate) fn names_of(self, endpoint: Option<&'a Endpoint>) -> EndpointNames<'a> {
        let model = endpoint.and_then(|endpoint| self.0.model_of(endpoint));
        let provider = endpoint.and_then(|endpoint| self.0.provider_of(endpoint));
        EndpointNames {
            model: model.map(|model| model.id.as_str()),
            provider_name: provider.map(|provider| &*provider.name),
            provider_slug: provider.map(|provider| provider.slug.as_str()),
        }
    }
}

/// Names of an endpoint.
#[derive(Serialize, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "EndpointNames"))]
pub(crate) struct EndpointNames<'a> {
    /// Id of the model, such as `meadow/small`. `null` for an endpoint that has been removed since, and for an unknown
    /// name.
    pub(crate) model: Option<&'a str>,
    /// Display name of the provider. `null` for an endpoint that has been removed since, and for an unknown name.
    pub(crate) provider_name: Option<&'a str>,
    /// Slug of the provider: its name in the configuration, in requests and in filters. `null` for an endpoint that has
    /// been removed since, and for an unknown name.
    pub(crate) provider_slug: Option<&'a str>,
}

view! {
    /// An endpoint that could be called. The lowest score is called first. Names are null for an endpoint that was removed
    /// since.
    pub(crate) struct CandidateBody<'a> as "Candidate" {
        fn new(candidate: &'a Candidate, view: CatalogView<'a>) {
            let rank = candidate.place as usize + 1;
            let endpoint = view.0.find(candidate.index, candidate.endpoint);
            let prompt_tokens = u64::from(candidate.inputs.prompt_tokens);
        }

        /// Place in the order in which candidates are called, from 1.
        pub(crate) rank: usize = rank,
        /// Whether it is the choice: `rank` 1.
        pub(crate) selected: bool = rank == 1,
        /// `probe`: the call tests a half-open breaker. `panic`: its breaker is open or its calls are spaced out, and
        /// nothing else is left. `candidate`: any other.
        #[cfg_attr(test, schemars(extend("enum" = ["candidate", "probe", "panic"])))]
        pub(crate) role: &'static str = match (candidate.probe, candidate.panic) {
            (true, _) => "probe",
            (_, true) => "panic",
            _ => "candidate",
        },
        #[serde(flatten)]
        pub(crate) endpoint: EndpointNames<'a> = view.names_of(endpoint),
        /// What ranks before the score; absent without `provider.order` and preferences.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) tier: Option<TierBody> = None,
        /// Score for this request under its objective, lower is better; exploration noise is in it. Twelve significant
        /// digits.
        pub(crate) score: Figure = Figure::significant(candidate.score),
        /// Unit of `score` and its terms. `s`: seconds to the last byte (objective `fastest`). `usd`: US dollars for a
        /// successful answer (`cheapest`). `probability`: of a failure (`reliable`). `none`: ratio to the medians of the
        /// candidates (`balanced`).
        #[cfg_attr(test, schemars(with = "crate::base::words::ScoreUnit"))]
        pub(crate) score_unit: &'static str = candidate.unit.as_str(),
        /// The terms that add up to `score`. `docs/ROUTING.md` says how each is made.
        pub(crate) score_terms: Vec<ScoreTermBody> =
            candidate.terms.iter().map(|term| ScoreTermBody::new(&term)).collect(),
        /// Probability that it is the choice under another seed of the exploration noise, everything else equal, 0 to 1 with
        /// four decimals; `null` if it was not worked out, as in records within `/generation`. Under an alias with shares or a
        /// canary it is multiplied by `split.probability`, so that all candidates add up to that.
        pub(crate) selection_probability: Option<Figure> = candidate.selection_probability.map(Figure::share),
        pub(crate) predicted: PredictionBody = PredictionBody::new(candidate, view),
        /// What happened; only in explanations, of an endpoint that was called.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) actual: Option<ActualBody<'a>> = None,
        /// How good its answers are for the class of the task; absent if nothing is known of that.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) quality: Option<QualityBody<'a>> = None,
        /// What a prompt cache is expected to save, which cost and first token already have; absent without one.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) saving: Option<SavingBody> = candidate.saving.map(SavingBody::new),
        /// State of the endpoint when the decision was made.
        pub(crate) health: HealthBody = HealthBody::new(candidate.health),
        /// Prices for a prompt of this length; `null` if they are not known, or if the endpoint has been removed since.
        pub(crate) pricing: Option<PricePairBody> = endpoint
            .and_then(|endpoint| endpoint.pricing.as_deref())
            .map(|pricing| PricePairBody::new(pricing, prompt_tokens)),
        /// Context window in tokens. `null` if the endpoint has been removed from the configuration since.
        pub(crate) context_length: Option<u32> = endpoint.map(|endpoint| endpoint.limits.context_length),
        /// What it would get of the request; preview only.
        #[serde(flatten)]
        pub(crate) previewed_parameters: Option<&'a PreviewedParameters> = None,
    }
}

/// Properties that rank before the score.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct TierBody {
    /// Place in `provider.order`, from 1; `null` if it is not listed.
    pub(crate) provider_order: Option<u32>,
    /// 0: expected to meet all preferences, or not measured enough to tell. n: misses one by at most n tenths. `null`
    /// without preferences.
    pub(crate) preference_grade: Option<u32>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct ScoreTermBody {
    /// Name of the term, such as `expected_cost` or `failure`.
    pub(crate) name: &'static str,
    /// Its value in `score_unit`.
    pub(crate) value: Figure,
}

view! {
    /// What was expected of a call, without exploration noise. A number is null where it is not known or not finite.
    pub(crate) struct PredictionBody as "Prediction" {
        /// Without a price, the cost that the candidate is ranked with is no prediction.
        fn new(candidate: &Candidate, view: CatalogView<'_>) {
            let endpoint = view.0.find(candidate.index, candidate.endpoint);
            let is_priced = endpoint.is_none_or(|endpoint| endpoint.pricing.is_some());
            let (predicted, [low, high]) = (&candidate.predicted, candidate.cost_range());
        }

        /// Milliseconds from the start of the attempt to its first content, with one decimal.
        pub(crate) ttft_ms: PercentilesBody =
            PercentilesBody::millis(predicted.first_token_p50, predicted.first_token_p95),
        /// Shown output tokens per second after the first content, with one decimal.
        pub(crate) throughput_tps: Figure = Figure::rounded(predicted.tokens_per_second, 1),
        /// Milliseconds from the start of the attempt to the last byte, for the expected number of output tokens, with one
        /// decimal.
        pub(crate) total_ms: PercentilesBody = PercentilesBody::millis(predicted.total_p50, predicted.total_p95),
        /// Expected cost in US dollars, after what a prompt cache saves; `null` at an unknown price.
        pub(crate) cost: Option<Figure> = is_priced.then(|| Figure::significant(predicted.cost)),
        /// How the cost varies with the length of the answer, and with that of the prompt as far as it is estimated; `null`
        /// at an unknown price.
        pub(crate) cost_range: Option<RangeBody> =
            is_priced.then(|| RangeBody { low: Figure::significant(low), high: Figure::significant(high) }),
        /// Probability that the attempt fails or takes longer than its time budget, 0 to 1 with six decimals.
        pub(crate) failure_probability: Figure = Figure::rounded(predicted.failure, 6),
        /// Whether any figure rests on measurements of this endpoint; `false`: all come from configured or general
        /// assumptions.
        pub(crate) measured: bool = predicted.measured,
    }
}

/// `null` where it is not known or not finite.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Percentiles"))]
pub(crate) struct PercentilesBody {
    /// Median.
    pub(crate) p50: Figure,
    /// 95th percentile.
    pub(crate) p95: Figure,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct RangeBody {
    /// 10th percentile in US dollars.
    pub(crate) low: Figure,
    /// 90th percentile in US dollars.
    pub(crate) high: Figure,
}

view! {
    pub(crate) struct SavingBody {
        fn new(saving: CacheSaving) {}

        /// Prompt tokens that are expected to be read from the cache.
        pub(crate) cached_tokens: u32 = saving.cached_tokens,
        /// US dollars saved; 0 where cached tokens have no price of their own.
        pub(crate) saving_usd: Figure = Figure::significant(saving.usd),
        /// Milliseconds that the first content comes earlier, with one decimal.
        pub(crate) saving_ms: Figure = Figure::millis(saving.seconds),
    }
}

view! {
    /// What happened when it was called, beside the prediction.
    pub(crate) struct ActualBody<'a> as "Outcome" {
        fn new(attempt: &'a AttemptRecord, candidate: &Candidate, generation: &Generation) {
            let predicted = &candidate.predicted;
            let tokens = attempt.served.then_some(generation.usage.completion_tokens).filter(|tokens| *tokens > 0);
            let seconds = attempt.stream_ms.filter(|millis| generation.streamed && *millis > 0);
            let rate = |(tokens, millis): (u64, u64)| Figure::rounded(1e3 * tokens as f64 / millis as f64, 1);
            let total = |tokens: u64| predicted.first_token_p50 + tokens as f64 / predicted.tokens_per_second;
        }

        /// Number of the attempt, as `n` in `attempts`.
        pub(crate) attempt: u32 = attempt.n,
        /// How it ended: `completed`, or the `error_type` of the attempt.
        pub(crate) outcome: &'a str = attempt.outcome(),
        /// Milliseconds from the start of the attempt to its first content; `null` if there was none, and for answers that
        /// are not streamed.
        pub(crate) ttft_ms: Option<u64> = attempt.first_token_ms.filter(|_| generation.streamed),
        /// Output tokens per second after the first content, reasoning included, with one decimal. Where the answer hides
        /// its reasoning, it exceeds what is predicted, which regards shown tokens. `null` for answers that are not
        /// streamed, and for an attempt that did not serve.
        pub(crate) throughput_tps: Option<Figure> = tokens.zip(seconds).map(rate),
        /// Milliseconds from the start of the attempt to its end.
        pub(crate) total_ms: u64 = attempt.duration_ms,
        /// Predicted median of `total_ms` for the number of output tokens that the answer then had, with one decimal;
        /// `null` for an attempt that did not serve.
        pub(crate) predicted_total_ms: Option<Figure> = tokens.map(|tokens| Figure::millis(total(tokens))),
        /// Tokens of the answer, reasoning included. `null` for an attempt that did not serve, or without any.
        pub(crate) completion_tokens: Option<u64> = tokens,
        /// Cost of the attempt in US dollars; `null` at an unknown price.
        pub(crate) cost: Option<Dollars> = attempt.cost.map(Dollars),
    }
}

view! {
    pub(crate) struct HealthBody {
        fn new(health: EndpointHealth) {}

        /// Condition in one word, from `circuit` and `success_rate` alone: an endpoint that cools down or is silent is
        /// `healthy` here, in `/models/stats` not.
        #[cfg_attr(test, schemars(extend("enum" = ["healthy", "degraded", "down", "unknown"])))]
        pub(crate) state: &'static str = Condition::from_circuit(health.circuit, health.success_rate).as_str(),
        #[cfg_attr(test, schemars(with = "crate::base::words::Circuit"))]
        pub(crate) circuit: &'static str = health.circuit.as_str(),
        /// Share of whole answers, 0 to 1 with four decimals. Old observations count less and less, so it is not the share
        /// of a window as in `/models/stats`. `null` without `samples`.
        pub(crate) success_rate: Option<Figure> = health.success_rate.map(Figure::share),
        /// Answers and failures behind that share; old ones count less and less.
        pub(crate) samples: u64 = health.samples,
        /// Attempts in progress at it.
        pub(crate) in_flight: u32 = health.in_flight,
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct PricePairBody {
    /// US dollars per prompt token, as a decimal string.
    pub(crate) prompt: Text<Price>,
    /// US dollars per output token, as a decimal string.
    pub(crate) completion: Text<Price>,
    /// Where the prices are those of longer prompts: above which length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) above_prompt_tokens: Option<u64>,
}

/// An endpoint of the requested models that was no candidate, and why.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Excluded"))]
pub(crate) struct ExcludedBody<'a> {
    #[serde(flatten)]
    pub(crate) endpoint: EndpointNames<'a>,
    #[cfg_attr(test, schemars(with = "crate::base::words::ExclusionReason"))]
    pub(crate) reason: &'static str,
    /// The figure or the pattern behind the reason, in words; may be empty.
    pub(crate) detail: Text<&'a ExclusionDetail>,
    /// Milliseconds from the decision until the exclusion ends, with one decimal; absent if it does not end by itself
    /// at a known time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) opens_in_ms: Option<Figure>,
    /// Place, from 1, in the reserve, which is called if all candidates fail; absent if it is not in the reserve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) standby: Option<usize>,
    /// What was expected of it; only in explanations, of an endpoint that was called from the reserve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) predicted: Option<PredictionBody>,
    /// What happened; only in explanations, of an endpoint that was called from the reserve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) actual: Option<ActualBody<'a>>,
}

/// Estimated sizes that a decision was made for.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct EstimateBody {
    /// Tokens of the prompt, estimated for the choice.
    pub(crate) prompt_tokens: u32,
    /// Output tokens expected of the choice; 0 where no endpoint is left.
    pub(crate) completion_tokens: u32,
}

impl EstimateBody {
    pub(crate) const fn new(prompt_tokens: u32, completion_tokens: u32) -> EstimateBody {
        EstimateBody { prompt_tokens, completion_tokens }
    }
}

/// The first `limit` candidates of a decision, in rank order.
pub(crate) fn candidates<'a>(decision: &'a Decision, view: CatalogView<'a>, limit: usize) -> Vec<CandidateBody<'a>> {
    let body = |candidate| CandidateBody {
        tier: TierBody::new(decision, candidate),
        quality: quality(decision, candidate, view),
        ..CandidateBody::new(candidate, view)
    };
    decision.candidates.iter().take(limit).map(body).collect()
}

/// All candidates of a generation, with the outcomes of its attempts.
pub(crate) fn candidates_with_outcomes<'a>(
    generation: &'a Generation,
    view: CatalogView<'a>,
) -> Vec<CandidateBody<'a>> {
    let decision = &generation.decision;
    let mut bodies = candidates(decision, view, usize::MAX);
    for (body, candidate) in bodies.iter_mut().zip(&decision.candidates) {
        let attempt = generation.attempts.iter().find(|attempt| attempt.endpoint == candidate.index);
        body.actual = attempt.map(|attempt| ActualBody::new(attempt, candidate, generation));
    }
    bodies
}

/// The endpoints that a decision excluded.
pub(crate) fn excluded<'a>(decision: &'a Decision, view: CatalogView<'a>) -> Vec<ExcludedBody<'a>> {
    let mut bodies = excluded_by_error(&decision.excluded, view);
    for (body, excluded) in bodies.iter_mut().zip(&decision.excluded) {
        let position = decision.standby.iter().position(|standby| standby.endpoint == excluded.endpoint);
        body.standby = position.map(|position| position + 1);
    }
    bodies
}

/// The excluded endpoints of a generation, with the outcomes of those called from standby.
pub(crate) fn excluded_with_outcomes<'a>(generation: &'a Generation, view: CatalogView<'a>) -> Vec<ExcludedBody<'a>> {
    let decision = &generation.decision;
    let mut bodies = excluded(decision, view);
    for (body, excluded) in bodies.iter_mut().zip(&decision.excluded) {
        let standby = decision.standby.iter().find(|standby| standby.endpoint == excluded.endpoint);
        let attempt = generation.attempts.iter().find(|attempt| attempt.endpoint == excluded.index);
        if let Some((candidate, attempt)) = standby.zip(attempt) {
            body.predicted = Some(PredictionBody::new(candidate, view));
            body.actual = Some(ActualBody::new(attempt, candidate, generation));
        }
    }
    bodies
}

/// The excluded endpoints of a request without a candidate.
pub(crate) fn excluded_by_error<'a>(excluded: &'a [ExcludedEndpoint], view: CatalogView<'a>) -> Vec<ExcludedBody<'a>> {
    let body = |excluded: &'a ExcludedEndpoint| ExcludedBody {
        endpoint: view.names_of(view.0.find(excluded.index, excluded.endpoint)),
        reason: excluded.reason.as_str(),
        detail: Text(&excluded.detail),
        opens_in_ms: excluded.detail.wait().map(|wait| Figure::millis(wait.as_secs_f64())),
        standby: None,
        predicted: None,
        actual: None,
    };
    excluded.iter().map(body).collect()
}

fn quality<'a>(decision: &Decision, candidate: &Candidate, view: CatalogView<'a>) -> Option<QualityBody<'a>> {
    let (quality, task) = (candidate.inputs.quality?, decision.task_class?.task);
    let endpoint = view.0.find(candidate.index, candidate.endpoint);
    Some(QualityBody::new(quality, endpoint.and_then(|endpoint| view.0.quality_score(endpoint, task))))
}

impl TierBody {
    fn new(decision: &Decision, candidate: &Candidate) -> Option<TierBody> {
        let RoutingParameters { provider, preferred_max_latency: latency, preferred_min_throughput: rate, .. } =
            &*decision.parameters;
        let (position, grade) = position_and_grade(candidate.inputs.tier);
        let (has_order, has_preference) = (!provider.order.is_empty(), latency.is_some() || rate.is_some());
        (has_order || has_preference).then(|| TierBody {
            provider_order: (has_order && (position as usize) < provider.order.len()).then_some(position + 1),
            preference_grade: has_preference.then_some(grade),
        })
    }
}

impl ScoreTermBody {
    fn new(term: &ScoreTerm) -> ScoreTermBody {
        ScoreTermBody { name: term.name, value: Figure::significant(term.value) }
    }
}

impl PercentilesBody {
    fn millis(p50: f64, p95: f64) -> PercentilesBody {
        PercentilesBody { p50: Figure::millis(p50), p95: Figure::millis(p95) }
    }
}

impl PricePairBody {
    /// The prices of a prompt of this length.
    fn new(pricing: &Pricing, prompt_tokens: u64) -> PricePairBody {
        let tier = pricing.tier(prompt_tokens);
        let (prompt, completion) =
            tier.map_or((pricing.prompt, pricing.completion), |tier| (tier.prompt, tier.completion));
        let above_prompt_tokens = tier.map(|tier| tier.above_prompt_tokens);
        PricePairBody { prompt: Text(prompt), completion: Text(completion), above_prompt_tokens }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::api::{
        route_samples::{decision, generation},
        samples::catalog,
    };

    #[test]
    fn candidates_and_excluded_endpoints_are_shown_with_names_and_numbers() {
        let catalog = catalog();
        let decision = decision(&catalog);
        let shown = (candidates(&decision, CatalogView(&catalog), 1), excluded(&decision, CatalogView(&catalog)));
        expect![[r#"
            [
              [
                {
                  "rank": 1,
                  "selected": true,
                  "role": "candidate",
                  "model": "acme/small",
                  "provider_name": "Acme",
                  "provider_slug": "acme",
                  "tier": {
                    "provider_order": 1,
                    "preference_grade": null
                  },
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
                    "cost_range": {
                      "low": 0,
                      "high": 6e-7
                    },
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
    fn a_candidate_shows_the_outcome_of_its_attempt() {
        let catalog = catalog();
        let mut generation = generation(&catalog);
        let served = generation.attempts.last_mut().unwrap();
        (served.stream_ms, served.served) = (Some(50), true);
        let shown: Vec<_> =
            candidates_with_outcomes(&generation, CatalogView(&catalog)).into_iter().map(|body| body.actual).collect();
        expect![[r#"
            [
              {
                "attempt": 1,
                "outcome": "overloaded",
                "ttft_ms": null,
                "throughput_tps": null,
                "total_ms": 60,
                "predicted_total_ms": null,
                "completion_tokens": null,
                "cost": 0
              },
              {
                "attempt": 2,
                "outcome": "completed",
                "ttft_ms": 30,
                "throughput_tps": 100,
                "total_ms": 60,
                "predicted_total_ms": 282.6,
                "completion_tokens": 5,
                "cost": 0.00000453
              }
            ]"#]]
        .assert_eq(&serde_json::to_string_pretty(&shown).unwrap());
    }

    #[test]
    fn a_candidate_shows_the_saving_by_its_cache() {
        let catalog = catalog();
        let mut decision = decision(&catalog);
        decision.candidates[0].saving = Some(CacheSaving { cached_tokens: 1200, usd: 0.000_108, seconds: 0.12 });
        let body = serde_json::to_value(candidates(&decision, CatalogView(&catalog), 2)).unwrap();
        let saving = serde_json::json!({"cached_tokens": 1200, "saving_usd": 0.000_108, "saving_ms": 120});
        assert_eq!((&body[0]["saving"], body[1].get("saving")), (&saving, None));
    }

    #[test]
    fn terms_sum_to_the_score() {
        let catalog = catalog();
        let decision = decision(&catalog);
        for candidate in candidates(&decision, CatalogView(&catalog), 9) {
            let candidate = serde_json::to_value(candidate).unwrap();
            let terms = candidate["score_terms"].as_array().unwrap();
            let sum: f64 = terms.iter().map(|term| term["value"].as_f64().unwrap()).sum();
            assert!((sum - candidate["score"].as_f64().unwrap()).abs() < 1e-15);
        }
    }
}
