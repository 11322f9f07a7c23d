//! What ratings say on a day: faded with their age, by class, model, endpoint and account.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_domain::{EndpointId, Task};

use super::{
    drift::Drift,
    posterior::Answers,
    rated::faded,
    sums::{Cell, CellKey, RatingSums},
};

/// Days after which a rating counts half.
const HALF_LIFE: f64 = 30.0;
/// Days over which the share of rated answers is counted.
pub const RATE_DAYS: i32 = 30;
/// Rates that differ by more than this factor are not those of people who rate by chance.
const MOST_RATIO: f64 = 1.5;
/// Fewest ratings, had or expected, by which rates are compared: chance alone then moves their ratio by 26 %.
const FEWEST_RATINGS: f64 = 30.0;

/// Answers of a model for a class within [`RATE_DAYS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Answers.
    pub answers: u64,
    /// Accounts that asked.
    pub accounts: u32,
}

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
    /// Its answers are rated much more or less often than others of the class: who rates is not left to chance.
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
            let is_shared = rates.accounts(key) > 1;
            let mut evidence = CellEvidence::of(cell, today, is_shared);
            (evidence.rate, evidence.is_selective) = (rates.rate(key), rates.is_selective(key));
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

/// How many answers of each model and class were rated, and of how many.
struct Rates(BTreeMap<CellKey, (f64, Traffic)>);

impl Rates {
    fn of(cells: &BTreeMap<CellKey, Cell>, today: i32, traffic: &TrafficTable) -> Rates {
        let mut rates: BTreeMap<CellKey, (f64, Traffic)> =
            traffic.iter().map(|(key, seen)| (key.clone(), (0.0, *seen))).collect();
        for (key, cell) in cells {
            rates.entry(key.clone()).or_default().0 = cell.count_since(today.saturating_sub(RATE_DAYS)) as f64;
        }
        Rates(rates)
    }

    fn accounts(&self, key: &CellKey) -> u32 {
        self.0.get(key).map_or(0, |(_, traffic)| traffic.accounts)
    }

    fn rate(&self, key: &CellKey) -> Option<f64> {
        let (ratings, traffic) = self.0.get(key)?;
        (traffic.answers > 0).then(|| (ratings / traffic.answers as f64).min(1.0))
    }

    /// Whether the answers are rated much more or less often than those of the other models of the class.
    fn is_selective(&self, key: &CellKey) -> bool {
        let Some((ratings, traffic)) = self.0.get(key).filter(|(_, traffic)| traffic.answers > 0) else { return false };
        let others = self.0.iter().filter(|(other, (_, seen))| other.0 == key.0 && *other != key && seen.answers > 0);
        let (rated, answers) = others.fold((0.0, 0.0), |(rated, answers), (_, (ratings, seen))| {
            (rated + ratings, answers + seen.answers as f64)
        });
        if answers == 0.0 {
            return false;
        }
        let expected = traffic.answers as f64 * rated / answers;
        let is_known = ratings.max(expected) >= FEWEST_RATINGS;
        is_known && (*ratings > MOST_RATIO * expected || expected > MOST_RATIO * ratings)
    }
}
