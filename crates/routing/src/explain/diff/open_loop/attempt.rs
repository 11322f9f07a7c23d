//! What a record tells of an attempt, as the statistics and the live board hear of it.

use std::time::Duration;

use pointsman_domain::{
    AttemptRecord, Candidate, EventKind, Failure, FailureKind, Generation, Objective, Preference, Sourced, Target, Tick,
};

use crate::stats::{FirstTokenWait, RequestedTarget};

/// A recorded attempt.
pub(super) struct Attempt {
    /// Its own among all attempts.
    pub number: u64,
    /// What was decided of its endpoint.
    pub candidate: Candidate,
    /// Whether nothing was tried before it: then the requests in flight are those of the decision.
    pub is_first: bool,
    pub dispatched: Tick,
    pub first_token: Option<Tick>,
    pub ended: Tick,
    pub is_streamed: bool,
    pub end: EventKind,
    pub caller: u64,
}

impl Attempt {
    /// `None` for an attempt of a second decision and for an answer that was set aside: the record holds no figures of these.
    pub(super) fn new(
        generation: &Generation,
        record: &AttemptRecord,
        (number, caller): (u64, u64),
        admitted: Tick,
    ) -> Option<Attempt> {
        if record.is_set_aside() {
            return None;
        }
        let decision = &generation.decision;
        let candidate = decision.plan().find(|candidate| candidate.index == record.endpoint)?;
        let dispatched = admitted.plus(Duration::from_millis(record.started_ms));
        let first_token = record.first_token_ms.filter(|first| *first <= record.duration_ms);
        Some(Attempt {
            number,
            candidate: candidate.clone(),
            is_first: record.n <= 1,
            dispatched,
            first_token: first_token.map(|first| dispatched.plus(measured(first))),
            ended: dispatched.plus(measured(record.duration_ms)),
            is_streamed: generation.streamed,
            end: end(generation, record, candidate),
            caller,
        })
    }

    /// Prompt tokens that were not expected in a cache.
    pub(super) fn fresh_prompt(&self) -> u32 {
        self.candidate.inputs.prompt_tokens.saturating_sub(self.candidate.inputs.cached_tokens)
    }
}

/// A recorded time. What is below a millisecond was cut off: half of one, on average.
fn measured(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds).saturating_add(Duration::from_micros(500))
}

fn end(generation: &Generation, record: &AttemptRecord, candidate: &Candidate) -> EventKind {
    let had_content = record.first_token_ms.is_some();
    match record.error_type.as_deref() {
        None => completed(generation, record, candidate),
        Some(kind) => match FailureKind::ALL.into_iter().find(|one| one.as_str() == kind) {
            Some(kind) => {
                EventKind::Failed { failure: Failure { status: record.status, ..Failure::of(kind) }, had_content }
            }
            // The client left, or another attempt was faster.
            None => EventKind::Cancelled { had_content },
        },
    }
}

fn completed(generation: &Generation, record: &AttemptRecord, candidate: &Candidate) -> EventKind {
    let (usage, request) = (&generation.usage, &generation.decision.request);
    let small = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
    let cached = if usage.estimated { u64::from(candidate.inputs.cached_tokens) } else { usage.cached_tokens };
    let (answers, estimated) = (request.answers.max(1), f64::from(request.prompt_tokens));
    let is_counted = !usage.estimated && usage.prompt_tokens > 0 && estimated > 0.0;
    EventKind::Completed {
        streamed: generation.streamed,
        first_token: measured(record.first_token_ms.unwrap_or(record.duration_ms)),
        total: measured(record.duration_ms),
        prompt_tokens: small(usage.prompt_tokens.saturating_sub(cached)),
        completion_tokens: small(usage.completion_tokens) / answers,
        max_tokens: request.max_tokens,
        prompt_ratio: is_counted.then(|| usage.prompt_tokens as f64 / estimated),
        // Not recorded is whether an answer showed its reasoning; most do not.
        hidden_tokens: small(usage.reasoning_tokens) / answers,
        cost: None,
    }
}

/// How a request with a latency target ended.
pub(super) struct WaitEnd {
    pub at: Tick,
    name: Box<str>,
    objective: Objective,
    preference: Sourced<Preference>,
    pub wait: FirstTokenWait,
}

impl WaitEnd {
    pub(super) fn new(generation: &Generation, admitted: Tick) -> Option<WaitEnd> {
        let requested = requested(generation)?;
        let (name, objective, preference) = (requested.name.into(), requested.objective, requested.preference);
        let ends = generation.attempts.iter().map(|attempt| attempt.started_ms.saturating_add(attempt.duration_ms));
        let elapsed = Duration::from_millis(ends.max().unwrap_or_default());
        let wait = FirstTokenWait::of(generation, elapsed)?;
        Some(WaitEnd { at: admitted.plus(elapsed), name, objective, preference, wait })
    }

    pub(super) fn requested(&self) -> RequestedTarget<'_> {
        RequestedTarget { name: &self.name, objective: self.objective, preference: self.preference }
    }
}

/// The latency target of a recorded request. Plain answers show no first token, so they have none.
pub(super) fn requested(generation: &Generation) -> Option<RequestedTarget<'_>> {
    let (decision, catalog) = (&generation.decision, &generation.catalog);
    let preference = decision.parameters.preferred_max_latency.filter(|_| generation.streamed)?;
    let targets = decision.split.as_ref().map_or(&decision.request.targets, |taken| &taken.requested);
    let name = targets.first().and_then(|target| match *target {
        Target::Alias(position) => catalog.alias(position).map(|alias| alias.id.as_str()),
        Target::Model(position) => catalog.model(position).map(|model| model.id.as_str()),
    });
    Some(RequestedTarget { name: name.unwrap_or_default(), objective: decision.objective.value, preference })
}
