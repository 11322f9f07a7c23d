//! Attempts that are paid for out of a budget and wait for nothing: the one that races a late one, and those of last resort.

use std::time::{Duration, Instant};

use pointsman_actors::{
    decide,
    domain::{AttemptReason, Candidate},
};

use super::{Lateness, PlanRun};
use crate::{base::events::BudgetSpent, proxy::dispatch::attempt::Attempt};

impl PlanRun {
    /// Starts the one attempt that races the one at `position`, if the budget and the endpoints allow it.
    pub fn hedge(&mut self, position: usize, late: Lateness) -> Option<Attempt> {
        let budget = match late {
            Lateness::Unusually => BudgetSpent::Hedge,
            Lateness::Overdue if self.attempts < self.routed.decision.max_attempts => BudgetSpent::Retry,
            Lateness::Overdue => BudgetSpent::LastResort,
        };
        let attempt = self.paid(budget, AttemptReason::Hedge, self.rivals(position))?;
        self.may_race = false;
        self.taken(attempt)
    }

    /// One more attempt when all that need no budget have failed, at whoever is left: a caller is not shown a failure while
    /// somebody else would answer.
    pub(super) fn last_resort(&mut self) -> Option<Attempt> {
        let may = (self.routed.decision.max_attempts..self.most_attempts()).contains(&self.attempts);
        if !may || Instant::now() >= self.deadline || self.spares().is_empty() {
            return None;
        }
        let attempt = self.paid(BudgetSpent::LastResort, AttemptReason::LastResort, self.spares())?;
        self.taken(attempt)
    }

    /// How often the request may be tried, those of last resort included. There are none where it may be tried but once, nor
    /// where the choice never answered: then it is no chance that nobody does.
    pub(super) fn most_attempts(&self) -> u32 {
        let (decision, retry) = (&self.routed.decision, &self.routed.policy.retry);
        let is_known = decision.candidates.first().is_some_and(|choice| choice.predicted.measured);
        let further = if is_known && decision.max_attempts > 1 { retry.last_resort } else { 0 };
        decision.max_attempts + further
    }

    /// An attempt at the first of these that has a free place, for a token.
    fn paid(&self, budget: BudgetSpent, reason: AttemptReason, positions: Vec<usize>) -> Option<Attempt> {
        let budgets = &self.worker.shared.budgets;
        let tokens = match budget {
            BudgetSpent::Hedge => &budgets.hedge,
            BudgetSpent::Retry => &budgets.retry,
            BudgetSpent::LastResort => &budgets.last_resort,
        };
        if !tokens.take() {
            budget.emit(&self.worker.shared.metrics);
            return None;
        }
        let started = positions.into_iter().find_map(|position| {
            let place = match self.permits(self.routed.decision.at(position)?) {
                Some(permits) => Some(permits.places.take_now()?),
                None => None,
            };
            self.claimed(position, reason, (place, Duration::ZERO)).ok()
        });
        if started.is_none() {
            tokens.give_back();
        }
        started
    }

    /// Counts an attempt that was started out of its turn.
    fn taken(&mut self, attempt: Attempt) -> Option<Attempt> {
        self.taken.push(attempt.turn.position);
        self.attempts += 1;
        Some(attempt)
    }

    /// Positions that may race the attempt at `position`, in order: the rest of the plan for the same target that passes
    /// without a probe and no shut gate.
    pub(super) fn rivals(&self, position: usize) -> Vec<usize> {
        let candidates = &self.routed.decision.candidates;
        let late = candidates.get(position);
        let may = |at: usize, rival: &Candidate| {
            let ranks_with_it = at < candidates.len() && late.is_some_and(|late| late.group == rival.group);
            ranks_with_it && !rival.probe && !rival.panic
        };
        let tried = |rival: &Candidate| late.is_some_and(|late| self.is_same_provider(late.index, rival));
        self.left(may, tried)
    }

    /// Positions that may be a last resort, in order: the rest of the plan that is not behind an open circuit.
    fn spares(&self) -> Vec<usize> {
        let may = |_: usize, spare: &Candidate| !spare.is_past_open_circuit();
        let tried =
            |spare: &Candidate| self.failures.iter().any(|failed| self.is_same_provider(failed.endpoint, spare));
        self.left(may, tried)
    }

    fn is_same_provider(&self, endpoint: u32, other: &Candidate) -> bool {
        self.provider(endpoint) == self.provider(other.index)
    }

    /// Positions of the rest of the plan that may serve, the least score first within target and preferences. A provider
    /// that was tried already makes a score worse by the factor that the plan itself uses. Endpoints of the reserve come
    /// last, in their order.
    fn left(&self, may: impl Fn(usize, &Candidate) -> bool, tried: impl Fn(&Candidate) -> bool) -> Vec<usize> {
        let decision = &self.routed.decision;
        let in_plan = decision.plan().enumerate().skip(self.position);
        let open = in_plan
            .filter(|(at, candidate)| !self.taken.contains(at) && self.has_room(candidate) && may(*at, candidate));
        let weighed = open.map(|(at, candidate)| {
            let reserve = at >= decision.candidates.len();
            let factor = if tried(candidate) { decide::SAME_PROVIDER } else { 1.0 };
            let loss = if reserve { 0.0 } else { candidate.score * factor };
            (at, (reserve, candidate.group, candidate.inputs.tier), loss)
        });
        let mut left: Vec<_> = weighed.collect();
        left.sort_by(|(_, class, loss), (_, other_class, other)| class.cmp(other_class).then(loss.total_cmp(other)));
        left.into_iter().map(|(at, _, _)| at).collect()
    }
}
