//! Models and their endpoints as configured: `[[models]]` and `[[models.endpoints]]`.
//!
//! An endpoint inherits prices, limits and parameters that it does not set from its model. Prices are replaced as a
//! whole, because prices of two providers must not be mixed.

use std::{collections::HashMap, ops::RangeInclusive};

use chrono::{DateTime, NaiveDate, NaiveTime};
use pointsman_domain::{
    Architecture, DefaultParameters, EndpointLimits, Modalities, Modality, Model, ModelId, Pricing, QualityScores,
    ReasoningFormat, closest_name,
};

use super::{
    endpoint_settings::EndpointSettings,
    prices::{self, Prices},
    quality,
    section::{Item, Section},
    tree::Value,
};

const MAX_MODELS: usize = 5_000;
const MAX_ENDPOINTS: usize = 255;
const MAX_PARAMETERS: usize = 128;
/// Lengths of prompts and answers.
const TOKENS: RangeInclusive<u32> = 1..=1_000_000_000;

/// One `[[models]]` as read.
pub(super) struct ModelTable<'t> {
    /// Without positions of its endpoints; `None` when the id is wrong; the fault is reported then.
    pub(super) model: Option<Model>,
    /// Its id and canonical slug, with their locations.
    pub(super) named: Vec<Item<'t>>,
    pub(super) endpoints: Vec<EndpointTable<'t>>,
}

/// One `[[models.endpoints]]` as read, with inherited values.
pub(super) struct EndpointTable<'t> {
    pub(super) provider: Option<Item<'t>>,
    pub(super) upstream_model: String,
    pub(super) variant: String,
    /// `None` where they are unknown.
    pub(super) pricing: Option<Pricing>,
    /// When the prices were read, if they say so.
    pub(super) price_date: Option<NaiveDate>,
    pub(super) limits: EndpointLimits,
    pub(super) parameters: Vec<String>,
    pub(super) quantization: Option<String>,
    pub(super) quality: QualityScores,
    pub(super) is_moderated: bool,
    pub(super) disabled: bool,
    pub(super) inputs_per_call: Option<u32>,
    /// `None`: as is known of dialect and model.
    pub(super) reasoning_state: Option<ReasoningFormat>,
    pub(super) images_through_chat: bool,
    pub(super) settings: EndpointSettings,
}

/// Values that endpoints inherit from their model.
struct Inherited {
    pricing: Option<Prices>,
    context_length: Option<u32>,
    max_completion_tokens: Option<u32>,
    max_prompt_tokens: Option<u32>,
    parameters: Vec<String>,
    is_moderated: bool,
}

/// Reads all models. `settings` are those of the providers, by their names.
pub(super) fn read_all<'t>(root: &Section<'t>, settings: &HashMap<&str, EndpointSettings>) -> Vec<ModelTable<'t>> {
    root.sections("models", MAX_MODELS, |section| read_model(section, settings))
}

