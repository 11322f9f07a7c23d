//! A call that waits for an endpoint to take requests again, because all that could serve it rest.
//!
//! It holds nothing of a provider meanwhile, no permit and no claim. When it is woken it asks for a new decision on the live
//! state; until an attempt of it has started it keeps its place before those who came later.

use std::time::{Duration, Instant};

use pointsman_base::clock;
use pointsman_domain::{Catalog, Circuit, EndpointId, ExclusionReason, RoutingPolicy, Waited};
use pointsman_routing::{
    decide::{Hope, outlook},
    stats::LiveView,
};

use crate::{
    base::events::WaitEnd,
    proxy::dispatch::attempt::millis,
    state::{
        gateway::Worker,
        waiting_requests::{Awaited, Place},
    },
};

/// How often in a row a call that finds an endpoint open decides anew without a wait between. Others may be quicker each time, or
/// what stands in the way cannot be seen in the live state.
const MOST_RUSHES: u32 = 4;

/// The waits of one call. Empty while it need not wait.
#[derive(Default)]
pub struct Waiting {
    /// The caller's account, as a hash.
    owner: u64,
    /// All its waits together.
    spent: Duration,
    /// Why the endpoint that was awaited last took no request.
    reason: Option<ExclusionReason>,
    /// How often in a row it has found an endpoint open.
    rushes: u32,
    place: Option<QueuedRequest>,
}

/// A place in the queue of waiting requests. Counts how the wait ended when it is dropped.
struct QueuedRequest {
    worker: Worker,
    place: Place,
    end: WaitEnd,
}

impl Drop for QueuedRequest {
    fn drop(&mut self) {
        self.end.emit(&self.worker.shared.process.metrics);
    }
}

impl Waiting {
    /// Makes the waiting state for a call that the account `owner` made.
    pub fn of(owner: u64) -> Waiting {
        Waiting { owner, ..Waiting::default() }
    }

    /// How long the call has waited, and for what; `None` if it did not.
    pub fn waited(&self) -> Option<Waited> {
        Some(Waited { ms: millis(self.spent), reason: self.reason? })
    }

    /// Waits until one of `hopes` may take the call and its turn has come, or until its time is over; either way the caller
    /// decides anew, as it does at once if one of them is open already. `false` at once if none of them reopens in the time
    /// that is left to the call, or too many calls wait.
    pub async fn wait(
        &mut self,
        worker: &Worker,
        (catalog, policy): (&Catalog, &RoutingPolicy),
        deadline: Instant,
        hopes: impl Iterator<Item = Hope>,
    ) -> bool {
        let (began, now) = (Instant::now(), clock::now());
        let limit = policy.retry.wait.saturating_sub(self.spent).min(deadline.saturating_duration_since(began));
        let live = worker.setup.published.live.view(now);
        let outlook = outlook((catalog, &live), hopes, now, limit);
        if outlook.is_open && self.rushes < MOST_RUSHES {
            // At once, then after 1, 3 and 7 ms.
            tokio::time::sleep(Duration::from_millis((1 << self.rushes) - 1)).await;
            self.rushes += 1;
            return true;
        }
        let Some(wait) = outlook.wait else { return self.end(WaitEnd::Expired) };
        self.rushes = 0;
        self.reason = Some(wait.reason);
        let awaited = wait.awaited.into_iter().filter_map(|index| awaited(catalog, &live, index)).collect();
        let Some(place) = self.place_for(worker, awaited) else { return false };
        let end = began + limit;
        let mut wake = wait.until.map_or(end, |until| began + (until - now));
        let mut is_lost = place.is_lost();
        while !is_lost {
            // A timer and a notice; nothing is asked again and again.
            let _ = tokio::time::timeout_at(wake.into(), place.notice()).await;
            is_lost = place.is_lost();
            if Instant::now() >= end || place.is_first() {
                break;
            }
            wake = end;
        }
        self.spent += began.elapsed();
        // A call of another account has the place: too many calls of this one wait.
        if is_lost { self.end(WaitEnd::Refused) } else { true }
    }

    /// Whether calls that came earlier wait for this endpoint.
    pub fn is_behind_others(&self, worker: &Worker, endpoint: EndpointId) -> bool {
        worker.shared.access.waiting.has_earlier(endpoint, self.place.as_ref().map(|queued| &queued.place))
    }

    /// Leaves the queue: an attempt has started.
    pub fn served(&mut self) {
        self.rushes = 0;
        self.end(WaitEnd::Reopened);
    }

    /// Leaves the queue. `false`, for the caller to pass on.
    fn end(&mut self, how: WaitEnd) -> bool {
        if let Some(mut queued) = self.place.take() {
            queued.end = how;
        }
        false
    }

    /// The call's place in the queue, for these endpoints. `None` if it has none and the queue is full.
    fn place_for(&mut self, worker: &Worker, awaited: Vec<Awaited>) -> Option<&Place> {
        match &self.place {
            Some(queued) => queued.place.wait_for(awaited),
            None => {
                let Some(place) = worker.shared.access.waiting.enter(self.owner, awaited) else {
                    WaitEnd::Refused.emit(&worker.shared.process.metrics);
                    self.reason = self.reason.filter(|_| !self.spent.is_zero());
                    return None;
                };
                self.place = Some(QueuedRequest { worker: worker.clone(), place, end: WaitEnd::Left });
            }
        }
        self.place.as_ref().map(|queued| &queued.place)
    }
}

fn awaited(catalog: &Catalog, live: &LiveView, index: u32) -> Option<Awaited> {
    let endpoint = catalog.endpoint(index)?;
    let status = live.status(catalog, index);
    let is_open = status.circuit == Circuit::Closed && status.cooldown_until.is_none();
    let is_due = live.endpoints.get(index as usize).is_some_and(|cell| cell.due.is_none());
    let provider = catalog.provider_of(endpoint)?.slug.clone();
    Some(Awaited { endpoint: endpoint.id, provider, rests: !(is_open && is_due) })
}
