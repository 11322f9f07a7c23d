//! What every worker sees at once: requests in flight, unanswered ones, breakers, cooldowns, pacing.
//!
//! A worker changes a cell the moment something happens, so the next decision on any worker sees a refusal
//! without waiting for a batch of news. How long a breaker stays open is policy and comes as an argument. The
//! slow statistics learn of the same events later, through [`Statistics`](crate::stats::publish::statistics::Statistics).
//!
//! A [`Claim`] must be finished however its request ends; the guard that sees to it lives with the actors.

use std::sync::Arc;

use super::{
    breaker::PassedAs,
    cell::{EndpointCell, EndpointState, Pending, ProviderCell, ProviderState},
    gate::Gate,
    quota::QuotaReport,
    view::LiveView,
};
use crate::domain::{
    Candidate, Catalog, EndpointEvent, EndpointId, EventKind, ExclusionReason, Failure, FailureCause, FailureKind,
    GateEvent, Prediction, Provider, RoutingPolicy, Tick,
};
use crate::stats::{mix::mix, model::failure_effect::FailureEffect};

/// The fast cells of every endpoint and provider. Shared by all workers.
#[derive(Debug)]
pub struct LiveBoard {
    seed: u64,
    endpoints: Vec<Slot>,
    providers: Vec<ProviderSlot>,
}

#[derive(Debug, Clone)]
struct Slot {
    cell: Arc<EndpointCell>,
    provider: u32,
}

#[derive(Debug, Clone)]
struct ProviderSlot {
    cell: Arc<ProviderCell>,
    /// How many endpoints it has that may be called.
    endpoints: usize,
}

/// A place at an endpoint, counted from the moment it was given, until [`LiveBoard::finish`] takes it: on the board that
/// gave it or one carried over from it.
#[derive(Debug, PartialEq)]
#[must_use = "an attempt that is not finished counts as in flight for ever"]
pub struct Claim {
    /// Position of the endpoint in the catalog of the board that gave it.
    pub index: u32,
    /// Which endpoint.
    pub endpoint: EndpointId,
    /// When.
    pub dispatched: Tick,
    /// Requests in flight there, itself included.
    pub in_flight: u32,
    /// Seconds until a sign of life is expected.
    pub expected: f64,
    /// Prompt tokens that it was expected to read from its cache: these teach nothing about prompts.
    pub cached_tokens: u32,
    /// Prompt tokens that the request is expected to have, as its model counts them.
    pub prompt_tokens: u32,
    /// What was expected of the attempt in all; travels with its events.
    pub predicted: Prediction,
    /// Whether it is the one probe of a half-open breaker, of the endpoint or its provider.
    pub probe: bool,
    serial: u64,
    knee: f64,
    caller: PassedAs,
    provider_caller: PassedAs,
}

impl Claim {
    /// The news that this happened to its attempt.
    #[must_use]
    pub const fn event(&self, at: Tick, kind: EventKind) -> EndpointEvent {
        let Claim { endpoint, dispatched, in_flight, predicted, expected, .. } = *self;
        EndpointEvent { endpoint, at, dispatched, in_flight, predicted, expected, gate: GateEvent::Unmoved, kind }
    }
}

/// The end of an attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FinishedClaim {
    /// The event for the statistics.
    pub event: EndpointEvent,
    /// The gates that moved, which are published at once.
    pub change: Option<BreakerChange>,
}

/// Gates that moved when a claim was finished.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BreakerChange {
    /// Position of the endpoint.
    pub index: u32,
    /// Position of its provider.
    pub provider: u32,
    /// How the endpoint's gate moved, if it did.
    pub endpoint_gate: Option<GateChange>,
    /// How the provider's gate moved, if it did.
    pub provider_gate: Option<GateChange>,
    /// The failure behind it; `None` when a probe found things well.
    pub cause: Option<FailureCause>,
}

