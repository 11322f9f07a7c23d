//! The walk through a plan: which candidate is tried next, and how long each is waited for. Attempts that are not free, the
//! one that races a late one and those of last resort, stand in `paid`, what the client is told when none is left in
//! `give_up`.

mod give_up;
mod paid;

use std::time::{Duration, Instant};

use pointsman_actors::{
    actors::router::Routed,
    decide,
    domain::{AttemptReason, Candidate, ExclusionReason, FailureKind, Next},
};

use crate::{
    base::{
        clock,
        error::{ApiError, PreviousError},
        events::BudgetSpent,
    },
    proxy::dispatch::attempt::{Attempt, AttemptPosition, RequestSize},
    state::gateway::Worker,
    upstream::{
        UpstreamError,
        concurrency::{ConcurrencyLimits, Permit},
    },
};

/// A position in a plan, and what went wrong before it.
pub struct PlanRun {
    worker: Worker,
    /// The plan.
    pub routed: Routed,
    /// When the request as a whole must have ended.
    pub deadline: Instant,
    measure: RequestSize,
    position: usize,
    /// Candidates beyond the position that were taken out of their turn.
    taken: Vec<usize>,
    attempts: u32,
    /// Whether an attempt of this request may still be raced.
    may_race: bool,
    /// Whether that may be as soon as it is unusually late.
    may_hedge: bool,
    failures: Vec<FailedAttempt>,
    /// Candidates that were not called, and why.
    passed_over: Vec<(u32, ExclusionReason)>,
    /// The refusal of the last endpoint that had no room, in case no larger one can be asked.
    too_long: Option<ApiError>,
    /// Only endpoints with a larger context window may still be tried.
    larger_than: u32,
}

struct FailedAttempt {
    endpoint: u32,
    kind: FailureKind,
    wait: Option<Duration>,
    panic: bool,
    previous: PreviousError,
}

/// Whether a failed attempt ends the request.
pub enum AfterFailure {
    /// Another candidate may be tried, or still runs.
    GoOn,
    /// The client is told this.
    Stop(ApiError),
}

/// How late an attempt is when another one may race it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lateness {
    /// Later than usual: for the objectives that hedge, out of their budget.
    Unusually,
    /// As late as a plain answer never is: for all objectives, out of the budget of retries.
    Overdue,
}

/// A place at a provider, if it counts them, and the wait for it.
type PermitWithWait = (Option<Permit>, Duration);

impl PlanRun {
    /// A walk from the top of the plan. It brings its share into the budgets.
    pub fn new(worker: &Worker, routed: Routed, accepted: Instant, measure: RequestSize) -> PlanRun {
        let (decision, policy) = (&routed.decision, &routed.policy);
        let budgets = &worker.shared.budgets;
        budgets.retry.earn(policy.retry.budget_ratio);
        budgets.last_resort.earn(policy.retry.budget_ratio);
        let may_race = measure.may_be_raced
            && decision.max_attempts > 1
            && decision.candidates.len() > 1
            && decision.parameters.provider.allow_fallbacks;
        let may_hedge =
            may_race && policy.hedge.budget > 0.0 && policy.hedge.objectives.contains(&decision.objective.value);
        if may_hedge {
            budgets.hedge.earn(policy.hedge.budget);
        }
        PlanRun {
            worker: worker.clone(),
            deadline: accepted + policy.clocks.total,
            routed,
            measure,
            position: 0,
            taken: Vec::new(),
            attempts: 0,
            may_race,
            may_hedge,
            failures: Vec::new(),
            passed_over: Vec::new(),
            too_long: None,
            larger_than: 0,
        }
    }

    /// The next candidate, with its place claimed; `None` when the plan, the attempts or the time are used up, or all they
    /// leave would be of last resort and must not be.
    pub async fn next(&mut self) -> Option<Attempt> {
        while self.attempts < self.routed.decision.max_attempts && Instant::now() < self.deadline {
            let position = self.position;
            let candidate = self.routed.decision.at(position)?;
            self.position += 1;
            if self.taken.contains(&position) || !self.has_room(candidate) {
                continue;
            }
            let index = candidate.index;
            match self.admitted(position).await {
                Ok(attempt) => return Some(attempt),
                Err(reason) => self.passed_over.push((index, reason)),
            }
        }
        self.last_resort()
    }

    /// When another candidate may race the attempt at `position`, counted from its start.
    #[must_use]
    pub fn moments(&self, position: usize) -> [Option<(Duration, Lateness)>; 2] {
        let (policy, streamed) = (&self.routed.policy, self.measure.streamed);
        let never = !self.may_race || (streamed && !self.may_hedge);
        let candidate = self.routed.decision.at(position);
        let may = |_: &&Candidate| !never && !self.rivals(position).is_empty();
        let Some(candidate) = candidate.filter(may) else { return [None, None] };
        let left = self.deadline.saturating_duration_since(Instant::now());
        let may_hedge = self.may_hedge && self.attempts < self.routed.decision.max_attempts;
        let may_outrun = !streamed && self.attempts < self.most_attempts();
        let hedge = may_hedge.then(|| (decide::hedge_after(candidate, streamed, policy), Lateness::Unusually));
        let overdue = may_outrun.then(|| (decide::overdue_after(candidate, policy), Lateness::Overdue));
        [hedge, overdue].map(|moment| moment.filter(|(after, _)| *after < left))
    }

