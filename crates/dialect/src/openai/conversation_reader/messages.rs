//! Messages of a chat body.

use std::collections::VecDeque;

use pointsman_domain::ReasoningFormat;

use crate::{
    json::{Cursor, JsonFault, Raw},
    neutral::{
        Content, EscapedText, MediaSource, Part, ReasoningKind, ReasoningState, Role, ToolKind, Turn,
        UnsupportedFields, call_id_of_place, media_type::bare_data,
    },
};

member_values! {
    /// What a message of any role may have beside its content. Null is as good as nothing.
    struct Members {
        role = b"role", cache_control = b"cache_control", refusal = b"refusal", tool_calls = b"tool_calls",
        function_call = b"function_call", name = b"name", tool_call_id = b"tool_call_id", is_error = b"is_error",
        reasoning_details = b"reasoning_details", reasoning = b"reasoning", reasoning_content = b"reasoning_content"
    }
}

/// A message, whatever order its members come in.
#[derive(Default)]
struct Message<'a> {
    members: Members<'a>,
    content: Vec<Part<'a>>,
}

impl<'a> Message<'a> {
    /// Reads the message that comes next; a value of another type has no members. `unsupported` gets those without a neutral form.
    fn read(cursor: &mut Cursor<'a>, unsupported: &mut UnsupportedFields) -> Result<Message<'a>, JsonFault> {
        let mut message = Message::default();
        cursor.each_member(|cursor, key| {
            let name = key.name();
            if *name == *b"content" {
                message.content = content_parts(cursor, unsupported)?;
                return Ok(());
            }
            let value = cursor.value()?;
            match message.members.slot(&name) {
                Some(member) => *member = (!value.is_null()).then_some(value),
                None => unsupported.drop_member("messages[]", &name, value),
            }
            Ok(())
        })?;
        Ok(message)
    }
}

/// Reads the array of messages that comes next. `unsupported` gets members without a neutral form.
pub(super) fn turns<'a>(
    cursor: &mut Cursor<'a>,
    unsupported: &mut UnsupportedFields,
) -> Result<Vec<Turn<'a>>, JsonFault> {
    let mut turns = Vec::new();
    let mut ids = MadeIds::default();
    let read = cursor.each_element(|cursor, place| {
        let message = Message::read(cursor, unsupported)?;
        ids.message = place;
        turns.push(turn(message, &mut ids, unsupported));
        Ok(())
    });
    read.map(|_| turns)
}

/// Ids of calls to which the client gave an empty one, the same for a call and its result. They depend on nothing that follows.
#[derive(Default)]
struct MadeIds {
    /// Position of the message that is read.
    message: usize,
    /// Ids of the last message with calls that wait for their results.
    open: VecDeque<EscapedText<'static>>,
}

impl MadeIds {
    fn of_call<'a>(&mut self, call: usize) -> EscapedText<'a> {
        let id = call_id_of_place(self.message, call);
        self.open.push_back(id.clone());
        id
    }

    fn of_result<'a>(&mut self) -> EscapedText<'a> {
        self.open.pop_front().unwrap_or(EscapedText::plain(""))
    }
}

fn turn<'a>(message: Message<'a>, ids: &mut MadeIds, unsupported: &mut UnsupportedFields) -> Turn<'a> {
    let Message { members, content } = message;
    let role = role(members.role);
    let mut parts = match role {
        Role::Tool => vec![result(&members, content, ids)],
        Role::Assistant => answer(&members, content, ids, unsupported),
        Role::System | Role::Developer | Role::User => content,
    };
    mark_last(&mut parts, members.cache_control);
    Turn { role, parts, is_named: members.name.is_some() && role != Role::Tool }
}

fn answer<'a>(
    members: &Members<'a>,
    content: Vec<Part<'a>>,
    ids: &mut MadeIds,
    unsupported: &mut UnsupportedFields,
) -> Vec<Part<'a>> {
    ids.open.clear();
    let (mut calls, mut signatures) = (Vec::new(), Vec::new());
    let mut objects = members.tool_calls.map(Raw::objects);
    while let Some((place, written)) = objects.as_mut().and_then(|calls| calls.next_object()) {
        calls.extend(call(written, || ids.of_call(place), &mut signatures, unsupported));
    }
    let mut parts = reasoning(members, signatures);
    if parts.is_empty() {
        parts = content;
    } else {
        parts.extend(content);
    }
    parts.extend(members.refusal.and_then(EscapedText::read).map(|text| Part::new(Content::Refusal(text))));
    parts.extend(calls);
    parts.extend(members.function_call.and_then(|value| legacy_call(value, unsupported)));
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
        Some("system") => Role::System,
        Some("developer") => Role::Developer,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        _ => Role::User,
    }
}

