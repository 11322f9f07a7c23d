//! The turn in which tools are called: whether the model has read the results, and the reasoning before the calls.

use pointsman_domain::ReasoningFormat;

use crate::json::Raw;

/// The reasoning of an answer.
#[derive(Debug)]
pub(super) enum TurnReasoning<'a> {
    /// `reasoning_details` as written.
    Written(Raw<'a>),
    /// Of this format.
    Of(ReasoningFormat),
}

/// The turn that the end of a conversation leaves open, as far as the conversation has gone by.
#[derive(Debug, Default)]
pub(super) struct OpenTurn<'a> {
    /// Reasoning of the answers of the turn, each of which calls tools.
    reasoning: Vec<TurnReasoning<'a>>,
    /// Whether results of the last calls are there.
    has_results: bool,
    /// Whether the next answer goes on with the turn: nobody but tools has spoken since the last one.
    goes_on: bool,
}

impl<'a> OpenTurn<'a> {
    /// An answer of the model.
    pub(super) fn answer(&mut self, has_calls: bool, reasoning: Option<TurnReasoning<'a>>) {
        if !has_calls || !self.goes_on {
            self.reasoning.clear();
        }
        self.reasoning.extend(reasoning.filter(|_| has_calls));
        (self.has_results, self.goes_on) = (false, false);
    }

    /// The result of a call.
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
        let mut formats = self.reasoning.iter().rev().map(|reasoning| match reasoning {
            TurnReasoning::Written(details) => format_of(*details),
            TurnReasoning::Of(format) => *format,
        });
        formats.find(|format| format.is_bound()).unwrap_or_default()
    }
}

/// The format of the first element that has one.
fn format_of(details: Raw<'_>) -> ReasoningFormat {
    let formats = details.elements().filter_map(|detail| detail.member(b"format").and_then(Raw::text));
    formats.map(|name| ReasoningFormat::named(&name)).find(|format| format.is_bound()).unwrap_or_default()
}
