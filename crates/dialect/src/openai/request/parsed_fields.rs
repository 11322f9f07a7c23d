//! Values of the fields of a body that the gateway uses.

use std::borrow::Cow;

use pointsman_domain::{Invalid, Modalities, Modality, Source};

use super::{
    embedding_fields::{EmbeddingInput, VectorFormat},
    fault,
    field_location::FieldLocation,
    fields::Field,
    image_fields::ImageFields,
    json::{self, Object},
    metadata,
    routing::RoutingBuilder,
    tools::DeclaredTools,
};
use crate::{
    gateway_fields::GatewayField,
    json::Raw,
    neutral::{Effort, Path},
};

/// Longest name of a model, characters.
const MAX_MODEL_CHARS: usize = 256;
/// Longest `user` and `session_id`, characters.
const MAX_NAME_CHARS: usize = 256;
/// Most models that may be named as fallbacks.
const MAX_MODELS: usize = 32;
/// Most words in a list of words.
const MAX_WORDS: usize = 32;
/// Largest `trace`.
const MAX_TRACE_BYTES: usize = 16_384;

/// Requested format of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum OutputFormat {
    /// Plain text, also when no format was given.
    #[default]
    Text,
    /// Some JSON object.
    JsonObject,
    /// JSON of a schema.
    JsonSchema,
    /// What the gateway does not know: only an endpoint that speaks chat can take it, as it is.
    Unknown,
}

/// A schema that is to be followed strictly.
#[derive(Debug, Clone)]
pub(super) struct StrictSchema<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) schema: Raw<'a>,
}

