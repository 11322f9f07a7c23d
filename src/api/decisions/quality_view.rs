//! How good answers are, as JSON.

use pointsman_domain::{Quality, QualityScore};
use serde::Serialize;

use crate::api::number::{Figure, Text};

/// Probability that an answer is acceptable, with four decimals.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Quality"))]
pub(crate) struct QualityBody<'a> {
    /// What is believed, by score and ratings.
    pub(crate) mean: Figure,
    /// Its lower tenth.
    pub(crate) p10: Figure,
    /// Ratings that count in it; old ones count less.
    pub(crate) ratings: Figure,
    /// The score of the configuration in force; `null` without one.
    pub(crate) score: Option<ScoreBody<'a>>,
}

/// A score of a model or endpoint.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "QualityScore"))]
pub(crate) struct ScoreBody<'a> {
    /// Share of acceptable answers.
    pub(crate) score: Figure,
    /// Answers that were judged.
    pub(crate) n: u32,
    /// Source of the score.
    pub(crate) source: &'a str,
    /// When.
    pub(crate) date: Text<chrono::NaiveDate>,
}

impl<'a> QualityBody<'a> {
    pub(crate) fn new(quality: Quality, score: Option<&'a QualityScore>) -> QualityBody<'a> {
        QualityBody {
            mean: Figure::rounded(quality.mean, 4),
            p10: Figure::rounded(quality.tenth, 4),
            ratings: Figure::rounded(quality.ratings, 1),
            score: score.map(ScoreBody::new),
        }
    }
}

impl<'a> ScoreBody<'a> {
    pub(crate) fn new(score: &'a QualityScore) -> ScoreBody<'a> {
        let QualityScore { score, count, source, date, .. } = score;
        ScoreBody { score: Figure::rounded(*score, 4), n: *count, source, date: Text(*date) }
    }
}
