//! Two configurations, ready for the decisions that were recorded with one catalog and one policy.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use pointsman_domain::{Catalog, Decision, EndpointId, Generation, GenerationStatus, Query, RoutingPolicy};

use super::{
    calibration::Calibration,
    changes::{Answerable, Change, between, keeps_more},
    mixture::mixture,
    remake::{Grade, Planned, Possible, Remade},
    setup::Setup,
    side::Side,
    units::{dollars_of, nano, pico},
};
use crate::{decide::ALGORITHM, split::is_reproduced};

/// Most changes that are tried in every combination; of more, each alone and all pairs.
const ALL_COMBINATIONS: usize = 6;
/// Most changes that are tried at all.
pub const MOST_CHANGES: usize = 24;

/// Two configurations, ready for the decisions of one catalog and one policy.
pub struct Comparison {
    pub(in crate::explain) recorded: Setup,
    /// `None`: that of the decisions.
    before: Option<Setup>,
    after: Setup,
    sides: [Side; 2],
    changes: Vec<Change>,
    /// Setups with some of the changes, made when they are needed, with the bits of the changes.
    mixtures: Vec<(u64, OnceLock<Option<Setup>>)>,
}

/// Expected figures of a plan: all attempts with the probability that they are made. Integers, so that sums are exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Cost of all attempts, picodollars.
    pub cost: i64,
    /// Probability that all fail, trillionths.
    pub failure: i64,
    /// Time to the first token of the first attempt, nanoseconds.
    pub first_token: i64,
    /// Time of the first attempt to its last byte, nanoseconds.
    pub total: i64,
}

/// A recorded decision under both configurations.
#[derive(Debug, Clone, PartialEq)]
pub struct Redecided {
    /// How far the record answers it.
    pub grade: Grade,
    /// The choice before; `None` if no endpoint could serve.
    pub from: Option<EndpointId>,
    /// The choice after.
    pub to: Option<EndpointId>,
    /// Scores of the choices.
    pub scores: [f64; 2],
    /// Expected figures before.
    pub before: Figures,
    /// Expected figures after.
    pub after: Figures,
    /// Least and highest cost of the plan before and after, picodollars, where the choice is not certain.
    pub cost_ranges: [Option<[i64; 2]>; 2],
    /// Endpoints that could be the choice and were never measured, so that there is no answer.
    pub unmeasured: BTreeSet<EndpointId>,
    /// Whether the choice before had another price when the decision was made.
    pub is_priced_otherwise: bool,
    /// The bits of the changes that moved the choice together; 0 if it is the same, or if the reason was not found.
    pub reason: u64,
    /// List price of the same tokens at the choices before and after, picodollars, if the choice is another and the first one
    /// answered.
    pub repriced: Option<[i64; 2]>,
}

/// A decision with other load after the change, and the seconds that both choices are expected to take.
pub(super) struct UnderLoad {
    pub redecided: Redecided,
    pub seconds: [f64; 2],
}

/// The choices that a request could have come to, as it was made and under the other configuration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choices {
    /// How far the record tells those of the other configuration.
    pub grade: Grade,
    /// The one that was made; `None` if no endpoint could serve.
    pub made: Option<EndpointId>,
    /// All of them.
    pub all: Vec<Choice>,
    /// The one that would have been made without noise and draws; `None` where nothing was left to chance.
    pub calm: Option<EndpointId>,
    /// Probability that no endpoint can serve, as it was made and under the other configuration: 0 or 1.
    pub none: [f64; 2],
}

/// One of the choices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Choice {
    pub endpoint: EndpointId,
    /// Its probability as the decision was made, and under the other configuration.
    pub probabilities: [f64; 2],
    /// What is expected of the request if it is made.
    pub figures: Figures,
    /// Requests in flight, and from how many on it slows down.
    pub load: [f64; 2],
}

