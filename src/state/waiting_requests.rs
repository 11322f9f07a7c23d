//! The calls that wait for an endpoint to take requests again, in the order of their arrival.
//!
//! An endpoint that reopens belongs to the call that has waited for it longest, on whichever worker that is: nobody else claims
//! it before, so calls that come later cannot starve the waiting ones, and of many that wait for a half-open endpoint one probes
//! it. A place is a guard: a call that leaves wakes those behind it. While nobody waits, a request reads one atomic number.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use pointsman_domain::{EndpointId, ProviderSlug};
use tokio::sync::Notify;

/// Most calls that wait at once: as many as a provider serves at once by default (`max_in_flight`). Those
/// behind them would hardly be served in the time that they may wait, and each holds its request in memory. When all places
/// are taken, an account with few of them gets one of the account with most.
pub const MOST_WAITING: usize = 256;

/// The waiting requests of the process.
#[derive(Default)]
pub struct WaitingRequests {
    /// Length of the queue, so that it need not be locked while it is empty.
    count: AtomicUsize,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// In the order of their numbers.
    calls: Vec<WaitingRequest>,
    next: u64,
}

struct WaitingRequest {
    number: u64,
    owner: u64,
    awaited: Vec<Awaited>,
    notice: Arc<Notify>,
}

/// An endpoint that a call waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awaited {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Its provider, whose breaker may be what it waits for.
    pub provider: ProviderSlug,
    /// Whether it rests for everybody; else only for this call, which holds nobody else back.
    pub rests: bool,
}

/// A place in the queue. The call leaves it when this is dropped.
pub struct Place {
    calls: Arc<WaitingRequests>,
    number: u64,
    notice: Arc<Notify>,
}

impl WaitingRequests {
    /// Number of waiting calls.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Takes the last place for a call of the account `owner`. If [`MOST_WAITING`] calls wait, the newest call of the account
    /// with most places loses its own, provided that `owner` has at least two fewer. `None` otherwise.
    #[must_use]
    pub fn enter(self: &Arc<Self>, owner: u64, awaited: Vec<Awaited>) -> Option<Place> {
        let notice = Arc::new(Notify::new());
        let mut queue = self.queue.lock();
        if queue.calls.len() >= MOST_WAITING && !queue.make_room_for(owner) {
            return None;
        }
        let number = queue.next;
        queue.next += 1;
        queue.calls.push(WaitingRequest { number, owner, awaited, notice: Arc::clone(&notice) });
        self.count.store(queue.calls.len(), Ordering::Release);
        Some(Place { calls: Arc::clone(self), number, notice })
    }

    /// Whether a call that came before `place`, or any call for one without a place, waits for this endpoint.
    pub fn has_earlier(&self, endpoint: EndpointId, place: Option<&Place>) -> bool {
        self.count() > 0 && self.queue.lock().has_before(place.map_or(u64::MAX, |place| place.number), endpoint)
    }

    /// Wakes the first call that waits for an endpoint of this provider, and the first of each other endpoint there: an answer
    /// has begun or an attempt has ended, which may have moved a gate.
    pub fn gate_may_have_moved(&self, provider: &ProviderSlug) {
        if self.count() > 0 {
            self.queue.lock().wake_first(|awaited| awaited.provider == *provider);
        }
    }
}

impl Queue {
    /// Takes the newest call of the account with most places out; of several such accounts, the one with the newest call.
    /// `false` if `owner` has about as many.
    fn make_room_for(&mut self, owner: u64) -> bool {
        let mut places: HashMap<u64, usize> = HashMap::new();
        for call in &self.calls {
            *places.entry(call.owner).or_default() += 1;
        }
        let of = |owner: u64| places.get(&owner).copied().unwrap_or_default();
        let Some(most) = self.calls.iter().enumerate().max_by_key(|(at, call)| (of(call.owner), *at)) else {
            return false;
        };
        let (at, call) = most;
        if of(owner) + 1 >= of(call.owner) {
            return false;
        }
        let left = self.calls.remove(at);
        left.notice.notify_one();
        self.wake_behind(&left);
        true
    }

    /// Wakes the first call of each endpoint that `left` waited for.
    fn wake_behind(&self, left: &WaitingRequest) {
        self.wake_first(|awaited| left.awaited.iter().any(|own| own.endpoint == awaited.endpoint));
    }

    fn has_before(&self, number: u64, endpoint: EndpointId) -> bool {
        let earlier = self.calls.iter().take_while(|call| call.number < number);
        earlier.flat_map(|call| &call.awaited).any(|awaited| awaited.rests && awaited.endpoint == endpoint)
    }

    /// Wakes the first call of each endpoint that `concerns` holds for.
    fn wake_first(&self, concerns: impl Fn(&Awaited) -> bool) {
        let mut seen: Vec<EndpointId> = Vec::new();
        for call in &self.calls {
            let before = seen.len();
            for awaited in call.awaited.iter().filter(|awaited| concerns(awaited)) {
                if !seen.contains(&awaited.endpoint) {
                    seen.push(awaited.endpoint);
                }
            }
            if seen.len() > before {
                call.notice.notify_one();
            }
        }
    }
}

impl Place {
    /// Waits for the other endpoints of `awaited` instead, at the same place.
    pub fn wait_for(&self, awaited: Vec<Awaited>) {
        let mut queue = self.calls.queue.lock();
        let Ok(position) = queue.calls.binary_search_by_key(&self.number, |call| call.number) else { return };
        let Some(call) = queue.calls.get_mut(position) else { return };
        let before = std::mem::replace(&mut call.awaited, awaited);
        let given_up = |endpoint: &Awaited| before.contains(endpoint);
        queue.wake_first(given_up);
    }

