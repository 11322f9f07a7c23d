//! Live state shared by all workers: requests in flight, unanswered requests, breakers, cooldowns, pacing.
//!
//! A worker updates it immediately, so the next decision of any worker sees a refusal without waiting for an event
//! batch. How long a breaker stays open is policy and is an argument. The statistics receive the same events later,
//! through [`Statistics`](crate::stats::publish::statistics::Statistics).
//!
//! Every [`Claim`] must be finished, however its request ends; a guard in the actors ensures that.

use std::{sync::Arc, time::Duration};

use pointsman_domain::{
    Candidate, Catalog, EndpointEvent, EndpointId, EventKind, ExclusionReason, GateEvent, Provider, Query,
    RoutingPolicy, Target, Tick,
};

use super::{
    attempt_end::cause,
    breaker::PassedAs,
    cell::{EndpointCell, EndpointCellState, Pending, ProviderCell, Witnesses},
    change::{BreakerChange, GateChange, begun, moved},
    claim::{Claim, FinishedClaim},
    gate::Gate,
    quota::QuotaReport,
    view::LiveView,
};
use crate::stats::seeded_hash::seeded_hash;

/// Age from which the advice of another replica counts no more: as long as a breaker that has just opened for the first times.
const ADVICE_AGE: Duration = Duration::from_secs(10);

/// Live state of every endpoint and provider. Shared by all workers.
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
    /// Number of enabled endpoints.
    endpoints: usize,
}

impl LiveBoard {
    /// Unused state for every endpoint and provider of the catalog. The seed varies how long breakers stay open, so
    /// that replicas do not probe at the same time.
    pub fn new(catalog: &Catalog, seed: u64) -> LiveBoard {
        LiveBoard { seed, endpoints: Vec::new(), providers: Vec::new() }.carried(catalog)
    }

    /// A board for another catalog that shares the state of endpoints and providers in both.
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

    /// A copy of the state. Unused entries cost a few nanoseconds, used ones a lock.
    pub fn view(&self, now: Tick) -> LiveView {
        let mut view = LiveView::default();
        self.refresh(now, &mut view);
        view
    }

    /// Overwrites a copy with the present state, without allocating.
    pub fn refresh(&self, now: Tick, view: &mut LiveView) {
        view.endpoints.clear();
        view.endpoints.extend(self.endpoints.iter().map(|slot| slot.cell.view(now)));
        view.providers.clear();
        view.providers.extend(self.providers.iter().map(|slot| slot.cell.view(now)));
    }

    /// The same for all that a decision about this query reads: the endpoints of its models, and their providers. The entries of
    /// others stay as they were.
    pub fn refresh_for(&self, query: &Query, catalog: &Catalog, now: Tick, view: &mut LiveView) {
        view.endpoints.resize_with(self.endpoints.len(), Default::default);
        view.providers.resize_with(self.providers.len(), Default::default);
        for target in &query.targets {
            let Target::Model(position) = target else { return self.refresh(now, view) };
            for index in catalog.model(*position).into_iter().flat_map(|model| &model.endpoints) {
                let Some(slot) = self.endpoints.get(*index as usize) else { continue };
                let (endpoint, provider) = (view.endpoints.get_mut(*index as usize), slot.provider as usize);
                endpoint.into_iter().for_each(|endpoint| *endpoint = slot.cell.view(now));
                let providers = view.providers.get_mut(provider).zip(self.providers.get(provider));
                providers.into_iter().for_each(|(provider, slot)| *provider = slot.cell.view(now));
            }
        }
    }

    /// Claims an attempt at the endpoint of a candidate. It counts as in flight and unanswered at once.
    ///
    /// # Errors
    /// If its gate or its provider's closed since the decision, or another request took the probe slot or the pacing
    /// token. The next candidate should be tried.
    pub fn claim(&self, index: u32, now: Tick, candidate: &Candidate) -> Result<Claim, ExclusionReason> {
        let slot = self.endpoints.get(index as usize).ok_or(ExclusionReason::Disabled)?;
        slot.cell.change(|state| {
            if !candidate.panic && !candidate.probe && state.is_due_later(now, candidate) {
                return Err(ExclusionReason::Paced);
            }
            // Checked before the provider, so that a refusal here takes no probe slot there.
            let mut breaker = state.breaker;
            let passed_as = breaker.admit(now, candidate.probe, candidate.panic)?;
            let passed_provider_as = self.admit_at_provider(slot.provider, now, candidate)?;
            state.breaker = breaker;
            Ok(state.claimed(index, slot, now, candidate, (passed_as, passed_provider_as)))
        })
    }

