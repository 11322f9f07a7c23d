//! Whether requests pass: the state of a breaker as others read it.

use pointsman_domain::{Circuit, ExclusionReason, GateState, Tick};

/// Whether requests pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gate {
    /// Requests pass.
    #[default]
    Passing,
    /// Cooldown after a 429.
    Cooling {
        /// When it ends.
        until: Tick,
    },
    /// The breaker is open.
    Open {
        /// When a probe is allowed.
        until: Tick,
    },
    /// The account or the model name is wrong there.
    ConfigFault {
        /// When a probe is allowed.
        until: Tick,
    },
    /// Half-open: one request may probe.
    HalfOpen {
        /// Since when.
        since: Tick,
    },
    /// The probe is in flight.
    Probing {
        /// Since when the breaker is half-open.
        since: Tick,
    },
}

impl Gate {
    /// Whether ordinary requests pass.
    pub const fn is_passing(self) -> bool {
        matches!(self, Gate::Passing)
    }

    /// The circuit state. It stays closed during a cooldown.
    pub const fn circuit(self) -> Circuit {
        match self {
            Gate::Passing | Gate::Cooling { .. } => Circuit::Closed,
            Gate::Open { .. } | Gate::ConfigFault { .. } => Circuit::Open,
            Gate::HalfOpen { .. } | Gate::Probing { .. } => Circuit::HalfOpen,
        }
    }

    /// When the gate opens or opened.
    pub const fn until(self) -> Option<Tick> {
        match self {
            Gate::Passing => None,
            Gate::Cooling { until } | Gate::Open { until } | Gate::ConfigFault { until } => Some(until),
            Gate::HalfOpen { since } | Gate::Probing { since } => Some(since),
        }
    }

    /// State and time as recorded; `None` if requests pass.
    pub const fn state(self) -> Option<(GateState, Tick)> {
        match self {
            Gate::Passing => None,
            Gate::Cooling { until } => Some((GateState::Cooling, until)),
            Gate::Open { until } => Some((GateState::Open, until)),
            Gate::ConfigFault { until } => Some((GateState::ConfigFault, until)),
            Gate::HalfOpen { since } => Some((GateState::HalfOpen, since)),
            Gate::Probing { since } => Some((GateState::Probing, since)),
        }
    }

    /// Why an ordinary request is refused.
    pub const fn refusal(self) -> Option<ExclusionReason> {
        match self {
            Gate::Passing => None,
            Gate::Cooling { .. } => Some(ExclusionReason::RateLimited),
            Gate::Open { .. } | Gate::HalfOpen { .. } => Some(ExclusionReason::CircuitOpen),
            Gate::ConfigFault { .. } => Some(ExclusionReason::ConfigFault),
            Gate::Probing { .. } => Some(ExclusionReason::ProbeInFlight),
        }
    }

    /// The stricter of two gates that apply together; of equally strict ones the one that opens later.
    #[must_use]
    pub fn and(self, other: Gate) -> Gate {
        if other.is_passing() {
            return self;
        }
        let strictness = |gate: Gate| (gate.strictness(), gate.until());
        if strictness(other) > strictness(self) { other } else { self }
    }

    const fn strictness(self) -> u8 {
        match self {
            Gate::Passing => 0,
            Gate::HalfOpen { .. } => 1,
            Gate::Probing { .. } => 2,
            Gate::Open { .. } => 3,
            Gate::Cooling { .. } => 4,
            Gate::ConfigFault { .. } => 5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_gates_the_stricter_or_later_one_applies() {
        let (soon, later) = (Tick(1), Tick(2));
        let ordered = [
            Gate::Passing,
            Gate::HalfOpen { since: soon },
            Gate::Probing { since: soon },
            Gate::Open { until: soon },
            Gate::Open { until: later },
            Gate::Cooling { until: soon },
            Gate::ConfigFault { until: soon },
        ];
        for (position, mild) in ordered.iter().enumerate() {
            for strict in ordered.iter().skip(position) {
                assert_eq!((mild.and(*strict), strict.and(*mild)), (*strict, *strict));
            }
        }
    }
}
