//! What ratings of others say of an endpoint: they count for it as far as both are likely alike.
//!
//! Of two endpoints of equal quality one is luckier in its ratings, and would get nearly all requests. So a difference counts only as
//! far as ratings, and the answers that scores were measured of, show one: as long as they are rather what chance makes of equal
//! qualities, both have the ratings of both.

use pointsman_domain::Quality;

use super::posterior::{Answers, Posterior};

/// Odds that two are alike before anything is known of them. With .5 ratings of a twentieth of the answers find less than 80 % of what
/// there is to learn; with .25 luck decides more often between two models without scores.
const PRIOR_ODDS: f64 = 0.3;
/// Standard deviation of the difference of two that are not alike.
const USUAL_DIFFERENCE: f64 = 0.3;
/// Most answers of a score that count in a comparison: it was measured with other requests. Where all count, scores say that models
/// are alike which ratings tell apart.
const MOST_SCORED: f64 = 100.0;
/// Most answers that a model counts for at an endpoint without ratings of its own.
pub(super) const MOST_POOLED: f64 = 50.0;

/// What is known for a class of an endpoint by itself, or of a model where its endpoints have no ratings of their own.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// What is believed before its ratings.
    pub(super) prior: Posterior,
    /// Ratings of other endpoints in that.
    pub(super) ratings_before: f64,
    /// The answers that its score was measured of.
    pub(super) scored: Answers,
    /// Its ratings.
    pub(super) rated: Answers,
    /// The only account that uses it. `None`: several do.
    pub(super) account: Option<u64>,
    /// Its model.
    pub(super) model: &'a str,
    /// Whether it is the model as a whole.
    pub(super) is_whole: bool,
}

/// What is believed of each: the mean with the ratings of others, as sure as by its own. Accounts that alone use what they rated have
/// no more than `most_share` of what is believed of the rest.
pub fn with_others(all: &[Known<'_>], most_share: f64) -> Vec<Posterior> {
    let of = |(at, one): (usize, &Known<'_>)| {
        let others = (0..).zip(all).filter(|(other, _)| *other != at).map(|(_, other)| other);
        one.with(others.filter(|other| one.may_learn_from(other)), most_share)
    };
    all.iter().enumerate().map(of).collect()
}

impl<'a> Known<'a> {
    /// Of an endpoint, or a model with one: accepted and rejected answers of which its score was measured, and its ratings.
    pub fn new(model: &'a str, prior: Posterior, scored: [f64; 2], rated: [f64; 2]) -> Known<'a> {
        let [scored, rated] = [scored, rated].map(|[accepted, rejected]| Answers { accepted, rejected });
        Known { prior, ratings_before: 0.0, scored, rated, account: None, model, is_whole: false }
    }

    /// The figures that decisions read, where this is believed of it.
    pub(super) fn quality(&self, belief: Posterior) -> Quality {
        if !self.is_whole {
            return belief.quality(self.ratings_before + self.rated.total());
        }
        let pooled = belief.at_most(MOST_POOLED);
        pooled.quality(self.rated.total() * (pooled.strength() / belief.strength()))
    }

    fn may_learn_from(&self, other: &Known<'_>) -> bool {
        !(other.is_whole || self.is_whole && self.model == other.model)
    }

    fn with<'o>(&self, others: impl Iterator<Item = &'o Known<'o>>, most_share: f64) -> Posterior {
        let own = self.prior.with(self.rated.accepted, self.rated.rejected);
        if self.rated.total() <= 0.0 {
            return own;
        }
        let (mut lent, mut of_strangers, mut most_alike) = (Answers::default(), Answers::default(), 0.0_f64);
        for other in others.filter(|other| other.rated.total() > 0.0) {
            let alike = self.alike(other);
            let is_stranger = other.account.is_some() && other.account != self.account;
            let to = if is_stranger { &mut of_strangers } else { &mut lent };
            to.add(other.rated.times(alike));
            most_alike = most_alike.max(alike);
        }
        // No more than such a part of the sum.
        let part = |share: f64| own.strength() * share / (1.0 - share);
        lent.add(of_strangers.at_most(part(most_share)));
        let lent = lent.at_most(part(most_alike));
        own.with(lent.accepted, lent.rejected).at_most(own.strength())
    }

    /// Odds that both have one quality, at most 1: a Bayes factor with the normal approximation. Each has one answer more, of
    /// the common mean.
    fn alike(&self, other: &Known<'_>) -> f64 {
        let [one, two] = [self, other].map(|of| of.scored.at_most(MOST_SCORED).with(of.rated));
        let mean = (one.accepted + two.accepted + 1.0) / (one.total() + two.total() + 2.0);
        let [first, second] = [one, two].map(|of| (of.accepted + mean) / (of.total() + 1.0));
        let variance = mean * (1.0 - mean) * (1.0 / (one.total() + 1.0) + 1.0 / (two.total() + 1.0));
        let usual = USUAL_DIFFERENCE * USUAL_DIFFERENCE / variance;
        let squared = (first - second) * (first - second) / variance;
        let odds = PRIOR_ODDS * (1.0 + usual).sqrt() * libm::exp(-0.5 * squared * usual / (1.0 + usual));
        odds.min(1.0)
    }
}
