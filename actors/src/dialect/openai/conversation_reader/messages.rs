//! Messages of a chat body.

use crate::dialect::{
    json::Raw,
    neutral::{
        Content, EscapedText, MediaSource, Part, ReasoningFormat, ReasoningKind, ReasoningState, Role, ToolKind, Turn,
    },
};

/// Reads a message.
pub(super) fn turn(message: Raw<'_>) -> Turn<'_> {
    let member = |name: &[u8]| message.member(name).filter(|value| !value.is_null());
    let role = role(member(b"role"));
    let mut parts = Vec::new();
    match role {
        Role::Tool => parts.push(result(message)),
        Role::Assistant => {
            parts.extend(reasoning(message));
            parts.extend(member(b"content").into_iter().flat_map(content));
            parts.extend(member(b"refusal").and_then(EscapedText::of).map(|text| Part::new(Content::Refusal(text))));
            parts.extend(member(b"tool_calls").into_iter().flat_map(Raw::elements).filter_map(call));
            parts.extend(member(b"function_call").and_then(legacy_call));
        }
        Role::System | Role::User => parts.extend(member(b"content").into_iter().flat_map(content)),
    }
    mark_last(&mut parts, member(b"cache_control"));
    Turn { role, parts, is_named: member(b"name").is_some() && role != Role::Tool }
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
fn content(value: Raw<'_>) -> Vec<Part<'_>> {
    match EscapedText::of(value) {
        Some(text) => vec![Part::new(Content::Text(text))],
        None => value.elements().map(part).collect(),
    }
}

fn part(value: Raw<'_>) -> Part<'_> {
    let known = match value.member(b"type").and_then(Raw::text).as_deref() {
        Some("text") => value.member(b"text").and_then(EscapedText::of).map(Content::Text),
        Some("refusal") => value.member(b"refusal").and_then(EscapedText::of).map(Content::Refusal),
        Some("image_url") => value.member(b"image_url").and_then(image),
        Some("input_audio") => value.member(b"input_audio").and_then(audio),
        Some("file") => value.member(b"file").and_then(file),
        Some("video_url") => value.member(b"video_url").and_then(address).map(|source| Content::Video { source }),
        _ => None,
    };
    let marked = [&b"cache_control"[..], b"prompt_cache_breakpoint"].into_iter().find_map(|name| value.member(name));
    Part { content: known.unwrap_or(Content::Unknown(value)), cache_control: marked.filter(|mark| !mark.is_null()) }
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

/// A data URL, or an address.
fn source(text: EscapedText<'_>) -> MediaSource<'_> {
    let unescaped = text.unescaped();
    let Some((head, data)) = unescaped.strip_prefix("data:").and_then(|rest| rest.split_once(',')) else {
        return MediaSource::Url(text.clone());
    };
    let (media_type, is_base64) = match head.strip_suffix(";base64") {
        Some(media_type) => (media_type, true),
        None => (head, false),
    };
    let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if is_base64 {
        let (media_type, data) = (EscapedText::escaping(&media_type), EscapedText::escaping(data));
        return MediaSource::Base64 { media_type, data };
    }
    MediaSource::Text(EscapedText::escaping(data))
}

fn call(value: Raw<'_>) -> Option<Part<'_>> {
    let id = value.member(b"id").and_then(EscapedText::of).unwrap_or(EscapedText::plain(""));
    if value.member(b"type").and_then(Raw::text).as_deref() == Some("custom") {
        let custom = value.member(b"custom");
        let name = text_of(custom, b"name")?;
        let arguments = text_of(custom, b"input").unwrap_or(EscapedText::plain(""));
        return Some(Part::new(Content::ToolCall { id, name, arguments, kind: ToolKind::Custom }));
    }
    let function = value.member(b"function");
    let name = text_of(function, b"name")?;
    let arguments = match function.and_then(|function| function.member(b"arguments")) {
        Some(arguments) if arguments.is_object() => EscapedText::escaping(&String::from_utf8_lossy(arguments.bytes())),
        other => other.and_then(EscapedText::of).unwrap_or(EscapedText::plain("")),
    };
    Some(Part::new(Content::ToolCall { id, name, arguments, kind: ToolKind::Function }))
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

fn result(message: Raw<'_>) -> Part<'_> {
    let id = text_of(Some(message), b"tool_call_id").or_else(|| text_of(Some(message), b"name"));
    let parts = message.member(b"content").filter(|value| !value.is_null()).map_or_else(Vec::new, content);
    let failed = message.member(b"is_error").is_some_and(|flag| flag.bytes() == b"true");
    Part::new(Content::ToolResult { id: id.unwrap_or(EscapedText::plain("")), parts, failed })
}

/// Reasoning of an earlier answer: `reasoning_details`, else the signature in `extra_content` of a call, else plain text.
fn reasoning(message: Raw<'_>) -> Vec<Part<'_>> {
    let details = message.member(b"reasoning_details").into_iter().flat_map(Raw::elements);
    let mut states: Vec<ReasoningState<'_>> = details.filter_map(detail).collect();
    if states.is_empty() {
        let calls = message.member(b"tool_calls").into_iter().flat_map(Raw::elements);
        states.extend(calls.filter_map(signature_of_call));
    }
    if states.is_empty() {
        let text = [&b"reasoning"[..], b"reasoning_content"].into_iter().find_map(|name| text_of(Some(message), name));
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
    let text = |name: &[u8]| text_of(Some(value), name);
    let (kind, shown, sealed) = match value.member(b"type").and_then(Raw::text).as_deref()? {
        "reasoning.text" => (ReasoningKind::Text, text(b"text"), text(b"signature")),
        "reasoning.summary" => (ReasoningKind::Summary, text(b"summary"), None),
        "reasoning.encrypted" => (ReasoningKind::Encrypted, None, text(b"data")),
        _ => return None,
    };
    // A detail without a format is of the format that its first client knew.
    let format = value.member(b"format").and_then(Raw::text);
    let format = format.map_or(ReasoningFormat::Anthropic, |name| ReasoningFormat::named(&name));
    Some(ReasoningState { format, kind, text: shown, sealed, id: text(b"id") })
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