    /// Takes note of a failed attempt; `raced` says that another still runs.
    pub fn failed(&mut self, position: usize, error: &UpstreamError, raced: bool) -> AfterFailure {
        let kind = error.failure.kind;
        self.note(position, kind, error.failure.status, error.failure.retry_after);
        match kind.next() {
            Next::AnotherEndpoint => AfterFailure::GoOn,
            Next::LargerContext => {
                let room = self.context_length(position);
                self.larger_than = self.larger_than.max(room);
                let refused = self.refused(error);
                if !raced && !self.may_go_on() {
                    return AfterFailure::Stop(refused);
                }
                self.too_long = Some(refused);
                AfterFailure::GoOn
            }
            Next::Stop => AfterFailure::Stop(self.refused(error)),
        }
    }

    /// When an attempt at a plain answer must have ended: as long as another could take over, it gets half of what is
    /// left. One that is overdue is raced long before that.
    #[must_use]
    pub fn plain_deadline(&self) -> Instant {
        if !self.may_go_on() {
            return self.deadline;
        }
        let now = Instant::now();
        now + self.deadline.saturating_duration_since(now) / 2
    }

    /// How long a stream of the candidate at `position` may take to its first byte: what it usually takes, several
    /// times over. Where nothing was measured yet, or nobody could take over, the configured clock alone counts.
    #[must_use]
    pub fn first_byte_clock(&self, position: usize) -> Duration {
        let (decision, policy) = (&self.routed.decision, &self.routed.policy);
        let candidate = decision.at(position).filter(|candidate| candidate.predicted.measured);
        match candidate.filter(|_| self.may_go_on()) {
            Some(candidate) => decide::first_byte_clock(candidate, policy).min(policy.clocks.first_byte),
            None => policy.clocks.first_byte,
        }
    }

    /// The attempt at a candidate whose turn it is, or why there is none.
    async fn admitted(&mut self, position: usize) -> Result<Attempt, ExclusionReason> {
        let candidate = self.routed.decision.at(position).ok_or(ExclusionReason::Disabled)?;
        let reason = match self.attempts {
            _ if candidate.panic => AttemptReason::Panic,
            _ if candidate.probe => AttemptReason::Probe,
            0 => AttemptReason::First,
            _ => AttemptReason::Fallback,
        };
        let place = self.place(candidate).await?;
        // Nothing is waited for from here on, so no token is lost with a client that leaves.
        let budget = &self.worker.shared.budgets.retry;
        let costs_a_token = candidate.is_past_open_circuit();
        if costs_a_token && !budget.take() {
            BudgetSpent::Retry.emit(&self.worker.shared.metrics);
            return Err(ExclusionReason::CircuitOpen);
        }
        let admitted = self.claimed(position, reason, place);
        if admitted.is_err() && costs_a_token {
            budget.give_back();
        }
        self.attempts += u32::from(admitted.is_ok());
        admitted
    }

    /// Refused only when the gate shut between the decision and now: the next one, then.
    fn claimed(
        &self,
        position: usize,
        reason: AttemptReason,
        admission: PermitWithWait,
    ) -> Result<Attempt, ExclusionReason> {
        let candidate = self.routed.decision.at(position).ok_or(ExclusionReason::Disabled)?;
        let claim = self.worker.setup.published.live.claim(candidate.index, clock::now(), candidate)?;
        let (place, queue) = admission;
        let turn = AttemptPosition { n: self.attempts + 1, position, reason, queue };
        Ok(Attempt::new(&self.worker, &self.routed, turn, self.measure, claim, place))
    }

    /// Position of an endpoint's provider.
    fn provider(&self, endpoint: u32) -> Option<u32> {
        Some(self.routed.catalog.endpoint(endpoint)?.provider)
    }

    /// A place at the candidate's provider, waited for no longer than configured.
    async fn place(&self, candidate: &Candidate) -> Result<PermitWithWait, ExclusionReason> {
        let Some(permits) = self.permits(candidate) else { return Ok((None, Duration::ZERO)) };
        if let Some(place) = permits.places.take_now() {
            return Ok((Some(place), Duration::ZERO));
        }
        let begun = Instant::now();
        let place = permits.places.take(permits.wait).await.ok_or(ExclusionReason::Saturated)?;
        Ok((Some(place), begun.elapsed()))
    }

    /// `None` for a provider whose calls nobody counts.
    fn permits(&self, candidate: &Candidate) -> Option<&ConcurrencyLimits> {
        self.worker.setup.permits.get(self.provider(candidate.index)? as usize)
    }

    fn note(&mut self, position: usize, kind: FailureKind, status: Option<u16>, wait: Option<Duration>) {
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
        self.failures.push(FailedAttempt { endpoint: candidate.index, kind, wait, panic: candidate.panic, previous });
    }

    /// Whether another attempt is left, and somebody with enough room for it. Those on standby behind an open circuit
    /// are no reason to be impatient with anybody.
    fn may_go_on(&self) -> bool {
        let decision = &self.routed.decision;
        let mut open = decision.plan().enumerate().skip(self.position);
        let is_hope = |at, candidate: &Candidate| at < decision.candidates.len() || !candidate.is_past_open_circuit();
        self.attempts < decision.max_attempts
            && open.any(|(at, next)| !self.taken.contains(&at) && is_hope(at, next) && self.has_room(next))
    }

    fn has_room(&self, candidate: &Candidate) -> bool {
        let length = self.routed.catalog.endpoint(candidate.index).map(|endpoint| endpoint.limits.context_length);
        length.is_some_and(|length| length > self.larger_than)
    }

    fn context_length(&self, position: usize) -> u32 {
        let candidate = self.routed.decision.at(position);
        let endpoint = candidate.and_then(|candidate| self.routed.catalog.endpoint(candidate.index));
        endpoint.map_or(0, |endpoint| endpoint.limits.context_length)
    }
}
