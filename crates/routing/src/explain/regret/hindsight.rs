//! A recorded decision, made again with less in its way.

use std::sync::{Arc, OnceLock};

use pointsman_domain::{
    Candidate, Catalog, Decision, EndpointId, ExcludedEndpoint, Generation, Reopens, RoutingPolicy, ScoreInputs,
};

use super::timeline::{Sighting, Timeline};
use crate::explain::{
    diff::{Calibration, Comparison, Figures, Grade, Planned, Possible, Restriction, SelfTest, Setup, Side, units},
    estimate::{is_limit, outcome_values},
};

/// How far the last choice knows the future, milliseconds.
pub const FORESIGHT_MS: i64 = 60_000;

/// Records of one catalog and one policy, to be decided again.
pub struct Hindsight {
    comparison: Comparison,
    catalog: Arc<Catalog>,
    /// As it was, for changed records.
    plain: Setup,
    /// Without any restriction.
    free: Setup,
    /// Without one, made when it is needed.
    without: [(Restriction, OnceLock<Setup>); Restriction::ALL.len()],
    policy: Arc<RoutingPolicy>,
}

/// Figures of a choice: dollars, failures and seconds.
pub(super) type Expected = [f64; 3];

/// An endpoint as the choice, with what is expected of the request there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Prospect {
    pub endpoint: EndpointId,
    pub expected: Expected,
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// Its request counts.
    Counted,
    /// No endpoint could serve it.
    Unserved,
    /// It does not come out as it was made.
    Different,
}

/// A recorded request with the choices that it could have met.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reviewed {
    /// Dollars, failure and seconds; `None` where it is not known.
    pub outcome: [Option<f64>; 3],
    /// As it was made.
    pub made: Prospect,
    /// Every choice of the decision with its probability, its requests in flight, and where it slows down.
    pub possible: Vec<(Prospect, f64, [f64; 2])>,
    /// Without chance.
    pub calm: Prospect,
    /// Also without restrictions.
    pub free: Prospect,
    /// Without chance and one restriction alone.
    pub without: Vec<(Restriction, Prospect)>,
    /// The made, the free and the foresighted choice, with what the next minute says of them.
    pub hindsight: [Prospect; 3],
    /// By how much the figures of the foresighted choice may be off, in standard errors of the estimates that they follow from.
    pub doubt: Expected,
    /// The foresighted choice if every endpoint that the next minute leaves closed had recovered.
    pub hopeful: Prospect,
    /// Requests in flight at the foresighted choice, and from how many on it slows down.
    pub load: [f64; 2],
    /// Endpoints that were left out because of their limits.
    pub limited: Vec<EndpointId>,
    /// How far the record tells the free choice.
    pub grade: Grade,
    /// Whether the next minute tells of every recorded endpoint.
    pub is_foreseen: bool,
}

impl Hindsight {
    /// For the records of this catalog and this policy.
    #[must_use]
    pub fn new(catalog: &Arc<Catalog>, policy: &Arc<RoutingPolicy>) -> Hindsight {
        let own = Side { catalog: Arc::clone(catalog), policy: Arc::clone(policy), objective: None };
        Hindsight {
            comparison: Comparison::new(catalog, policy, None, &own),
            plain: Setup::without(&[], catalog, policy),
            free: Setup::without(&Restriction::ALL, catalog, policy),
            without: Restriction::ALL.map(|restriction| (restriction, OnceLock::new())),
            catalog: Arc::clone(catalog),
            policy: Arc::clone(policy),
        }
    }

    /// Makes a decision again under its own configuration.
    #[must_use]
    pub fn self_test(&self, decision: &Decision) -> SelfTest {
        self.comparison.self_test(decision)
    }

    /// The name of an endpoint, as `model at provider`.
    #[must_use]
    pub fn name(&self, endpoint: EndpointId) -> Option<String> {
        self.comparison.name(endpoint)
    }

