//! JSON of a route explanation: the eight documented fields of a generation's route, and the numbers behind them.

use pointsman_domain::{Catalog, Endpoint, Generation, GenerationStatus, TaskClass, Usage};
use pointsman_ledger::ratings::Rating;
use pointsman_routing::explain::WhyNot;
use serde::Serialize;

use super::{
    caller_view::CallerBody,
    route_view::{self, CandidateBody, CatalogView, EndpointNames, EstimateBody, ExcludedBody},
    sentences::Sentences,
    shadow_view::ShadowChoiceBody,
    split_view::SplitBody,
    usage_view::{CostBreakdownBody, UsageBody},
    why_not_view::WhyNotBody,
};
use crate::{
    access::keys::HolderNames,
    api::{
        generations::{
            attempt_view::{AttemptBody, SpentBody},
            feedback_view::{self, RatingView},
            trace_view::TraceContextBody,
        },
        models::{measurements::rfc_3339, parameters_view::ParametersBody},
        number::{Dollars, Figure, Text},
    },
};

view! {
    /// The answer of explain, without an envelope.
    #[cfg_attr(test, schemars(description = ""))]
    pub(crate) struct ExplainBody<'a> {
        /// The explanation of a generation in these sentences, made by the key of these `names`.
        pub(crate) fn new(
            generation: &'a Generation,
            catalog: &'a Catalog,
            Sentences { summary, reason }: &'a Sentences,
            names: &'a HolderNames,
        ) {
            let decision = &*generation.decision;
            let view = CatalogView(catalog);
        }

        /// Id of the generation.
        pub(crate) generation_id: &'a str = generation.id.as_str(),
        /// Id of the model that served; `null` if none did.
        pub(crate) model: Option<&'a str> = generation.model.as_deref(),
        /// Display name of the provider that served; `null` if none did.
        pub(crate) provider_name: Option<&'a str> = generation.provider_name.as_deref(),
        /// Milliseconds from the acceptance of the request to the first output of the provider that served: the first
        /// content of a stream, or the head of the provider's answer if that is not streamed. `null` if nothing served.
        pub(crate) latency_ms: Option<u64> = generation.latency_ms,
        /// Milliseconds from the start of the attempt that served to its last byte, so its wait for the first output is
        /// included; `null` while the call is running, and if nothing served.
        pub(crate) generation_time_ms: Option<u64> = generation
            .generation_time_ms
            .filter(|_| generation.status != GenerationStatus::Running),
        /// The alias that was asked for; `null` for a fixed model.
        pub(crate) router: Option<&'a str> = decision.router.as_deref(),
        /// Cost of the answer in US dollars, as the client saw it, without that of other attempts (`ledger_cost`); `null`
        /// at an unknown price.
        pub(crate) total_cost: Option<Dollars> = generation.total_cost().map(Dollars),
        /// The cost in US dollars that the provider reported, which is never charged; `null` if it reported none.
        pub(crate) reported_cost: Option<Dollars> = generation.usage.reported_cost.map(Dollars),
        /// What happened, in one sentence of at most 25 words without codes.
        pub(crate) summary: &'a str = summary,
        /// The decision as a sentence, with its figures and how the attempts went.
        pub(crate) decision_reason: &'a str = reason,
        #[cfg_attr(test, schemars(with = "crate::base::words::DecisionCode"))]
        pub(crate) decision_code: &'static str = generation.decision_code().as_str(),
        /// Name of the model or alias as the client wrote it.
        pub(crate) requested_model: &'a str = &generation.requested_model,
        /// What the choice optimises.
        #[cfg_attr(test, schemars(with = "crate::base::words::Objective"))]
        pub(crate) objective: &'static str = decision.objective.value.as_str(),
        pub(crate) parameters: ParametersBody<'a> = ParametersBody::new(decision),
        /// What the decision reckoned with.
        pub(crate) estimate: EstimateBody = EstimateBody::new(decision.prompt_tokens, decision.completion_tokens),
        /// The endpoints that could be called, best first: in a preview the first `top_n`, in a record about the first
        /// eight.
        pub(crate) candidates: Vec<CandidateBody<'a>> = route_view::candidates_with_outcomes(generation, view),
        /// All of them, those included that are not listed.
        pub(crate) candidates_total: usize = decision.candidates.len() + decision.omitted.len(),
        /// The endpoints of the requested models that could not be called.
        pub(crate) excluded: Vec<ExcludedBody<'a>> = route_view::excluded_with_outcomes(generation, view),
        /// Number of them.
        pub(crate) excluded_total: usize = decision.excluded.len(),
        /// All calls of endpoints, in the order of their starts; while the generation is running, those that have ended.
        pub(crate) attempts: Vec<AttemptBody<'a>> = generation.attempts.iter().map(AttemptBody::new).collect(),
        /// Milliseconds that the request waited, all its waits together, for an endpoint to take requests again while all
        /// that could serve it rested (`routing.retry.wait`); `null` if it did not wait.
        pub(crate) waited_ms: Option<u64> = generation.waited.map(|waited| waited.ms),
        /// Why the endpoint that was awaited last took no request.
        #[cfg_attr(test, schemars(with = "Option<crate::base::words::WaitedFor>"))]
        pub(crate) waited_for: Option<&'static str> = generation.waited.map(|waited| waited.reason.as_str()),
        /// Whether a second attempt raced the first.
        pub(crate) hedged: bool = generation.hedged(),
        /// The parts of `total_cost`, which they add up to exactly; `null` at an unknown price.
        pub(crate) cost_breakdown: Option<CostBreakdownBody> = generation.cost.as_ref().map(CostBreakdownBody::new),
        /// Where the prices of longer prompts hold; absent otherwise.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) price_tier: Option<PriceTierBody> = PriceTierBody::of(generation),
        /// The service that the answer was made with, and is billed as: as the provider named it, else as requested; absent
        /// if neither did.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) service_tier: Option<&'a str> = generation.usage.service.tier.as_ref().map(|tier| tier.as_str()),
        /// Where it was made, in the same way.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) inference_geo: Option<&'a str> =
            generation.usage.service.geography.as_ref().map(|name| name.as_str()),
        #[serde(flatten)]
        pub(crate) spent: SpentBody = SpentBody::new(generation),
        #[serde(flatten)]
        pub(crate) caller: CallerBody<'a> = CallerBody::new(generation, names),
        /// When the request was admitted. RFC 3339, UTC, with milliseconds.
        pub(crate) created_at: String = rfc_3339(generation.created_ms),
        /// `running`: it has not ended. `completed`: the client got a whole answer. `failed`: it ended with an error,
        /// before or within the answer. `cancelled`: the client left before the end.
        #[cfg_attr(test, schemars(extend("enum" = ["running", "completed", "failed", "cancelled"])))]
        pub(crate) status: &'static str = generation.status.as_str(),
        /// Whether the answer was streamed.
        pub(crate) streamed: bool = generation.streamed,
        /// Why the model ended its answer, in the words of the OpenAI API, `error` aside; `null` if it did not.
        #[cfg_attr(test, schemars(with = "Option<crate::base::words::FinishReason>"))]
        pub(crate) finish_reason: Option<&'static str> = generation.finish.map(|finish| finish.as_str()),
        /// Tokens and cost of the answer; all 0 before its end.
        pub(crate) usage: UsageBody = UsageBody::new(generation),
        /// Parameters of the request that were not sent to the endpoint.
        pub(crate) dropped_parameters: Vec<&'a str> =
            generation.dropped_parameters.iter().map(|name| &**name).collect(),
        /// Parameters of the request that were not sent, but whose meaning was produced by other means.
        pub(crate) emulated_parameters: Vec<&'a str> =
            generation.emulated_parameters.iter().map(|name| &**name).collect(),
        /// API of the client.
        #[cfg_attr(test, schemars(with = "crate::base::words::Dialect"))]
        pub(crate) inbound_dialect: &'static str = generation.client_dialect.as_str(),
        /// API of the endpoint that served or, if none did, that was called last; `null` if none was called.
        #[cfg_attr(test, schemars(with = "Option<crate::base::words::Dialect>"))]
        pub(crate) upstream_dialect: Option<&'static str> = upstream_dialect(generation),
        /// Format in which that endpoint gives its reasoning and takes it back in the next turn; `null` if it has none.
        #[cfg_attr(test, schemars(with = "Option<crate::base::words::StateFormat>"))]
        pub(crate) state_format: Option<&'static str> = state_format(generation),
        /// Whether chance made the choice, be it exploration noise or a draw from `safe_set`: without it another endpoint would have
        /// been chosen.
        pub(crate) explored: bool = decision.explored,
        /// Probability with which the choice was to be drawn at random from `safe_set` (`routing.explore`); 0: only noise explores.
        #[cfg_attr(test, schemars(with = "f64"))]
        pub(crate) exploration_share: Figure = Figure::exact(decision.exploration_share),
        /// Endpoints among which a draw does no harm. With an `exploration_share` above 0 a draw is from these; otherwise the set
        /// decides nothing and is recorded for later analyses.
        pub(crate) safe_set: Vec<EndpointNames<'a>> =
            decision.safe_set.iter().map(|index| view.names_of(catalog.endpoint(*index))).collect(),
        /// Class of a chat's task, by which quality counts where it does. `null` for other calls.
        pub(crate) task_class: Option<TaskClassBody> = decision.task_class.map(TaskClassBody::new),
        /// The part of a divided alias that the request fell to; absent unless the requested alias has a ladder, rules, shares
        /// or a canary.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) split: Option<SplitBody<'a>> = decision.split.as_deref().map(SplitBody::new),
        /// What shadow policies would have chosen; absent where none decided.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub(crate) shadows: Vec<ShadowChoiceBody<'a>> =
            generation.shadows.iter().map(|choice| ShadowChoiceBody::new(choice, generation, view)).collect(),
        /// The ratings of the answer that hold, the latest first; absent without any.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub(crate) ratings: Vec<RatingView<'a>> = Vec::new(),
        /// Number of the algorithm that decided, which changes when decisions change.
        pub(crate) algorithm: u16 = decision.algorithm,
        /// Seed of the exploration noise, a whole number of 64 bits; `0`: without noise.
        pub(crate) route_seed: Text<u64> = Text(decision.seed),
        /// Number of the statistics that the decision read, counted since the start of the process.
        pub(crate) snapshot_version: u64 = decision.snapshot_version,
        /// Number of the catalog that it read, counted since the start of the process.
        pub(crate) catalog_version: u64 = decision.catalog_version,
        /// Number of the routing settings that it read, counted since the start of the process.
        pub(crate) policy_version: u64 = decision.policy_version,
        /// The trace that the generation belongs to; `null` if the client sent no valid `traceparent` and no span of the
        /// generation was sent. Ids are hexadecimal, as OpenTelemetry writes them.
        pub(crate) trace_context: Option<TraceContextBody> = TraceContextBody::of(generation),
        /// Only with `why_not` in the request.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) why_not: Option<WhyNotBody<'a>> = None,
    }
}

