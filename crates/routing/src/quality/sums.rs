//! Sums of ratings, by class, model, endpoint, account and day.
//!
//! They are whole numbers: the order in which ratings come does not matter, and what is withdrawn leaves nothing behind.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_domain::{EndpointId, Task};

use super::{
    drift::{Arrival, Drift, DriftWatch},
    rated::{Rated, Sum},
};

/// The sums of all ratings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RatingSums {
    /// Ratings of people and programs.
    pub(super) used: BTreeMap<CellKey, Cell>,
    /// Ratings of judges.
    pub(super) judged: BTreeMap<CellKey, Cell>,
}

/// A class and a model.
pub(super) type CellKey = (Task, Arc<str>);

/// The ratings of a model for a class.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Cell {
    /// By endpoint, account and day.
    pub(super) sums: BTreeMap<(EndpointId, u64, i32), Sum>,
    pub(super) watch: DriftWatch,
}

impl RatingSums {
    /// Adds a rating. Gives the fall that it reveals.
    pub fn add(&mut self, rated: &Rated) -> Option<Drift> {
        let cell = self.cells(rated).entry(key(rated)).or_default();
        cell.change(rated, 1);
        cell.watch.add(rated.order, Arrival::of(rated))
    }

    /// Takes away a rating that was added. Gives whether too few of the latest are remembered now to see a fall: then all ratings
    /// are to be added anew.
    pub fn remove(&mut self, rated: &Rated) -> bool {
        let cells = self.cells(rated);
        let Some(cell) = cells.get_mut(&key(rated)) else { return false };
        cell.change(rated, -1);
        cell.watch.remove(rated.order, Arrival::of(rated));
        let is_short = cell.watch.is_short();
        if cell.sums.is_empty() {
            cells.remove(&key(rated));
        }
        is_short
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.used.is_empty() && self.judged.is_empty()
    }

    fn cells(&mut self, rated: &Rated) -> &mut BTreeMap<CellKey, Cell> {
        if rated.is_judged { &mut self.judged } else { &mut self.used }
    }
}

fn key(rated: &Rated) -> CellKey {
    (rated.task, Arc::clone(&rated.model))
}

impl Cell {
    fn change(&mut self, rated: &Rated, sign: i64) {
        let place = (rated.endpoint, rated.rater, rated.day);
        let sum = self.sums.entry(place).or_default();
        sum.add(Sum { count: sign, weight: sign * rated.weight, accepted: sign * rated.accepted });
        if *sum == Sum::default() {
            self.sums.remove(&place);
        }
    }

    /// Ratings of answers that were served on this day or later, by rater and day.
    pub(super) fn counts_since(&self, day: i32) -> impl Iterator<Item = ((u64, i32), i64)> {
        let since = self.sums.iter().filter(move |((.., served), _)| *served >= day);
        since.map(|((_, rater, served), sum)| ((*rater, *served), sum.count))
    }

    /// All ratings.
    pub(super) fn count(&self) -> i64 {
        self.sums.values().map(|sum| sum.count).sum()
    }
}
