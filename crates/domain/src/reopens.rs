use serde::{Deserialize, Serialize};

use super::tick::Tick;

/// When an endpoint lets requests pass, as far as that is known. In the order of hope: what passes now comes first, what
/// depends on the outcome of a probe last, because no date is known for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Reopens {
    /// Neither a gate nor a pace stands in the way.
    #[default]
    Now,
    /// When its gate opens or opened, or its pace or quota allows the next request.
    At(Tick),
    /// A probe of its half-open breaker is in flight, and its outcome decides.
    AfterProbe,
}

/// [`Reopens::AfterProbe`] in records: after every date, and exact as a float.
const AFTER_PROBE: u64 = 1 << 52;

impl Reopens {
    /// The time, if one is known.
    #[must_use]
    pub const fn time(self) -> Option<Tick> {
        match self {
            Reopens::At(time) => Some(time),
            Reopens::Now | Reopens::AfterProbe => None,
        }
    }

    /// The rank among endpoints that are called although they are blocked.
    #[must_use]
    pub const fn rank(self) -> f64 {
        self.recorded() as f64
    }

    /// The number in records: 0, microseconds, or a number after every date.
    #[must_use]
    pub const fn recorded(self) -> u64 {
        match self {
            Reopens::Now => 0,
            Reopens::At(time) => time.0,
            Reopens::AfterProbe => AFTER_PROBE,
        }
    }

    /// Reads what [`Reopens::recorded`] gave.
    pub const fn of_recorded(number: u64) -> Reopens {
        match number {
            0 => Reopens::Now,
            AFTER_PROBE => Reopens::AfterProbe,
            time => Reopens::At(Tick(time)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_in_a_record_keeps_value_and_order_and_a_probe_has_no_time() {
        let ordered = [Reopens::Now, Reopens::At(Tick(1)), Reopens::At(Tick(u64::from(u32::MAX))), Reopens::AfterProbe];
        for pair in ordered.windows(2) {
            assert!(pair[0] < pair[1] && pair[0].rank() < pair[1].rank());
        }
        for one in ordered {
            assert_eq!(Reopens::of_recorded(one.recorded()), one);
        }
        assert_eq!((Reopens::AfterProbe.time(), Reopens::Now.time()), (None, None));
    }
}
