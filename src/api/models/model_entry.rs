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

view! {
    /// A model, or an alias that stands for several.
    pub(crate) struct ModelEntry<'a> as "Model" {
        /// The entry of a model; `names` is the parameter registry of its catalog.
        pub(crate) fn new(model: &ListedModel<'a>, names: &'a ParameterNames) {}

        /// Name of the model or alias in requests.
        id: &'a str = model.id,
        /// Permanent name, which requests may use too.
        canonical_slug: &'a str = model.canonical_slug,
        /// Display name.
        name: &'a str = model.name,
        /// When the model was published, as configured, in Unix seconds; of an alias, that of its oldest model.
        created: i64 = model.created,
        /// Text of the configuration; may be empty.
        description: &'a str = model.description,
        /// Largest context window of its enabled endpoints, in tokens.
        context_length: u32 = model.context_length,
        architecture: ArchitectureBody<'a> = ArchitectureBody::new(model),
        /// Prices of the first enabled endpoint.
        pricing: PricingBody = model.pricing().map_or_else(PricingBody::unknown, PricingBody::new),
        /// The first enabled endpoint; of an alias, the largest window.
        top_provider: TopProviderBody = TopProviderBody::new(model),
        /// Always `null`. Client libraries require the member; the gateway has no value for it.
        per_request_limits: Absent = Absent,
        /// Parameters that at least one enabled endpoint supports.
        supported_parameters: Vec<&'a str> = names.names(model.parameters).map(|name| &**name).collect(),
        /// Values that hold for requests without them; `null` if none are configured.
        default_parameters: Option<DefaultParametersBody> = model.default_parameters.map(DefaultParametersBody::new),
        /// Day from which the model is retired, such as `2027-01-31`; `null` if none is known.
        expiration_date: Option<Text<NaiveDate>> = model.expiration_date.map(Text),
        /// Name at Hugging Face; `null` without one.
        hugging_face_id: Option<&'a str> = model.hugging_face_id,
        /// What the model was trained until, as configured; `null` if not known.
        knowledge_cutoff: Option<&'a str> = model.knowledge_cutoff,
        /// Always `null`. Client libraries require the member; the gateway has no value for it.
        supported_voices: Absent = Absent,
        links: LinksBody = LinksBody { details: format!("/api/v1/models/{}/endpoints", model.id) },
        /// Always `model`.
        object: &'static str = "model",
        /// The part of the id before the slash.
        owned_by: &'a str = model.owner,
    }
}

/// A member that clients require and that has no value here: `null`.
#[derive(Clone, Copy, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(crate) struct Absent;

impl Serialize for Absent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_none()
    }
}

view! {
    /// Inputs and outputs of a model.
    pub(crate) struct ArchitectureBody<'a> as "Architecture" {
        pub(crate) fn new(model: &ListedModel<'a>) {
            let names = |set: Modalities| -> Vec<&'static str> { set.iter().map(|modality| modality.as_str()).collect() };
            let (input, output) = (names(model.input), names(model.output));
        }

        /// Both in short, such as `text+image->text`.
        modality: String = format!("{}->{}", input.join("+"), output.join("+")),
        /// What the prompt may hold.
        #[cfg_attr(test, schemars(with = "Vec<crate::base::words::Modality>"))]
        input_modalities: Vec<&'static str> = input,
        /// What the answer may hold.
        #[cfg_attr(test, schemars(with = "Vec<crate::base::words::Modality>"))]
        output_modalities: Vec<&'static str> = output,
        /// Family of the tokenizer, as configured; `Router` for an alias.
        tokenizer: &'a str = model.tokenizer,
        /// Format of instructions, as configured; `null` without one.
        instruct_type: Option<&'a str> = model.instruct_type,
    }
}

view! {
    /// List prices. Those of an alias, and those that are not known, are `-1`: client libraries reject `null`.
    pub(crate) struct PricingBody as "Pricing" {
        /// The prices of an endpoint; "0" for prices that are not configured.
        pub(crate) fn new(pricing: &Pricing) {
            let or_zero = |price: Option<Price>| Text(price.unwrap_or(Usd::ZERO));
        }

        /// US dollars per prompt token, as a decimal string.
        prompt: Text<Price> = Text(pricing.prompt),
        /// US dollars per output token, as a decimal string.
        completion: Text<Price> = Text(pricing.completion),
        /// US dollars per request, as a decimal string.
        request: Text<Price> = Text(pricing.request),
        /// US dollars per image of the prompt; of a model that makes images, per image that it makes, as a decimal string.
        image: Text<Price> = Text(pricing.image),
        /// US dollars per web search, as a decimal string.
        web_search: Text<Price> = Text(pricing.web_search),
        /// US dollars per reasoning token, as a decimal string; `0` if the configuration has none, and then they cost what
        /// other output tokens do.
        internal_reasoning: Text<Price> = or_zero(pricing.internal_reasoning),
        /// US dollars per prompt token read from the provider's cache, as a decimal string; `0` if the configuration has
        /// none, and then they cost what other prompt tokens do.
        input_cache_read: Text<Price> = or_zero(pricing.input_cache_read),
        /// US dollars per prompt token written to it for five minutes, as a decimal string; `0` if the configuration has
        /// none, and then they cost what other prompt tokens do.
        input_cache_write: Text<Price> = or_zero(pricing.input_cache_write),
        /// US dollars per prompt token written to it for one hour, as a decimal string; absent if the configuration has
        /// none.
        #[serde(skip_serializing_if = "Option::is_none")]
        input_cache_write_1h: Option<Text<Price>> = pricing.input_cache_write_1h.map(Text),
        /// US dollars per prompt token of audio, as a decimal string; absent if the configuration has none.
        #[serde(skip_serializing_if = "Option::is_none")]
        audio: Option<Text<Price>> = pricing.audio.map(Text),
        /// US dollars per output token of audio, as a decimal string; absent if the configuration has none.
        #[serde(skip_serializing_if = "Option::is_none")]
        audio_output: Option<Text<Price>> = pricing.audio_output.map(Text),
        /// Prices of longer prompts, by ascending length; absent if there are none. What a tier leaves out is as without
        /// it.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tiers: Vec<PriceTierBody> = pricing.tiers.iter().map(PriceTierBody::new).collect(),
        /// Prices of other services than the standard, such as `flex`, `priority` and `fast`, by the provider's word;
        /// absent if there are none. What a service leaves out is as in the list itself: cached tokens cost what its prompt
        /// tokens do.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        service_tiers: BTreeMap<String, ServiceTierBody> =
            pricing.service_tiers.iter().map(ServiceTierBody::named).collect(),
        /// What the prices of tokens are multiplied by in a geography, such as `us`; absent if there is none.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        inference_geo: BTreeMap<String, Text<Usd>> = pricing.geographies.iter().map(factor).collect(),
    }
}

