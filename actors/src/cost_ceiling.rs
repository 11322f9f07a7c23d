//! The hard ceiling on the cost of a stream: the answer is cut off before it passes.
//!
//! The provider is told a limit of output tokens, and most keep to it. This is for those that do not: their output is counted
//! event by event, and the stream ends with the finish reason `length` when the next event might pass the ceiling. A first event
//! that alone costs more, or one dearer than all before it, passes it: the provider has made its tokens when it arrives.

use bytes::{Bytes, BytesMut};
use pointsman_dialect::{AnswerFault, ChatStream, Outcome, Progress};
use pointsman_domain::{CostBreakdown, Usd};

/// The ceiling of one stream, and its cost so far.
#[derive(Debug)]
pub struct CostCeiling {
    most: Usd,
    answers: u32,
    cost: Usd,
    /// Highest cost of one event so far.
    step: Usd,
    is_reached: bool,
}

impl CostCeiling {
    /// A ceiling for a stream with this number of answers.
    pub fn new(most: Usd, answers: u32) -> CostCeiling {
        CostCeiling { most, answers: answers.max(1), cost: Usd::ZERO, step: Usd::ZERO, is_reached: false }
    }

    /// Whether the stream was cut off.
    pub fn is_reached(&self) -> bool {
        self.is_reached
    }

    /// Feeds what one read gave to `chat`, as [`ChatStream::push`] does, and cuts the stream off at the ceiling.
    ///
    /// # Errors
    /// As [`ChatStream::push`].
    pub fn push(&mut self, chat: &mut ChatStream, bytes: &Bytes, out: &mut BytesMut) -> Result<Progress, AnswerFault> {
        let mut passes_next = |outcome: &Outcome| {
            self.is_reached = self.passes_next(outcome);
            self.is_reached
        };
        let progress = chat.push_until(bytes, out, Some(&mut passes_next))?;
        if self.is_reached && !chat.is_done() {
            chat.cut_off(self.answers, out)?;
        }
        Ok(progress)
    }

    /// Whether another event like the dearest so far might pass the ceiling.
    fn passes_next(&mut self, outcome: &Outcome) -> bool {
        let cost = outcome.cost.as_ref().map(CostBreakdown::total).unwrap_or_default();
        if !self.cost.is_zero() {
            self.step = self.step.max(cost - self.cost);
        }
        self.cost = cost;
        cost + self.step > self.most
    }
}
