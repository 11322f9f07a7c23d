//! Hashes of the beginning of a conversation, which identify it from turn to turn.
//!
//! What is hashed is what reads the same in every turn: the tools as they are written, the system and developer
//! messages in front, and the first message after them. Text is hashed with its escapes resolved, media by
//! their length and head. From there on nothing is hashed, however long the conversation.
//!
//! What other conversations share are the instructions and, where these are short, the first [`SHARED_BYTES`] of text.

use std::borrow::Cow;

use highway::{HighwayHash as _, HighwayHasher};
use pointsman_domain::{PromptPrefix, SessionOpening};

use super::prompt_size::PromptSize;

/// Shortest prompt that providers cache, in bytes. Shorter prompts have no hash.
const LEAST_BYTES: usize = 1024;
/// Beginning of a prompt that other conversations may share, in bytes of text: the shortest that most providers cache.
const SHARED_BYTES: usize = 4096;
/// How much of a medium is hashed besides its length.
const MEDIUM_HEAD: usize = 256;

/// The hash while the messages go by. The hasher's key is the published default: names made of this are hashed again
/// with a secret.
#[derive(Default)]
pub(super) struct OpeningHasher {
    hasher: HighwayHasher,
    /// After the last message that was an instruction.
    instructions: Option<HighwayHasher>,
    instruction_bytes: usize,
    /// After the first [`SHARED_BYTES`] of text, of which so many have passed before.
    beginning: Option<HighwayHasher>,
    text_bytes: usize,
    closed: bool,
}

impl OpeningHasher {
    /// For a body of so many bytes: the prompt in a shorter one than [`LEAST_BYTES`] is not hashed.
    pub(super) fn of_body(bytes: usize) -> OpeningHasher {
        OpeningHasher { closed: bytes < LEAST_BYTES, ..OpeningHasher::default() }
    }

    /// A piece of text of the current message.
    pub(super) fn text<'t>(&mut self, text: impl FnOnce() -> Cow<'t, str>) {
        if !self.closed {
            let text = text();
            self.begin(text.as_bytes());
            self.piece(text.as_bytes(), text.len());
        }
    }

    /// A medium of the current message, as it is written.
    pub(super) fn medium(&mut self, written: &str) {
        if !self.closed {
            let bytes = written.as_bytes();
            self.piece(bytes.get(..MEDIUM_HEAD).unwrap_or(bytes), bytes.len());
        }
    }

    fn piece(&mut self, bytes: &[u8], length: usize) {
        self.hasher.append(&(length as u64).to_le_bytes());
        self.hasher.append(bytes);
    }

    /// Keeps the hash of the beginning, without the length of the text that it ends in, as others may go on differently.
    fn begin(&mut self, text: &[u8]) {
        if self.beginning.is_some() {
            return;
        }
        let Some(head) = text.get(..SHARED_BYTES.saturating_sub(self.text_bytes)) else {
            self.text_bytes += text.len();
            return;
        };
        let mut hasher = self.hasher.clone();
        hasher.append(head);
        self.beginning = Some(hasher);
    }

    /// The current message ended, after so much of the prompt.
    pub(super) fn message(&mut self, is_instruction: bool, tally: &PromptSize) {
        if self.closed {
            return;
        }
        self.hasher.append(&[u8::from(is_instruction)]);
        if is_instruction {
            self.instructions = Some(self.hasher.clone());
            self.instruction_bytes = tally.bytes;
        } else {
            self.closed = true;
        }
    }

    /// The hashes, if the prompt is long enough to be cached. `tools`: what they say, as written.
    pub(super) fn finish<'t>(
        self,
        tools: impl Iterator<Item = &'t [u8]>,
        tool_bytes: usize,
        whole: &PromptSize,
    ) -> Option<SessionOpening> {
        if whole.bytes < LEAST_BYTES {
            return None;
        }
        let mut tools_hasher = HighwayHasher::default();
        tools.for_each(|piece| tools_hasher.append(piece));
        let [low, high] = tools_hasher.finalize128();
        let with_tools = |mut hasher: HighwayHasher| {
            hasher.append(&low.to_le_bytes());
            hasher.append(&high.to_le_bytes());
            let [low, high] = hasher.finalize128();
            u128::from(high) << 64 | u128::from(low)
        };
        let prefix = |hasher, text_bytes: usize| {
            let size = PromptSize { bytes: text_bytes + tool_bytes, ..PromptSize::default() };
            PromptPrefix { hash: with_tools(hasher), tokens: size.tokens(0) }
        };
        let has_short_instructions = self.instruction_bytes + tool_bytes < SHARED_BYTES;
        let beginning = self.beginning.filter(|_| has_short_instructions);
        Some(SessionOpening {
            instructions: prefix(self.instructions.unwrap_or_default(), self.instruction_bytes),
            beginning: beginning.map(|hasher| prefix(hasher, SHARED_BYTES)),
            conversation: with_tools(self.hasher),
        })
    }
}
