//! Explanations of a decision: `decision_reason`, why-not, what-if, relaxation and replay.
//!
//! `reason` writes `decision_reason`, with `why_chosen` for its first clause and `attempt_summary` for its last; `summary`
//! says the same in one short sentence.
//! `why_not` answers why an endpoint was not chosen, `relaxation` what to change if none can serve, `what_if` decides
//! under other conditions, `replay` decides again from a record, `diff` many records under another configuration, `estimate` says what that would have come to, `regret` what
//! decisions came to beyond better ones. `rescoring` computes recorded scores again for all.
//!
//! Everything here reads the record of a decision, or makes the decision again. None of it runs on the path of a
//! request; `decide` does not depend on it.

mod acceptance;
mod attempt_summary;
mod counterfactual;
pub mod diff;
#[expect(clippy::disallowed_methods, reason = "a figure for people, of three digits")]
mod escalation;
pub mod estimate;
mod exploration_price;
mod formatting;
mod hypothetical_stats;
mod name_resolution;
mod preferences;
mod reason;
pub mod regret;
#[expect(clippy::disallowed_methods, reason = "ranks")]
mod relaxation;
mod replay;
mod rescoring;
mod selection_probability;
#[expect(clippy::disallowed_methods, reason = "a figure for people, of three digits")]
mod summary;
#[expect(clippy::disallowed_methods, reason = "imagined prices")]
mod what_if;
mod why_chosen;
mod why_not;

pub use acceptance::{Acceptance, Acceptances};
pub use counterfactual::{Counterfactual, Figure};
pub use escalation::escalated_sentence;
pub use exploration_price::{ExplorationPrice, PricedExploration};
pub use reason::{reason_sentence, split_sentence, waited_sentence};
pub use relaxation::{Relaxation, nearest_relaxation, remedy};
pub use replay::{Difference, MissingInput, Recomputed, Replay, replay};
pub use selection_probability::fill_selection_probabilities;
pub use summary::{MOST_WORDS, summary_sentence, summary_without_choice};
pub use what_if::{ResolvedWhatIf, WhatIfWorld, prices_times};
pub use why_not::{Margin, Verdict, WhyNot, preview::why_not_now, why_not, why_not_after, why_not_in};
