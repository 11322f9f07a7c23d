//! The fast cells themselves: one per endpoint, one per provider.
//!
//! A cell is a small state behind its own lock, held for tens of nanoseconds and never across another cell's,
//! with one exception: a claim locks its endpoint, then its provider. Beside the lock an atomic word says
//! whether there is anything to see, because most cells of a large catalog are unused and a decision looks at
//! all of them.

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::{Breaker, Gate, LiveEndpoint, LiveProvider, Outcomes, Pacing};
use crate::domain::{Cause, EndpointId, ProviderSlug, Tick};

/// Unanswered requests looked at, the oldest first. Beyond it an endpoint is in trouble enough.
const PENDING_SEEN: usize = 64;
/// Openings of a provider's endpoints this close together are one event.
const TOGETHER: std::time::Duration = std::time::Duration::from_secs(5);
/// 403s in a row, at one provider, that are the account's fault.
const FORBIDDEN_REPEATED: u32 = 2;

/// Bits of the word beside an endpoint's lock.
const USED: u32 = 1;
const ALERT: u32 = 2;

/// A request that gave no sign of life yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    pub serial: u64,
    pub start: Tick,
    /// Seconds until a sign of life is expected.
    pub expected: f64,
}

/// What the lock of an endpoint's cell guards.
#[derive(Debug, Default)]
pub(super) struct EndpointState {
    pub in_flight: u32,
    pub serial: u64,
    /// In the order of their start.
    pub pending: Vec<Pending>,
    pub breaker: Breaker,
    pub outcomes: Outcomes,
    pub pacing: Pacing,
    /// When it last gave a first token or a whole answer.
    pub alive: Option<Tick>,
}

#[derive(Debug)]
pub(super) struct EndpointCell {
    pub id: EndpointId,
    word: AtomicU32,
    state: Mutex<EndpointState>,
}

impl EndpointCell {
    pub(super) fn new(id: EndpointId) -> EndpointCell {
        EndpointCell { id, word: AtomicU32::new(0), state: Mutex::default() }
    }

    /// Changes the state, then says beside the lock whether there is anything to see.
    pub(super) fn change<T>(&self, with: impl FnOnce(&mut EndpointState) -> T) -> T {
        let mut state = self.state.lock();
        let outcome = with(&mut state);
        let quiet = state.in_flight == 0 && state.breaker.is_quiet() && state.pacing.is_quiet();
        self.word.store(if quiet { USED } else { USED | ALERT }, Ordering::Release);
        outcome
    }

    pub(super) fn view(&self, now: Tick) -> LiveEndpoint {
        match self.word.load(Ordering::Acquire) {
            0 => LiveEndpoint::default(),
            USED => LiveEndpoint { used: true, ..LiveEndpoint::default() },
            _ => self.state.lock().view(now),
        }
    }
}

impl EndpointState {
    fn view(&self, now: Tick) -> LiveEndpoint {
        LiveEndpoint {
            in_flight: self.in_flight,
            overdue: self.overdue(now),
            gate: self.breaker.gate(now),
            due: self.pacing.due(now),
            failures: self.breaker.failures(),
            last: self.breaker.last(),
            used: true,
        }
    }

    fn overdue(&self, now: Tick) -> [f64; 2] {
        self.pending.iter().take(PENDING_SEEN).fold([0.0, 0.0], |[first, second], pending| {
            let ratio = now.seconds_since(pending.start) / pending.expected;
            if ratio > first { [ratio, first] } else { [first, second.max(ratio)] }
        })
    }

    /// The request gave a sign of life, or will give none.
    pub(super) fn answered(&mut self, serial: u64) {
        if let Some(position) = self.pending.iter().position(|pending| pending.serial == serial) {
            self.pending.remove(position);
        }
    }
}

/// What the lock of a provider's cell guards.
#[derive(Debug, Default)]
pub(super) struct ProviderState {
    pub breaker: Breaker,
    /// 403s in a row.
    forbidden: u32,
    /// Endpoints that opened for lack of a connection, and when.
    refused: Vec<(EndpointId, Tick)>,
}

#[derive(Debug)]
pub(super) struct ProviderCell {
    pub slug: ProviderSlug,
    /// 1 while there is anything to see.
    word: AtomicU32,
    state: Mutex<ProviderState>,
}

impl ProviderCell {
    pub(super) fn new(slug: ProviderSlug) -> ProviderCell {
        ProviderCell { slug, word: AtomicU32::new(0), state: Mutex::default() }
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.word.load(Ordering::Acquire) == 0
    }

    pub(super) fn change<T>(&self, with: impl FnOnce(&mut ProviderState) -> T) -> T {
        let mut state = self.state.lock();
        let outcome = with(&mut state);
        let quiet = state.breaker.is_quiet() && state.forbidden == 0 && state.refused.is_empty();
        self.word.store(u32::from(!quiet), Ordering::Release);
        outcome
    }

    pub(super) fn view(&self, now: Tick) -> LiveProvider {
        if self.is_quiet() {
            return LiveProvider::default();
        }
        let state = self.state.lock();
        let breaker = &state.breaker;
        LiveProvider { gate: breaker.gate(now), failures: breaker.failures(), last: breaker.last() }
    }
}

impl ProviderState {
    /// Whether the provider as a whole went: two of its endpoints, or more than half of its `endpoints`,
    /// opened for lack of a connection within seconds.
    pub(super) fn refused(&mut self, endpoint: EndpointId, now: Tick, endpoints: usize, cause: Cause) -> bool {
        self.refused.retain(|(other, at)| *other != endpoint && now - *at <= TOGETHER);
        self.refused.push((endpoint, now));
        self.breaker.count(cause);
        self.refused.len() >= 2 || 2 * self.refused.len() > endpoints
    }

    /// Whether 403s repeat.
    pub(super) fn forbidden(&mut self) -> bool {
        self.forbidden = self.forbidden.saturating_add(1);
        self.forbidden >= FORBIDDEN_REPEATED
    }

    /// An answer came: nothing is refused or forbidden.
    pub(super) fn answered(&mut self) {
        self.forbidden = 0;
        self.refused.clear();
    }

    pub(super) fn gate(&self, now: Tick) -> Gate {
        self.breaker.gate(now)
    }
}
