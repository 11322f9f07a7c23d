//! Messages of a chat body.

use crate::dialect::{
    json::{Cursor, JsonFault, Raw},
    neutral::{Content, EscapedText, MediaSource, Part, ReasoningKind, ReasoningState, Role, ToolKind, Turn},
};
use crate::domain::ReasoningFormat;

/// What a message of any role may have. Null is as good as nothing.
#[derive(Default)]
struct Members<'a> {
    role: Option<Raw<'a>>,
    content: Vec<Part<'a>>,
    cache_control: Option<Raw<'a>>,
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

impl<'a> Members<'a> {
    /// Reads the message that comes next; a value of another type has no members.
    fn read(cursor: &mut Cursor<'a>) -> Result<Members<'a>, JsonFault> {
        let mut members = Members::default();
        if cursor.peek()? != b'{' {
            cursor.value()?;
            return Ok(members);
        }
        cursor.enter()?;
        let mut first = true;
        while let Some(key) = cursor.key(&mut first)? {
            let member = match &*key.name() {
                b"content" => {
                    members.content = content_parts(cursor)?;
                    continue;
                }
                b"role" => Some(&mut members.role),
                b"cache_control" => Some(&mut members.cache_control),
                b"name" => Some(&mut members.name),
                b"tool_calls" => Some(&mut members.tool_calls),
                b"tool_call_id" => Some(&mut members.tool_call_id),
                b"refusal" => Some(&mut members.refusal),
                b"function_call" => Some(&mut members.function_call),
                b"is_error" => Some(&mut members.is_error),
                b"reasoning_details" => Some(&mut members.reasoning_details),
                b"reasoning" => Some(&mut members.reasoning),
                b"reasoning_content" => Some(&mut members.reasoning_content),
                _ => None,
            };
            let value = cursor.value()?;
            if let Some(member) = member {
                *member = (!value.is_null()).then_some(value);
            }
        }
        cursor.leave();
        Ok(members)
    }
}

/// Reads the array of messages that comes next.
pub(super) fn turns<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<Turn<'a>>, JsonFault> {
    cursor.enter()?;
    let mut turns = Vec::new();
    let mut first = true;
    while cursor.element(&mut first)? {
        turns.push(turn(Members::read(cursor)?));
    }
    cursor.leave();
    Ok(turns)
}

fn turn(members: Members<'_>) -> Turn<'_> {
    let role = role(members.role);
    let (is_named, cache_control) = (members.name.is_some() && role != Role::Tool, members.cache_control);
    let mut parts = match role {
        Role::Tool => vec![result(members)],
        Role::Assistant => answer(members),
        Role::System | Role::User => members.content,
    };
    mark_last(&mut parts, cache_control);
    Turn { role, parts, is_named }
}

fn answer(members: Members<'_>) -> Vec<Part<'_>> {
    let mut parts = reasoning(&members);
    if parts.is_empty() {
        parts = members.content;
    } else {
        parts.extend(members.content);
    }
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

/// Parts of the `content` that comes next, which is a string or an array.
fn content_parts<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<Part<'a>>, JsonFault> {
    if cursor.peek()? != b'[' {
        let text = EscapedText::of(cursor.value()?);
        return Ok(text.map(|text| Part::new(Content::Text(text))).into_iter().collect());
    }
    cursor.enter()?;
    let mut parts = Vec::new();
    let mut first = true;
    while cursor.element(&mut first)? {
        parts.push(part(cursor)?);
    }
    cursor.leave();
    Ok(parts)
}

fn part<'a>(cursor: &mut Cursor<'a>) -> Result<Part<'a>, JsonFault> {
    let names: [&[u8]; 9] = [
        b"type",
        b"text",
        b"cache_control",
        b"prompt_cache_breakpoint",
        b"refusal",
        b"image_url",
        b"input_audio",
        b"file",
        b"video_url",
    ];
    let [kind, text, cache_control, breakpoint, refusal, image_url, input_audio, file_object, video_url] =
        cursor.pick(names)?;
    let known = match kind.and_then(Raw::text).as_deref() {
        Some("text") => text_in(text).map(Content::Text),
        Some("refusal") => text_in(refusal).map(Content::Refusal),
        Some("image_url") => image_url.and_then(image),
        Some("input_audio") => input_audio.and_then(audio),
        Some("file") => file_object.and_then(file),
        Some("video_url") => video_url.and_then(address).map(|source| Content::Video { source }),
        _ => None,
    };
    let marked = cache_control.or(breakpoint).filter(|mark| !mark.is_null());
    Ok(Part { content: known.unwrap_or(Content::Unknown), cache_control: marked })
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

fn result(message: Members<'_>) -> Part<'_> {
    let id = text_in(message.tool_call_id).or_else(|| text_in(message.name)).unwrap_or(EscapedText::plain(""));
    let failed = message.is_error.is_some_and(|flag| flag.bytes() == b"true");
    Part::new(Content::ToolResult { id, parts: message.content, failed })
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
