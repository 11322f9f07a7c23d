//! A recorded decision, made again with less in its way.

use std::sync::{Arc, OnceLock};

use pointsman_domain::{
    Candidate, Catalog, Decision, EndpointId, ExcludedEndpoint, GateState, Generation, Reopens, RoutingPolicy,
};

use super::{
    attempts::Tally,
    failure_history::Believed,
    timeline::{Sighting, Timeline},
};
use crate::explain::{
    diff::{Comparison, Grade, Planned, Possible, Restriction, SelfTest, Setup, Side},
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
    /// The foresighted choice if every endpoint is worse, and if it is better, than is known by one standard error. In the better
    /// case closed endpoints have recovered that nobody tried within the minute before and after.
    pub doubted: [Prospect; 2],
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
        let foresight = Foresight { timeline, at_ms: at, made: made.endpoint, closed: closed(decision) };
        foresight.tell(&mut now);
        let later = again(&now, setup);
        let foresighted = later.first().unwrap_or(free);
        let load = later.possible.order.first().map_or([0.0; 2], |(first, _)| first.load);
        let doubted = [1.0, -1.0].map(|errors| {
            let mut imagined = now.clone();
            foresight.doubt(&mut imagined, errors);
            again(&imagined, setup).first().unwrap_or(foresighted)
        });
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
            doubted,
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

    fn at(&self, endpoint: EndpointId) -> Option<Prospect> {
        let found = self.possible.order.iter().find(|(planned, _)| planned.endpoint == endpoint);
        found.map(|(planned, _)| self.of(planned))
    }

    fn all(&self) -> Vec<(Prospect, f64, [f64; 2])> {
        let order = self.possible.order.iter();
        order.map(|(planned, probability)| (self.of(planned), *probability, planned.load)).collect()
    }

    /// What is expected of the request if this endpoint is tried first: an attempt that fails costs nothing, and seconds are those to
    /// the end of an answer, failed attempts before it included. Nothing is corrected here: that takes all requests.
    fn of(&self, first: &Planned) -> Prospect {
        let (mut reached, mut dollars, mut seconds) = (1.0, 0.0, 0.0);
        let others = self.possible.order.iter().map(|(planned, _)| planned);
        let others = others.filter(|other| other.endpoint != first.endpoint);
        for planned in [first].into_iter().chain(others).take(self.possible.attempts) {
            let failure = planned.failure.clamp(0.0, 1.0);
            dollars += reached * (1.0 - failure) * planned.cost;
            seconds += reached * ((1.0 - failure) * planned.total + failure * self.failed);
            reached *= failure;
        }
        let seconds = if reached < 1.0 { seconds / (1.0 - reached) } else { first.total };
        Prospect { endpoint: first.endpoint, expected: [dollars, reached, seconds] }
    }
}

fn recorded_candidates(decision: &Decision) -> impl Iterator<Item = &Candidate> {
    decision.candidates.iter().chain(&decision.rivals).chain(&decision.standby)
}

fn limited(decision: &Decision) -> impl Iterator<Item = &ExcludedEndpoint> {
    decision.excluded.iter().filter(|excluded| is_limit(excluded.reason))
}

/// What records know of endpoints at a moment of which the next minute is known, too.
struct Foresight<'t> {
    timeline: &'t Timeline,
    at_ms: i64,
    made: EndpointId,
    /// Endpoints that were closed when it was decided.
    closed: Vec<u32>,
}

