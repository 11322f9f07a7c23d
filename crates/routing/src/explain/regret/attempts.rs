//! Attempts at an endpoint within a short time: how many ended in which way, and in which order at both ends of the time.
//!
//! Three failures after thirty answers are the beginning of an outage; three between them say that one in ten fails. The breaker
//! keeps requests away after the former, so that nothing tells the two apart later.

/// Failures that are known by their times at each end: enough to open a breaker, and its probe.
const KEPT: usize = 4;

/// How many attempts ended in which way, as far as that says something of the endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub failed: u32,
    pub answered: u32,
    /// Refused because of a limit.
    pub limited: u32,
}

impl Tally {
    pub fn add(&mut self, more: Tally) {
        self.failed = self.failed.saturating_add(more.failed);
        self.answered = self.answered.saturating_add(more.answered);
        self.limited = self.limited.saturating_add(more.limited);
    }
}

/// Attempts within [`Attempts::GRAIN_MS`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempts {
    pub tally: Tally,
    /// From the beginning of the time, and from its end backwards.
    ends: [End; 2],
}

/// The first answer and the first failures from an end, milliseconds from there; [`u16::MAX`] for none.
#[derive(Debug, Clone, Copy)]
struct End {
    answer: u16,
    failures: [u16; KEPT],
}

/// Attempts one after the other, with no other ones between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// Times of the first and the last, Unix milliseconds.
    pub ms: [i64; 2],
    pub tally: Tally,
}

impl Default for Attempts {
    fn default() -> Attempts {
        Attempts { tally: Tally::default(), ends: [End { answer: u16::MAX, failures: [u16::MAX; KEPT] }; 2] }
    }
}

impl Attempts {
    /// The time within which attempts are kept together, milliseconds.
    pub const GRAIN_MS: i64 = 10_000;

    /// One attempt, at this Unix time.
    pub fn one(tally: Tally, at_ms: i64) -> Attempts {
        let after_ms = at_ms.rem_euclid(Attempts::GRAIN_MS);
        let end = |after_ms: i64| {
            let at = |count: u32| u16::try_from(after_ms).ok().filter(|_| count > 0).unwrap_or(u16::MAX);
            End { answer: at(tally.answered), failures: [at(tally.failed), u16::MAX, u16::MAX, u16::MAX] }
        };
        Attempts { tally, ends: [after_ms, Attempts::GRAIN_MS - after_ms].map(end) }
    }

    pub fn add(&mut self, more: Attempts) {
        self.tally.add(more.tally);
        self.ends.iter_mut().zip(more.ends).for_each(|(end, more)| end.add(more));
    }

    /// Failures before the first answer, everything up to the last one, and failures after it, where the time begins at `from_ms`.
    pub fn runs(&self, from_ms: i64) -> impl Iterator<Item = Run> + use<> {
        let (tally, [early, late]) = (self.tally, self.ends);
        let from_begin = |after: u16| from_ms.saturating_add(i64::from(after));
        let from_end = |after: u16| from_ms.saturating_add(Attempts::GRAIN_MS - i64::from(after));
        let failures = |[first, last]: [i64; 2], failed: u32| Run {
            ms: [first, last],
            tally: Tally { failed, ..Tally::default() },
        };
        if tally.answered == 0 {
            let ([first, ..], [last, ..]) = (early.failures, late.failures);
            let only = (tally.failed > 0).then(|| failures([from_begin(first), from_end(last)], tally.failed));
            return [None, only, None].into_iter().flatten();
        }
        let before = early.before_answer().map(|(ends, count)| failures(ends.map(from_begin), count));
        let after = late.before_answer().map(|([last, first], count)| failures([first, last].map(from_end), count));
        let apart = [before, after].into_iter().flatten().map(|run| run.tally.failed).sum::<u32>();
        let middle = Tally { failed: tally.failed.saturating_sub(apart), ..tally };
        let between = Run { ms: [from_begin(early.answer), from_end(late.answer)], tally: middle };
        [before, Some(between), after].into_iter().flatten()
    }
}

impl End {
    fn add(&mut self, more: End) {
        self.answer = self.answer.min(more.answer);
        for new in more.failures.into_iter().take_while(|at| *at < u16::MAX) {
            self.failures.iter_mut().rev().take(1).for_each(|last| *last = new.min(*last));
            self.failures.sort_unstable();
        }
    }

    /// The first and the last failure before any answer, and their number.
    fn before_answer(&self) -> Option<([u16; 2], u32)> {
        let before = || self.failures.into_iter().take_while(|at| *at < self.answer);
        Some(([before().next()?, before().last()?], before().count() as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWERED: Tally = Tally { failed: 0, answered: 1, limited: 0 };
    const FAILED: Tally = Tally { failed: 1, answered: 0, limited: 0 };

    /// First and last second, failures and answers of each run.
    fn runs(attempts: &[(i64, Tally)]) -> Vec<([i64; 2], u32, u32)> {
        let mut all = Attempts::default();
        attempts.iter().for_each(|(second, tally)| all.add(Attempts::one(*tally, 1_000 * second)));
        let shown = |run: Run| (run.ms.map(|ms| ms / 1_000), run.tally.failed, run.tally.answered);
        all.runs(0).map(shown).collect()
    }

    #[test]
    fn failures_before_the_first_answer_and_after_the_last_one_are_apart_in_whatever_order_they_are_added() {
        let mut attempts = vec![(1, FAILED), (2, FAILED), (3, ANSWERED), (4, FAILED), (5, ANSWERED), (7, FAILED)];
        let expected = [([1, 2], 2, 0), ([3, 5], 1, 2), ([7, 7], 1, 0)];
        for _ in 0..attempts.len() {
            attempts.rotate_left(1);
            assert_eq!(runs(&attempts), expected);
        }
        attempts.reverse();
        assert_eq!(runs(&attempts), expected);
    }

    #[test]
    fn failures_alone_are_one_run_and_what_says_nothing_is_none() {
        assert_eq!(runs(&[0, 1, 2, 3, 4, 9].map(|second| (second, FAILED))), [([0, 9], 6, 0)]);
        assert_eq!(runs(&[(1, Tally { limited: 1, ..Tally::default() })]), []);
        assert_eq!(runs(&[2, 8].map(|second| (second, ANSWERED))), [([2, 8], 0, 2)]);
    }

    #[test]
    fn more_failures_at_an_end_than_are_known_by_their_times_count_before_it() {
        let attempts = [0, 1].map(|second| (second, ANSWERED)).into_iter().chain((2..9).map(|second| (second, FAILED)));
        assert_eq!(runs(&attempts.collect::<Vec<_>>()), [([0, 1], 3, 2), ([5, 8], 4, 0)]);
    }
}
