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

view! {
    /// A model and its endpoints.
    pub(crate) struct ModelEndpoints<'a> {
        /// The page of a model.
        pub(crate) fn new(listed: &ListedModel<'a>, catalog: &'a Catalog, measurements: &Measurements) {
            let entries = listed.endpoints.iter().filter_map(|&position| {
                let endpoint = catalog.endpoint(position)?;
                let provider = catalog.provider_of(endpoint)?;
                let model = catalog.model_of(endpoint)?;
                let measured = measurements.endpoint(catalog, position);
                Some(EndpointEntry::new(model, endpoint, provider, &catalog.parameters, measured))
            });
        }

        /// Name of the model or alias in requests.
        id: &'a str = listed.id,
        /// Display name.
        name: &'a str = listed.name,
        /// When the model was published, as configured, in Unix seconds; of an alias, that of its oldest model.
        created: i64 = listed.created,
        /// Text of the configuration; may be empty.
        description: &'a str = listed.description,
        architecture: ArchitectureBody<'a> = ArchitectureBody::new(listed),
        /// Its enabled endpoints.
        endpoints: Vec<EndpointEntry<'a>> = entries.collect(),
    }
}

view! {
    /// The model at one provider.
    struct EndpointEntry<'a> as "ModelEndpoint" {
        fn new(
            model: &'a Model,
            endpoint: &'a Endpoint,
            provider: &'a Provider,
            names: &'a ParameterNames,
            measured: Measured<'_>,
        ) {
            let Measured { summary, condition, .. } = measured;
            let supported_parameters: Vec<&str> = names.names(endpoint.parameters).map(|name| &**name).collect();
            let supports_tool_choice = ToolChoiceBody::new(&supported_parameters);
        }

        /// Provider and model, for people.
        name: String = format!("{} | {}", provider.name, model.id),
        /// Id of the model, such as `meadow/small`.
        model_id: &'a str = model.id.as_str(),
        /// Display name of the model.
        model_name: &'a str = &model.name,
        /// Context window in tokens.
        context_length: u32 = endpoint.limits.context_length,
        pricing: PricingBody = endpoint.pricing.as_deref().map_or_else(PricingBody::unknown, PricingBody::new),
        /// Display name of the provider.
        provider_name: &'a str = &provider.name,
        /// Name of the endpoint in `provider.order` and `provider.only`: the slug of the provider, with `/` and the variant
        /// if it has one.
        tag: String = tag(provider, endpoint),
        /// Such as `fp8`; `null` if not known.
        quantization: Option<&'a str> = endpoint.quantization.as_deref(),
        /// Longest answer in tokens; `null` without a limit of its own.
        max_completion_tokens: Option<u32> = endpoint.limits.max_completion_tokens,
        /// Longest prompt in tokens; `null` without a limit of its own.
        max_prompt_tokens: Option<u32> = endpoint.limits.max_prompt_tokens,
        /// Parameters that it supports.
        supported_parameters: Vec<&'a str> = supported_parameters,
        /// 0: healthy or not called lately; -1: degraded; -2: down.
        #[cfg_attr(test, schemars(extend("enum" = [0, -1, -2])))]
        status: i8 = condition.status(),
        /// Share of whole answers in the last five minutes, in percent with two decimals; 429s and refused keys do not
        /// count. It is no time. `null` without an attempt that counts.
        uptime_last_5m: Option<Figure> = summary.success_rate.map(percent),
        /// Share of whole answers in the last half hour, in percent with two decimals; 429s and refused keys do not count.
        /// It is no time. `null` without an attempt that counts.
        uptime_last_30m: Option<Figure> = summary.success_rate_half_hour.map(percent),
        /// Share of whole answers in the last day, in percent with two decimals; 429s and refused keys do not count. It is
        /// no time. `null` without an attempt that counts.
        uptime_last_1d: Option<Figure> = summary.success_rate_day.map(percent),
        /// Milliseconds from the start of an attempt to its first content, of streams of the last half hour, with one
        /// decimal; `null` without any.
        latency_last_30m: Option<QuantilesBody> = QuantilesBody::new(&summary.first_token_half_hour, Figure::millis),
        /// Shown output tokens per second in the last half hour, as `throughput_tps` of `/models/stats`, with one decimal;
        /// `null` without any.
        throughput_last_30m: Option<QuantilesBody> =
            QuantilesBody::new(&summary.throughput_half_hour, |rate| Figure::rounded(rate, 1)),
        /// Whether prompt tokens read from the provider's cache have a price of their own.
        supports_implicit_caching: bool = endpoint
            .pricing
            .as_deref()
            .is_some_and(|pricing| pricing.input_cache_read.is_some()),
        supports_tool_choice: ToolChoiceBody = supports_tool_choice,
        /// Always `false`.
        supports_voice_cloning: bool = false,
        /// Always `false`.
        supports_diarization: bool = false,
        /// Always empty.
        native_tools: NativeToolsBody = NativeToolsBody {},
        /// Always `null`. Client libraries require the member; the gateway has no value for it.
        service_tier: Absent = Absent,
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "HalfHourQuantiles"))]
struct QuantilesBody {
    /// Median.
    #[cfg_attr(test, schemars(with = "f64"))]
    p50: Figure,
    /// 75th percentile.
    #[cfg_attr(test, schemars(with = "f64"))]
    p75: Figure,
    /// 90th percentile.
    #[cfg_attr(test, schemars(with = "f64"))]
    p90: Figure,
    /// 99th percentile.
    #[cfg_attr(test, schemars(with = "f64"))]
    p99: Figure,
}

view! {
    /// The supported forms of `tool_choice`.
    struct ToolChoiceBody {
        /// `auto` and `none` need support of `tools`, the others also of `tool_choice`.
        fn new(parameters: &[&str]) {
            let tools = parameters.contains(&"tools");
            let forced = tools && parameters.contains(&"tool_choice");
        }

        /// Whether the model may decide on calls of tools.
        auto: bool = tools,
        /// Whether a request can force the call of one tool.
        function: bool = forced,
        /// Whether a request can forbid calls of tools.
        none: bool = tools,
        /// Whether a request can force the call of some tool.
        required: bool = forced,
    }
}

/// Tools that the provider runs itself: always empty.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct NativeToolsBody {}

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
