//! The messages and tools of a client of another API, as a chat server takes them.
//!
//! A result of a call is one text here, so its images and files, and those of instructions, go to the user; that a call failed
//! stands in the text. Names and ids are in the form of OpenAI's chat. Reasoning goes back in the members that the endpoint
//! knows.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::{Catalog, Endpoint, ReasoningFormat};

use super::{
    foreign_members::ReturnedReasoning,
    request::takes_effort_only,
    tool_writer::{push_reference, push_tool},
};
use crate::{
    json::{push_comma, push_member},
    neutral::{
        CLIENT_IDS, Content, EscapedText, MediaSource, Part, ReasoningState, Role, Tool, ToolKind, ToolNames, Turn,
        UnsupportedFields, fitting_call_id,
    },
};

/// What a chat server takes.
pub(crate) struct ChatServer {
    /// Whether it takes marks of the prompt cache.
    pub(crate) takes_marks: bool,
    knows_developer_role: bool,
    reasoning: ReturnedReasoning,
    /// Whether it takes `reasoning_effort` in the place of `reasoning`.
    pub(crate) takes_effort: bool,
}

impl ChatServer {
    pub(crate) fn new(catalog: &Catalog, endpoint: &Endpoint, turns: &[Turn<'_>]) -> ChatServer {
        let lists = |name| catalog.parameters.lists(endpoint.parameters, name);
        let is_reasoning = |part: &Part<'_>| matches!(part.content, Content::Reasoning(_));
        let has_reasoning = turns.iter().any(|turn| turn.parts.iter().any(is_reasoning));
        let mut reasoning = ReturnedReasoning::to(catalog, endpoint, has_reasoning);
        reasoning.cuts_details |= !lists("reasoning");
        ChatServer {
            takes_marks: lists("cache_control"),
            knows_developer_role: endpoint.knows_developer_role,
            reasoning,
            takes_effort: takes_effort_only(catalog, endpoint),
        }
    }
}

#[cfg(test)]
impl ChatServer {
    pub(crate) fn taking_everything(turns: &[Turn<'_>]) -> ChatServer {
        let id = pointsman_domain::EndpointId::new("acme/m", "acme", "");
        let mut server = ChatServer::new(&Catalog::default(), &Endpoint::with_defaults(id, 0, 0, "m"), turns);
        (server.takes_marks, server.knows_developer_role, server.reasoning.cuts_details) = (true, true, false);
        server
    }
}

/// Writes what a model reads.
pub(crate) struct PromptWriter<'w, 'a> {
    server: &'w ChatServer,
    names: &'w ToolNames,
    /// Whether a single text is a string, not a list of one part.
    has_short_texts: bool,
    unsupported: &'w mut UnsupportedFields,
    out: &'w mut BytesMut,
    /// Media that wait for a message of the user.
    media: Vec<&'w Part<'a>>,
}

impl<'w, 'a> PromptWriter<'w, 'a> {
    pub(crate) fn new(
        server: &'w ChatServer,
        names: &'w ToolNames,
        has_short_texts: bool,
        unsupported: &'w mut UnsupportedFields,
        out: &'w mut BytesMut,
    ) -> PromptWriter<'w, 'a> {
        PromptWriter { server, names, has_short_texts, unsupported, out, media: Vec::new() }
    }

    /// Appends `,"messages":[…]`.
    pub(crate) fn messages(&mut self, turns: &'w [Turn<'a>]) {
        push_member(self.out, b"messages", b"[");
        let mut turns = turns.iter().peekable();
        while let Some(turn) = turns.next() {
            let speaker = author(turn.role);
            let is_written = self.turn(turn);
            // They stand behind all results of a turn, and before what the user says next.
            let next = turns.peek().map(|next| author(next.role));
            let goes_on = is_written && next.is_some_and(|next| next == speaker || next == Role::User);
            if !goes_on && !self.media.is_empty() {
                self.user(&[]);
            }
        }
        self.out.put_u8(b']');
    }

    /// Appends a turn, unless nothing is left of it.
    fn turn(&mut self, turn: &'w Turn<'a>) -> bool {
        match turn.role {
            Role::User => self.user(&turn.parts),
            Role::Assistant => self.answer(&turn.parts),
            Role::Tool => turn.parts.iter().for_each(|part| self.result(part)),
            Role::System | Role::Developer => return self.instructions(turn),
        }
        true
    }

    fn begin(&mut self, role: &str) {
        self.open();
        self.role(role);
    }

    /// Begins the next message.
    fn open(&mut self) {
        self.out.put_slice(if self.out.ends_with(b"[") { b"{" } else { b",{" });
    }

    fn role(&mut self, role: &str) {
        push!(self.out; br#""role":""#, role.as_bytes(), br#"""#);
    }

    fn user(&mut self, parts: &'w [Part<'a>]) {
        let said: Vec<&Part<'a>> = std::mem::take(&mut self.media).into_iter().chain(parts).collect();
        self.begin("user");
        self.content(&said);
        self.out.put_u8(b'}');
    }

