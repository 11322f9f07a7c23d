//! A decision and its attempts in words: the summary, and the whole reason.

use pointsman_domain::{Catalog, Decision, Generation, GenerationStatus, RouteError};
use pointsman_routing::explain::{
    escalated_sentence, reason_sentence, split_sentence, summary_sentence, summary_without_choice, waited_sentence,
};

/// What is said of a decision.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sentences {
    /// One sentence of at most 25 words.
    pub(crate) summary: String,
    /// Every figure that decided, and how the attempts went.
    pub(crate) reason: String,
}

impl Sentences {
    /// Of a recorded generation.
    pub(crate) fn of(generation: &Generation) -> Sentences {
        let Generation { decision, catalog, attempts, waited, status, .. } = generation;
        let mut reason = reason_sentence(decision, catalog, attempts);
        reason.extend(split_sentence(decision));
        reason.extend(waited.iter().map(waited_sentence));
        reason.extend(escalated_sentence(decision, catalog, attempts));
        // While it runs, the attempts that have ended do not tell how it ends.
        let ended = if *status == GenerationStatus::Running { &[] } else { attempts.as_slice() };
        Sentences { summary: summary_sentence(decision, catalog, ended), reason }
    }

    /// Of a decision that nothing was called for.
    pub(crate) fn of_preview(decision: &Decision, catalog: &Catalog) -> Sentences {
        let (summary, mut reason) = (summary_sentence(decision, catalog, &[]), reason_sentence(decision, catalog, &[]));
        reason.extend(split_sentence(decision));
        Sentences { summary, reason }
    }

    /// Of a request without a candidate, which is refused with the message `reason`.
    pub(crate) fn of_refusal(error: &RouteError, reason: String) -> Sentences {
        Sentences { summary: summary_without_choice(&error.excluded), reason }
    }
}
