//! Messages of a chat body.

use crate::dialect::{
    json::Raw,
    neutral::{Content, EscapedText, MediaSource, Part, ReasoningKind, ReasoningState, Role, ToolKind, Turn},
};
use crate::domain::ReasoningFormat;

/// What a message of any role may have.
struct Members<'a> {
    content: Option<Raw<'a>>,
    refusal: Option<Raw<'a>>,
    tool_calls: Option<Raw<'a>>,
    function_call: Option<Raw<'a>>,
    name: Option<Raw<'a>>,
    tool_call_id: Option<Raw<'a>>,
    is_error: Option<Raw<'a>>,
    reasoning_details: Option<Raw<'a>>,
    reasoning: Option<Raw<'a>>,
    reasoning_content: Option<Raw<'a>>,
}

/// Reads a message.
pub(super) fn turn(message: Raw<'_>) -> Turn<'_> {
    let names: [&[u8]; 12] = [
        b"role",
        b"content",
        b"cache_control",
        b"name",
        b"tool_calls",
        b"tool_call_id",
        b"refusal",
        b"function_call",
        b"is_error",
        b"reasoning_details",
        b"reasoning",
        b"reasoning_content",
    ];
    let [
        said_by,
        content,
        cache_control,
        name,
        tool_calls,
        tool_call_id,
        refusal,
        function_call,
        is_error,
        reasoning_details,
        reasoning,
        reasoning_content,
    ] = message.pick(names).map(|value| value.filter(|value| !value.is_null()));
    let role = role(said_by);
    let members = Members {
        content,
        refusal,
        tool_calls,
        function_call,
        name,
        tool_call_id,
        is_error,
        reasoning_details,
        reasoning,
        reasoning_content,
    };
    let mut parts = match role {
        Role::Tool => vec![result(&members)],
        Role::Assistant => answer(&members),
        Role::System | Role::User => content_parts(content),
    };
    mark_last(&mut parts, cache_control);
    Turn { role, parts, is_named: name.is_some() && role != Role::Tool }
}

fn answer<'a>(members: &Members<'a>) -> Vec<Part<'a>> {
    let mut parts = reasoning(members);
    parts.extend(content_parts(members.content));
    parts.extend(members.refusal.and_then(EscapedText::of).map(|text| Part::new(Content::Refusal(text))));
    parts.extend(members.tool_calls.into_iter().flat_map(Raw::elements).filter_map(call));
    parts.extend(members.function_call.and_then(legacy_call));
    parts
}

/// A `cache_control` of the whole message stands for its last part.
fn mark_last<'a>(parts: &mut [Part<'a>], cache_control: Option<Raw<'a>>) {
    if let Some(last) = parts.last_mut() {
        last.cache_control = last.cache_control.or(cache_control);
    }
}

fn role(value: Option<Raw<'_>>) -> Role {
    match value.and_then(Raw::text).as_deref() {
        Some("system" | "developer") => Role::System,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        _ => Role::User,
    }
}

