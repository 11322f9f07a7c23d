//! Exponential decay of weights.

use std::time::Duration;

use pointsman_domain::Tick;

/// What remains of a weight of 1 after `elapsed` seconds.
pub(crate) fn remaining(elapsed: f64, half_life: Duration) -> f64 {
    // Avoids 0/0 with a half-life of zero.
    libm::exp2(-elapsed / half_life.as_secs_f64().max(1e-3))
}

/// What remains at `now` of a weight of 1 at `then`; 1 if `then` is `None`.
pub(crate) fn remaining_since(then: Option<Tick>, now: Tick, half_life: Duration) -> f64 {
    then.map_or(1.0, |then| remaining(now.seconds_since(then), half_life))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_left_after_one_half_life_and_a_quarter_after_two() {
        let half_life = Duration::from_secs(60);
        assert!((remaining(60.0, half_life) - 0.5).abs() < 1e-15);
        assert!((remaining(120.0, half_life) - 0.25).abs() < 1e-15);
        assert!((remaining_since(None, Tick(9), half_life) - 1.0).abs() < 1e-15);
    }
}