    /// Whether it was given to a call of another account.
    pub fn is_lost(&self) -> bool {
        self.calls.queue.lock().calls.binary_search_by_key(&self.number, |call| call.number).is_err()
    }

    /// Whether it is the first that waits for one of its endpoints.
    pub fn is_first(&self) -> bool {
        let queue = self.calls.queue.lock();
        let own = queue.calls.iter().find(|call| call.number == self.number);
        own.is_some_and(|own| own.awaited.iter().any(|awaited| !queue.has_before(self.number, awaited.endpoint)))
    }

    /// Waits for a notice that an awaited endpoint may have changed, or that a call before it has left.
    pub async fn notice(&self) {
        self.notice.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut queue = self.calls.queue.lock();
        if let Ok(position) = queue.calls.binary_search_by_key(&self.number, |call| call.number) {
            let left = queue.calls.remove(position);
            self.calls.count.store(queue.calls.len(), Ordering::Release);
            queue.wake_behind(&left);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn awaited(endpoints: &[u64]) -> Vec<Awaited> {
        let slug = |endpoint: u64| if endpoint < 10 { "acme" } else { "bolt" };
        endpoints
            .iter()
            .map(|id| Awaited {
                endpoint: EndpointId(*id),
                provider: ProviderSlug::new(slug(*id)).unwrap(),
                rests: true,
            })
            .collect()
    }

    fn is_woken(place: &Place) -> bool {
        place.notice().now_or_never().is_some()
    }

    #[test]
    fn an_endpoint_belongs_to_the_call_that_has_waited_longest() {
        let calls = Arc::new(WaitingRequests::default());
        let first = calls.enter(1, awaited(&[1])).unwrap();
        let second = calls.enter(1, awaited(&[1, 2])).unwrap();
        let third = calls.enter(1, awaited(&[2])).unwrap();
        fn has_earlier(calls: &Arc<WaitingRequests>, endpoint: u64, place: Option<&Place>) -> bool {
            calls.has_earlier(EndpointId(endpoint), place)
        }

        assert_eq!([&first, &second, &third].map(Place::is_first), [true, true, false]);
        assert!(
            !has_earlier(&calls, 1, Some(&first))
                && has_earlier(&calls, 1, Some(&second))
                && has_earlier(&calls, 1, None)
        );
        assert!(
            !has_earlier(&calls, 2, Some(&second))
                && has_earlier(&calls, 2, Some(&third))
                && !has_earlier(&calls, 3, None)
        );

        calls.gate_may_have_moved(&ProviderSlug::new("bolt").unwrap());
        assert_eq!([&first, &second, &third].map(is_woken), [false; 3], "another provider");
        calls.gate_may_have_moved(&ProviderSlug::new("acme").unwrap());
        assert_eq!([&first, &second, &third].map(is_woken), [true, true, false], "the first of each endpoint");
        drop(first);
        assert_eq!([&second, &third].map(is_woken), [true, false]);
        second.wait_for(awaited(&[1]));
        assert!(is_woken(&third), "the second no longer waits for its endpoint");
        drop((second, third));
        assert_eq!((calls.count(), has_earlier(&calls, 1, None)), (0, false));
    }

    #[test]
    fn no_more_calls_wait_than_the_bound() {
        let calls = Arc::new(WaitingRequests::default());
        let mut places: Vec<Place> = (0..MOST_WAITING).map(|_| calls.enter(1, awaited(&[1])).unwrap()).collect();
        assert!(calls.enter(1, awaited(&[1])).is_none());
        places.pop();
        assert!(calls.enter(1, awaited(&[1])).is_some(), "a place is free again");
        assert_eq!(calls.count(), MOST_WAITING - 1, "and once more");
        places.clear();
        assert_eq!(calls.count(), 0);
    }

    #[test]
    fn an_account_without_a_place_gets_the_newest_one_of_the_account_with_most() {
        let calls = Arc::new(WaitingRequests::default());
        let greedy: Vec<Place> = (0..MOST_WAITING).map(|_| calls.enter(1, awaited(&[1])).unwrap()).collect();
        assert!(calls.enter(1, awaited(&[1])).is_none(), "of the same account");
        let other = calls.enter(2, awaited(&[2])).unwrap();
        let lost = |places: &[Place]| places.iter().map(Place::is_lost).filter(|lost| *lost).count();
        assert!(greedy.last().unwrap().is_lost() && is_woken(greedy.last().unwrap()) && !other.is_lost());
        assert_eq!((calls.count(), lost(&greedy)), (MOST_WAITING, 1));
        // It stops at equal shares, so that no two accounts take one place from each other again and again.
        let mut others: Vec<Place> = std::iter::from_fn(|| calls.enter(2, awaited(&[2]))).collect();
        assert_eq!((others.len() + 1, lost(&greedy), lost(&others)), (MOST_WAITING / 2, MOST_WAITING / 2, 0));
        assert!(calls.enter(1, awaited(&[1])).is_none());
        let third = calls.enter(3, awaited(&[3])).unwrap();
        assert_eq!((lost(&others), third.is_lost()), (1, false), "of two with as many, that of the newest call");
        others.clear();
        drop((greedy, other, third));
        assert_eq!(calls.count(), 0);
    }
}
