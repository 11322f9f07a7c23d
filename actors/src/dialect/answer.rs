//! What an upstream's answer becomes, whatever its dialect: the bytes for our client and the figures for the
//! ledger, or the way in which it is no answer.

use std::{borrow::Cow, fmt, sync::Arc};

use bytes::Bytes;

use crate::domain::{CostBreakdown, FailureKind, FinishReason, GenerationId, Pricing, Usage};

/// Everything an answer is rewritten with. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AnswerContext {
    /// Our id, in place of the provider's.
    pub generation: GenerationId,
    /// When the generation was admitted, Unix seconds.
    pub created: i64,
    /// Catalog id of the model that serves.
    pub model: Arc<str>,
    /// Display name of the provider that serves.
    pub provider_name: Arc<str>,
    /// `system_fingerprint` when the provider gives none. Not empty.
    pub fingerprint: Arc<str>,
    /// The prices of dispatch.
    pub pricing: Arc<Pricing>,
    /// Estimated prompt tokens, for providers that do not count.
    pub prompt_tokens: u32,
    /// Images in the prompt.
    pub images: u32,
    /// Whether the client asked not to see the reasoning.
    pub exclude_reasoning: bool,
}

/// A whole answer, ready for the client.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The body to send.
    pub body: Bytes,
    /// What it took.
    pub outcome: Outcome,
}

/// What an answer took and how it ended, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// What was consumed.
    pub usage: Usage,
    /// What that costs.
    pub cost: CostBreakdown,
    /// How the first choice ended; `None` while it has not.
    pub finish: Option<FinishReason>,
    /// The provider's own word for it, cleaned.
    pub native_finish: Option<String>,
    /// The provider's own id of the answer, cleaned.
    pub upstream_id: Option<String>,
    /// Images in the answer.
    pub images: u64,
}

/// Why what came with a 200 is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerFault {
    /// How the attempt failed.
    pub kind: FailureKind,
    /// What was wrong, cleaned and cut, for our log and never for the client.
    pub detail: Cow<'static, str>,
}

impl AnswerFault {
    /// An answer that is not what it should be.
    #[must_use]
    pub fn malformed(detail: impl Into<Cow<'static, str>>) -> AnswerFault {
        AnswerFault { kind: FailureKind::Malformed, detail: detail.into() }
    }

    /// An answer that ended before its end.
    #[must_use]
    pub fn truncated(detail: impl Into<Cow<'static, str>>) -> AnswerFault {
        AnswerFault { kind: FailureKind::Truncated, detail: detail.into() }
    }
}

impl fmt::Display for AnswerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.as_str(), self.detail)
    }
}

impl std::error::Error for AnswerFault {}