/// Which of the endpoint's prices the answer was billed with.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct PriceTierBody {
    /// The prompt has more tokens than this.
    pub(crate) above_prompt_tokens: u64,
}

view! {
    /// The class of the task, and where it came from.
    pub(crate) struct TaskClassBody {
        fn new(class: TaskClass) {
            let TaskClass { task, source, features } = class;
        }

        /// The class.
        #[cfg_attr(test, schemars(with = "crate::base::words::Task"))]
        pub(crate) name: &'static str = task.as_str(),
        /// Where it comes from: the request, the key, the alias, the turn before, features of the request, or none of
        /// these.
        #[cfg_attr(test, schemars(extend("enum" = ["metadata", "key", "alias", "conversation", "features", "default"])))]
        pub(crate) source: &'static str = source.as_str(),
        /// What was seen in the request.
        #[cfg_attr(test, schemars(with = "Vec<crate::base::words::TaskFeature>"))]
        pub(crate) features: Vec<&'static str> = features.names().collect(),
    }
}

impl<'a> ExplainBody<'a> {
    /// Adds the answer to `why_not`.
    pub(crate) fn with_why_not(
        self,
        why_not: Option<&'a WhyNot>,
        generation: &'a Generation,
        catalog: &'a Catalog,
    ) -> ExplainBody<'a> {
        let why_not = why_not.map(|answer| WhyNotBody::new(answer, catalog, &generation.attempts));
        ExplainBody { why_not, ..self }
    }

    /// Adds the ratings of the answer.
    pub(crate) fn with_ratings(self, ratings: &'a [Rating]) -> ExplainBody<'a> {
        ExplainBody { ratings: feedback_view::views(ratings), ..self }
    }
}

