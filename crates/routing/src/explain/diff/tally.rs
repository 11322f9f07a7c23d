//! Sums over decisions that were made again. They are integers and sets, so two tallies merge in any order to the same bits.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use pointsman_domain::EndpointId;

use super::{
    bootstrap::{REPLICATES, weights},
    comparison::Redecided,
    histogram::{Histogram, Replicates},
    remake::Grade,
};

/// Most clusters that are told apart when they are counted.
const MOST_CLUSTERS: usize = 100_000;
/// Picodollars, and trillionths, in a unit of the replicates: 64 bits hold ten million dollars times a hundred.
const REPLICATE_UNIT: i64 = 10;

/// Sums over decisions that were made again.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Decisions.
    pub decisions: u64,
    /// Decisions by grade.
    pub grades: BTreeMap<Grade, u64>,
    /// Decisions with another choice.
    pub moved: u64,
    /// Decisions for which no endpoint is left, before and after.
    pub unserved: [u64; 2],
    /// Decisions that have no answer by the endpoints that could be the choice and were never measured.
    pub unmeasured: BTreeMap<EndpointId, u64>,
    /// Decisions of which the figures are summed: those that are answered.
    pub summed: u64,
    /// Picodollars before and after.
    pub cost: [i128; 2],
    /// What the least and the highest possible cost add to that before and after, where the choice is not certain.
    pub cost_bounds: [[i128; 2]; 2],
    /// Picodollars before of choices that had other prices when they were made.
    pub priced_otherwise: i128,
    /// Failures shown, in trillionths, before and after.
    pub failure: [i128; 2],
    /// List prices of the same tokens at both choices, picodollars, and the number of moved decisions behind them.
    pub repriced: (u64, [i128; 2]),
    /// By choices before and after.
    pub moves: BTreeMap<(Option<EndpointId>, Option<EndpointId>), Moved>,
    /// Moved decisions by the bits of the changes behind them.
    pub reasons: BTreeMap<u64, Moved>,
    /// The decisions that move the cost most.
    pub examples: BTreeSet<Example>,
    pub(super) first_token: [Histogram; 2],
    pub(super) total: [Histogram; 2],
    pub(super) first_token_replicates: [Replicates; 2],
    /// Cost before and after, failures before and after, requests, for each replicate.
    pub(super) replicates: Vec<[i64; 5]>,
    clusters: HashSet<u64>,
    most_examples: usize,
}

/// Decisions that moved alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moved {
    /// Their number.
    pub decisions: u64,
    /// By how much the cost changes, picodollars.
    pub cost: i128,
    /// By how much failures shown change, trillionths.
    pub failure: i128,
}

/// One decision of the answer. The greatest change of the cost comes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Example {
    rank: std::cmp::Reverse<u64>,
    /// Id of the generation, or the number of the record.
    pub name: String,
    /// Objective.
    pub objective: &'static str,
    /// The choice before.
    pub from: Option<EndpointId>,
    /// The choice after.
    pub to: Option<EndpointId>,
    /// The score of the choice before, in its own setup, and that of the choice after in its own; bits.
    scores: [u64; 2],
    /// Picodollars.
    pub cost: i64,
    /// Nanoseconds to the first token.
    pub first_token: i64,
}

impl Example {
    /// The score of the choice before and that of the choice after, each under its own configuration.
    pub fn scores(&self) -> [f64; 2] {
        self.scores.map(f64::from_bits)
    }
}

impl Tally {
    /// Without decisions, to keep so many examples.
    pub fn new(most_examples: usize) -> Tally {
        Tally {
            decisions: 0,
            grades: BTreeMap::new(),
            moved: 0,
            unserved: [0; 2],
            unmeasured: BTreeMap::new(),
            summed: 0,
            cost: [0; 2],
            cost_bounds: [[0; 2]; 2],
            priced_otherwise: 0,
            failure: [0; 2],
            repriced: (0, [0; 2]),
            moves: BTreeMap::new(),
            reasons: BTreeMap::new(),
            examples: BTreeSet::new(),
            first_token: Default::default(),
            total: Default::default(),
            first_token_replicates: Default::default(),
            replicates: vec![[0; 5]; REPLICATES],
            clusters: HashSet::new(),
            most_examples,
        }
    }

    /// Adds a decision. `cluster` is the same for decisions that depend on each other, as those of a session do. `name` and
    /// `objective` are for examples.
    pub fn add(&mut self, made: &Redecided, cluster: u64, name: &str, objective: &'static str) {
        self.count(made.grade);
        if made.grade == Grade::None {
            made.unmeasured.iter().for_each(|endpoint| *self.unmeasured.entry(*endpoint).or_default() += 1);
            return;
        }
        self.summed += 1;
        if self.clusters.len() <= MOST_CLUSTERS {
            self.clusters.insert(cluster);
        }
        self.sum(made);
        self.sum_replicates(made, cluster);
        if made.from != made.to {
            self.note_move(made, name, objective);
        }
    }

    /// Counts a decision of this grade, and nothing of its figures.
    pub fn count(&mut self, grade: Grade) {
        self.decisions += 1;
        *self.grades.entry(grade).or_default() += 1;
    }