impl BreakerChange {
    fn news(&self) -> GateEvent {
        // Nothing but a success opens an endpoint's gate.
        let recovered = self.endpoint_gate.is_some_and(|gate| gate.to.is_passing());
        if recovered { GateEvent::Recovered } else { GateEvent::Moved }
    }
}

/// From one gate to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GateChange {
    /// Before.
    pub from: Gate,
    /// After.
    pub to: Gate,
}

impl LiveBoard {
    /// Unused cells for every endpoint and provider of the catalog. The seed scatters how long breakers stay open,
    /// so that replicas do not probe in step.
    #[must_use]
    pub fn new(catalog: &Catalog, seed: u64) -> LiveBoard {
        LiveBoard { seed, endpoints: Vec::new(), providers: Vec::new() }.carried(catalog)
    }

    /// A board for another catalog that shares the cells of the endpoints and providers both know.
    #[must_use]
    pub fn carried(&self, catalog: &Catalog) -> LiveBoard {
        let endpoints = catalog.endpoints.iter().map(|endpoint| {
            let known = self.endpoints.iter().find(|slot| slot.cell.id == endpoint.id);
            let cell = known.map_or_else(|| Arc::new(EndpointCell::new(endpoint.id)), |slot| Arc::clone(&slot.cell));
            Slot { cell, provider: endpoint.provider }
        });
        let providers = (0_u32..).zip(&catalog.providers).map(|(index, provider)| {
            let endpoints = catalog.endpoints.iter().filter(|e| e.provider == index && !e.disabled).count();
            ProviderSlot { cell: self.provider_cell(provider), endpoints }
        });
        LiveBoard { seed: self.seed, endpoints: endpoints.collect(), providers: providers.collect() }
    }

    /// One copy of the fast cells. Unused cells cost a few nanoseconds, used ones a lock.
    #[must_use]
    pub fn view(&self, now: Tick) -> LiveView {
        let mut view = LiveView::default();
        self.refresh(now, &mut view);
        view
    }

    /// Overwrites a copy with what the cells hold now; saves the allocation of a fresh one.
    pub fn refresh(&self, now: Tick, view: &mut LiveView) {
        view.endpoints.clear();
        view.endpoints.extend(self.endpoints.iter().map(|slot| slot.cell.view(now)));
        view.providers.clear();
        view.providers.extend(self.providers.iter().map(|slot| slot.cell.view(now)));
    }

    /// Takes a place at the endpoint of a candidate: counted as in flight and unanswered at once.
    ///
    /// # Errors
    /// When its gate or its provider's has shut since the decision, or another request took the probe or the
    /// pacing token: the next candidate is to be tried.
    pub fn claim(&self, index: u32, now: Tick, candidate: &Candidate) -> Result<Claim, ExclusionReason> {
        let slot = self.endpoints.get(index as usize).ok_or(ExclusionReason::Disabled)?;
        slot.cell.change(|state| {
            if !candidate.panic && !candidate.probe && state.is_due_later(now, candidate) {
                return Err(ExclusionReason::Paced);
            }
            // Looked at before the provider is asked, so that a refusal here takes no probe slot there.
            let mut breaker = state.breaker;
            let caller = breaker.admit(now, candidate.probe, candidate.panic)?;
            let provider_caller = self.admit_at_provider(slot.provider, now, candidate)?;
            state.breaker = breaker;
            Ok(state.claimed(index, slot, now, candidate, (caller, provider_caller)))
        })
    }

    /// The request gave its first sign of life.
    pub fn first_token(&self, claim: &Claim, now: Tick) {
        let Some(slot) = self.slot(claim) else { return };
        slot.cell.change(|state| {
            state.answered(claim.serial);
            state.sign_of_life(claim.dispatched, now);
        });
    }

    /// The answer to a request told what is left of the endpoint's quota.
    pub fn quota(&self, claim: &Claim, now: Tick, report: QuotaReport) {
        let Some(slot) = self.slot(claim) else { return };
        slot.cell.change(|state| state.quota.report(now, report, state.serial.wrapping_sub(claim.serial)));
    }

