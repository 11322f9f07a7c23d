//! A chat request, whichever dialect it is written in next.

use std::borrow::Cow;

use bytes::BytesMut;
use pointsman_domain::{EffortBudgets, ReasoningFormat, RequestedService};

use super::{text::EscapedText, unsupported_fields::UnsupportedFields};
use crate::json::{Raw, push_array};

/// What a request asks for. Borrows the body; values that are only passed on stay as they were written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conversation<'a> {
    /// System and developer messages before the first other message, part by part, in order: once the turns are
    /// [settled](Conversation::settle_turns).
    pub(crate) system: Vec<Part<'a>>,
    /// The messages as they came; once they are settled, those after [`Conversation::system`].
    pub(crate) turns: Vec<Turn<'a>>,
    /// Declared tools.
    pub(crate) tools: Vec<Tool<'a>>,
    /// Which tools the model may or must call.
    pub(crate) tool_choice: ToolChoice<'a>,
    /// Whether several calls in one turn are allowed, if the client said so.
    pub(crate) parallel_tool_calls: Option<bool>,
    /// Format of the answer.
    pub(crate) format: AnswerFormat<'a>,
    /// Limit on output tokens.
    pub(crate) max_tokens: Option<u64>,
    /// Texts that end the answer.
    pub(crate) stop: Vec<EscapedText<'a>>,
    /// How much the model reasons, and whether that is shown.
    pub(crate) reasoning: Reasoning,
    /// Whether the answer is streamed.
    pub(crate) stream: bool,
    /// All other members of the body that are not null and not consumed by the gateway, in order: sampling parameters,
    /// `user`, `service_tier`, and members that nobody here knows. A writer takes those it can map; every other one is
    /// dropped and named.
    pub(crate) parameters: Vec<Parameter<'a>>,
    /// Members of messages, parts and tools that have no neutral form.
    pub(crate) unsupported: UnsupportedFields,
}

impl<'a> Conversation<'a> {
    /// The value of a member of [`Conversation::parameters`].
    pub(crate) fn parameter(&self, name: &str) -> Option<Raw<'_>> {
        self.parameters.iter().find(|parameter| parameter.name == name).map(Parameter::value)
    }

    /// The tools that may be called, and the choice among them, for an API without a form for [`ToolChoice::Allowed`]: there
    /// only those that are allowed are declared.
    pub(crate) fn allowed_tools(&self, unsupported: &mut UnsupportedFields) -> (Vec<&Tool<'a>>, &ToolChoice<'a>) {
        let ToolChoice::Allowed { required, names } = &self.tool_choice else {
            return (self.tools.iter().collect(), &self.tool_choice);
        };
        unsupported.emulate("tool_choice");
        let is_allowed = |tool: &&Tool<'_>| names.iter().any(|name| name.unescaped() == tool.name.unescaped());
        let choice = if *required { &ToolChoice::Required } else { &ToolChoice::Auto };
        (self.tools.iter().filter(is_allowed).collect(), choice)
    }

    /// The client's limit on output tokens, within what an endpoint takes.
    pub(crate) fn limit_within(&self, most: u64, unsupported: &mut UnsupportedFields) -> Option<u64> {
        let wanted = self.max_tokens?;
        let given = wanted.clamp(1, most.max(1));
        if given != wanted {
            unsupported.emulate("max_tokens");
        }
        Some(given)
    }

    /// Appends a member with the texts that end the answer: the first of those that the API takes.
    pub(crate) fn push_stop(
        &self,
        name: &[u8],
        most: usize,
        takes: impl Fn(&EscapedText<'_>) -> bool,
        out: &mut BytesMut,
        unsupported: &mut UnsupportedFields,
    ) {
        let sent: Vec<&EscapedText<'_>> = self.stop.iter().filter(|text| takes(text)).take(most).collect();
        if sent.len() < self.stop.len() {
            unsupported.drop("stop[]");
        }
        let mut texts = BytesMut::new();
        for text in sent {
            push!(texts; b",", text);
        }
        push_array(out, name, &texts);
    }

    /// Leaves out what `takes` is false for, which is asked for everything that was given, by its name in chat.
    pub(crate) fn retain(&mut self, takes: &mut dyn FnMut(&str) -> bool) {
        if self.max_tokens.is_some() && !takes("max_tokens") {
            self.max_tokens = None;
        }
        if !self.tools.is_empty() && !takes("tools") {
            self.tools.clear();
        }
        if !matches!(self.tool_choice, ToolChoice::Unspecified) && !takes("tool_choice") {
            self.tool_choice = ToolChoice::Unspecified;
        }
        if self.parallel_tool_calls.is_some() && !takes("parallel_tool_calls") {
            self.parallel_tool_calls = None;
        }
        if !matches!(self.format, AnswerFormat::Text) && !takes("response_format") {
            self.format = AnswerFormat::Text;
        }
        if !self.stop.is_empty() && !takes("stop") {
            self.stop.clear();
        }
        if self.reasoning != Reasoning::default() && !takes("reasoning") {
            self.reasoning = Reasoning::default();
        }
        self.parameters.retain(|parameter| takes(&parameter.name));
    }
}

