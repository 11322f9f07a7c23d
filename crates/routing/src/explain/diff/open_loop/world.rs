//! Statistics, breakers, paces and latency targets under one configuration, in which recorded attempts happen again.

use std::{collections::HashMap, sync::Arc, time::Duration};

use pointsman_domain::{
    Candidate, Catalog, Decision, EndpointEvent, EndpointId, EventKind, GateEvent, GateState, Generation, Query,
    RecordedGate, RouteError, RoutingPolicy, Tick,
};

use super::{
    attempt::{Attempt, WaitEnd, requested},
    kept::KeptFigures,
};
use crate::{
    decide::decide_to_serve,
    explain::diff::side::Side,
    stats::{Claim, Gate, LatencyTargets, LiveBoard, LiveEndpoint, LiveView, Snapshot, Statistics},
};

/// Shortest time between two published snapshots, as in the gateway.
const PUBLISH: Duration = Duration::from_millis(50);
/// Seed of the board, by which breakers stay open somewhat longer or shorter. That of the gateway is not recorded.
const SEED: u64 = 1;

/// One configuration and what is known under it.
pub(super) struct World {
    side: Side,
    /// Positions of the endpoints in its catalog.
    positions: HashMap<EndpointId, u32>,
    statistics: Statistics,
    board: LiveBoard,
    targets: LatencyTargets,
    /// Attempts in flight, by their numbers.
    claims: HashMap<u64, Claim>,
    snapshot: Snapshot,
    /// Whether the next decision needs a new snapshot at once.
    is_outdated: bool,
    view: LiveView,
}

impl World {
    pub(super) fn new(side: &Side) -> World {
        let (catalog, policy) = (Arc::clone(&side.catalog), Arc::clone(&side.policy));
        let mut statistics = Statistics::new(Arc::clone(&catalog), policy);
        World {
            side: side.clone(),
            positions: positions(&catalog),
            board: LiveBoard::new(&catalog, SEED),
            targets: LatencyTargets::default(),
            claims: HashMap::new(),
            snapshot: statistics.snapshot(0),
            is_outdated: true,
            view: LiveView::default(),
            statistics,
        }
    }

    pub(super) fn policy(&self) -> &RoutingPolicy {
        &self.side.policy
    }

    /// Takes another configuration, as a reload does.
    pub(super) fn follow(&mut self, side: &Side) {
        if !Arc::ptr_eq(&self.side.catalog, &side.catalog) {
            self.statistics.replace_catalog(Arc::clone(&side.catalog));
            self.board = self.board.carried(&side.catalog);
            self.positions = positions(&side.catalog);
            self.is_outdated = true;
        }
        if !Arc::ptr_eq(&self.side.policy, &side.policy) {
            self.statistics.replace_policy(Arc::clone(&side.policy));
            self.is_outdated = true;
        }
        self.side = side.clone();
    }

    /// The gateway was started anew: statistics are restored, everything else begins afresh.
    pub(super) fn restart(&mut self) {
        self.board = LiveBoard::new(&self.side.catalog, SEED);
        self.targets = LatencyTargets::default();
        self.claims.clear();
    }

    pub(super) fn dispatched(&mut self, attempt: &Attempt, now: Tick) {
        let Some(&index) = self.positions.get(&attempt.candidate.endpoint) else { return };
        // It did happen, also where the gate would have refused it here.
        let forced = Candidate { panic: true, ..attempt.candidate.clone() };
        let claim = self.board.claim(index, now, &attempt.candidate).or_else(|_| self.board.claim(index, now, &forced));
        let Ok(mut claim) = claim else { return };
        claim.caller = Some(attempt.caller);
        if attempt.is_first {
            claim.in_flight = attempt.candidate.inputs.in_flight.saturating_add(1);
        }
        self.claims.insert(attempt.number, claim);
    }

    pub(super) fn first_token(&mut self, attempt: &Attempt, now: Tick) {
        let claim = self.claims.get(&attempt.number);
        let change = claim.and_then(|claim| self.board.first_token(claim, now));
        self.is_outdated |= change.is_some();
        if attempt.is_streamed {
            let kind = EventKind::FirstToken { prompt_tokens: attempt.fresh_prompt() };
            let event = claim.map_or_else(|| unclaimed(attempt, now, kind), |claim| claim.event(now, kind));
            let gate = if change.is_some() { GateEvent::Moved } else { GateEvent::Unmoved };
            self.statistics.apply(&EndpointEvent { gate, ..event });
        }
    }

