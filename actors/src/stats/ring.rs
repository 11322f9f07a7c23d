//! What happened in the last so many spans of time, the oldest forgotten first.

use std::time::Duration;

use crate::domain::Tick;

/// What can be summed over several spans.
pub(super) trait Merge: Default {
    /// Adds what happened in another span, or elsewhere in the same one.
    fn merge(&mut self, other: &Self);
}

/// Slots of equal span that are reused in turn; a slot older than the ring is empty.
#[derive(Debug, Clone)]
pub(super) struct Ring<T, const SLOTS: usize> {
    span: Duration,
    slots: [(u64, T); SLOTS],
}

impl<T: Merge, const SLOTS: usize> Ring<T, SLOTS> {
    pub(super) fn new(span: Duration) -> Ring<T, SLOTS> {
        Ring { span, slots: std::array::from_fn(|_| (0, T::default())) }
    }

    /// The slot of this moment; an old one is emptied before it is used again.
    pub(super) fn slot(&mut self, now: Tick) -> Option<&mut T> {
        let turn = self.turn(now);
        let (held, value) = self.slots.get_mut((turn % SLOTS as u64) as usize)?;
        if *held != turn {
            (*held, *value) = (turn, T::default());
        }
        Some(value)
    }

    /// Everything since the ring's length before `now`.
    pub(super) fn sum(&self, now: Tick) -> T {
        let turn = self.turn(now);
        let recent = self.slots.iter().filter(|(held, _)| *held <= turn && *held + SLOTS as u64 > turn);
        recent.fold(T::default(), |mut sum, (_, value)| {
            sum.merge(value);
            sum
        })
    }

    /// Counted from 1, so that untouched slots are older than any.
    fn turn(&self, now: Tick) -> u64 {
        SLOTS as u64 + now.0 / u64::try_from(self.span.as_micros()).unwrap_or(u64::MAX).max(1)
    }
}
