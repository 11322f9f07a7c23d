//! One word for how an endpoint or a provider stands.

/// How it stands, for people and monitors; the routing reads the numbers instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Condition {
    /// It answers.
    Healthy,
    /// It answers, but too often not, or it is being tried again.
    Degraded,
    /// Its breaker is open.
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
    /// The condition behind a breaker (`closed`, `open` or `half_open`) and a share of successes.
    pub(crate) fn of(circuit: &str, success_rate: Option<f64>) -> Condition {
        match (circuit, success_rate) {
            ("open", _) => Condition::Down,
            ("half_open", _) => Condition::Degraded,
            (_, None) => Condition::Unknown,
            (_, Some(rate)) if rate < GOOD_RATE => Condition::Degraded,
            _ => Condition::Healthy,
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
    use super::*;

    #[test]
    fn the_breaker_speaks_before_the_rate() {
        assert_eq!(Condition::of("open", Some(1.0)), Condition::Down);
        assert_eq!(Condition::of("half_open", Some(1.0)), Condition::Degraded);
        assert_eq!(Condition::of("closed", None), Condition::Unknown);
        assert_eq!(Condition::of("closed", Some(0.5)), Condition::Degraded);
        assert_eq!(Condition::of("closed", Some(0.998)), Condition::Healthy);
    }
}
