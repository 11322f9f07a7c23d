//! Rewritten answers of any dialect: the bytes for the client and the figures for the ledger, or the fault of an
//! invalid answer.

use std::{borrow::Cow, fmt, sync::Arc};

use bytes::Bytes;
use pointsman_domain::{
    CostBreakdown, Evidence, FailureKind, FinishReason, GenerationId, Pricing, RequestedService, ServedService, Usage,
};

/// Values that a rewritten response contains. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AnswerContext {
    /// Id of the generation; replaces the provider's id.
    pub generation: GenerationId,
    /// When the generation was admitted, Unix seconds.
    pub created: i64,
    /// Catalog id of the serving model.
    pub model: Arc<str>,
    /// Display name of the serving provider.
    pub provider_name: Arc<str>,
    /// `system_fingerprint` when the provider sends none. Not empty.
    pub fingerprint: Arc<str>,
    /// Prices at dispatch; `None` where they are unknown.
    pub pricing: Option<Arc<Pricing>>,
    /// Estimated prompt tokens, for providers that report no usage.
    pub prompt_tokens: u32,
    /// Images in the prompt.
    pub images: u32,
    /// Whether the client asked not to see the reasoning.
    pub exclude_reasoning: bool,
    /// Whether the request used the deprecated `functions`, so that the client expects a `function_call` and no `tool_calls`.
    pub legacy_functions: bool,
    /// What the request asks for in the fields that change its price.
    pub service: RequestedService,
    /// The service that the head of the response tells.
    pub told: ServedService,
    /// Reads the wall clock, Unix seconds: some responses tell when they were complete.
    pub clock: fn() -> i64,
}

impl AnswerContext {
    /// The service to bill, if the body of the answer says `reported`.
    pub(super) fn served(&self, reported: ServedService) -> ServedService {
        let reported = ServedService {
            tier: reported.tier.or(self.told.tier),
            geography: reported.geography.or(self.told.geography),
        };
        self.service.served(reported, self.pricing.as_deref())
    }

    /// The word for a finish reason: clients of `functions` know the one of that time.
    pub(super) fn finish_word(&self, finish: FinishReason) -> &'static str {
        match finish {
            FinishReason::ToolCalls if self.legacy_functions => "function_call",
            finish => finish.as_str(),
        }
    }

    /// The cost of `usage`; `None` where the price is unknown.
    pub(super) fn cost(&self, usage: &Usage) -> Option<CostBreakdown> {
        self.pricing.as_deref().map(|pricing| pricing.cost(usage))
    }
}

/// A whole response, ready for the client.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The body to send.
    pub body: Bytes,
    /// Usage, cost and finish reason.
    pub outcome: Outcome,
}

/// Usage, cost and finish reason of a response, as far as known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Tokens, images and searches.
    pub usage: Usage,
    /// Cost of the usage; `None` where the price is unknown.
    pub cost: Option<CostBreakdown>,
    /// Finish reason of the first choice; `None` until it ends.
    pub finish: Option<FinishReason>,
    /// The provider's own finish reason, cleaned.
    pub native_finish: Option<String>,
    /// The provider's own id of the response, cleaned.
    pub upstream_id: Option<String>,
    /// Images in the response.
    pub images: u64,
    /// Reasoning tokens of a response that shows no reasoning.
    pub hidden_tokens: u64,
    /// Whether a chat provider gave reasoning in the member `reasoning_content`.
    pub gives_reasoning_content: bool,
}

/// Why the body of a 200 is not a valid response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerFault {
    /// How the attempt failed.
    pub kind: FailureKind,
    /// Description, cleaned and cut, for the log. Never shown to the client.
    pub detail: Cow<'static, str>,
    /// Why the provider refused the content, in its own words, cleaned, for the client. `None` for all other faults.
    pub refused_content: Option<Box<str>>,
    /// What speaks for more than this request.
    pub evidence: Evidence,
    /// Whether the provider would accept fewer output tokens.
    pub wants_fewer_tokens: bool,
}

/// What reading or writing an answer comes to.
pub(crate) type AnswerResult<T = ()> = Result<T, AnswerFault>;

impl AnswerFault {
    /// A fault that is not about content.
    pub fn new(kind: FailureKind, detail: impl Into<Cow<'static, str>>) -> AnswerFault {
        AnswerFault {
            kind,
            detail: detail.into(),
            refused_content: None,
            evidence: Evidence::None,
            wants_fewer_tokens: false,
        }
    }

    /// The response is malformed.
    pub fn malformed(detail: impl Into<Cow<'static, str>>) -> AnswerFault {
        AnswerFault::new(FailureKind::Malformed, detail)
    }

    /// The response is truncated.
    pub fn truncated(detail: impl Into<Cow<'static, str>>) -> AnswerFault {
        AnswerFault::new(FailureKind::Truncated, detail)
    }

    /// The response exceeds a limit of this gateway. `sentence`: for the client, with the key of the configuration.
    pub fn gateway_limit(sentence: impl Into<Cow<'static, str>>) -> AnswerFault {
        AnswerFault::new(FailureKind::GatewayLimit, sentence)
    }

    /// The same of an answer that is wrong because of what was asked, perhaps.
    pub(crate) fn of_one_caller(self) -> AnswerFault {
        AnswerFault { evidence: Evidence::OF_ONE_CALLER, ..self }
    }

    /// The provider refused the content of the request, or of its answer. `why`: in its own words, cleaned.
    pub(crate) fn refused_content(why: &str) -> AnswerFault {
        let fault = AnswerFault::new(FailureKind::BadRequest, format!("content was refused: {why}"));
        AnswerFault { refused_content: Some(why.into()), ..fault }
    }
}

impl fmt::Display for AnswerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.as_str(), self.detail)
    }
}

impl std::error::Error for AnswerFault {}
