//! JSON of a generation's record.
//!
//! One SDK requires 42 members; those that the gateway has no value for are `null`. `route` and `metadata` are additions of
//! the gateway.

use pointsman_domain::{Catalog, Dialect, Generation, GenerationStatus};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::value::RawValue;

use crate::{
    access::keys::HolderNames,
    api::{
        decisions::{explain_view::ExplainBody, sentences::Sentences},
        models::{measurements::rfc_3339, model_entry::Absent},
        number::Dollars,
    },
};

/// The record in its envelope.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(crate) struct GenerationBody<'a> {
    data: RecordBody<'a>,
}

view! {
    struct RecordBody<'a> {
        fn new(generation: &'a Generation, route: ExplainBody<'a>) {
            let ended = generation.status != GenerationStatus::Running;
            let total = generation.total_cost().map(Dollars);
            let usage = Some(generation.usage).filter(|_| ended);
        }

        /// Id of the generation.
        id: &'a str = generation.id.as_str(),
        /// Id of the model that served; if none did, the requested one.
        // Always a string, even if every attempt failed.
        model: &'a str = generation.model.as_deref().unwrap_or(&generation.requested_model),
        /// When the request was admitted. RFC 3339, UTC, with milliseconds.
        created_at: String = rfc_3339(generation.created_ms),
        /// `x-title` of the request, shortened; empty without one.
        origin: &'a str = generation.origin.as_deref().unwrap_or_default(),
        /// Always `global`.
        data_region: &'static str = "global",
        /// Cost of the answer in US dollars, as the client saw it, without that of other attempts (`ledger_cost`); `null`
        /// at an unknown price.
        total_cost: Option<Dollars> = total,
        /// The same as `total_cost`.
        usage: Option<Dollars> = total,
        /// Always `false`: the gateway has no keys of customers at providers.
        is_byok: bool = false,
        /// The provider's own id of the answer; `null` if it gave none.
        upstream_id: Option<&'a str> = generation.upstream_id.as_deref(),
        /// Display name of the provider that served; `null` if none did.
        provider_name: Option<&'a str> = generation.provider_name.as_deref(),
        /// Why the model ended its answer, in the words of the OpenAI API, `error` aside; `null` if it did not.
        #[cfg_attr(test, schemars(with = "Option<crate::base::words::FinishReason>"))]
        finish_reason: Option<&'static str> = generation.finish.map(|finish| finish.as_str()),
        /// The provider's own word for it; `null` if it gave none.
        native_finish_reason: Option<&'a str> = generation.native_finish_reason.as_deref(),
        /// The alias that was asked for; `null` for a fixed model.
        router: Option<&'a str> = generation.decision.router.as_deref(),
        /// `user` of the request; `null` without one.
        external_user: Option<&'a str> = generation.external_user.as_deref(),
        /// API of the request; `completions` for chats of the OpenAI API.
        #[cfg_attr(test, schemars(with = "crate::base::words::ApiType"))]
        api_type: &'static str = api_type(generation),
        /// `http-referer` of the request, shortened; `null` without one.
        http_referer: Option<&'a str> = generation.http_referer.as_deref(),
        /// `user-agent` of the request, shortened; `null` without one.
        user_agent: Option<&'a str> = generation.user_agent.as_deref(),
        /// Whether the answer was streamed.
        streamed: bool = generation.streamed,
        /// Whether the client left before the end.
        cancelled: bool = generation.status == GenerationStatus::Cancelled,
        /// Milliseconds from the acceptance of the request to the first output of the provider that served: the first
        /// content of a stream, or the head of the provider's answer if that is not streamed. `null` if nothing served.
        latency: Option<u64> = generation.latency_ms,
        /// Milliseconds from the start of the attempt that served to its last byte, so its wait for the first output is
        /// included; `null` while the call is running, and if nothing served.
        generation_time: Option<u64> = generation.generation_time_ms.filter(|_| ended),
        /// Tokens of the prompt, those read from or written to a cache included. `null` while the call is running.
        tokens_prompt: Option<u64> = usage.map(|usage| usage.prompt_tokens),
        /// Tokens of the answer, reasoning included. `null` while the call is running.
        tokens_completion: Option<u64> = usage.map(|usage| usage.completion_tokens),
        /// The same as `tokens_prompt`: tokens are those of the provider.
        native_tokens_prompt: Option<u64> = usage.map(|usage| usage.prompt_tokens),
        /// The same as `tokens_completion`: tokens are those of the provider.
        native_tokens_completion: Option<u64> = usage.map(|usage| usage.completion_tokens),
        /// Tokens of the answer that were spent on reasoning. `null` while the call is running.
        native_tokens_reasoning: Option<u64> = usage.map(|usage| usage.reasoning_tokens),
        /// Prompt tokens read from the provider's cache. `null` while the call is running.
        native_tokens_cached: Option<u64> = usage.map(|usage| usage.cached_tokens),
        /// Images in the prompt.
        num_media_prompt: u64 = generation.media_prompt,
        /// Images in the answer.
        num_media_completion: u64 = generation.media_completion,
        /// All attempts, in their order; `route.attempts` says more.
        provider_responses: Vec<ResponseBody<'a>> = responses(generation),
        /// Whether the gateway counted the tokens, because the provider reported none.
        usage_estimated: bool = generation.usage.estimated,
        /// The cost in US dollars that the provider reported, which is never charged; `null` if it reported none.
        upstream_inference_cost: Option<Dollars> = generation.usage.reported_cost.map(Dollars),
        /// US dollars of all attempts together, as lists show it and limits count it: `total_cost` and what attempts cost
        /// that failed, were cancelled or lost a race. `null` if the price of one is unknown.
        ledger_cost: Option<Dollars> = generation.spent().map(Dollars),
        /// The service that the answer was made with, and is billed as, such as `default`, `flex` or `priority`: as the
        /// provider named it, else as requested; `null` if neither did.
        service_tier: Option<&'a str> = generation.usage.service.tier.as_ref().map(|tier| tier.as_str()),
        #[serde(flatten)]
        absent: AbsentMembers = AbsentMembers::default(),
        /// Id of the request, as in the header `x-request-id`.
        request_id: &'a str = &generation.request_id,
        /// The session that the client named; absent without one.
        #[serde(skip_serializing_if = "Option::is_none")]
        session_id: Option<&'a str> = generation.session_id.as_deref(),
        /// `metadata` of the request; absent without it.
        #[serde(skip_serializing_if = "Tags::is_empty")]
        metadata: Tags<'a> = Tags(&generation.tags),
        /// `trace` of the request; absent without it.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, schemars(with = "Option<serde_json::Map<String, serde_json::Value>>"))]
        trace: Option<&'a RawValue> = generation.trace.as_deref().and_then(|json| serde_json::from_str(json).ok()),
        /// As `/route/explain`.
        route: ExplainBody<'a> = route,
    }
}

