//! A second model for a plain answer that is verifiably broken, where the alias of the request has a `cascade`.
//!
//! What is wrong with an answer is read in `pointsman_dialect::broken_answer`. The second answer is one attempt at the best
//! endpoint of a decision of its own, and replaces the first whatever it is like. If it fails, or may not be asked for, the
//! client gets the first. Both are paid. Calls without a cascade come here once, to find that out.

use std::cell::Cell;

use bytes::Bytes;
use pointsman_base::clock;
use pointsman_dialect::{Answer, AnswerContext, Outcome, OutgoingBody, broken_answer, lost_parameters};
use pointsman_domain::{AttemptReason, BrokenAnswer, CascadeSignal, Resolved};

use crate::{
    access::load::{BufferLimitReached, BufferedBytes},
    base::events::CascadeEnd,
    proxy::{
        dispatch::{
            RequestedWork, decide,
            plan_run::PlanRun,
            race::{AttemptHandle, AttemptRunner, Race, Target},
        },
        query,
    },
    state::gateway::Worker,
};

/// A complete answer, with what is wrong with it if its alias has a cascade.
pub(super) struct FoundAnswer {
    pub answer: Answer,
    /// Its bytes in the caller's share.
    pub held: BufferedBytes,
    pub broken: Option<BrokenAnswer>,
}

/// The answer of an attempt, if there was room for it.
pub(super) type Found = Result<FoundAnswer, BufferLimitReached>;

/// What is wrong with the answer of an attempt, if its alias has a cascade and it is not the second one.
pub(super) fn verdict(
    target: &Target<'_>,
    attempt: AttemptHandle<'_>,
    work: &RequestedWork,
    answer: (&Bytes, &OutgoingBody),
    (context, outcome): (&AnswerContext, &Outcome),
) -> Option<BrokenAnswer> {
    let decision = &*target.routed.decision;
    decision.router.as_ref()?;
    let start = attempt.record_builder.borrow_mut().attempt(attempt.n)?.start;
    if start.reason == AttemptReason::Cascade {
        return None;
    }
    let (_, cascade) = decision.cascade_of(decision.at(start.position)?, &target.routed.catalog)?;
    let RequestedWork::Chat(chat) = work else { return None };
    broken_answer(answer, chat, &cascade.on, (context, outcome))
}

/// The answer that the client gets in the place of `first`, the broken one of attempt `n`, with the number of its attempt.
pub(super) async fn second_answer<A: AttemptRunner<Output = Found>>(
    race: &Race<'_, A>,
    plan: &mut PlanRun,
    n: u32,
    first: FoundAnswer,
) -> (u32, Found) {
    let Some(broken) = &first.broken else { return (n, Ok(first)) };
    let position = race.record_builder.borrow_mut().attempt(n).map(|attempt| attempt.start.position);
    let mut counted = Counted { worker: race.worker, signal: broken.signal, end: CascadeEnd::NoCandidate };
    let set_aside = race.record_builder.borrow_mut().set_aside(n, &first.answer.outcome, broken.cause());
    let second = match position {
        Some(position) => ask(race, plan, position, &mut counted).await,
        None => None,
    };
    match second {
        Some((n, second)) => (n, Ok(second)),
        None => {
            race.record_builder.borrow_mut().take_back(set_aside);
            (n, Ok(first))
        }
    }
}

/// Asks for the second answer once. `position`: of the candidate that gave the first. `None` if there is no second answer.
async fn ask<A: AttemptRunner<Output = Found>>(
    race: &Race<'_, A>,
    plan: &mut PlanRun,
    position: usize,
    counted: &mut Counted<'_>,
) -> Option<(u32, FoundAnswer)> {
    let (worker, first) = (race.worker, plan.routed.clone());
    let (decision, catalog) = (&*first.decision, &*first.catalog);
    let candidate = decision.at(position)?;
    let (alias, cascade) = decision.cascade_of(candidate, catalog)?;
    let endpoint = catalog.endpoint(candidate.index)?;
    let Resolved::Found(to) = catalog.resolve(&cascade.to, clock::today()) else { return None };
    let left = plan.budget.ceiling_of(u32::MAX);
    let (model, config) = (catalog.model_of(endpoint)?, &worker.setup.config);
    let mut query = query::of_second_answer(decision, (catalog, config), (to, model), left);
    if let RequestedWork::Chat(chat) = race.work {
        query.needs.lost = lost_parameters(chat, catalog, &query.targets);
    }
    let routed = decide(worker, query).await.ok()?.ok()?;
    let (now_ms, is_over) = (clock::unix_millis(), Cell::new(false));
    let pays = |plan: &PlanRun, endpoint: u32| {
        let Some(budget) = cascade.budget else { return true };
        plan.budget.pay_alone();
        let worst = plan.budget.worst_case(&plan.routed.catalog, endpoint);
        let budgets = &worker.shared.access.cascade_budgets;
        let reservation = worst.and_then(|worst| budgets.reserve(alias, worst, budget, now_ms));
        is_over.set(worst.is_some() && reservation.is_none());
        reservation.map(|reservation| plan.budget.pay_from(reservation)).is_some()
    };
    let attempt = plan.cascade(routed, pays);
    counted.end = match &attempt {
        Some(_) => CascadeEnd::Left,
        None if is_over.get() => CascadeEnd::OverBudget,
        None => CascadeEnd::NoCandidate,
    };
    let answered = race.once(plan, attempt?).await;
    counted.end = CascadeEnd::Failed;
    match answered? {
        (n, Ok(second)) => {
            counted.end = CascadeEnd::Answered;
            Some((n, second))
        }
        (n, Err(_)) => {
            race.record_builder.borrow_mut().drop_answer(n);
            None
        }
    }
}

/// A broken answer. Counted when what became of it is known, or the client has left.
struct Counted<'w> {
    worker: &'w Worker,
    signal: CascadeSignal,
    end: CascadeEnd,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.end.emit(self.signal, &self.worker.shared.process.metrics);
    }
}