fn read_model<'t>(section: &Section<'t>, settings: &HashMap<&str, EndpointSettings>) -> ModelTable<'t> {
    keys! { section:
        //! Models, one `[[models]]` each, with 1 to 255 endpoints. Endpoints inherit limits, parameters and prices that
        //! they do not set.
        /// Exactly one slash; unique.
        id = with(id) [allowed = "`<namespace>/<name>`"],
        /// Permanent name; requests may use it too.
        canonical_slug = with(canonical_slug) [absent = "the id", allowed = "`<namespace>/<name>`"],
        /// Display name.
        name = filled() [absent = "the id"],
        /// When it was added; the list shows the newest first.
        created = with(created) [absent = "1970-01-01", kind = "date or Unix seconds"],
        /// Shown in the list of models.
        description = text_or(""),
        /// Accepted inputs.
        input "input_modalities" = with(modalities)
            [allowed = "`text`, `image`, `audio`, `file`, `video`", default = "[\"text\"]"],
        /// Generated outputs.
        output "output_modalities" = with(modalities)
            [allowed = "`text`, `image`, `audio`, `video`, `embeddings`", default = "[\"text\"]"],
        /// Shown in the list of models.
        tokenizer = filled_text() [default = "\"Other\""],
        /// Shown in the list of models.
        instruct_type = filled_text() [absent = "none"],
        /// Shown in the list of models.
        hugging_face_id = filled_text() [absent = "none"],
        /// Shown in the list of models.
        knowledge_cutoff = day() [absent = "none", kind = "date"],
        /// Day from which the model is retired.
        expiration_date = day() [absent = "none", kind = "date"],
        /// Supported image sizes; empty: any size is forwarded.
        image_sizes = with(image_sizes) [allowed = "sizes such as `1024x1024`"],
        /// Context window.
        context_length = integer(TOKENS) [unit = "tokens", absent = "here or at each endpoint"],
        /// Longest answer.
        max_completion_tokens = integer(TOKENS) [unit = "tokens", absent = "no limit of its own"],
        /// Longest prompt.
        max_prompt_tokens = integer(TOKENS) [unit = "tokens", absent = "no limit of its own"],
        /// Supported parameters; others are dropped. A parameter that no endpoint lists, such as `n`, is sent to all.
        /// For image models: list `response_format` only if both `url` and `b64_json` are supported. Marks of the
        /// prompt cache from clients of the Messages API reach an endpoint of chat only if it lists `cache_control`.
        parameters "supported_parameters" = with(parameters),
        /// Whether the provider moderates prompts.
        is_moderated = flag_or(false),
    }
    let quality = quality::read_scores(section);
    let default_parameters = section.optional("default_parameters", default_parameters);
    // A wrong value is no missing one: endpoints do not report it again.
    let has_prices = PRICES.iter().any(|key| section.has(key));
    let inherited = Inherited {
        pricing: prices::read(section).or(has_prices.then_some(Prices::Unknown)),
        context_length: context_length.or(section.has("context_length").then_some(1)),
        max_completion_tokens,
        max_prompt_tokens,
        parameters: parameters.unwrap_or_default(),
        is_moderated,
    };
    let endpoints = read_endpoints(section, &inherited, settings);
    let tokenizer = tokenizer.unwrap_or("Other".to_owned());
    let model = id.map(|id: ModelId| Model {
        canonical_slug: canonical_slug.unwrap_or_else(|| id.as_str().to_owned()),
        name: name.unwrap_or(id.as_str()).to_owned(),
        created,
        description,
        architecture: Architecture { input, output, tokenizer, instruct_type },
        default_parameters,
        expiration_date,
        hugging_face_id,
        knowledge_cutoff: knowledge_cutoff.map(|day| day.to_string()),
        image_sizes,
        quality,
        endpoints: Vec::new(),
        id,
    });
    let named = ["id", "canonical_slug"].into_iter().filter_map(|key| section.item(key)).collect();
    ModelTable { model, named, endpoints }
}

fn id(section: &Section<'_>, key: &'static str) -> Option<ModelId> {
    const SHAPE: &str = "\"<namespace>/<name>\" with exactly one slash, such as \"acme/small\"";
    let text = section.required(key, SHAPE)?;
    text.parse().map_err(|_| section.fault(key, "is not a model id", SHAPE)).ok()
}

fn canonical_slug(section: &Section<'_>, key: &'static str) -> Option<String> {
    let text = section.filled(key)?;
    if text.parse::<ModelId>().is_err() {
        section.fault(key, "is not a model id", "\"<namespace>/<name>\", such as \"acme/small-2026-01\"");
    }
    Some(text.to_owned())
}

fn read_endpoints<'t>(
    section: &Section<'t>,
    inherited: &Inherited,
    settings: &HashMap<&str, EndpointSettings>,
) -> Vec<EndpointTable<'t>> {
    if !section.has("endpoints") {
        section.absence("endpoints", "is missing", "at least one [[models.endpoints]] below the model");
    }
    let read = |endpoint: &Section<'t>| read_endpoint(endpoint, inherited, settings);
    let endpoints = section.sections("endpoints", MAX_ENDPOINTS, read);
    if endpoints.is_empty() && section.has("endpoints") {
        section.absence("endpoints", "is empty", "at least one [[models.endpoints]] below the model");
    }
    endpoints
}