    fn instructions(&mut self, turn: &'w Turn<'a>) -> bool {
        let (texts, media): (Vec<_>, Vec<_>) = turn.parts.iter().partition(|part| is_text(part));
        if !media.is_empty() {
            self.unsupported.emulate("messages[].content[]");
            self.media.extend(media);
        }
        if texts.is_empty() {
            return false;
        }
        let is_developer = turn.role == Role::Developer && self.server.knows_developer_role;
        self.begin(if is_developer { "developer" } else { "system" });
        self.content(&texts);
        self.out.put_u8(b'}');
        true
    }

    fn result(&mut self, part: &'w Part<'a>) {
        let Content::ToolResult { id, parts, failed } = &part.content else { return };
        let before = self.media.len();
        self.media.extend(parts.iter().filter(|part| !is_text(part)));
        if self.media.len() > before {
            self.unsupported.emulate("messages[].content");
        }
        self.begin("tool");
        push!(self.out; br#","tool_call_id":"#, fitting_call_id(id, CLIENT_IDS), br#","content":""#);
        if *failed {
            self.unsupported.emulate("messages[].is_error");
            self.out.put_slice(b"Error: ");
        }
        for part in parts {
            if let Content::Text(text) = &part.content {
                self.out.put_slice(text.bytes());
            }
        }
        self.out.put_u8(b'"');
        self.mark(part, "messages[].cache_control");
        self.out.put_u8(b'}');
    }

    fn answer(&mut self, parts: &'w [Part<'a>]) {
        let (mut said, mut calls, mut reasoning) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            match &part.content {
                Content::Reasoning(state) => reasoning.push(state),
                Content::ToolCall { .. } => calls.push(part),
                _ => said.push(part),
            }
        }
        let shown = self.shown_reasoning(&mut reasoning);
        self.open();
        for (target, text) in self.server.reasoning.targets.into_iter().flatten().zip(shown.iter().cycle()) {
            for piece in [b"\"", target.as_bytes(), b"\":\"", text, b"\","] {
                self.out.put_slice(piece);
            }
        }
        self.role("assistant");
        match (said.as_slice(), calls.is_empty()) {
            ([], true) => push_member(self.out, b"content", b"\"\""),
            ([], false) => push_member(self.out, b"content", b"null"),
            (said, _) => self.content(said),
        }
        if !calls.is_empty() {
            push_member(self.out, b"tool_calls", b"[");
            self.list(&calls, PromptWriter::call);
        }
        if !reasoning.is_empty() {
            push_member(self.out, b"reasoning_details", b"[");
            self.list(&reasoning, |writer, state| push_detail(state, writer.out));
        }
        self.out.put_u8(b'}');
    }

    /// The text of the reasoning of an answer, where the endpoint takes it back as such. In `states` stays what goes back in
    /// `reasoning_details`.
    fn shown_reasoning(&mut self, states: &mut Vec<&ReasoningState<'a>>) -> Option<Vec<u8>> {
        let given = states.len();
        let Some(targets) = self.server.reasoning.targets else {
            states.retain(|state| !self.server.reasoning.cuts(Some(state.format), state.sealed.is_some()));
            if states.len() < given {
                self.unsupported.emulate("reasoning_details");
            }
            return None;
        };
        let readable =
            states.drain(..).filter(|state| !state.format.is_bound()).filter_map(|state| state.text.as_ref());
        let texts: Vec<&[u8]> = readable.map(EscapedText::bytes).collect();
        if texts.len() < given || (targets.is_empty() && given > 0) {
            self.unsupported.emulate("reasoning_details");
        }
        let text = texts.concat();
        match text.is_empty() {
            true => self.server.reasoning.fills.then(|| b" ".to_vec()),
            false => Some(text),
        }
    }

    /// Appends elements of a list, and its end.
    fn list<T>(&mut self, elements: &[T], push: impl Fn(&mut Self, &T)) {
        for element in elements {
            push_comma(self.out);
            push(self, element);
        }
        self.out.put_u8(b']');
    }

