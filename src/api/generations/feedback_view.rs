//! JSON of ratings.

use pointsman_ledger::ratings::{Rating, effective};
use pointsman_routing::quality::UNIT;
use serde::Serialize;

use crate::{
    api::{models::measurements::rfc_3339, number::Figure},
    state::feedback::Outcome,
};

/// What became of a rating.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(crate) struct RatedBody {
    /// Whether it is stored.
    recorded: bool,
    /// Whether it counts towards the quality of the model and the endpoint that served.
    counted: bool,
    /// Why it does not count, or is not stored; `null` if it does and is.
    why: Option<&'static str>,
}

/// What became of a rating of a batch.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(crate) struct BatchRatedBody {
    /// The id that was sent.
    pub(super) generation_id: String,
    #[serde(flatten)]
    pub(super) rated: RatedBody,
}

/// The ratings of an answer.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(crate) struct RatingsBody<'a> {
    /// The ratings that hold, one of each name and source, the latest first.
    pub(super) data: Vec<RatingView<'a>>,
}

/// A rating of an answer.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(crate) struct RatingView<'a> {
    /// What it says.
    name: &'a str,
    /// Source of the rating: `user`, `program` or `judge`.
    #[cfg_attr(test, schemars(extend("enum" = ["user", "program", "judge"])))]
    source: &'static str,
    /// How much of the answer is accepted, 0 to 1.
    #[cfg_attr(test, schemars(with = "f64"))]
    value: Figure,
    /// What it counts for, at most 1.
    #[cfg_attr(test, schemars(with = "f64"))]
    weight: Figure,
    /// When it came. RFC 3339, UTC.
    rated_at: String,
}

/// How many ratings were withdrawn.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct WithdrawnBody {
    /// Ratings that held until then.
    pub(super) withdrawn: usize,
}

impl RatedBody {
    pub(super) const fn of(outcome: Outcome) -> RatedBody {
        match outcome {
            Outcome::Counted => RatedBody { recorded: true, counted: true, why: None },
            Outcome::Uncounted(why) => RatedBody { recorded: true, counted: false, why: Some(why) },
            Outcome::TooMany | Outcome::Withdrawn(_) => RatedBody::refused("too_many_ratings"),
        }
    }

    /// One that is not stored.
    pub(super) const fn refused(why: &'static str) -> RatedBody {
        RatedBody { recorded: false, counted: false, why: Some(why) }
    }
}

impl<'a> RatingView<'a> {
    fn new(rating: &'a Rating) -> RatingView<'a> {
        let share = |units: i64| Figure::rounded(units as f64 / UNIT as f64, 6);
        RatingView {
            name: &rating.name,
            source: rating.source.as_str(),
            value: share(rating.value),
            weight: share(rating.weight),
            rated_at: rfc_3339(rating.rated_ms),
        }
    }
}

/// The ratings that hold, the latest first.
pub(crate) fn views(ratings: &[Rating]) -> Vec<RatingView<'_>> {
    effective(ratings).map(RatingView::new).collect()
}
