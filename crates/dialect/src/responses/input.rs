//! `input`: instructions and turns as items.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::{BufMut as _, BytesMut};
use pointsman_domain::ReasoningFormat;

use super::models::NAMES;
use crate::{
    json::{Comma, push_comma, push_member},
    neutral::{
        Content, EscapedText, MediaSource, Part, ReasoningKind, ReasoningState, Role, ToolCallIds, ToolKind, ToolNames,
        Turn, UnsupportedFields, name_of_cache_mark,
    },
};

/// The mark on a part up to which the prompt is cached.
const PROMPT_CACHE_BREAKPOINT: &[u8] = b"prompt_cache_breakpoint";
/// Beginning of the ids of reasoning items.
const REASONING_ID: &str = "rs_";

/// Appends `,"input":[…]`. `takes_breakpoints`: parts may have a mark up to which the prompt is cached.
pub(super) fn push_input<'a>(
    system: &[Part<'a>],
    turns: &[Turn<'a>],
    takes_breakpoints: bool,
    names: &ToolNames,
    out: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) {
    push_member(out, b"input", b"[");
    let mut input =
        Input { out, unsupported, names, takes_breakpoints, ids: ToolCallIds::new(NAMES), custom_calls: Vec::new() };
    input.message(Author::Developer, system);
    for turn in turns {
        input.turn(turn);
    }
    input.out.put_u8(b']');
}

struct Input<'o, 'a> {
    out: &'o mut BytesMut,
    unsupported: &'o mut UnsupportedFields,
    names: &'o ToolNames,
    takes_breakpoints: bool,
    ids: ToolCallIds<'a>,
    /// Ids of calls of custom tools that have no result yet.
    custom_calls: Vec<EscapedText<'a>>,
}

/// Author of a message item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Author {
    Developer,
    User,
    Assistant,
}

