//! A recorded decision made again, from nothing but its record.
//!
//! What was recorded of each candidate, the yardsticks, the seed and the policy give every score bit for bit, and
//! with them the order, the choice, its ties, and whether noise made it. What a decision read from elsewhere (who
//! was refused, whether a probe was worth it) is taken as recorded.

use super::rescoring::{Rescoring, rank, recorded};
use crate::decide::plan::{self, Ranked};
use crate::domain::{Candidate, Decision, EndpointId, RoutingPolicy, ScoreTerms};

/// A decision made again.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// What came out for each recorded candidate, in the order of the record.
    pub candidates: Vec<Recomputed>,
    /// The order in which they would be tried; the first is the choice.
    pub order: Vec<EndpointId>,
    /// Who scored the same as the choice, which what breaks ties put first.
    pub tied: Vec<EndpointId>,
    /// Whether noise made the choice.
    pub explored: bool,
    /// What came out otherwise than recorded; empty when nothing did.
    pub differences: Vec<Difference>,
    /// What the record no longer holds, or what it was not made with.
    pub lost: Vec<MissingInput>,
}

/// What came out for one candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recomputed {
    /// Which.
    pub endpoint: EndpointId,
    /// The terms of its score, which is their sum.
    pub terms: ScoreTerms,
    /// Probability that the attempt fails or runs out of time.
    pub failure: f64,
    /// Median time to the first token, seconds.
    pub first_token: f64,
    /// Seconds until a sign of life is expected.
    pub expected: f64,
}

/// What came out otherwise than recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Difference {
    /// A figure of a candidate.
    Figure {
        /// Whose.
        endpoint: EndpointId,
        /// Which: `score`, the name of a term, or a prediction.
        what: &'static str,
        /// As recorded.
        recorded: f64,
        /// As it came out.
        recomputed: f64,
    },
    /// Somebody else stands at a place of the plan; the choice stands at place 0.
    Place {
        /// Counted from 0.
        place: usize,
        /// Who was there.
        recorded: EndpointId,
        /// Who came out there.
        recomputed: EndpointId,
    },
    /// Whether noise made the choice.
    Explored {
        /// As recorded.
        recorded: bool,
        /// As it came out.
        recomputed: bool,
    },
}

/// Why a decision cannot be made again as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingInput {
    /// The record holds no candidate.
    Candidates,
    /// The policy at hand is not the one it was made under.
    Policy {
        /// The version it was made under.
        recorded: u64,
        /// The version at hand.
        given: u64,
    },
}

impl Replay {
    /// Whether everything came out as recorded, bit for bit.
    #[must_use]
    pub fn is_identical(&self) -> bool {
        self.differences.is_empty() && self.lost.is_empty()
    }

    /// The choice.
    #[must_use]
    pub fn choice(&self) -> Option<EndpointId> {
        self.order.first().copied()
    }
}

/// Makes a recorded decision again under the policy it was made under.
#[must_use]
pub fn replay(decision: &Decision, policy: &RoutingPolicy) -> Replay {
    let contest = Rescoring::of(decision, policy);
    let remade: Vec<Remade<'_>> = recorded(decision).map(|candidate| Remade::of(candidate, &contest)).collect();
    let mut order: Vec<&Remade<'_>> = remade.iter().collect();
    plan::settle(&mut order, decision.max_attempts);
    keep_recorded_ties(&mut order, &remade);
    let explored = is_explored(decision, &order);
    let differences = differences(decision, &remade, &order, explored);
    Replay {
        candidates: remade.iter().map(|remade| remade.figures).collect(),
        tied: tied(&order),
        order: order.iter().map(|remade| remade.candidate.endpoint).collect(),
        explored,
        differences,
        lost: lost(decision, policy),
    }
}

/// Where somebody is omitted, ties behind the choice stay as they were recorded: a run of ties may begin with him, so it
/// takes the whole plan to settle it.
fn keep_recorded_ties<'r, 'a>(order: &mut [&'r Remade<'a>], recorded: &'r [Remade<'a>]) {
    let is_whole = recorded.iter().enumerate().all(|(at, remade)| remade.candidate.place as usize == at);
    let (Some((choice, order)), Some((chosen, recorded))) = (order.split_first_mut(), recorded.split_first()) else {
        return;
    };
    let ties = |(is, was): (&&Remade<'_>, &Remade<'_>)| {
        let (less, more) = if is.rank() < was.rank() { (is.rank(), was.rank()) } else { (was.rank(), is.rank()) };
        is.class() == was.class() && plan::is_tie(less, more)
    };
    if !is_whole && choice.endpoint() == chosen.endpoint() && order.iter().zip(recorded).all(ties) {
        order.iter_mut().zip(recorded).for_each(|(is, was)| *is = was);
    }
}

/// A recorded candidate with what came out for it.
struct Remade<'a> {
    candidate: &'a Candidate,
    figures: Recomputed,
    score: f64,
    calm_score: f64,
}

