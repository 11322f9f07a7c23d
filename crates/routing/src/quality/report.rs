//! What is shown of the quality of each model and class.

use pointsman_domain::{Quality, QualityScore, QualityScores, Task};

use super::{
    belief::{Belief, Unscored},
    drift::Drift,
    evidence::Evidence,
    table::{Apart, ScoredEndpoint},
};

/// What is known of a model for a class.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelQuality<'a> {
    /// Catalog id of the model.
    pub model: &'a str,
    /// The class.
    pub task: Task,
    /// Its score.
    pub score: Option<&'a QualityScore>,
    /// What is believed now of endpoints without a score of their own, whether or not it may steer; `None`: unknown.
    pub quality: Option<Quality>,
    /// Ratings of people and programs, faded or not.
    pub ratings: u64,
    /// Share of the answers of the last thirty days that were rated; `None` without answers.
    pub rate: Option<f64>,
    /// Whether the ratings are shown only, because answers are rated much more or less often than others of the class.
    pub is_selective: bool,
    /// Whether an account rated more than counts of it.
    pub is_capped: bool,
    /// The fall that the ratings show now.
    pub drift: Option<Drift>,
    /// What judges say, in front of the same score.
    pub judged: Option<Quality>,
}

/// What is known of models with these endpoints, in the order of the models, then by class. Classes of which nothing is known are left
/// out.
pub fn report<'a>(
    models: impl IntoIterator<Item = (&'a str, &'a QualityScores)>,
    endpoints: impl IntoIterator<Item = ScoredEndpoint<'a>>,
    evidence: &Evidence,
) -> Vec<ModelQuality<'a>> {
    let (unscored, apart) = (Unscored::of(evidence), Apart::of(endpoints.into_iter()));
    let of = |(model, scores): (&'a str, &'a QualityScores)| Task::ALL.map(|task| (model, task, scores.get(task)));
    let known = models.into_iter().flat_map(of).filter_map(|(model, task, score)| {
        let (cell, judged) = (evidence.cell(task, model), evidence.judged(task, model));
        if score.is_none() && cell.is_none() && judged.is_none() {
            return None;
        }
        let counts = |id| !apart.contains((model, task), id);
        let unscored = || unscored.model(task, model, &|other, id| !apart.contains((model, other), id));
        let belief = |cell| Belief::of(score, cell, &counts, &unscored, evidence.most_share);
        let believed = belief(cell);
        Some(ModelQuality {
            model,
            task,
            score,
            quality: believed.as_ref().map(Belief::of_model),
            ratings: cell.map_or(0, |cell| cell.ratings),
            rate: cell.and_then(|cell| cell.rate),
            is_selective: cell.is_some_and(|cell| cell.is_selective),
            is_capped: believed.is_some_and(|belief| belief.is_capped),
            drift: cell.and_then(|cell| cell.drift),
            judged: judged.and_then(|cell| Some(belief(Some(cell))?.of_model())),
        })
    });
    known.collect()
}
