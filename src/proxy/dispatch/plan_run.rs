//! Chooses the next candidate of a plan, and the timeouts of each attempt.
//!
//! `reopening` waits when all candidates rest. `extra_attempts` starts the attempts that cost a token: the one that races a late attempt, and those of last resort.
//! `give_up` makes the client's error when no candidate is left.

mod extra_attempts;
mod give_up;
mod reopening;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use pointsman_actors::router::Routed;
use pointsman_base::clock;
use pointsman_dialect::Signatures;
use pointsman_domain::{
    AddedMember, AttemptReason, Blame, Candidate, ExclusionReason, Failure, FailureKind, Next, Tick, Usd, Waited,
};
use pointsman_routing::{decide, explain::diff::Asked};
use pointsman_transport::{
    Lesson, Objection, UpstreamError,
    concurrency::{ConcurrencyLimits, Permit},
    habits::{Habits, ProviderHabits},
};

use crate::{
    base::{
        error::{ApiError, PreviousError},
        events::BudgetSpent,
    },
    proxy::dispatch::{
        attempt::{Attempt, AttemptStart, RequestSize},
        cost::RequestBudget,
        waiting::Waiting,
    },
    state::gateway::Worker,
};

/// A plan, the position in it, and the failures so far.
pub struct PlanRun {
    worker: Worker,
    /// The money of the request.
    pub budget: RequestBudget,
    /// The plan.
    pub routed: Routed,
    /// End of the time for the whole request.
    pub deadline: Instant,
    size: RequestSize,
    /// Position of the next candidate.
    position: usize,
    /// Positions of candidates that were started out of order.
    out_of_order: Vec<usize>,
    /// Positions of candidates that are called only when waiting is useless or over: they are paced, or behind an open circuit.
    deferred: Vec<usize>,
    /// Endpoints that refused a signature of a thought: they get stand-ins, once.
    refused_signature: Vec<u32>,
    /// Endpoints that objected to a member, each with what answers that, and what it teaches if that helps.
    corrections: Vec<(u32, Habits, Lesson)>,
    /// The position of one that is to be tried again with stand-ins or corrected.
    retry: Option<usize>,
    /// Number of attempts started.
    attempts: u32,
    /// Whether a second attempt may still race a late one.
    may_race: bool,
    /// Whether it may do so as soon as the first is unusually late.
    may_hedge: bool,
    failures: Vec<FailedAttempt>,
    /// Endpoints that were not called, each with the reason.
    passed_over: Vec<(u32, ExclusionReason)>,
    /// The last refusal of the request itself, and its place among the failures: the client's error, if no endpoint takes it.
    refusal: Option<(usize, UpstreamError)>,
    /// The caller's account, as a hash.
    caller: Option<u64>,
    /// Positions of candidates for which calls wait that came earlier. Called before them only when waiting is over, too.
    queued: Vec<usize>,
    /// The waits for an endpoint to take requests again.
    waiting: Waiting,
    /// Only endpoints with a context larger than this many tokens may still be tried.
    larger_than: u32,
    /// What the decision read, until shadow policies have it.
    pub asked: Option<Arc<Asked>>,
}

struct FailedAttempt {
    endpoint: u32,
    kind: FailureKind,
    wait: Option<Duration>,
    /// When this request may be sent to the endpoint again, if it asked for time.
    comes_back: Option<Tick>,
    panic: bool,
    previous: PreviousError,
}

/// Whether a failed attempt ends the request.
pub enum AfterFailure {
    /// Another candidate may be tried, or still runs.
    Continue,
    /// The request ends with this error.
    Stop(ApiError),
}

/// Lateness at which a second attempt may race the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lateness {
    /// Later than usual. Only for the objectives that hedge; the hedge budget pays.
    Unusual,
    /// Later than a plain answer ever is. For all objectives; the retry budget pays.
    Overdue,
}

/// `retry-after` when no provider named a wait and an endpoint may be called at once, the least value of the header; and the wait
/// after a 429 without one.
const DEFAULT_WAIT: Duration = Duration::from_secs(1);

/// A concurrency permit, if the provider has a limit, and the wait for it.
type PermitWithWait = (Option<Permit>, Duration);