/// Prices of a service tier. Absent ones as in the entry itself.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct ServiceTierBody {
    #[serde(flatten)]
    prices: TierPricesBody,
    /// Prices of longer prompts in this service, as without it; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tiers: Vec<PriceTierBody>,
}

/// Prices of prompts above a length. Absent ones as in the entry without a tier.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct PriceTierBody {
    /// The prices hold for prompts of more tokens than this.
    above_prompt_tokens: u64,
    #[serde(flatten)]
    prices: TierPricesBody,
}

view! {
    struct TierPricesBody {
        fn new(tier: &PriceTier) {}

        /// US dollars per prompt token, as a decimal string.
        prompt: Text<Price> = Text(tier.prompt),
        /// US dollars per output token, as a decimal string.
        completion: Text<Price> = Text(tier.completion),
        /// US dollars per reasoning token, as a decimal string.
        #[serde(skip_serializing_if = "Option::is_none")]
        internal_reasoning: Option<Text<Price>> = tier.internal_reasoning.map(Text),
        /// US dollars per prompt token read from the cache, as a decimal string.
        #[serde(skip_serializing_if = "Option::is_none")]
        input_cache_read: Option<Text<Price>> = tier.input_cache_read.map(Text),
        /// US dollars per prompt token written to the cache for five minutes, as a decimal string.
        #[serde(skip_serializing_if = "Option::is_none")]
        input_cache_write: Option<Text<Price>> = tier.input_cache_write.map(Text),
        /// US dollars per prompt token written to the cache for one hour, as a decimal string.
        #[serde(skip_serializing_if = "Option::is_none")]
        input_cache_write_1h: Option<Text<Price>> = tier.input_cache_write_1h.map(Text),
        /// US dollars per prompt token of audio, as a decimal string.
        #[serde(skip_serializing_if = "Option::is_none")]
        audio: Option<Text<Price>> = tier.audio.map(Text),
        /// US dollars per output token of audio, as a decimal string.
        #[serde(skip_serializing_if = "Option::is_none")]
        audio_output: Option<Text<Price>> = tier.audio_output.map(Text),
    }
}

view! {
    struct TopProviderBody {
        fn new(model: &ListedModel<'_>) {
            let limits = model.preferred.map(|endpoint| endpoint.limits);
            let context_length = limits.map_or(model.context_length, |limits| limits.context_length);
        }

        /// Its context window in tokens.
        context_length: u32 = context_length,
        /// Longest answer in tokens; without a limit of its own, the context window.
        // Clients require a number; without a limit the context window is the limit.
        max_completion_tokens: u32 = limits.and_then(|limits| limits.max_completion_tokens).unwrap_or(context_length),
        /// Whether the provider moderates prompts.
        is_moderated: bool = model.preferred.is_some_and(|endpoint| endpoint.is_moderated),
    }
}

view! {
    struct DefaultParametersBody {
        fn new(defaults: DefaultParameters) {}

        /// What holds for requests without it.
        #[serde(skip_serializing_if = "Option::is_none")]
        temperature: Option<Figure> = defaults.temperature.map(Figure::exact),
        /// What holds for requests without it.
        #[serde(skip_serializing_if = "Option::is_none")]
        top_p: Option<Figure> = defaults.top_p.map(Figure::exact),
        /// What holds for requests without it.
        #[serde(skip_serializing_if = "Option::is_none")]
        top_k: Option<Figure> = defaults.top_k.map(Figure::exact),
        /// What holds for requests without it.
        #[serde(skip_serializing_if = "Option::is_none")]
        frequency_penalty: Option<Figure> = defaults.frequency_penalty.map(Figure::exact),
        /// What holds for requests without it.
        #[serde(skip_serializing_if = "Option::is_none")]
        presence_penalty: Option<Figure> = defaults.presence_penalty.map(Figure::exact),
        /// What holds for requests without it.
        #[serde(skip_serializing_if = "Option::is_none")]
        repetition_penalty: Option<Figure> = defaults.repetition_penalty.map(Figure::exact),
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct LinksBody {
    /// Path of its endpoints, without what the gateway is mounted below.
    details: String,
}

impl PricingBody {
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
        let prices = TierPricesBody::new(&PriceTier::new(0, pricing));
        let tiers = pricing.tiers.iter().map(PriceTierBody::new).collect();
        (name.to_string(), ServiceTierBody { prices, tiers })
    }
}

impl PriceTierBody {
    fn new(tier: &PriceTier) -> PriceTierBody {
        PriceTierBody { above_prompt_tokens: tier.above_prompt_tokens, prices: TierPricesBody::new(tier) }
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
