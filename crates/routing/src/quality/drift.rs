//! Whether the answers of a model have become worse: the last [`WINDOW`] ratings beside all before them.
//!
//! The logarithm of the Bayes factor says how much better two probabilities explain the ratings than one. Beyond [`CERTAIN`] a fall
//! is announced, once, and older ratings of the accounts that saw it count half from then on: what an account said is devalued only
//! by what it says itself. Nothing else happens by itself.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    posterior::Answers,
    rated::{Rated, Sum, faded},
};

/// Ratings that are compared with those before them, and looks in a row that must find a fall. So a constant 0.8 raises an alarm in
/// 0.4 % of 8,000 runs of 1,000 ratings, and a fall from 0.9 to 0.6 is found within sixty ratings in 93 %; one look gives 0.6 and 95 %, three
/// 0.3 and 92 %. With 32, 64 and 128 ratings beside each other, whichever is most certain, one look gives 1.8 and 95 %.
const WINDOW: usize = 56;
const LOOKS: u32 = 2;
/// Latest ratings that are remembered, so that one which is withdrawn leaves the others in the window.
const REMEMBERED: usize = 2 * WINDOW;
/// Fewest ratings before the window.
const FEWEST_BEFORE: f64 = 20.0;
/// Days after which a rating before the window counts half.
const HALF_LIFE: f64 = 90.0;
/// Logarithm of the Bayes factor from which on there is a fall.
const CERTAIN: f64 = 6.0;
/// Falls of one model and class that are remembered: what is older than so many has faded.
const MOST_FALLS: usize = 8;

/// A fall that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Time of the rating that revealed it, Unix milliseconds.
    pub found_ms: i64,
    /// Mean before the window.
    pub before: f64,
    /// Mean within it.
    pub after: f64,
}

/// A rating as it came.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Arrival {
    day: i32,
    rater: u64,
    sum: Sum,
}

/// What is known of the falls of one model and class.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct DriftWatch {
    days: BTreeMap<i32, Sum>,
    latest: BTreeMap<(i64, u64), Arrival>,
    falls: Vec<Fall>,
    /// Latest looks in a row that found a fall.
    looks: u32,
    is_falling: bool,
    /// Before the latest rating.
    before: Option<Before>,
}

/// What the latest rating changed apart from the sums, so that it leaves nothing behind when it is withdrawn.
#[derive(Debug, Clone, PartialEq)]
struct Before {
    order: (i64, u64),
    looks: u32,
    is_falling: bool,
    /// If it revealed a fall.
    falls: Option<Vec<Fall>>,
    /// The rating that was remembered no longer.
    forgotten: Option<((i64, u64), Arrival)>,
}

/// A fall, and whose older ratings it devalues.
#[derive(Debug, Clone, PartialEq)]
struct Fall {
    drift: Drift,
    /// Place of the latest rating that it follows from: the one that revealed it, or if one of those was withdrawn, the latest of all.
    order: (i64, u64),
    /// Latest day with ratings when it was found, since 1970: those of earlier days are older.
    day: i32,
    /// The accounts that saw it.
    raters: BTreeSet<u64>,
}

impl Arrival {
    pub(super) fn of(rated: &Rated) -> Arrival {
        Arrival {
            day: rated.day,
            rater: rated.rater,
            sum: Sum { count: 1, weight: rated.weight, accepted: rated.accepted },
        }
    }

    fn taken(self) -> Arrival {
        let Sum { count, weight, accepted } = self.sum;
        Arrival { sum: Sum { count: -count, weight: -weight, accepted: -accepted }, ..self }
    }
}

impl DriftWatch {
    /// Adds a rating. Gives the fall that it reveals.
    pub(super) fn add(&mut self, order: (i64, u64), arrival: Arrival) -> Option<Drift> {
        self.count(arrival);
        self.latest.insert(order, arrival);
        let forgotten = if self.latest.len() > REMEMBERED { self.latest.pop_first() } else { None };
        let (looks, is_falling) = (self.looks, self.is_falling);
        self.before = Some(Before { order, looks, is_falling, falls: None, forgotten });
        let comparison = self.compare();
        let certainty = comparison.map_or(0.0, |(certainty, _)| certainty);
        self.looks = if certainty > CERTAIN { self.looks.saturating_add(1) } else { 0 };
        let was_falling = self.is_falling;
        self.is_falling = self.looks >= LOOKS || (was_falling && certainty > 0.0);
        let (_, drift) = comparison.filter(|_| self.is_falling && !was_falling)?;
        let drift = Drift { found_ms: order.0, ..drift };
        if let Some(before) = &mut self.before {
            before.falls = Some(self.falls.clone());
        }
        if self.falls.len() == MOST_FALLS {
            self.falls.remove(0);
        }
        self.falls.push(Fall { drift, order, day: self.latest_day(), raters: self.witnesses(drift) });
        Some(drift)
    }

