//! `system` and `messages`.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::ReasoningFormat;

use super::{cache_marks::CacheMarks, content::push_block, models::NAMES};
use crate::{
    json::push_member,
    neutral::{
        AlternatingTurn, CallIds, Content, EscapedText, FieldFates, Part, Speaker, Thought, Thoughts, ToolKind,
        ToolNames, push_call_input,
    },
};

/// Appends `,"system":[…]`: the parts as blocks, and `instruction` of ours behind them.
pub(super) fn push_system(
    parts: &[Part<'_>],
    instruction: Option<&str>,
    marks: &mut CacheMarks,
    out: &mut BytesMut,
    fates: &mut FieldFates,
) {
    let start = out.len();
    push_member(out, b"system", b"[");
    let empty = out.len();
    for part in parts {
        let before = out.len();
        if !matches!(part.content, Content::Text(_)) {
            // Media went to the user before: it is of no known type.
            fates.drop("messages[].content[]");
            continue;
        }
        if before > empty {
            out.put_u8(b',');
        }
        if push_block(&part.content, out, fates) {
            marks.push(part.cache_control, "messages[].content[]", out, fates);
            out.put_u8(b'}');
        } else {
            out.truncate(before);
        }
    }
    if let Some(instruction) = instruction {
        if out.len() > empty {
            out.put_u8(b',');
        }
        let text = Content::Text(EscapedText::escaping(instruction));
        push_block(&text, out, fates);
        out.put_u8(b'}');
    }
    if out.len() == empty { out.truncate(start) } else { out.put_u8(b']') }
}

/// Appends `,"messages":[…]`.
pub(super) fn push_messages(
    turns: &[AlternatingTurn<'_>],
    names: &ToolNames,
    marks: &mut CacheMarks,
    out: &mut BytesMut,
    fates: &mut FieldFates,
) {
    push_member(out, b"messages", b"[");
    let mut messages = Messages { out, fates, names, marks, ids: CallIds::new(NAMES), open: None };
    for (place, turn) in turns.iter().enumerate() {
        messages.turn(turn, place + 1 == turns.len());
    }
    if messages.open.is_none() {
        // Nothing but instructions: the API wants a message.
        messages.fates.emulate("messages");
        messages.empty_user();
    }
    out.put_slice(b"]}]");
}

struct Messages<'o, 'a> {
    out: &'o mut BytesMut,
    fates: &'o mut FieldFates,
    names: &'o ToolNames,
    marks: &'o mut CacheMarks,
    ids: CallIds<'a>,
    /// The speaker of the message that is being written.
    open: Option<Speaker>,
}

impl<'a> Messages<'_, 'a> {
    fn turn(&mut self, turn: &AlternatingTurn<'a>, is_last: bool) {
        let mut is_empty = true;
        let mut thoughts = Thoughts::new(Some(ReasoningFormat::Anthropic));
        for (place, part) in turn.parts.iter().enumerate() {
            if let Content::Reasoning(state) = &part.content {
                if let Some(thought) = thoughts.take(state, self.fates) {
                    self.thought(&thought, turn.speaker);
                    is_empty = false;
                }
                continue;
            }
            thoughts.end(self.fates);
            let is_prefill = is_last && turn.speaker == Speaker::Assistant && place + 1 == turn.parts.len();
            is_empty &= !if is_prefill { self.prefill(part) } else { self.part(part, turn.speaker) };
        }
        thoughts.end(self.fates);
        if is_empty && turn.speaker == Speaker::User {
            self.empty_user();
        }
    }

    fn empty_user(&mut self) {
        self.begin(Speaker::User);
        self.out.put_slice(b"{\"type\":\"text\",\"text\":\"(empty)\"}");
    }

    /// Begins a block: in the open message of that speaker, else in a new one.
    fn begin(&mut self, speaker: Speaker) {
        if self.open == Some(speaker) {
            return self.out.put_u8(b',');
        }
        if self.open.is_some() {
            self.out.put_slice(b"]},");
        }
        self.open = Some(speaker);
        self.out.put_slice(match speaker {
            Speaker::User => b"{\"role\":\"user\",\"content\":[",
            Speaker::Assistant => b"{\"role\":\"assistant\",\"content\":[",
            Speaker::System => b"{\"role\":\"system\",\"content\":[",
        });
    }

    /// Writes a part as a block. False if there is no block for it.
    fn part(&mut self, part: &Part<'a>, speaker: Speaker) -> bool {
        let (length, open) = (self.out.len(), self.open);
        self.begin(speaker);
        let place = match &part.content {
            Content::ToolCall { id, name, arguments, kind } => {
                self.call(id, name, arguments, *kind);
                "messages[].tool_calls[]"
            }
            Content::ToolResult { id, parts, failed } => {
                self.result(id, parts, *failed);
                "messages[]"
            }
            other => {
                if !push_block(other, self.out, self.fates) {
                    self.out.truncate(length);
                    self.open = open;
                    return false;
                }
                "messages[].content[]"
            }
        };
        self.marks.push(part.cache_control, place, self.out, self.fates);
        self.out.put_u8(b'}');
        true
    }

    /// The last part of an answer that the model shall continue: the API refuses white space at its end.
    fn prefill(&mut self, part: &Part<'a>) -> bool {
        let Content::Text(text) = &part.content else { return self.part(part, Speaker::Assistant) };
        let trimmed = EscapedText::escaping(text.unescaped().trim_end());
        let part = Part { content: Content::Text(trimmed), cache_control: part.cache_control };
        self.part(&part, Speaker::Assistant)
    }

    fn call(&mut self, id: &EscapedText<'a>, name: &EscapedText<'a>, arguments: &EscapedText<'a>, kind: ToolKind) {
        self.out.put_slice(b"{\"type\":\"tool_use\",\"id\":");
        self.ids.of_call(id).push_quoted(self.out);
        self.out.put_slice(b",\"name\":");
        self.names.sent(name).push_quoted(self.out);
        self.out.put_slice(b",\"input\":");
        push_call_input(kind, arguments, self.out, self.fates);
    }

    /// A result without its closing brace. One unmarked text is sent as a string, as most clients do.
    fn result(&mut self, id: &EscapedText<'a>, parts: &[Part<'a>], failed: bool) {
        self.out.put_slice(b"{\"type\":\"tool_result\",\"tool_use_id\":");
        self.ids.of_result(id).push_quoted(self.out);
        let parts: Vec<&Part<'a>> = parts.iter().filter(|part| !is_blank(part)).collect();
        if let [Part { content: Content::Text(text), cache_control: None }] = parts.as_slice() {
            self.out.put_slice(b",\"content\":");
            text.push_quoted(self.out);
        } else if !parts.is_empty() {
            self.blocks_of_result(&parts);
        }
        if failed {
            self.out.put_slice(b",\"is_error\":true");
        }
    }

    fn blocks_of_result(&mut self, parts: &[&Part<'a>]) {
        self.out.put_slice(b",\"content\":[");
        let mut is_first = true;
        for part in parts {
            let before = self.out.len();
            if !is_first {
                self.out.put_u8(b',');
            }
            if push_block(&part.content, self.out, self.fates) {
                self.marks.push(part.cache_control, "messages[].content[]", self.out, self.fates);
                self.out.put_u8(b'}');
                is_first = false;
            } else {
                self.out.truncate(before);
            }
        }
        self.out.put_u8(b']');
    }

    /// A thought goes back exactly as it came.
    fn thought(&mut self, thought: &Thought<'a>, speaker: Speaker) {
        self.begin(speaker);
        match thought {
            Thought::Encrypted(data) => {
                self.out.put_slice(b"{\"type\":\"redacted_thinking\",\"data\":");
                data.push_quoted(self.out);
            }
            Thought::Signed { text, signature } => {
                self.out.put_slice(b"{\"type\":\"thinking\",\"thinking\":");
                text.push_quoted(self.out);
                self.out.put_slice(b",\"signature\":");
                signature.push_quoted(self.out);
            }
        }
        self.out.put_u8(b'}');
    }
}

fn is_blank(part: &Part<'_>) -> bool {
    matches!(&part.content, Content::Text(text) | Content::Refusal(text) if text.is_blank())
}