/// Parts of the `content` that comes next, which is a string or an array.
fn content_parts<'a>(cursor: &mut Cursor<'a>, unsupported: &mut UnsupportedFields) -> Result<Vec<Part<'a>>, JsonFault> {
    let mut parts = Vec::new();
    let read = cursor.each_element(|cursor, _| {
        parts.push(ContentPart::read(cursor, unsupported)?.part(unsupported));
        Ok(())
    })?;
    parts.extend(read.err().and_then(EscapedText::read).map(|text| Part::new(Content::Text(text))));
    Ok(parts)
}

member_values! {
    /// The members of a part, whatever its type.
    pub(crate) struct ContentPart {
        kind = b"type", text = b"text", cache_control = b"cache_control", breakpoint = b"prompt_cache_breakpoint",
        refusal = b"refusal", image_url = b"image_url", input_audio = b"input_audio", file = b"file",
        video_url = b"video_url"
    }
}

impl<'a> ContentPart<'a> {
    /// Reads the part that comes next; a value of another type has no members.
    pub(super) fn read(
        cursor: &mut Cursor<'a>,
        unsupported: &mut UnsupportedFields,
    ) -> Result<ContentPart<'a>, JsonFault> {
        let mut part = ContentPart::default();
        cursor.each_member(|cursor, key| {
            let (name, value) = (key.name(), cursor.value()?);
            match part.slot(&name) {
                Some(member) => *member = Some(value),
                None => unsupported.drop_member("messages[].content[]", &name, value),
            }
            Ok(())
        })?;
        Ok(part)
    }

    pub(super) fn part(self, unsupported: &mut UnsupportedFields) -> Part<'a> {
        let known = match self.kind.and_then(Raw::text).as_deref() {
            Some("text") => text_in(self.text).map(Content::Text),
            Some("refusal") => text_in(self.refusal).map(Content::Refusal),
            Some("image_url") => self.image_url.and_then(|value| image(value, unsupported)),
            Some("input_audio") => self.input_audio.and_then(|value| audio(value, unsupported)),
            Some("file") => self.file.and_then(|value| file(value, unsupported)),
            Some("video_url") => self.video_url.and_then(|value| video(value, unsupported)),
            _ => None,
        };
        let marked = self.cache_control.or(self.breakpoint).filter(|mark| !mark.is_null());
        Part { content: known.unwrap_or(Content::Unknown), cache_control: marked }
    }
}

fn image<'a>(value: Raw<'a>, unsupported: &mut UnsupportedFields) -> Option<Content<'a>> {
    let [url, detail] = unsupported.pick("messages[].content[].image_url", value.members(), [b"url", b"detail"]);
    Some(Content::Image { source: address(url, value)?, detail: text_in(detail) })
}

fn audio<'a>(value: Raw<'a>, unsupported: &mut UnsupportedFields) -> Option<Content<'a>> {
    let [data, format] = unsupported.pick("messages[].content[].input_audio", value.members(), [b"data", b"format"]);
    Some(Content::Audio { format: text_in(format)?, data: bare_data(text_in(data)?) })
}

fn video<'a>(value: Raw<'a>, unsupported: &mut UnsupportedFields) -> Option<Content<'a>> {
    let [url] = unsupported.pick("messages[].content[].video_url", value.members(), [b"url"]);
    Some(Content::Video { source: address(url, value)? })
}

fn file<'a>(value: Raw<'a>, unsupported: &mut UnsupportedFields) -> Option<Content<'a>> {
    let names: [&[u8]; 4] = [b"file_data", b"file_id", b"file_url", b"filename"];
    let [data, id, url, name] = unsupported.pick("messages[].content[].file", value.members(), names).map(text_in);
    let source = match (data, id) {
        (Some(data), _) => MediaSource::at(data),
        (None, Some(id)) => MediaSource::FileId(id),
        (None, None) => MediaSource::at(url?),
    };
    Some(Content::File { source: source.typed(name.as_ref()), name })
}