impl Foresight<'_> {
    /// Replaces statistics by later ones, and probabilities of failure by what attempts before and after tell. No breaker keeps an
    /// endpoint back of which attempts tell, or that takes requests later, unless it could not carry more.
    fn tell(&self, decision: &mut Decision) {
        let (kept, opened) = (kept_closed(decision), all(decision));
        let opened = opened.filter_map(|candidate| {
            let later = self.later(candidate.endpoint);
            if let Some(sighting) = later {
                *candidate = sighting.told_to(candidate);
            }
            let failure = self.failure(candidate.endpoint);
            if let Some(failure) = failure {
                set_failure(candidate, failure.mean);
            }
            let may = failure.is_some() || later.is_some_and(|sighting| sighting.accepts);
            (may && !kept.contains(&candidate.index)).then_some(candidate.index)
        });
        let opened: Vec<u32> = opened.collect();
        open(decision, &opened);
    }

    /// Makes every endpoint worse by so many standard errors of what is known. Better ones carry more than their limits told.
    fn doubt(&self, decision: &mut Decision, errors: f64) {
        let (faulty, is_better) = (faulty(decision), errors < 0.0);
        let limited: Vec<u32> = limited(decision).map(|excluded| excluded.index).collect();
        let mut opened = Vec::new();
        for candidate in all(decision) {
            let inputs = &mut candidate.inputs;
            inputs.intercept += errors * error_of_mean(inputs.variance, inputs.weight);
            inputs.per_token += errors * error_of_mean(inputs.pace_variance, inputs.pace_weight);
            let was_closed = self.closed.contains(&candidate.index);
            if is_better && (was_closed || limited.contains(&candidate.index)) && !faulty.contains(&candidate.index) {
                opened.push(candidate.index);
            }
            if is_better && was_closed && !self.is_tried(candidate.endpoint) {
                set_failure(candidate, 0.0);
            } else if let Some(failure) = self.doubted_failure(candidate.endpoint, is_better) {
                set_failure(candidate, failure.mean + errors * failure.deviation);
            }
        }
        open(decision, &opened);
    }

    fn later(&self, endpoint: EndpointId) -> Option<&Sighting> {
        self.timeline.latest(endpoint, self.at_ms, self.at_ms + FORESIGHT_MS)
    }

    /// Where an endpoint refuses requests for its limits, further ones would have failed.
    fn failure(&self, endpoint: EndpointId) -> Option<Believed> {
        match endpoint != self.made && self.around(endpoint).limited > 0 {
            true => Some(Believed { mean: 1.0, deviation: 0.0 }),
            false => self.timeline.failure(endpoint, self.at_ms),
        }
    }

    fn doubted_failure(&self, endpoint: EndpointId, is_better: bool) -> Option<Believed> {
        if is_better { self.timeline.failure(endpoint, self.at_ms) } else { self.failure(endpoint) }
    }

    /// Whether an attempt within the minute before or after tells of an endpoint.
    fn is_tried(&self, endpoint: EndpointId) -> bool {
        let Tally { failed, answered, .. } = self.around(endpoint);
        failed > 0 || answered > 0
    }

    fn around(&self, endpoint: EndpointId) -> Tally {
        self.timeline.tally(endpoint, self.at_ms - FORESIGHT_MS, self.at_ms + FORESIGHT_MS)
    }
}

fn error_of_mean(variance: f64, weight: f64) -> f64 {
    (variance / weight.max(1.0)).max(0.0).sqrt()
}

fn set_failure(candidate: &mut Candidate, probability: f64) {
    let inputs = &mut candidate.inputs;
    (inputs.failures, inputs.successes, inputs.floor) = (0.0, 0.0, 0.0);
    inputs.usual_failure = probability.clamp(0.0, 1.0);
}

fn all(decision: &mut Decision) -> impl Iterator<Item = &mut Candidate> {
    decision.candidates.iter_mut().chain(&mut decision.rivals).chain(&mut decision.standby)
}

/// Endpoints that no knowledge opens: they could not carry more, or the account or model name there is wrong.
fn kept_closed(decision: &Decision) -> Vec<u32> {
    limited(decision).map(|excluded| excluded.index).chain(faulty(decision)).collect()
}

/// Endpoints where the account or model name is wrong.
fn faulty(decision: &Decision) -> Vec<u32> {
    let faulty = decision.gates.iter().filter(|gate| gate.state == GateState::ConfigFault);
    faulty.map(|gate| gate.index).collect()
}

/// Endpoints that are closed, or called though they are.
fn closed(decision: &Decision) -> Vec<u32> {
    let called = recorded_candidates(decision).filter(|one| one.panic || one.probe).map(|one| one.index);
    decision.gates.iter().map(|gate| gate.index).chain(called).collect()
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