impl PlanRun {
    /// Starts at the top of the plan. Adds the request's share to the retry and hedge budgets.
    pub fn new(
        worker: &Worker,
        mut routed: Routed,
        accepted: Instant,
        size: RequestSize,
        (budget, waiting): (RequestBudget, Waiting),
    ) -> PlanRun {
        let asked = routed.asked.take();
        let (decision, policy) = (&routed.decision, &routed.policy);
        let tokens = &worker.shared.access.retry_budget;
        tokens.retry.earn(policy.retry.budget_ratio);
        tokens.last_resort.earn(policy.retry.budget_ratio);
        let may_race = size.may_be_raced
            && decision.max_attempts > 1
            && decision.candidates.len() > 1
            && decision.parameters.provider.allow_fallbacks;
        let may_hedge =
            may_race && policy.hedge.budget > 0.0 && policy.hedge.objectives.contains(&decision.objective.value);
        if may_hedge {
            tokens.hedge.earn(policy.hedge.budget);
        }
        PlanRun {
            worker: worker.clone(),
            budget,
            deadline: accepted + policy.clocks.total,
            routed,
            size,
            position: 0,
            out_of_order: Vec::new(),
            deferred: Vec::new(),
            refused_signature: Vec::new(),
            corrections: Vec::new(),
            retry: None,
            attempts: 0,
            may_race,
            may_hedge,
            failures: Vec::new(),
            passed_over: Vec::new(),
            refusal: None,
            caller: None,
            queued: Vec::new(),
            waiting,
            larger_than: 0,
            asked,
        }
    }

    /// The same for a caller: refusals that may be the request's own fault count only when other callers get them too.
    #[must_use]
    pub fn for_caller(mut self, owner: u64) -> PlanRun {
        self.caller = Some(owner);
        self
    }

    /// Starts the next attempt, after a wait if all that could serve rest. `None` when plan, attempts or time are used up and no
    /// attempt of last resort is allowed.
    pub async fn next(&mut self) -> Option<Box<Attempt>> {
        loop {
            let attempt = self.next_of_plan().await;
            if attempt.is_some() {
                self.waiting.served();
                return attempt;
            }
            // Boxed: few requests wait.
            if !self.may_wait() || !Box::pin(self.wait()).await {
                break;
            }
        }
        let mut left = std::mem::take(&mut self.queued);
        left.append(&mut self.deferred);
        let mut left = left.into_iter();
        while let Some(position) = left.next() {
            let attempt = self.try_at(position).await;
            if attempt.is_some() {
                // The others are for the attempts after this one.
                self.deferred = left.collect();
                return attempt;
            }
        }
        self.last_resort()
    }

    /// How long the request has waited, and for what; `None` if it did not.
    pub fn waited(&self) -> Option<Waited> {
        self.waiting.waited()
    }

    /// Starts the attempt at the next candidate of the plan that may be called now.
    async fn next_of_plan(&mut self) -> Option<Box<Attempt>> {
        if let Some(position) = self.retry.take().filter(|_| Instant::now() < self.deadline)
            && let Ok(attempt) = self.start(position).await
        {
            return Some(attempt);
        }
        while self.attempts < self.routed.decision.max_attempts && Instant::now() < self.deadline {
            let position = self.position;
            let candidate = self.routed.decision.at(position)?;
            self.position += 1;
            if self.out_of_order.contains(&position) || !self.fits(candidate) {
                continue;
            }
            if candidate.panic && self.may_wait() {
                self.deferred.push(position);
                continue;
            }
            if self.waiting.is_behind_others(&self.worker, candidate.endpoint) {
                self.queued.push(position);
                continue;
            }
            let attempt = self.start_at(position).await;
            if attempt.is_some() {
                return attempt;
            }
        }
        None
    }

    /// Starts the attempt at a position, as long as attempts and time are left.
    async fn try_at(&mut self, position: usize) -> Option<Box<Attempt>> {
        let is_left = self.attempts < self.routed.decision.max_attempts && Instant::now() < self.deadline;
        if is_left { self.start_at(position).await } else { None }
    }

    /// Starts the attempt at a position. Keeps the reason if it cannot.
    async fn start_at(&mut self, position: usize) -> Option<Box<Attempt>> {
        let index = self.routed.decision.at(position)?.index;
        self.start(position).await.map_err(|reason| self.passed_over.push((index, reason))).ok()
    }

