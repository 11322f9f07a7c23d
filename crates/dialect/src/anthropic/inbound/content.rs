//! Messages and their content blocks.

use std::borrow::Cow;

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::{Invalid, ReasoningFormat};

use super::{ChatBodyWriter, MAX_MESSAGES, mistyped, refused, required};
use crate::{
    anthropic::foreign_state::{ForeignState, unpacked_state},
    json::{Members, Raw, push_member, push_string},
    neutral::{EMPTY_MESSAGE, Envelope, EscapedText, MemberType, Path, UnsupportedFields, none_of, of_type},
    openai::{
        message_parts::MessageParts,
        tool_results::{FAILED, RESULT},
    },
};

/// Beginning of the first system block of Claude Code, which only its own provider has a use for.
const ATTRIBUTION: &str = "x-anthropic-billing-header";

/// Members of a message.
const OF_MESSAGES: [&[u8]; 2] = [b"role", b"content"];

/// Most members of a block that are named although chat has no form for them.
const MAX_OTHERS: usize = 64;

/// The members of a content block, whatever its type.
#[derive(Default)]
pub(super) struct Block<'a> {
    kind: Option<Raw<'a>>,
    pub(super) text: Option<Raw<'a>>,
    cache_control: Option<Raw<'a>>,
    pub(super) source: Option<Raw<'a>>,
    pub(super) content: Option<Raw<'a>>,
    pub(super) title: Option<Raw<'a>>,
    pub(super) context: Option<Raw<'a>>,
    pub(super) citations: Option<Raw<'a>>,
    tool_use_id: Option<Raw<'a>>,
    is_error: Option<Raw<'a>>,
    id: Option<Raw<'a>>,
    name: Option<Raw<'a>>,
    input: Option<Raw<'a>>,
    thinking: Option<Raw<'a>>,
    signature: Option<Raw<'a>>,
    data: Option<Raw<'a>>,
    /// Names of the first members that chat has no form for.
    others: Vec<Cow<'a, [u8]>>,
}

