//! The smallest change of one figure that would make a losing candidate the choice.
//!
//! A bisection per figure asks a [`Trial`] whether a value wins, everything else equal. A trial either computes the
//! recorded scores again with fixed baselines, or makes the whole decision again.

use pointsman_domain::{Quality, Weights};

pointsman_domain::named! {
    /// A figure of a candidate or of the request that can change the choice.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Figure {
        /// All prices of the endpoint together, as the expected cost of the request in dollars.
        Price = "price",
        /// Median time to the first token, seconds.
        FirstToken = "ttft",
        /// Output tokens per second.
        TokensPerSecond = "tokens_per_second",
        /// Probability of failure.
        FailureProbability = "failure_probability",
        /// Weight of time in `balanced` beside that of cost, 0 to 1.
        LatencyWeight = "weights.latency",
        /// The quality that counts.
        Quality = "quality",
        /// Weight of quality in `balanced`, 0 to 1.
        QualityWeight = "weights.quality",
    }
}

/// One figure and the value at which the candidate would be the choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counterfactual {
    /// The changed figure.
    pub figure: Figure,
    /// The present value.
    pub from: f64,
    /// The value that would win.
    pub to: f64,
}

impl Figure {
    /// The best value that is tried.
    const fn limit(self) -> f64 {
        match self {
            Figure::TokensPerSecond => 1e9,
            Figure::Quality => 1.0,
            _ => 0.0,
        }
    }
}

impl Counterfactual {
    /// The change relative to the present value: −0.2 is a fifth less. Infinite if the present value is 0.
    pub fn relative(&self) -> f64 {
        self.to / self.from - 1.0
    }
}

/// The weights with another one of time or of quality; the others keep their ratio.
pub(crate) fn weights_at(figure: Figure, value: f64, now: Weights) -> Weights {
    let rest = now.latency + now.cost;
    match figure {
        Figure::QualityWeight if rest > 0.0 => {
            let share = (1.0 - value) / rest;
            Weights { latency: now.latency * share, cost: now.cost * share, quality: value }
        }
        Figure::QualityWeight => now,
        _ => Weights { latency: value, cost: 1.0 - value, quality: now.quality / rest },
    }
}

/// A quality that is known for certain.
pub(crate) const fn certain_quality(value: f64) -> Quality {
    Quality { mean: value, tenth: value, ratings: 0.0 }
}

/// Tries a changed figure.
pub(crate) trait Trial {
    /// Whether the candidate would be the choice with this value of the figure.
    fn wins(&mut self, figure: Figure, value: f64) -> bool;
}

/// Maximum number of trials per answer; each may be a whole decision. Five figures usually take fewer than 200. After
/// the limit no value wins any more, so the values found are less exact.
const MAX_TRIALS: usize = 256;

/// A trial with a limit on its number of calls.
struct Bounded<'t, T> {
    trial: &'t mut T,
    left: usize,
}

impl<T: Trial> Trial for Bounded<'_, T> {
    fn wins(&mut self, figure: Figure, value: f64) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        self.trial.wins(figure, value)
    }
}

/// The changes of one figure each that would win, the relatively smallest first. `figures` holds the present values.
pub(crate) fn smallest(figures: &[(Figure, f64)], trial: &mut impl Trial) -> Vec<Counterfactual> {
    let trial = &mut Bounded { trial, left: MAX_TRIALS };
    let found = figures.iter().filter_map(|&(figure, from)| {
        let to = match figure {
            Figure::LatencyWeight | Figure::QualityWeight => nearest_weight(figure, from, trial)?,
            _ => threshold(figure, from, trial)?,
        };
        Some(Counterfactual { figure, from, to })
    });
    let mut changes: Vec<Counterfactual> = found.collect();
    changes.sort_by(|a, b| a.relative().abs().total_cmp(&b.relative().abs()));
    changes
}

/// Maximum number of steps of a bisection; each may be a whole decision.
const MAX_STEPS: usize = 40;
/// Relative distance between a winning and a losing value at which a bisection ends. Answers show four digits.
const TOLERANCE: f64 = 1e-6;

/// The nearest winning value of a figure that wins in one direction.
fn threshold(figure: Figure, from: f64, trial: &mut impl Trial) -> Option<f64> {
    let limit = figure.limit();
    (from.is_finite() && from > 0.0 && trial.wins(figure, limit)).then(|| between(figure, from, limit, trial))
}

/// Number of intervals of the weight that are tried before the bisection.
const WEIGHT_INTERVALS: u32 = 32;

