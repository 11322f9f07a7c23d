//! All known fields of a request body: their allowed values and how they are forwarded.
//!
//! One line per name. A field that is only checked is a [`Check`]; one whose value is
//! used has a variant of its own, read in [`super::found`].

use pointsman_domain::Invalid;

use super::{fault, json, json_type::JsonType, request_kind::RequestKind};
use crate::{
    gateway_fields::{GatewayField, RoutingField},
    json::Raw,
    neutral::Path,
};

/// A field by its meaning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field {
    Model,
    Messages,
    Stream,
    MaxTokens,
    MaxCompletionTokens,
    N,
    Tools,
    ToolChoice,
    ResponseFormat,
    Reasoning,
    ReasoningEffort,
    IncludeReasoning,
    Modalities,
    Store,
    User,
    /// A routing parameter at the top level.
    Routing(RoutingField),
    /// Another field for the gateway alone.
    Gateway(GatewayField),
    Prompt,
    Input,
    VectorFormat,
    Size,
    ImageFormat,
    InputReferences,
    AspectRatio,
    Resolution,
    /// Passed on once its shape is right.
    Plain(Check),
    /// Not known here.
    Unknown,
}

/// How a member is forwarded to the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forwarding {
    /// Not sent: used by the gateway only.
    Consumed,
    /// Null, which counts as absent.
    Absent,
    /// Its value is replaced by the upstream's name for the model.
    Model,
    /// Always sent.
    Always,
    /// Sent if the endpoint supports it, or if it is not gated.
    Parameter,
    /// The limit on output tokens under its older name.
    MaxTokens,
    /// The limit on output tokens under its newer name.
    MaxCompletionTokens,
    /// Sent if the endpoint supports one of the two parameters that control it.
    ResponseFormat,
    /// Sent as it is, or as `reasoning_effort`.
    Reasoning,
    /// Sent if the endpoint supports it or accepts unknown fields.
    Unknown,
}

impl Field {
    /// The field of that name in a kind of call.
    pub(super) fn named(call: RequestKind, name: &str) -> Field {
        match call {
            RequestKind::Chat | RequestKind::Preview => Field::chat(name),
            RequestKind::Image => Field::image(name),
            RequestKind::Embedding => Field::embedding(name),
        }
    }

    fn chat(name: &str) -> Field {
        use Check::{Bias, Choice, Flag, Integer, List, Loose, Number, Object, Positive, Stop, Text};
        match name {
            "messages" => Field::Messages,
            "max_tokens" => Field::MaxTokens,
            "temperature" => Field::Plain(Number(0.0, 2.0)),
            "top_p" | "min_p" | "top_a" => Field::Plain(Number(0.0, 1.0)),
            "tools" => Field::Tools,
            "tool_choice" => Field::ToolChoice,
            "max_completion_tokens" => Field::MaxCompletionTokens,
            "response_format" => Field::ResponseFormat,
            "reasoning" => Field::Reasoning,
            "reasoning_effort" => Field::ReasoningEffort,
            "include_reasoning" => Field::IncludeReasoning,
            "modalities" => Field::Modalities,
            "store" => Field::Store,
            "n" => Field::N,
            "stop" => Field::Plain(Stop),
            "frequency_penalty" | "presence_penalty" => Field::Plain(Number(-2.0, 2.0)),
            "top_k" => Field::Plain(Integer(0, i64::MAX)),
            "repetition_penalty" => Field::Plain(Positive(2.0)),
            "logit_bias" => Field::Plain(Bias),
            "logprobs" | "parallel_tool_calls" => Field::Plain(Flag),
            "top_logprobs" => Field::Plain(Integer(0, 20)),
            "functions" => Field::Plain(List),
            "function_call" => Field::Plain(Choice),
            "audio"
            | "image_config"
            | "prediction"
            | "web_search_options"
            | "prompt_cache_options"
            | "cache_control" => Field::Plain(Object),
            "service_tier" | "prompt_cache_key" | "prompt_cache_retention" | "safety_identifier" | "verbosity" => {
                Field::Plain(Text)
            }
            "moderation" => Field::Plain(Loose),
            _ => Field::shared(name),
        }
    }

    fn image(name: &str) -> Field {
        use Check::{Integer, Text};
        match name {
            "prompt" => Field::Prompt,
            "size" => Field::Size,
            "response_format" => Field::ImageFormat,
            "n" => Field::N,
            "input_references" => Field::InputReferences,
            "aspect_ratio" => Field::AspectRatio,
            "resolution" => Field::Resolution,
            "quality" | "style" | "background" | "output_format" | "moderation" => Field::Plain(Text),
            "output_compression" => Field::Plain(Integer(0, 100)),
            _ => Field::shared(name),
        }
    }

    fn embedding(name: &str) -> Field {
        match name {
            "input" => Field::Input,
            "encoding_format" => Field::VectorFormat,
            "dimensions" => Field::Plain(Check::Integer(1, 1_000_000)),
            "input_type" | "task_type" => Field::Plain(Check::Text),
            _ => Field::shared(name),
        }
    }

