//! The turn in which tools are called: calls that wait for the model to read their results, and the reasoning before them.

use pointsman_domain::ReasoningFormat;

use crate::json::Raw;

/// The turn that the end of a conversation leaves open, as far as the conversation has gone by.
#[derive(Debug, Default)]
pub(super) struct OpenTurn<'a> {
    /// `reasoning_details` of the answers of the turn, each of which calls tools.
    reasoning: Vec<Raw<'a>>,
    /// Whether results of the last calls are there.
    has_results: bool,
    /// Whether the next answer goes on with the turn: nobody but tools has spoken since the last one.
    goes_on: bool,
    /// Calls of the last answer whose results have not come yet.
    awaited: usize,
    /// Whether results stand elsewhere than directly behind the calls of their turn, or too few or too many do.
    has_scattered_results: bool,
}

impl<'a> OpenTurn<'a> {
    /// An answer of the model.
    pub(super) fn answer(&mut self, calls: usize, details: Option<Raw<'a>>) {
        let has_calls = calls > 0;
        self.speaker();
        self.awaited = calls;
        if !has_calls || !self.goes_on {
            self.reasoning.clear();
        }
        self.reasoning.extend(details.filter(|_| has_calls));
        (self.has_results, self.goes_on) = (false, false);
    }

    /// A result of a call.
    pub(super) fn result(&mut self) {
        (self.has_results, self.goes_on) = (true, true);
        self.has_scattered_results |= self.awaited == 0;
        self.awaited = self.awaited.saturating_sub(1);
    }

    /// A message of the user, which may stand beside results.
    pub(super) fn user(&mut self) {
        self.speaker();
        self.goes_on = false;
    }

    /// Somebody who is no tool speaks.
    pub(super) fn speaker(&mut self) {
        self.has_scattered_results |= std::mem::take(&mut self.awaited) > 0;
    }

    /// Whether calls and results of the whole conversation have to be put together.
    pub(super) fn has_scattered_results(&self) -> bool {
        self.has_scattered_results || self.awaited > 0
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
