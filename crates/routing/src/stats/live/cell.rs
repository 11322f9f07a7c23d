//! State of one endpoint or provider on the live board.
//!
//! A cell is a small state behind its own lock, held for tens of nanoseconds and never across another cell's, with
//! one exception: a claim locks its endpoint, then its provider. An atomic word beside the lock says whether the state
//! is worth reading, because a decision reads all cells and most cells of a large catalog are unused.

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use pointsman_domain::{BreakerPolicy, EndpointId, FailureCause, ProviderSlug, Tick};

use super::{
    breaker::Breaker,
    gate::Gate,
    pacing::Pacing,
    quota::Quota,
    view::{LiveEndpoint, LiveProvider},
};

use crate::stats::model::failures::FailureModel;

/// Unanswered requests that are examined, the oldest first.
const PENDING_SEEN: usize = 64;
/// Improbability (−ln) of the waiting times of all unanswered requests from which an endpoint counts as silent: once in
/// a hundred and fifty times by chance.
const SILENT: f64 = 5.0;
/// Standard deviations above the expected time from which a request that was given up is evidence of silence.
const GIVEN_UP: f64 = 1.5;
/// Openings of a provider's endpoints within this time count as one event.
const TOGETHER: std::time::Duration = std::time::Duration::from_secs(5);
/// Different callers whose equal refusals in unknown words count as evidence.
pub(crate) const ENOUGH_CALLERS: usize = 2;
/// Different callers who are remembered; as many equal 400s are shown.
const CALLERS_KEPT: usize = 3;

/// Bits of the word beside an endpoint's lock.
const USED: u32 = 1;
const ALERT: u32 = 2;

/// A request without a sign of life so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    pub serial: u64,
    pub start: Tick,
    /// Expected seconds until the first sign of life.
    pub expected: f64,
    /// Standard deviation of their ln.
    pub sigma: f64,
}

/// Requests that were given up without a sign of life: time-outs, clients that left, lost races. For a while they are
/// evidence like waiting requests. Otherwise a hanging endpoint whose requests are all cancelled would never look late.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Lost {
    /// The two largest ratios of age to expected time, larger first.
    overdue: [f64; 2],
    /// Standard deviation of ln of the expected time.
    sigma: f64,
    /// Start of the last of them.
    start: Tick,
    /// Until when they count.
    until: Tick,
    /// Their number since the last sign of life.
    count: u32,
}

/// State of an endpoint, behind the lock of its cell.
#[derive(Debug, Default)]
pub(crate) struct EndpointCellState {
    pub in_flight: u32,
    pub serial: u64,
    /// Ordered by serial number, and so by start within microseconds.
    pub pending: Vec<Pending>,
    pub breaker: Breaker,
    pub outcomes: FailureModel,
    pub pacing: Pacing,
    pub quota: Quota,
    pub lost: Lost,
    /// Latest start of a request that gave a sign of life. Unanswered requests that started earlier were overtaken.
    pub heard: Option<Tick>,
    /// Time of the last first token or whole answer.
    pub alive: Option<Tick>,
    /// Latest start of a request that failed.
    pub failed: Option<Tick>,
    /// Until when the advice of another replica counts that the endpoint fails.
    pub advised: Option<Tick>,
    /// Callers who were refused in unknown words.
    pub refusals: Witnesses,
    /// Callers whose requests were called wrong in the same words.
    pub mistakes: Witnesses,
    /// Callers whose requests failed since the last success, whatever the fault.
    pub faults: Witnesses,
    /// The same since the last fault that counts although the request may have caused it, and the caller of that.
    pub doubted: Witnesses,
    /// Callers whose requests were served.
    pub served: Witnesses,
    /// Refusals of requests that were sent before count no more: what was refused has changed.
    pub pardoned: Option<Tick>,
}

/// Different callers who got the same refusal without a success in between. One caller alone proves nothing, because it
/// chooses what its requests hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Witnesses {
    said: u64,
    callers: [Option<u64>; CALLERS_KEPT],
}

impl Witnesses {
    /// Notes what was said to a caller. Returns how many different ones have heard the same, as far as remembered.
    pub(crate) fn hear(&mut self, caller: u64, said: u64) -> usize {
        if said != self.said {
            *self = Witnesses { said, ..Witnesses::default() };
        }
        if !self.callers.contains(&Some(caller)) {
            self.callers.rotate_right(1);
            self.callers[0] = Some(caller);
        }
        self.count()
    }

    pub(crate) fn count(&self) -> usize {
        self.callers.iter().flatten().count()
    }

    /// Whether another caller than this one is remembered.
    pub(crate) fn has_other(&self, caller: u64) -> bool {
        self.callers.iter().flatten().any(|other| *other != caller)
    }