    /// Hears from another replica that its breaker of an endpoint was open `age` ago. That excludes nothing here: it only lets
    /// the next failure here open the breaker at once. Not believed if the endpoint has answered here since then, or is
    /// known to fail. Returns whether it is believed.
    pub fn advise(&self, endpoint: EndpointId, now: Tick, age: Duration) -> bool {
        let slot = self.endpoints.iter().find(|slot| slot.cell.id == endpoint);
        let (Some(slot), Some(left)) = (slot, ADVICE_AGE.checked_sub(age)) else { return false };
        slot.cell.change(|state| {
            let has_answered_since = state.alive.is_some_and(|alive| now.since(alive) <= age);
            let is_believed = !has_answered_since && state.breaker.is_quiet();
            if is_believed {
                state.advised = Some(now.plus(left));
            }
            is_believed
        })
    }

    /// Ends the configuration faults of what has changed: `providers` with another key or address, `endpoints` with another
    /// upstream name of the model. Returns the positions of the providers and endpoints that were closed.
    pub fn pardon(&self, now: Tick, providers: &[u32], endpoints: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let opened_providers = providers.iter().copied().filter(|provider| {
            let slot = self.providers.get(*provider as usize);
            slot.is_some_and(|slot| {
                slot.cell.change(|state| {
                    (state.pardoned, state.refusals) = (Some(now), Witnesses::default());
                    state.breaker.pardon()
                })
            })
        });
        let is_changed = |index: u32, slot: &Slot| endpoints.contains(&index) || providers.contains(&slot.provider);
        let opened_endpoints = (0_u32..).zip(&self.endpoints).filter(|(index, slot)| {
            is_changed(*index, slot)
                && slot.cell.change(|state| {
                    (state.pardoned, state.refusals) = (Some(now), Witnesses::default());
                    state.breaker.pardon()
                })
        });
        (opened_providers.collect(), opened_endpoints.map(|(index, _)| index).collect())
    }

    /// The endpoints whose breakers are open.
    pub fn open_endpoints(&self, now: Tick) -> Vec<EndpointId> {
        let is_open = |slot: &&Slot| matches!(slot.cell.view(now).gate, Gate::Open { .. });
        self.endpoints.iter().filter(is_open).map(|slot| slot.cell.id).collect()
    }

    /// Why an attempt past the gate of an endpoint, or of its provider, costs a token; `None` if it costs none. `has_waited`: for the
    /// gate to open.
    pub fn costs_a_token(
        &self,
        index: u32,
        now: Tick,
        caller: Option<u64>,
        has_waited: bool,
    ) -> Option<ExclusionReason> {
        let slot = self.endpoints.get(index as usize)?;
        let provider = self.providers.get(slot.provider as usize);
        let provider = provider.map_or(Gate::Passing, |slot| slot.cell.view(now).gate);
        let (own, is_lenient, is_of_another) = slot
            .cell
            .change(|state| (state.breaker.gate(now), state.breaker.is_lenient(), state.fails_another(caller)));
        let gate = own.and(provider);
        let is_free = match gate {
            Gate::HalfOpen { .. } => true,
            // None may pass beside a probe of the provider.
            _ if !provider.is_passing() => false,
            Gate::Probing { .. } => has_waited && is_lenient || is_of_another,
            _ => is_of_another,
        };
        gate.refusal().filter(|_| !is_free)
    }

    /// Records the first sign of life of a request. That of a probe lets others pass, whose change is to be published at once.
    pub fn first_token(&self, claim: &Claim, now: Tick) -> Option<BreakerChange> {
        let slot = self.slot(claim)?;
        let endpoint_gate = slot.cell.change(|state| {
            state.answered(claim.serial);
            state.sign_of_life(claim.dispatched, now);
            begun(&mut state.breaker, now, claim.passed_as)
        });
        let provider = self.providers.get(slot.provider as usize).filter(|slot| !slot.cell.is_quiet());
        let provider_gate = provider
            .and_then(|slot| slot.cell.change(|state| begun(&mut state.breaker, now, claim.passed_provider_as)));
        let change =
            BreakerChange { index: claim.index, provider: slot.provider, endpoint_gate, provider_gate, cause: None };
        (endpoint_gate.is_some() || provider_gate.is_some()).then_some(change)
    }

    /// Records the quota headers of an answer.
    pub fn quota(&self, claim: &Claim, now: Tick, report: QuotaReport) {
        let Some(slot) = self.slot(claim) else { return };
        slot.cell.change(|state| state.quota.report(now, report, state.serial.wrapping_sub(claim.serial)));
    }

