//! How probable failures were at a moment, by what failed and what was answered before and after it.
//!
//! An endpoint fails with one of a few probabilities and now and then changes to another one: a hidden Markov chain. Attempts weigh
//! these [`LEVELS`] forwards and backwards in time. Where the last attempt before a moment failed and the next one is answered, the
//! change is as likely to lie before it as after it, in the proportion of the times.

use super::attempts::{Run, Tally};

/// Probabilities of failure, and how common each is.
const LEVELS: [(f64, f64); COUNT] = [
    (0.001, 0.25),
    (0.004, 0.25),
    (0.015, 0.25),
    (0.05, 0.15),
    (0.15, 0.05),
    (0.3, 0.0125),
    (0.5, 0.0125),
    (0.75, 0.0125),
    (0.98, 0.0125),
];
const COUNT: usize = 9;
/// Mean times until the level changes, milliseconds, and the logarithm of how common each is: one in twenty, one in four hundred. The
/// likeliest one counts: an endpoint that went up and down again and again changes between two probes, too, one that was down once
/// hardly does.
const LASTS: [(f64, f64); 3] = [(600_000.0, 0.0), (120_000.0, -3.0), (30_000.0, -6.0)];

/// A probability of failure, and its standard deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Believed {
    pub mean: f64,
    pub deviation: f64,
}

/// What each run of attempts says of the levels, together with all earlier and with all later ones.
#[derive(Debug, Clone, Default)]
pub(super) struct FailureHistory {
    steps: Vec<Step>,
    lasts: Lasts,
}

/// Mean time until the level changes, milliseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Lasts(f64);

#[derive(Debug, Clone, Copy)]
struct Step {
    /// Times of the first and the last attempt.
    ms: [i64; 2],
    since_before: Weights,
    from_later: Weights,
}

/// Weights of the levels. They sum to 1.
#[derive(Debug, Clone, Copy)]
struct Weights([f32; COUNT]);

impl FailureHistory {
    /// From runs in the order of their times.
    pub fn new(runs: impl Iterator<Item = Run>) -> FailureHistory {
        let runs: Vec<Run> = runs.collect();
        let by_time = LASTS.into_iter().map(|(lasts_ms, common)| Lasts(lasts_ms).history(&runs, common));
        let likeliest = by_time.max_by(|(one, _), (other, _)| one.total_cmp(other));
        let mut history = likeliest.map(|(_, history)| history).unwrap_or_default();
        let mut next: Option<Step> = None;
        for step in history.steps.iter_mut().rev() {
            if let Some(next) = next {
                step.from_later = step.from_later.and(history.lasts.before(next.from_later, apart(step.ms, next.ms)));
            }
            next = Some(*step);
        }
        history
    }

    /// At a moment; `None` if nothing was ever tried.
    pub fn at(&self, at_ms: i64) -> Option<Believed> {
        let next = self.steps.partition_point(|Step { ms: [first, _], .. }| *first <= at_ms);
        let before = next.checked_sub(1).and_then(|last| self.steps.get(last));
        let before = before.map(|step| self.lasts.after(step.since_before, apart(step.ms, [at_ms; 2])));
        let later = self.steps.get(next);
        let later = later.map(|step| self.lasts.before(step.from_later, apart([at_ms; 2], step.ms)));
        match (before, later) {
            (Some(before), Some(later)) => Some(before.and(later).believed()),
            (Some(before), None) => Some(before.believed()),
            (None, Some(later)) => Some(Weights::usual().and(later).believed()),
            (None, None) => None,
        }
    }
}