    fn call(&mut self, part: &&'w Part<'a>) {
        let Content::ToolCall { id, name, arguments, kind } = &part.content else { return };
        push!(self.out; br#"{"id":"#, fitting_call_id(id, CLIENT_IDS), b",");
        push_reference(*kind, name, self.names, self.out);
        arguments.push_member(self.out, if *kind == ToolKind::Custom { b"input" } else { b"arguments" });
        self.out.put_slice(b"}}");
    }

    /// Appends `content`. A text that says nothing is a string everywhere.
    fn content(&mut self, parts: &[&Part<'a>]) {
        push_member(self.out, b"content", b"");
        match parts {
            [Part { content: Content::Text(text), cache_control: None }] if self.has_short_texts || text.is_empty() => {
                text.push_quoted(self.out);
            }
            _ => {
                self.out.put_u8(b'[');
                self.list(parts, |writer, part| writer.part(part));
            }
        }
    }

    fn part(&mut self, part: &Part<'a>) {
        let out = &mut *self.out;
        match &part.content {
            Content::Refusal(text) => push_text_part("refusal", text, out),
            Content::Image { source, detail } => {
                out.put_slice(b"{\"type\":\"image_url\",\"image_url\":{\"url\":");
                push_source(source, out);
                if let Some(detail) = detail {
                    detail.push_member(out, b"detail");
                }
                out.put_u8(b'}');
            }
            Content::Audio { format, data } => {
                push!(out; br#"{"type":"input_audio","input_audio":{"data":"#, data, br#","format":"#, format, b"}");
            }
            Content::File { source, name } => {
                out.put_slice(b"{\"type\":\"file\",\"file\":{");
                if let Some(name) = name {
                    push!(out; br#""filename":"#, name, b",");
                }
                // Chat has data and addresses under the same name.
                let is_id = matches!(source, MediaSource::FileId(_));
                out.put_slice(if is_id { b"\"file_id\":" } else { b"\"file_data\":" });
                push_source(source, out);
                out.put_u8(b'}');
            }
            Content::Video { source } => {
                out.put_slice(b"{\"type\":\"video_url\",\"video_url\":{\"url\":");
                push_source(source, out);
                out.put_u8(b'}');
            }
            Content::Text(text) => push_text_part("text", text, out),
            _ => push_text_part("text", &EscapedText::plain(""), out),
        }
        self.mark(part, "messages[].content[].cache_control");
        self.out.put_u8(b'}');
    }

    /// Appends the mark of the cache that stands at `path`.
    fn mark(&mut self, part: &Part<'a>, path: &str) {
        match part.cache_control {
            Some(mark) if self.server.takes_marks => push_member(self.out, b"cache_control", mark.bytes()),
            Some(_) => self.unsupported.drop(path),
            None => {}
        }
    }

    /// Appends `,"tools":[…]`, unless there are none.
    pub(crate) fn tools(&mut self, tools: &[Tool<'a>]) {
        if !tools.is_empty() {
            push_member(self.out, b"tools", b"[");
            self.list(tools, PromptWriter::tool);
        }
    }

    fn tool(&mut self, tool: &Tool<'a>) {
        push_tool(tool, self.names, self.unsupported, self.out);
        match tool.cache_control {
            Some(mark) if self.server.takes_marks => push_member(self.out, b"cache_control", mark.bytes()),
            Some(_) => self.unsupported.drop("tools[].cache_control"),
            None => {}
        }
        self.out.put_u8(b'}');
    }
}

/// Who speaks: of instructions, it does not matter which.
fn author(role: Role) -> Role {
    if role == Role::Developer { Role::System } else { role }
}

fn is_text(part: &Part<'_>) -> bool {
    matches!(part.content, Content::Text(_))
}

/// Appends a part of text without its end.
fn push_text_part(kind: &str, text: &EscapedText<'_>, out: &mut BytesMut) {
    push!(out; format!("{{\"type\":\"{kind}\",\"{kind}\":").as_bytes(), text);
}

fn push_source(source: &MediaSource<'_>, out: &mut BytesMut) {
    out.put_u8(b'"');
    match source {
        MediaSource::Base64 { media_type, data } => {
            for piece in [b"data:", media_type.bytes(), b";base64,", data.bytes()] {
                out.put_slice(piece);
            }
        }
        MediaSource::Text { head, text } => {
            for piece in [b"data:", head.bytes(), b",", text.bytes()] {
                out.put_slice(piece);
            }
        }
        MediaSource::Url(text) | MediaSource::FileId(text) => out.put_slice(text.bytes()),
    }
    out.put_u8(b'"');
}

/// Appends an element of `reasoning_details`.
fn push_detail(state: &ReasoningState<'_>, out: &mut BytesMut) {
    let (kind, text, sealed) = state.kind.names();
    out.put_slice(format!("{{\"type\":\"{kind}\",\"format\":\"{}\"", state.format.as_str()).as_bytes());
    // Only reasoning of this format has the id of a call.
    let is_of_call = state.format == ReasoningFormat::Gemini;
    let fitting = |id: &EscapedText<'_>| {
        if is_of_call { fitting_call_id(id, CLIENT_IDS).into_owned() } else { id.clone().into_owned() }
    };
    let id = state.id.as_ref().map(fitting);
    for (name, value) in [(text, state.text.as_ref()), (sealed, state.sealed.as_ref()), (b"id", id.as_ref())] {
        if let Some(value) = value {
            value.push_member(out, name);
        }
    }
    out.put_u8(b'}');
}

#[cfg(test)]
mod tests;