    /// Gives the place back and reads the end of the attempt.
    pub fn finish(&self, claim: Claim, now: Tick, end: EventKind, policy: &RoutingPolicy) -> FinishedClaim {
        let change = self.end(&claim, now, end, policy);
        let gate = change.map_or(GateEvent::Unmoved, |change| change.news());
        FinishedClaim { event: EndpointEvent { gate, ..claim.event(now, end) }, change }
    }

    fn end(&self, claim: &Claim, now: Tick, end: EventKind, policy: &RoutingPolicy) -> Option<BreakerChange> {
        let slot = self.slot(claim)?;
        let jitter = |opens| self.jitter(claim.endpoint.0, opens);
        let (endpoint_gate, last) = slot.cell.change(|state| {
            let from = state.breaker.gate(now);
            state.finish(claim, now, &end, policy, jitter);
            (moved(from, state.breaker.gate(now)), state.breaker.last())
        });
        let opened = matches!(endpoint_gate, Some(GateChange { to: Gate::Open { .. }, .. }));
        let provider_gate = self.tell_provider(slot.provider, claim, now, &end, opened, policy);
        let change = BreakerChange {
            index: claim.index,
            provider: slot.provider,
            endpoint_gate,
            provider_gate,
            cause: cause(&end).or(last.filter(|_| opened)),
        };
        (endpoint_gate.is_some() || provider_gate.is_some()).then_some(change)
    }

    fn tell_provider(
        &self,
        provider: u32,
        claim: &Claim,
        now: Tick,
        end: &EventKind,
        opened: bool,
        policy: &RoutingPolicy,
    ) -> Option<GateChange> {
        let slot = self.providers.get(provider as usize)?;
        let well = !matches!(end, EventKind::Failed { .. });
        if well && slot.cell.is_quiet() {
            return None;
        }
        // By name: its position is another one after the next change of the configuration.
        let jitter = |opens| self.jitter(EndpointId::of("", slot.cell.slug.as_str(), "").0, opens);
        slot.cell.change(|state| {
            let from = state.gate(now);
            let opened = opened.then_some((claim.endpoint, slot.endpoints));
            state.finish(claim.provider_caller, opened, now, end, policy, jitter);
            moved(from, state.gate(now))
        })
    }

    fn admit_at_provider(&self, provider: u32, now: Tick, candidate: &Candidate) -> Result<PassedAs, ExclusionReason> {
        let slot = self.providers.get(provider as usize).filter(|slot| !slot.cell.is_quiet());
        let Some(slot) = slot else { return Ok(PassedAs::Ordinary) };
        slot.cell.change(|state| state.breaker.admit(now, candidate.probe, candidate.panic))
    }

    /// The cell of a claim, also when it was given under other positions.
    fn slot(&self, claim: &Claim) -> Option<&Slot> {
        let here = self.endpoints.get(claim.index as usize).filter(|slot| slot.cell.id == claim.endpoint);
        here.or_else(|| self.endpoints.iter().find(|slot| slot.cell.id == claim.endpoint))
    }

    fn provider_cell(&self, provider: &Provider) -> Arc<ProviderCell> {
        let known = self.providers.iter().find(|slot| slot.cell.slug == provider.slug);
        known.map_or_else(|| Arc::new(ProviderCell::new(provider.slug.clone())), |slot| Arc::clone(&slot.cell))
    }

    /// 0.95 to 1.15, the same for the same opening of the same thing. Few are shorter, so that ten minutes of outage
    /// cost no probe more than without it.
    fn jitter(&self, of: u64, opens: u32) -> f64 {
        let draw = mix(mix(self.seed, of), u64::from(opens)) >> 11;
        0.95 + 0.2 * (draw as f64 / (1_u64 << 53) as f64)
    }
}

