//! Intervals for what is rare, and for figures that are looked at again and again.

use crate::quality::beta_quantile;

/// Probability outside of an interval.
const ALPHA: f64 = 0.05;
/// Square of the parameter of a confidence sequence that makes it tightest at 10,000 observations:
/// `(−2 ln α + ln(1 − 2 ln α)) / 10,000`.
const RHO_SQUARED: f64 = 7.936e-4;

/// The exact 95 % interval of a probability, of which `successes` of `trials` were seen. Both may be effective numbers.
#[must_use]
pub fn clopper_pearson(successes: f64, trials: f64) -> [f64; 2] {
    if trials <= 0.0 {
        return [0.0, 1.0];
    }
    let (k, n) = (successes.clamp(0.0, trials), trials);
    let least = if k > 0.0 { beta_quantile(ALPHA / 2.0, k, n - k + 1.0) } else { 0.0 };
    let most = if k < n { beta_quantile(1.0 - ALPHA / 2.0, k + 1.0, n - k) } else { 1.0 };
    [least, most]
}

/// Half the width of a 95 % confidence sequence: unlike an interval it holds however often it is looked at.
/// `deviation` is that of one observation.
#[must_use]
pub fn confidence_sequence(deviation: f64, observations: f64) -> f64 {
    let grown = observations * RHO_SQUARED + 1.0;
    let squared = 2.0 * grown / (observations * observations * RHO_SQUARED) * libm::log(grown.sqrt() / ALPHA);
    deviation * squared.sqrt()
}
