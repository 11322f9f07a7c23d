//! JSON of an entry of the model list.
//!
//! Clients validate it strictly: every member is present, counts are integers and prices strings.
//! [`super::listed_model`] gives the values.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use pointsman_domain::{
    DefaultParameters, GeographyPrice, Modalities, ParameterNames, Price, PriceTier, Pricing, ServiceTierPrices, Usd,
};
use serde::{Serialize, Serializer};

use super::listed_model::ListedModel;
use crate::api::number::{Figure, Text};

/// One entry of the model list.
#[derive(Serialize)]
pub(crate) struct ModelEntry<'a> {
    id: &'a str,
    canonical_slug: &'a str,
    name: &'a str,
    created: i64,
    description: &'a str,
    context_length: u32,
    architecture: ArchitectureBody<'a>,
    pricing: PricingBody,
    top_provider: TopProviderBody,
    per_request_limits: Absent,
    supported_parameters: Vec<&'a str>,
    default_parameters: Option<DefaultParametersBody>,
    expiration_date: Option<Text<NaiveDate>>,
    hugging_face_id: Option<&'a str>,
    knowledge_cutoff: Option<&'a str>,
    supported_voices: Absent,
    links: LinksBody,
    object: &'static str,
    owned_by: &'a str,
}

/// A member that clients require and that has no value here: `null`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Absent;

impl Serialize for Absent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_none()
    }
}

/// Inputs and outputs of a model.
#[derive(Serialize)]
pub(crate) struct ArchitectureBody<'a> {
    modality: String,
    input_modalities: Vec<&'static str>,
    output_modalities: Vec<&'static str>,
    tokenizer: &'a str,
    instruct_type: Option<&'a str>,
}

/// Prices in dollars per unit, each a plain decimal string. Clients require the first eight.
#[derive(Serialize)]
pub(crate) struct PricingBody {
    prompt: Text<Price>,
    completion: Text<Price>,
    request: Text<Price>,
    image: Text<Price>,
    web_search: Text<Price>,
    internal_reasoning: Text<Price>,
    input_cache_read: Text<Price>,
    input_cache_write: Text<Price>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_cache_write_1h: Option<Text<Price>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audio: Option<Text<Price>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audio_output: Option<Text<Price>>,
    /// Prices of longer prompts; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tiers: Vec<PriceTierBody>,
    /// Prices of other services than the standard, by their names; absent if there are none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    service_tiers: BTreeMap<String, ServiceTierBody>,
    /// What prices of tokens are multiplied by in a geography; absent if there is none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    inference_geo: BTreeMap<String, Text<Usd>>,
}

/// Prices of a service tier. Absent ones as in the entry itself.
#[derive(Serialize)]
struct ServiceTierBody {
    #[serde(flatten)]
    prices: PriceTierBody,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tiers: Vec<PriceTierBody>,
}

/// Prices of prompts above a length. Absent ones as in the entry without a tier.
#[derive(Serialize)]
struct PriceTierBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    above_prompt_tokens: Option<u64>,
    prompt: Text<Price>,
    completion: Text<Price>,
    #[serde(skip_serializing_if = "Option::is_none")]
    internal_reasoning: Option<Text<Price>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_cache_read: Option<Text<Price>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_cache_write: Option<Text<Price>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_cache_write_1h: Option<Text<Price>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audio: Option<Text<Price>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audio_output: Option<Text<Price>>,
}

#[derive(Serialize)]
struct TopProviderBody {
    context_length: u32,
    max_completion_tokens: u32,
    is_moderated: bool,
}

#[derive(Serialize)]
struct DefaultParametersBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<Figure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<Figure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<Figure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<Figure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<Figure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repetition_penalty: Option<Figure>,
}

#[derive(Serialize)]
struct LinksBody {
    details: String,
}