/// Tokens that a candidate's request is expected to take from a quota.
fn tokens(candidate: &Candidate) -> u64 {
    u64::from(candidate.inputs.prompt_tokens) + candidate.inputs.output_tokens as u64
}

impl EndpointState {
    fn is_due_later(&self, now: Tick, candidate: &Candidate) -> bool {
        self.due(now).is_some() || self.quota.tokens(now).is_some_and(|quota| quota.left < tokens(candidate))
    }

    fn claimed(
        &mut self,
        index: u32,
        slot: &Slot,
        now: Tick,
        candidate: &Candidate,
        (caller, provider_caller): (PassedAs, PassedAs),
    ) -> Claim {
        self.in_flight = self.in_flight.saturating_add(1);
        self.serial = self.serial.wrapping_add(1);
        self.pacing.admit(now);
        self.quota.admit(now, tokens(candidate));
        let expected = candidate.inputs.expected;
        let sigma = candidate.inputs.spread;
        self.pending.push(Pending { serial: self.serial, start: now, expected: expected.max(1e-6), sigma });
        Claim {
            index,
            endpoint: slot.cell.id,
            dispatched: now,
            in_flight: self.in_flight,
            expected,
            cached_tokens: candidate.inputs.cached_tokens,
            prompt_tokens: candidate.inputs.prompt_tokens,
            predicted: candidate.predicted,
            probe: caller == PassedAs::Probe || provider_caller == PassedAs::Probe,
            serial: self.serial,
            knee: candidate.inputs.knee,
            caller,
            provider_caller,
        }
    }

    fn finish(
        &mut self,
        claim: &Claim,
        now: Tick,
        end: &EventKind,
        policy: &RoutingPolicy,
        jitter: impl Fn(u32) -> f64,
    ) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let overdue = is_given_up(end) && self.give_up(claim.serial, now, &policy.breaker);
        self.answered(claim.serial);
        match end {
            EventKind::Completed { .. } => {
                self.sign_of_life(claim.dispatched, now);
                self.outcomes.succeed(now, policy.stats.half_life);
                // What was under way before a failure ends no run of them, unless it was sent past the breaker.
                let is_news = self.failed.is_none_or(|failed| failed <= claim.dispatched);
                if is_news || claim.caller != PassedAs::Ordinary {
                    self.outcomes.settle(now, policy.stats.half_life);
                    if self.breaker.succeed(claim.caller) {
                        self.outcomes.recover();
                    }
                }
            }
            EventKind::Failed { failure, .. } => self.fail(claim, now, failure, policy, jitter),
            // Taken away while it was late, a probe has told enough: freed, its slot would cost the next request as much.
            EventKind::Cancelled { .. } if overdue && claim.caller == PassedAs::Probe => {
                self.breaker.count(FailureCause { kind: FailureKind::Timeout, status: None });
                self.breaker.trip(now, claim.caller, true, &policy.breaker, jitter);
            }
            _ => self.breaker.release(claim.caller),
        }
    }

    fn fail(
        &mut self,
        claim: &Claim,
        now: Tick,
        failure: &Failure,
        policy: &RoutingPolicy,
        jitter: impl Fn(u32) -> f64,
    ) {
        let cause = FailureCause { kind: failure.kind, status: failure.status };
        let verdict = FailureEffect::of(failure);
        if verdict.is_failure() {
            self.outcomes.fail(now, policy.stats.half_life);
        }
        match verdict {
            FailureEffect::Late if self.is_overloaded(claim) && claim.caller == PassedAs::Ordinary => {}
            FailureEffect::Refused | FailureEffect::Fault | FailureEffect::Late => {
                self.breaker.count(cause);
                self.failed = self.failed.max(Some(claim.dispatched));
                let trips = verdict == FailureEffect::Refused
                    || (verdict == FailureEffect::Late && self.is_mute_since(claim.dispatched))
                    || self.breaker.failures() >= self.enough(verdict, policy.breaker.consecutive);
                self.breaker.trip(now, claim.caller, trips, &policy.breaker, jitter);
                if failure.retry_after.is_some() {
                    self.breaker.cool(now, failure.retry_after, cause);
                }
            }
            FailureEffect::Busy => {
                self.breaker.cool(now, failure.retry_after, cause);
                if policy.pacing {
                    self.pacing.refuse(now, claim.dispatched);
                }
            }
            FailureEffect::UnknownModel => self.breaker.fault(now, claim.caller, cause),
            FailureEffect::Account | FailureEffect::Forbidden | FailureEffect::Silent => {
                self.breaker.release(claim.caller)
            }
        }
    }

    /// How many failures in a row open the breaker: one less right after many answers in a row, but a single one never
    /// does. Time-outs come in runs where an endpoint is merely slow.
    fn enough(&self, verdict: FailureEffect, consecutive: u32) -> u32 {
        let usual = self.outcomes.coincidence(consecutive);
        let sudden = verdict == FailureEffect::Fault && self.breaker.failed_suddenly() && consecutive > 2;
        if sudden { usual.min(consecutive - 1) } else { usual }
    }

    /// Whether nothing was heard of it that was asked then or later. A time-out is then no slow answer among others.
    fn is_mute_since(&self, dispatched: Tick) -> bool {
        self.heard < Some(dispatched)
    }

    /// A time-out beyond the knee of an endpoint that gave a sign of life meanwhile is our own load, not a fault.
    fn is_overloaded(&self, claim: &Claim) -> bool {
        f64::from(claim.in_flight) > claim.knee && self.alive > Some(claim.dispatched)
    }
}