impl PriceTierBody {
    fn of(generation: &Generation) -> Option<PriceTierBody> {
        let Usage { prompt_tokens, service, .. } = &generation.usage;
        let tier = called_endpoint(generation)?.pricing.as_deref()?.of_tier(service).tier(*prompt_tokens)?;
        Some(PriceTierBody { above_prompt_tokens: tier.above_prompt_tokens })
    }
}

/// The dialect of the last endpoint that was called.
fn upstream_dialect(generation: &Generation) -> Option<&'static str> {
    called_endpoint(generation).map(|endpoint| endpoint.dialect.as_str())
}

/// Format of the reasoning of the last endpoint that was called.
fn state_format(generation: &Generation) -> Option<&'static str> {
    let format = called_endpoint(generation)?.reasoning_state;
    format.is_bound().then_some(format.as_str())
}

/// The endpoint that served, or the last that was called.
fn called_endpoint(generation: &Generation) -> Option<&Endpoint> {
    let served = generation.attempts.iter().rfind(|attempt| attempt.served).or(generation.attempts.last())?;
    generation.catalog.endpoint(served.endpoint)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::api::{route_samples::generation, samples::catalog};

    /// The body of a generation of the key `shop`.
    fn check_body<T>(generation: &Generation, catalog: &Catalog, check: impl FnOnce(ExplainBody<'_>) -> T) -> T {
        let names = HolderNames { key: Some("shop".into()), account: Some("webshop".into()) };
        check(ExplainBody::new(generation, catalog, &Sentences::of(generation), &names))
    }

    fn json(generation: &Generation, catalog: &Catalog) -> serde_json::Value {
        check_body(generation, catalog, |body| serde_json::to_value(body).unwrap())
    }

    #[test]
    fn an_explanation_has_the_eight_fields_and_the_numbers_behind_them() {
        let catalog = catalog();
        let generation = generation(&catalog);
        let text = check_body(&generation, &catalog, |mut body| {
            // Tested in `route_view`.
            body.candidates.clear();
            body.excluded.clear();
            serde_json::to_string_pretty(&body).unwrap()
        });
        expect![[r#"
            {
              "generation_id": "gen-1763629500-BAAAAAAACAAAAAAADAAAAA",
              "model": "acme/small",
              "provider_name": "Beta Cloud",
              "latency_ms": 312,
              "generation_time_ms": 2100,
              "router": "service/auto",
              "total_cost": 0.00000453,
              "reported_cost": null,
              "summary": "acme/small on Acme, the cheapest of 2 endpoints, failed with error 503; acme/small on Beta Cloud answered instead for $0.00000453.",
              "decision_reason": "cheapest: acme/small on Acme. Chosen because it is expected to cost the least, with failures and waiting priced in: $0.0000051, next best acme/small on Beta Cloud $0.0000073 (+43 %). Predicted cost $0.0000048, failure probability 0.4 %, time 2.9 s (first token 0.23 s + 0 tokens at 95 tok/s); 2 candidates; excluded: 1 by blocked_model. 2 attempts: the chosen endpoint failed (503), acme/small on Beta Cloud answered as fallback.",
              "decision_code": "provider_fallback",
              "requested_model": "auto",
              "objective": "cheapest",
              "parameters": {
                "objective": {
                  "value": "cheapest",
                  "source": "metadata"
                },
                "weights": {
                  "latency": 0.5,
                  "cost": 0.5,
                  "source": "default"
                },
                "allowed_models": [
                  [
                    "acme/*",
                    "beta/medium"
                  ]
                ],
                "blocked_models": [
                  "beta/*"
                ],
                "provider": {
                  "order": [
                    "acme"
                  ],
                  "allow_fallbacks": true,
                  "require_parameters": false,
                  "data_collection": "allow",
                  "zdr": false
                },
                "max_cost": {
                  "value": 0.01,
                  "source": "top_level"
                }
              },
              "estimate": {
                "prompt_tokens": 812,
                "completion_tokens": 256
              },
              "candidates": [],
              "candidates_total": 2,
              "excluded": [],
              "excluded_total": 1,
              "attempts": [
                {
                  "n": 1,
                  "reason": "first",
                  "model": "acme/small",
                  "provider_name": "Acme",
                  "provider_slug": "acme",
                  "status": 503,
                  "error_type": "overloaded",
                  "outcome": "overloaded",
                  "started_ms": 40,
                  "duration_ms": 60,
                  "queue_ms": 0,
                  "connect_ms": 12,
                  "tls_ms": 20,
                  "first_byte_ms": 29,
                  "first_token_ms": null,
                  "stream_ms": null,
                  "cost": 0,
                  "estimated": false,
                  "reported_cost": null
                },
                {
                  "n": 2,
                  "reason": "fallback",
                  "model": "acme/small",
                  "provider_name": "Beta Cloud",
                  "provider_slug": "beta",
                  "status": 200,
                  "error_type": null,
                  "outcome": "completed",
                  "started_ms": 80,
                  "duration_ms": 60,
                  "queue_ms": 0,
                  "connect_ms": null,
                  "tls_ms": null,
                  "first_byte_ms": 29,
                  "first_token_ms": 30,
                  "stream_ms": 30,
                  "cost": 0.00000453,
                  "estimated": false,
                  "reported_cost": null
                }
              ],
              "waited_ms": null,
              "waited_for": null,
              "hedged": false,
              "cost_breakdown": {
                "prompt": 0.0000015,
                "completion": 0.000003,
                "reasoning": 0,
                "cache_read": 0.00000003,
                "cache_write": 0,
                "cache_write_1h": 0,
                "audio": 0,
                "audio_output": 0,
                "request": 0,
                "image": 0,
                "web_search": 0
              },
              "hedge_cost": 0,
              "failed_cost": 0,
              "ledger_cost": 0.00000453,
              "key": "shop",
              "account": "webshop",
              "team": null,
              "request_id": "req-1",
              "session_id": null,
              "total_ms": 312,
              "created_at": "2025-11-20T09:05:00.250Z",
              "status": "completed",
              "streamed": true,
              "finish_reason": "stop",
              "usage": {
                "prompt_tokens": 12,
                "completion_tokens": 5,
                "total_tokens": 17,
                "cost": 0.00000453,
                "prompt_tokens_details": {
                  "cached_tokens": 2,
                  "cache_write_tokens": 0,
                  "cache_write_1h_tokens": 0,
                  "audio_tokens": 0
                },
                "completion_tokens_details": {
                  "reasoning_tokens": 0,
                  "audio_tokens": 0
                },
                "estimated": false
              },
              "dropped_parameters": [
                "top_k"
              ],
              "emulated_parameters": [],
              "inbound_dialect": "openai",
              "upstream_dialect": "openai",
              "state_format": null,
              "explored": false,
              "exploration_share": 0,
              "safe_set": [
                {
                  "model": "acme/small",
                  "provider_name": "Acme",
                  "provider_slug": "acme"
                }
              ],
              "task_class": null,
              "algorithm": 1,
              "route_seed": "18446744073709551615",
              "snapshot_version": 41,
              "catalog_version": 7,
              "policy_version": 2,
              "trace_context": null
            }"#]]
        .assert_eq(&text);
    }

    #[test]
    fn the_total_cost_equals_the_cost_in_the_usage() {
        let catalog = catalog();
        let generation = generation(&catalog);
        let text = check_body(&generation, &catalog, |body| serde_json::to_string(&body).unwrap());
        assert!(text.contains(r#""total_cost":0.00000453,"#), "{text}");
        assert!(text.contains(r#""cost":0.00000453,"#), "{text}");
    }

    #[test]
    fn a_running_generation_has_no_generation_time() {
        let catalog = catalog();
        let mut generation = generation(&catalog);
        generation.status = GenerationStatus::Running;
        let body = json(&generation, &catalog);
        assert_eq!((&body["status"], &body["generation_time_ms"]), (&"running".into(), &serde_json::Value::Null));
    }

    #[test]
    fn after_a_reload_removed_endpoints_have_no_names() {
        let decided_with = catalog();
        let generation = generation(&decided_with);
        let mut reloaded = catalog();
        reloaded.version += 1;
        reloaded.endpoints.swap(0, 1);
        reloaded.endpoints.truncate(1);
        let body = json(&generation, &reloaded);
        assert_eq!(body["candidates"][0]["provider_name"], serde_json::Value::Null);
        assert_eq!(body["candidates"][1]["provider_name"], "Beta Cloud");
        assert_eq!(body["excluded"][0]["model"], serde_json::Value::Null);
        assert_eq!(body["excluded"][0]["reason"], "blocked_model");
    }
}