/// Whether a decision comes out of its record as it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelfTest {
    /// Choice, order and every score have the recorded bits.
    Identical,
    /// Something differs.
    Different,
    /// It was made by another version of the algorithm.
    OtherAlgorithm,
}

impl Comparison {
    /// Between `before`, or the configuration of the decisions, and `after`.
    pub fn new(catalog: &Arc<Catalog>, policy: &Arc<RoutingPolicy>, before: Option<&Side>, after: &Side) -> Comparison {
        let own = Side { catalog: Arc::clone(catalog), policy: Arc::clone(policy), objective: None };
        let sides = [before.unwrap_or(&own).clone(), after.clone()];
        let changes = between(&sides[0], &sides[1]);
        Comparison {
            recorded: Setup::recorded(catalog, policy),
            before: before.map(|before| Setup::new(before, catalog, policy)),
            after: Setup::new(after, catalog, policy),
            mixtures: combinations(&changes).into_iter().map(|bits| (bits, OnceLock::new())).collect(),
            changes,
            sides,
        }
    }

    /// The differences between the configurations.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Both configurations.
    pub(super) const fn sides(&self) -> &[Side; 2] {
        &self.sides
    }

    /// A recorded request as it reads under both; `None` where a model or alias that it names is gone.
    pub(super) fn queries(&self, generation: &Generation) -> [Option<Query>; 2] {
        let (decision, tags) = (&generation.decision, &generation.tags);
        let before = self.before.as_ref().map_or_else(|| Some(decision.query()), |it| it.query(decision, tags));
        [before, self.after.query(decision, tags)]
    }

    /// Whether an endpoint was in the catalog of the decisions.
    pub(super) fn was_there(&self, endpoint: EndpointId) -> bool {
        self.recorded.find(endpoint).is_some()
    }

    /// The bit of the change, where one alone changes what is known or decided. The objective of each decision is no change.
    pub(super) fn only_change(&self) -> Option<u64> {
        let counts = |change: &Change| change.answerable != Answerable::AfterChoice && !change.is_recorded_objective();
        let mut bits = (0_u32..).zip(&self.changes).filter(|(_, change)| counts(change)).map(|(bit, _)| bit);
        let only = bits.next().filter(|bit| *bit < u64::BITS)?;
        bits.next().is_none().then_some(1 << only)
    }

    /// Whether conversations would be kept for longer than before, or other ones: no record tells of these.
    pub fn keeps_other_conversations(&self) -> bool {
        let [before, after] = self.sides.each_ref().map(|side| &side.policy.sticky);
        keeps_more(before, after)
    }

    /// Makes a decision again under its own configuration.
    pub fn self_test(&self, decision: &Decision) -> SelfTest {
        match Remade::recorded(decision, &self.recorded) {
            _ if decision.algorithm != ALGORITHM => SelfTest::OtherAlgorithm,
            Some(_) if decision.split.as_deref().is_none_or(is_reproduced) => SelfTest::Identical,
            _ => SelfTest::Different,
        }
    }

    /// Makes a decision again under both configurations. `None` if it does not even come out under its own.
    pub fn decide(&self, generation: &Generation, calibration: &Calibration) -> Option<Redecided> {
        let decision = &generation.decision;
        let [own, before, after] = self.remade(decision, decision, &generation.tags)?;
        let made = redecided(&before, &after, calibration);
        let (from, to) = (made.from, made.to);
        let is_moved = from != to;
        Some(Redecided {
            reason: if is_moved { self.reason(generation, &own, (from, to)) } else { 0 },
            repriced: from.zip(to).filter(|_| is_moved).and_then(|choices| self.repriced(generation, choices)),
            is_priced_otherwise: from.zip(self.before.as_ref()).is_some_and(|(from, before)| before.reprices(from)),
            ..made
        })
    }

