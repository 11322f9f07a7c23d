//! JSON of the part of a divided alias that a request fell to.

use pointsman_domain::TakenSplit;
use pointsman_routing::split;
use serde::Serialize;

use crate::api::number::Figure;

view! {
    /// The part of the alias that the request fell to, and the other parts.
    pub(crate) struct SplitBody<'a> {
        pub(crate) fn new(taken: &'a TakenSplit) {
            let parts = split::parts(&taken.split, taken.canary_stopped).into_iter();
            let part = |(part, probability): (pointsman_domain::SplitPart, f64)| PartBody {
                part: part.name(),
                probability: Figure::rounded(probability, 6),
            };
        }

        /// `own`: the alias itself. `rule 1`: what its first rule leads elsewhere; `share 1`: its first share; `canary`: what is
        /// on trial.
        pub(crate) part: String = taken.part.name(),
        /// Probability of the part before the place of the request was known, 0 to 1. `selection_probability` of the candidates
        /// includes it. 1 for a rule.
        pub(crate) probability: Figure = Figure::rounded(taken.probability, 6),
        /// What stays at the same part. `request`: the request had nothing of what the alias asks for, or it asks for nothing.
        #[cfg_attr(test, schemars(extend("enum" = ["session", "user", "key", "request"])))]
        pub(crate) sticky: &'static str = taken.sticky.as_str(),
        /// The models and aliases of the part, in the order in which they are tried; empty for the alias itself without a
        /// ladder.
        pub(crate) names: &'a [String] = taken.split.names(taken.part),
        /// Whether the canary had fallen back.
        pub(crate) canary_stopped: bool = taken.canary_stopped,
        /// All parts that requests without a matching rule fall to.
        pub(crate) parts: Vec<PartBody> = parts.map(part).collect(),
    }
}

/// A part of an alias.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct PartBody {
    /// As `part` above.
    pub(crate) part: String,
    /// Its probability, 0 to 1.
    pub(crate) probability: Figure,
}