impl<'a> Block<'a> {
    pub(super) fn read(members: &mut Members<'a>) -> Block<'a> {
        let mut read = Block::default();
        for (key, value) in members {
            let member = match &*key.name() {
                b"type" => &mut read.kind,
                b"text" => &mut read.text,
                b"cache_control" => &mut read.cache_control,
                b"source" => &mut read.source,
                b"content" => &mut read.content,
                b"title" => &mut read.title,
                b"context" => &mut read.context,
                b"citations" => &mut read.citations,
                b"tool_use_id" => &mut read.tool_use_id,
                b"is_error" => &mut read.is_error,
                b"id" => &mut read.id,
                b"name" => &mut read.name,
                b"input" => &mut read.input,
                b"thinking" => &mut read.thinking,
                b"signature" => &mut read.signature,
                b"data" => &mut read.data,
                // The model answers the same whoever calls the tool.
                b"caller" => continue,
                _ if value.is_null() => continue,
                _ => {
                    if read.others.len() < MAX_OTHERS {
                        read.others.push(key.name());
                    }
                    continue;
                }
            };
            *member = Some(value);
        }
        read
    }

    /// Names the members that endpoints of other dialects do not get. `place`: where the block stands.
    fn name_others(&self, place: &str, unsupported: &mut UnsupportedFields) {
        for name in &self.others {
            unsupported.drop(&format!("{place}.{}", String::from_utf8_lossy(name)));
        }
    }

    fn kind(&self, path: &Path<'_>) -> Result<Cow<'a, str>, Invalid> {
        self.kind.and_then(Raw::text).ok_or_else(|| required(path.member("type")))
    }

    /// The text of a block of text.
    fn text(&self, path: &Path<'_>) -> Result<EscapedText<'a>, Invalid> {
        let text = self.text.ok_or_else(|| required(path.member("text")))?;
        EscapedText::of(text).ok_or_else(|| mistyped(path.member("text"), "a string"))
    }
}

impl ChatBodyWriter<'_> {
    pub(super) fn messages(&mut self, system: Option<Raw<'_>>, messages: Raw<'_>) -> Result<(), Invalid> {
        let path = Path::Field("messages");
        if !messages.is_array() {
            return Err(mistyped(path, "an array"));
        }
        push_member(&mut self.out, b"messages", b"[");
        let first = self.out.len();
        if let Some(system) = system {
            self.system(system, &Path::Field("system"), true)?;
        }
        let (mut count, mut objects) = (0, messages.objects());
        while let Some((index, message)) = objects.next_object() {
            count = index + 1;
            self.message(message, &path.item(index))?;
        }
        if count == 0 || count > MAX_MESSAGES {
            let message = format!("'messages' must have between 1 and {MAX_MESSAGES} elements.");
            return Err(refused(path, message));
        }
        if self.out.len() == first && self.native_feature.is_some() {
            self.out.put_slice(EMPTY_MESSAGE);
        }
        // Every message ends with a comma.
        if self.out.len() > first {
            self.out.truncate(self.out.len() - 1);
        }
        self.out.put_u8(b']');
        Ok(())
    }

    fn system(&mut self, content: Raw<'_>, path: &Path<'_>, is_leading: bool) -> Result<(), Invalid> {
        let mut parts = MessageParts::default();
        if let Some(text) = EscapedText::of(content) {
            parts.text(text, None);
        } else if content.is_array() {
            let mut blocks = content.objects();
            while let Some((index, block)) = blocks.next_object() {
                let (block, path) = (Block::read(block), path.item(index));
                block.name_others(if is_leading { "system[]" } else { "messages[].content[]" }, &mut self.unsupported);
                if &*block.kind(&path)? != "text" {
                    let path = path.member("type");
                    return Err(refused(path, format!("'{path}' must be text: no other block is allowed here.")));
                }
                let text = block.text(&path)?;
                if is_leading && index == 0 && text.unescaped().trim_start().starts_with(ATTRIBUTION) {
                    continue;
                }
                parts.text(text, block.cache_control);
            }
        } else {
            return Err(mistyped(path, "a string or an array of text blocks"));
        }
        self.push_message("system", &parts);
        Ok(())
    }

    /// Appends a message of the system or the user, unless it has no parts.
    fn push_message(&mut self, role: &str, parts: &MessageParts<'_>) {
        if parts.is_empty() {
            return;
        }
        self.out.put_slice(b"{\"role\":\"");
        self.out.put_slice(role.as_bytes());
        self.out.put_slice(b"\",\"content\":");
        parts.push_short(&mut self.out);
        self.out.put_slice(b"},");
    }

    fn message(&mut self, message: &mut Members<'_>, path: &Path<'_>) -> Result<(), Invalid> {
        if !message.is_open() {
            return Err(mistyped(path, "an object"));
        }
        let [role, content] = self.unsupported.pick("messages[]", message, OF_MESSAGES);
        let (role_path, content_path) = (path.member("role"), path.member("content"));
        let role = role.ok_or_else(|| required(role_path))?;
        // An answer that says nothing comes back in many forms.
        let is_empty = content.is_none_or(Raw::is_null) && role.text().as_deref() == Some("assistant");
        if is_empty {
            self.has_blank_answers = true;
            return Ok(());
        }
        let content = content.ok_or_else(|| required(content_path))?;
        if !content.is_string() && !content.is_array() {
            return Err(mistyped(content_path, "a string or an array of blocks"));
        }
        match role.text().as_deref() {
            Some("user") => self.user(content, &content_path),
            Some("assistant") => self.assistant(content, &content_path),
            Some("system") => self.system(content, &content_path, false),
            _ => Err(none_of(role_path, Some(role), &["user", "assistant", "system"])),
        }
    }

    /// Results of tool calls become messages of their own, before the rest.
    fn user(&mut self, content: Raw<'_>, path: &Path<'_>) -> Result<(), Invalid> {
        let mut parts = MessageParts::default();
        if let Some(text) = EscapedText::of(content) {
            parts.text(text, None);
        }
        let mut blocks = content.objects();
        while let Some((index, block)) = blocks.next_object() {
            let (block, path) = (Block::read(block), path.item(index));
            block.name_others("messages[].content[]", &mut self.unsupported);
            let breakpoint = block.cache_control;
            match &*block.kind(&path)? {
                "text" => parts.text(block.text(&path)?, breakpoint),
                "image" => self.image(&block, &path, breakpoint, &mut parts)?,
                "document" => self.document(&block, &path, breakpoint, &mut parts)?,
                "search_result" => self.search_result(&block, breakpoint, &mut parts),
                "tool_result" => self.tool_result(&block, &path)?,
                _ => self.needs_native(path.member("type")),
            }
        }
        self.push_message("user", &parts);
        Ok(())
    }

    fn tool_result(&mut self, block: &Block<'_>, path: &Path<'_>) -> Result<(), Invalid> {
        let id = block.tool_use_id.and_then(Raw::filled_string);
        let id = id.ok_or_else(|| required(path.member("tool_use_id")))?;
        let mut parts = MessageParts::default();
        let is_error = of_type(block.is_error, MemberType::Boolean, || path.member("is_error").to_string())?;
        let content_path = path.member("content");
        let content = block.content.filter(|content| !content.is_null());
        if content.is_some_and(|content| !content.is_string() && !content.is_array()) {
            return Err(mistyped(content_path, "a string or an array of blocks"));
        }
        if let Some(text) = content.and_then(EscapedText::of) {
            parts.text(text, None);
        }
        let mut blocks = content.map(Raw::objects);
        while let Some((index, inner)) = blocks.as_mut().and_then(|blocks| blocks.next_object()) {
            let (inner, path) = (Block::read(inner), content_path.item(index));
            inner.name_others("messages[].content[].content[]", &mut self.unsupported);
            if inner.cache_control.is_some_and(|breakpoint| breakpoint.is_object()) {
                self.unsupported.drop("messages[].content[].content[].cache_control");
            }
            match &*inner.kind(&path)? {
                "text" => parts.text(inner.text(&path)?, None),
                "image" => self.image(&inner, &path, None, &mut parts)?,
                "document" => self.document(&inner, &path, None, &mut parts)?,
                "search_result" => self.search_result(&inner, None, &mut parts),
                _ => self.needs_native(path.member("type")),
            }
        }
        self.out.put_slice(RESULT);
        self.out.put_slice(id.bytes());
        self.out.put_slice(b",\"content\":");
        parts.push_joined(&mut self.out);
        if is_error.is_some_and(|flag| flag.bytes() == b"true") {
            self.out.put_u8(b',');
            self.out.put_slice(FAILED);
        }
        if let Some(breakpoint) = block.cache_control.filter(|breakpoint| breakpoint.is_object()) {
            push_member(&mut self.out, b"cache_control", breakpoint.bytes());
        }
        self.out.put_slice(b"},");
        Ok(())
    }

    fn assistant(&mut self, content: Raw<'_>, path: &Path<'_>) -> Result<(), Invalid> {
        let (mut parts, mut calls, mut details) = (MessageParts::default(), BytesMut::new(), BytesMut::new());
        if let Some(text) = EscapedText::of(content) {
            self.has_blank_answers |= text.is_blank();
            parts.text(text, None);
        }
        let mut blocks = content.objects();
        while let Some((index, block)) = blocks.next_object() {
            let (block, path) = (Block::read(block), path.item(index));
            block.name_others("messages[].content[]", &mut self.unsupported);
            match &*block.kind(&path)? {
                "text" => {
                    if block.citations.is_some_and(Raw::is_filled) {
                        self.unsupported.drop("messages[].content[].citations");
                    }
                    let text = block.text(&path)?;
                    self.has_blank_answers |= text.is_blank();
                    parts.text(text, block.cache_control);
                }
                "thinking" | "redacted_thinking" => self.thinking(&block, &mut details),
                "tool_use" => push_call(&block, &path, &mut calls)?,
                "server_tool_use" => self.unsupported.drop("messages[].content[].type"),
                kind if kind.ends_with("_tool_result") => self.unsupported.drop("messages[].content[].type"),
                _ => self.needs_native(path.member("type")),
            }
        }
        if parts.is_empty() && calls.is_empty() && details.is_empty() {
            self.has_blank_answers = true;
            return Ok(());
        }
        self.out.put_slice(b"{\"role\":\"assistant\",\"content\":");
        if parts.is_empty() {
            self.out.put_slice(if calls.is_empty() { b"\"\"" } else { b"null" });
        } else {
            parts.push_short(&mut self.out);
        }
        for (name, list) in [(&b"tool_calls"[..], calls), (b"reasoning_details", details)] {
            if !list.is_empty() {
                push_member(&mut self.out, name, b"[");
                self.out.put_slice(&list);
                self.out.put_u8(b']');
            }
        }
        self.out.put_slice(b"},");
        Ok(())
    }

    /// Appends elements of `reasoning_details`. A signature of ours holds the state of another provider.
    fn thinking(&mut self, block: &Block<'_>, details: &mut BytesMut) {
        let [shown, signature, data] = [block.thinking, block.signature, block.data]
            .map(|value| value.and_then(EscapedText::of).filter(|text| !text.is_empty()));
        let Some(sealed) = signature.as_ref().or(data.as_ref()) else {
            return self.unsupported.drop("messages[].content[].thinking");
        };
        match self.state_key.open(&sealed.unescaped()) {
            Envelope::Forged => self.unsupported.drop("messages[].content[].signature"),
            Envelope::Foreign => match (data, signature) {
                (Some(data), _) => {
                    push_detail("encrypted", ReasoningFormat::Anthropic, &[(b"data", Some(&data))], details)
                }
                (None, signature) => {
                    let members: [(&[u8], _); 2] = [(b"text", shown.as_ref()), (b"signature", signature.as_ref())];
                    push_detail("text", ReasoningFormat::Anthropic, &members, details);
                }
            },
            // Its provider refuses a thought without its signature.
            Envelope::Genuine { format: ReasoningFormat::Anthropic, .. } => {}
            Envelope::Genuine { format, state } => {
                let ForeignState { data, id, omitted } = unpacked_state(&state);
                let omitted = (!omitted.is_empty()).then(|| EscapedText::escaping(omitted));
                if let Some(shown) = shown.as_ref().or(omitted.as_ref()) {
                    let (kind, name): (_, &[u8]) = match format {
                        ReasoningFormat::Responses => ("summary", b"summary"),
                        _ => ("text", b"text"),
                    };
                    push_detail(kind, format, &[(name, Some(shown))], details);
                }
                if !data.is_empty() {
                    let (data, id) = (EscapedText::escaping(data), id.map(EscapedText::escaping));
                    let members: [(&[u8], _); 2] = [(b"data", Some(&data)), (b"id", id.as_ref())];
                    push_detail("encrypted", format, &members, details);
                }
            }
        }
    }
}

/// Appends an element of `reasoning_details`.
fn push_detail(
    kind: &str,
    format: ReasoningFormat,
    members: &[(&[u8], Option<&EscapedText<'_>>)],
    details: &mut BytesMut,
) {
    if !details.is_empty() {
        details.put_u8(b',');
    }
    details.put_slice(format!("{{\"type\":\"reasoning.{kind}\",\"format\":\"{}\"", format.as_str()).as_bytes());
    for (name, value) in members {
        if let Some(value) = value {
            push_member(details, name, b"");
            value.push_quoted(details);
        }
    }
    details.put_u8(b'}');
}

fn push_call(block: &Block<'_>, path: &Path<'_>, calls: &mut BytesMut) -> Result<(), Invalid> {
    let id = block.id.ok_or_else(|| required(path.member("id")))?;
    let name = block.name.ok_or_else(|| required(path.member("name")))?;
    let input = block.input.ok_or_else(|| required(path.member("input")))?;
    for (value, field) in [(id, "id"), (name, "name")] {
        if value.filled_string().is_none() {
            return Err(mistyped(path.member(field), "a non-empty string"));
        }
    }
    if !input.is_object() {
        return Err(mistyped(path.member("input"), "an object"));
    }
    if !calls.is_empty() {
        calls.put_u8(b',');
    }
    calls.put_slice(b"{\"type\":\"function\"");
    push_member(calls, b"id", id.bytes());
    push_member(calls, b"function", b"{\"name\":");
    calls.put_slice(name.bytes());
    push_member(calls, b"arguments", b"");
    push_string(calls, input.written());
    calls.put_slice(b"}}");
    Ok(())
}
