//! What moved requests do to the load of endpoints, to first order: by Little's law the requests in flight are the rate at which they
//! come times how long they take. Beyond its knee an endpoint slows down, so decisions are made again with what the moves
//! add, until shares stand still.
//!
//! It is a model beside the exact figures: limits of providers, caches and retries of users are not in it.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_domain::{Decision, EndpointId, Generation};

use super::{
    calibration::Calibration,
    comparison::{Comparison, UnderLoad},
    estimate::Estimate,
    tally::Tally,
};
use crate::stats::splitmix64;

/// Most rounds.
const ROUNDS: u32 = 5;
/// Shares of endpoints that move by less stand still.
const STILL: f64 = 0.005;
/// Shortest time over which a rate is taken, milliseconds.
const LEAST_SLOT_MS: i64 = 60_000;
/// Decisions of a slot, on average, so that a rate is more than chance.
const SLOT_DECISIONS: i64 = 200;

/// Decisions of which the load is modelled.
#[derive(Default)]
pub struct LoadSample(Vec<Sampled>);

struct Sampled {
    created_ms: i64,
    draw: u64,
    cluster: u64,
    decision: Arc<Decision>,
    tags: Vec<(String, String)>,
    comparison: Arc<Comparison>,
}

/// Figures with the load that the moves bring about.
#[derive(Debug, Clone)]
pub struct LoadAdjusted {
    /// Decisions behind it.
    pub decisions: u64,
    /// Figures of these decisions without the added load.
    pub plain: Vec<Estimate>,
    /// The same with it.
    pub adjusted: Vec<Estimate>,
    /// How often all of them were made again.
    pub rounds: u32,
    /// By how much the share of an endpoint moved in the last round, at most.
    pub last_move: f64,
    /// The load of the endpoints that get more of it.
    pub loads: Vec<Load>,
}

/// Mean load of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Requests in flight as recorded, and with the moves.
    pub in_flight: [f64; 2],
    /// Requests in flight from which on it slows down.
    pub knee: f64,
}

/// By slot of time and endpoint: requests in flight that are added, or seconds of requests.
type Added = BTreeMap<(i64, EndpointId), f64>;

/// Times of equal length over which rates are taken. The first and the last one are covered in part.
#[derive(Debug, Clone, Copy)]
struct Slots {
    first_ms: i64,
    last_ms: i64,
    length_ms: i64,
}

impl Slots {
    fn of(self, created_ms: i64) -> i64 {
        created_ms.div_euclid(self.length_ms)
    }

    /// Seconds of the slot that are covered, at least one.
    fn seconds(self, slot: i64) -> f64 {
        let begin = slot.saturating_mul(self.length_ms);
        let end = begin.saturating_add(self.length_ms).min(self.last_ms);
        end.saturating_sub(begin.max(self.first_ms)).max(1_000) as f64 / 1e3
    }
}

/// One round: all decisions, made with some load.
struct Round {
    /// The load that the decisions of this round were made with.
    added: Added,
    tally: Tally,
    /// Seconds by what was chosen, before and after.
    occupied: [Added; 2],
    /// Decisions by what is chosen.
    chosen: BTreeMap<EndpointId, u64>,
    /// Sums over decisions: requests in flight, knee, and their number.
    loads: BTreeMap<EndpointId, [f64; 3]>,
}

impl LoadAdjusted {
    /// Whether shares stand still.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.last_move < STILL
    }
}

impl LoadSample {
    /// Takes a decision, with a number of its own and that of its cluster.
    pub fn add(&mut self, generation: &Generation, comparison: &Arc<Comparison>, draw: u64, cluster: u64) {
        self.0.push(Sampled {
            created_ms: generation.created_ms,
            draw,
            cluster,
            decision: Arc::clone(&generation.decision),
            tags: generation.tags.clone(),
            comparison: Arc::clone(comparison),
        });
    }

    /// Takes the decisions of another part.
    pub fn merge(&mut self, other: LoadSample) {
        self.0.extend(other.0);
    }

    /// Makes the decisions again until shares stand still. They are drawn from so many. `goes_on` is asked before each; `None` once it
    /// says no, and without decisions.
    #[must_use]
    pub fn adjusted(
        mut self,
        calibration: &Calibration,
        drawn_from: u64,
        mut goes_on: impl FnMut() -> bool,
    ) -> Option<LoadAdjusted> {
        // So that no order of the records changes a bit.
        self.0.sort_by_key(|one| (one.created_ms, one.draw));
        let slots = self.slots()?;
        let weight = drawn_from as f64 / self.0.len() as f64;
        let mut round = |more: Added| self.round(more, slots, calibration, &mut goes_on);
        let added = |round: &Round| added(&round.occupied, |slot| weight / slots.seconds(slot));
        let first = round(Added::new())?;
        let plain = first.tally.estimates();
        let (mut more, mut last) = (added(&first), first);
        let (mut rounds, mut last_move) = (0, 0.0);
        while rounds < ROUNDS {
            let next = round(more)?;
            (rounds, last_move) = (rounds + 1, furthest(&last.chosen, &next.chosen));
            last = next;
            if last_move < STILL {
                break;
            }
            more = halfway(&last.added, &added(&last));
        }
        let adjusted = last.tally.estimates();
        let loads = self.loads(&last, slots);
        Some(LoadAdjusted { decisions: last.tally.decisions, plain, adjusted, rounds, last_move, loads })
    }