    /// Ends the claim with the outcome of the attempt.
    pub fn finish(&self, claim: Claim, now: Tick, end: EventKind, policy: &RoutingPolicy) -> FinishedClaim {
        let (change, has_recovered) = self.end(&claim, now, end, policy).unwrap_or_default();
        let gate = match change {
            _ if has_recovered => GateEvent::Recovered,
            Some(_) => GateEvent::Moved,
            None => GateEvent::Unmoved,
        };
        FinishedClaim { event: EndpointEvent { gate, ..claim.event(now, end) }, change }
    }

    /// The gates that changed, and whether a success closed the endpoint's breaker.
    fn end(
        &self,
        claim: &Claim,
        now: Tick,
        end: EventKind,
        policy: &RoutingPolicy,
    ) -> Option<(Option<BreakerChange>, bool)> {
        let slot = self.slot(claim)?;
        let jitter = |opens| self.jitter(claim.endpoint.0, opens);
        let (endpoint_gate, last, has_recovered) = slot.cell.change(|state| {
            let from = state.breaker.gate(now);
            let has_recovered = state.finish(claim, now, &end, policy, jitter);
            (moved(from, state.breaker.gate(now)), state.breaker.last(), has_recovered)
        });
        let opened = matches!(endpoint_gate, Some(GateChange { to: Gate::Open { .. }, .. }));
        let provider_gate = self.update_provider(slot.provider, claim, now, &end, opened, policy);
        let change = BreakerChange {
            index: claim.index,
            provider: slot.provider,
            endpoint_gate,
            provider_gate,
            cause: cause(&end).or(last.filter(|_| opened)),
        };
        Some(((endpoint_gate.is_some() || provider_gate.is_some()).then_some(change), has_recovered))
    }

    fn update_provider(
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
        // The slug, because the position changes when the configuration does.
        let jitter = |opens| self.jitter(EndpointId::new("", slot.cell.slug.as_str(), "").0, opens);
        slot.cell.change(|state| {
            let from = state.gate(now);
            let opened = opened.then_some((claim.endpoint, slot.endpoints));
            state.finish(claim, opened, now, end, policy, jitter);
            moved(from, state.gate(now))
        })
    }

    fn admit_at_provider(&self, provider: u32, now: Tick, candidate: &Candidate) -> Result<PassedAs, ExclusionReason> {
        let slot = self.providers.get(provider as usize).filter(|slot| !slot.cell.is_quiet());
        let Some(slot) = slot else { return Ok(PassedAs::Ordinary) };
        slot.cell.change(|state| state.breaker.admit(now, candidate.probe, candidate.panic))
    }

    /// The state of a claim's endpoint, also if positions have changed.
    fn slot(&self, claim: &Claim) -> Option<&Slot> {
        let here = self.endpoints.get(claim.index as usize).filter(|slot| slot.cell.id == claim.endpoint);
        here.or_else(|| self.endpoints.iter().find(|slot| slot.cell.id == claim.endpoint))
    }

    fn provider_cell(&self, provider: &Provider) -> Arc<ProviderCell> {
        let known = self.providers.iter().find(|slot| slot.cell.slug == provider.slug);
        known.map_or_else(|| Arc::new(ProviderCell::new(provider.slug.clone())), |slot| Arc::clone(&slot.cell))
    }

    /// 0.95 to 1.15, the same for the same opening of the same endpoint. Values below 1 are rare, so that jitter adds
    /// no probe to an outage of ten minutes.
    fn jitter(&self, of: u64, opens: u32) -> f64 {
        let draw = seeded_hash(seeded_hash(self.seed, of), u64::from(opens)) >> 11;
        0.95 + 0.2 * (draw as f64 / (1_u64 << 53) as f64)
    }
}

/// Tokens that a candidate's request is expected to take from the quota.
fn tokens(candidate: &Candidate) -> u64 {
    u64::from(candidate.inputs.prompt_tokens) + candidate.inputs.output_tokens as u64
}

impl EndpointCellState {
    fn is_due_later(&self, now: Tick, candidate: &Candidate) -> bool {
        self.due(now).is_some() || self.quota.tokens(now).is_some_and(|quota| quota.left < tokens(candidate))
    }

    fn claimed(
        &mut self,
        index: u32,
        slot: &Slot,
        now: Tick,
        candidate: &Candidate,
        (passed_as, passed_provider_as): (PassedAs, PassedAs),
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
            probe: passed_as == PassedAs::Probe || passed_provider_as == PassedAs::Probe,
            caller: None,
            serial: self.serial,
            knee: candidate.inputs.knee,
            passed_as,
            passed_provider_as,
        }
    }
}
