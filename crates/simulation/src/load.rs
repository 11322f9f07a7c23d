//! Draws the duration and the outcome of a request from the settings of a provider.
//!
//! Pure functions: the random number generator and the load are arguments, and times are returned as durations.
//! `provider` does the waiting.

use std::{f64::consts::TAU, time::Duration};

use rand::{RngExt, SeedableRng};

use super::{ProviderSettings, Rng};

/// Longest single wait. A provider that hangs is simulated by never answering, not by a long wait.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Draws are limited to this number of standard deviations, so that an outlier does not stall a demonstration.
const MAX_DEVIATIONS: f64 = 4.0;

/// Random values of one request, drawn when it is admitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Draw {
    /// Time to the first token on an idle provider.
    pub(super) first_token: Duration,
    /// Time per output token on an idle provider.
    pub(super) per_token: Duration,
    pub(super) outcome: Outcome,
}

/// How a request ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Outcome {
    /// With a complete answer.
    Completes,
    /// With a 500 before any content.
    Fails,
    /// Never: nothing is sent after this share of the answer. Below [`Outcome::SILENT_HEAD`] no head is sent.
    Hangs { after: f64 },
    /// With the connection closed after this share of the answer.
    Truncated { after: f64 },
}

/// Factor of all times with `in_flight` requests, including the current one: 1 up to the capacity, then
/// `(in_flight / capacity) ^ power`.
pub fn slowdown(in_flight: u32, capacity: u32, power: f64) -> f64 {
    let utilization = f64::from(in_flight) / f64::from(capacity.max(1));
    if utilization <= 1.0 || !power.is_finite() { 1.0 } else { utilization.powf(power.max(0.0)) }
}

/// The generator of the request with this position. Each request has its own, so that the draws of one request do not
/// change those of the next.
pub(super) fn rng(settings: &ProviderSettings, position: u64) -> Rng {
    Rng::seed_from_u64(settings.seed ^ position.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl Draw {
    /// Draws the values of one request. The number of draws does not depend on the rates, so that a changed rate does not
    /// change latencies.
    pub(super) fn new(settings: &ProviderSettings, rng: &mut Rng) -> Draw {
        let first = log_normal(rng, settings.first_token_spread);
        let speed = settings.tokens_per_second.max(0.01) * log_normal(rng, settings.tokens_per_second_spread);
        let (draw, after) = (rng.random::<f64>(), rng.random::<f64>());
        Draw {
            first_token: scaled(settings.first_token, first),
            per_token: Duration::try_from_secs_f64(speed.recip()).unwrap_or(MAX_WAIT),
            outcome: Outcome::new(settings, draw, after),
        }
    }
}

impl Outcome {
    /// The share of an answer below which a hang comes before the head.
    pub(super) const SILENT_HEAD: f64 = 0.4;

    fn new(settings: &ProviderSettings, draw: f64, after: f64) -> Outcome {
        let mut bound = settings.error_rate;
        if draw < bound {
            return Outcome::Fails;
        }
        bound += settings.hang_rate;
        if draw < bound {
            return Outcome::Hangs { after };
        }
        bound += settings.truncate_rate;
        if draw < bound { Outcome::Truncated { after } } else { Outcome::Completes }
    }
}

/// `duration` times `factor`, at most [`MAX_WAIT`].
pub(super) fn scaled(duration: Duration, factor: f64) -> Duration {
    let seconds = duration.as_secs_f64() * factor;
    Duration::try_from_secs_f64(seconds).unwrap_or(MAX_WAIT).min(MAX_WAIT)
}

/// A factor with median 1 whose logarithm has the standard deviation `spread` (Box and Muller's method).
fn log_normal(rng: &mut Rng, spread: f64) -> f64 {
    let (radius, angle) = (1.0 - rng.random::<f64>(), rng.random::<f64>());
    let normal = (-2.0 * radius.ln()).sqrt() * (TAU * angle).cos();
    let spread = if spread.is_finite() { spread.max(0.0) } else { 0.0 };
    (spread * normal.clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(settings: &ProviderSettings, count: u64) -> Vec<Draw> {
        (0..count).map(|position| Draw::new(settings, &mut rng(settings, position))).collect()
    }

    #[test]
    fn times_grow_only_beyond_the_capacity_and_then_like_a_power() {
        let settings = ProviderSettings { capacity: 4, slowdown_power: 2.0, ..ProviderSettings::default() };
        let factors: Vec<f64> =
            [0, 1, 4, 8, 12].into_iter().map(|k| slowdown(k, settings.capacity, settings.slowdown_power)).collect();
        assert_eq!(factors, [1.0, 1.0, 1.0, 4.0, 9.0]);
    }

    #[test]
    fn the_median_first_token_is_the_configured_one_and_the_spread_is_in_the_logarithm() {
        let settings = ProviderSettings { first_token_spread: 0.5, ..ProviderSettings::default() };
        let mut logs: Vec<f64> =
            draws(&settings, 4001).iter().map(|d| (d.first_token.as_secs_f64() / 0.2).ln()).collect();
        logs.sort_by(f64::total_cmp);
        let mean_square = logs.iter().map(|log| log * log).sum::<f64>() / 4001.0;
        assert!(logs[2000].abs() < 0.03, "median of the logarithm {}", logs[2000]);
        assert!((mean_square.sqrt() - 0.5).abs() < 0.03, "spread {}", mean_square.sqrt());
    }

    #[test]
    fn outcomes_have_the_configured_shares() {
        let settings =
            ProviderSettings { error_rate: 0.2, hang_rate: 0.1, truncate_rate: 0.3, ..ProviderSettings::default() };
        let draws = draws(&settings, 4000);
        let share = |wanted: fn(&Outcome) -> bool| draws.iter().filter(|d| wanted(&d.outcome)).count() as f64 / 4000.0;
        assert!((share(|f| matches!(f, Outcome::Fails)) - 0.2).abs() < 0.03);
        assert!((share(|f| matches!(f, Outcome::Hangs { .. })) - 0.1).abs() < 0.03);
        assert!((share(|f| matches!(f, Outcome::Truncated { .. })) - 0.3).abs() < 0.03);
        assert!((share(|f| matches!(f, Outcome::Completes)) - 0.4).abs() < 0.03);
    }

    #[test]
    fn one_seed_gives_one_run_and_rates_do_not_shift_latencies() {
        let calm = ProviderSettings::default();
        let flaky = ProviderSettings { error_rate: 0.5, ..ProviderSettings::default() };
        assert_eq!(draws(&calm, 50), draws(&calm, 50));
        let times = |settings| draws(settings, 50).iter().map(|d| d.first_token).collect::<Vec<_>>();
        assert_eq!(times(&calm), times(&flaky));
        assert_ne!(times(&calm), times(&ProviderSettings { seed: 2, ..ProviderSettings::default() }));
    }

    #[test]
    fn values_out_of_range_give_finite_times() {
        for bad in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
            let spread = ProviderSettings {
                first_token_spread: bad,
                tokens_per_second_spread: bad,
                ..ProviderSettings::default()
            };
            let speed = ProviderSettings { tokens_per_second: bad, slowdown_power: bad, ..ProviderSettings::default() };
            for draw in draws(&spread, 3).into_iter().chain(draws(&speed, 3)) {
                assert!(draw.first_token <= MAX_WAIT && draw.per_token <= MAX_WAIT, "{bad}: {draw:?}");
            }
            assert!(slowdown(1000, speed.capacity, speed.slowdown_power).is_finite(), "{bad}");
        }
    }
}