    /// The same where after the change other requests are in flight, as `loaded` has them.
    pub(super) fn decide_under_load(
        &self,
        decision: &Decision,
        loaded: &Decision,
        tags: &[(String, String)],
        calibration: &Calibration,
    ) -> Option<UnderLoad> {
        let [_, before, after] = self.remade(decision, loaded, tags)?;
        let seconds = [&before, &after].map(|made| made.plan.first().map_or(0.0, |first| first.total));
        Some(UnderLoad { redecided: redecided(&before, &after, calibration), seconds })
    }

    /// Under its own configuration, that before, and that after.
    fn remade(&self, decision: &Decision, loaded: &Decision, tags: &[(String, String)]) -> Option<[Remade; 3]> {
        let own = Remade::recorded(decision, &self.recorded)?;
        let before = match &self.before {
            Some(before) => Remade::under(decision, tags, before, &own.basis),
            None => Remade { grade: Grade::Exact, possible_costs: None, unmeasured: Vec::new(), ..own.clone() },
        };
        let after = Remade::under(loaded, tags, &self.after, &own.basis);
        Some([own, before, after])
    }

    /// The choices that a request could have come to, with their probabilities. `None` if it does not even come out under its own
    /// configuration.
    pub(crate) fn choices(&self, generation: &Generation, calibration: &Calibration) -> Option<Choices> {
        let (decision, tags) = (&generation.decision, &generation.tags);
        let (own, basis) = Possible::recorded(decision, &self.recorded)?;
        let other = Possible::under(decision, tags, &self.after, &basis);
        let of = |possible: &Possible, endpoint| {
            let found = possible.order.iter().find(|(planned, _)| planned.endpoint == endpoint);
            found.map_or(0.0, |(_, probability)| *probability)
        };
        let is_new =
            |(planned, _): &&(Planned, f64)| !own.order.iter().any(|(one, _)| one.endpoint == planned.endpoint);
        let new = other.order.iter().filter(is_new);
        let choice = |(planned, _): &(Planned, f64), possible: &Possible| Choice {
            endpoint: planned.endpoint,
            probabilities: [of(&own, planned.endpoint), of(&other, planned.endpoint)],
            figures: possible.figures_if_first(planned, calibration),
            load: planned.load,
        };
        let known = own.order.iter().map(|one| choice(one, &own));
        Some(Choices {
            grade: other.grade,
            made: own.order.first().map(|(first, _)| first.endpoint),
            calm: own.calm,
            all: known.chain(new.map(|one| choice(one, &other))).collect(),
            none: [&own, &other].map(|possible| f64::from(u8::from(possible.order.is_empty()))),
        })
    }

    /// The name of an endpoint, as `model at provider`.
    pub fn name(&self, endpoint: EndpointId) -> Option<String> {
        let of = |catalog: &Catalog| {
            let found = catalog.endpoints.iter().find(|one| one.id == endpoint)?;
            Some(format!("{} at {}", catalog.model_of(found)?.id, catalog.provider_of(found)?.slug))
        };
        let configured = [Some(&self.after), self.before.as_ref()].into_iter().flatten();
        of(self.recorded.catalog()).or_else(|| configured.map(Setup::catalog).find_map(of))
    }

    /// The smallest set of changes that moves the choice; of several the one that moves it to the final one.
    fn reason(
        &self,
        Generation { decision, tags, .. }: &Generation,
        own: &Remade,
        (from, to): (Option<EndpointId>, Option<EndpointId>),
    ) -> u64 {
        let mut found: Option<u64> = None;
        for (bits, mixture) in &self.mixtures {
            if found.is_some_and(|known| known.count_ones() < bits.count_ones()) {
                break;
            }
            let setup = mixture.get_or_init(|| self.mixture(*bits));
            let Some(setup) = setup else { continue };
            let made = choice(&Remade::under(decision, tags, setup, &own.basis));
            if made == to {
                return *bits;
            }
            if made != from && found.is_none() {
                found = Some(*bits);
            }
        }
        found.unwrap_or_default()
    }

