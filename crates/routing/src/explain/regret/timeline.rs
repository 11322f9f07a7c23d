//! What records knew of endpoints, by the time of the decision.

use std::{
    collections::{BTreeMap, HashMap},
    sync::OnceLock,
};

use pointsman_domain::{AttemptRecord, Candidate, EndpointId, Failure, FailureKind, Generation, ScoreInputs};

use super::{
    attempts::{Attempts, Tally},
    failure_history::{Believed, FailureHistory},
};
use crate::stats::FailureEffect;

/// Of decisions within this time the latest one is kept, and attempts are counted together. It takes 380 bytes, and up to 610 with the
/// free space of the map: a week takes up to 37 MB for each endpoint. Where failures begin or end it is 90 bytes more.
const GRAIN_MS: i64 = Attempts::GRAIN_MS;

/// What records knew of endpoints.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    endpoints: HashMap<EndpointId, Known>,
    /// Cells of all endpoints.
    kept: usize,
}

/// What is known of one endpoint.
#[derive(Debug, Clone, Default)]
struct Known {
    cells: BTreeMap<i64, Cell>,
    /// Made from the attempts when all of them are there.
    history: OnceLock<FailureHistory>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    sighting: Option<Sighting>,
    attempts: Attempts,
}

/// What one record knew of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sighting {
    /// When it was decided, Unix milliseconds.
    pub at_ms: i64,
    /// Hash of the id of the request: of two at the same time one is later.
    draw: u64,
    /// Whether no gate and no pacing was in its way.
    pub accepts: bool,
    pub inputs: ScoreInputs,
}

impl Timeline {
    /// Adds what a record knew, and what its attempts came to; `draw` is a hash of its id.
    pub fn add(&mut self, generation: &Generation, draw: u64) {
        let decision = &generation.decision;
        let candidates = decision.candidates.iter().chain(&decision.rivals);
        let candidates = candidates.map(|candidate| (candidate, !candidate.panic && !candidate.probe));
        let standby = decision.standby.iter().map(|candidate| (candidate, false));
        for (candidate, accepts) in candidates.chain(standby) {
            let sighting = Sighting { at_ms: generation.created_ms, draw, accepts, inputs: candidate.inputs };
            let cell = Cell { sighting: Some(sighting), attempts: Attempts::default() };
            self.keep(candidate.endpoint, generation.created_ms.div_euclid(GRAIN_MS), cell);
        }
        for attempt in &generation.attempts {
            let endpoint = generation.catalog.endpoint(attempt.endpoint);
            if let (Some(endpoint), Some(tally)) = (endpoint, tally(attempt)) {
                let at_ms = generation.created_ms.saturating_add_unsigned(attempt.started_ms);
                let cell = Cell { sighting: None, attempts: Attempts::one(tally, at_ms) };
                self.keep(endpoint.id, at_ms.div_euclid(GRAIN_MS), cell);
            }
        }
    }

    /// Adds what other records knew.
    pub fn merge(&mut self, other: Timeline) {
        for (endpoint, known) in other.endpoints {
            known.cells.into_iter().for_each(|(at, cell)| self.keep(endpoint, at, cell));
        }
    }

    fn keep(&mut self, endpoint: EndpointId, at: i64, new: Cell) {
        let Known { cells, history } = self.endpoints.entry(endpoint).or_default();
        *history = OnceLock::new();
        self.kept += usize::from(!cells.contains_key(&at));
        let cell = cells.entry(at).or_default();
        cell.attempts.add(new.attempts);
        let order = |one: Option<Sighting>| one.map(|one| (one.at_ms, one.draw));
        if order(new.sighting) > order(cell.sighting) {
            cell.sighting = new.sighting;
        }
    }

    /// How much is kept: for each endpoint one piece of knowledge for every ten seconds in which a record knew or tried it.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Every endpoint that a record knew.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = EndpointId> {
        self.endpoints.keys().copied()
    }

    /// The latest kept knowledge of an endpoint after `from_ms` and up to `to_ms`.
    pub(super) fn latest(&self, endpoint: EndpointId, from_ms: i64, to_ms: i64) -> Option<&Sighting> {
        let within = self.cells(endpoint, from_ms, to_ms).rev().filter_map(|cell| cell.sighting.as_ref());
        within.into_iter().find(|sighting| sighting.at_ms > from_ms && sighting.at_ms <= to_ms)
    }

    /// How probably the endpoint fails at a moment, by all attempts before and after it; `None` if there are none.
    pub(super) fn failure(&self, endpoint: EndpointId, at_ms: i64) -> Option<Believed> {
        let Known { cells, history } = self.endpoints.get(&endpoint)?;
        let runs = || cells.iter().flat_map(|(at, cell)| cell.attempts.runs(at * GRAIN_MS));
        history.get_or_init(|| FailureHistory::new(runs())).at(at_ms)
    }

    /// The attempts at an endpoint within this time.
    pub(super) fn tally(&self, endpoint: EndpointId, from_ms: i64, to_ms: i64) -> Tally {
        let mut sum = Tally::default();
        self.cells(endpoint, from_ms, to_ms).for_each(|cell| sum.add(cell.attempts.tally));
        sum
    }

    fn cells(&self, endpoint: EndpointId, from_ms: i64, to_ms: i64) -> impl DoubleEndedIterator<Item = &Cell> {
        let within = from_ms.div_euclid(GRAIN_MS)..=to_ms.div_euclid(GRAIN_MS);
        self.endpoints
            .get(&endpoint)
            .into_iter()
            .flat_map(move |known| known.cells.range(within.clone()))
            .map(|(_, cell)| cell)
    }
}

/// What an attempt says of its endpoint; `None` for nothing.
fn tally(attempt: &AttemptRecord) -> Option<Tally> {
    let kind = match attempt.error_type.as_deref() {
        None => return Some(Tally { answered: 1, ..Tally::default() }),
        Some(kind) => FailureKind::ALL.into_iter().find(|one| one.as_str() == kind)?,
    };
    match FailureEffect::of(&Failure { status: attempt.status, ..Failure::of(kind) }) {
        FailureEffect::Busy => Some(Tally { limited: 1, ..Tally::default() }),
        effect if effect.is_failure() => Some(Tally { failed: 1, ..Tally::default() }),
        _ => None,
    }
}

impl Sighting {
    /// The candidate of another decision with these statistics; what belongs to that request stays.
    pub(super) fn told_to(&self, candidate: &Candidate) -> Candidate {
        let own = &candidate.inputs;
        Candidate {
            inputs: ScoreInputs {
                prompt_tokens: own.prompt_tokens,
                cached_tokens: own.cached_tokens,
                in_flight: own.in_flight,
                output_tokens: own.output_tokens,
                output_variance: own.output_variance,
                cost: own.cost,
                tier: own.tier,
                reopens: own.reopens,
                ..self.inputs
            },
            ..candidate.clone()
        }
    }
}