/// Parts of `content`, which is a string or an array.
fn content_parts(content: Option<Raw<'_>>) -> Vec<Part<'_>> {
    let Some(value) = content else { return Vec::new() };
    match EscapedText::of(value) {
        Some(text) => vec![Part::new(Content::Text(text))],
        None => value.elements().map(part).collect(),
    }
}

fn part(value: Raw<'_>) -> Part<'_> {
    let [kind, text, cache_control, breakpoint] =
        value.pick([b"type", b"text", b"cache_control", b"prompt_cache_breakpoint"]);
    let known = match kind.and_then(Raw::text).as_deref() {
        Some("text") => text.and_then(EscapedText::of).map(Content::Text),
        Some("refusal") => value.member(b"refusal").and_then(EscapedText::of).map(Content::Refusal),
        Some("image_url") => value.member(b"image_url").and_then(image),
        Some("input_audio") => value.member(b"input_audio").and_then(audio),
        Some("file") => value.member(b"file").and_then(file),
        Some("video_url") => value.member(b"video_url").and_then(address).map(|source| Content::Video { source }),
        _ => None,
    };
    let marked = cache_control.or(breakpoint).filter(|mark| !mark.is_null());
    Part { content: known.unwrap_or(Content::Unknown), cache_control: marked }
}

fn image(value: Raw<'_>) -> Option<Content<'_>> {
    Some(Content::Image { source: address(value)?, detail: value.member(b"detail").and_then(EscapedText::of) })
}

fn audio(value: Raw<'_>) -> Option<Content<'_>> {
    let text = |name: &[u8]| value.member(name).and_then(EscapedText::of);
    Some(Content::Audio { format: text(b"format")?, data: text(b"data")? })
}

fn file(value: Raw<'_>) -> Option<Content<'_>> {
    let text = |name: &[u8]| value.member(name).and_then(EscapedText::of);
    let source = match (text(b"file_data"), text(b"file_id")) {
        (Some(data), _) => source(data),
        (None, Some(id)) => MediaSource::FileId(id),
        (None, None) => source(text(b"file_url")?),
    };
    Some(Content::File { source, name: text(b"filename") })
}

/// The source in `url`, or in the value itself.
fn address(value: Raw<'_>) -> Option<MediaSource<'_>> {
    let text = value.member(b"url").and_then(EscapedText::of).or_else(|| EscapedText::of(value))?;
    Some(source(text))
}

/// A data URL, or an address. Data that is written without escapes is not copied.
fn source(text: EscapedText<'_>) -> MediaSource<'_> {
    let media = match text.as_plain() {
        Some(url) => data_url(url, EscapedText::plain),
        None => data_url(&text.unescaped(), EscapedText::escaping),
    };
    media.unwrap_or(MediaSource::Url(text))
}

fn data_url<'u, 'a>(url: &'u str, escaped: impl Fn(&'u str) -> EscapedText<'a>) -> Option<MediaSource<'a>> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let Some(media_type) = head.strip_suffix(";base64") else { return Some(MediaSource::Text(escaped(data))) };
    let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    Some(MediaSource::Base64 { media_type: EscapedText::escaping(&media_type), data: escaped(data) })
}

fn call(value: Raw<'_>) -> Option<Part<'_>> {
    let [id, kind, function, custom] = value.pick([b"id", b"type", b"function", b"custom"]);
    let id = id.and_then(EscapedText::of).unwrap_or(EscapedText::plain(""));
    if kind.and_then(Raw::text).as_deref() == Some("custom") {
        let [name, input] = custom?.pick([b"name", b"input"]);
        let (name, arguments) = (text_in(name)?, text_in(input).unwrap_or(EscapedText::plain("")));
        return Some(Part::new(Content::ToolCall { id, name, arguments, kind: ToolKind::Custom }));
    }
    let [name, arguments] = function?.pick([b"name", b"arguments"]);
    let arguments = match arguments {
        Some(arguments) if arguments.is_object() => EscapedText::escaping(&String::from_utf8_lossy(arguments.bytes())),
        other => text_in(other).unwrap_or(EscapedText::plain("")),
    };
    Some(Part::new(Content::ToolCall { id, name: text_in(name)?, arguments, kind: ToolKind::Function }))
}

fn text_in(value: Option<Raw<'_>>) -> Option<EscapedText<'_>> {
    value.and_then(EscapedText::of)
}

fn text_of<'a>(object: Option<Raw<'a>>, name: &[u8]) -> Option<EscapedText<'a>> {
    object.and_then(|object| object.member(name)).and_then(EscapedText::of)
}

/// The deprecated `function_call`: its result names the function instead of an id.
fn legacy_call(value: Raw<'_>) -> Option<Part<'_>> {
    let name = text_of(Some(value), b"name")?;
    let arguments = text_of(Some(value), b"arguments").unwrap_or(EscapedText::plain(""));
    Some(Part::new(Content::ToolCall { id: name.clone(), name, arguments, kind: ToolKind::Function }))
}

fn result<'a>(message: &Members<'a>) -> Part<'a> {
    let id = text_in(message.tool_call_id).or_else(|| text_in(message.name)).unwrap_or(EscapedText::plain(""));
    let failed = message.is_error.is_some_and(|flag| flag.bytes() == b"true");
    Part::new(Content::ToolResult { id, parts: content_parts(message.content), failed })
}

/// Reasoning of an earlier answer: `reasoning_details`, else the signature in `extra_content` of a call, else plain text.
fn reasoning<'a>(message: &Members<'a>) -> Vec<Part<'a>> {
    let details = message.reasoning_details.into_iter().flat_map(Raw::elements);
    let mut states: Vec<ReasoningState<'_>> = details.filter_map(detail).collect();
    if states.is_empty() {
        let calls = message.tool_calls.into_iter().flat_map(Raw::elements);
        states.extend(calls.filter_map(signature_of_call));
    }
    if states.is_empty() {
        let text = text_in(message.reasoning).or_else(|| text_in(message.reasoning_content));
        states.extend(text.filter(|text| !text.is_empty()).map(|text| ReasoningState {
            format: ReasoningFormat::Unknown,
            kind: ReasoningKind::Text,
            text: Some(text),
            sealed: None,
            id: None,
        }));
    }
    states.into_iter().map(|state| Part::new(Content::Reasoning(state))).collect()
}

fn detail(value: Raw<'_>) -> Option<ReasoningState<'_>> {
    let [kind, text, signature, summary, data, format, id] =
        value.pick([b"type", b"text", b"signature", b"summary", b"data", b"format", b"id"]);
    let (kind, shown, sealed) = match kind.and_then(Raw::text).as_deref()? {
        "reasoning.text" => (ReasoningKind::Text, text, signature),
        "reasoning.summary" => (ReasoningKind::Summary, summary, None),
        "reasoning.encrypted" => (ReasoningKind::Encrypted, None, data),
        _ => return None,
    };
    // A detail without a format is of the format that its first client knew.
    let format = format.and_then(Raw::text).map_or(ReasoningFormat::Anthropic, |name| ReasoningFormat::named(&name));
    Some(ReasoningState { format, kind, text: text_in(shown), sealed: text_in(sealed), id: text_in(id) })
}

/// The thought signature of a call, as Google's own compatible endpoint sends it.
fn signature_of_call(call: Raw<'_>) -> Option<ReasoningState<'_>> {
    let google = call.member(b"extra_content")?.member(b"google")?;
    Some(ReasoningState {
        format: ReasoningFormat::Gemini,
        kind: ReasoningKind::Encrypted,
        text: None,
        sealed: Some(text_of(Some(google), b"thought_signature")?),
        id: text_of(Some(call), b"id"),
    })
}