    fn mixture(&self, bits: u64) -> Option<Setup> {
        let [before, after] = &self.sides;
        let side = mixture(before, after, &self.changes, bits)?;
        Some(Setup::new(&side, &self.recorded.snapshot.catalog, &self.recorded.snapshot.policy))
    }

    fn repriced(&self, generation: &Generation, (from, to): (EndpointId, EndpointId)) -> Option<[i64; 2]> {
        let served = generation.attempts.iter().rfind(|attempt| attempt.served)?;
        let served = generation.catalog.endpoint(served.endpoint)?;
        if generation.status != GenerationStatus::Completed || served.id != from {
            return None;
        }
        let before = self.before.as_ref().unwrap_or(&self.recorded);
        let cost = |setup: &Setup, endpoint| {
            let endpoint = setup.catalog().endpoint(setup.find(endpoint)?)?;
            Some(pico(dollars_of(endpoint.cost(&generation.usage)?.total())))
        };
        Some([cost(before, from)?, cost(&self.after, to)?])
    }
}

impl Possible {
    /// Expected figures if this one is tried first, and the others in their order.
    pub(in crate::explain) fn figures_if_first(&self, first: &Planned, calibration: &Calibration) -> Figures {
        let others = self.order.iter().map(|(planned, _)| planned).filter(|other| other.endpoint != first.endpoint);
        figures([first].into_iter().chain(others).take(self.attempts), calibration)
    }
}

/// Both decisions side by side, without the reason of a move.
fn redecided(before: &Remade, after: &Remade, calibration: &Calibration) -> Redecided {
    Redecided {
        grade: before.grade.max(after.grade),
        from: choice(before),
        to: choice(after),
        scores: [before, after].map(|made| made.plan.first().map_or(f64::NAN, |first| first.score)),
        before: figures(before.plan.iter(), calibration),
        after: figures(after.plan.iter(), calibration),
        cost_ranges: [before, after].map(|made| Some(made.possible_costs.as_ref()?.bounds(calibration))),
        unmeasured: before.unmeasured.iter().chain(&after.unmeasured).copied().collect(),
        is_priced_otherwise: false,
        reason: 0,
        repriced: None,
    }
}

fn choice(made: &Remade) -> Option<EndpointId> {
    made.plan.first().map(|first| first.endpoint)
}

/// Sets of changes, the small ones first.
fn combinations(changes: &[Change]) -> Vec<u64> {
    let usable = changes.iter().enumerate().filter(|(_, change)| change.answerable == Answerable::Yes);
    let bits: Vec<u64> =
        usable.map(|(bit, _)| bit).filter(|bit| *bit < 64).take(MOST_CHANGES).map(|bit| 1 << bit).collect();
    let most = if bits.len() <= ALL_COMBINATIONS { bits.len() } else { 2 };
    let mut sets: Vec<u64> = vec![0];
    for bit in bits {
        let more: Vec<u64> = sets.iter().map(|set| set | bit).filter(|set| set.count_ones() as usize <= most).collect();
        sets.extend(more);
    }
    sets.sort_by_key(|set| (set.count_ones(), *set));
    sets.retain(|set| *set != 0);
    sets
}

/// Expected figures of a plan, corrected by what was measured. Failures of attempts count as independent.
pub(super) fn figures<'p>(plan: impl Iterator<Item = &'p Planned> + Clone, calibration: &Calibration) -> Figures {
    let (mut reached, mut cost) = (1.0, 0.0);
    for planned in plan.clone() {
        let factors = calibration.factors(planned.endpoint);
        cost += reached * planned.cost * factors.cost;
        reached *= (planned.failure * factors.failure).clamp(0.0, 1.0);
    }
    let mut plan = plan;
    let first = plan.next();
    let first = first.map(|first| (first, calibration.factors(first.endpoint)));
    Figures {
        cost: pico(cost),
        failure: pico(reached),
        first_token: first.map_or(0, |(first, factors)| nano(first.first_token * factors.first_token)),
        total: first.map_or(0, |(first, factors)| nano(first.total * factors.total)),
    }
}
