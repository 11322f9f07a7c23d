//! Models and their endpoints as configured: `[[models]]` and `[[models.endpoints]]`.
//!
//! An endpoint inherits prices, limits and parameters that it does not set from its model. Prices are replaced as a
//! whole, because prices of two providers must not be mixed.

use std::sync::Arc;

use chrono::{DateTime, NaiveDate, NaiveTime};
use pointsman_domain::{
    AddedMembers, Architecture, CapabilitySet, DefaultParameters, Dialect, EndpointLimits, Modalities, Modality,
    ModelId, Pricing, ReasoningFormat, ReasoningHistory, closest_name,
};

use super::{
    prices::{self, Prices},
    providers::{self, DIALECTS},
    section::{Item, Section},
    tree::Value,
};

const MAX_MODELS: usize = 5_000;
const MAX_ENDPOINTS: usize = 255;
const MAX_PARAMETERS: usize = 128;
const MAX_CONTEXT_LENGTH: u32 = 1_000_000_000;

/// One `[[models]]` as read.
pub(super) struct ModelTable<'t> {
    /// `None` when it is wrong; the fault is reported then.
    pub(super) id: Option<ModelId>,
    pub(super) canonical_slug: String,
    /// Its id and canonical slug, with their locations.
    pub(super) named: Vec<Item<'t>>,
    pub(super) name: String,
    pub(super) created: i64,
    pub(super) description: String,
    pub(super) architecture: Architecture,
    pub(super) default_parameters: Option<DefaultParameters>,
    pub(super) expiration_date: Option<NaiveDate>,
    pub(super) hugging_face_id: Option<String>,
    pub(super) knowledge_cutoff: Option<String>,
    pub(super) image_sizes: Vec<String>,
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
    pub(super) is_moderated: bool,
    pub(super) disabled: bool,
    /// The default of the provider is used when this or one of the next three is `None`.
    pub(super) dialect: Option<Dialect>,
    pub(super) wants_max_completion_tokens: Option<bool>,
    pub(super) wants_reasoning_effort: Option<bool>,
    pub(super) reasoning_history: Option<ReasoningHistory>,
    pub(super) omits: Option<AddedMembers>,
    pub(super) lacks: Option<CapabilitySet>,
    pub(super) legacy_completions: Option<bool>,
    pub(super) tools_force_effort_none: Option<bool>,
    pub(super) allow_state: Option<bool>,
    pub(super) mid_conversation_system: Option<bool>,
    pub(super) knows_developer_role: Option<bool>,
    pub(super) forwards_unknown_fields: Option<bool>,
    pub(super) inputs_per_call: Option<u32>,
    /// `None`: as is known of dialect and model.
    pub(super) reasoning_state: Option<ReasoningFormat>,
    pub(super) images_through_chat: bool,
    pub(super) counts_tokens: Option<bool>,
    pub(super) safety_settings: Option<Arc<str>>,
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

pub(super) fn read_all<'t>(root: &Section<'t>) -> Vec<ModelTable<'t>> {
    root.sections("models", MAX_MODELS, read_model)
}

fn read_model<'t>(section: &Section<'t>) -> ModelTable<'t> {
    let id = read_id(section);
    let shown = id.as_ref().map_or("?", ModelId::as_str);
    let text = |key| section.filled(key).map(str::to_owned);
    // A wrong value is no missing one: endpoints do not report it again.
    let has_prices = PRICES.iter().any(|key| section.has(key));
    let inherited = Inherited {
        pricing: prices::read(section).or(has_prices.then_some(Prices::Unknown)),
        context_length: tokens(section, "context_length").or(section.has("context_length").then_some(1)),
        max_completion_tokens: tokens(section, "max_completion_tokens"),
        max_prompt_tokens: tokens(section, "max_prompt_tokens"),
        parameters: parameters(section).unwrap_or_default(),
        is_moderated: section.flag_or("is_moderated", false),
    };
    ModelTable {
        named: ["id", "canonical_slug"].into_iter().filter_map(|key| section.item(key)).collect(),
        canonical_slug: canonical_slug(section).unwrap_or_else(|| shown.to_owned()),
        name: section.filled("name").unwrap_or(shown).to_owned(),
        created: created(section),
        description: section.text("description").unwrap_or_default().to_owned(),
        architecture: architecture(section),
        default_parameters: section.optional("default_parameters", default_parameters),
        expiration_date: day(section, "expiration_date"),
        hugging_face_id: text("hugging_face_id"),
        knowledge_cutoff: day(section, "knowledge_cutoff").map(|day| day.to_string()),
        image_sizes: image_sizes(section),
        endpoints: read_endpoints(section, &inherited),
        id,
    }
}

