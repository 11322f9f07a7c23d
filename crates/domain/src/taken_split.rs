//! Which part of a divided alias a request fell to.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    alias_split::{AliasSplit, SplitPart, StickyBy},
    catalog::Target,
};

/// The part of an alias that a request fell to, with everything that decided it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TakenSplit {
    /// The requested models and aliases, in order, before the alias was divided.
    pub requested: Vec<Target>,
    /// Which of them was divided.
    pub alias: u32,
    /// How it divides its requests.
    pub split: Arc<AliasSplit>,
    /// What the place follows from; `Request` if the request lacks what `split.sticky` asks for.
    pub sticky: StickyBy,
    /// The place of the request among 65,536, by which it falls to a part.
    pub place: u16,
    /// Whether the canary had fallen back.
    pub canary_stopped: bool,
    /// The part.
    pub part: SplitPart,
    /// Its probability, before the place was known.
    pub probability: f64,
}
