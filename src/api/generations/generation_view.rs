//! JSON of a generation's record.
//!
//! One SDK requires 42 members; those that the gateway has no value for are `null`. `route` and `metadata` are additions of
//! the gateway.

use pointsman_domain::{Catalog, Dialect, Generation, GenerationStatus};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::value::RawValue;

use crate::api::{
    decisions::explain_view::ExplainBody,
    models::{measurements::rfc_3339, model_entry::Absent},
    number::Dollars,
};

/// The record in its envelope.
#[derive(Serialize)]
pub(crate) struct GenerationBody<'a> {
    data: RecordBody<'a>,
}

#[derive(Serialize)]
struct RecordBody<'a> {
    id: &'a str,
    model: &'a str,
    created_at: String,
    origin: &'a str,
    data_region: &'static str,
    total_cost: Option<Dollars>,
    usage: Option<Dollars>,
    is_byok: bool,
    upstream_id: Option<&'a str>,
    provider_name: Option<&'a str>,
    finish_reason: Option<&'static str>,
    native_finish_reason: Option<&'a str>,
    router: Option<&'a str>,
    external_user: Option<&'a str>,
    api_type: &'static str,
    http_referer: Option<&'a str>,
    user_agent: Option<&'a str>,
    streamed: bool,
    cancelled: bool,
    latency: Option<u64>,
    generation_time: Option<u64>,
    tokens_prompt: Option<u64>,
    tokens_completion: Option<u64>,
    native_tokens_prompt: Option<u64>,
    native_tokens_completion: Option<u64>,
    native_tokens_reasoning: Option<u64>,
    native_tokens_cached: Option<u64>,
    num_media_prompt: u64,
    num_media_completion: u64,
    provider_responses: Vec<ResponseBody<'a>>,
    /// Whether tokens and cost are the gateway's estimate.
    usage_estimated: bool,
    /// The cost that the provider reported.
    upstream_inference_cost: Option<Dollars>,
    /// The cost of all attempts, as in lists; `total_cost` is that of the answer.
    ledger_cost: Option<Dollars>,
    /// The service that the answer was made with, if the provider or the request named one.
    service_tier: Option<&'a str>,
    #[serde(flatten)]
    absent: AbsentMembers,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Tags::is_empty")]
    metadata: Tags<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a RawValue>,
    route: ExplainBody<'a>,
}

/// Required members that the gateway has no value for.
#[derive(Default, Serialize)]
struct AbsentMembers {
    preset_id: Absent,
    web_search_engine: Absent,
    workspace_id: Absent,
    cache_discount: Absent,
    moderation_latency: Absent,
    native_tokens_completion_images: Absent,
    num_input_audio_prompt: Absent,
    num_search_results: Absent,
    num_fetches: Absent,
    app_id: Absent,
}

#[derive(Serialize)]
struct ResponseBody<'a> {
    provider_name: &'a str,
    status: Option<u16>,
    latency: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    is_byok: bool,
}

/// The tags of the request, in their order.
struct Tags<'a>(&'a [(String, String)]);

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
    /// The record of a generation; `reason` is the reason sentence of its decision.
    pub(crate) fn new(generation: &'a Generation, catalog: &'a Catalog, reason: &'a str) -> GenerationBody<'a> {
        let route = ExplainBody::new(generation, catalog, reason);
        GenerationBody { data: RecordBody::new(generation, route) }
    }
}

