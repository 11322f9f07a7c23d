//! The turn in which tools are called: calls that wait for the model to read their results, and the reasoning before them.

use crate::{dialect::json::Raw, domain::ReasoningFormat};

/// The turn that the end of a conversation leaves open, as far as the conversation has gone by.
#[derive(Debug, Default)]
pub(super) struct OpenTurn<'a> {
    /// `reasoning_details` of the answers of the turn, each of which calls tools.
    reasoning: Vec<Raw<'a>>,
    /// Whether results of the last calls are there.
    has_results: bool,
    /// Whether the next answer goes on with the turn: nobody but tools has spoken since the last one.
    goes_on: bool,
}

impl<'a> OpenTurn<'a> {
    /// An answer of the model.
    pub(super) fn answer(&mut self, has_calls: bool, details: Option<Raw<'a>>) {
        if !has_calls || !self.goes_on {
            self.reasoning.clear();
        }
        self.reasoning.extend(details.filter(|_| has_calls));
        (self.has_results, self.goes_on) = (false, false);
    }

    /// A result of a call.
    pub(super) fn result(&mut self) {
        (self.has_results, self.goes_on) = (true, true);
    }

    /// A message of the user, which may stand beside results.
    pub(super) fn user(&mut self) {
        self.goes_on = false;
    }

    /// Format of the reasoning before calls whose results the model has not answered yet: that of the last step of the turn
    /// that has one.
    pub(super) fn state(&self) -> ReasoningFormat {
        if !self.has_results {
            return ReasoningFormat::Unknown;
        }
        let mut formats = self.reasoning.iter().rev().map(|details| format_of(*details));
        formats.find(|format| format.is_bound()).unwrap_or_default()
    }
}

/// The format of the first element that has one.
fn format_of(details: Raw<'_>) -> ReasoningFormat {
    let formats = details.elements().filter_map(|detail| detail.member(b"format").and_then(Raw::text));
    formats.map(|name| ReasoningFormat::named(&name)).find(|format| format.is_bound()).unwrap_or_default()
}