impl<'a> ModelEntry<'a> {
    /// The entry of a model; `names` is the parameter registry of its catalog.
    pub(crate) fn new(model: &ListedModel<'a>, names: &'a ParameterNames) -> ModelEntry<'a> {
        ModelEntry {
            id: model.id,
            canonical_slug: model.canonical_slug,
            name: model.name,
            created: model.created,
            description: model.description,
            context_length: model.context_length,
            architecture: ArchitectureBody::new(model),
            pricing: model.pricing().map_or_else(PricingBody::unknown, PricingBody::new),
            top_provider: TopProviderBody::new(model),
            per_request_limits: Absent,
            supported_parameters: names.names(model.parameters).map(|name| &**name).collect(),
            default_parameters: model.default_parameters.map(DefaultParametersBody::new),
            expiration_date: model.expiration_date.map(Text),
            hugging_face_id: model.hugging_face_id,
            knowledge_cutoff: model.knowledge_cutoff,
            supported_voices: Absent,
            links: LinksBody { details: format!("/api/v1/models/{}/endpoints", model.id) },
            object: "model",
            owned_by: model.owner,
        }
    }
}

impl<'a> ArchitectureBody<'a> {
    pub(crate) fn new(model: &ListedModel<'a>) -> ArchitectureBody<'a> {
        let names = |set: Modalities| -> Vec<&'static str> { set.iter().map(|modality| modality.as_str()).collect() };
        let (input, output) = (names(model.input), names(model.output));
        ArchitectureBody {
            modality: format!("{}->{}", input.join("+"), output.join("+")),
            input_modalities: input,
            output_modalities: output,
            tokenizer: model.tokenizer,
            instruct_type: model.instruct_type,
        }
    }
}

impl PricingBody {
    /// The prices of an endpoint; "0" for prices that are not configured.
    pub(crate) fn new(pricing: &Pricing) -> PricingBody {
        let or_zero = |price: Option<Price>| Text(price.unwrap_or(Usd::ZERO));
        PricingBody {
            prompt: Text(pricing.prompt),
            completion: Text(pricing.completion),
            request: Text(pricing.request),
            image: Text(pricing.image),
            web_search: Text(pricing.web_search),
            internal_reasoning: or_zero(pricing.internal_reasoning),
            input_cache_read: or_zero(pricing.input_cache_read),
            input_cache_write: or_zero(pricing.input_cache_write),
            input_cache_write_1h: pricing.input_cache_write_1h.map(Text),
            audio: pricing.audio.map(Text),
            audio_output: pricing.audio_output.map(Text),
            tiers: pricing.tiers.iter().map(PriceTierBody::new).collect(),
            service_tiers: pricing.service_tiers.iter().map(ServiceTierBody::named).collect(),
            inference_geo: pricing.geographies.iter().map(factor).collect(),
        }
    }

