//! What is believed of one probability: a beta distribution.

use pointsman_domain::{Quality, QualityScore};

use super::beta::beta_quantile;

/// Most answers that a score counts for, however many were judged: it was measured with other requests.
const MOST_PRIOR: u32 = 20;
/// The same of the mean of a class, where a model has no score.
const MEAN_PRIOR: f64 = 2.0;
/// Ratings for other classes that are assumed to be as is usual there.
const UNTOLD: f64 = 10.0;
/// A score is never taken for certain.
const NEAREST: f64 = 1e-3;

/// Accepted and rejected answers, faded ones in part.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Answers {
    pub(super) accepted: f64,
    pub(super) rejected: f64,
}

impl Answers {
    /// The answers behind a score.
    pub(super) fn of_score(score: &QualityScore) -> Answers {
        let share = if (0.0..=1.0).contains(&score.score) { score.score } else { 0.5 };
        Answers { accepted: share, rejected: 1.0 - share }.times(f64::from(score.count))
    }

    pub(super) fn total(self) -> f64 {
        self.accepted + self.rejected
    }

    pub(super) fn add(&mut self, other: Answers) {
        self.accepted += other.accepted;
        self.rejected += other.rejected;
    }

    pub(super) fn times(self, factor: f64) -> Answers {
        Answers { accepted: self.accepted * factor, rejected: self.rejected * factor }
    }

    pub(super) fn with(mut self, other: Answers) -> Answers {
        self.add(other);
        self
    }

    /// In the same ratio, but no more than so many.
    pub(super) fn at_most(self, most: f64) -> Answers {
        if self.total() > most { self.times(most / self.total()) } else { self }
    }

    /// These without some of them.
    pub(super) fn without(self, some: Answers) -> Answers {
        Answers {
            accepted: (self.accepted - some.accepted).max(0.0),
            rejected: (self.rejected - some.rejected).max(0.0),
        }
    }
}

/// What is believed of a probability: a beta distribution, with answers that were seen or are assumed. Both kinds are more than none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Posterior(Answers);

impl Posterior {
    /// What a score alone says.
    pub fn of_score(score: &QualityScore) -> Posterior {
        Posterior::around(score.score, f64::from(score.count.clamp(1, MOST_PRIOR)))
    }

    /// What is believed of a model without a score, of whose class so many answers were accepted and rejected.
    pub fn of_class(accepted: f64, rejected: f64) -> Posterior {
        Posterior::around((accepted + 1.0) / (accepted + rejected + 2.0), MEAN_PRIOR)
    }

    /// As strong, with the mean moved by what so many ratings of the model for other classes accept beyond what is usual there,
    /// `gain` in all.
    #[must_use]
    pub fn moved(self, gain: f64, ratings: f64) -> Posterior {
        Posterior::around((self.mean() + gain / (ratings + UNTOLD)).clamp(0.0, 1.0), self.strength())
    }

    /// The belief of this mean and strength.
    fn around(mean: f64, strength: f64) -> Posterior {
        // Not a number is in no range.
        let mean = if (0.0..=1.0).contains(&mean) { mean.clamp(NEAREST, 1.0 - NEAREST) } else { 0.5 };
        Posterior(Answers { accepted: mean * strength, rejected: (1.0 - mean) * strength })
    }

    /// The belief after further answers. What is no amount of them changes nothing.
    #[must_use]
    pub fn with(self, accepted: f64, rejected: f64) -> Posterior {
        let amount = |sum: f64| if sum.is_finite() { sum.max(0.0) } else { 0.0 };
        let mut all = self.0;
        all.add(Answers { accepted: amount(accepted), rejected: amount(rejected) });
        Posterior(all)
    }

    /// The same mean, but at most this strong.
    #[must_use]
    pub fn at_most(self, strength: f64) -> Posterior {
        Posterior(self.0.times((strength / self.strength()).min(1.0)))
    }

    /// Answers that it counts for.
    pub fn strength(self) -> f64 {
        self.0.total()
    }

    /// Its mean.
    pub fn mean(self) -> f64 {
        self.0.accepted / self.strength()
    }

    /// Below which this share of it lies.
    pub fn quantile(self, share: f64) -> f64 {
        beta_quantile(share, self.0.accepted, self.0.rejected)
    }

    /// The figures that a decision reads. `ratings` count in it.
    pub fn quality(self, ratings: f64) -> Quality {
        Quality { mean: self.mean(), tenth: self.quantile(0.1), ratings }
    }
}