impl<'a> RecordBody<'a> {
    fn new(generation: &'a Generation, route: ExplainBody<'a>) -> RecordBody<'a> {
        let ended = generation.status != GenerationStatus::Running;
        let total = generation.total_cost().map(Dollars);
        let usage = Some(generation.usage).filter(|_| ended);
        RecordBody {
            id: generation.id.as_str(),
            // Always a string, even if every attempt failed.
            model: generation.model.as_deref().unwrap_or(&generation.requested_model),
            created_at: rfc_3339(generation.created_ms),
            origin: generation.origin.as_deref().unwrap_or_default(),
            data_region: "global",
            total_cost: total,
            usage: total,
            is_byok: false,
            upstream_id: generation.upstream_id.as_deref(),
            provider_name: generation.provider_name.as_deref(),
            finish_reason: generation.finish.map(|finish| finish.as_str()),
            native_finish_reason: generation.native_finish_reason.as_deref(),
            router: generation.decision.router.as_deref(),
            external_user: generation.external_user.as_deref(),
            api_type: api_type(generation),
            http_referer: generation.http_referer.as_deref(),
            user_agent: generation.user_agent.as_deref(),
            streamed: generation.streamed,
            cancelled: generation.status == GenerationStatus::Cancelled,
            latency: generation.latency_ms,
            generation_time: generation.generation_time_ms.filter(|_| ended),
            tokens_prompt: usage.map(|usage| usage.prompt_tokens),
            tokens_completion: usage.map(|usage| usage.completion_tokens),
            native_tokens_prompt: usage.map(|usage| usage.prompt_tokens),
            native_tokens_completion: usage.map(|usage| usage.completion_tokens),
            native_tokens_reasoning: usage.map(|usage| usage.reasoning_tokens),
            native_tokens_cached: usage.map(|usage| usage.cached_tokens),
            num_media_prompt: generation.media_prompt,
            num_media_completion: generation.media_completion,
            provider_responses: responses(generation),
            service_tier: generation.usage.service.tier.as_ref().map(|tier| tier.as_str()),
            usage_estimated: generation.usage.estimated,
            upstream_inference_cost: generation.usage.reported_cost.map(Dollars),
            ledger_cost: generation.spent().map(Dollars),
            absent: AbsentMembers::default(),
            request_id: &generation.request_id,
            session_id: generation.session_id.as_deref(),
            metadata: Tags(&generation.tags),
            trace: generation.trace.as_deref().and_then(|json| serde_json::from_str(json).ok()),
            route,
        }
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
        id: generation.upstream_id.as_deref().filter(|_| attempt.error_type.is_none()),
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

    /// Members without which an SDK rejects the record.
    const REQUIRED: [&str; 42] = [
        "id",
        "model",
        "created_at",
        "origin",
        "data_region",
        "total_cost",
        "usage",
        "is_byok",
        "upstream_id",
        "provider_name",
        "finish_reason",
        "native_finish_reason",
        "router",
        "external_user",
        "api_type",
        "http_referer",
        "user_agent",
        "service_tier",
        "preset_id",
        "web_search_engine",
        "workspace_id",
        "streamed",
        "cancelled",
        "cache_discount",
        "upstream_inference_cost",
        "latency",
        "generation_time",
        "moderation_latency",
        "tokens_prompt",
        "tokens_completion",
        "native_tokens_prompt",
        "native_tokens_completion",
        "native_tokens_completion_images",
        "native_tokens_reasoning",
        "native_tokens_cached",
        "num_media_prompt",
        "num_input_audio_prompt",
        "num_media_completion",
        "num_search_results",
        "num_fetches",
        "app_id",
        "provider_responses",
    ];

    fn record(change: impl FnOnce(&mut Generation)) -> Value {
        let catalog = catalog();
        let mut generation = generation(&catalog);
        change(&mut generation);
        let body = GenerationBody::new(&generation, &catalog, "cheapest: acme/small on Acme");
        serde_json::to_value(body).unwrap()["data"].take()
    }

    #[test]
    fn a_record_has_all_42_keys() {
        let record = record(|_| ());
        for key in REQUIRED {
            assert!(record.get(key).is_some(), "{key}");
        }
    }

    #[test]
    fn money_is_written_digit_by_digit() {
        let catalog = catalog();
        let generation = generation(&catalog);
        let text = serde_json::to_string(&GenerationBody::new(&generation, &catalog, "")).unwrap();
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
        let row = serde_json::to_value(crate::api::generations::generation_row::GenerationRow::new(&generation, None))
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
