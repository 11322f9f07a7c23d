//! What ratings say on a day: faded with their age, by class, model, endpoint and account.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_domain::{EndpointId, Task};

use super::{
    drift::Drift,
    posterior::Answers,
    rated::faded,
    share::most_of_one,
    sums::{Cell, CellKey, RatingSums},
};

/// Days after which a rating counts half.
const HALF_LIFE: f64 = 30.0;
/// Days over which the share of rated answers is counted.
pub const RATE_DAYS: i32 = 30;
/// Rates that differ by more than this factor are not those of people who rate by chance.
const MOST_RATIO: f64 = 1.5;
/// Ratings that are assumed beside those had and those expected, so that a few tell nothing: sixteen do where none are expected.
const ASSUMED_RATINGS: f64 = 30.0;

/// Answers of a model for a class within [`RATE_DAYS`], by account and day since 1970.
pub type Traffic = BTreeMap<(u64, i32), u64>;

/// Traffic by class and model.
pub type TrafficTable = BTreeMap<(Task, Arc<str>), Traffic>;

/// Evidence of all ratings.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    pub(super) cells: BTreeMap<CellKey, CellEvidence>,
    pub(super) judged: BTreeMap<CellKey, CellEvidence>,
    /// Largest share of the evidence that comes from one account, where several use a model.
    pub(super) most_share: f64,
}

/// Without ratings.
impl Default for Evidence {
    fn default() -> Evidence {
        Evidence { cells: BTreeMap::new(), judged: BTreeMap::new(), most_share: 1.0 }
    }
}

/// What ratings of a model say for a class.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct CellEvidence {
    /// Ratings by endpoint and account.
    pub(super) by: Vec<(EndpointId, u64, Answers)>,
    /// Several accounts use it, or rate it.
    pub(super) is_shared: bool,
    /// Accounts rate its answers much more or less often than others of the class: who rates is not left to chance.
    pub(super) is_selective: bool,
    /// Ratings, faded or not.
    pub(super) ratings: u64,
    /// Share of the answers that were rated; `None` without answers.
    pub(super) rate: Option<f64>,
    /// The fall that they show now.
    pub(super) drift: Option<Drift>,
}

impl RatingSums {
    /// What the ratings say on this day. One account has at most `most_share` of the evidence of a model that others use too.
    pub fn evidence(&self, today: i32, traffic: &TrafficTable, most_share: f64) -> Evidence {
        let rates = Rates::of(&self.used, today, traffic);
        let used = |(key, cell): (&CellKey, &Cell)| {
            let mut evidence = CellEvidence::of(cell, today, rates.is_shared(key));
            (evidence.rate, evidence.is_selective) = (rates.rate(key), rates.is_selective(key, most_share));
            (key.clone(), evidence)
        };
        let judged = |(key, cell): (&CellKey, &Cell)| (key.clone(), CellEvidence::of(cell, today, false));
        Evidence {
            cells: self.used.iter().map(used).collect(),
            judged: self.judged.iter().map(judged).collect(),
            most_share,
        }
    }
}

impl Evidence {
    /// The ratings of a model for a class, if they may steer.
    pub(super) fn usable(&self, task: Task, model: &str) -> Option<&CellEvidence> {
        self.cell(task, model).filter(|cell| !cell.is_selective)
    }

    pub(super) fn cell(&self, task: Task, model: &str) -> Option<&CellEvidence> {
        self.cells.get(&(task, Arc::from(model)))
    }

    pub(super) fn judged(&self, task: Task, model: &str) -> Option<&CellEvidence> {
        self.judged.get(&(task, Arc::from(model)))
    }
}

impl CellEvidence {
    fn of(cell: &Cell, today: i32, is_shared: bool) -> CellEvidence {
        let mut by: Vec<(EndpointId, u64, Answers)> = Vec::new();
        for ((endpoint, rater, day), sum) in &cell.sums {
            let answers = sum.answers().times(faded(today, *day, HALF_LIFE) * cell.watch.kept(*rater, *day));
            match by.last_mut() {
                Some((id, whose, known)) if (*id, *whose) == (*endpoint, *rater) => known.add(answers),
                _ => by.push((*endpoint, *rater, answers)),
            }
        }
        let is_shared = is_shared || by.iter().any(|(_, rater, _)| by.first().is_some_and(|first| first.1 != *rater));
        let ratings = u64::try_from(cell.count()).unwrap_or_default();
        CellEvidence { by, is_shared, ratings, drift: cell.watch.current(), ..CellEvidence::default() }
    }
}

