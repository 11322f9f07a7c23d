//! Attempts that are paid for out of a budget and wait for nothing: the one that races a late one, and those of last resort.

use std::time::{Duration, Instant};

use pointsman_actors::domain::{AttemptReason, Candidate};

use super::{Late, Walk};
use crate::{base::events::BudgetSpent, proxy::dispatch::attempt::Attempt};

impl Walk {
    /// Starts the one attempt that races the one at `position`, if the budget and the endpoints allow it.
    pub fn hedge(&mut self, position: usize, late: Late) -> Option<Attempt> {
        let budget = match late {
            Late::Unusually => BudgetSpent::Hedge,
            Late::Overdue if self.attempts < self.routed.decision.max_attempts => BudgetSpent::Retry,
            Late::Overdue => BudgetSpent::LastResort,
        };
        let attempt = self.paid(budget, AttemptReason::Hedge, self.rivals(position))?;
        self.may_race = false;
        self.taken(attempt)
    }

    /// One more attempt when all that need no budget have failed, at whoever is left: a caller is not shown a failure while
    /// somebody else would answer.
    pub(super) fn last_resort(&mut self) -> Option<Attempt> {
        let may = (self.routed.decision.max_attempts..self.most_attempts()).contains(&self.attempts);
        if !may || Instant::now() >= self.deadline || self.spares().next().is_none() {
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
    fn paid(
        &self,
        budget: BudgetSpent,
        reason: AttemptReason,
        mut positions: impl Iterator<Item = usize>,
    ) -> Option<Attempt> {
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
        let started = positions.find_map(|position| {
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

    /// Who may race the attempt at `position`, in order: what is left of the plan for the same target and free to
    /// all, other providers first.
    pub(super) fn rivals(&self, position: usize) -> impl Iterator<Item = usize> {
        let candidates = &self.routed.decision.candidates;
        let late = candidates.get(position);
        let is_calm = move |at: usize, rival: &Candidate| {
            let ranks_with_it = at < candidates.len() && late.is_some_and(|late| late.group == rival.group);
            ranks_with_it && !rival.probe && !rival.panic
        };
        let is_elsewhere =
            move |rival: &Candidate| late.and_then(|late| self.provider(late.index)) != self.provider(rival.index);
        self.left(is_calm, is_elsewhere)
    }

    /// Who may be a last resort, in order: what is left of the plan and not behind an open circuit, providers that did not
    /// fail this request first.
    fn spares(&self) -> impl Iterator<Item = usize> {
        let is_open = |_: usize, spare: &Candidate| !spare.is_past_open_circuit();
        let is_elsewhere = |spare: &Candidate| {
            let provider = self.provider(spare.index);
            self.failures.iter().all(|failed| self.provider(failed.endpoint) != provider)
        };
        self.left(is_open, is_elsewhere)
    }

    /// The positions of whom is left of the plan and may serve: first those who are elsewhere.
    fn left(
        &self,
        may: impl Fn(usize, &Candidate) -> bool + Copy,
        is_elsewhere: impl Fn(&Candidate) -> bool + Copy,
    ) -> impl Iterator<Item = usize> {
        let open = move |(at, candidate): &(usize, &Candidate)| {
            !self.taken.contains(at) && self.has_room(candidate) && may(*at, candidate)
        };
        let left = move || self.routed.decision.plan().enumerate().skip(self.position).filter(open);
        let of = move |elsewhere: bool| left().filter(move |(_, candidate)| is_elsewhere(candidate) == elsewhere);
        of(true).chain(of(false)).map(|(at, _)| at)
    }
}
