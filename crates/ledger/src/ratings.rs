//! Ratings of answers: at most ten of each, numbers and names of the configuration, no text of a client.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use pointsman_domain::{EndpointId, Generation, GenerationId, RatingSource, Task};
use pointsman_routing::quality::{Rated, UNIT};

/// Most ratings of one answer, withdrawn and replaced ones included.
pub const MOST_RATINGS: usize = 10;
/// The name whose ratings count.
pub const ACCEPTED: &str = "accepted";
pub(crate) const DAY_MS: i64 = 86_400_000;

/// The answer that is rated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RatedAnswer {
    /// Its generation.
    pub id: GenerationId,
    /// When that was admitted, Unix milliseconds.
    pub created_ms: i64,
    /// Endpoint that served it, and class of the task; `None`: its ratings count nowhere.
    pub served: Option<Served>,
}

/// Endpoint that served, and class of the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Catalog id of the model.
    pub model: Arc<str>,
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Class of the task.
    pub task: Task,
}

/// One rating.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rating {
    /// What it says.
    pub name: Box<str>,
    /// Source of the rating.
    pub source: RatingSource,
    /// The account that sent it.
    pub rater: u64,
    /// When it came, Unix milliseconds.
    pub rated_ms: i64,
    /// How much of the answer is accepted, in [`UNIT`]s.
    pub value: i64,
    /// What it counts for, in [`UNIT`]s.
    pub weight: i64,
    /// Whether it was withdrawn.
    pub is_withdrawn: bool,
    /// Digest of the client's idempotency key.
    pub token: Option<[u8; 16]>,
}

impl RatedAnswer {
    /// The answer of a generation.
    pub fn of(generation: &Generation) -> RatedAnswer {
        let served = || {
            let task = generation.decision.task_class?.task;
            let model = generation.model.clone()?;
            Some(Served { model, endpoint: generation.served_endpoint()?.id, task })
        };
        RatedAnswer { id: generation.id, created_ms: generation.created_ms, served: served() }
    }

    /// What its ratings, in their order, add to the sums: at most one rating of those who use it, and one of judges.
    pub fn counted(&self, ratings: &[Rating]) -> impl Iterator<Item = Rated> {
        let latest =
            |source| effective(ratings).find(move |rating| rating.source == source && &*rating.name == ACCEPTED);
        let of_users = latest(RatingSource::User).or_else(|| latest(RatingSource::Program));
        let of_judges = latest(RatingSource::Judge);
        let rated = |rating: Option<&Rating>, is_judged| {
            let (Served { model, endpoint, task }, rating) = (self.served.clone()?, rating?);
            let mut order = DefaultHasher::new();
            self.id.hash(&mut order);
            Some(Rated {
                task,
                model,
                endpoint,
                is_judged,
                rater: rating.rater,
                day: i32::try_from(self.created_ms.div_euclid(DAY_MS)).unwrap_or_default(),
                order: (rating.rated_ms, order.finish()),
                weight: rating.weight,
                accepted: rating.weight.saturating_mul(rating.value) / UNIT,
            })
        };
        [rated(of_users, false), rated(of_judges, true)].into_iter().flatten()
    }
}

/// The ratings that hold: the latest of each name and source, unless it was withdrawn. The latest first.
pub fn effective(ratings: &[Rating]) -> impl Iterator<Item = &Rating> {
    let is_latest = |(at, rating): &(usize, &Rating)| {
        let later = ratings.get(at + 1..).unwrap_or_default();
        !later.iter().any(|other| (&other.name, other.source) == (&rating.name, rating.source))
    };
    ratings.iter().enumerate().rev().filter(is_latest).map(|(_, rating)| rating).filter(|rating| !rating.is_withdrawn)
}