/// The source in the member `url`, or in the value itself.
fn address<'a>(url: Option<Raw<'a>>, value: Raw<'a>) -> Option<MediaSource<'a>> {
    text_in(url).or_else(|| EscapedText::read(value)).map(MediaSource::at)
}

/// A call; `made_id` gives the id of one without. `signatures` gets its thought signature, if it has one.
fn call<'a>(
    members: impl Iterator<Item = (Raw<'a>, Raw<'a>)>,
    made_id: impl FnOnce() -> EscapedText<'a>,
    signatures: &mut Vec<ReasoningState<'a>>,
    unsupported: &mut UnsupportedFields,
) -> Option<Part<'a>> {
    let names: [&[u8]; 6] = [b"id", b"type", b"function", b"custom", b"extra_content", b"index"];
    let [id, kind, function, custom, extra, _] = unsupported.pick("messages[].tool_calls[]", members, names);
    signatures.extend(extra.and_then(|extra| signature_of_call(extra, id)));
    let id = || id.and_then(EscapedText::read).filter(|id| !id.is_empty()).unwrap_or_else(made_id);
    if kind.and_then(Raw::text).as_deref() == Some("custom") {
        let [name, input] = unsupported.pick("messages[].tool_calls[].custom", custom?.members(), [b"name", b"input"]);
        let (name, arguments) = (text_in(name)?, text_in(input).unwrap_or(EscapedText::plain("")));
        return Some(Part::new(Content::ToolCall { id: id(), name, arguments, kind: ToolKind::Custom }));
    }
    let [name, arguments] =
        unsupported.pick("messages[].tool_calls[].function", function?.members(), [b"name", b"arguments"]);
    let arguments = match arguments {
        Some(arguments) if arguments.is_object() => EscapedText::escaping(&String::from_utf8_lossy(arguments.bytes())),
        other => text_in(other).unwrap_or(EscapedText::plain("")),
    };
    let name = text_in(name)?;
    Some(Part::new(Content::ToolCall { id: id(), name, arguments, kind: ToolKind::Function }))
}

fn text_in(value: Option<Raw<'_>>) -> Option<EscapedText<'_>> {
    value.and_then(EscapedText::read)
}

/// The deprecated `function_call`: its result names the function instead of an id.
fn legacy_call<'a>(value: Raw<'a>, unsupported: &mut UnsupportedFields) -> Option<Part<'a>> {
    let [name, arguments] =
        unsupported.pick("messages[].function_call", value.members(), [b"name", b"arguments"]).map(text_in);
    let (name, arguments) = (name?, arguments.unwrap_or(EscapedText::plain("")));
    Some(Part::new(Content::ToolCall { id: name.clone(), name, arguments, kind: ToolKind::Function }))
}

fn result<'a>(message: &Members<'a>, parts: Vec<Part<'a>>, ids: &mut MadeIds) -> Part<'a> {
    let given = text_in(message.tool_call_id).or_else(|| text_in(message.name));
    let id = given.filter(|id| !id.is_empty()).unwrap_or_else(|| ids.of_result());
    let failed = message.is_error.is_some_and(|flag| flag.bytes() == b"true");
    Part::new(Content::ToolResult { id, parts, failed })
}

/// Reasoning of an earlier answer: `reasoning_details`, else the signatures of its calls, else plain text.
fn reasoning<'a>(message: &Members<'a>, signatures: Vec<ReasoningState<'a>>) -> Vec<Part<'a>> {
    let details = message.reasoning_details.into_iter().flat_map(Raw::elements);
    let mut states: Vec<ReasoningState<'_>> = details.filter_map(detail).collect();
    if states.is_empty() {
        states = signatures;
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

/// The thought signature in `extra_content` of the call with this id, as Google's own compatible endpoint sends it.
fn signature_of_call<'a>(extra: Raw<'a>, id: Option<Raw<'a>>) -> Option<ReasoningState<'a>> {
    Some(ReasoningState {
        format: ReasoningFormat::Gemini,
        kind: ReasoningKind::Encrypted,
        text: None,
        sealed: Some(text_in(extra.member(b"google")?.member(b"thought_signature"))?),
        id: text_in(id),
    })
}