/// How many answers of each account and day were rated, and of how many: of each class and model, and of each class.
#[derive(Default)]
struct Rates {
    cells: BTreeMap<CellKey, BTreeMap<(u64, i32), Share>>,
    classes: BTreeMap<(Task, u64, i32), Share>,
}

/// Answers, and how many of them were rated.
#[derive(Clone, Copy, Default)]
struct Share {
    answers: f64,
    ratings: f64,
}

impl Rates {
    fn of(cells: &BTreeMap<CellKey, Cell>, today: i32, traffic: &TrafficTable) -> Rates {
        let mut rates = Rates::default();
        for (key, by) in traffic {
            by.iter().for_each(|(of, answers)| rates.add(key, *of, *answers as f64, 0.0));
        }
        for (key, cell) in cells {
            let since = cell.counts_since(today.saturating_sub(RATE_DAYS));
            since.for_each(|(of, count)| rates.add(key, of, 0.0, count as f64));
        }
        rates
    }

    fn add(&mut self, key: &CellKey, (account, day): (u64, i32), answers: f64, ratings: f64) {
        let of_cell = self.cells.entry(key.clone()).or_default().entry((account, day)).or_default();
        for share in [of_cell, self.classes.entry((key.0, account, day)).or_default()] {
            share.answers += answers;
            share.ratings += ratings;
        }
    }

    fn is_shared(&self, key: &CellKey) -> bool {
        let Some(by) = self.cells.get(key) else { return false };
        let mut asked = by.iter().filter(|(_, share)| share.answers > 0.0).map(|((account, _), _)| account);
        asked.next().is_some_and(|first| asked.any(|account| account != first))
    }

    fn rate(&self, key: &CellKey) -> Option<f64> {
        let by = self.cells.get(key)?.values();
        let (ratings, answers) = by.fold((0.0, 0.0), |all, share| (all.0 + share.ratings, all.1 + share.answers));
        (answers > 0.0).then(|| (ratings / answers).min(1.0))
    }

    /// Whether accounts rate the answers much more or less often than they rate those of the other models of the class. Each is
    /// compared with itself on the same day, so that neither who rates nor when they do counts for a choice between models, and none
    /// has more than `most_share` of the comparison where several use the model.
    fn is_selective(&self, key: &CellKey, most_share: f64) -> bool {
        let Some(by) = self.cells.get(key) else { return false };
        let mut sides = BTreeMap::<u64, [f64; 2]>::new();
        for ((account, day), own) in by {
            let class = self.classes.get(&(key.0, *account, *day)).copied().unwrap_or_default();
            let others = Share { answers: class.answers - own.answers, ratings: class.ratings - own.ratings };
            let ([had, expected], of_day) = (sides.entry(*account).or_default(), own.beside(others));
            (*had, *expected) = (*had + of_day[0], *expected + of_day[1]);
        }
        let most = if self.is_shared(key) {
            most_of_one(sides.values().map(|[had, expected]| had.max(*expected)).collect(), ASSUMED_RATINGS, most_share)
        } else {
            f64::INFINITY
        };
        let (mut had, mut expected) = (ASSUMED_RATINGS, ASSUMED_RATINGS);
        for side in sides.into_values() {
            let counted = (most / side[0].max(side[1])).min(1.0);
            had += counted * side[0];
            expected += counted * side[1];
        }
        had > MOST_RATIO * expected || expected > MOST_RATIO * had
    }
}

impl Share {
    /// Ratings that it had, and that it would have had at the rate of others, of as many answers as the smaller side has.
    fn beside(self, others: Share) -> [f64; 2] {
        let answers = self.answers.min(others.answers);
        let of = |share: Share| if answers > 0.0 { share.ratings * answers / share.answers } else { 0.0 };
        [of(self), of(others)]
    }
}
