//! The hard ceiling on the cost of a stream: the answer is cut off before it passes.
//!
//! The provider is told a limit of output tokens, and most keep to it. This is for those that do not: their output is counted
//! event by event, and the stream ends with the finish reason `length` when the next event might pass the ceiling.

use bytes::{Bytes, BytesMut};

use crate::{
    dialect::{AnswerFault, ChatStream, Progress},
    domain::{CostBreakdown, Usd},
};

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
    #[must_use]
    pub fn new(most: Usd, answers: u32) -> CostCeiling {
        CostCeiling { most, answers: answers.max(1), cost: Usd::ZERO, step: Usd::ZERO, is_reached: false }
    }

    /// Whether the stream was cut off.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.is_reached
    }

    /// Feeds what one read gave to `chat`, as [`ChatStream::push`] does, and cuts the stream off at the ceiling.
    ///
    /// # Errors
    /// As [`ChatStream::push`].
    pub fn push(&mut self, chat: &mut ChatStream, bytes: &Bytes, out: &mut BytesMut) -> Result<Progress, AnswerFault> {
        let mut progress = Progress::default();
        let mut rest = bytes.clone();
        while !rest.is_empty() && !chat.is_done() {
            let end = end_of_event(&rest);
            let piece = rest.split_to(end.unwrap_or(rest.len()));
            let read = chat.push(&piece, out)?;
            progress = Progress { event: progress.event || read.event, content: progress.content || read.content };
            if end.is_some() && chat.has_content() && !chat.is_done() && self.passes_next(chat) {
                self.is_reached = true;
                chat.cut_off(self.answers, out)?;
            }
        }
        Ok(progress)
    }

    /// Whether another event like the dearest so far might pass the ceiling.
    fn passes_next(&mut self, chat: &ChatStream) -> bool {
        let cost = chat.outcome().cost.as_ref().map(CostBreakdown::total).unwrap_or_default();
        if !self.cost.is_zero() {
            self.step = self.step.max(cost - self.cost);
        }
        self.cost = cost;
        cost + self.step > self.most
    }
}

/// Length of the first event with its blank line, if it is there as a whole.
fn end_of_event(bytes: &[u8]) -> Option<usize> {
    let lines = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
    lines.clone().zip(lines.skip(1)).find_map(|(one, next)| {
        let between = bytes.get(one + 1..next)?;
        (between.is_empty() || between == b"\r").then_some(next + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_end_at_blank_lines_with_either_line_end() {
        assert_eq!(end_of_event(b"data: a\n\ndata: b\n\n"), Some(9));
        assert_eq!(end_of_event(b"data: a\r\n\r\nx"), Some(11));
        assert_eq!(end_of_event(b"data: a\ndata: b\n"), None);
        assert_eq!(end_of_event(b""), None);
    }
}
