//! JSON of `/models/{author}/{slug}/endpoints`: a model and its endpoints.
//!
//! Two SDKs validate it; at least one of them requires each member below.

use pointsman_domain::{Catalog, Endpoint, Model, ParameterNames, Provider};
use pointsman_routing::stats::Quantiles;
use serde::Serialize;

use super::{
    listed_model::ListedModel,
    measurements::{Measured, Measurements},
    model_entry::{Absent, ArchitectureBody, PricingBody},
};
use crate::api::number::Figure;

/// A model and its endpoints.
#[derive(Serialize)]
pub(crate) struct ModelEndpoints<'a> {
    id: &'a str,
    name: &'a str,
    created: i64,
    description: &'a str,
    architecture: ArchitectureBody<'a>,
    endpoints: Vec<EndpointEntry<'a>>,
}

#[derive(Serialize)]
struct EndpointEntry<'a> {
    name: String,
    model_id: &'a str,
    model_name: &'a str,
    context_length: u32,
    pricing: PricingBody,
    provider_name: &'a str,
    tag: String,
    quantization: Option<&'a str>,
    max_completion_tokens: Option<u32>,
    max_prompt_tokens: Option<u32>,
    supported_parameters: Vec<&'a str>,
    status: i8,
    uptime_last_5m: Option<Figure>,
    uptime_last_30m: Option<Figure>,
    uptime_last_1d: Option<Figure>,
    latency_last_30m: Option<QuantilesBody>,
    throughput_last_30m: Option<QuantilesBody>,
    supports_implicit_caching: bool,
    supports_tool_choice: ToolChoiceBody,
    supports_voice_cloning: bool,
    supports_diarization: bool,
    native_tools: NativeToolsBody,
    service_tier: Absent,
}

#[derive(Serialize)]
struct QuantilesBody {
    p50: Figure,
    p75: Figure,
    p90: Figure,
    p99: Figure,
}

/// The supported forms of `tool_choice`.
#[derive(Serialize)]
struct ToolChoiceBody {
    auto: bool,
    function: bool,
    none: bool,
    required: bool,
}

/// Tools that the provider runs itself: always empty.
#[derive(Serialize)]
struct NativeToolsBody {}

impl<'a> ModelEndpoints<'a> {
    /// The page of a model.
    pub(crate) fn new(
        listed: &ListedModel<'a>,
        catalog: &'a Catalog,
        measurements: &Measurements,
    ) -> ModelEndpoints<'a> {
        let entries = listed.endpoints.iter().filter_map(|&position| {
            let endpoint = catalog.endpoint(position)?;
            let provider = catalog.provider_of(endpoint)?;
            let model = catalog.model_of(endpoint)?;
            let measured = measurements.endpoint(catalog, position);
            Some(EndpointEntry::new(model, endpoint, provider, &catalog.parameters, measured))
        });
        ModelEndpoints {
            id: listed.id,
            name: listed.name,
            created: listed.created,
            description: listed.description,
            architecture: ArchitectureBody::new(listed),
            endpoints: entries.collect(),
        }
    }
}

impl<'a> EndpointEntry<'a> {
    fn new(
        model: &'a Model,
        endpoint: &'a Endpoint,
        provider: &'a Provider,
        names: &'a ParameterNames,
        measured: Measured<'_>,
    ) -> EndpointEntry<'a> {
        let Measured { summary, condition, .. } = measured;
        let supported_parameters: Vec<&str> = names.names(endpoint.parameters).map(|name| &**name).collect();
        EndpointEntry {
            name: format!("{} | {}", provider.name, model.id),
            model_id: model.id.as_str(),
            model_name: &model.name,
            context_length: endpoint.limits.context_length,
            pricing: endpoint.pricing.as_deref().map_or_else(PricingBody::unknown, PricingBody::new),
            provider_name: &provider.name,
            tag: tag(provider, endpoint),
            quantization: endpoint.quantization.as_deref(),
            max_completion_tokens: endpoint.limits.max_completion_tokens,
            max_prompt_tokens: endpoint.limits.max_prompt_tokens,
            status: condition.status(),
            uptime_last_5m: summary.success_rate.map(percent),
            uptime_last_30m: summary.success_rate_half_hour.map(percent),
            uptime_last_1d: summary.success_rate_day.map(percent),
            latency_last_30m: QuantilesBody::new(&summary.first_token_half_hour, Figure::millis),
            throughput_last_30m: QuantilesBody::new(&summary.throughput_half_hour, |rate| Figure::rounded(rate, 1)),
            supports_implicit_caching: endpoint
                .pricing
                .as_deref()
                .is_some_and(|pricing| pricing.input_cache_read.is_some()),
            supports_tool_choice: ToolChoiceBody::new(&supported_parameters),
            supported_parameters,
            supports_voice_cloning: false,
            supports_diarization: false,
            native_tools: NativeToolsBody {},
            service_tier: Absent,
        }
    }
}