    /// When a second attempt may race the one at `position`, which starts now.
    pub fn race_times(&self, position: usize) -> [Option<(Instant, Lateness)>; 2] {
        let (policy, streamed) = (&self.routed.policy, self.size.streamed);
        let never = !self.may_race || (streamed && !self.may_hedge);
        let candidate = self.routed.decision.at(position);
        let may = |_: &&Candidate| !never && self.has_rival(position);
        let Some(candidate) = candidate.filter(may) else { return [None, None] };
        let now = Instant::now();
        let may_hedge = self.may_hedge && self.attempts < self.routed.decision.max_attempts;
        let may_replace = !streamed && self.attempts < self.max_attempts();
        let hedge = may_hedge.then(|| (decide::hedge_after(candidate, streamed, policy), Lateness::Unusual));
        let overdue = may_replace.then(|| (decide::overdue_after(candidate, policy), Lateness::Overdue));
        let at = |time: Option<(Duration, Lateness)>| time.map(|(after, lateness)| (now + after, lateness));
        [hedge, overdue].map(|time| at(time).filter(|(late, _)| *late < self.deadline))
    }

    /// Records a failed attempt. `raced` means that another attempt still runs.
    pub fn failed(&mut self, position: usize, error: &UpstreamError, raced: bool) -> AfterFailure {
        let kind = error.failure.kind;
        let index = self.index_at(position);
        self.record_failure(position, &error.failure);
        if error.refuses_signature && !raced && !self.refused_signature.contains(&index) {
            self.refused_signature.push(index);
            self.retry = Some(position);
            return AfterFailure::Continue;
        }
        if !raced && error.objection.is_some_and(|(objection, lesson)| self.correct(position, objection, lesson)) {
            self.retry = Some(position);
            return AfterFailure::Continue;
        }
        let at = self.failures.len().saturating_sub(1);
        match kind.next() {
            // A third endpoint would be paid for an answer that is as large, too.
            Next::AnotherEndpoint if kind == FailureKind::GatewayLimit && self.has_failed_so_before(at, kind) => {
                AfterFailure::Stop(self.refused(at, error))
            }
            Next::AnotherEndpoint => {
                if kind.blame() == Blame::Client || kind == FailureKind::GatewayLimit {
                    self.refusal = Some((at, error.clone()));
                }
                AfterFailure::Continue
            }
            Next::LargerContext => {
                self.larger_than = self.larger_than.max(self.context_length(position));
                if !raced && !self.has_next() {
                    return AfterFailure::Stop(self.refused(at, error));
                }
                self.refusal = Some((at, error.clone()));
                AfterFailure::Continue
            }
            Next::Stop => AfterFailure::Stop(self.refused(at, error)),
        }
    }

    /// Whether an attempt before the one at place `at` among the failures failed like it.
    fn has_failed_so_before(&self, at: usize, kind: FailureKind) -> bool {
        self.failures.iter().take(at).any(|failed| failed.kind == kind)
    }

    /// Notes what answers an objection of the candidate at `position`. False if nothing is left to try.
    fn correct(&mut self, position: usize, objection: Objection, lesson: Lesson) -> bool {
        let index = self.index_at(position);
        let endpoint = self.routed.catalog.endpoint(index);
        let answer = endpoint.and_then(|endpoint| {
            // Members of the usage are added to streams only.
            let is_sent = self.size.streamed || objection != Objection::To(AddedMember::StreamOptions);
            self.habits(position, endpoint.provider).answering(objection, endpoint).filter(|_| is_sent)
        });
        self.corrections.extend(answer.map(|answer| (index, answer, lesson)));
        answer.is_some()
    }

    /// What the candidate at `position` was found to want: in this request, else by its provider before.
    pub fn habits(&self, position: usize, provider: u32) -> Habits {
        self.correction(self.index_at(position)).map(|(habits, _)| habits).unwrap_or_else(|| {
            self.worker.setup.habits.get(provider as usize).map(ProviderHabits::known).unwrap_or_default()
        })
    }

    /// Remembers for its provider what made the candidate at `position` answer.
    pub fn answered(&self, position: usize) {
        let index = self.index_at(position);
        let Some(provider) = self.provider(index) else { return };
        let Some(known) = self.worker.setup.habits.get(provider as usize) else { return };
        match self.correction(index) {
            Some((found, Lesson::Proven)) => known.learn(found),
            Some((found, Lesson::OfTwo)) => known.hear(found, self.caller),
            Some((_, Lesson::None)) => {}
            // Members of the usage are added to streams only.
            None if self.size.streamed => known.contradict(),
            None => {}
        }
    }