/// A request of another API than chat, read.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientChat<'a> {
    /// What it asks for.
    pub(crate) conversation: Conversation<'a>,
    /// Members that the API does not have, and `model` and `metadata`: the gateway's own are among them.
    pub(crate) members: Vec<(Raw<'a>, Raw<'a>)>,
    /// Whether the parameters of chat are among them, because the API has the same.
    pub(crate) has_parameters: bool,
    /// What it asks for in the fields that change its price.
    pub(crate) service: RequestedService,
    /// Whether data of a medium are not in base64 as providers want it.
    pub(crate) has_odd_base64: bool,
}

/// A top-level member of the body.
#[derive(Debug, Clone)]
pub(crate) struct Parameter<'a> {
    /// Its name, without escapes.
    pub(crate) name: Cow<'a, str>,
    value: ParameterValue<'a>,
}

#[derive(Debug, Clone)]
enum ParameterValue<'a> {
    Written(Raw<'a>),
    Made(String),
}

/// Parameters that are integers, which clients may write with a point.
const INTEGERS: [&str; 4] = ["n", "seed", "top_k", "top_logprobs"];

impl<'a> Parameter<'a> {
    /// A parameter as the client wrote it. An integer is one without a point.
    pub(crate) fn new(name: Cow<'a, str>, value: Raw<'a>) -> Parameter<'a> {
        let is_written = || value.bytes().iter().all(|byte| byte.is_ascii_digit());
        let integer = value.count().filter(|_| INTEGERS.contains(&&*name) && !is_written());
        let value = integer.map_or(ParameterValue::Written(value), |integer| ParameterValue::Made(integer.to_string()));
        Parameter { name, value }
    }

    /// A parameter that the gateway makes. A string has no escapes.
    pub(crate) fn made(name: &'a str, value: String) -> Parameter<'a> {
        Parameter { name: Cow::Borrowed(name), value: ParameterValue::Made(value) }
    }

    /// Whether an API without it answers as if it had it.
    pub(crate) fn asks_for_nothing(&self) -> bool {
        let value = self.value();
        match &*self.name {
            "modalities" => value.elements().all(|modality| modality.text().as_deref() == Some("text")),
            "n" => value.count() == Some(1),
            "logprobs" | "store" => value.bytes() == b"false",
            _ => false,
        }
    }

    /// Its value.
    pub(crate) fn value(&self) -> Raw<'_> {
        match &self.value {
            ParameterValue::Written(value) => *value,
            ParameterValue::Made(value) => Raw::own(value),
        }
    }
}

/// A message.
#[derive(Debug, Clone)]
pub(crate) struct Turn<'a> {
    /// Who wrote it.
    pub(crate) role: Role,
    /// Its parts, in order. For [`Role::Tool`] exactly one [`Content::ToolResult`]. For [`Role::Assistant`] reasoning comes
    /// first, then text, then tool calls.
    pub(crate) parts: Vec<Part<'a>>,
    /// Whether the message had a `name`, which most dialects cannot carry.
    pub(crate) is_named: bool,
}

