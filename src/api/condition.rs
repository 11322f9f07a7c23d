//! One word for how an endpoint or a provider stands.

use pointsman_actors::{domain::Circuit, stats::LiveStatus};

/// How it stands, for people and monitors; the routing reads the numbers instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Condition {
    /// It answers.
    Healthy,
    /// It answers, but too often not; or it cools; or it is being tried again; or its requests wait in vain so far.
    Degraded,
    /// Its breaker is open, or it refuses our key.
    Down,
    /// It was not asked yet.
    #[default]
    Unknown,
    /// The configuration switched it off, or left it without its key.
    Off,
}

/// Below this share of successes an endpoint that answers is called degraded.
const GOOD_RATE: f64 = 0.95;

impl Condition {
    /// The condition behind a breaker and a share of successes.
    pub(crate) fn of(circuit: Circuit, success_rate: Option<f64>) -> Condition {
        match (circuit, success_rate) {
            (Circuit::Open, _) => Condition::Down,
            (Circuit::HalfOpen, _) => Condition::Degraded,
            (_, None) => Condition::Unknown,
            (_, Some(rate)) if rate < GOOD_RATE => Condition::Degraded,
            _ => Condition::Healthy,
        }
    }

    /// The condition behind what an endpoint or provider shows.
    pub(crate) fn of_standing(standing: LiveStatus, success_rate: Option<f64>) -> Condition {
        if standing.config_fault {
            return Condition::Down;
        }
        match Condition::of(standing.circuit, success_rate) {
            Condition::Healthy | Condition::Unknown if standing.cooldown_until.is_some() || standing.silent => {
                Condition::Degraded
            }
            condition => condition,
        }
    }

    /// The name on the wire.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Condition::Healthy => "healthy",
            Condition::Degraded => "degraded",
            Condition::Down => "down",
            Condition::Unknown => "unknown",
            Condition::Off => "off",
        }
    }

    /// The number that stands for it in endpoint lists.
    pub(crate) const fn status(self) -> i8 {
        match self {
            Condition::Healthy | Condition::Unknown => 0,
            Condition::Degraded => -1,
            Condition::Down | Condition::Off => -2,
        }
    }
}

#[cfg(test)]
mod tests {
    use pointsman_actors::domain::Tick;

    use super::*;

    #[test]
    fn the_breaker_speaks_before_the_rate() {
        assert_eq!(Condition::of(Circuit::Open, Some(1.0)), Condition::Down);
        assert_eq!(Condition::of(Circuit::HalfOpen, Some(1.0)), Condition::Degraded);
        assert_eq!(Condition::of(Circuit::Closed, None), Condition::Unknown);
        assert_eq!(Condition::of(Circuit::Closed, Some(0.5)), Condition::Degraded);
        assert_eq!(Condition::of(Circuit::Closed, Some(0.998)), Condition::Healthy);
    }

    #[test]
    fn a_cooling_or_silent_endpoint_is_degraded_and_one_that_refuses_our_key_is_down() {
        let standing = LiveStatus {
            circuit: Circuit::Closed,
            open_until: None,
            cooldown_until: None,
            config_fault: false,
            silent: false,
            in_flight: 0,
        };
        assert_eq!(Condition::of_standing(standing, Some(1.0)), Condition::Healthy);
        let cooling = LiveStatus { cooldown_until: Some(Tick(1)), ..standing };
        assert_eq!(Condition::of_standing(cooling, Some(1.0)), Condition::Degraded);
        assert_eq!(Condition::of_standing(LiveStatus { silent: true, ..standing }, Some(1.0)), Condition::Degraded);
        assert_eq!(Condition::of_standing(LiveStatus { config_fault: true, ..standing }, None), Condition::Down);
    }
}