    /// The last correction for this endpoint. What several taught is only as sure as the least sure.
    fn correction(&self, endpoint: u32) -> Option<(Habits, Lesson)> {
        let of_endpoint = || self.corrections.iter().filter(|(at, ..)| *at == endpoint);
        let is = |lesson| of_endpoint().any(|(.., taught)| *taught == lesson);
        let lesson = match () {
            () if is(Lesson::None) => Lesson::None,
            () if is(Lesson::OfTwo) => Lesson::OfTwo,
            () => Lesson::Proven,
        };
        of_endpoint().next_back().map(|(_, habits, _)| (*habits, lesson))
    }

    /// Position in the catalog of the candidate at a position of the plan; none is there if there is no such candidate.
    fn index_at(&self, position: usize) -> u32 {
        self.routed.decision.at(position).map_or(u32::MAX, |candidate| candidate.index)
    }

    /// The signatures of thoughts for the candidate at `position`.
    pub fn signatures(&self, position: usize) -> Signatures {
        if self.refused_signature.contains(&self.index_at(position)) {
            Signatures::StandIns
        } else {
            Signatures::Returned
        }
    }

    /// Deadline of an attempt at a plain answer: half of the time that is left, as long as another candidate can take over.
    /// A second attempt races an overdue one long before.
    pub fn plain_deadline(&self) -> Instant {
        if !self.has_next() {
            return self.deadline;
        }
        let now = Instant::now();
        now + self.deadline.saturating_duration_since(now) / 2
    }

    /// Timeout for the first byte of a stream of the candidate at `position`: a multiple of its usual time. The configured
    /// timeout if nothing was measured yet, or no other candidate can take over.
    pub fn first_byte_timeout(&self, position: usize) -> Duration {
        let (decision, policy) = (&self.routed.decision, &self.routed.policy);
        let candidate = decision.at(position).filter(|candidate| candidate.predicted.measured);
        match candidate.filter(|_| self.has_next()) {
            Some(candidate) => decide::first_byte_clock(candidate, policy).min(policy.clocks.first_byte),
            None => policy.clocks.first_byte,
        }
    }

    /// Starts the attempt at a candidate in the order of the plan.
    ///
    /// # Errors
    /// The reason why the candidate cannot be called now.
    async fn start(&mut self, position: usize) -> Result<Box<Attempt>, ExclusionReason> {
        let candidate = self.routed.decision.at(position).ok_or(ExclusionReason::Disabled)?;
        let reason = match self.attempts {
            _ if candidate.panic => AttemptReason::Panic,
            _ if candidate.probe => AttemptReason::Probe,
            0 => AttemptReason::First,
            _ => AttemptReason::Fallback,
        };
        let index = candidate.index;
        let permit = self.permit(candidate).await?;
        // No await from here on, so a client that leaves cannot lose a token.
        let bucket = &self.worker.shared.access.retry_budget.retry;
        let live = &self.worker.setup.published.live;
        let has_waited = self.waiting.waited().is_some();
        let is_past_open = candidate.is_past_open_circuit();
        let refused = is_past_open.then(|| live.costs_a_token(index, clock::now(), self.caller, has_waited)).flatten();
        let costs_a_token = refused.is_some();
        if let Some(reason) = refused.filter(|_| !bucket.take()) {
            BudgetSpent::Retry.emit(&self.worker.shared.process.metrics);
            return Err(reason);
        }
        let attempt = self.claim(position, reason, permit);
        if attempt.is_err() && costs_a_token {
            bucket.give_back();
        }
        self.attempts += u32::from(attempt.is_ok());
        attempt
    }

    /// Claims the endpoint. Fails only if a breaker opened, or a limit was reached, since the decision.
    fn claim(
        &self,
        position: usize,
        reason: AttemptReason,
        (permit, queue): PermitWithWait,
    ) -> Result<Box<Attempt>, ExclusionReason> {
        let candidate = self.routed.decision.at(position).ok_or(ExclusionReason::Disabled)?;
        let n = self.attempts + 1;
        if !self.budget.begin(n, &self.routed.catalog, candidate.index) {
            return Err(ExclusionReason::MaxPrice);
        }
        let claimed = self.worker.setup.published.live.claim(candidate.index, clock::now(), candidate);
        let mut claim = claimed.inspect_err(|_| self.budget.ended(n, Usd::ZERO))?;
        claim.caller = self.caller;
        let start = AttemptStart { n, position, reason, queue };
        Ok(Attempt::new(&self.worker, &self.routed, start, self.size, claim, permit))
    }

