//! Intervals for what is rare, and for figures that are looked at again and again.

/// Probability outside of an interval.
const ALPHA: f64 = 0.05;
/// Steps of a bisection: the last one is below the resolution of a float.
const STEPS: usize = 60;
/// Most terms of the continued fraction.
const TERMS: usize = 500;
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

/// Where the beta distribution reaches this share.
fn beta_quantile(share: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..STEPS {
        let middle = 0.5 * (low + high);
        if incomplete_beta(middle, a, b) < share { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The regularised incomplete beta function, by its continued fraction (Lentz).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * libm::log(x) + b * libm::log(1.0 - x);
    let away_from_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for term in 1..TERMS {
        let m = term as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away_from_zero(1.0 + even * d);
        c = away_from_zero(1.0 + even / c);
        fraction *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away_from_zero(1.0 + odd * d);
        c = away_from_zero(1.0 + odd / c);
        let step = d * c;
        fraction *= step;
        if (step - 1.0).abs() < 1e-14 {
            break;
        }
    }
    libm::exp(front) * fraction / a
}