impl ProviderState {
    /// `opened` names the endpoint that opened with this failure and counts its siblings.
    fn finish(
        &mut self,
        caller: PassedAs,
        opened: Option<(EndpointId, usize)>,
        now: Tick,
        end: &EventKind,
        policy: &RoutingPolicy,
        jitter: impl Fn(u32) -> f64,
    ) {
        let EventKind::Failed { failure, .. } = end else {
            if matches!(end, EventKind::Completed { .. }) {
                self.answered();
                _ = self.breaker.succeed(caller);
            }
            return self.breaker.release(caller);
        };
        let cause = FailureCause { kind: failure.kind, status: failure.status };
        match FailureEffect::of(failure) {
            FailureEffect::Refused => {
                let trips = opened.is_some_and(|(id, endpoints)| self.refused(id, now, endpoints, cause));
                self.breaker.trip(now, caller, trips, &policy.breaker, jitter);
            }
            FailureEffect::Late => self.breaker.trip(now, caller, false, &policy.breaker, jitter),
            FailureEffect::Account => self.breaker.fault(now, caller, cause),
            FailureEffect::Forbidden if self.forbidden() => self.breaker.fault(now, caller, cause),
            // It answered, so it can be reached. Whether it would serve its account is for the next probe to say.
            FailureEffect::Fault
            | FailureEffect::Busy
            | FailureEffect::Forbidden
            | FailureEffect::UnknownModel
            | FailureEffect::Silent => {
                self.breaker.release(caller);
            }
        }
    }
}

/// Whether it was waited for in vain.
fn is_given_up(end: &EventKind) -> bool {
    match end {
        EventKind::Cancelled { had_content, .. } => !had_content,
        EventKind::Failed { failure, had_content } => !had_content && FailureEffect::of(failure) == FailureEffect::Late,
        _ => false,
    }
}

fn moved(from: Gate, to: Gate) -> Option<GateChange> {
    (std::mem::discriminant(&from) != std::mem::discriminant(&to)).then_some(GateChange { from, to })
}

fn cause(end: &EventKind) -> Option<FailureCause> {
    let EventKind::Failed { failure, .. } = end else { return None };
    Some(FailureCause { kind: failure.kind, status: failure.status })
}