fn read_id(section: &Section<'_>) -> Option<ModelId> {
    const SHAPE: &str = "\"<namespace>/<name>\" with exactly one slash, such as \"acme/small\"";
    let text = section.required("id", SHAPE)?;
    text.parse().map_err(|_| section.fault("id", "is not a model id", SHAPE)).ok()
}

fn canonical_slug(section: &Section<'_>) -> Option<String> {
    let text = section.filled("canonical_slug")?;
    if text.parse::<ModelId>().is_err() {
        section.fault("canonical_slug", "is not a model id", "\"<namespace>/<name>\", such as \"acme/small-2026-01\"");
    }
    Some(text.to_owned())
}

fn read_endpoints<'t>(section: &Section<'t>, inherited: &Inherited) -> Vec<EndpointTable<'t>> {
    if !section.has("endpoints") {
        section.absence("endpoints", "is missing", "at least one [[models.endpoints]] below the model");
    }
    let endpoints = section.sections("endpoints", MAX_ENDPOINTS, |endpoint| read_endpoint(endpoint, inherited));
    if endpoints.is_empty() && section.has("endpoints") {
        section.absence("endpoints", "is empty", "at least one [[models.endpoints]] below the model");
    }
    endpoints
}

fn read_endpoint<'t>(section: &Section<'t>, inherited: &Inherited) -> EndpointTable<'t> {
    let disabled = section.flag_or("disabled", false);
    let limit = |key, inherited: Option<u32>| tokens(section, key).or(inherited);
    section.required("provider", "the name of a [providers.<name>] or [simulation.providers.<name>]");
    let pricing = pricing(section, inherited, disabled);
    EndpointTable {
        provider: section.item("provider"),
        upstream_model: section
            .required("upstream_model", "the provider's own name for the model")
            .unwrap_or("?")
            .into(),
        variant: variant(section),
        price_date: pricing.as_ref().and_then(Prices::date),
        pricing: pricing.and_then(Prices::known),
        limits: EndpointLimits {
            context_length: context_length(section, inherited),
            max_completion_tokens: limit("max_completion_tokens", inherited.max_completion_tokens),
            max_prompt_tokens: limit("max_prompt_tokens", inherited.max_prompt_tokens),
        },
        parameters: parameters(section).unwrap_or_else(|| inherited.parameters.clone()),
        quantization: section.filled("quantization").map(str::to_ascii_lowercase),
        is_moderated: section.flag_or("is_moderated", inherited.is_moderated),
        disabled,
        dialect: section.choice("dialect", &DIALECTS),
        wants_max_completion_tokens: section.flag("wants_max_completion_tokens"),
        wants_reasoning_effort: section.flag("wants_reasoning_effort"),
        reasoning_history: providers::reasoning_history(section),
        omits: providers::omits(section),
        lacks: providers::lacks(section),
        legacy_completions: section.flag("legacy_completions"),
        tools_force_effort_none: section.flag("tools_force_effort_none"),
        allow_state: section.flag("allow_state"),
        mid_conversation_system: section.flag("mid_conversation_system"),
        knows_developer_role: section.flag("knows_developer_role"),
        forwards_unknown_fields: section.choice("unknown_fields", &[("forward", true), ("drop", false)]),
        inputs_per_call: section.integer("inputs_per_call", 1..=2048),
        reasoning_state: section.choice("reasoning_state", &REASONING_STATES),
        images_through_chat: section.flag_or("images_through_chat", false),
        counts_tokens: providers::counts_tokens(section),
        safety_settings: providers::safety_settings(section),
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

fn context_length(section: &Section<'_>, inherited: &Inherited) -> u32 {
    let own = tokens(section, "context_length").or(inherited.context_length);
    if own.is_none() && !section.has("context_length") {
        section.absence("context_length", "is missing", "the context window in tokens, here or at the model");
    }
    own.unwrap_or(1)
}

fn variant(section: &Section<'_>) -> String {
    let Some(text) = section.text("variant") else { return String::new() };
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.');
    if text.len() > 64 || !text.bytes().all(plain) {
        section.fault("variant", "is not a short name", "at most 64 of: lower-case letters, digits, '-', '_', '.'");
    }
    text.to_owned()
}

fn tokens(section: &Section<'_>, key: &'static str) -> Option<u32> {
    section.integer(key, 1..=MAX_CONTEXT_LENGTH)
}

fn parameters(section: &Section<'_>) -> Option<Vec<String>> {
    let items = section.texts("supported_parameters", MAX_PARAMETERS)?;
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

fn architecture(section: &Section<'_>) -> Architecture {
    Architecture {
        input: modalities(section, "input_modalities"),
        output: modalities(section, "output_modalities"),
        tokenizer: section.filled("tokenizer").unwrap_or("Other").to_owned(),
        instruct_type: section.filled("instruct_type").map(str::to_owned),
    }
}

fn modalities(section: &Section<'_>, key: &'static str) -> Modalities {
    let Some(items) = section.texts(key, Modality::ALL.len()) else { return Modalities::TEXT };
    if items.is_empty() {
        section.fault(key, "is empty", "at least one of text, image, audio, file, video, embeddings");
    }
    let parsed = items.iter().filter_map(|item| {
        let modality = Modality::parse(item.text);
        if modality.is_none() {
            item.unknown("not a modality", Modality::ALL.map(Modality::as_str));
        }
        modality
    });
    parsed.collect()
}

fn default_parameters(section: &Section<'_>) -> DefaultParameters {
    DefaultParameters {
        temperature: section.number("temperature", 0.0..=2.0),
        top_p: section.number("top_p", 0.0..=1.0),
        top_k: section.number("top_k", 0.0..=1e9),
        frequency_penalty: section.number("frequency_penalty", -2.0..=2.0),
        presence_penalty: section.number("presence_penalty", -2.0..=2.0),
        repetition_penalty: section.number("repetition_penalty", 0.0..=2.0),
    }
}

fn image_sizes(section: &Section<'_>) -> Vec<String> {
    let items = section.texts("image_sizes", 64).unwrap_or_default();
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
fn created(section: &Section<'_>) -> i64 {
    let seconds = match section.any("created") {
        None => Some(0),
        Some(Value::Integer(seconds)) => Some(*seconds).filter(|seconds| (0..=253_402_300_799).contains(seconds)),
        Some(Value::Date(date)) => seconds_of(&date.to_string()),
        Some(Value::Text(text)) => seconds_of(text),
        Some(_) => None,
    };
    if seconds.is_none() {
        section.fault("created", "is not a date or time", "a date such as 2026-11-20, or Unix seconds");
    }
    seconds.unwrap_or_default()
}

fn seconds_of(text: &str) -> Option<i64> {
    let time = DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp());
    time.or_else(|| Some(text.parse::<NaiveDate>().ok()?.and_time(NaiveTime::MIN).and_utc().timestamp()))
}

fn day(section: &Section<'_>, key: &'static str) -> Option<NaiveDate> {
    let text = match section.any(key)? {
        Value::Date(date) => date.to_string(),
        Value::Text(text) => text.clone(),
        _ => String::new(),
    };
    // Years have exactly four digits, as in answers.
    let day = text.parse::<NaiveDate>().ok().filter(|_| text.len() == "2026-11-20".len());
    if day.is_none() {
        section.fault(key, "is not a day", "a date such as 2027-01-31");
    }
    day
}