/// Required members that the gateway has no value for.
#[derive(Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
struct AbsentMembers {
    /// Always `null`. Client libraries require the member; the gateway has no value for it.
    preset_id: Absent,
    /// Always `null`. Client libraries require the member; the gateway has no value for it.
    web_search_engine: Absent,
    /// Always `null`. Client libraries require the member; the gateway has no value for it.
    workspace_id: Absent,
    /// Always `null`. Client libraries require the member; the gateway has no value for it.
    cache_discount: Absent,
    /// Always `null`. Client libraries require the member; the gateway has no value for it.
    moderation_latency: Absent,
    /// Always `null`. Client libraries require the member; the gateway has no value for it.
    native_tokens_completion_images: Absent,
    /// Always `null`. Client libraries require the member; the gateway has no value for it.
    num_input_audio_prompt: Absent,
    /// Always `null`. Client libraries require the member; the gateway has no value for it.
    num_search_results: Absent,
    /// Always `null`. Client libraries require the member; the gateway has no value for it.
    num_fetches: Absent,
    /// Always `null`. Client libraries require the member; the gateway has no value for it.
    app_id: Absent,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct ResponseBody<'a> {
    /// Display name of the provider.
    provider_name: &'a str,
    /// The HTTP status that the provider gave; `null` if it gave none.
    status: Option<u16>,
    /// Milliseconds from the start of the attempt to its first output; without output, to its end.
    latency: u64,
    /// The provider's own id of the answer; only of the attempt that completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    /// Always `false`.
    is_byok: bool,
}

/// The tags of the request, in their order.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
struct Tags<'a>(
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, String>"))] &'a [(String, String)],
);

impl Tags<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Tags<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'a> GenerationBody<'a> {
    /// The record of a generation in these sentences, made by the key of these `names`.
    pub(crate) fn new(
        generation: &'a Generation,
        catalog: &'a Catalog,
        sentences: &'a Sentences,
        names: &'a HolderNames,
    ) -> GenerationBody<'a> {
        let route = ExplainBody::new(generation, catalog, sentences, names);
        GenerationBody { data: RecordBody::new(generation, route) }
    }
}

fn api_type(generation: &Generation) -> &'static str {
    match generation.client_dialect {
        Dialect::OpenAi | Dialect::Gemini | Dialect::Converse => generation.api_type.as_str(),
        Dialect::Anthropic => "messages",
        Dialect::Responses => "responses",
    }
}

