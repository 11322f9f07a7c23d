//! Messages and their content blocks.

use std::borrow::Cow;

use pointsman_domain::{Invalid, ReasoningFormat};

use super::{ChatReader, MAX_MESSAGES, check_type, mistyped, refused, required};
use crate::{
    anthropic::foreign_state::{ForeignState, unpacked_state},
    json::{Members, Raw},
    neutral::{
        Content, Envelope, EscapedText, MemberType, Part, Path, ReasoningKind, ReasoningState, Role, ToolKind, Turn,
        UnsupportedFields, none_of, of_type,
    },
};

/// Beginning of the first system block of Claude Code, which only its own provider has a use for.
const ATTRIBUTION: &str = "x-anthropic-billing-header";

/// Where the blocks of a message stand, and those of a result among them.
const OF_CONTENT: &str = "messages[].content[]";
const OF_RESULTS: &str = "messages[].content[].content[]";

/// Members of a message.
const OF_MESSAGES: [&[u8]; 2] = [b"role", b"content"];

member_values! {
    /// The members of a content block, whatever its type.
    pub(super) struct Block {
        kind = b"type", text = b"text", cache_control = b"cache_control", source = b"source", content = b"content",
        title = b"title", context = b"context", citations = b"citations", tool_use_id = b"tool_use_id",
        is_error = b"is_error", id = b"id", name = b"name", input = b"input", thinking = b"thinking",
        signature = b"signature", data = b"data"
    }
}