    /// The accounts that saw a fall: their own ratings within the window are nearer to the mean after it than to that before.
    fn witnesses(&self, Drift { before, after, .. }: Drift) -> BTreeSet<u64> {
        let mut by: BTreeMap<u64, Answers> = BTreeMap::new();
        self.window().for_each(|arrival| by.entry(arrival.rater).or_default().add(arrival.sum.answers()));
        let saw = |answers: &Answers| answers.accepted < 0.5 * (before + after) * answers.total();
        by.into_iter().filter(|(_, answers)| saw(answers)).map(|(rater, _)| rater).collect()
    }

    /// Takes a rating away: the latest one as if it had never come. A fall that another one had shown, and that those that are left
    /// do not reveal, had not been one.
    pub(super) fn remove(&mut self, order: (i64, u64), arrival: Arrival) {
        self.count(arrival.taken());
        let before = self.before.take().filter(|before| before.order == order);
        if let Some(Before { looks, is_falling, falls, forgotten, .. }) = before {
            self.latest.extend(forgotten);
            self.latest.remove(&order);
            (self.looks, self.is_falling) = (looks, is_falling);
            self.falls = falls.unwrap_or_else(|| std::mem::take(&mut self.falls));
            return;
        }
        self.latest.remove(&order);
        let certainty = self.compare().map_or(0.0, |(certainty, _)| certainty);
        let is_certain = certainty > CERTAIN;
        let last = self.latest.last_key_value().map(|(last, _)| *last);
        match self.falls.last_mut().filter(|fall| self.is_falling && order <= fall.order) {
            // The latest look is not enough by itself.
            Some(fall) if is_certain && last >= Some(fall.order) => fall.order = last.unwrap_or(fall.order),
            Some(_) => {
                self.falls.pop();
                (self.is_falling, self.looks) = (false, LOOKS - 1);
            }
            None => self.is_falling &= certainty > 0.0,
        }
        if !is_certain {
            self.looks = 0;
        }
    }

    /// Whether ratings that were withdrawn left fewer in the window than there are.
    pub(super) fn is_short(&self) -> bool {
        let all = self.days.values().map(|sum| sum.count).sum::<i64>();
        self.latest.len() < WINDOW && usize::try_from(all).is_ok_and(|all| self.latest.len() < all)
    }

    /// The fall that is still seen.
    pub(super) fn current(&self) -> Option<Drift> {
        self.falls.last().map(|fall| fall.drift).filter(|_| self.is_falling)
    }

    /// What the falls leave of a rating of this account and day.
    pub(super) fn kept(&self, rater: u64, day: i32) -> f64 {
        let is_devalued = |fall: &&Fall| day < fall.day && fall.raters.contains(&rater);
        self.falls.iter().filter(is_devalued).fold(1.0, |kept, _| 0.5 * kept)
    }

    fn window(&self) -> impl Iterator<Item = &Arrival> {
        self.latest.values().rev().take(WINDOW)
    }

    fn latest_day(&self) -> i32 {
        self.days.keys().next_back().copied().unwrap_or_default()
    }

    fn count(&mut self, Arrival { day, sum, .. }: Arrival) {
        let of_day = self.days.entry(day).or_default();
        of_day.add(sum);
        if *of_day == Sum::default() {
            self.days.remove(&day);
        }
    }

    /// How certain it is that the window is worse than what came before, and the means of both. `None` if it is not worse, or
    /// there are too few ratings.
    fn compare(&self) -> Option<(f64, Drift)> {
        let today = self.latest_day();
        let fade = |day: i32| faded(today, day, HALF_LIFE);
        let (mut before, mut after) = (Answers::default(), Answers::default());
        self.days.iter().for_each(|(day, sum)| before.add(sum.answers().times(fade(*day))));
        for arrival in self.window() {
            before = before.without(arrival.sum.answers().times(fade(arrival.day)));
            after.add(arrival.sum.answers());
        }
        let has_enough = self.window().count() == WINDOW && before.total() >= FEWEST_BEFORE && after.total() > 0.0;
        let drift = Drift { found_ms: 0, before: mean(before), after: mean(after) };
        (has_enough && drift.after < drift.before).then(|| (log_bayes_factor(before, after), drift))
    }
}

fn mean(answers: Answers) -> f64 {
    answers.accepted / answers.total()
}

/// How much better two probabilities explain the ratings than one, as a logarithm; each is uniform beforehand.
fn log_bayes_factor(before: Answers, after: Answers) -> f64 {
    let mut all = before;
    all.add(after);
    let of = |answers: Answers| log_beta(answers.accepted + 1.0, answers.rejected + 1.0);
    of(before) + of(after) - of(all)
}

fn log_beta(a: f64, b: f64) -> f64 {
    libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b)
}