impl Lasts {
    /// Runs with what earlier ones say, and the logarithm of how likely all of them are.
    fn history(self, runs: &[Run], common: f64) -> (f64, FailureHistory) {
        let (mut likely, mut steps) = (common, Vec::<Step>::with_capacity(runs.len()));
        for Run { ms, tally } in runs.iter().copied() {
            let said = Weights::of(tally);
            let before = steps.last().map(|last| self.after(last.since_before, apart(last.ms, ms)));
            let before = before.unwrap_or_else(Weights::usual);
            likely += libm::log(f64::from(before.agreement(said)));
            steps.push(Step { ms, since_before: said.and(before), from_later: said });
        }
        (likely, FailureHistory { steps, lasts: self })
    }

    /// Probability that a level lasts for this time.
    fn stays(self, milliseconds: i64) -> f32 {
        libm::exp(-(milliseconds.max(0) as f64) / self.0) as f32
    }

    /// What is said of the levels after some time.
    fn after(self, weights: Weights, milliseconds: i64) -> Weights {
        let stays = self.stays(milliseconds);
        weights.each(Weights::usual(), |own, usual| stays * own + (1.0 - stays) * usual)
    }

    /// What is said of the levels some time before.
    fn before(self, weights: Weights, milliseconds: i64) -> Weights {
        let (stays, changed) = (self.stays(milliseconds), weights.agreement(Weights::usual()));
        Weights(weights.0.map(|own| stays * own + (1.0 - stays) * changed)).normal()
    }
}

/// From the last attempt of a run to the first of the next one; less than 0 within a run.
fn apart([_, last]: [i64; 2], [first, _]: [i64; 2]) -> i64 {
    first.saturating_sub(last)
}

impl Weights {
    fn usual() -> Weights {
        Weights(LEVELS.map(|(_, common)| common as f32))
    }

    /// How likely these attempts are at each level.
    fn of(tally: Tally) -> Weights {
        let [failed, answered] = [tally.failed, tally.answered].map(f64::from);
        let logs = LEVELS.map(|(level, _)| failed * libm::log(level) + answered * libm::log1p(-level));
        let most = logs.into_iter().fold(f64::NEG_INFINITY, f64::max);
        Weights(logs.map(|log| libm::exp(log - most) as f32)).normal()
    }

    /// How likely one is if the other one is believed.
    fn agreement(self, other: Weights) -> f32 {
        self.0.into_iter().zip(other.0).map(|(one, other)| one * other).sum()
    }

    fn and(self, other: Weights) -> Weights {
        self.each(other, |one, other| one * other).normal()
    }

    fn each(mut self, other: Weights, of: impl Fn(f32, f32) -> f32) -> Weights {
        self.0.iter_mut().zip(other.0).for_each(|(one, other)| *one = of(*one, other));
        self
    }

    /// None is 0, so that later attempts can say otherwise.
    fn normal(self) -> Weights {
        let sum: f32 = self.0.iter().sum();
        Weights(self.0.map(|one| (one / sum).max(1e-9)))
    }