    /// The request with what it could have come to. [`Observed::Unserved`] if no endpoint could serve.
    pub(super) fn review(&self, generation: &Generation, timeline: &Timeline) -> Result<Reviewed, Observed> {
        let decision = &*generation.decision;
        let recorded = Possible::recorded(decision, &self.comparison.recorded);
        let (own, basis) = recorded.ok_or(Observed::Different)?;
        let failed = self.policy.failure_time.as_secs_f64();
        let own = Prospects { possible: own, failed };
        let made = own.first().ok_or(Observed::Unserved)?;
        let calm = own.possible.calm.and_then(|calm| own.at(calm)).unwrap_or(made);
        let again = |imagined: &Decision, setup: &Setup| Prospects {
            possible: Possible::under(imagined, &generation.tags, setup, &basis),
            failed,
        };
        let at = generation.created_ms;
        let active = Restriction::ALL.into_iter().filter(|one| one.restricts(decision, &self.catalog));
        let active: Vec<Restriction> = active.collect();
        let mut now = Decision { seed: 0, exploration_share: 0.0, ..decision.clone() };
        let (mut free, mut grade, mut without, mut setup) = (calm, Grade::Exact, Vec::new(), &self.plain);
        if !active.is_empty() {
            self.fill(&mut now, timeline, at);
            setup = &self.free;
            let lifted = again(&now, setup);
            (free, grade) = (lifted.first().unwrap_or(calm), lifted.possible.grade);
            let alone = |one: Restriction| Some((one, again(&now, self.setup(one)?).first().unwrap_or(calm)));
            without = active.into_iter().filter_map(alone).collect();
        }
        tell(&mut now, |endpoint| timeline.latest(endpoint, at, at + FORESIGHT_MS));
        let later = again(&now, setup);
        let (foresighted, doubt, load) =
            later.sure(&now).unwrap_or((later.at(free.endpoint).unwrap_or(free), [0.0; 3], [0.0; 2]));
        let closed = recover(&mut now);
        let hopeful = if closed.is_empty() { None } else { again(&now, setup).first() };
        let hopeful = hopeful.filter(|choice| closed.contains(&choice.endpoint)).unwrap_or(foresighted);
        let later_of = |prospect: Prospect| later.at(prospect.endpoint).unwrap_or(prospect);
        let is_known = |candidate: &Candidate| timeline.latest(candidate.endpoint, at, at + FORESIGHT_MS).is_some();
        Ok(Reviewed {
            outcome: outcome_values(generation),
            made,
            possible: own.all(),
            calm,
            free,
            without,
            hindsight: [later_of(made), later_of(free), foresighted],
            doubt,
            hopeful,
            load,
            limited: limited(decision).map(|excluded| excluded.endpoint).collect(),
            grade,
            is_foreseen: recorded_candidates(decision).all(is_known),
        })
    }

    fn setup(&self, restriction: Restriction) -> Option<&Setup> {
        let (_, setup) = self.without.iter().find(|(one, _)| *one == restriction)?;
        Some(setup.get_or_init(|| Setup::without(&[restriction], &self.catalog, &self.policy)))
    }

    /// Adds endpoints that the record leaves out and that others knew in the minute before. A model that is not in it has the
    /// tokens of the other request.
    fn fill(&self, decision: &mut Decision, timeline: &Timeline, at_ms: i64) {
        let Some(template) = recorded_candidates(decision).next().cloned() else { return };
        let model = |index: u32| self.catalog.endpoint(index).map(|endpoint| endpoint.model);
        let missing = timeline
            .endpoints()
            .filter(|endpoint| recorded_candidates(decision).all(|candidate| candidate.endpoint != *endpoint));
        let mut missing: Vec<EndpointId> = missing.collect();
        missing.sort_unstable();
        let filled = missing.into_iter().filter_map(|endpoint| {
            let sighting =
                timeline.latest(endpoint, at_ms - FORESIGHT_MS, at_ms).filter(|sighting| sighting.accepts)?;
            let index = self.plain.find(endpoint)?;
            let of_model = |candidate: &&Candidate| model(candidate.index) == model(index);
            let sibling = recorded_candidates(decision).find(of_model);
            let mut inputs = sighting.inputs;
            inputs.prompt_tokens = sibling.unwrap_or(&template).inputs.prompt_tokens;
            inputs.output_tokens = sibling.map_or(inputs.output_tokens, |sibling| sibling.inputs.output_tokens);
            (inputs.cached_tokens, inputs.tier, inputs.reopens) = (0, 0, Reopens::Now);
            Some(Candidate { index, endpoint, inputs, probe: false, panic: false, saving: None, ..template.clone() })
        });
        let filled: Vec<Candidate> = filled.collect();
        decision.omitted.retain(|omitted| filled.iter().all(|candidate| candidate.endpoint != *omitted));
        decision.rivals.extend(filled);
    }
}

/// What a decision could come to.
struct Prospects {
    possible: Possible,
    /// Seconds of an attempt that fails.
    failed: f64,
}

impl Prospects {
    fn first(&self) -> Option<Prospect> {
        self.possible.order.first().map(|(first, _)| self.of(first))
    }

    /// The choice, by how much its figures may be off, and its load.
    fn sure(&self, decision: &Decision) -> Option<(Prospect, Expected, [f64; 2])> {
        let (first, _) = self.possible.order.first()?;
        let inputs = recorded_candidates(decision).find(|candidate| candidate.endpoint == first.endpoint)?.inputs;
        let (chosen, doubted) = (self.of(first), self.of(&doubted(first, &inputs)));
        let off = |figure: usize| Some((doubted.expected.get(figure)? - chosen.expected.get(figure)?).abs());
        Some((chosen, [0, 1, 2].map(|figure| off(figure).unwrap_or_default()), first.load))
    }

    fn at(&self, endpoint: EndpointId) -> Option<Prospect> {
        let found = self.possible.order.iter().find(|(planned, _)| planned.endpoint == endpoint);
        found.map(|(planned, _)| self.of(planned))
    }

