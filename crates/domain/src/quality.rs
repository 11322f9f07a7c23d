//! Quality: the probability that an answer is acceptable, for one class of task.

use std::{fmt, sync::Arc};

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use super::task_class::Task;

/// What somebody measured: the probability that an answer of a model is acceptable, for one class of task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QualityScore {
    /// The probability, 0 to 1.
    pub score: f64,
    /// Answers that were judged.
    pub count: u32,
    /// Source of the score.
    pub source: Arc<str>,
    /// When it was measured.
    #[serde(with = "super::days")]
    pub date: NaiveDate,
    /// Under which licence the score may be used.
    pub licence: Option<Arc<str>>,
}

impl fmt::Display for QualityScore {
    /// `own-eval, 2026-11-02, n 225`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, n {}", self.source, self.date, self.count)
    }
}

/// Scores of a model or an endpoint: at most one for each class of task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct QualityScores(Arc<[(Task, QualityScore)]>);

impl QualityScores {
    /// The score for a class. `None`: unknown.
    pub fn get(&self, task: Task) -> Option<&QualityScore> {
        self.iter().find(|(of, _)| *of == task).map(|(_, score)| score)
    }

    /// All scores, in the order of the classes.
    pub fn iter(&self) -> impl Iterator<Item = (Task, &QualityScore)> {
        self.0.iter().map(|(task, score)| (*task, score))
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Of two scores for one class the later one stays.
impl FromIterator<(Task, QualityScore)> for QualityScores {
    fn from_iter<T: IntoIterator<Item = (Task, QualityScore)>>(scores: T) -> QualityScores {
        let mut of_task = Task::ALL.map(|_| None);
        for (task, score) in scores {
            if let Some(place) = of_task.get_mut(task as usize) {
                *place = Some((task, score));
            }
        }
        QualityScores(of_task.into_iter().flatten().collect())
    }
}

/// What is believed of the answers of an endpoint for one class of task: scores and ratings together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Mean of the posterior.
    pub mean: f64,
    /// Lower tenth of the posterior.
    pub tenth: f64,
    /// Ratings that count in it, faded ones in part. 0: it follows from scores alone.
    pub ratings: f64,
}

/// The least quality that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum QualityFloor {
    /// Of [`Quality::mean`].
    Mean(f64),
    /// Of [`Quality::tenth`].
    Tenth(f64),
}

crate::named! {
    /// What becomes of endpoints of unknown quality where a least one is wanted.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub enum UnknownQuality {
        /// They are excluded.
        Exclude = "exclude",
        /// They may serve.
        Allow = "allow",
    }
}

impl QualityFloor {
    /// Rounding of a posterior: a score that equals the floor is high enough.
    const ROUNDING: f64 = 1e-9;

    /// Whether a quality is high enough.
    pub fn admits(self, quality: &Quality) -> bool {
        let (figure, least) = self.figures(quality);
        figure >= least - Self::ROUNDING
    }

    /// The figure that is compared, and the least that is wanted.
    pub const fn figures(self, quality: &Quality) -> (f64, f64) {
        match self {
            QualityFloor::Mean(least) => (quality.mean, least),
            QualityFloor::Tenth(least) => (quality.tenth, least),
        }
    }
}

crate::named! {
    /// Source of a rating.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum RatingSource {
        /// A person who used it.
        User = "user",
        /// A program that used it, such as a test.
        Program = "program",
        /// A model that was asked to judge it. Kept apart from the others.
        Judge = "judge",
    }
}

impl RatingSource {
    /// The source with this name.
    pub fn named(name: &str) -> Option<RatingSource> {
        RatingSource::ALL.into_iter().find(|source| source.as_str() == name)
    }
}