/// All values that were read.
#[derive(Default)]
pub(super) struct ParsedFields<'a> {
    pub(super) model: Option<String>,
    pub(super) models: Vec<String>,
    pub(super) has_messages: bool,
    pub(super) stream: bool,
    pub(super) include_usage: Option<bool>,
    pub(super) usage_include: bool,
    pub(super) max_tokens: Option<i64>,
    pub(super) max_completion_tokens: Option<i64>,
    pub(super) n: Option<i64>,
    pub(super) tools: DeclaredTools<'a>,
    pub(super) tool_choice: Option<(Raw<'a>, FieldLocation)>,
    pub(super) format: OutputFormat,
    /// The mistake of sending a format of an unknown type to an endpoint that does not speak chat.
    pub(super) unknown_format: Option<Invalid>,
    /// A schema that is to be followed strictly.
    pub(super) strict_schema: Option<StrictSchema<'a>>,
    pub(super) effort: Option<Cow<'a, str>>,
    /// `reasoning.enabled`, or that there is a budget.
    pub(super) reasoning_enabled: Option<bool>,
    pub(super) reasoning_effort: Option<(Cow<'a, str>, FieldLocation)>,
    pub(super) exclude_reasoning: bool,
    pub(super) output: Option<Modalities>,
    pub(super) store: bool,
    pub(super) metadata: Option<Raw<'a>>,
    pub(super) tags: Vec<(String, String)>,
    pub(super) user: Option<String>,
    pub(super) session_id: Option<String>,
    pub(super) trace: Option<Raw<'a>>,
    pub(super) why_not: Option<(Raw<'a>, FieldLocation)>,
    pub(super) what_if: Option<(Raw<'a>, FieldLocation)>,
    pub(super) routing: RoutingBuilder,
    pub(super) image: ImageFields<'a>,
    /// Of an embedding request.
    pub(super) embedding_input: Option<EmbeddingInput>,
    pub(super) vector_format: VectorFormat,
}

impl<'a> ParsedFields<'a> {
    /// Reads one field, which is there and not null.
    pub(super) fn read(
        &mut self,
        field: Field,
        raw: Raw<'a>,
        path: &Path<'_>,
        place: FieldLocation,
        max_n: u32,
    ) -> Result<(), Invalid> {
        match field {
            Field::Plain(check) => check.apply(raw, path)?,
            Field::Model => self.model = Some(model(raw, path)?),
            Field::Stream => self.stream = json::flag(raw, path)?,
            Field::MaxTokens => self.max_tokens = Some(json::integer_within(raw, path, 1, i64::MAX)?),
            Field::MaxCompletionTokens => {
                self.max_completion_tokens = Some(json::integer_within(raw, path, 1, i64::MAX)?);
            }
            Field::N => self.n = Some(json::integer_within(raw, path, 1, i64::from(max_n))?),
            Field::Store => self.store = json::flag(raw, path)?,
            Field::User => self.user = Some(json::text_within(raw, path, MAX_NAME_CHARS)?.into_owned()),
            Field::ToolChoice => self.tool_choice = Some((raw, place)),
            Field::ResponseFormat => self.response_format(raw, path)?,
            Field::Modalities => self.output = Some(modalities(raw, path)?),
            Field::Reasoning | Field::ReasoningEffort | Field::IncludeReasoning => {
                self.thinking(field, raw, path, place)?;
            }
            Field::Routing(name) => self.routing.read(name, raw, path, place.source())?,
            Field::Gateway(field) => self.gateway(field, raw, path, place)?,
            Field::Input => self.embedding_input = Some(EmbeddingInput::read(raw, path)?),
            Field::VectorFormat => {
                let position = json::choice(raw, path, &["float", "base64"])?;
                self.vector_format = if position == 0 { VectorFormat::Float } else { VectorFormat::Base64 };
            }
            _ => self.image.read(field, raw, path)?,
        }
        Ok(())
    }

    /// Checks what the answer is to look like. A type that the gateway does not know is for endpoints that speak chat.
    fn response_format(&mut self, raw: Raw<'a>, path: &Path<'_>) -> Result<(), Invalid> {
        let object = Object::read(raw, path)?;
        let of = path.member("type");
        let kind = object.get("type").ok_or_else(|| fault::required(&of))?;
        self.format = match &*json::text(kind, &of)? {
            "text" => OutputFormat::Text,
            "json_object" => OutputFormat::JsonObject,
            "json_schema" => {
                let at = path.member("json_schema");
                self.strict_schema = schema(object.get("json_schema").ok_or_else(|| fault::required(&at))?, &at)?;
                OutputFormat::JsonSchema
            }
            other => {
                self.unknown_format = Some(fault::not_one_of(&of, other, &["text", "json_object", "json_schema"]));
                OutputFormat::Unknown
            }
        };
        Ok(())
    }

    /// Whether reasoning is asked for, or is not to be; `None` if nothing is said.
    pub(super) fn asks_reasoning(&self) -> Option<bool> {
        let effort = self.effort.as_deref().or(self.reasoning_effort.as_ref().map(|(effort, _)| &**effort));
        match (effort, self.reasoning_enabled) {
            (Some("none"), _) | (_, Some(false)) => Some(false),
            (None, None) => None,
            _ => Some(true),
        }
    }

    fn thinking(&mut self, field: Field, raw: Raw<'a>, path: &Path<'_>, place: FieldLocation) -> Result<(), Invalid> {
        match field {
            Field::ReasoningEffort => self.reasoning_effort = Some((json::text(raw, path)?, place)),
            Field::IncludeReasoning => self.exclude_reasoning |= !json::flag(raw, path)?,
            _ => self.reasoning(raw, path)?,
        }
        Ok(())
    }

    fn reasoning(&mut self, raw: Raw<'a>, path: &Path<'_>) -> Result<(), Invalid> {
        let object = Object::read(raw, path)?;
        if let Some(raw) = object.get("effort") {
            json::choice(raw, &path.member("effort"), &Effort::NAMES)?;
            self.effort = raw.text();
        }
        if let Some(raw) = object.get("max_tokens") {
            json::integer_within(raw, &path.member("max_tokens"), 0, i64::MAX)?;
            self.reasoning_enabled = Some(true);
        }
        if let Some(raw) = object.get("enabled") {
            self.reasoning_enabled = Some(json::flag(raw, &path.member("enabled"))?);
        }
        if let Some(raw) = object.get("exclude") {
            self.exclude_reasoning |= json::flag(raw, &path.member("exclude"))?;
        }
        Ok(())
    }

    /// Reads the fields that are never sent upstream.
    fn gateway(
        &mut self,
        field: GatewayField,
        raw: Raw<'a>,
        path: &Path<'_>,
        place: FieldLocation,
    ) -> Result<(), Invalid> {
        match field {
            GatewayField::ExtraBody => {}
            GatewayField::Models => self.models = models(raw, path)?,
            GatewayField::StreamOptions => self.include_usage = switch(raw, path, "include_usage")?,
            GatewayField::SessionId => {
                self.session_id = Some(json::text_within(raw, path, MAX_NAME_CHARS)?.into_owned())
            }
            GatewayField::Usage => self.usage_include = switch(raw, path, "include")?.unwrap_or(false),
            GatewayField::Provider => self.routing.provider(raw, path, Source::Provider)?,
            GatewayField::Plugins => self.routing.plugins(raw, path)?,
            GatewayField::RouteSeed => self.routing.route_seed(raw, path)?,
            GatewayField::Metadata => {
                self.tags = metadata::read(raw, path, &mut self.routing)?;
                self.metadata = Some(raw);
            }
            GatewayField::Trace => self.trace = Some(trace(raw, path)?),
            GatewayField::Route => {
                json::choice(raw, path, &["fallback"])?;
            }
            GatewayField::Transforms => drop(strings(raw, path)?),
            GatewayField::Debug => drop(switch(raw, path, "echo_upstream_body")?),
            GatewayField::WhyNot => self.why_not = Some((raw, place)),
            GatewayField::WhatIf => self.what_if = Some((raw, place)),
        }
        Ok(())
    }
}

fn model(raw: Raw<'_>, path: &Path<'_>) -> Result<String, Invalid> {
    let message = || format!("Field '{path}' must be a non-empty string of at most {MAX_MODEL_CHARS} characters.");
    let name = raw.text().ok_or_else(|| fault::mistyped(path, message()))?;
    let fits = name.len() <= MAX_MODEL_CHARS || name.chars().count() <= MAX_MODEL_CHARS;
    if name.chars().any(char::is_control) {
        return Err(fault::refused(path, format!("Field '{path}' must not contain control characters.")));
    }
    if !name.is_empty() && fits { Ok(name.into_owned()) } else { Err(fault::refused(path, message())) }
}

fn models(raw: Raw<'_>, path: &Path<'_>) -> Result<Vec<String>, Invalid> {
    let elements = json::elements(raw, path, MAX_MODELS)?;
    elements.into_iter().enumerate().map(|(position, raw)| model(raw, &path.item(position))).collect()
}

/// One boolean member of an object whose other members are ignored.
fn switch(raw: Raw<'_>, path: &Path<'_>, name: &str) -> Result<Option<bool>, Invalid> {
    Object::read(raw, path)?.get(name).map(|raw| json::flag(raw, &path.member(name))).transpose()
}

fn strings<'a>(raw: Raw<'a>, path: &Path<'_>) -> Result<Vec<Cow<'a, str>>, Invalid> {
    let elements = json::elements(raw, path, MAX_WORDS)?;
    elements.into_iter().enumerate().map(|(position, raw)| json::text(raw, &path.item(position))).collect()
}

fn trace<'a>(raw: Raw<'a>, path: &Path<'_>) -> Result<Raw<'a>, Invalid> {
    json::object(raw, path)?;
    let fits = raw.written().len() <= MAX_TRACE_BYTES;
    let message = || format!("'{path}' may have at most {MAX_TRACE_BYTES} bytes.");
    if fits { Ok(raw) } else { Err(fault::refused(path, message())) }
}

fn modalities(raw: Raw<'_>, path: &Path<'_>) -> Result<Modalities, Invalid> {
    const MODALITIES: [Modality; 3] = [Modality::Text, Modality::Image, Modality::Audio];
    let modality = |(position, raw): (usize, Raw<'_>)| {
        let found = json::choice(raw, &path.item(position), &MODALITIES.map(Modality::as_str))?;
        Ok(MODALITIES.get(found).copied().unwrap_or(Modality::Text))
    };
    json::elements(raw, path, MAX_WORDS)?.into_iter().enumerate().map(modality).collect()
}

/// The schema, if it is to be followed strictly.
fn schema<'a>(raw: Raw<'a>, path: &Path<'_>) -> Result<Option<StrictSchema<'a>>, Invalid> {
    let object = Object::read(raw, path)?;
    let at = path.member("name");
    let name = json::text(object.get("name").ok_or_else(|| fault::required(&at))?, &at)?;
    if name.is_empty() {
        return Err(fault::refused(&at, format!("'{at}' must not be empty.")));
    }
    let at = path.member("strict");
    let is_strict = object.get("strict").map(|raw| json::flag(raw, &at)).transpose()?.unwrap_or(false);
    let at = path.member("schema");
    let schema = object.get("schema").ok_or_else(|| fault::required(&at))?;
    json::object(schema, &at)?;
    Ok(is_strict.then_some(StrictSchema { name, schema }))
}