fn read_endpoint<'t>(
    section: &Section<'t>,
    inherited: &Inherited,
    settings: &HashMap<&str, EndpointSettings>,
) -> EndpointTable<'t> {
    keys! { section:
        //! Endpoints, the model at a provider, one `[[models.endpoints]]` each. The first one is preferred if all else
        //! is equal. `pricing`, `usd_per_million` and `usd_each` are set as in a model.
        /// Provider of the endpoint.
        provider = required("the name of a [providers.<name>] or [simulation.providers.<name>]")
            [allowed = "short name of a provider"],
        /// The provider's own name for the model.
        upstream_model = required("the provider's own name for the model"),
        /// Distinguishes two endpoints at one provider.
        variant = with(variant) [allowed = "short name"],
        /// Such as `fp8`.
        quantization = filled() [absent = "unknown"],
        /// Whether the endpoint is never used; its prices may be absent then.
        disabled = flag_or(false),
        /// Context window.
        context_length = integer(TOKENS) [unit = "tokens", absent = "the model's"],
        /// Longest answer.
        max_completion_tokens = integer(TOKENS) [unit = "tokens", absent = "the model's"],
        /// Longest prompt.
        max_prompt_tokens = integer(TOKENS) [unit = "tokens", absent = "the model's"],
        /// Supported parameters.
        parameters "supported_parameters" = with(parameters) [absent = "the model's"],
        /// Whether the provider moderates prompts.
        is_moderated = flag_or(inherited.is_moderated) [absent = "the model's"],
        /// Whether it generates images through chat, not through `/images/generations`.
        images_through_chat = flag_or(false),
        /// Most inputs of one call for embeddings; more are sent as several calls. It changes nothing where a call
        /// takes one input, and for `openai`, whose requests stay whole.
        inputs_per_call = integer(1..=2048)
            [absent = "what is known of its API: 100, 250 (Vertex AI) or 96 (Cohere at Bedrock)"],
        /// Format of the reasoning that it takes back (`reasoning_details[].format`): while tool calls of an answer
        /// with such reasoning are open, the endpoints with its format are asked first.
        reasoning_state = choice(&REASONING_STATES) [absent = "what is known of the model"],
    }
    let of_provider = provider.and_then(|provider| settings.get(provider)).unwrap_or(&EndpointSettings::STANDARD);
    let settings = section.inheriting("the provider's", || EndpointSettings::read(section, of_provider.clone()));
    let pricing = pricing(section, inherited, disabled);
    let quality = quality::read_scores(section);
    let context_length = context_length.or(inherited.context_length);
    if context_length.is_none() && !section.has("context_length") {
        section.absence("context_length", "is missing", "the context window in tokens, here or at the model");
    }
    EndpointTable {
        provider: section.item("provider"),
        upstream_model: upstream_model.unwrap_or("?").to_owned(),
        variant,
        price_date: pricing.as_ref().and_then(Prices::date),
        pricing: pricing.and_then(Prices::known),
        limits: EndpointLimits {
            context_length: context_length.unwrap_or(1),
            max_completion_tokens: max_completion_tokens.or(inherited.max_completion_tokens),
            max_prompt_tokens: max_prompt_tokens.or(inherited.max_prompt_tokens),
        },
        parameters: parameters.unwrap_or_else(|| inherited.parameters.clone()),
        quantization: quantization.map(str::to_ascii_lowercase),
        quality,
        is_moderated,
        disabled,
        inputs_per_call,
        reasoning_state,
        images_through_chat,
        settings,
    }
}

/// Parameters of chats and embeddings that providers list. Others are allowed; one that looks like a misspelt name of these
/// gets a warning.
const KNOWN_PARAMETERS: [&str; 28] = [
    "cache_control",
    "dimensions",
    "encoding_format",
    "frequency_penalty",
    "image_config",
    "include_reasoning",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "min_p",
    "modalities",
    "parallel_tool_calls",
    "presence_penalty",
    "reasoning",
    "reasoning_effort",
    "repetition_penalty",
    "response_format",
    "seed",
    "stop",
    "structured_outputs",
    "temperature",
    "tool_choice",
    "tools",
    "top_k",
    "top_logprobs",
    "top_p",
    "verbosity",
];

/// Keys of prices.
const PRICES: [&str; 3] = ["pricing", "usd_per_million", "usd_each"];

/// Formats of reasoning, for `reasoning_state`.
const REASONING_STATES: [(&str, ReasoningFormat); 4] = [
    ("none", ReasoningFormat::Unknown),
    (ReasoningFormat::Anthropic.as_str(), ReasoningFormat::Anthropic),
    (ReasoningFormat::Gemini.as_str(), ReasoningFormat::Gemini),
    (ReasoningFormat::Responses.as_str(), ReasoningFormat::Responses),
];