    fn believed(self) -> Believed {
        let (mut sum, mut mean, mut square) = (0.0, 0.0, 0.0);
        for (weight, (level, _)) in self.0.into_iter().map(f64::from).zip(LEVELS) {
            sum += weight;
            mean += weight * level;
            square += weight * level * level;
        }
        let mean = mean / sum;
        Believed { mean, deviation: (square / sum - mean * mean).max(0.0).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{super::attempts::Attempts, *};

    const MINUTE_MS: i64 = 60_000;

    fn history(tallies: &[(i64, u32, u32)]) -> FailureHistory {
        let tally = |&(minute, failed, answered): &(i64, u32, u32)| Run {
            ms: [minute * MINUTE_MS; 2],
            tally: Tally { failed, answered, limited: 0 },
        };
        FailureHistory::new(tallies.iter().map(tally))
    }

    #[test]
    fn between_a_failure_and_an_answer_the_change_lies_in_the_middle() {
        let history = history(&[(0, 0, 200), (1, 5, 0), (5, 0, 5)]);
        let at = |minute: i64| history.at(minute * MINUTE_MS).unwrap();
        assert!(at(0).mean < 0.01 && at(1).mean > 0.8 && at(5).mean < 0.05, "{:?}", [0, 1, 5].map(at));
        assert!((at(3).mean - 0.45).abs() < 0.1 && at(3).deviation > 0.3, "{:?}", at(3));
        assert!(at(2).mean > at(3).mean && at(3).mean > at(4).mean);
    }

    #[test]
    fn three_failures_after_thirty_answers_are_an_outage_and_among_them_they_are_not() {
        // It answers four times a second. An outage begins after 7.5 s, and the breaker asks after 5 and 11 s.
        let outage = (0..33).map(|n| (250 * n, n >= 30)).chain([(13_250, true), (24_500, true), (50_000, false)]);
        let in_part =
            (0..33).map(|n| (250 * n, n % 11 == 5)).chain([(13_250, false), (24_500, false), (50_000, false)]);
        let history = |attempts: &mut dyn Iterator<Item = (i64, bool)>| {
            let mut cells: BTreeMap<i64, Attempts> = BTreeMap::new();
            for (at_ms, failed) in attempts {
                let tally = Tally { failed: u32::from(failed), answered: u32::from(!failed), limited: 0 };
                cells.entry(at_ms / Attempts::GRAIN_MS).or_default().add(Attempts::one(tally, at_ms));
            }
            FailureHistory::new(cells.iter().flat_map(|(at, cell)| cell.runs(at * Attempts::GRAIN_MS)))
        };
        let [outage, in_part] = [history(&mut { outage }), history(&mut { in_part })];
        let at = |of: &FailureHistory, ms: i64| of.at(ms).unwrap().mean;
        assert!(at(&outage, 5_000) < 0.05 && at(&outage, 9_000) > 0.7 && at(&outage, 24_000) > 0.6, "{outage:?}");
        assert!([5_000, 9_000, 24_000].iter().all(|ms| at(&in_part, *ms) < 0.2), "{in_part:?}");
    }

    #[test]
    fn an_endpoint_that_fails_in_part_is_known_by_few_attempts_for_as_long_as_that_lasts() {
        let history = history(&[(0, 0, 500), (1, 1, 2), (2, 1, 1), (3, 0, 2), (4, 1, 2), (5, 0, 500)]);
        let at = |minute: i64| history.at(minute * MINUTE_MS).unwrap().mean;
        assert!((0.2..0.5).contains(&at(2)) && (0.2..0.5).contains(&at(3)), "{} {}", at(2), at(3));
        assert!(at(0) < 0.01 && at(5) < 0.01);
    }

    #[test]
    fn between_two_failures_an_endpoint_that_goes_up_and_down_may_have_been_up_and_one_that_was_well_before_was_not() {
        let till = |up_in: fn(i64) -> bool| {
            let minutes = (0..21).map(move |minute| if up_in(minute) { (minute, 0, 50) } else { (minute, 5, 0) });
            history(&minutes.chain([(21, 5, 0), (23, 5, 0), (24, 0, 50)]).collect::<Vec<_>>())
        };
        let at = |history: FailureHistory| history.at(22 * MINUTE_MS).unwrap().mean;
        let [flapping, well] = [at(till(|minute| minute % 2 == 0)), at(till(|_| true))];
        assert!((0.1..0.8).contains(&flapping) && well > 0.9, "{flapping} {well}");
    }

    #[test]
    fn what_is_long_ago_says_little_and_what_was_never_tried_nothing() {
        let seldom = history(&[(0, 9, 0)]);
        assert!(seldom.at(MINUTE_MS).unwrap().mean > 0.7 && seldom.at(300 * MINUTE_MS).unwrap().mean < 0.1);
        assert!(seldom.at(-MINUTE_MS).unwrap().mean > 0.5, "a minute before it began it probably was so already");
        assert_eq!(FailureHistory::default().at(0), None);
        assert!(history(&[(0, u32::MAX, u32::MAX)]).at(0).unwrap().mean.is_finite());
    }
}