    /// Whether every remembered place is taken.
    fn is_full(&self) -> bool {
        self.count() == CALLERS_KEPT
    }
}

#[derive(Debug)]
pub(crate) struct EndpointCell {
    pub id: EndpointId,
    word: AtomicU32,
    state: Mutex<EndpointCellState>,
}

impl EndpointCell {
    pub(crate) fn new(id: EndpointId) -> EndpointCell {
        EndpointCell { id, word: AtomicU32::new(0), state: Mutex::default() }
    }

    /// Changes the state, then updates the word beside the lock.
    pub(crate) fn change<T>(&self, with: impl FnOnce(&mut EndpointCellState) -> T) -> T {
        let mut state = self.state.lock();
        let outcome = with(&mut state);
        let quiet = state.in_flight == 0 && state.is_quiet();
        self.word.store(if quiet { USED } else { USED | ALERT }, Ordering::Release);
        outcome
    }

    pub(crate) fn view(&self, now: Tick) -> LiveEndpoint {
        match self.word.load(Ordering::Acquire) {
            0 => LiveEndpoint::default(),
            USED => LiveEndpoint { used: true, ..LiveEndpoint::default() },
            _ => self.state.lock().view(now),
        }
    }
}

impl EndpointCellState {
    fn is_quiet(&self) -> bool {
        self.breaker.is_quiet()
            && self.pacing.is_quiet()
            && self.quota.is_quiet()
            && self.lost.count == 0
            && self.mistakes.count() == 0
    }

    /// When the next request is allowed by pacing and quota.
    pub(crate) fn due(&self, now: Tick) -> Option<Tick> {
        self.pacing.due(now).max(self.quota.due(now))
    }

    fn view(&self, now: Tick) -> LiveEndpoint {
        LiveEndpoint {
            in_flight: self.in_flight,
            silent: self.is_silent(now),
            gate: self.breaker.gate(now),
            due: self.due(now),
            tokens: self.quota.tokens(now),
            failures: self.breaker.failures(),
            last: self.breaker.last(),
            told: self.breaker.told(),
            refused: self.breaker.refused(),
            all_mistaken: self.mistakes.is_full(),
            used: true,
        }
    }

    /// Whether the waiting times of its unanswered requests are too long together to be chance. One request may be late
    /// by chance, but that all are late is less likely with each.
    fn is_silent(&self, now: Tick) -> bool {
        // The oldest come first and usually suffice.
        let given_up = self.lost.overdue(now).map(|ratio| improbability(ratio, self.lost.sigma));
        let waiting = self.waiting().map(|pending| improbability(pending.overdue(now), pending.sigma));
        let mut sum = 0.0;
        given_up.into_iter().chain(waiting).any(|each| {
            sum += each;
            sum > SILENT
        })
    }

    /// Unanswered requests that were not overtaken by a later one.
    fn waiting(&self) -> impl Iterator<Item = &Pending> {
        self.pending.iter().take(PENDING_SEEN).filter(|pending| !self.is_overtaken(pending.start))
    }

    fn is_overtaken(&self, start: Tick) -> bool {
        self.heard.is_some_and(|heard| start < heard)
    }

    /// Records a sign of life of a request.
    pub(crate) fn sign_of_life(&mut self, dispatched: Tick, now: Tick) {
        self.alive = self.alive.max(Some(now));
        // What is measured here counts more than what others say.
        self.advised = None;
        self.heard = self.heard.max(Some(dispatched));
        if dispatched > self.lost.start {
            self.lost = Lost::default();
        }
    }

    /// Removes a request from the unanswered ones.
    pub(crate) fn answered(&mut self, serial: u64) -> Option<Pending> {
        let position = self.pending.binary_search_by_key(&serial, |pending| pending.serial).ok()?;
        Some(self.pending.remove(position))
    }

    /// Removes a request that was given up. Returns whether it was late and so is evidence. Each further one without a
    /// sign of life in between counts for longer.
    pub(crate) fn give_up(&mut self, serial: u64, now: Tick, policy: &BreakerPolicy) -> bool {
        let waited = self.answered(serial).filter(|pending| !self.is_overtaken(pending.start));
        let Some(pending) = waited.filter(|pending| pending.is_late_by(GIVEN_UP, now)) else { return false };
        let ratio = pending.overdue(now);
        let lost = &mut self.lost;
        lost.count = (lost.count + 1).min(policy.max_steps.max(1));
        lost.overdue = ranked(lost.overdue, ratio);
        lost.sigma = pending.sigma;
        lost.start = lost.start.max(pending.start);
        lost.until = now.plus(policy.open_for(lost.count));
        true
    }
}