    pub(super) fn ended(&mut self, attempt: &Attempt, now: Tick) {
        let event = match self.claims.remove(&attempt.number) {
            Some(claim) => self.board.finish(claim, now, attempt.end, &self.side.policy).event,
            None => unclaimed(attempt, now, attempt.end),
        };
        self.is_outdated |= event.is_urgent();
        self.statistics.apply(&event);
    }

    pub(super) fn waited(&self, end: &WaitEnd, now: Tick) {
        self.targets.observe(&end.requested(), end.wait, &self.side.policy.targets, now);
    }

    /// Brings the snapshot up to date, as the gateway would. `is_judged`: what is known here decides which recorded figures are no
    /// longer kept.
    pub(super) fn publish(&mut self, now: Tick, kept: &mut KeptFigures, is_judged: bool) {
        if !self.is_outdated && now - self.snapshot.at < PUBLISH {
            return;
        }
        self.snapshot = self.statistics.snapshot_at(self.snapshot.version + 1, now);
        self.is_outdated = false;
        for stats in &mut self.snapshot.endpoints {
            if is_judged {
                kept.judge(stats);
            }
            kept.put_into(stats);
        }
    }

    /// Decides a recorded request with what is known here.
    pub(super) fn decide(&mut self, query: Query, generation: &Generation, now: Tick) -> Result<Decision, RouteError> {
        let recorded = &generation.decision;
        self.board.refresh(now, &mut self.view);
        // Not every request is recorded that was in flight.
        for candidate in recorded.plan().chain(&recorded.rivals) {
            if let Some(live) = self.live(candidate.endpoint) {
                (live.in_flight, live.used) = (candidate.inputs.in_flight, true);
            }
        }
        for gate in &recorded.gates {
            let endpoint = generation.catalog.endpoint(gate.index).map(|endpoint| endpoint.id);
            let refused = refused_by_provider(*gate, now.plus(gate.until.since(recorded.tick)));
            if let Some((live, refused)) = endpoint.and_then(|id| self.live(id)).zip(refused) {
                live.gate = live.gate.and(refused);
            }
        }
        let seed = Some(recorded.seed).filter(|seed| *seed != 0);
        decide_to_serve(&self.snapshot, &self.view, &query, now, seed)
    }

    /// The margin that the latency target of a request has here.
    pub(super) fn margin(&self, generation: &Generation, now: Tick) -> f64 {
        requested(generation).map_or(1.0, |requested| self.targets.margin(&requested, now))
    }

    fn live(&mut self, endpoint: EndpointId) -> Option<&mut LiveEndpoint> {
        self.view.endpoints.get_mut(*self.positions.get(&endpoint)? as usize)
    }
}

fn positions(catalog: &Catalog) -> HashMap<EndpointId, u32> {
    catalog.endpoints.iter().map(|endpoint| endpoint.id).zip(0..).collect()
}

/// A recorded cooldown or configuration fault: these follow from what a provider said, which is not recorded, and from no
/// constant.
fn refused_by_provider(gate: RecordedGate, until: Tick) -> Option<Gate> {
    match gate.state {
        GateState::Cooling => Some(Gate::Cooling { until }),
        GateState::ConfigFault => Some(Gate::ConfigFault { until }),
        GateState::Open | GateState::HalfOpen | GateState::Probing => None,
    }
}

/// An event of an attempt at an endpoint that takes no requests here.
fn unclaimed(attempt: &Attempt, at: Tick, kind: EventKind) -> EndpointEvent {
    EndpointEvent {
        endpoint: attempt.candidate.endpoint,
        at,
        dispatched: attempt.dispatched,
        in_flight: attempt.candidate.inputs.in_flight.saturating_add(1),
        predicted: attempt.candidate.predicted,
        expected: attempt.candidate.inputs.expected,
        gate: GateEvent::Unmoved,
        kind,
    }
}
