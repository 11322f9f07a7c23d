//! The quality of every endpoint for every class of task, as decisions read it.

use std::collections::BTreeMap;

use pointsman_domain::{Catalog, EndpointId, Quality, QualityScores, Task};

use super::{
    alike::{Known, with_others},
    belief::{Belief, Unscored},
    evidence::Evidence,
};

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

/// Endpoints with a score of their own for a class: ratings there count for no other endpoint of the model.
pub(super) struct Apart<'a>(BTreeMap<(&'a str, Task), Vec<EndpointId>>);

impl<'a> Apart<'a> {
    pub(super) fn of(endpoints: impl Iterator<Item = ScoredEndpoint<'a>>) -> Apart<'a> {
        let mut apart = Apart(BTreeMap::new());
        for endpoint in endpoints {
            for (task, _) in endpoint.own_scores.iter() {
                apart.0.entry((endpoint.model, task)).or_default().push(endpoint.id);
            }
        }
        apart
    }

    pub(super) fn contains(&self, key: (&str, Task), id: EndpointId) -> bool {
        self.0.get(&key).is_some_and(|ids| ids.contains(&id))
    }
}

impl<'a> ScoredEndpoint<'a> {
    /// The endpoints of a catalog, in its order.
    pub fn of_catalog(catalog: &'a Catalog) -> impl Iterator<Item = ScoredEndpoint<'a>> {
        catalog.endpoints.iter().filter_map(|endpoint| {
            let model = catalog.model_of(endpoint)?;
            let (scores, own_scores) = (&model.quality, &endpoint.quality);
            Some(ScoredEndpoint { id: endpoint.id, model: model.id.as_str(), scores, own_scores })
        })
    }
}

impl QualityTable {
    /// From the endpoints in the order of the catalog, and from ratings. Those with a score of their own learn from nobody else.
    pub fn new<'a>(endpoints: impl Iterator<Item = ScoredEndpoint<'a>>, evidence: &Evidence) -> QualityTable {
        let endpoints: Vec<ScoredEndpoint<'a>> = endpoints.collect();
        let is_scored = |endpoint: &ScoredEndpoint<'_>| !endpoint.scores.is_empty() || !endpoint.own_scores.is_empty();
        if evidence.cells.is_empty() && !endpoints.iter().any(is_scored) {
            return QualityTable::default();
        }
        let unscored = Unscored::of(evidence);
        let apart = Apart::of(endpoints.iter().copied());
        let classes = Task::ALL.map(|task| of_class(task, &endpoints, evidence, &unscored, &apart));
        let cells = |at: usize| classes.each_ref().map(|class| *class.get(at)?);
        QualityTable { cells: (0..endpoints.len()).map(cells).collect() }
    }

    /// From the scores of a catalog, and from ratings.
    pub fn of_catalog(catalog: &Catalog, evidence: &Evidence) -> QualityTable {
        QualityTable::new(ScoredEndpoint::of_catalog(catalog), evidence)
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

/// The quality of these endpoints for a class.
fn of_class<'a>(
    task: Task,
    endpoints: &[ScoredEndpoint<'a>],
    evidence: &Evidence,
    unscored: &Unscored<'_>,
    apart: &Apart<'_>,
) -> Vec<Option<Quality>> {
    let (mut beliefs, mut places) = (BTreeMap::new(), BTreeMap::new());
    let mut known: Vec<Known<'a>> = Vec::new();
    let mut place = |endpoint: &ScoredEndpoint<'a>| {
        let ScoredEndpoint { id, model, .. } = *endpoint;
        let own_score = endpoint.own_scores.get(task);
        let own = own_score.map(|_| id);
        let believe = || {
            let unscored = || unscored.model(task, model, &|other, id| !apart.contains((model, other), id));
            let counts = |of| own.map_or_else(|| !apart.contains((model, task), of), |own| of == own);
            let score = own_score.or_else(|| endpoint.scores.get(task));
            Belief::of(score, evidence.usable(task, model), &counts, &unscored, evidence.most_share)
        };
        let belief: &Belief = beliefs.entry((model, own)).or_insert_with(believe).as_ref()?;
        let own = own.or_else(|| belief.is_rated(id).then_some(id));
        Some(*places.entry((model, own)).or_insert_with(|| {
            known.push(own.map_or_else(|| belief.whole(model), |id| belief.endpoint(model, id)));
            known.len() - 1
        }))
    };
    let places: Vec<Option<usize>> = endpoints.iter().map(&mut place).collect();
    let believed = with_others(&known, evidence.most_share);
    let qualities: Vec<Quality> = known.iter().zip(believed).map(|(known, belief)| known.quality(belief)).collect();
    places.into_iter().map(|place| qualities.get(place?).copied()).collect()
}
