//! `instructions` and `input`: items are put together to the messages of chat.

use pointsman_domain::Invalid;

use super::{ChatReader, mistyped, refused};
use crate::{
    json::Raw,
    neutral::{Content, EscapedText, Part, Path, Role, Turn},
};

/// Most items of an input.
const MAX_ITEMS: usize = 100_000;

/// An answer of the model that is not complete yet: chat has text, calls and reasoning in one message.
#[derive(Debug, Default)]
pub(super) struct Answer<'a> {
    pub(super) reasoning: Vec<Part<'a>>,
    pub(super) parts: Vec<Part<'a>>,
    pub(super) calls: Vec<Part<'a>>,
}

impl Answer<'_> {
    /// Whether reasoning that comes now begins another answer. Calls stay together, because their results follow them.
    pub(super) fn ends_at_reasoning(&self) -> bool {
        !self.parts.is_empty() && self.calls.is_empty()
    }
}

impl<'a> ChatReader<'a> {
    pub(super) fn messages(&mut self, instructions: Option<Raw<'a>>, input: Raw<'a>) -> Result<(), Invalid> {
        if let Some(instructions) = instructions {
            let text = EscapedText::read(instructions).ok_or_else(|| mistyped("instructions", "a string"))?;
            if !text.is_empty() {
                self.push(Role::Developer, vec![Part::new(Content::Text(text))]);
            }
        }
        let leading = self.conversation.turns.len();
        if input.is_string() {
            let parts = self.content(input, &Path::Field("input"))?;
            self.push(Role::User, parts);
        } else if input.is_array() {
            self.items(input)?;
        } else {
            return Err(mistyped("input", "a string or an array of items"));
        }
        if self.conversation.turns.len() == leading {
            if self.native_feature.is_none() {
                return Err(refused("input", "'input' must have at least one item with content."));
            }
            self.conversation.turns.push(Turn::empty());
        }
        Ok(())
    }

    fn items(&mut self, input: Raw<'a>) -> Result<(), Invalid> {
        for (index, item) in input.elements().enumerate() {
            if index == MAX_ITEMS {
                return Err(refused("input", format!("'input' may have at most {MAX_ITEMS} items.")));
            }
            self.item(item, &Path::Field("input").item(index))?;
        }
        self.end_answer();
        Ok(())
    }

    /// Adds a message, unless it has no parts.
    pub(super) fn push(&mut self, role: Role, parts: Vec<Part<'a>>) {
        if !parts.is_empty() {
            self.conversation.turns.push(Turn::new(role, parts));
        }
    }

    /// Adds the answer that waits.
    pub(super) fn end_answer(&mut self) {
        let Answer { reasoning, parts, calls } = std::mem::take(&mut self.answer_so_far);
        self.push(Role::Assistant, reasoning.into_iter().chain(parts).chain(calls).collect());
    }
}
