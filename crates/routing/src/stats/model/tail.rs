//! 95th percentile of the times of an endpoint relative to their predicted medians.
//!
//! Tracked directly by stochastic approximation. A formula over the variance would hold for log-normal times only.

use serde::{Deserialize, Serialize};

use crate::stats::model::saved::{ImplausibleValue, ln_mean};

/// The 95th percentile of ln(actual ÷ predicted median). Saved as it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TailTracker {
    ln: f64,
    /// Number of observations.
    answers: u32,
}

impl TailTracker {
    /// Prior: 1.645 standard deviations of 0.5.
    const PRIOR: f64 = 0.82;
    /// First and least step (ln).
    const FIRST_STEP: f64 = 0.5;
    const LEAST_STEP: f64 = 0.05;
    /// Observations after which the step is half the first one.
    const SETTLES: f64 = 20.0;
    /// Bounds of the percentile (ln).
    const LEAST: f64 = 0.05;
    const MOST: f64 = 4.0;

    /// The percentile of ln(actual ÷ predicted median).
    pub(crate) fn get(self) -> f64 {
        self.ln
    }

    /// Adds ln(actual ÷ predicted) of one answer: moves up by 0.95 steps if it is above the percentile, else down by
    /// 0.05 steps, so that it settles where one answer in twenty is above.
    pub(crate) fn observe(&mut self, surprise: f64) {
        if !surprise.is_finite() {
            return;
        }
        let settled = 1.0 + f64::from(self.answers) / TailTracker::SETTLES;
        let step = (TailTracker::FIRST_STEP / settled).max(TailTracker::LEAST_STEP);
        self.answers = self.answers.saturating_add(1);
        self.ln += if surprise > self.ln { 0.95 * step } else { -0.05 * step };
        self.ln = self.ln.clamp(TailTracker::LEAST, TailTracker::MOST);
    }
}

impl TailTracker {
    /// State for a later process; `None` without observations.
    pub(crate) fn export(self) -> Option<TailTracker> {
        (self.answers > 0).then_some(self)
    }

    /// A saved percentile, with a larger step.
    pub(crate) fn restored(saved: TailTracker) -> Result<TailTracker, ImplausibleValue> {
        let TailTracker { ln, answers } = saved;
        if answers == 0 {
            return Ok(TailTracker::default());
        }
        Ok(TailTracker {
            ln: ln_mean(ln)?.clamp(TailTracker::LEAST, TailTracker::MOST),
            answers: answers.min(TailTracker::SETTLES as u32),
        })
    }
}

impl Default for TailTracker {
    fn default() -> TailTracker {
        TailTracker { ln: TailTracker::PRIOR, answers: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_settles_where_one_answer_in_twenty_is_slower() {
        let mut tail = TailTracker::default();
        // Evenly spread over -1..1: the 95th percentile is 0.9.
        (0..4000).for_each(|i| tail.observe(f64::from((i * 7919) % 2000) / 1000.0 - 1.0));
        assert!((tail.get() - 0.9).abs() < 0.05, "{tail:?}");
    }

    #[test]
    fn values_that_are_not_finite_change_nothing() {
        let mut tail = TailTracker::default();
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].into_iter().for_each(|surprise| tail.observe(surprise));
        assert_eq!(tail, TailTracker::default());
    }
}