    /// Position of the endpoint's provider in the catalog.
    fn provider(&self, endpoint: u32) -> Option<u32> {
        Some(self.routed.catalog.endpoint(endpoint)?.provider)
    }

    /// A permit of the candidate's provider. Waits for it at most the configured time.
    async fn permit(&self, candidate: &Candidate) -> Result<PermitWithWait, ExclusionReason> {
        let Some(limits) = self.limits(candidate) else { return Ok((None, Duration::ZERO)) };
        if let Some(permit) = limits.permits.try_acquire() {
            return Ok((Some(permit), Duration::ZERO));
        }
        let wait_start = Instant::now();
        let permit = limits.permits.acquire(limits.wait).await.ok_or(ExclusionReason::Saturated)?;
        Ok((Some(permit), wait_start.elapsed()))
    }

    /// `None` for a provider without a concurrency limit.
    fn limits(&self, candidate: &Candidate) -> Option<&ConcurrencyLimits> {
        self.worker.setup.permits.get(self.provider(candidate.index)? as usize)
    }

    fn record_failure(&mut self, position: usize, &Failure { kind, status, retry_after, .. }: &Failure) {
        let wait = retry_after.map(|wait| wait.min(Failure::LONGEST_WAIT));
        let Some(candidate) = self.routed.decision.at(position) else { return };
        let catalog = &self.routed.catalog;
        let endpoint = catalog.endpoint(candidate.index);
        let provider = endpoint.and_then(|endpoint| catalog.provider_of(endpoint));
        let model = endpoint.and_then(|endpoint| catalog.model_of(endpoint));
        let previous = PreviousError {
            provider: provider.map(|provider| provider.name.to_string()).unwrap_or_default(),
            model: model.map(|model| model.id.to_string()).unwrap_or_default(),
            status,
            code: kind.as_str(),
        };
        let asked = match kind {
            FailureKind::RateLimited => Some(wait.unwrap_or(DEFAULT_WAIT)),
            FailureKind::Overloaded | FailureKind::Server => wait,
            _ => None,
        };
        let comes_back = asked.map(|wait| clock::now().plus(wait));
        let (endpoint, panic) = (candidate.index, candidate.panic);
        self.failures.push(FailedAttempt { endpoint, kind, wait, comes_back, panic, previous });
    }

    /// Whether another attempt is allowed and a candidate for it is left. Standby candidates behind an open circuit do not
    /// count: they are no reason to shorten the timeouts of others.
    fn has_next(&self) -> bool {
        let decision = &self.routed.decision;
        let mut rest = decision.plan().enumerate().skip(self.position);
        let counts = |at, candidate: &Candidate| at < decision.candidates.len() || !candidate.is_past_open_circuit();
        self.attempts < decision.max_attempts
            && rest.any(|(at, next)| !self.out_of_order.contains(&at) && counts(at, next) && self.fits(next))
    }

    /// Whether the candidate's context is larger than those that were too small, and it has not failed this request, or may be
    /// called again.
    fn fits(&self, candidate: &Candidate) -> bool {
        let failed = self.failures.iter().rfind(|failed| failed.endpoint == candidate.index);
        let has_failed = failed.is_some_and(|failed| failed.comes_back.is_none_or(|time| time > clock::now()));
        !has_failed && !self.has_too_little_context(candidate.index)
    }

    fn has_too_little_context(&self, index: u32) -> bool {
        let length = self.routed.catalog.endpoint(index).map(|endpoint| endpoint.limits.context_length);
        length.is_none_or(|length| length <= self.larger_than)
    }

    fn context_length(&self, position: usize) -> u32 {
        let candidate = self.routed.decision.at(position);
        let endpoint = candidate.and_then(|candidate| self.routed.catalog.endpoint(candidate.index));
        endpoint.map_or(0, |endpoint| endpoint.limits.context_length)
    }
}