impl<'a> Remade<'a> {
    fn of(candidate: &'a Candidate, contest: &Rescoring) -> Remade<'a> {
        let inputs = &candidate.inputs;
        let forecast = contest.forecast(candidate, inputs);
        let terms = contest.scoring.terms(&forecast, inputs.cost);
        let score = terms.sum();
        Remade {
            candidate,
            figures: Recomputed {
                endpoint: candidate.endpoint,
                terms,
                failure: forecast.calm.failure,
                first_token: forecast.first_token,
                expected: forecast.expected(inputs, &contest.rules),
            },
            score,
            calm_score: contest.scoring.calm_score(&forecast, inputs.cost),
        }
    }

    /// Every figure that was recorded and came out again.
    fn figures(&self) -> impl Iterator<Item = (&'static str, f64, f64)> {
        let (candidate, figures) = (self.candidate, &self.figures);
        let terms = candidate.terms.iter().zip(figures.terms.iter());
        let terms = terms.map(|(recorded, remade)| (remade.name, recorded.value, remade.value));
        [
            ("score", candidate.score, self.score),
            ("failure_probability", candidate.predicted.failure, figures.failure),
            ("ttft", candidate.predicted.first_token_p50, figures.first_token),
            ("expected", candidate.inputs.expected, figures.expected),
        ]
        .into_iter()
        .chain(terms)
    }
}

impl Ranked for Remade<'_> {
    fn class(&self) -> u64 {
        rank(self.candidate)
    }

    fn rank(&self) -> f64 {
        if self.candidate.panic { self.candidate.inputs.until.0 as f64 } else { self.score }
    }

    fn failure(&self) -> f64 {
        self.figures.failure
    }

    fn cost(&self) -> f64 {
        self.candidate.inputs.cost
    }

    fn in_flight(&self) -> u32 {
        self.candidate.inputs.in_flight
    }

    fn endpoint(&self) -> EndpointId {
        self.candidate.endpoint
    }

    fn provider(&self) -> u32 {
        self.candidate.provider
    }

    fn is_probe(&self) -> bool {
        self.candidate.probe
    }

    fn is_candidate(&self) -> bool {
        is_ordinary(self.candidate)
    }
}

fn is_ordinary(candidate: &Candidate) -> bool {
    !candidate.probe && !candidate.panic
}

/// Whether the choice differs from what it would be without noise.
fn is_explored(decision: &Decision, order: &[&Remade<'_>]) -> bool {
    let choice = order.first().filter(|choice| decision.seed != 0 && is_ordinary(choice.candidate));
    let best = calm_best(order.iter().copied());
    choice.is_some_and(|choice| best != Some(choice.candidate.endpoint))
}

/// Who would have been chosen without noise.
fn calm_best<'a: 'r, 'r>(remade: impl Iterator<Item = &'r Remade<'a>> + Clone) -> Option<EndpointId> {
    let playing = remade.filter(|remade| is_ordinary(remade.candidate));
    plan::best(playing.map(|remade| (remade, remade.calm_score))).map(|best| best.candidate.endpoint)
}

fn tied(order: &[&Remade<'_>]) -> Vec<EndpointId> {
    let Some((choice, others)) = order.split_first() else { return Vec::new() };
    let least = others.iter().fold(choice.rank(), |least, other| least.min(other.rank()));
    let ties = |other: &&&Remade<'_>| {
        other.class() == choice.class() && plan::is_tie(least, other.rank()) && plan::is_tie(least, choice.rank())
    };
    others.iter().filter(ties).map(|other| other.candidate.endpoint).collect()
}

fn differences(decision: &Decision, remade: &[Remade<'_>], order: &[&Remade<'_>], explored: bool) -> Vec<Difference> {
    let figures = remade.iter().flat_map(|remade| {
        let endpoint = remade.candidate.endpoint;
        let differing = remade.figures().filter(|(_, recorded, recomputed)| recorded.to_bits() != recomputed.to_bits());
        differing.map(move |(what, recorded, recomputed)| Difference::Figure { endpoint, what, recorded, recomputed })
    });
    let places = recorded(decision).zip(order).filter_map(|(was, is)| {
        let (place, recorded, recomputed) = (was.place as usize, was.endpoint, is.candidate.endpoint);
        (recorded != recomputed).then_some(Difference::Place { place, recorded, recomputed })
    });
    let chance = Difference::Explored { recorded: decision.explored, recomputed: explored };
    figures.chain(places).chain((decision.explored != explored).then_some(chance)).collect()
}

fn lost(decision: &Decision, policy: &RoutingPolicy) -> Vec<MissingInput> {
    let other_policy = policy.version != decision.policy_version;
    let policy = MissingInput::Policy { recorded: decision.policy_version, given: policy.version };
    let candidates = decision.candidates.is_empty().then_some(MissingInput::Candidates);
    candidates.into_iter().chain(other_policy.then_some(policy)).collect()
}