/// All attempts; the one that served has the provider's id.
fn responses(generation: &Generation) -> Vec<ResponseBody<'_>> {
    let attempts = generation.attempts.iter().map(|attempt| ResponseBody {
        provider_name: &attempt.provider_name,
        status: attempt.status,
        latency: attempt.first_token_ms.unwrap_or(attempt.duration_ms),
        id: generation.upstream_id.as_deref().filter(|_| attempt.error_type.is_none() && !attempt.is_set_aside()),
        is_byok: false,
    });
    attempts.collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::Value;

    use super::*;
    use crate::api::{route_samples::generation, samples::catalog};

    fn record(change: impl FnOnce(&mut Generation)) -> Value {
        let catalog = catalog();
        let mut generation = generation(&catalog);
        change(&mut generation);
        let (sentences, names) = (Sentences::of(&generation), HolderNames::default());
        let body = GenerationBody::new(&generation, &catalog, &sentences, &names);
        serde_json::to_value(body).unwrap()["data"].take()
    }

    #[test]
    fn money_is_written_digit_by_digit() {
        let catalog = catalog();
        let generation = generation(&catalog);
        let (sentences, names) = (Sentences::default(), HolderNames::default());
        let text = serde_json::to_string(&GenerationBody::new(&generation, &catalog, &sentences, &names)).unwrap();
        assert!(text.contains(r#""total_cost":0.00000453,"usage":0.00000453,"#), "{text}");
    }

    #[test]
    fn a_record_has_the_members_that_clients_expect() {
        let mut record = record(|_| ());
        assert_eq!(record["route"]["generation_id"], record["id"]);
        record.as_object_mut().unwrap().remove("route");
        expect![[r#"
            {
              "api_type": "completions",
              "app_id": null,
              "cache_discount": null,
              "cancelled": false,
              "created_at": "2025-11-20T09:05:00.250Z",
              "data_region": "global",
              "external_user": null,
              "finish_reason": "stop",
              "generation_time": 2100,
              "http_referer": null,
              "id": "gen-1763629500-BAAAAAAACAAAAAAADAAAAA",
              "is_byok": false,
              "latency": 312,
              "ledger_cost": 4.53e-6,
              "metadata": {
                "team": "blue"
              },
              "model": "acme/small",
              "moderation_latency": null,
              "native_finish_reason": "end_turn",
              "native_tokens_cached": 2,
              "native_tokens_completion": 5,
              "native_tokens_completion_images": null,
              "native_tokens_prompt": 12,
              "native_tokens_reasoning": 0,
              "num_fetches": null,
              "num_input_audio_prompt": null,
              "num_media_completion": 0,
              "num_media_prompt": 0,
              "num_search_results": null,
              "origin": "",
              "preset_id": null,
              "provider_name": "Beta Cloud",
              "provider_responses": [
                {
                  "is_byok": false,
                  "latency": 60,
                  "provider_name": "Acme",
                  "status": 503
                },
                {
                  "id": "chatcmpl-7",
                  "is_byok": false,
                  "latency": 30,
                  "provider_name": "Beta Cloud",
                  "status": 200
                }
              ],
              "request_id": "req-1",
              "router": "service/auto",
              "service_tier": null,
              "streamed": true,
              "tokens_completion": 5,
              "tokens_prompt": 12,
              "total_cost": 4.53e-6,
              "upstream_id": "chatcmpl-7",
              "upstream_inference_cost": null,
              "usage": 4.53e-6,
              "usage_estimated": false,
              "user_agent": "tests/1",
              "web_search_engine": null,
              "workspace_id": null
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&record).unwrap());
    }

    #[test]
    fn a_cancelled_generation_shows_the_cost_of_its_attempts_as_lists_do() {
        let cancelled = |generation: &mut Generation| {
            generation.status = GenerationStatus::Cancelled;
            generation.cost = Some(pointsman_domain::CostBreakdown::default());
            generation.attempts[1].served = false;
        };
        let shown = record(cancelled);
        let mut generation = generation(&catalog());
        cancelled(&mut generation);
        let row = serde_json::to_value(crate::api::generations::generation_row::GenerationRow::new(
            &generation,
            &HolderNames::default(),
        ))
        .unwrap();
        assert_eq!((&shown["total_cost"], &shown["ledger_cost"]), (&0.into(), &row["cost"]));
        assert_eq!(row["cost"].as_f64(), Some(4.53e-6));
    }

    #[test]
    fn a_failed_generation_still_names_a_model_and_a_running_one_has_no_token_counts() {
        let failed = record(|generation| {
            generation.status = GenerationStatus::Failed;
            generation.model = None;
            generation.provider_name = None;
        });
        assert_eq!((&failed["model"], &failed["provider_name"]), (&"auto".into(), &Value::Null));
        let running = record(|generation| generation.status = GenerationStatus::Running);
        assert_eq!((&running["tokens_prompt"], &running["generation_time"]), (&Value::Null, &Value::Null));
        assert!(running["total_cost"].is_number());
    }
}
