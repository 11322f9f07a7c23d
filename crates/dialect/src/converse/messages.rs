//! `system` and `messages`.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::ReasoningFormat;

use super::{
    cache_points::{CachePoints, mark_of},
    media::{MediaWriter, is_document},
    models::CALL_IDS,
};
use crate::{
    json::push_member,
    neutral::{
        AlternatingTurn, CallIds, Content, EscapedText, FieldFates, Part, Speaker, Thought, Thoughts, ToolKind,
        ToolNames, push_call_input,
    },
};

/// Appends `,"system":[…]`: the texts, and `instruction` of ours behind them.
pub(super) fn push_system(
    parts: &[Part<'_>],
    instruction: Option<&str>,
    points: &mut CachePoints,
    out: &mut BytesMut,
    fates: &mut FieldFates,
) {
    let start = out.len();
    push_member(out, b"system", b"[");
    let empty = out.len();
    for part in parts {
        match &part.content {
            Content::Text(text) if text.is_blank() => {}
            Content::Text(text) => {
                push_text(text, out.len() > empty, out);
                points.push(part.cache_control, "messages[].content[]", out, fates);
            }
            // Media went to the user before: it is of no known type.
            _ => fates.drop("messages[].content[]"),
        }
    }
    if let Some(instruction) = instruction {
        push_text(&EscapedText::escaping(instruction), out.len() > empty, out);
    }
    if out.len() == empty { out.truncate(start) } else { out.put_u8(b']') }
}

/// Appends `,"messages":[…]`. `is_claude`: the model takes back signed thoughts.
pub(super) fn push_messages(
    turns: &[AlternatingTurn<'_>],
    is_claude: bool,
    names: &ToolNames,
    points: &mut CachePoints,
    out: &mut BytesMut,
    fates: &mut FieldFates,
) {
    push_member(out, b"messages", b"[");
    let mut messages = Messages {
        out,
        fates,
        names,
        points,
        is_claude,
        ids: CallIds::new(CALL_IDS),
        media: MediaWriter::default(),
        open: None,
    };
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
    points: &'o mut CachePoints,
    is_claude: bool,
    ids: CallIds<'a>,
    media: MediaWriter,
    /// The speaker of the message that is being written.
    open: Option<Speaker>,
}

impl<'a> Messages<'_, 'a> {
    fn turn(&mut self, turn: &AlternatingTurn<'a>, is_last: bool) {
        let mut is_empty = true;
        let mut lacks_text = turn.speaker == Speaker::User && lacks_text(turn);
        let mut thoughts = Thoughts::new(self.is_claude.then_some(ReasoningFormat::Anthropic));
        for (place, part) in turn.parts.iter().enumerate() {
            if let Content::Reasoning(state) = &part.content {
                if let Some(thought) = thoughts.take(state, self.fates) {
                    self.thought(&thought, turn.speaker);
                    is_empty = false;
                }
                continue;
            }
            thoughts.end(self.fates);
            if lacks_text && is_document(&part.content) {
                lacks_text = false;
                self.fates.emulate("messages[].content");
                self.begin(turn.speaker);
                self.out.put_slice(b"{\"text\":\"(document)\"}");
            }
            let is_prefill = is_last && turn.speaker == Speaker::Assistant && place + 1 == turn.parts.len();
            is_empty &= !self.part(part, turn.speaker, is_prefill);
        }
        thoughts.end(self.fates);
        if is_empty && turn.speaker == Speaker::User {
            self.empty_user();
        }
    }

    fn empty_user(&mut self) {
        self.begin(Speaker::User);
        self.out.put_slice(b"{\"text\":\"(empty)\"}");
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
            Speaker::User | Speaker::System => b"{\"role\":\"user\",\"content\":[",
            Speaker::Assistant => b"{\"role\":\"assistant\",\"content\":[",
        });
    }

    /// Writes a part as a block, and a cache point behind it. False if there is no block for it.
    fn part(&mut self, part: &Part<'a>, speaker: Speaker, is_prefill: bool) -> bool {
        let (length, open) = (self.out.len(), self.open);
        self.begin(speaker);
        let is_written = match &part.content {
            Content::Text(text) | Content::Refusal(text) => self.text(text, is_prefill),
            Content::ToolCall { id, name, arguments, kind } => {
                self.call(id, name, arguments, *kind);
                true
            }
            Content::ToolResult { id, parts, failed } => {
                self.result(id, parts, *failed);
                true
            }
            other => self.media.push(other, self.out, self.fates),
        };
        if is_written {
            self.points.push(mark_of(part), "messages[].content[]", self.out, self.fates);
        } else {
            self.out.truncate(length);
            self.open = open;
        }
        is_written
    }

    /// A text; the API refuses white space at the end of an answer that the model shall continue.
    fn text(&mut self, text: &EscapedText<'a>, is_prefill: bool) -> bool {
        if is_prefill {
            push_text(&EscapedText::escaping(text.unescaped().trim_end()), false, self.out);
        } else {
            push_text(text, false, self.out);
        }
        !text.is_blank()
    }

    fn call(&mut self, id: &EscapedText<'a>, name: &EscapedText<'a>, arguments: &EscapedText<'a>, kind: ToolKind) {
        self.out.put_slice(b"{\"toolUse\":{\"toolUseId\":");
        self.ids.of_call(id).push_quoted(self.out);
        self.out.put_slice(b",\"name\":");
        self.names.sent(name).push_quoted(self.out);
        self.out.put_slice(b",\"input\":");
        push_call_input(kind, arguments, self.out, self.fates);
        self.out.put_slice(b"}}");
    }

    fn result(&mut self, id: &EscapedText<'a>, parts: &[Part<'a>], failed: bool) {
        self.out.put_slice(b"{\"toolResult\":{\"toolUseId\":");
        self.ids.of_result(id).push_quoted(self.out);
        self.out.put_slice(b",\"content\":[");
        let mut is_empty = true;
        for part in parts {
            let before = self.out.len();
            if !is_empty {
                self.out.put_u8(b',');
            }
            let is_written = match &part.content {
                Content::Text(text) if text.is_blank() => false,
                Content::Text(text) => {
                    push_text(text, false, self.out);
                    true
                }
                media => self.media.push(media, self.out, self.fates),
            };
            if is_written { is_empty = false } else { self.out.truncate(before) }
        }
        if is_empty && failed {
            // A failure must say something.
            self.out.put_slice(b"{\"text\":\"(empty)\"}");
        }
        self.out.put_slice(if failed { b"],\"status\":\"error\"}}" } else { b"]}}" });
    }

    /// A thought goes back exactly as it came.
    fn thought(&mut self, thought: &Thought<'a>, speaker: Speaker) {
        self.begin(speaker);
        match thought {
            Thought::Encrypted(data) => {
                self.out.put_slice(b"{\"reasoningContent\":{\"redactedContent\":");
                data.push_quoted(self.out);
                self.out.put_slice(b"}}");
            }
            Thought::Signed { text, signature } => {
                self.out.put_slice(b"{\"reasoningContent\":{\"reasoningText\":{\"text\":");
                text.push_quoted(self.out);
                push_member(self.out, b"signature", b"");
                signature.push_quoted(self.out);
                self.out.put_slice(b"}}}");
            }
        }
    }
}

/// Whether a message has documents and no text, which the API refuses.
fn lacks_text(turn: &AlternatingTurn<'_>) -> bool {
    let is_text = |part: &Part<'_>| matches!(part.content, Content::Text(_));
    turn.parts.iter().any(|part| is_document(&part.content)) && !turn.parts.iter().any(is_text)
}

fn push_text(text: &EscapedText<'_>, with_comma: bool, out: &mut BytesMut) {
    out.put_slice(if with_comma { b",{\"text\":" } else { b"{\"text\":" });
    text.push_quoted(out);
    out.put_u8(b'}');
}