impl<'a> Input<'_, 'a> {
    fn turn(&mut self, turn: &Turn<'a>) {
        if turn.is_named {
            self.unsupported.drop("messages[].name");
        }
        match turn.role {
            Role::System | Role::Developer => self.message(Author::Developer, &turn.parts),
            Role::User => self.message(Author::User, &turn.parts),
            Role::Assistant => self.assistant(&turn.parts),
            Role::Tool => turn.parts.iter().for_each(|part| self.result(part)),
        }
    }

    /// Writes an answer. Reasoning stands before what it led to: the API refuses reasoning that nothing follows. Chat has all
    /// reasoning of an answer at its beginning, so where a text and calls follow, the last of it goes to the calls.
    fn assistant(&mut self, parts: &[Part<'a>]) {
        let is_reasoning = |part: &&Part<'_>| matches!(part.content, Content::Reasoning(_));
        let is_item = |part: &&Part<'_>| matches!(part.content, Content::Reasoning(_) | Content::ToolCall { .. });
        let (reasoning, answer) = parts.split_at(parts.iter().take_while(is_reasoning).count());
        let (texts, calls) = answer.split_at(answer.iter().take_while(|part| !is_item(part)).count());
        let complete = reasoning.split_last().map_or(&[][..], |(_, before)| before).iter().rposition(ends_reasoning);
        match complete {
            Some(end) if !texts.is_empty() && !calls.is_empty() => {
                let (first, last) = reasoning.split_at(end + 1);
                [first, texts, last, calls].into_iter().for_each(|parts| self.items(parts));
            }
            _ => self.items(parts),
        }
    }

    /// Writes the items of an answer, in order.
    fn items(&mut self, parts: &[Part<'a>]) {
        let mut rest = parts;
        while let Some((first, tail)) = rest.split_first() {
            let length = match &first.content {
                Content::Reasoning(_) => {
                    let run = rest.iter().take_while(|part| matches!(part.content, Content::Reasoning(_))).count();
                    self.reasoning(rest.get(..run).unwrap_or_default());
                    run
                }
                Content::ToolCall { id, name, arguments, kind } => {
                    self.call(id, name, arguments, *kind);
                    1
                }
                _ => {
                    let is_item =
                        |part: &&Part<'_>| matches!(part.content, Content::Reasoning(_) | Content::ToolCall { .. });
                    let run = 1 + tail.iter().take_while(|part| !is_item(part)).count();
                    self.message(Author::Assistant, rest.get(..run).unwrap_or_default());
                    run
                }
            };
            rest = rest.get(length..).unwrap_or_default();
        }
    }

    /// Writes a message, unless nothing is left of its parts.
    fn message(&mut self, author: Author, parts: &[Part<'a>]) {
        let before = self.out.len();
        push_comma(self.out);
        self.out.put_slice(match author {
            Author::Developer => b"{\"type\":\"message\",\"role\":\"developer\",\"content\":[",
            Author::User => b"{\"type\":\"message\",\"role\":\"user\",\"content\":[",
            Author::Assistant => b"{\"type\":\"message\",\"role\":\"assistant\",\"content\":[",
        });
        let empty = self.out.len();
        for part in parts {
            self.part(part, author);
        }
        if self.out.len() > empty {
            return self.out.put_slice(b"]}");
        }
        self.out.truncate(before);
    }

    fn part(&mut self, part: &Part<'a>, author: Author) {
        let is_answer = author == Author::Assistant;
        let breakpoint = part.cache_control.filter(|_| self.takes_breakpoints && !is_answer);
        if let Some(mark) = part.cache_control.filter(|_| breakpoint.is_none()) {
            self.unsupported.drop(&format!("messages[].content[].{}", name_of_cache_mark(mark)));
        }
        let is_written = match &part.content {
            Content::Text(text) if is_answer && text.is_empty() => return,
            Content::Text(text) => {
                push_comma(self.out);
                self.out.put_slice(if is_answer { b"{\"type\":\"output_text\"" } else { b"{\"type\":\"input_text\"" });
                text.push_member(self.out, b"text");
                self.out.put_slice(if is_answer { b",\"annotations\":[]}" } else { b"}" });
                true
            }
            Content::Refusal(text) if is_answer => {
                push!(self.out; Comma, br#"{"type":"refusal","refusal":"#, text, b"}");
                true
            }
            content => author == Author::User && push_media(content, self.out),
        };
        if !is_written {
            return self.unsupported.drop("messages[].content[]");
        }
        if let Some(breakpoint) = breakpoint {
            // Behind the members that were written, before the brace that closes them.
            self.out.truncate(self.out.len() - 1);
            let is_own = breakpoint.member(b"mode").is_some();
            push_member(
                self.out,
                PROMPT_CACHE_BREAKPOINT,
                if is_own { breakpoint.bytes() } else { b"{\"mode\":\"explicit\"}" },
            );
            self.out.put_u8(b'}');
        }
    }

    fn call(&mut self, id: &EscapedText<'a>, name: &EscapedText<'a>, arguments: &EscapedText<'a>, kind: ToolKind) {
        push_comma(self.out);
        let (head, text): (&[u8], &[u8]) = match kind {
            ToolKind::Function => (b"{\"type\":\"function_call\"", b"arguments"),
            ToolKind::Custom => (b"{\"type\":\"custom_tool_call\"", b"input"),
        };
        if kind == ToolKind::Custom {
            self.custom_calls.push(id.clone());
        }
        push!(self.out; head, br#","call_id":"#, self.ids.of_call(id), br#","name":"#, self.names.sent(name), br#",""#,
            text, br#"":"#, arguments, b"}");
    }

    fn result(&mut self, part: &Part<'a>) {
        let Content::ToolResult { id, parts, failed } = &part.content else { return };
        let custom = self.custom_calls.iter().position(|call| call == id);
        if let Some(place) = custom {
            self.custom_calls.remove(place);
        }
        push_comma(self.out);
        self.out.put_slice(match custom {
            Some(_) => b"{\"type\":\"custom_tool_call_output\"",
            None => b"{\"type\":\"function_call_output\"",
        });
        self.ids.of_result(id).push_member(self.out, b"call_id");
        self.output(parts, *failed);
        self.out.put_u8(b'}');
        if part.cache_control.is_some() {
            self.unsupported.drop("messages[].cache_control");
        }
    }

    /// Appends the output of a call: one text as a string, anything else as parts. A failure is said in its text.
    fn output(&mut self, parts: &[Part<'a>], failed: bool) {
        let failure = EscapedText::plain("Error: ");
        if failed {
            self.unsupported.emulate("messages[].is_error");
        }
        if let [Part { content: Content::Text(text), .. }] = parts {
            let failed_text = failed.then(|| failure.clone().joined(text));
            return failed_text.as_ref().unwrap_or(text).push_member(self.out, b"output");
        }
        push_member(self.out, b"output", b"");
        let start = self.out.len();
        self.out.put_u8(b'[');
        let empty = self.out.len();
        if failed {
            self.part(&Part::new(Content::Text(failure)), Author::User);
        }
        for part in parts {
            self.part(part, Author::User);
        }
        if self.out.len() > empty {
            return self.out.put_u8(b']');
        }
        self.out.truncate(start);
        self.out.put_slice(b"\"\"");
    }

    /// Writes the reasoning of this API as items: summaries up to the encrypted content they belong to. Reasoning of another
    /// provider, or without encrypted content, cannot go back.
    fn reasoning(&mut self, parts: &[Part<'a>]) {
        let mut summary: Option<EscapedText<'static>> = None;
        let mut has_foreign = false;
        for part in parts {
            let Content::Reasoning(state) = &part.content else { continue };
            let sealed = state.sealed.as_ref().filter(|sealed| !sealed.is_empty());
            match (state.format, state.kind, sealed) {
                (ReasoningFormat::Responses, ReasoningKind::Encrypted, Some(sealed)) => {
                    self.reasoning_item(state, summary.take().as_ref(), sealed);
                }
                (ReasoningFormat::Responses, ReasoningKind::Summary, _) => {
                    let Some(text) = &state.text else { continue };
                    summary = Some(summary.take().unwrap_or(EscapedText::plain("")).joined(text));
                }
                _ => has_foreign = true,
            }
        }
        if has_foreign || summary.is_some() {
            self.unsupported.emulate("messages[].reasoning_details");
        }
    }

    fn reasoning_item(
        &mut self,
        state: &ReasoningState<'a>,
        summary: Option<&EscapedText<'_>>,
        sealed: &EscapedText<'a>,
    ) {
        push!(self.out; Comma, br#"{"type":"reasoning""#);
        if let Some(id) = state.id.as_ref().filter(|id| id.bytes().starts_with(REASONING_ID.as_bytes())) {
            id.push_member(self.out, b"id");
        }
        push_member(self.out, b"summary", b"[");
        if let Some(text) = summary.filter(|text| !text.is_empty()) {
            push!(self.out; br#"{"type":"summary_text","text":"#, text, b"}");
        }
        push!(self.out; br#"],"encrypted_content":"#, sealed, b"}");
    }
}

/// Appends an image or a file. False if there is no form for it.
fn push_media(content: &Content<'_>, out: &mut BytesMut) -> bool {
    let before = out.len();
    push_comma(out);
    let is_written = match content {
        Content::Image { source, detail } => push_image(source, detail.as_ref(), out),
        Content::File { source, name } => push_file(source, name.as_ref(), out),
        _ => false,
    };
    if is_written {
        out.put_u8(b'}');
    } else {
        out.truncate(before);
    }
    is_written
}

fn push_image(source: &MediaSource<'_>, detail: Option<&EscapedText<'_>>, out: &mut BytesMut) -> bool {
    out.put_slice(b"{\"type\":\"input_image\"");
    match source {
        MediaSource::Base64 { media_type, data } => push_data_url(b"image_url", media_type, data, out),
        MediaSource::Url(url) => url.push_member(out, b"image_url"),
        MediaSource::FileId(id) => id.push_member(out, b"file_id"),
        MediaSource::Text { .. } => return false,
    }
    detail.unwrap_or(&EscapedText::plain("auto")).push_member(out, b"detail");
    true
}

fn push_file(source: &MediaSource<'_>, name: Option<&EscapedText<'_>>, out: &mut BytesMut) -> bool {
    out.put_slice(b"{\"type\":\"input_file\"");
    // Data need a name; with an address or an id there must be none.
    let fallback = match source {
        MediaSource::Base64 { media_type, data } => {
            push_data_url(b"file_data", media_type, data, out);
            if &*media_type.unescaped() == "application/pdf" { "document.pdf" } else { "document" }
        }
        MediaSource::Text { text, .. } => {
            let data = EscapedText::escaping(&STANDARD.encode(text.unescaped().as_bytes()));
            push_data_url(b"file_data", &EscapedText::plain("text/plain"), &data, out);
            "document.txt"
        }
        MediaSource::Url(url) => {
            url.push_member(out, b"file_url");
            return true;
        }
        MediaSource::FileId(id) => {
            id.push_member(out, b"file_id");
            return true;
        }
    };
    let name = name.filter(|name| !name.is_blank());
    name.unwrap_or(&EscapedText::plain(fallback)).push_member(out, b"filename");
    true
}

fn push_data_url(name: &[u8], media_type: &EscapedText<'_>, data: &EscapedText<'_>, out: &mut BytesMut) {
    push!(out; br#",""#, name, br#"":"data:"#, media_type.bytes(), b";base64,", data.bytes(), br#"""#);
}

/// Whether an item of reasoning of this API ends with the part: its encrypted content.
fn ends_reasoning(part: &Part<'_>) -> bool {
    matches!(&part.content, Content::Reasoning(state)
        if (state.format, state.kind) == (ReasoningFormat::Responses, ReasoningKind::Encrypted))
}
