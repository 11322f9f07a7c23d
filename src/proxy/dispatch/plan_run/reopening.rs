//! When no candidate of the plan is left: waits for an endpoint to take requests again, and decides anew.

use pointsman_base::clock;
use pointsman_domain::ExclusionReason;
use pointsman_routing::decide::{Hope, Obstacle};

use super::{FailedAttempt, PlanRun};
use crate::proxy::dispatch::decide;

impl PlanRun {
    /// Waits and decides anew, if something that could serve the request reopens in time. `false` if nothing does.
    pub(super) async fn wait(&mut self) -> bool {
        let hopes = self.hopes();
        let place = (&*self.routed.catalog, &*self.routed.policy);
        if !self.waiting.wait(&self.worker, place, self.deadline, hopes.into_iter()).await {
            return false;
        }
        // Without a candidate the old plan stays: what it could not call still rests.
        if let Ok(Ok(mut routed)) = decide(&self.worker, Box::new(self.routed.decision.query())).await {
            self.asked = routed.asked.take().filter(|_| self.attempts == 0);
            self.routed = routed;
            self.position = 0;
            self.out_of_order.clear();
            self.deferred.clear();
            self.passed_over.clear();
            self.queued.clear();
        }
        true
    }

    /// Whether the request may wait for anything at all.
    pub(super) fn may_wait(&self) -> bool {
        !self.routed.policy.retry.wait.is_zero() && self.attempts < self.routed.decision.max_attempts
    }

    /// Every endpoint that passed the hard filters, with what stands in the way of this request.
    fn hopes(&self) -> Vec<Hope> {
        let decision = &self.routed.decision;
        let resting = decision.excluded.iter().filter(|excluded| excluded.reason.is_passing());
        let mut indices: Vec<u32> = decision.plan().map(|candidate| candidate.index).collect();
        indices.extend(resting.map(|excluded| excluded.index));
        indices.sort_unstable();
        indices.dedup();
        indices.into_iter().map(|index| Hope { index, obstacle: self.obstacle(index) }).collect()
    }

    fn obstacle(&self, index: u32) -> Obstacle {
        let passed_over = self.passed_over.iter().find(|(endpoint, _)| *endpoint == index).map(|(_, reason)| *reason);
        if self.has_too_little_context(index)
            || matches!(
                passed_over,
                Some(ExclusionReason::MaxPrice | ExclusionReason::Disabled | ExclusionReason::Saturated)
            )
        {
            return Obstacle::Lasting;
        }
        let decision = &self.routed.decision;
        let is_at = |position: &&usize| decision.at(**position).is_some_and(|at| at.index == index);
        let is_queued = self.queued.iter().any(|position| is_at(&position));
        let was_asked = passed_over.is_some() || is_queued;
        match self.failures.iter().rfind(|failed| failed.endpoint == index) {
            Some(FailedAttempt { comes_back: None, .. }) => return Obstacle::Lasting,
            // Once the time is over, an endpoint that was not called under a newer decision has another reason.
            Some(FailedAttempt { comes_back: Some(time), .. })
                if *time > clock::now() || (!was_asked && decision.tick < *time) =>
            {
                return Obstacle::Until(*time, ExclusionReason::RateLimited);
            }
            _ => {}
        }
        if is_queued {
            return Obstacle::Queue;
        }
        let deferred = self.deferred.iter().find(is_at).and_then(|position| decision.at(*position));
        let paced = deferred.filter(|candidate| !candidate.is_past_open_circuit());
        let due = paced.and_then(|candidate| candidate.inputs.reopens.time());
        match due.filter(|due| *due > clock::now()) {
            Some(due) => Obstacle::Until(due, ExclusionReason::Paced),
            None => Obstacle::None,
        }
    }
}
