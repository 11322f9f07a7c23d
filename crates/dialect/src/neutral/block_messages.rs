//! `messages` of APIs whose messages alternate and consist of blocks: Anthropic's Messages and Amazon's Converse.
//!
//! Which blocks stand in which message is written here; the blocks themselves are the API's.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::ReasoningFormat;

use super::{
    AlternatingTurn, Content, EscapedText, Part, ReasoningAssembler, SealedReasoning, Speaker, ToolCallIds, ToolKind,
    ToolNames, UnsupportedFields, push_call_input,
};
use crate::json::push_member;

/// What an API has of its own.
pub(crate) trait Blocks<'a>: Sized {
    /// The block of a message of the user that says nothing.
    const EMPTY: &'static [u8];

    /// A message up to its first block.
    fn beginning(speaker: Speaker) -> &'static [u8];

    /// A block that must be added to a turn, and the place of the part that it stands before, if any.
    fn added_block(_: &AlternatingTurn<'a>) -> Option<(usize, &'static [u8])> {
        None
    }

    /// Appends a part as a block. False if there is no block for it: then what was appended is cut.
    fn push_block(messages: &mut BlockMessages<'_, 'a, Self>, part: &Part<'a>) -> bool;

    /// Appends reasoning, exactly as it came.
    fn push_reasoning(sealed: &SealedReasoning<'a>, out: &mut BytesMut);
}

/// Writes the messages.
pub(crate) struct BlockMessages<'o, 'a, B> {
    pub(crate) out: &'o mut BytesMut,
    pub(crate) unsupported: &'o mut UnsupportedFields,
    pub(crate) names: &'o ToolNames,
    pub(crate) ids: ToolCallIds<'a>,
    /// What the API keeps while they are written.
    pub(crate) api: B,
    /// Format of the reasoning that the model takes back, if it takes any.
    pub(crate) reasoning: Option<ReasoningFormat>,
    /// The speaker of the message that is being written.
    pub(crate) open: Option<Speaker>,
}

impl<'a, B: Blocks<'a>> BlockMessages<'_, 'a, B> {
    /// Appends `,"system":[…]`: the texts, and `instruction` of ours behind them.
    pub(crate) fn push_system(&mut self, parts: &[Part<'a>], instruction: Option<&str>) {
        let start = self.out.len();
        push_member(self.out, b"system", b"[");
        let own = instruction.map(|text| Part::new(Content::Text(EscapedText::escaping(text))));
        let is_written = self.push_inner_blocks(parts.iter().chain(&own), |messages, part| match part.content {
            Content::Text(_) => B::push_block(messages, part),
            // Media went to the user before: it is of no known type.
            _ => {
                messages.unsupported.drop("messages[].content[]");
                false
            }
        });
        if is_written { self.out.put_u8(b']') } else { self.out.truncate(start) }
    }

    /// Appends `,"messages":[…]`.
    pub(crate) fn push(mut self, turns: &[AlternatingTurn<'a>]) {
        push_member(self.out, b"messages", b"[");
        for (place, turn) in turns.iter().enumerate() {
            self.turn(turn, place + 1 == turns.len());
        }
        if self.open.is_none() {
            // Nothing but instructions: the API wants a message.
            self.unsupported.emulate("messages");
            self.constant(B::EMPTY, Speaker::User);
        }
        self.out.put_slice(b"]}]");
    }

    /// Appends a call up to the end of its input. `head`: what stands before its id.
    pub(crate) fn push_call(
        &mut self,
        head: &[u8],
        id: &EscapedText<'a>,
        name: &EscapedText<'a>,
        (kind, arguments): (ToolKind, &EscapedText<'a>),
    ) {
        push!(self.out; head, self.ids.of_call(id), br#","name":"#, self.names.sent(name), br#","input":"#);
        push_call_input(kind, arguments, self.out, self.unsupported);
    }

    fn turn(&mut self, turn: &AlternatingTurn<'a>, is_last: bool) {
        let mut is_empty = true;
        let mut reasoning = ReasoningAssembler::new(self.reasoning);
        let added = B::added_block(turn);
        for (place, part) in turn.parts.iter().enumerate() {
            if let Content::Reasoning(state) = &part.content {
                if let Some(sealed) = reasoning.take(state, self.unsupported) {
                    self.begin(turn.speaker);
                    B::push_reasoning(&sealed, self.out);
                    is_empty = false;
                }
                continue;
            }
            reasoning.end(self.unsupported);
            if let Some((_, block)) = added.filter(|(before, _)| *before == place) {
                self.unsupported.emulate("messages[].content");
                self.constant(block, turn.speaker);
            }
            let is_prefill = is_last && turn.speaker == Speaker::Assistant && place + 1 == turn.parts.len();
            is_empty &= !if is_prefill { self.prefill(part) } else { self.part(part, turn.speaker) };
        }
        reasoning.end(self.unsupported);
        if is_empty && turn.speaker == Speaker::User {
            self.constant(B::EMPTY, Speaker::User);
        }
    }

    fn constant(&mut self, block: &[u8], speaker: Speaker) {
        self.begin(speaker);
        self.out.put_slice(block);
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
        self.out.put_slice(B::beginning(speaker));
    }

    /// Writes a part as a block. False if there is no block for it.
    fn part(&mut self, part: &Part<'a>, speaker: Speaker) -> bool {
        let (length, open) = (self.out.len(), self.open);
        self.begin(speaker);
        let is_written = B::push_block(self, part);
        if !is_written {
            self.out.truncate(length);
            self.open = open;
        }
        is_written
    }

    /// The last part of an answer that the model shall continue: these APIs refuse white space at its end.
    fn prefill(&mut self, part: &Part<'a>) -> bool {
        let (Content::Text(text) | Content::Refusal(text)) = &part.content else {
            return self.part(part, Speaker::Assistant);
        };
        let trimmed = EscapedText::escaping(text.unescaped().trim_end());
        let part = Part { content: Content::Text(trimmed), cache_control: part.cache_control };
        self.part(&part, Speaker::Assistant)
    }

    /// Appends the blocks of a result, without brackets; whether there are any. `push` appends one, or gives false.
    pub(crate) fn push_inner_blocks<'p>(
        &mut self,
        parts: impl Iterator<Item = &'p Part<'a>>,
        push: impl Fn(&mut Self, &Part<'a>) -> bool,
    ) -> bool
    where
        'a: 'p,
    {
        let mut has_blocks = false;
        for part in parts {
            let before = self.out.len();
            if has_blocks {
                self.out.put_u8(b',');
            }
            if push(self, part) {
                has_blocks = true;
            } else {
                self.out.truncate(before);
            }
        }
        has_blocks
    }
}
