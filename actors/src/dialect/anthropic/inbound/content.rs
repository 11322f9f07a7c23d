//! Messages and their content blocks.

use bytes::{BufMut as _, BytesMut};

use super::{
    ChatBodyWriter, MAX_MESSAGES, mistyped,
    parts::{Parts, web_address},
    refused, required,
};
use crate::{
    dialect::{
        anthropic::foreign_state::unpacked_state,
        json::{Raw, push_member},
        neutral::{EMPTY_MESSAGE, Envelope, EscapedText, MemberType, optional_member},
    },
    domain::{Invalid, ReasoningFormat},
};

/// Beginning of the first system block of Claude Code, which only its own provider has a use for.
const ATTRIBUTION: &str = "x-anthropic-billing-header";

impl ChatBodyWriter<'_> {
    pub(super) fn messages(&mut self, system: Option<Raw<'_>>, messages: Raw<'_>) -> Result<(), Invalid> {
        if !messages.is_array() {
            return Err(mistyped("messages", "an array"));
        }
        let count = messages.elements().count();
        if count == 0 || count > MAX_MESSAGES {
            let message = format!("'messages' must have between 1 and {MAX_MESSAGES} elements.");
            return Err(refused("messages", message));
        }
        push_member(&mut self.out, b"messages", b"[");
        let first = self.out.len();
        if let Some(system) = system {
            self.system(system, "system", true)?;
        }
        for (index, message) in messages.elements().enumerate() {
            self.message(message, &format!("messages[{index}]"))?;
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

    fn system(&mut self, content: Raw<'_>, path: &str, is_leading: bool) -> Result<(), Invalid> {
        let mut parts = Parts::default();
        if content.is_string() {
            parts.text(content, None);
        } else if content.is_array() {
            for (index, block) in content.elements().enumerate() {
                let path = format!("{path}[{index}]");
                if &*block_type(block, &path)? != "text" {
                    let path = format!("{path}.type");
                    return Err(refused(&path, format!("'{path}' must be text: no other block is allowed here.")));
                }
                let text = text_of(block, &path)?;
                let is_attribution = is_leading
                    && index == 0
                    && text.text().is_some_and(|text| text.trim_start().starts_with(ATTRIBUTION));
                if is_attribution {
                    continue;
                }
                parts.text(text, block.member(b"cache_control"));
            }
        } else {
            return Err(mistyped(path, "a string or an array of text blocks"));
        }
        if !parts.is_empty() {
            self.out.put_slice(b"{\"role\":\"system\",\"content\":");
            parts.push(&mut self.out);
            self.out.put_slice(b"},");
        }
        Ok(())
    }

    fn message(&mut self, message: Raw<'_>, path: &str) -> Result<(), Invalid> {
        if !message.is_object() {
            return Err(mistyped(path, "an object"));
        }
        let [role, content] = message.pick([b"role", b"content"]);
        let role = role.ok_or_else(|| required(&format!("{path}.role")))?;
        let content_path = format!("{path}.content");
        let content = content.ok_or_else(|| required(&content_path))?;
        if !content.is_string() && !content.is_array() {
            return Err(mistyped(&content_path, "a string or an array of blocks"));
        }
        match role.text().as_deref() {
            Some("user") => self.user(content, &content_path),
            Some("assistant") => self.assistant(content, &content_path),
            Some("system") => self.system(content, &content_path, false),
            _ => {
                let message = format!("'{path}.role' must be one of user, assistant, system.");
                Err(refused(&format!("{path}.role"), message).allowing(["user", "assistant", "system"]))
            }
        }
    }

    /// Results of tool calls become messages of their own, before the rest. Images in them go to the user message.
    fn user(&mut self, content: Raw<'_>, path: &str) -> Result<(), Invalid> {
        let mut parts = Parts::default();
        if content.is_string() {
            parts.text(content, None);
        }
        for (index, block) in content.elements().enumerate() {
            let path = format!("{path}[{index}]");
            let mark = block.member(b"cache_control");
            match block_type(block, &path)?.as_ref() {
                "text" => parts.text(text_of(block, &path)?, mark),
                "image" => self.image(block, &path, mark, &mut parts)?,
                "document" => self.document(block, &path, mark, &mut parts)?,
                "search_result" => self.search_result(block, mark, &mut parts),
                "tool_result" => self.tool_result(block, &path, &mut parts)?,
                _ => self.needs_native(format!("{path}.type")),
            }
        }
        if !parts.is_empty() {
            self.out.put_slice(b"{\"role\":\"user\",\"content\":");
            parts.push(&mut self.out);
            self.out.put_slice(b"},");
        }
        Ok(())
    }

    fn tool_result(&mut self, block: Raw<'_>, path: &str, user: &mut Parts) -> Result<(), Invalid> {
        let id = block.member(b"tool_use_id").and_then(Raw::filled_string);
        let id = id.ok_or_else(|| required(&format!("{path}.tool_use_id")))?;
        let mut parts = Parts::default();
        let is_error = optional_member(block, path, "is_error", MemberType::Boolean)?;
        if is_error.is_some_and(|flag| flag.bytes() == b"true") {
            self.fates.emulate("messages[].content[].is_error");
            parts.escaped(&EscapedText::plain("Error: "), None);
        }
        let content = block.member(b"content").filter(|content| !content.is_null());
        if content.is_some_and(|content| !content.is_string() && !content.is_array()) {
            return Err(mistyped(&format!("{path}.content"), "a string or an array of blocks"));
        }
        if let Some(text) = content.filter(|content| content.is_string()) {
            parts.text(text, None);
        }
        for (index, inner) in content.into_iter().flat_map(Raw::elements).enumerate() {
            let path = format!("{path}.content[{index}]");
            match block_type(inner, &path)?.as_ref() {
                "text" => parts.text(text_of(inner, &path)?, None),
                "image" => {
                    self.fates.emulate("messages[].content[].content");
                    self.image(inner, &path, None, user)?;
                }
                "document" => self.document(inner, &path, None, user)?,
                "search_result" => self.search_result(inner, None, &mut parts),
                _ => self.needs_native(format!("{path}.type")),
            }
        }
        if parts.is_empty() {
            parts.escaped(&EscapedText::plain(""), None);
        }
        self.out.put_slice(b"{\"role\":\"tool\",\"tool_call_id\":");
        self.out.put_slice(id.bytes());
        self.out.put_slice(b",\"content\":");
        parts.push_joined(&mut self.out);
        if let Some(mark) = block.member(b"cache_control").filter(|mark| mark.is_object()) {
            push_member(&mut self.out, b"cache_control", mark.bytes());
        }
        self.out.put_slice(b"},");
        Ok(())
    }

    /// An image that was uploaded to the provider can only be found there.
    fn image(&mut self, block: Raw<'_>, path: &str, mark: Option<Raw<'_>>, parts: &mut Parts) -> Result<(), Invalid> {
        let source = block.member(b"source");
        if source.and_then(|source| source.member(b"type")).and_then(Raw::text).as_deref() == Some("file") {
            self.needs_native(format!("{path}.source.type"));
            return Ok(());
        }
        parts.image(block, path, mark)
    }

    fn document(
        &mut self,
        block: Raw<'_>,
        path: &str,
        mark: Option<Raw<'_>>,
        parts: &mut Parts,
    ) -> Result<(), Invalid> {
        let source = block.member(b"source").ok_or_else(|| required(&format!("{path}.source")))?;
        let text = |name: &[u8]| source.member(name).and_then(EscapedText::of);
        for name in [&b"title"[..], b"context"] {
            if let Some(text) = block.member(name).and_then(Raw::filled_string) {
                parts.text(text, None);
            }
        }
        let citations = block.member(b"citations").and_then(|citations| citations.member(b"enabled"));
        if citations.is_some_and(|enabled| enabled.bytes() == b"true") {
            self.fates.drop("messages[].content[].citations");
        }
        let name = block.member(b"title").and_then(EscapedText::of).unwrap_or(EscapedText::plain("document.pdf"));
        match source.member(b"type").and_then(Raw::text).as_deref() {
            Some("text") => match text(b"data") {
                Some(data) => parts.escaped(&data, mark),
                None => return Err(required(&format!("{path}.source.data"))),
            },
            Some("base64") => {
                let data = text(b"data").ok_or_else(|| required(&format!("{path}.source.data")))?;
                let media_type = text(b"media_type").unwrap_or(EscapedText::plain("application/pdf"));
                parts.file(&media_type, &data, &name, mark);
            }
            Some("url") => {
                let path = format!("{path}.source.url");
                let address = text(b"url").ok_or_else(|| required(&path))?;
                parts.linked_file(&web_address(address, &path)?, &name, mark);
            }
            Some("content") => {
                let content = source.member(b"content");
                if let Some(text) = content.filter(|content| content.is_string()) {
                    parts.text(text, mark);
                }
                let count = content.map_or(0, |content| content.elements().count());
                for (index, inner) in content.into_iter().flat_map(Raw::elements).enumerate() {
                    // The mark stands for the whole document.
                    let mark = mark.filter(|_| index + 1 == count);
                    match inner.member(b"text").filter(|text| text.is_string()) {
                        Some(text) => parts.text(text, mark),
                        None => self.image(inner, &format!("{path}.source.content[{index}]"), mark, parts)?,
                    }
                }
            }
            Some("file") => self.needs_native(format!("{path}.source.type")),
            _ => {
                return Err(refused(
                    &format!("{path}.source.type"),
                    "The source must be base64, text, url, content or file.",
                ));
            }
        }
        Ok(())
    }

    fn search_result(&mut self, block: Raw<'_>, mark: Option<Raw<'_>>, parts: &mut Parts) {
        self.fates.emulate("messages[].content[].type");
        let word = |name: &[u8]| block.member(name).and_then(Raw::text).unwrap_or_default().into_owned();
        let mut text = format!("Search result: {} ({})", word(b"title"), word(b"source"));
        for inner in block.member(b"content").into_iter().flat_map(Raw::elements) {
            text.push('\n');
            text.push_str(&inner.member(b"text").and_then(Raw::text).unwrap_or_default());
        }
        parts.escaped(&EscapedText::escaping(&text), mark);
    }

    fn assistant(&mut self, content: Raw<'_>, path: &str) -> Result<(), Invalid> {
        let (mut parts, mut calls, mut details) = (Parts::default(), BytesMut::new(), BytesMut::new());
        if content.is_string() {
            parts.text(content, None);
        }
        for (index, block) in content.elements().enumerate() {
            let path = format!("{path}[{index}]");
            match block_type(block, &path)?.as_ref() {
                "text" => {
                    if block.member(b"citations").is_some_and(Raw::is_filled) {
                        self.fates.drop("messages[].content[].citations");
                    }
                    parts.text(text_of(block, &path)?, block.member(b"cache_control"));
                }
                "thinking" | "redacted_thinking" => self.thinking(block, &mut details),
                "tool_use" => push_call(block, &path, &mut calls)?,
                "server_tool_use" => self.fates.drop("messages[].content[].type"),
                kind if kind.ends_with("_tool_result") => self.fates.drop("messages[].content[].type"),
                _ => self.needs_native(format!("{path}.type")),
            }
        }
        if parts.is_empty() && calls.is_empty() && details.is_empty() {
            return Ok(());
        }
        self.out.put_slice(b"{\"role\":\"assistant\",\"content\":");
        if parts.is_empty() {
            self.out.put_slice(if calls.is_empty() { b"\"\"" } else { b"null" });
        } else {
            parts.push(&mut self.out);
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
    fn thinking(&mut self, block: Raw<'_>, details: &mut BytesMut) {
        let text = |name: &[u8]| block.member(name).and_then(EscapedText::of).filter(|text| !text.is_empty());
        let (shown, signature, data) = (text(b"thinking"), text(b"signature"), text(b"data"));
        let Some(sealed) = signature.as_ref().or(data.as_ref()) else {
            return self.fates.drop("messages[].content[].thinking");
        };
        match self.state_key.open(&sealed.unescaped()) {
            Envelope::Forged => self.fates.drop("messages[].content[].signature"),
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
                if let Some(shown) = &shown {
                    let (kind, name): (_, &[u8]) = match format {
                        ReasoningFormat::Responses => ("summary", b"summary"),
                        _ => ("text", b"text"),
                    };
                    push_detail(kind, format, &[(name, Some(shown))], details);
                }
                let (data, id) = unpacked_state(&state);
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

fn block_type<'a>(block: Raw<'a>, path: &str) -> Result<std::borrow::Cow<'a, str>, Invalid> {
    block.member(b"type").and_then(Raw::text).ok_or_else(|| required(&format!("{path}.type")))
}

fn text_of<'a>(block: Raw<'a>, path: &str) -> Result<Raw<'a>, Invalid> {
    let text = block.member(b"text").ok_or_else(|| required(&format!("{path}.text")))?;
    if text.is_string() { Ok(text) } else { Err(mistyped(&format!("{path}.text"), "a string")) }
}

fn push_call(block: Raw<'_>, path: &str, calls: &mut BytesMut) -> Result<(), Invalid> {
    let member = |name: &str| {
        let value = block.member(name.as_bytes());
        value.ok_or_else(|| required(&format!("{path}.{name}")))
    };
    let (id, name, input) = (member("id")?, member("name")?, member("input")?);
    for (value, field) in [(id, "id"), (name, "name")] {
        if value.filled_string().is_none() {
            return Err(mistyped(&format!("{path}.{field}"), "a non-empty string"));
        }
    }
    if !input.is_object() {
        return Err(mistyped(&format!("{path}.input"), "an object"));
    }
    if !calls.is_empty() {
        calls.put_u8(b',');
    }
    calls.put_slice(b"{\"type\":\"function\"");
    push_member(calls, b"id", id.bytes());
    push_member(calls, b"function", b"{\"name\":");
    calls.put_slice(name.bytes());
    push_member(calls, b"arguments", b"");
    EscapedText::escaping(&String::from_utf8_lossy(input.bytes())).push_quoted(calls);
    calls.put_slice(b"}}");
    Ok(())
}
