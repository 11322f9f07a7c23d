//! What records knew of endpoints, by the time of the decision.

use std::collections::{BTreeMap, HashMap, btree_map::Entry};

use pointsman_domain::{Candidate, EndpointId, Generation, ScoreInputs};

/// Of decisions within this time the latest one is kept, milliseconds. One takes 250 bytes, and up to 470 with the free space of the
/// map: a week takes up to 30 MB for each endpoint.
const GRAIN_MS: i64 = 10_000;

/// What records knew of endpoints.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    endpoints: HashMap<EndpointId, BTreeMap<i64, Sighting>>,
    /// Sightings of all endpoints.
    kept: usize,
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
    /// Adds what a record knew; `draw` is a hash of its id.
    pub fn add(&mut self, generation: &Generation, draw: u64) {
        let decision = &generation.decision;
        let candidates = decision.candidates.iter().chain(&decision.rivals);
        let candidates = candidates.map(|candidate| (candidate, !candidate.panic && !candidate.probe));
        let standby = decision.standby.iter().map(|candidate| (candidate, false));
        for (candidate, accepts) in candidates.chain(standby) {
            let sighting = Sighting { at_ms: generation.created_ms, draw, accepts, inputs: candidate.inputs };
            self.keep(candidate.endpoint, sighting);
        }
    }

    /// Adds what other records knew.
    pub fn merge(&mut self, other: Timeline) {
        for (endpoint, sightings) in other.endpoints {
            sightings.into_values().for_each(|sighting| self.keep(endpoint, sighting));
        }
    }

    fn keep(&mut self, endpoint: EndpointId, new: Sighting) {
        match self.endpoints.entry(endpoint).or_default().entry(new.at_ms.div_euclid(GRAIN_MS)) {
            Entry::Vacant(free) => {
                free.insert(new);
                self.kept += 1;
            }
            Entry::Occupied(mut known) => {
                if (new.at_ms, new.draw) > (known.get().at_ms, known.get().draw) {
                    known.insert(new);
                }
            }
        }
    }

    /// How much is kept: for each endpoint one piece of knowledge for every ten seconds in which a record knew it.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Every endpoint that a record knew.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = EndpointId> {
        self.endpoints.keys().copied()
    }

    /// The latest kept knowledge of an endpoint after `from_ms` and up to `to_ms`.
    pub(super) fn latest(&self, endpoint: EndpointId, from_ms: i64, to_ms: i64) -> Option<&Sighting> {
        let cells = from_ms.div_euclid(GRAIN_MS)..=to_ms.div_euclid(GRAIN_MS);
        let within = self.endpoints.get(&endpoint)?.range(cells).rev().map(|(_, sighting)| sighting);
        within.into_iter().find(|sighting| sighting.at_ms > from_ms && sighting.at_ms <= to_ms)
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