/// The nearest winning weight in either direction. Winning weights can form an interval, so a grid is tried first.
fn nearest_weight(figure: Figure, from: f64, trial: &mut impl Trial) -> Option<f64> {
    let weight = |number: u32| f64::from(number) / f64::from(WEIGHT_INTERVALS);
    let winning = (0..=WEIGHT_INTERVALS).map(weight).filter(|weight| trial.wins(figure, *weight));
    let nearest = winning.min_by(|a, b| (a - from).abs().total_cmp(&(b - from).abs()))?;
    Some(between(figure, from, nearest, trial))
}

/// The winning value nearest to `losing`, rounded to four digits where the rounded value wins too.
fn between(figure: Figure, losing: f64, winning: f64, trial: &mut impl Trial) -> f64 {
    let (mut lose, mut win) = (losing, winning);
    for _ in 0..MAX_STEPS {
        if (win - lose).abs() <= TOLERANCE * win.abs() {
            break;
        }
        // The geometric mean: the upper limit of a rate is many powers of ten away.
        let middle = if lose > 0.0 && win > 2.0 * lose { (lose * win).sqrt() } else { 0.5 * (lose + win) };
        if trial.wins(figure, middle) { win = middle } else { lose = middle }
    }
    let short = [rounded(win, libm::round), rounded(win, if win > losing { libm::ceil } else { libm::floor })];
    short.into_iter().find(|short| trial.wins(figure, *short)).unwrap_or(win)
}

/// Four significant digits.
fn rounded(value: f64, round: fn(f64) -> f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let exponent = 3 - libm::floor(libm::log10(value.abs())) as i32;
    // Division by a power of ten is exact: 0.0012 instead of 0.0012000000000000001.
    let scale = libm::pow(10.0, f64::from(exponent.abs()));
    if exponent >= 0 { round(value * scale) / scale } else { round(value / scale) * scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wins at or above (`true`), or at or below a value.
    struct From(f64, bool);

    impl Trial for From {
        fn wins(&mut self, _: Figure, value: f64) -> bool {
            if self.1 { value >= self.0 } else { value <= self.0 }
        }
    }

    #[test]
    fn the_nearest_winning_value_is_found_in_four_digits_on_the_winning_side() {
        let found = |figure, from, trial: From| {
            let mut trial = trial;
            smallest(&[(figure, from)], &mut trial).first().map(|change| change.to)
        };
        assert_eq!(found(Figure::Price, 1.0, From(0.123_456, false)), Some(0.1234));
        assert_eq!(found(Figure::FirstToken, 0.5, From(0.000_000_123_456, false)), Some(0.000_000_123_4));
        assert_eq!(found(Figure::TokensPerSecond, 100.0, From(12_345.6, true)), Some(12_350.0));
        assert_eq!(found(Figure::LatencyWeight, 0.5, From(0.9, true)), Some(0.9));
        assert_eq!(found(Figure::LatencyWeight, 0.5, From(0.25, false)), Some(0.25));
        assert_eq!(found(Figure::FailureProbability, 0.2, From(-1.0, false)), None, "not even at 0");
    }

    #[test]
    fn five_figures_take_fewer_than_two_hundred_trials() {
        struct Counting(From, usize);
        impl Trial for Counting {
            fn wins(&mut self, figure: Figure, value: f64) -> bool {
                self.1 += 1;
                self.0.wins(figure, value)
            }
        }
        let lower = [Figure::Price, Figure::FirstToken, Figure::FailureProbability, Figure::LatencyWeight];
        let mut trial = Counting(From(0.123_456, false), 0);
        assert_eq!(smallest(&lower.map(|figure| (figure, 0.5)), &mut trial).len(), 4);
        let mut rate = Counting(From(123.456, true), 0);
        assert_eq!(smallest(&[(Figure::TokensPerSecond, 50.0)], &mut rate).len(), 1);
        assert!(trial.1 + rate.1 < 200, "{} and {}", trial.1, rate.1);
    }

    #[test]
    fn no_answer_takes_more_trials_than_its_bound() {
        /// Every second trial wins, so no bisection converges.
        struct Restless(usize);
        impl Trial for Restless {
            fn wins(&mut self, _: Figure, _: f64) -> bool {
                self.0 += 1;
                self.0 % 2 == 1
            }
        }
        let mut trial = Restless(0);
        let figures = [(Figure::Price, 1.0); 40];
        assert!(!smallest(&figures, &mut trial).is_empty());
        assert_eq!(trial.0, MAX_TRIALS);
    }

    #[test]
    fn the_relatively_smallest_change_comes_first() {
        struct Both;
        impl Trial for Both {
            fn wins(&mut self, figure: Figure, value: f64) -> bool {
                value <= if figure == Figure::Price { 0.5 } else { 0.9 }
            }
        }
        let changes = smallest(&[(Figure::Price, 1.0), (Figure::FirstToken, 1.0)], &mut Both);
        assert_eq!(changes.iter().map(|change| change.figure).collect::<Vec<_>>(), [Figure::FirstToken, Figure::Price]);
    }
}