impl<'a> Block<'a> {
    /// Reads a block. `unsupported` gets the members that have no form in chat, as those of `place`.
    pub(super) fn read(members: &mut Members<'a>, place: &str, unsupported: &mut UnsupportedFields) -> Block<'a> {
        let mut read = Block::default();
        for (key, value) in members {
            let name = key.name();
            match read.slot(&name) {
                Some(member) => *member = Some(value),
                // The model answers the same whoever calls the tool.
                None if *name == *b"caller" || value.is_null() => {}
                None => unsupported.drop_within(place, &name),
            }
        }
        read
    }

    fn kind(&self, path: &Path<'_>) -> Result<Cow<'a, str>, Invalid> {
        self.kind.and_then(Raw::text).ok_or_else(|| required(path.member("type")))
    }

    /// The text of a block of text.
    fn text(&self, path: &Path<'_>) -> Result<EscapedText<'a>, Invalid> {
        let text = self.text.ok_or_else(|| required(path.member("text")))?;
        EscapedText::read(text).ok_or_else(|| mistyped(path.member("text"), "a string"))
    }
}

impl<'a> ChatReader<'a> {
    pub(super) fn messages(&mut self, system: Option<Raw<'a>>, messages: Raw<'a>) -> Result<(), Invalid> {
        let path = Path::Field("messages");
        check_type(messages.is_array(), path, "an array")?;
        if let Some(system) = system {
            self.system(system, &Path::Field("system"), true)?;
        }
        let message_count = || refused(path, format!("'messages' must have between 1 and {MAX_MESSAGES} elements."));
        let (mut is_empty, mut objects) = (true, messages.objects());
        while let Some((index, message)) = objects.next_object() {
            if index == MAX_MESSAGES {
                return Err(message_count());
            }
            is_empty = false;
            self.message(message, &path.item(index))?;
        }
        if is_empty {
            return Err(message_count());
        }
        if self.conversation.turns.is_empty() && self.native_feature.is_some() {
            self.conversation.turns.push(Turn::empty());
        }
        Ok(())
    }

    fn system(&mut self, content: Raw<'a>, path: &Path<'_>, is_leading: bool) -> Result<(), Invalid> {
        let mut parts = texts(content);
        let place = if is_leading { "system[]" } else { OF_CONTENT };
        if content.is_array() {
            let mut blocks = content.objects();
            while let Some((index, block)) = blocks.next_object() {
                let (block, path) = (Block::read(block, place, &mut self.unsupported), path.item(index));
                if &*block.kind(&path)? != "text" {
                    let path = path.member("type");
                    return Err(refused(path, format!("'{path}' must be text: no other block is allowed here.")));
                }
                let text = block.text(&path)?;
                if is_leading && index == 0 && text.unescaped().trim_start().starts_with(ATTRIBUTION) {
                    continue;
                }
                parts.push(Part::marked(Content::Text(text), block.cache_control));
            }
        } else {
            check_type(content.is_string(), path, "a string or an array of text blocks")?;
        }
        self.push(Role::System, parts);
        Ok(())
    }

    /// Adds a message, unless it has no parts.
    fn push(&mut self, role: Role, parts: Vec<Part<'a>>) {
        if !parts.is_empty() {
            self.conversation.turns.push(Turn::new(role, parts));
        }
    }

    fn message(&mut self, message: &mut Members<'a>, path: &Path<'_>) -> Result<(), Invalid> {
        check_type(message.is_open(), path, "an object")?;
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
        check_type(content.is_string() || content.is_array(), content_path, "a string or an array of blocks")?;
        match role.text().as_deref() {
            Some("user") => self.user(content, &content_path),
            Some("assistant") => self.assistant(content, &content_path),
            Some("system") => self.system(content, &content_path, false),
            _ => Err(none_of(role_path, Some(role), &["user", "assistant", "system"])),
        }
    }

    /// Results of tool calls become messages of their own, before the rest.
    fn user(&mut self, content: Raw<'a>, path: &Path<'_>) -> Result<(), Invalid> {
        let mut parts = texts(content);
        let mut blocks = content.objects();
        while let Some((index, block)) = blocks.next_object() {
            let (block, path) = (Block::read(block, OF_CONTENT, &mut self.unsupported), path.item(index));
            match &*block.kind(&path)? {
                "tool_result" => self.tool_result(&block, &path)?,
                kind => self.said(kind, &block, &path, block.cache_control, &mut parts)?,
            }
        }
        self.push(Role::User, parts);
        Ok(())
    }

    /// A block of the user, or of the result of a call.
    fn said(
        &mut self,
        kind: &str,
        block: &Block<'a>,
        path: &Path<'_>,
        breakpoint: Option<Raw<'a>>,
        parts: &mut Vec<Part<'a>>,
    ) -> Result<(), Invalid> {
        match kind {
            "text" => parts.push(Part::marked(Content::Text(block.text(path)?), breakpoint)),
            "image" => self.image(block, path, breakpoint, parts)?,
            "document" => self.document(block, path, breakpoint, parts)?,
            "search_result" => self.search_result(block, breakpoint, parts),
            _ => self.needs_native(path.member("type")),
        }
        Ok(())
    }

    fn tool_result(&mut self, block: &Block<'a>, path: &Path<'_>) -> Result<(), Invalid> {
        let id = block.tool_use_id.and_then(EscapedText::filled);
        let id = id.ok_or_else(|| required(path.member("tool_use_id")))?;
        let is_error = of_type(block.is_error, MemberType::Boolean, || path.member("is_error").to_string())?;
        let content_path = path.member("content");
        let content = block.content.filter(|content| !content.is_null());
        check_type(
            content.is_none_or(|content| content.is_string() || content.is_array()),
            content_path,
            "a string or an array of blocks",
        )?;
        let mut parts = content.map(texts).unwrap_or_default();
        let mut blocks = content.map(Raw::objects);
        while let Some((index, inner)) = blocks.as_mut().and_then(|blocks| blocks.next_object()) {
            let (inner, path) = (Block::read(inner, OF_RESULTS, &mut self.unsupported), content_path.item(index));
            if inner.cache_control.is_some_and(|breakpoint| breakpoint.is_object()) {
                self.unsupported.drop("messages[].content[].content[].cache_control");
            }
            self.said(&inner.kind(&path)?, &inner, &path, None, &mut parts)?;
        }
        let failed = is_error.is_some_and(|flag| flag.bytes() == b"true");
        let result = Content::ToolResult { id, parts: Part::joined(parts), failed };
        self.conversation.turns.push(Turn::new(Role::Tool, vec![Part::marked(result, block.cache_control)]));
        Ok(())
    }

    fn assistant(&mut self, content: Raw<'a>, path: &Path<'_>) -> Result<(), Invalid> {
        let (mut parts, mut calls, mut reasoning) = (texts(content), Vec::new(), Vec::new());
        self.has_blank_answers |= parts.iter().any(is_blank);
        let mut blocks = content.objects();
        while let Some((index, block)) = blocks.next_object() {
            let (block, path) = (Block::read(block, OF_CONTENT, &mut self.unsupported), path.item(index));
            match &*block.kind(&path)? {
                "text" => {
                    if block.citations.is_some_and(Raw::is_filled) {
                        self.unsupported.drop("messages[].content[].citations");
                    }
                    let part = Part::marked(Content::Text(block.text(&path)?), block.cache_control);
                    self.has_blank_answers |= is_blank(&part);
                    parts.push(part);
                }
                "thinking" | "redacted_thinking" => self.thinking(&block, &mut reasoning),
                "tool_use" => calls.push(call(&block, &path)?),
                "server_tool_use" => self.unsupported.drop("messages[].content[].type"),
                kind if kind.ends_with("_tool_result") => self.unsupported.drop("messages[].content[].type"),
                _ => self.needs_native(path.member("type")),
            }
        }
        let parts: Vec<Part<'a>> = reasoning.into_iter().chain(parts).chain(calls).collect();
        self.has_blank_answers |= parts.is_empty();
        self.push(Role::Assistant, parts);
        Ok(())
    }

    /// Adds reasoning of an earlier answer. A signature of ours holds the state of another provider.
    fn thinking(&mut self, block: &Block<'a>, reasoning: &mut Vec<Part<'a>>) {
        let [shown, signature, data] = [block.thinking, block.signature, block.data]
            .map(|value| value.and_then(EscapedText::read).filter(|text| !text.is_empty()));
        let Some(sealed) = signature.as_ref().or(data.as_ref()) else {
            return self.unsupported.drop("messages[].content[].thinking");
        };
        let mut push = |format, kind, text, sealed, id| {
            let state = ReasoningState { format, kind, text, sealed, id };
            reasoning.push(Part::new(Content::Reasoning(state)));
        };
        let opened = self.state_key.open(&sealed.unescaped());
        match opened {
            Envelope::Forged => self.unsupported.drop("messages[].content[].signature"),
            Envelope::Foreign if data.is_some() => {
                push(ReasoningFormat::Anthropic, ReasoningKind::Encrypted, None, data, None);
            }
            Envelope::Foreign => push(ReasoningFormat::Anthropic, ReasoningKind::Text, shown, signature, None),
            // Its provider refuses reasoning without its signature.
            Envelope::Genuine { format: ReasoningFormat::Anthropic, .. } => {}
            Envelope::Genuine { format, state } => {
                let ForeignState { data, id, omitted } = unpacked_state(&state);
                let omitted = (!omitted.is_empty()).then(|| EscapedText::escaping(omitted));
                if let Some(shown) = shown.or(omitted) {
                    let kind = match format {
                        ReasoningFormat::Responses => ReasoningKind::Summary,
                        _ => ReasoningKind::Text,
                    };
                    push(format, kind, Some(shown), None, None);
                }
                if !data.is_empty() {
                    let (data, id) = (EscapedText::escaping(data), id.map(EscapedText::escaping));
                    push(format, ReasoningKind::Encrypted, None, Some(data), id);
                }
            }
        }
    }
}

/// The part of a content that is a string; none of another one.
fn texts(content: Raw<'_>) -> Vec<Part<'_>> {
    EscapedText::read(content).map(|text| Part::new(Content::Text(text))).into_iter().collect()
}

fn is_blank(part: &Part<'_>) -> bool {
    part.content.text().is_some_and(EscapedText::is_blank)
}

fn call<'a>(block: &Block<'a>, path: &Path<'_>) -> Result<Part<'a>, Invalid> {
    let id = block.id.ok_or_else(|| required(path.member("id")))?;
    let name = block.name.ok_or_else(|| required(path.member("name")))?;
    let input = block.input.ok_or_else(|| required(path.member("input")))?;
    let filled = |value: Raw<'a>, field| {
        let text = EscapedText::filled(value);
        text.ok_or_else(|| mistyped(path.member(field), "a non-empty string"))
    };
    let (id, name) = (filled(id, "id")?, filled(name, "name")?);
    check_type(input.is_object(), path.member("input"), "an object")?;
    let arguments = EscapedText::escaping(input.written());
    Ok(Part::new(Content::ToolCall { id, name, arguments, kind: ToolKind::Function }))
}