impl<'a> Turn<'a> {
    /// A message of a client that names no authors.
    pub(crate) fn new(role: Role, parts: Vec<Part<'a>>) -> Turn<'a> {
        Turn { role, parts, is_named: false }
    }

    /// The only message of a request of which all is for endpoints of the client's dialect: they get the client's own body.
    pub(crate) fn empty() -> Turn<'a> {
        Turn::new(Role::User, vec![Part::new(Content::Text(EscapedText::plain("")))])
    }
}

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A system or developer message; in a [`Conversation`] one after the first message of another role.
    System,
    /// A developer message, which is one of the system in a [`Conversation`].
    Developer,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

/// A part of a message.
#[derive(Debug, Clone)]
pub(crate) struct Part<'a> {
    /// Its content.
    pub(crate) content: Content<'a>,
    /// `cache_control` as written: the prompt up to and including this part may be cached.
    pub(crate) cache_control: Option<Raw<'a>>,
}

impl<'a> Part<'a> {
    /// A part without cache control.
    pub(crate) fn new(content: Content<'a>) -> Part<'a> {
        Part { content, cache_control: None }
    }

    /// A part with the mark that the prompt up to it may be cached, if that is one.
    pub(crate) fn marked(content: Content<'a>, mark: Option<Raw<'a>>) -> Part<'a> {
        Part { content, cache_control: mark.filter(|mark| mark.is_object()) }
    }

    /// Whether it is a text with nothing but white space.
    pub(crate) fn is_blank(&self) -> bool {
        matches!(&self.content, Content::Text(text) | Content::Refusal(text) if text.is_blank())
    }

