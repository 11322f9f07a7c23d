//! What an answer has come to so far: tokens, cost, finish, and whether there is content.

use pointsman_domain::{FinishReason, ServiceName, Usage};

use super::usage::{ProducedOutput, ReportedUsage, billed_usage, usage_with_later_output};
use crate::answer::{AnswerContext, Outcome};

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// As a whole.
    Done,
    /// With an error.
    Failed,
}

/// The finish of a choice.
#[derive(Debug, Clone)]
pub(super) struct Finish {
    /// Our word.
    pub(super) reason: FinishReason,
    /// The provider's word, cleaned.
    pub(super) native: Option<String>,
}

/// The meter of one answer.
#[derive(Debug)]
pub(crate) struct AnswerMeter {
    pub(super) context: AnswerContext,
    pub(super) reported: Option<ReportedUsage>,
    /// The service tier that the answer tells beside its usage.
    pub(super) tier: Option<ServiceName>,
    pub(super) produced: ProducedOutput,
    /// What had been produced when usage was last reported.
    pub(super) covered: ProducedOutput,
    pub(super) upstream_id: Option<String>,
    pub(super) has_content: bool,
    pub(super) end: Option<End>,
}

impl AnswerMeter {
    pub(super) fn new(context: AnswerContext) -> AnswerMeter {
        AnswerMeter {
            context,
            reported: None,
            tier: None,
            produced: ProducedOutput::default(),
            covered: ProducedOutput::default(),
            upstream_id: None,
            has_content: false,
            end: None,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.end.is_some()
    }

    pub(crate) fn has_content(&self) -> bool {
        self.has_content
    }

    /// Tokens of the output so far, estimated from its length.
    pub(crate) fn produced_tokens(&self) -> u64 {
        self.produced.text_tokens()
    }

    /// The usage that the upstream reported, if it is one to be believed.
    pub(crate) fn reported_usage(&self) -> Option<Usage> {
        let reported = self.reported.filter(ReportedUsage::is_credible)?.with_tier(self.tier);
        Some(billed_usage(Some(&reported), ProducedOutput::default(), &self.context))
    }

    /// The usage so far. Output that came after the last report is estimated, unless the answer is whole.
    pub(crate) fn usage(&self) -> Usage {
        let (reported, produced) = (self.reported.unwrap_or_default().with_tier(self.tier), self.produced);
        match self.end {
            Some(End::Done) => billed_usage(Some(&reported), produced, &self.context),
            _ => usage_with_later_output(Some(&reported), produced, produced.since(&self.covered), &self.context),
        }
    }

    /// Usage of an attempt that failed or was cancelled, if the upstream reported usage or produced output.
    pub(crate) fn spent(&self) -> Option<Usage> {
        let took = self.reported.is_some() || self.produced != ProducedOutput::default();
        took.then(|| self.usage())
    }

    /// `finish`: of the first choice.
    pub(super) fn outcome(&self, finish: Option<&Finish>) -> Outcome {
        let usage = self.usage();
        let reason = match self.end {
            Some(End::Failed) => Some(FinishReason::Error),
            _ => finish.map(|finish| finish.reason),
        };
        Outcome {
            usage,
            cost: self.context.cost(&usage),
            finish: reason,
            native_finish: finish.and_then(|finish| finish.native.clone()),
            upstream_id: self.upstream_id.clone(),
            images: self.produced.images,
            hidden_tokens: self.produced.hidden_tokens(&usage),
            gives_reasoning_content: self.produced.has_reasoning_content,
        }
    }
}