    /// "-1" for prices that are not known: those of an alias, which depend on the chosen model, and those of an endpoint
    /// without a price. Clients reject `null`.
    pub(crate) fn unknown() -> PricingBody {
        const UNKNOWN: Price = Usd::from_femto(-1_000_000_000_000_000);
        let all = Pricing {
            prompt: UNKNOWN,
            completion: UNKNOWN,
            request: UNKNOWN,
            image: UNKNOWN,
            web_search: UNKNOWN,
            internal_reasoning: Some(UNKNOWN),
            input_cache_read: Some(UNKNOWN),
            input_cache_write: Some(UNKNOWN),
            ..Pricing::default()
        };
        PricingBody::new(&all)
    }
}

/// The name and the factor of a geography.
fn factor(geography: &GeographyPrice) -> (String, Text<Usd>) {
    let factor = Usd::from_femto(i128::from(geography.per_mille) * 1_000_000_000_000);
    (geography.name.to_string(), Text(factor))
}

impl ServiceTierBody {
    fn named(tier: &ServiceTierPrices) -> (String, ServiceTierBody) {
        let ServiceTierPrices { name, pricing } = tier;
        let prices = PriceTierBody { above_prompt_tokens: None, ..PriceTierBody::new(&PriceTier::of(0, pricing)) };
        let tiers = pricing.tiers.iter().map(PriceTierBody::new).collect();
        (name.to_string(), ServiceTierBody { prices, tiers })
    }
}

impl PriceTierBody {
    fn new(tier: &PriceTier) -> PriceTierBody {
        PriceTierBody {
            above_prompt_tokens: Some(tier.above_prompt_tokens),
            prompt: Text(tier.prompt),
            completion: Text(tier.completion),
            internal_reasoning: tier.internal_reasoning.map(Text),
            input_cache_read: tier.input_cache_read.map(Text),
            input_cache_write: tier.input_cache_write.map(Text),
            input_cache_write_1h: tier.input_cache_write_1h.map(Text),
            audio: tier.audio.map(Text),
            audio_output: tier.audio_output.map(Text),
        }
    }
}

impl TopProviderBody {
    fn new(model: &ListedModel<'_>) -> TopProviderBody {
        let limits = model.preferred.map(|endpoint| endpoint.limits);
        let context_length = limits.map_or(model.context_length, |limits| limits.context_length);
        TopProviderBody {
            context_length,
            // Clients require a number; without a limit the context window is the limit.
            max_completion_tokens: limits.and_then(|limits| limits.max_completion_tokens).unwrap_or(context_length),
            is_moderated: model.preferred.is_some_and(|endpoint| endpoint.is_moderated),
        }
    }
}

impl DefaultParametersBody {
    fn new(defaults: DefaultParameters) -> DefaultParametersBody {
        DefaultParametersBody {
            temperature: defaults.temperature.map(Figure::exact),
            top_p: defaults.top_p.map(Figure::exact),
            top_k: defaults.top_k.map(Figure::exact),
            frequency_penalty: defaults.frequency_penalty.map(Figure::exact),
            presence_penalty: defaults.presence_penalty.map(Figure::exact),
            repetition_penalty: defaults.repetition_penalty.map(Figure::exact),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::api::{
        models::listed_model::ListedKinds,
        samples::{catalog, today},
    };

    fn check(id: &str, expected: Expect) {
        let catalog = catalog();
        let models = ListedModel::all(&catalog, today(), ListedKinds::ModelsAndAliases);
        let model = models.iter().find(|model| model.id == id).unwrap();
        let entry = ModelEntry::new(model, &catalog.parameters);
        expected.assert_eq(&serde_json::to_string_pretty(&entry).unwrap());
    }

    #[test]
    fn an_entry_has_every_key_integer_counts_and_string_prices() {
        check(
            "acme/small",
            expect![[r#"
            {
              "id": "acme/small",
              "canonical_slug": "acme/small-2026-01",
              "name": "Acme: Small",
              "created": 1763629500,
              "description": "Small and quick.",
              "context_length": 200000,
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
              "top_provider": {
                "context_length": 128000,
                "max_completion_tokens": 16384,
                "is_moderated": false
              },
              "per_request_limits": null,
              "supported_parameters": [
                "tools",
                "tool_choice",
                "max_tokens",
                "temperature",
                "stop",
                "top_k"
              ],
              "default_parameters": {
                "temperature": 0.7,
                "top_k": 40
              },
              "expiration_date": null,
              "hugging_face_id": null,
              "knowledge_cutoff": null,
              "supported_voices": null,
              "links": {
                "details": "/api/v1/models/acme/small/endpoints"
              },
              "object": "model",
              "owned_by": "acme"
            }"#]],
        );
    }

    #[test]
    fn an_alias_has_the_properties_of_its_models_and_no_price() {
        check(
            "service/free",
            expect![[r#"
            {
              "id": "service/free",
              "canonical_slug": "service/free",
              "name": "service/free",
              "created": 1763629700,
              "description": "Chooses for you.",
              "context_length": 32000,
              "architecture": {
                "modality": "text->text",
                "input_modalities": [
                  "text"
                ],
                "output_modalities": [
                  "text"
                ],
                "tokenizer": "Router",
                "instruct_type": null
              },
              "pricing": {
                "prompt": "-1",
                "completion": "-1",
                "request": "-1",
                "image": "-1",
                "web_search": "-1",
                "internal_reasoning": "-1",
                "input_cache_read": "-1",
                "input_cache_write": "-1"
              },
              "top_provider": {
                "context_length": 32000,
                "max_completion_tokens": 32000,
                "is_moderated": false
              },
              "per_request_limits": null,
              "supported_parameters": [
                "max_tokens"
              ],
              "default_parameters": null,
              "expiration_date": null,
              "hugging_face_id": null,
              "knowledge_cutoff": null,
              "supported_voices": null,
              "links": {
                "details": "/api/v1/models/service/free/endpoints"
              },
              "object": "model",
              "owned_by": "service"
            }"#]],
        );
    }
}
