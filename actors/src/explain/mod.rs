//! What is said about a decision afterwards: reason sentences, why-not, what-if, relaxation, replay.
//!
//! Everything here works from the record, or makes the decision again; nothing here is on the path of a request.

pub(crate) mod attempt_summary;
pub(crate) mod counterfactual;
pub(crate) mod figures;
pub(crate) mod imagined;
pub(crate) mod name_resolution;
pub(crate) mod reason;
pub(crate) mod relaxation;
pub(crate) mod replay;
pub(crate) mod rescoring;
pub(crate) mod selection;
pub(crate) mod what_if;
pub(crate) mod why_not;

pub use counterfactual::{Counterfactual, Figure};
pub use name_resolution::order_leads_nowhere;
pub use reason::reason_sentence;
pub use relaxation::{Relaxation, nearest_relaxation};
pub use replay::{Difference, MissingInput, Recomputed, Replay, replay};
pub use selection::fill_selection_probabilities;
pub use what_if::{ResolvedWhatIf, WhatIfWorld};
pub use why_not::{Margin, Verdict, WhyNot, preview::why_not_now, why_not, why_not_after, why_not_in};
