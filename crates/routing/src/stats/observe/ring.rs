//! Ring buffer of time slots.

use std::time::Duration;

use pointsman_domain::Tick;

/// Counts that can be added up over slots.
pub(crate) trait Merge: Default {
    /// Adds the counts of another slot or endpoint.
    fn merge(&mut self, other: &Self);
}

/// Slots of equal duration that are reused in turn. Slots older than the ring count as empty.
#[derive(Debug, Clone)]
pub(crate) struct Ring<T, const SLOTS: usize> {
    span: Duration,
    slots: [(u64, T); SLOTS],
}

impl<T: Merge, const SLOTS: usize> Ring<T, SLOTS> {
    pub(crate) fn new(span: Duration) -> Ring<T, SLOTS> {
        Ring { span, slots: std::array::from_fn(|_| (0, T::default())) }
    }

    /// The slot of this time, emptied before reuse. `None` if a newer slot has replaced it.
    pub(crate) fn slot(&mut self, now: Tick) -> Option<&mut T> {
        let number = self.slot_number(now);
        let (held, value) = self.slots.get_mut((number % SLOTS as u64) as usize)?;
        if *held < number {
            (*held, *value) = (number, T::default());
        }
        (*held == number).then_some(value)
    }

    /// The slots of the ring's length before `now`, oldest first; an unused one is empty.
    pub(crate) fn each(&self, now: Tick) -> Vec<T>
    where
        T: Clone,
    {
        let last = self.slot_number(now);
        let held = |number: u64| self.slots.get((number % SLOTS as u64) as usize).filter(|(held, _)| *held == number);
        let slots = (last + 1 - SLOTS as u64)..=last;
        slots.map(|number| held(number).map(|(_, value)| value.clone()).unwrap_or_default()).collect()
    }

    /// Sum over the ring's length before `now`.
    pub(crate) fn sum(&self, now: Tick) -> T {
        let number = self.slot_number(now);
        let recent = self.slots.iter().filter(|(held, _)| *held <= number && *held + SLOTS as u64 > number);
        recent.fold(T::default(), |mut sum, (_, value)| {
            sum.merge(value);
            sum
        })
    }

    /// Counted from 1, so that unused slots are older than any.
    fn slot_number(&self, now: Tick) -> u64 {
        SLOTS as u64 + now.0 / u64::try_from(self.span.as_micros()).unwrap_or(u64::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Merge for u32 {
        fn merge(&mut self, other: &u32) {
            *self += other;
        }
    }

    #[test]
    fn an_event_older_than_the_ring_changes_nothing() {
        let at = |seconds: u64| Tick(seconds * 1_000_000);
        let mut ring: Ring<u32, 4> = Ring::new(Duration::from_secs(1));
        if let Some(count) = ring.slot(at(8)) {
            *count += 1;
        }
        assert!(ring.slot(at(4)).is_none());
        assert_eq!(ring.sum(at(8)), 1);
        assert_eq!(ring.each(at(9)), [0, 0, 1, 0]);
        assert!(ring.slot(at(7)).is_some());
    }
}
