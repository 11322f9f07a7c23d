//! The smallest change of one figure that would make a losing candidate the choice.
//!
//! Each figure is searched by bisection over a [`Trial`], everything else equal: either the recorded scoring with its
//! yardsticks held, or the whole decision made again.

/// A figure of a candidate, or of the request, that may decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// All its prices together, shown as the expected cost of the request, dollars.
    Price,
    /// Its median time to the first token, seconds.
    FirstToken,
    /// Its output tokens per second.
    TokensPerSecond,
    /// Its probability of failure.
    FailureProbability,
    /// The share of time in `balanced`, 0 to 1.
    LatencyWeight,
}

/// One figure and the value at which the candidate would be the choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Which.
    pub figure: Figure,
    /// As it is.
    pub from: f64,
    /// As it would have to be.
    pub to: f64,
}

impl Figure {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Figure::Price => "price",
            Figure::FirstToken => "ttft",
            Figure::TokensPerSecond => "tokens_per_second",
            Figure::FailureProbability => "failure_probability",
            Figure::LatencyWeight => "weights.latency",
        }
    }

    /// As far as it could be thought to go.
    const fn limit(self) -> f64 {
        match self {
            Figure::TokensPerSecond => 1e9,
            _ => 0.0,
        }
    }
}

impl Change {
    /// By how much, relative to what it is: −0.2 is a fifth less. Infinite where it is 0.
    #[must_use]
    pub fn relative(&self) -> f64 {
        self.to / self.from - 1.0
    }
}

/// Somewhere a change can be tried.
pub(super) trait Trial {
    /// Whether the candidate would be the choice with this value of the figure.
    fn wins(&mut self, figure: Figure, value: f64) -> bool;
}

/// Most trials for one answer, each of which may be a whole decision. Five figures ordinarily take fewer than 200;
/// beyond it nothing wins any more, and what was found so far is coarser.
const MOST_TRIALS: usize = 256;

/// A trial of which only so many are made.
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

/// The changes of one figure each that would do, the relatively smallest first. `figures` hold what they are now.
pub(super) fn smallest(figures: &[(Figure, f64)], trial: &mut impl Trial) -> Vec<Change> {
    let trial = &mut Bounded { trial, left: MOST_TRIALS };
    let found = figures.iter().filter_map(|&(figure, from)| {
        let to = match figure {
            Figure::LatencyWeight => nearest_weight(from, trial)?,
            _ => threshold(figure, from, trial)?,
        };
        Some(Change { figure, from, to })
    });
    let mut changes: Vec<Change> = found.collect();
    changes.sort_by(|a, b| a.relative().abs().total_cmp(&b.relative().abs()));
    changes
}

/// Halvings of a bisection at most, each of which may be a whole decision.
const HALVINGS: usize = 40;
/// How near, relatively, the value that wins has to come to one that loses: four digits are told.
const NEAR: f64 = 1e-6;

/// How far one way a figure has to go.
fn threshold(figure: Figure, from: f64, trial: &mut impl Trial) -> Option<f64> {
    let limit = figure.limit();
    (from.is_finite() && from > 0.0 && trial.wins(figure, limit)).then(|| between(figure, from, limit, trial))
}

/// Shares of time that are tried before the nearest one that does is searched.
const SHARES: u32 = 32;

/// How far either way the weight has to go. Those that do may lie in the middle, so they are looked for first.
fn nearest_weight(from: f64, trial: &mut impl Trial) -> Option<f64> {
    let share = |number: u32| f64::from(number) / f64::from(SHARES);
    let doing = (0..=SHARES).map(share).filter(|share| trial.wins(Figure::LatencyWeight, *share));
    let nearest = doing.min_by(|a, b| (a - from).abs().total_cmp(&(b - from).abs()))?;
    Some(between(Figure::LatencyWeight, from, nearest, trial))
}

/// The value nearest to `losing` that wins, with four digits where they suffice.
fn between(figure: Figure, losing: f64, winning: f64, trial: &mut impl Trial) -> f64 {
    let (mut lose, mut win) = (losing, winning);
    for _ in 0..HALVINGS {
        if (win - lose).abs() <= NEAR * win.abs() {
            break;
        }
        // Between a rate and the highest there could be lie many powers of ten.
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
    // By division, which is exact where a power of ten is: 0.0012 and not 0.0012000000000000001.
    let scale = libm::pow(10.0, f64::from(exponent.abs()));
    if exponent >= 0 { round(value * scale) / scale } else { round(value / scale) * scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wins from a value on, one way or the other.
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
        /// Wins below a value that moves: no bisection comes to rest.
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
        assert_eq!(trial.0, MOST_TRIALS);
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
