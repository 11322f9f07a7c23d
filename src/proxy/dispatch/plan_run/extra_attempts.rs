//! Attempts that wait for no permit: the one that races a late attempt and those of last resort, which cost a token, and that of a
//! cascade.

use std::time::{Duration, Instant};

use pointsman_actors::router::Routed;
use pointsman_domain::{AttemptReason, Candidate};
use pointsman_routing::decide;

use super::{Lateness, PlanRun};
use crate::{base::events::BudgetSpent, proxy::dispatch::attempt::Attempt};

impl PlanRun {
    /// Starts the attempt that races the one at `position`. `None` without a token or an endpoint for it.
    pub fn hedge(&mut self, position: usize, lateness: Lateness) -> Option<Box<Attempt>> {
        let budget = match lateness {
            Lateness::Unusual => BudgetSpent::Hedge,
            Lateness::Overdue if self.attempts < self.routed.decision.max_attempts => BudgetSpent::Retry,
            Lateness::Overdue => BudgetSpent::LastResort,
        };
        let attempt = self.start_first(budget, AttemptReason::Hedge, self.rivals(position))?;
        self.may_race = false;
        Some(self.counted(attempt))
    }

    /// Starts another attempt after `max_attempts` have failed, at any endpoint that is left. So a client gets no error while
    /// another endpoint would answer.
    pub(super) fn last_resort(&mut self) -> Option<Box<Attempt>> {
        let may = (self.routed.decision.max_attempts..self.max_attempts()).contains(&self.attempts);
        if !may || Instant::now() >= self.deadline || self.spares().is_empty() {
            return None;
        }
        let attempt = self.start_first(BudgetSpent::LastResort, AttemptReason::LastResort, self.spares())?;
        Some(self.counted(attempt))
    }

    /// Most attempts of the request, including those of last resort. There are none of last resort if the request allows one
    /// attempt only, or if the choice has never answered: then the fault is probably not by chance.
    pub(super) fn max_attempts(&self) -> u32 {
        let (decision, retry) = (&self.routed.decision, &self.routed.policy.retry);
        let is_known = decision.candidates.first().is_some_and(|choice| choice.predicted.measured);
        let further = if is_known && decision.max_attempts > 1 { retry.last_resort } else { 0 };
        decision.max_attempts + further
    }

    /// Starts an attempt at the first of `positions` that has a free permit, for one token.
    fn start_first(&self, budget: BudgetSpent, reason: AttemptReason, positions: Vec<usize>) -> Option<Box<Attempt>> {
        let tokens = &self.worker.shared.access.retry_budget;
        let bucket = match budget {
            BudgetSpent::Hedge => &tokens.hedge,
            BudgetSpent::Retry => &tokens.retry,
            BudgetSpent::LastResort => &tokens.last_resort,
        };
        if !bucket.take() {
            budget.emit(&self.worker.shared.process.metrics);
            return None;
        }
        let started = self.start_free(reason, positions.into_iter());
        if started.is_none() {
            bucket.give_back();
        }
        started
    }

    /// Starts an attempt at the first of `positions` that has a free permit.
    fn start_free(&self, reason: AttemptReason, mut positions: impl Iterator<Item = usize>) -> Option<Box<Attempt>> {
        positions.find_map(|position| {
            let permit = match self.limits(self.routed.decision.at(position)?) {
                Some(limits) => Some(limits.permits.try_acquire()?),
                None => None,
            };
            self.claim(position, reason, (permit, Duration::ZERO)).ok()
        })
    }

    /// Starts the attempt at a second answer, at the best candidate of another decision that `pays` for itself. It is the last one:
    /// no other takes over, because there is an answer.
    pub fn cascade(&mut self, routed: Routed, pays: impl Fn(&PlanRun, u32) -> bool) -> Option<Box<Attempt>> {
        if Instant::now() >= self.deadline {
            return None;
        }
        (self.routed, self.position) = (routed, usize::MAX);
        let may = |candidate: &Candidate| !candidate.panic && self.fits(candidate) && pays(self, candidate.index);
        let candidates = self.routed.decision.candidates.iter().enumerate();
        let positions = candidates.filter(|(_, candidate)| may(candidate)).map(|(at, _)| at);
        let attempt = self.start_free(AttemptReason::Cascade, positions)?;
        Some(self.counted(attempt))
    }

    /// Counts an attempt that was started out of order.
    fn counted(&mut self, attempt: Box<Attempt>) -> Box<Attempt> {
        self.out_of_order.push(attempt.start.position);
        self.attempts += 1;
        attempt
    }

    /// Positions that may race the attempt at `position`, best first: the rest of the plan in the same group, without probes
    /// and candidates behind an open circuit.
    pub(super) fn rivals(&self, position: usize) -> Vec<usize> {
        let late = self.routed.decision.candidates.get(position);
        let tried = |rival: &Candidate| late.is_some_and(|late| self.is_same_provider(late.index, rival));
        self.remaining(self.may_race(position), tried)
    }

    /// Whether there is any.
    pub(super) fn has_rival(&self, position: usize) -> bool {
        self.open(self.may_race(position)).next().is_some()
    }

    fn may_race(&self, position: usize) -> impl Fn(usize, &Candidate) -> bool {
        let candidates = &self.routed.decision.candidates;
        let late = candidates.get(position);
        move |at, rival| {
            let ranks_with_it = at < candidates.len() && late.is_some_and(|late| late.group == rival.group);
            ranks_with_it && !rival.probe && !rival.panic
        }
    }

    /// Positions for an attempt of last resort, best first: the rest of the plan that is not behind an open circuit.
    fn spares(&self) -> Vec<usize> {
        let may = |_: usize, spare: &Candidate| !spare.is_past_open_circuit();
        let tried =
            |spare: &Candidate| self.failures.iter().any(|failed| self.is_same_provider(failed.endpoint, spare));
        self.remaining(may, tried)
    }

    fn is_same_provider(&self, endpoint: u32, other: &Candidate) -> bool {
        self.provider(endpoint) == self.provider(other.index)
    }

    /// The rest of the plan that may be called, with its positions.
    fn open(&self, may: impl Fn(usize, &Candidate) -> bool) -> impl Iterator<Item = (usize, &Candidate)> {
        let in_plan = self.routed.decision.plan().enumerate().skip(self.position);
        in_plan
            .filter(move |(at, candidate)| {
                !self.out_of_order.contains(at) && self.fits(candidate) && may(*at, candidate)
            })
            .filter(|(_, candidate)| !self.waiting.is_behind_others(&self.worker, candidate.endpoint))
    }

    /// Positions of the rest of the plan, the lowest score first within group and tier. The score at a provider that was tried
    /// is multiplied by the factor that the plan uses too. Those on standby come last, in their order.
    fn remaining(&self, may: impl Fn(usize, &Candidate) -> bool, tried: impl Fn(&Candidate) -> bool) -> Vec<usize> {
        let decision = &self.routed.decision;
        let scored = self.open(may).map(|(at, candidate)| {
            let is_standby = at >= decision.candidates.len();
            let factor = if tried(candidate) { decide::SAME_PROVIDER } else { 1.0 };
            let score = if is_standby { 0.0 } else { candidate.score * factor };
            (at, (is_standby, candidate.group, candidate.inputs.tier), score)
        });
        let mut left: Vec<_> = scored.collect();
        left.sort_by(|(_, class, score), (_, other_class, other)| class.cmp(other_class).then(score.total_cmp(other)));
        left.into_iter().map(|(at, _, _)| at).collect()
    }
}
