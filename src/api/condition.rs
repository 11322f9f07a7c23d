//! Condition of an endpoint or provider, in one word.

use pointsman_domain::Circuit;
use pointsman_routing::stats::LiveStatus;

pointsman_domain::named! {
    /// Condition for people and monitors; the routing uses the measurements instead.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(crate) enum Condition {
        /// Answers.
        Healthy = "healthy",
        /// Fails too often, cools down, is being probed, or is silent.
        Degraded = "degraded",
        /// The circuit breaker is open, or the provider refuses the gateway's key.
        Down = "down",
        /// Not called yet.
        #[default]
        Unknown = "unknown",
        /// Switched off by the configuration, or without a key.
        Off = "off",
    }
}

/// Below this success rate an endpoint is degraded.
const MIN_SUCCESS_RATE: f64 = 0.95;

impl Condition {
    /// The condition for a circuit breaker and a success rate.
    pub(crate) fn from_circuit(circuit: Circuit, success_rate: Option<f64>) -> Condition {
        match (circuit, success_rate) {
            (Circuit::Open, _) => Condition::Down,
            (Circuit::HalfOpen, _) => Condition::Degraded,
            (_, None) => Condition::Unknown,
            (_, Some(rate)) if rate < MIN_SUCCESS_RATE => Condition::Degraded,
            _ => Condition::Healthy,
        }
    }

    /// The condition for a live status and a success rate.
    pub(crate) fn from_status(status: LiveStatus, success_rate: Option<f64>) -> Condition {
        if status.config_fault {
            return Condition::Down;
        }
        match Condition::from_circuit(status.circuit, success_rate) {
            Condition::Healthy | Condition::Unknown if status.cooldown_until.is_some() || status.silent => {
                Condition::Degraded
            }
            condition => condition,
        }
    }

    /// The `status` number in endpoint lists.
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
    use pointsman_domain::Tick;

    use super::*;

    #[test]
    fn an_open_breaker_outranks_the_success_rate() {
        assert_eq!(Condition::from_circuit(Circuit::Open, Some(1.0)), Condition::Down);
        assert_eq!(Condition::from_circuit(Circuit::HalfOpen, Some(1.0)), Condition::Degraded);
        assert_eq!(Condition::from_circuit(Circuit::Closed, None), Condition::Unknown);
        assert_eq!(Condition::from_circuit(Circuit::Closed, Some(0.5)), Condition::Degraded);
        assert_eq!(Condition::from_circuit(Circuit::Closed, Some(0.998)), Condition::Healthy);
    }

    #[test]
    fn a_cooling_or_silent_endpoint_is_degraded_and_one_that_refuses_the_key_is_down() {
        let status = LiveStatus {
            circuit: Circuit::Closed,
            open_until: None,
            cooldown_until: None,
            told: None,
            config_fault: false,
            silent: false,
            in_flight: 0,
        };
        assert_eq!(Condition::from_status(status, Some(1.0)), Condition::Healthy);
        let cooling = LiveStatus { cooldown_until: Some(Tick(1)), ..status };
        assert_eq!(Condition::from_status(cooling, Some(1.0)), Condition::Degraded);
        assert_eq!(Condition::from_status(LiveStatus { silent: true, ..status }, Some(1.0)), Condition::Degraded);
        assert_eq!(Condition::from_status(LiveStatus { config_fault: true, ..status }, None), Condition::Down);
    }
}