    fn shared(name: &str) -> Field {
        match name {
            "model" => Field::Model,
            "stream" => Field::Stream,
            "user" => Field::User,
            "seed" => Field::Plain(Check::Integer(i64::MIN, i64::MAX)),
            _ => match (RoutingField::from_name(name), GatewayField::from_name(name)) {
                (Some(field), _) => Field::Routing(field),
                (_, Some(field)) => Field::Gateway(field),
                _ => Field::Unknown,
            },
        }
    }

    /// How the field is forwarded.
    pub(super) fn forwarding(self) -> Forwarding {
        match self {
            Field::Model => Forwarding::Model,
            Field::Messages | Field::Stream | Field::Prompt | Field::Input => Forwarding::Always,
            Field::MaxTokens => Forwarding::MaxTokens,
            Field::MaxCompletionTokens => Forwarding::MaxCompletionTokens,
            Field::ResponseFormat => Forwarding::ResponseFormat,
            Field::Reasoning => Forwarding::Reasoning,
            Field::N
            | Field::Tools
            | Field::ToolChoice
            | Field::ReasoningEffort
            | Field::IncludeReasoning
            | Field::Modalities
            | Field::Store
            | Field::User
            | Field::VectorFormat
            | Field::Size
            | Field::InputReferences
            | Field::AspectRatio
            | Field::Resolution
            | Field::Plain(_) => Forwarding::Parameter,
            Field::Unknown => Forwarding::Unknown,
            _ => Forwarding::Consumed,
        }
    }
}

/// Check of a field whose value is not used here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Check {
    /// A number from the first to the second.
    Number(f64, f64),
    /// A number above 0 and up to this.
    Positive(f64),
    /// An integer from the first to the second.
    Integer(i64, i64),
    Flag,
    Text,
    List,
    Object,
    /// A string or an object.
    Choice,
    /// A string, an object or a boolean.
    Loose,
    /// One or a few strings that end the answer.
    Stop,
    /// Token ids with a number each.
    Bias,
}

/// Most strings that may end an answer.
pub(crate) const MAX_STOPS: usize = 16;
/// Bounds on the bias of a token.
const BIAS: (f64, f64) = (-100.0, 100.0);

impl Check {
    /// Refuses a value of another shape.
    pub(super) fn apply(self, raw: Raw<'_>, path: &Path<'_>) -> Result<(), Invalid> {
        let kind = JsonType::of(raw);
        match self {
            Check::Number(least, most) => json::number_within(raw, path, least, most).map(drop),
            Check::Positive(most) => {
                let number = json::number(raw, path)?;
                let good = number > 0.0 && number <= most;
                let message = || format!("'{path}' must be above 0 and at most {most}.");
                if good { Ok(()) } else { Err(fault::refused(path, message())) }
            }
            Check::Integer(least, most) => json::integer_within(raw, path, least, most).map(drop),
            Check::Flag => json::flag(raw, path).map(drop),
            Check::Text => expect(kind == JsonType::Text, path, "a string", kind),
            Check::List => expect(kind == JsonType::Array, path, "an array", kind),
            Check::Object => json::object(raw, path),
            Check::Choice => {
                expect(matches!(kind, JsonType::Text | JsonType::Object), path, "a string or an object", kind)
            }
            Check::Loose => {
                let good = matches!(kind, JsonType::Text | JsonType::Object | JsonType::Bool);
                expect(good, path, "a string, an object or a boolean", kind)
            }
            Check::Stop => stop(raw, path),
            Check::Bias => bias(raw, path),
        }
    }
}

fn expect(good: bool, path: &Path<'_>, expected: &str, got: JsonType) -> Result<(), Invalid> {
    if good { Ok(()) } else { Err(fault::wrong_type(path, expected, got)) }
}

fn stop(raw: Raw<'_>, path: &Path<'_>) -> Result<(), Invalid> {
    let entry = |raw: Raw<'_>, path: &Path<'_>| match &*json::text(raw, path)? {
        "" => Err(fault::refused(path, format!("'{path}' must not be empty."))),
        _ => Ok(()),
    };
    match JsonType::of(raw) {
        JsonType::Text => entry(raw, path),
        JsonType::Array => {
            let entries = json::elements(raw, path, MAX_STOPS)?;
            entries.into_iter().enumerate().try_for_each(|(position, raw)| entry(raw, &path.item(position)))
        }
        other => Err(fault::wrong_type(path, "a string or an array of strings", other)),
    }
}

fn bias(raw: Raw<'_>, path: &Path<'_>) -> Result<(), Invalid> {
    let (least, most) = BIAS;
    let members = json::Object::read(raw, path)?;
    // The names are token ids of the client's choosing, so the field as a whole is blamed.
    members.iter().try_for_each(|member| json::number_within(member.value, path, least, most).map(drop))
}
