//! The turn in which tools are called: calls that wait for the model to read their results, and the reasoning before them.

use pointsman_domain::ReasoningFormat;

use crate::json::Raw;

/// Ids of calls as they are written; empty for one without.
pub(super) type WrittenToolCallIds<'a> = Vec<&'a str>;

/// The turn that the end of a conversation leaves open, as far as the conversation has gone by.
#[derive(Debug, Default)]
pub(super) struct OpenTurn<'a> {
    /// `reasoning_details` of the answers of the turn, each of which calls tools.
    reasoning: Vec<Raw<'a>>,
    /// Whether results of the last calls are there.
    has_results: bool,
    /// Whether the next answer goes on with the turn: nobody but tools has spoken since the last one.
    goes_on: bool,
    /// Ids of the calls of the last answer whose results have not come yet.
    awaited: WrittenToolCallIds<'a>,
    /// Whether results stand elsewhere than directly behind the calls of their turn, or other results than theirs do.
    has_scattered_results: bool,
}

impl<'a> OpenTurn<'a> {
    /// An answer of the model. Takes the ids of its calls.
    pub(super) fn answer(&mut self, calls: &mut WrittenToolCallIds<'a>, details: Option<Raw<'a>>) {
        let has_calls = !calls.is_empty();
        self.speaker();
        std::mem::swap(&mut self.awaited, calls);
        if !has_calls || !self.goes_on {
            self.reasoning.clear();
        }
        self.reasoning.extend(details.filter(|_| has_calls));
        (self.has_results, self.goes_on) = (false, false);
    }

    /// The result of the call with this id.
    pub(super) fn result(&mut self, id: &str) {
        (self.has_results, self.goes_on) = (true, true);
        match self.awaited.iter().position(|awaited| *awaited == id) {
            Some(place) => drop(self.awaited.swap_remove(place)),
            None => self.has_scattered_results = true,
        }
    }

    /// A message of the user, which may stand beside results.
    pub(super) fn user(&mut self) {
        self.speaker();
        self.goes_on = false;
    }

    /// Somebody who is no tool speaks.
    pub(super) fn speaker(&mut self) {
        self.has_scattered_results |= !self.awaited.is_empty();
        self.awaited.clear();
    }

    /// Whether calls and results of the whole conversation have to be put together.
    pub(super) fn has_scattered_results(&self) -> bool {
        self.has_scattered_results || !self.awaited.is_empty()
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