    fn all(&self) -> Vec<(Prospect, f64, [f64; 2])> {
        let order = self.possible.order.iter();
        order.map(|(planned, probability)| (self.of(planned), *probability, planned.load)).collect()
    }

    /// What is expected of the request if this endpoint is tried first. Nothing is corrected here: that takes all requests.
    fn of(&self, first: &Planned) -> Prospect {
        let Figures { cost, failure, .. } = self.possible.figures_if_first(first, &Calibration::default());
        let expected = [units::from_pico(cost.into()), units::from_pico(failure.into()), self.seconds(first)];
        Prospect { endpoint: first.endpoint, expected }
    }

    /// Seconds to the end of an answer, those of attempts that fail before it included.
    fn seconds(&self, first: &Planned) -> f64 {
        let others = self.possible.order.iter().map(|(planned, _)| planned);
        let others = others.filter(|other| other.endpoint != first.endpoint);
        let (mut reached, mut sum) = (1.0, 0.0);
        for planned in [first].into_iter().chain(others).take(self.possible.attempts) {
            let failure = planned.failure.clamp(0.0, 1.0);
            sum += reached * ((1.0 - failure) * planned.total + failure * self.failed);
            reached *= failure;
        }
        if reached < 1.0 { sum / (1.0 - reached) } else { first.total }
    }
}

fn recorded_candidates(decision: &Decision) -> impl Iterator<Item = &Candidate> {
    decision.candidates.iter().chain(&decision.rivals).chain(&decision.standby)
}

/// The same attempt, one standard error worse: failures follow a Beta distribution, and times a log-normal one.
fn doubted(first: &Planned, inputs: &ScoreInputs) -> Planned {
    let attempts = inputs.failures + inputs.successes + 1.0;
    let failure = first.failure + (first.failure * (1.0 - first.failure) / attempts).max(0.0).sqrt();
    let squared = inputs.variance / inputs.weight.max(1.0) + inputs.pace_variance / inputs.pace_weight.max(1.0);
    Planned { failure: failure.min(1.0), total: first.total * libm::exp(squared.max(0.0).sqrt()), ..*first }
}

fn limited(decision: &Decision) -> impl Iterator<Item = &ExcludedEndpoint> {
    decision.excluded.iter().filter(|excluded| is_limit(excluded.reason))
}

/// Opens the endpoints that are closed for other reasons than their limits, as good as they usually are, and names them.
fn recover(decision: &mut Decision) -> Vec<EndpointId> {
    let limited: Vec<u32> = limited(decision).map(|excluded| excluded.index).collect();
    let (mut closed, mut opened) = (Vec::new(), Vec::new());
    let Decision { candidates, rivals, standby, gates, .. } = decision;
    let is_gated = |index: u32| gates.iter().any(|gate| gate.index == index);
    let all = candidates.iter_mut().chain(rivals).chain(standby);
    for candidate in all.filter(|one| is_gated(one.index) || one.panic || one.probe) {
        if !limited.contains(&candidate.index) {
            let inputs = &mut candidate.inputs;
            (inputs.failures, inputs.successes, inputs.floor) = (0.0, 0.0, 0.0);
            closed.push(candidate.endpoint);
            opened.push(candidate.index);
        }
    }
    open(decision, &opened);
    closed
}

/// Replaces statistics by later ones. What takes requests by then may be called, unless it could not carry more.
fn tell<'t>(decision: &mut Decision, later: impl Fn(EndpointId) -> Option<&'t Sighting>) {
    let limited: Vec<u32> = limited(decision).map(|excluded| excluded.index).collect();
    let Decision { candidates, rivals, standby, .. } = decision;
    let mut opened = Vec::new();
    for candidate in candidates.iter_mut().chain(rivals).chain(standby) {
        if let Some(sighting) = later(candidate.endpoint) {
            *candidate = sighting.told_to(candidate);
            if sighting.accepts && !limited.contains(&candidate.index) {
                opened.push(candidate.index);
            }
        }
    }
    open(decision, &opened);
}

/// Lets these endpoints be called.
fn open(decision: &mut Decision, opened: &[u32]) {
    decision.gates.retain(|gate| !opened.contains(&gate.index));
    let (open, standby) =
        std::mem::take(&mut decision.standby).into_iter().partition(|one| opened.contains(&one.index));
    decision.standby = standby;
    let open: Vec<Candidate> = open;
    decision.excluded.retain(|excluded| open.iter().all(|candidate| candidate.index != excluded.index));
    let reopened = |candidate: &mut Candidate| {
        (candidate.probe, candidate.panic, candidate.inputs.reopens) = (false, false, Reopens::Now);
    };
    decision.rivals.extend(open);
    let all = decision.candidates.iter_mut().chain(&mut decision.rivals);
    all.filter(|candidate| opened.contains(&candidate.index)).for_each(reopened);
}