fn pricing(section: &Section<'_>, inherited: &Inherited, disabled: bool) -> Option<Prices> {
    let own = prices::read(section);
    let has_prices = PRICES.iter().any(|key| section.has(key));
    if own.is_none() && inherited.pricing.is_none() && !disabled && !has_prices {
        let allowed = "usd_per_million = { prompt = \"…\", completion = \"…\" } here or at the model, pricing = \"unknown\", or \
             disabled = true";
        section.absence("pricing", "is missing", allowed);
    }
    own.or_else(|| inherited.pricing.clone())
}

fn variant(section: &Section<'_>, key: &'static str) -> String {
    let text = section.text_or(key, "");
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.');
    if text.len() > 64 || !text.bytes().all(plain) {
        section.fault(key, "is not a short name", "at most 64 of: lower-case letters, digits, '-', '_', '.'");
    }
    text
}

fn parameters(section: &Section<'_>, key: &'static str) -> Option<Vec<String>> {
    let items = section.texts(key, MAX_PARAMETERS)?;
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    for item in
        items.iter().filter(|item| item.text.len() > 64 || item.text.is_empty() || !item.text.bytes().all(plain))
    {
        item.fault("is not a parameter name", "lower-case letters, digits and '_', such as \"max_tokens\"");
    }
    for item in items.iter().filter(|item| !KNOWN_PARAMETERS.contains(&item.text)) {
        if let Some(meant) = closest_name(item.text, KNOWN_PARAMETERS) {
            item.warning(format!("is no parameter that is known here; did you mean '{meant}'?"));
        }
    }
    Some(items.iter().map(|item| item.text.to_owned()).collect())
}

fn modalities(section: &Section<'_>, key: &'static str) -> Modalities {
    let Some(items) = section.texts(key, Modality::ALL.len()) else { return Modalities::TEXT };
    if items.is_empty() {
        section.fault(key, "is empty", "at least one of text, image, audio, file, video, embeddings");
    }
    items.iter().filter_map(|item| item.named("not a modality", Modality::ALL, Modality::as_str)).collect()
}

fn default_parameters(section: &Section<'_>) -> DefaultParameters {
    keys! { section => DefaultParameters {}:
        //! Values for requests that do not set them.
        /// Sampling temperature.
        temperature = number(0.0..=2.0) [absent = "none"],
        /// Share of probability for sampling.
        top_p = number(0.0..=1.0) [absent = "none"],
        /// Number of tokens for sampling.
        top_k = number(0.0..=1e9) [absent = "none"],
        /// Penalty for tokens by their frequency so far.
        frequency_penalty = number(-2.0..=2.0) [absent = "none"],
        /// Penalty for tokens that occurred before.
        presence_penalty = number(-2.0..=2.0) [absent = "none"],
        /// Penalty for repeating the prompt and the answer.
        repetition_penalty = number(0.0..=2.0) [absent = "none"],
    }
}

fn image_sizes(section: &Section<'_>, key: &'static str) -> Vec<String> {
    let items = section.texts(key, 64).unwrap_or_default();
    let side =
        |text: &str| text.parse::<u32>().is_ok_and(|side| (1..=99_999).contains(&side)) && !text.starts_with('0');
    for item in &items {
        if !item.text.split_once('x').is_some_and(|(width, height)| side(width) && side(height)) {
            item.fault("is not a size", "\"<width>x<height>\" in pixels, such as \"1024x1024\"");
        }
    }
    items.iter().map(|item| item.text.to_owned()).collect()
}

/// The Unix time of `created`, which is a number of seconds or a date.
fn created(section: &Section<'_>, key: &'static str) -> i64 {
    let seconds = match section.any(key) {
        None => Some(0),
        Some(Value::Integer(seconds)) => Some(*seconds).filter(|seconds| (0..=253_402_300_799).contains(seconds)),
        Some(Value::Date(date)) => seconds_of(&date.to_string()),
        Some(Value::Text(text)) => seconds_of(text),
        Some(_) => None,
    };
    if seconds.is_none() {
        section.fault(key, "is not a date or time", "a date such as 2026-11-20, or Unix seconds");
    }
    seconds.unwrap_or_default()
}

fn seconds_of(text: &str) -> Option<i64> {
    let time = DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp());
    time.or_else(|| Some(text.parse::<NaiveDate>().ok()?.and_time(NaiveTime::MIN).and_utc().timestamp()))
}
