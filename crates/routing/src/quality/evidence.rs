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

/// How many answers were rated, and of how many.
#[derive(Default)]
struct Rates {
    /// Of the models that have ratings.
    models: BTreeMap<CellKey, ModelRates>,
    /// Of each class, on the days on which accounts rated some of it.
    classes: BTreeMap<Task, BTreeMap<(u64, i32), Share>>,
}

/// How many answers of a model for a class were rated, and of how many.
#[derive(Default)]
struct ModelRates {
    /// On the days on which accounts rated some of the class: others compare nothing.
    days: BTreeMap<(u64, i32), Share>,
    /// All answers.
    answers: f64,
    /// Several accounts asked it.
    is_shared: bool,
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
        for (key, cell) in cells {
            let model = rates.models.entry(key.clone()).or_default();
            let class = rates.classes.entry(key.0).or_default();
            for (of, count) in cell.counts_since(today.saturating_sub(RATE_DAYS)) {
                model.days.entry(of).or_default().ratings += count as f64;
                class.entry(of).or_default().ratings += count as f64;
            }
        }
        traffic.iter().for_each(|(key, by)| rates.add(key, by));
        rates
    }

    /// Adds the answers of a model. Looks only those up that are compared: ratings wait meanwhile, and there may be many others.
    fn add(&mut self, key: &CellKey, by: &Traffic) {
        let Some(class) = self.classes.get_mut(&key.0) else { return };
        let mut model = self.models.get_mut(key);
        if let Some(model) = &mut model {
            model.answers = by.values().map(|answers| *answers as f64).sum();
            let mut asked = by.iter().filter(|(_, answers)| **answers > 0).map(|((account, _), _)| account);
            model.is_shared = asked.next().is_some_and(|first| asked.any(|account| account != first));
        }
        for (of, share) in class {
            let Some(answers) = by.get(of) else { continue };
            share.answers += *answers as f64;
            if let Some(model) = &mut model {
                model.days.entry(*of).or_default().answers += *answers as f64;
            }
        }
    }

    fn is_shared(&self, key: &CellKey) -> bool {
        self.models.get(key).is_some_and(|model| model.is_shared)
    }

    fn rate(&self, key: &CellKey) -> Option<f64> {
        let model = self.models.get(key).filter(|model| model.answers > 0.0)?;
        let ratings: f64 = model.days.values().map(|share| share.ratings).sum();
        Some((ratings / model.answers).min(1.0))
    }

    /// Whether accounts rate the answers much more or less often than they rate those of the other models of the class. Each is
    /// compared with itself on the same day, so that neither who rates nor when they do counts for a choice between models, and none
    /// has more than `most_share` of the comparison where several use the model.
    fn is_selective(&self, key: &CellKey, most_share: f64) -> bool {
        let (Some(model), Some(class)) = (self.models.get(key), self.classes.get(&key.0)) else { return false };
        let mut sides = BTreeMap::<u64, [f64; 2]>::new();
        for ((account, day), own) in &model.days {
            let class = class.get(&(*account, *day)).copied().unwrap_or_default();
            let others = Share { answers: class.answers - own.answers, ratings: class.ratings - own.ratings };
            let ([had, expected], of_day) = (sides.entry(*account).or_default(), own.beside(others));
            (*had, *expected) = (*had + of_day[0], *expected + of_day[1]);
        }
        let most = if model.is_shared {
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
    /// Ratings that it had, and that it would have had at the rate of others, of as many answers as the smaller side has. An answer
    /// has one rating at most: where more are known, its answers are not counted yet.
    fn beside(self, others: Share) -> [f64; 2] {
        let answers = self.answers.min(others.answers);
        let of = |share: Share| {
            if answers > 0.0 { share.ratings.min(share.answers) * answers / share.answers } else { 0.0 }
        };
        [of(self), of(others)]
    }
}