    fn sum(&mut self, made: &Redecided) {
        for (side, figures) in [made.before, made.after].into_iter().enumerate() {
            let add = |sums: &mut [i128; 2], value: i64| {
                if let Some(sum) = sums.get_mut(side) {
                    *sum += i128::from(value);
                }
            };
            add(&mut self.cost, figures.cost);
            add(&mut self.failure, figures.failure);
        }
        let sides = self.cost_bounds.iter_mut().zip([made.before, made.after]).zip(made.cost_ranges);
        for (([lower, upper], figures), range) in sides {
            if let Some([least, most]) = range {
                *lower += i128::from((least - figures.cost).min(0));
                *upper += i128::from((most - figures.cost).max(0));
            }
        }
        if made.is_priced_otherwise {
            self.priced_otherwise += i128::from(made.before.cost);
        }
        let [before, after] = &mut self.unserved;
        *before += u64::from(made.from.is_none());
        *after += u64::from(made.to.is_none());
        let delta = made.after.cost - made.before.cost;
        if made.from != made.to || made.before != made.after {
            self.moves.entry((made.from, made.to)).or_default().add(delta, made);
        }
    }

    fn sum_replicates(&mut self, made: &Redecided, cluster: u64) {
        let weights = weights(cluster);
        let [cost, new_cost, failure, new_failure] =
            [made.before.cost, made.after.cost, made.before.failure, made.after.failure]
                .map(|figure| figure / REPLICATE_UNIT);
        let figures = [cost, new_cost, failure, new_failure, 1];
        for (sums, weight) in self.replicates.iter_mut().zip(&weights) {
            for (sum, figure) in sums.iter_mut().zip(figures) {
                *sum = sum.saturating_add(figure.saturating_mul(i64::from(*weight)));
            }
        }
        for (side, (figures, choice)) in [(made.before, made.from), (made.after, made.to)].into_iter().enumerate() {
            let (Some(first_token), Some(total)) = (self.first_token.get_mut(side), self.total.get_mut(side)) else {
                return;
            };
            if choice.is_some() {
                first_token.add(figures.first_token);
                total.add(figures.total);
                if let Some(replicates) = self.first_token_replicates.get_mut(side) {
                    replicates.add(figures.first_token, &weights);
                }
            }
        }
    }

    fn note_move(&mut self, made: &Redecided, name: &str, objective: &'static str) {
        self.moved += 1;
        let delta = made.after.cost - made.before.cost;
        self.reasons.entry(made.reason).or_default().add(delta, made);
        if let Some([before, after]) = made.repriced {
            let (count, [was, is]) = &mut self.repriced;
            *count += 1;
            *was += i128::from(before);
            *is += i128::from(after);
        }
        let rank = std::cmp::Reverse(delta.unsigned_abs());
        let is_shown = self.examples.len() < self.most_examples
            || self.examples.last().is_some_and(|last| (rank, name) < (last.rank, last.name.as_str()));
        if is_shown && self.most_examples > 0 {
            self.examples.insert(Example {
                rank,
                name: name.to_owned(),
                objective,
                from: made.from,
                to: made.to,
                scores: made.scores.map(f64::to_bits),
                cost: delta,
                first_token: made.after.first_token - made.before.first_token,
            });
            self.cut_examples();
        }
    }

    fn cut_examples(&mut self) {
        while self.examples.len() > self.most_examples {
            self.examples.pop_last();
        }
    }

    /// Adds the decisions of another tally.
    pub fn merge(&mut self, other: Tally) {
        self.decisions += other.decisions;
        self.moved += other.moved;
        self.summed += other.summed;
        other.grades.into_iter().for_each(|(grade, count)| *self.grades.entry(grade).or_default() += count);
        other.unmeasured.into_iter().for_each(|(id, count)| *self.unmeasured.entry(id).or_default() += count);
        let add =
            |sums: &mut [i128; 2], more: [i128; 2]| sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        add(&mut self.cost, other.cost);
        self.cost_bounds.iter_mut().zip(other.cost_bounds).for_each(|(sums, more)| add(sums, more));
        self.priced_otherwise += other.priced_otherwise;
        add(&mut self.failure, other.failure);
        self.repriced.0 += other.repriced.0;
        add(&mut self.repriced.1, other.repriced.1);
        self.unserved.iter_mut().zip(other.unserved).for_each(|(count, more)| *count += more);
        other.moves.into_iter().for_each(|(key, moved)| self.moves.entry(key).or_default().merge(moved));
        other.reasons.into_iter().for_each(|(key, moved)| self.reasons.entry(key).or_default().merge(moved));
        self.first_token.iter_mut().zip(other.first_token).for_each(|(mine, other)| mine.merge(&other));
        self.total.iter_mut().zip(other.total).for_each(|(mine, other)| mine.merge(&other));
        let replicates = self.first_token_replicates.iter_mut().zip(other.first_token_replicates);
        replicates.for_each(|(mine, other)| mine.merge(&other));
        for (sums, more) in self.replicates.iter_mut().zip(other.replicates) {
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        }
        let room = (MOST_CLUSTERS + 1).saturating_sub(self.clusters.len());
        let new: Vec<u64> =
            other.clusters.into_iter().filter(|cluster| !self.clusters.contains(cluster)).take(room).collect();
        self.clusters.extend(new);
        self.examples.extend(other.examples);
        self.cut_examples();
    }

    /// Number of clusters; `None` if there are more than are counted.
    pub fn clusters(&self) -> Option<usize> {
        Some(self.clusters.len()).filter(|count| *count <= MOST_CLUSTERS)
    }
}

impl Moved {
    fn add(&mut self, cost: i64, made: &Redecided) {
        self.merge(Moved {
            decisions: 1,
            cost: i128::from(cost),
            failure: i128::from(made.after.failure) - i128::from(made.before.failure),
        });
    }

    fn merge(&mut self, other: Moved) {
        self.decisions += other.decisions;
        self.cost += other.cost;
        self.failure += other.failure;
    }
}