impl Lost {
    /// The evidence at `now`. How long they would have taken is unknown: each further one doubles the estimate.
    fn overdue(&self, now: Tick) -> [f64; 2] {
        let [first, second] = if now < self.until { self.overdue } else { [0.0; 2] };
        [first * f64::from(1_u32 << self.count.saturating_sub(1).min(16)), second]
    }
}

impl Pending {
    /// Age relative to the expected time.
    fn overdue(&self, now: Tick) -> f64 {
        now.seconds_since(self.start) / self.expected
    }

    /// Whether it is late by this many standard deviations.
    fn is_late_by(&self, sigmas: f64, now: Tick) -> bool {
        self.overdue(now) > libm::exp(sigmas * self.sigma)
    }
}

/// Improbability (−ln) that a log-normal time with standard deviation `sigma` exceeds `ratio` times its expectation: an
/// approximation of the normal tail, within a tenth up to three deviations. 0 for a ratio up to 1.
fn improbability(ratio: f64, sigma: f64) -> f64 {
    if ratio <= 1.0 {
        return 0.0;
    }
    let z = libm::log(ratio) / sigma.max(1e-3);
    std::f64::consts::LN_2 + z * (0.7507 + 0.3972 * z)
}

/// The two largest of three ratios.
fn ranked([first, second]: [f64; 2], ratio: f64) -> [f64; 2] {
    if ratio > first { [ratio, first] } else { [first, second.max(ratio)] }
}

/// State of a provider, behind the lock of its cell.
#[derive(Debug, Default)]
pub(crate) struct ProviderCellState {
    pub breaker: Breaker,
    /// Callers who were refused in unknown words.
    pub refusals: Witnesses,
    /// As of an endpoint.
    pub pardoned: Option<Tick>,
    /// Endpoints whose breaker opened on a refused connection, and when.
    refused: Vec<(EndpointId, Tick)>,
}

#[derive(Debug)]
pub(crate) struct ProviderCell {
    pub slug: ProviderSlug,
    /// 1 if the state is worth reading.
    word: AtomicU32,
    state: Mutex<ProviderCellState>,
}

impl ProviderCell {
    pub(crate) fn new(slug: ProviderSlug) -> ProviderCell {
        ProviderCell { slug, word: AtomicU32::new(0), state: Mutex::default() }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.word.load(Ordering::Acquire) == 0
    }

    pub(crate) fn change<T>(&self, with: impl FnOnce(&mut ProviderCellState) -> T) -> T {
        let mut state = self.state.lock();
        let outcome = with(&mut state);
        let quiet = state.breaker.is_quiet() && state.refusals.count() == 0 && state.refused.is_empty();
        self.word.store(u32::from(!quiet), Ordering::Release);
        outcome
    }

    pub(crate) fn view(&self, now: Tick) -> LiveProvider {
        if self.is_quiet() {
            return LiveProvider::default();
        }
        let state = self.state.lock();
        let breaker = &state.breaker;
        LiveProvider {
            gate: breaker.gate(now),
            failures: breaker.failures(),
            last: breaker.last(),
            refused: breaker.refused(),
        }
    }
}

impl ProviderCellState {
    /// Whether the provider as a whole is unreachable: two of its endpoints, or more than half of its `endpoints`,
    /// opened on refused connections within seconds.
    pub(crate) fn refused(&mut self, endpoint: EndpointId, now: Tick, endpoints: usize, cause: FailureCause) -> bool {
        self.refused.retain(|(other, at)| *other != endpoint && now - *at <= TOGETHER);
        self.refused.push((endpoint, now));
        self.breaker.count(cause);
        self.refused.len() >= 2 || 2 * self.refused.len() > endpoints
    }

    /// An answer ends runs of refused connections and of refusals in unknown words.
    pub(crate) fn answered(&mut self) {
        self.refusals = Witnesses::default();
        self.refused.clear();
    }

    pub(crate) fn gate(&self, now: Tick) -> Gate {
        self.breaker.gate(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn improbability_is_that_of_the_normal_tail() {
        for tenths in 0..=30 {
            let z = 0.1 * f64::from(tenths) + 1e-9;
            let tail = -libm::log(0.5 * libm::erfc(z * std::f64::consts::FRAC_1_SQRT_2));
            let own = improbability(libm::exp(0.7 * z), 0.7);
            assert!((own - tail).abs() < 0.1, "{z}: {own}, not {tail}");
        }
        assert!(improbability(1.0, 0.7) == 0.0 && improbability(0.2, 0.7) == 0.0);
        assert!(improbability(f64::MAX, 0.0).is_finite());
    }
}
