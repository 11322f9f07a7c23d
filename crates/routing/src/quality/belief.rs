//! What is believed of a model for a class, and of each of its endpoints.

use std::collections::BTreeMap;

use pointsman_domain::{EndpointId, Quality, QualityScore, Task};

use super::{
    alike::{Known, MOST_POOLED},
    evidence::{CellEvidence, Evidence},
    posterior::{Answers, Posterior},
    share::most_of_one,
};

/// Fewest ratings, faded, of a model without a score: with less it is unknown.
const FEWEST: f64 = 0.5;

/// What is believed of a model for a class.
#[derive(Debug, Clone)]
pub(super) struct Belief {
    prior: Posterior,
    /// The answers that its score was measured of.
    scored: Answers,
    /// Ratings that count, of all endpoints and of each.
    all: Answers,
    endpoints: BTreeMap<EndpointId, Answers>,
    /// The only account that uses it.
    account: Option<u64>,
    /// Whether an account says more than counts.
    pub(super) is_capped: bool,
}

impl Belief {
    /// From a score, or else from what is believed of a model without one, and from the ratings of the endpoints that count. `None`:
    /// nothing is known.
    pub(super) fn of(
        score: Option<&QualityScore>,
        cell: Option<&CellEvidence>,
        counts: &dyn Fn(EndpointId) -> bool,
        unscored: &dyn Fn() -> Posterior,
        most_share: f64,
    ) -> Option<Belief> {
        let rated: Vec<_> = cell.iter().flat_map(|cell| &cell.by).filter(|(id, ..)| counts(*id)).collect();
        let weight = rated.iter().map(|(.., answers)| answers.total()).sum::<f64>();
        let prior = match score {
            Some(score) => Posterior::of_score(score),
            None if weight >= FEWEST => unscored(),
            None => return None,
        };
        let is_shared = cell.is_some_and(|cell| cell.is_shared);
        let account = rated.first().filter(|_| !is_shared).map(|(_, rater, _)| *rater);
        let raters = rated.iter().map(|(_, rater, answers)| (*rater, *answers));
        let cap = Cap::of(raters, prior.strength(), is_shared, most_share);
        let (mut all, mut endpoints) = (Answers::default(), BTreeMap::<EndpointId, Answers>::new());
        for (id, rater, answers) in rated {
            let counted = answers.times(cap.factor(*rater));
            endpoints.entry(*id).or_default().add(counted);
            all.add(counted);
        }
        let scored = score.map_or(Answers::default(), Answers::of_score);
        Some(Belief { prior, scored, all, endpoints, account, is_capped: cap.cuts() })
    }

    /// Of the model as a whole.
    pub(super) fn of_model(&self) -> Quality {
        self.prior.with(self.all.accepted, self.all.rejected).quality(self.all.total())
    }

    /// Of one of its endpoints: its own ratings on top of what is believed of the others.
    pub(super) fn endpoint<'a>(&self, model: &'a str, id: EndpointId) -> Known<'a> {
        let own = self.endpoints.get(&id).copied().unwrap_or_default();
        let others = self.all.without(own);
        let belief = self.prior.with(others.accepted, others.rejected);
        let prior = belief.at_most(MOST_POOLED);
        let ratings_before = others.total() * (prior.strength() / belief.strength());
        Known { prior, ratings_before, rated: own, is_whole: false, ..self.whole(model) }
    }

    /// Of the endpoints without ratings.
    pub(super) fn whole<'a>(&self, model: &'a str) -> Known<'a> {
        let Belief { prior, scored, all, account, .. } = *self;
        Known { prior, ratings_before: 0.0, scored, rated: all, account, model, is_whole: true }
    }

    pub(super) fn is_rated(&self, id: EndpointId) -> bool {
        self.endpoints.contains_key(&id)
    }
}

/// What is believed of models without a score before their ratings for a class.
pub(super) struct Unscored<'e> {
    evidence: &'e Evidence,
    /// What is usual of each class.
    classes: [Posterior; Task::ALL.len()],
}

impl<'e> Unscored<'e> {
    pub(super) fn of(evidence: &'e Evidence) -> Unscored<'e> {
        Unscored { evidence, classes: Task::ALL.map(|task| usual(evidence, task)) }
    }

    /// As is usual of the class, moved by how much better or worse the model's ratings for other classes are than is usual there.
    /// Only those of the endpoints that count.
    pub(super) fn model(&self, task: Task, model: &str, counts: &dyn Fn(Task, EndpointId) -> bool) -> Posterior {
        let of_others = |(other, class): (Task, &Posterior)| {
            let cell = self.evidence.usable(other, model).filter(|_| other != task)?;
            let counted = cell.by.iter().filter(|(id, ..)| counts(other, *id));
            Some((cell.is_shared, counted.map(|(_, rater, answers)| (*rater, *answers, class.mean())).collect()))
        };
        let cells: Vec<(bool, Vec<_>)> = Task::ALL.into_iter().zip(&self.classes).filter_map(of_others).collect();
        let rated = || cells.iter().flat_map(|(_, rated)| rated);
        let (class, is_shared) = (self.class(task), cells.iter().any(|(is_shared, _)| *is_shared));
        let raters = rated().map(|(rater, answers, _)| (*rater, *answers));
        let cap = Cap::of(raters, class.strength(), is_shared, self.evidence.most_share);
        let (mut gain, mut ratings) = (0.0, 0.0);
        for (rater, answers, mean) in rated() {
            let counted = answers.times(cap.factor(*rater));
            gain += counted.accepted - mean * counted.total();
            ratings += counted.total();
        }
        class.moved(gain, ratings)
    }

    fn class(&self, task: Task) -> Posterior {
        self.classes.get(task as usize).copied().unwrap_or(Posterior::of_class(0.0, 0.0))
    }
}

/// What is believed of a model of which only the class is known, by the ratings of all models that may steer.
fn usual(evidence: &Evidence, task: Task) -> Posterior {
    let of_class = || evidence.cells.iter().filter(|(key, _)| key.0 == task).map(|(_, cell)| cell);
    let cells = || of_class().filter(|cell| !cell.is_selective);
    let raters = || cells().flat_map(|cell| &cell.by).map(|(_, rater, answers)| (*rater, *answers));
    let is_shared = cells().any(|cell| cell.is_shared);
    let cap = Cap::of(raters(), Posterior::of_class(0.0, 0.0).strength(), is_shared, evidence.most_share);
    let mut all = Answers::default();
    raters().for_each(|(rater, answers)| all.add(answers.times(cap.factor(rater))));
    Posterior::of_class(all.accepted, all.rejected)
}

/// What each account counts for.
struct Cap {
    totals: BTreeMap<u64, f64>,
    most: f64,
}

impl Cap {
    fn of(raters: impl Iterator<Item = (u64, Answers)>, prior: f64, is_shared: bool, share: f64) -> Cap {
        let mut totals = BTreeMap::new();
        raters.for_each(|(rater, answers)| *totals.entry(rater).or_default() += answers.total());
        let most =
            if is_shared { most_of_one(totals.values().copied().collect(), prior, share) } else { f64::INFINITY };
        Cap { totals, most }
    }

    fn factor(&self, rater: u64) -> f64 {
        self.totals.get(&rater).map_or(1.0, |total| if *total > self.most { self.most / total } else { 1.0 })
    }

    fn cuts(&self) -> bool {
        self.totals.values().any(|total| *total > self.most)
    }
}