/// Name of the endpoint in `provider.order` and `provider.only`.
fn tag(provider: &Provider, endpoint: &Endpoint) -> String {
    match endpoint.variant.as_str() {
        "" => provider.slug.to_string(),
        variant => format!("{}/{variant}", provider.slug),
    }
}

fn percent(share: f64) -> Figure {
    Figure::rounded(share * 100.0, 2)
}

impl QuantilesBody {
    /// All four, or `None` without observations.
    fn new(quantiles: &Quantiles, write: impl Fn(f64) -> Figure) -> Option<QuantilesBody> {
        Some(QuantilesBody {
            p50: write(quantiles.p50?),
            p75: write(quantiles.p75?),
            p90: write(quantiles.p90?),
            p99: write(quantiles.p99?),
        })
    }
}

impl ToolChoiceBody {
    /// `auto` and `none` need support of `tools`, the others also of `tool_choice`.
    fn new(parameters: &[&str]) -> ToolChoiceBody {
        let tools = parameters.contains(&"tools");
        let forced = tools && parameters.contains(&"tool_choice");
        ToolChoiceBody { auto: tools, function: forced, none: tools, required: forced }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::api::{
        models::listed_model::ListedKinds,
        samples::{catalog, measurements, today},
    };

    #[test]
    fn every_endpoint_has_every_member_that_sdks_require() {
        let catalog = catalog();
        let models = ListedModel::all(&catalog, today(), ListedKinds::Models);
        let small = models.iter().find(|listed| listed.id == "acme/small").unwrap();
        let measurements = measurements(&catalog, &[None, Some(0.23)]);
        let page = ModelEndpoints::new(small, &catalog, &measurements);
        expect![[r#"
            {
              "id": "acme/small",
              "name": "Acme: Small",
              "created": 1763629500,
              "description": "Small and quick.",
              "architecture": {
                "modality": "text->text",
                "input_modalities": [
                  "text"
                ],
                "output_modalities": [
                  "text"
                ],
                "tokenizer": "Other",
                "instruct_type": null
              },
              "endpoints": [
                {
                  "name": "Acme | acme/small",
                  "model_id": "acme/small",
                  "model_name": "Acme: Small",
                  "context_length": 128000,
                  "pricing": {
                    "prompt": "0.00000015",
                    "completion": "0.0000006",
                    "request": "0",
                    "image": "0",
                    "web_search": "0",
                    "internal_reasoning": "0",
                    "input_cache_read": "0.000000015",
                    "input_cache_write": "0"
                  },
                  "provider_name": "Acme",
                  "tag": "acme",
                  "quantization": null,
                  "max_completion_tokens": 16384,
                  "max_prompt_tokens": null,
                  "supported_parameters": [
                    "tools",
                    "tool_choice",
                    "max_tokens",
                    "temperature"
                  ],
                  "status": 0,
                  "uptime_last_5m": null,
                  "uptime_last_30m": null,
                  "uptime_last_1d": null,
                  "latency_last_30m": null,
                  "throughput_last_30m": null,
                  "supports_implicit_caching": true,
                  "supports_tool_choice": {
                    "auto": true,
                    "function": true,
                    "none": true,
                    "required": true
                  },
                  "supports_voice_cloning": false,
                  "supports_diarization": false,
                  "native_tools": {},
                  "service_tier": null
                },
                {
                  "name": "Beta Cloud | acme/small",
                  "model_id": "acme/small",
                  "model_name": "Acme: Small",
                  "context_length": 200000,
                  "pricing": {
                    "prompt": "0.0000001",
                    "completion": "0.000001",
                    "request": "0",
                    "image": "0",
                    "web_search": "0",
                    "internal_reasoning": "0",
                    "input_cache_read": "0",
                    "input_cache_write": "0"
                  },
                  "provider_name": "Beta Cloud",
                  "tag": "beta/fp8",
                  "quantization": "fp8",
                  "max_completion_tokens": null,
                  "max_prompt_tokens": null,
                  "supported_parameters": [
                    "max_tokens",
                    "stop",
                    "top_k"
                  ],
                  "status": -1,
                  "uptime_last_5m": 91.23,
                  "uptime_last_30m": 95,
                  "uptime_last_1d": null,
                  "latency_last_30m": {
                    "p50": 230,
                    "p75": 276,
                    "p90": 345,
                    "p99": 690
                  },
                  "throughput_last_30m": {
                    "p50": 0.2,
                    "p75": 0.3,
                    "p90": 0.3,
                    "p99": 0.7
                  },
                  "supports_implicit_caching": false,
                  "supports_tool_choice": {
                    "auto": false,
                    "function": false,
                    "none": false,
                    "required": false
                  },
                  "supports_voice_cloning": false,
                  "supports_diarization": false,
                  "native_tools": {},
                  "service_tier": null
                }
              ]
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&page).unwrap());
    }
}
