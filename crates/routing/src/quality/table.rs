//! The quality of every endpoint for every class of task, as decisions read it.

use pointsman_domain::{Catalog, EndpointId, Quality, QualityScores, Task};

use super::{evidence::Evidence, posterior::Posterior};

/// The quality of every endpoint for every class of task.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QualityTable {
    /// By position in the catalog, then by class. Empty where nothing is known at all.
    cells: Box<[[Option<Quality>; Task::ALL.len()]]>,
}

/// An endpoint with the scores that were measured of it.
#[derive(Debug, Clone, Copy)]
pub struct ScoredEndpoint<'a> {
    /// Its id.
    pub id: EndpointId,
    /// Catalog id of its model.
    pub model: &'a str,
    /// Scores of its model.
    pub scores: &'a QualityScores,
    /// Scores of its own, which come before those of the model.
    pub own_scores: &'a QualityScores,
}

impl QualityTable {
    /// From the endpoints in the order of the catalog, and from ratings.
    pub fn new<'a>(endpoints: impl Iterator<Item = ScoredEndpoint<'a>>, _evidence: &Evidence) -> QualityTable {
        let of = |endpoint: ScoredEndpoint<'_>| {
            Task::ALL.map(|task| {
                let score = endpoint.own_scores.get(task).or_else(|| endpoint.scores.get(task))?;
                Some(Posterior::of_score(score).quality(0.0))
            })
        };
        let cells: Box<[_]> = endpoints.map(of).collect();
        let is_known = cells.iter().flatten().any(Option::is_some);
        QualityTable { cells: if is_known { cells } else { Box::default() } }
    }

    /// From the scores of a catalog, and from ratings.
    pub fn of_catalog(catalog: &Catalog, evidence: &Evidence) -> QualityTable {
        let endpoints = catalog.endpoints.iter().filter_map(|endpoint| {
            let model = catalog.model_of(endpoint)?;
            let (scores, own_scores) = (&model.quality, &endpoint.quality);
            Some(ScoredEndpoint { id: endpoint.id, model: model.id.as_str(), scores, own_scores })
        });
        QualityTable::new(endpoints, evidence)
    }

    /// The same with another quality of one endpoint.
    #[must_use]
    pub fn with(&self, endpoint: u32, task: Task, quality: Quality) -> QualityTable {
        let mut cells = self.cells.to_vec();
        cells.resize(cells.len().max(endpoint as usize + 1), [None; Task::ALL.len()]);
        if let Some(cell) = cells.get_mut(endpoint as usize).and_then(|cells| cells.get_mut(task as usize)) {
            *cell = Some(quality);
        }
        QualityTable { cells: cells.into() }
    }

    /// The quality of the endpoint at this position. `None`: unknown.
    #[inline]
    pub fn get(&self, endpoint: u32, task: Task) -> Option<Quality> {
        *self.cells.get(endpoint as usize)?.get(task as usize)?
    }

    /// Whether nothing is known of any endpoint.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }
}