    /// The slots over which rates are taken.
    fn slots(&self) -> Option<Slots> {
        let (first_ms, last_ms) = (self.0.first()?.created_ms, self.0.last()?.created_ms);
        let count = (i64::try_from(self.0.len()).ok()? / SLOT_DECISIONS).max(1);
        Some(Slots { first_ms, last_ms, length_ms: (last_ms.saturating_sub(first_ms) / count).max(LEAST_SLOT_MS) })
    }

    fn round(
        &self,
        added: Added,
        slots: Slots,
        calibration: &Calibration,
        goes_on: &mut impl FnMut() -> bool,
    ) -> Option<Round> {
        let mut round = Round::new(added);
        for one in &self.0 {
            if !goes_on() {
                return None;
            }
            let slot = slots.of(one.created_ms);
            let more = |endpoint: EndpointId| round.added.get(&(slot, endpoint)).copied().unwrap_or_default();
            let loaded = loaded(&one.decision, more);
            let made = one.comparison.decide_under_load(&one.decision, &loaded, &one.tags, calibration);
            made.into_iter().for_each(|made| round.add(one, slot, &made));
        }
        Some(round)
    }

    /// Mean loads of the endpoints that get more of it, over the decisions.
    fn loads(&self, round: &Round, slots: Slots) -> Vec<Load> {
        let slots: Vec<i64> = self.0.iter().map(|one| slots.of(one.created_ms)).collect();
        let load = |(endpoint, [in_flight, knee, count]): (&EndpointId, &[f64; 3])| {
            let more: f64 = slots.iter().filter_map(|slot| round.added.get(&(*slot, *endpoint))).sum();
            let before = in_flight / count.max(1.0);
            let after = (before + more / slots.len().max(1) as f64).max(0.0);
            Load { endpoint: *endpoint, in_flight: [before, after], knee: knee / count.max(1.0) }
        };
        let mut loads: Vec<Load> = round.loads.iter().map(load).filter(Load::grows).collect();
        loads.sort_by(|one, other| other.excess().total_cmp(&one.excess()).then(one.endpoint.cmp(&other.endpoint)));
        loads
    }
}

impl Round {
    fn new(added: Added) -> Round {
        let (tally, occupied) = (Tally::new(0), Default::default());
        Round { added, tally, occupied, chosen: BTreeMap::new(), loads: BTreeMap::new() }
    }

    fn add(&mut self, sampled: &Sampled, slot: i64, UnderLoad { redecided, seconds }: &UnderLoad) {
        let decision = &sampled.decision;
        self.tally.add(redecided, sampled.cluster, "", decision.objective.value.as_str());
        let choices = [redecided.from, redecided.to].into_iter().zip(seconds);
        for (occupied, (choice, seconds)) in self.occupied.iter_mut().zip(choices) {
            choice.into_iter().for_each(|choice| *occupied.entry((slot, choice)).or_default() += seconds);
        }
        redecided.to.into_iter().for_each(|choice| *self.chosen.entry(choice).or_default() += 1);
        for candidate in decision.plan().chain(&decision.rivals) {
            let sums = self.loads.entry(candidate.endpoint).or_default();
            let more = [f64::from(candidate.inputs.in_flight), candidate.inputs.knee, 1.0];
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
    }
}

impl Load {
    fn grows(&self) -> bool {
        self.in_flight[1] > self.in_flight[0]
    }

    /// Its load by what it carries without slowing down.
    fn excess(&self) -> f64 {
        self.in_flight[1] / self.knee.max(1.0)
    }
}

/// A decision with more or fewer requests in flight. What is less than one is added to so many of the decisions.
fn loaded(decision: &Decision, more: impl Fn(EndpointId) -> f64) -> Decision {
    let mut loaded = decision.clone();
    let all = loaded.candidates.iter_mut().chain(&mut loaded.rivals).chain(&mut loaded.standby);
    for candidate in all {
        let draw = (splitmix64(decision.seed ^ decision.tick.0 ^ candidate.endpoint.0) >> 11) as f64;
        let in_flight = f64::from(candidate.inputs.in_flight) + more(candidate.endpoint) + draw / (1_u64 << 53) as f64;
        // A conversion of floats saturates.
        candidate.inputs.in_flight = in_flight.floor() as u32;
    }
    loaded
}

/// Requests in flight of the choices after, beyond those of the choices before: what each of their seconds counts for in its slot.
fn added([before, after]: &[Added; 2], per_second: impl Fn(i64) -> f64) -> Added {
    let mut added = after.clone();
    before.iter().for_each(|(at, seconds)| *added.entry(*at).or_default() -= seconds);
    added.iter_mut().for_each(|((slot, _), sum)| *sum *= per_second(*slot));
    added
}

/// Half of the way, so that traffic does not swing between two endpoints.
fn halfway(one: &Added, other: &Added) -> Added {
    let mut sum = one.clone();
    other.iter().for_each(|(at, more)| *sum.entry(*at).or_default() += more);
    sum.values_mut().for_each(|value| *value /= 2.0);
    sum
}

/// The greatest difference of the shares of an endpoint.
fn furthest(one: &BTreeMap<EndpointId, u64>, other: &BTreeMap<EndpointId, u64>) -> f64 {
    let all = |chosen: &BTreeMap<EndpointId, u64>| chosen.values().sum::<u64>().max(1) as f64;
    let share = |chosen: &BTreeMap<EndpointId, u64>, endpoint| {
        chosen.get(endpoint).copied().unwrap_or_default() as f64 / all(chosen)
    };
    let differences =
        one.keys().chain(other.keys()).map(|endpoint| (share(one, endpoint) - share(other, endpoint)).abs());
    differences.fold(0.0, f64::max)
}