    /// The content of the result of a call: nothing but texts are one.
    pub(crate) fn joined(parts: Vec<Part<'a>>) -> Vec<Part<'a>> {
        let texts: Vec<&str> = parts.iter().map_while(|part| part.content.text()).map(EscapedText::as_str).collect();
        if parts.len() == 1 || texts.len() < parts.len() {
            return parts;
        }
        vec![Part::new(Content::Text(EscapedText::joining(&texts)))]
    }
}

/// Content of a part.
#[derive(Debug, Clone)]
pub(crate) enum Content<'a> {
    /// Text.
    Text(EscapedText<'a>),
    /// A refusal of the model.
    Refusal(EscapedText<'a>),
    /// An image; `detail` as the client wrote it.
    Image { source: MediaSource<'a>, detail: Option<EscapedText<'a>> },
    /// Audio in base64, with its format, such as `wav`.
    Audio { format: EscapedText<'a>, data: EscapedText<'a> },
    /// A document with its file name.
    File { source: MediaSource<'a>, name: Option<EscapedText<'a>> },
    /// A video.
    Video { source: MediaSource<'a> },
    /// A call of a tool. An empty `id` of the client is replaced by one of the call's place. `arguments` is the text of the
    /// arguments, usually JSON; for a custom tool its free-form input.
    ToolCall { id: EscapedText<'a>, name: EscapedText<'a>, arguments: EscapedText<'a>, kind: ToolKind },
    /// The result of the call `id`. `failed` if the client said that the call failed.
    ToolResult { id: EscapedText<'a>, parts: Vec<Part<'a>>, failed: bool },
    /// Reasoning of an earlier answer.
    Reasoning(ReasoningState<'a>),
    /// A part of a type that has no neutral form.
    Unknown,
}

impl<'a> Content<'a> {
    /// A text.
    pub(crate) fn text(&self) -> Option<&EscapedText<'a>> {
        match self {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Where media come from.
#[derive(Debug, Clone)]
pub(crate) enum MediaSource<'a> {
    /// Base64 data of a media type such as `image/png`.
    Base64 { media_type: EscapedText<'a>, data: EscapedText<'a> },
    /// An address that the provider fetches.
    Url(EscapedText<'a>),
    /// A file that was uploaded to the provider.
    FileId(EscapedText<'a>),
    /// Plain text, with what stands before it in its data URL: a type and its parameters, or nothing.
    Text { head: EscapedText<'a>, text: EscapedText<'a> },
}

/// Reasoning of an answer, as the provider that wrote it wants it back, or a piece of it.
#[derive(Debug, Clone)]
pub(crate) struct ReasoningState<'a> {
    /// The format, which says which provider made the reasoning.
    pub(crate) format: ReasoningFormat,
    /// Readable, summarised or encrypted.
    pub(crate) kind: ReasoningKind,
    /// The readable text or summary.
    pub(crate) text: Option<EscapedText<'a>>,
    /// The signature of a text, or the encrypted data.
    pub(crate) sealed: Option<EscapedText<'a>>,
    /// Id of the reasoning item, or of the tool call it belongs to.
    pub(crate) id: Option<EscapedText<'a>>,
}

impl<'a> ReasoningState<'a> {
    /// Text or a summary.
    pub(crate) fn shown(format: ReasoningFormat, kind: ReasoningKind, text: EscapedText<'a>) -> ReasoningState<'a> {
        ReasoningState { format, kind, text: Some(text), sealed: None, id: None }
    }

    /// A signature, or encrypted data.
    pub(crate) fn sealed(format: ReasoningFormat, kind: ReasoningKind, sealed: EscapedText<'a>) -> ReasoningState<'a> {
        ReasoningState { format, kind, text: None, sealed: Some(sealed), id: None }
    }

    /// The same, independent of the source.
    pub(crate) fn into_owned(self) -> ReasoningState<'static> {
        let own = |text: Option<EscapedText<'_>>| text.map(EscapedText::into_owned);
        let (text, sealed, id) = (own(self.text), own(self.sealed), own(self.id));
        ReasoningState { format: self.format, kind: self.kind, text, sealed, id }
    }
}

/// Type of one element of `reasoning_details`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReasoningKind {
    /// `reasoning.text`
    Text,
    /// `reasoning.summary`
    Summary,
    /// `reasoning.encrypted`
    Encrypted,
}

impl ReasoningKind {
    /// Its name, and those of the members with the text and with what is sealed.
    pub(crate) const fn names(self) -> (&'static str, &'static [u8], &'static [u8]) {
        match self {
            ReasoningKind::Text => ("reasoning.text", b"text", b"signature"),
            ReasoningKind::Summary => ("reasoning.summary", b"summary", b"signature"),
            ReasoningKind::Encrypted => ("reasoning.encrypted", b"text", b"data"),
        }
    }
}

/// A declared tool.
#[derive(Debug, Clone)]
pub(crate) struct Tool<'a> {
    /// Its name.
    pub(crate) name: EscapedText<'a>,
    /// What it does.
    pub(crate) description: Option<EscapedText<'a>>,
    /// JSON schema of its arguments, for a function.
    pub(crate) parameters: Option<Raw<'a>>,
    /// Whether arguments must follow the schema, if the client said so.
    pub(crate) strict: Option<bool>,
    /// Function or custom.
    pub(crate) kind: ToolKind,
    /// Grammar of a custom tool's input: `format` as written.
    pub(crate) grammar: Option<Raw<'a>>,
    /// `cache_control` as written.
    pub(crate) cache_control: Option<Raw<'a>>,
}

/// Kind of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolKind {
    /// Takes a JSON object.
    Function,
    /// Takes free-form text.
    Custom,
}

/// Which tools the model may or must call.
#[derive(Debug, Clone, Default)]
pub(crate) enum ToolChoice<'a> {
    /// The client did not say.
    #[default]
    Unspecified,
    /// As the model likes.
    Auto,
    /// No call.
    None,
    /// At least one call.
    Required,
    /// A call of this tool.
    Named(EscapedText<'a>),
    /// Only these tools; `required`: at least one of them.
    Allowed { required: bool, names: Vec<EscapedText<'a>> },
}

impl ToolChoice<'_> {
    /// Whether a tool must be called.
    pub(crate) fn forces(&self) -> bool {
        matches!(self, ToolChoice::Required | ToolChoice::Named(_) | ToolChoice::Allowed { required: true, .. })
    }
}

/// Requested format of the answer.
#[derive(Debug, Clone, Default)]
pub(crate) enum AnswerFormat<'a> {
    /// Plain text.
    #[default]
    Text,
    /// Some JSON object.
    JsonObject,
    /// JSON that follows a schema.
    Schema { name: EscapedText<'a>, description: Option<EscapedText<'a>>, schema: Raw<'a>, strict: Option<bool> },
}

impl AnswerFormat<'_> {
    /// An instruction for a model that cannot be held to the format. It is no guarantee: a strict schema should not have come here.
    pub(crate) fn instruction(&self, unsupported: &mut UnsupportedFields) -> Option<String> {
        match self {
            AnswerFormat::Text => return None,
            AnswerFormat::Schema { strict: Some(true), .. } => unsupported.drop("response_format"),
            _ => unsupported.emulate("response_format"),
        }
        Some(match self {
            AnswerFormat::Schema { schema, .. } => {
                format!("Answer with JSON that follows this JSON schema, and nothing else: {}", schema.written())
            }
            _ => "Answer with exactly one JSON object and nothing else.".to_owned(),
        })
    }
}

/// Requested reasoning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Reasoning {
    /// `reasoning_effort` or `reasoning.effort`.
    pub(crate) effort: Option<Effort>,
    /// `reasoning.max_tokens`.
    pub(crate) max_tokens: Option<u64>,
    /// `reasoning.enabled`.
    pub(crate) enabled: Option<bool>,
    /// Whether the client wants the reasoning left out of the answer.
    pub(crate) exclude: bool,
}

impl Reasoning {
    /// Whether the client asked for no reasoning.
    pub(crate) fn is_off(&self) -> bool {
        self.effort == Some(Effort::None) || self.enabled == Some(false)
    }

    /// The effort that comes closest, for an API that knows no other form. `None` if it is left to the model.
    pub(crate) fn closest_effort(&self) -> Option<Effort> {
        let asked = self.effort.or_else(|| self.max_tokens.map(Effort::of_budget));
        asked.or_else(|| self.is_off().then_some(Effort::None))
    }

    /// The effort that was asked for, or the one of the budget that was. `None` if it is left to the model.
    pub(crate) fn wanted_effort(&self) -> Option<Effort> {
        if self.is_off() { Some(Effort::None) } else { self.effort.or(self.max_tokens.map(Effort::of_budget)) }
    }

    /// Whether the client asked for reasoning.
    pub(crate) fn is_on(&self) -> bool {
        !self.is_off() && (self.effort.is_some() || self.max_tokens.is_some() || self.enabled == Some(true))
    }
}

pointsman_domain::named! {
    /// Reasoning effort, from none to most.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) enum Effort {
        None = "none",
        Minimal = "minimal",
        Low = "low",
        Medium = "medium",
        High = "high",
        XHigh = "xhigh",
        Max = "max",
    }
}

impl Effort {
    /// The names, most first.
    pub(crate) const NAMES: [&str; 7] = ["max", "xhigh", "high", "medium", "low", "minimal", "none"];

    /// Its budget of reasoning tokens.
    pub(crate) fn budget(self, budgets: &EffortBudgets) -> u64 {
        u64::from(match self {
            Effort::None | Effort::Minimal => budgets.minimal,
            Effort::Low => budgets.low,
            Effort::Medium => budgets.medium,
            Effort::High => budgets.high,
            Effort::XHigh => budgets.xhigh,
            Effort::Max => budgets.max,
        })
    }

    /// The one of `levels`, which are in order, that comes closest: the next lower one, else the next higher one.
    pub(crate) fn nearest(self, levels: &[Effort]) -> Option<Effort> {
        levels.iter().rev().find(|level| **level <= self).or(levels.first()).copied()
    }

    /// The effort that comes closest to a budget of reasoning tokens.
    pub(crate) const fn of_budget(tokens: u64) -> Effort {
        match tokens {
            0..1_025 => Effort::Minimal,
            1_025..4_096 => Effort::Low,
            4_096..16_384 => Effort::Medium,
            16_384..32_768 => Effort::High,
            32_768..60_000 => Effort::XHigh,
            _ => Effort::Max,
        }
    }
}
