//! A recorded decision, made again from its record alone.
//!
//! The recorded inputs of the candidates, the baselines, the seed and the policy determine every score bit for bit, and
//! so the order, the choice, its ties, and whether exploration noise or a draw decided. Excluded endpoints and the decision to
//! probe depend on state that the record does not hold; a replay takes them as recorded.

use pointsman_domain::{Candidate, Decision, EndpointId, RoutingPolicy, ScoreTerms, SplitPart};

use super::rescoring::{Rescoring, drawn, recorded};
use crate::decide::{
    plan::{self, RankKey, Ranked},
    pooled_endpoint::Role,
};
use crate::split::{is_reproduced, part_at};

/// The result of a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// The recomputed figures of each recorded candidate, in the order of the record.
    pub candidates: Vec<Recomputed>,
    /// The order of the attempts; the first is the choice.
    pub order: Vec<EndpointId>,
    /// Endpoints with the same score as the choice. The tie-break put the choice first.
    pub tied: Vec<EndpointId>,
    /// Whether exploration noise or a draw changed the choice.
    pub explored: bool,
    /// Values that differ from the record; empty if the replay is identical.
    pub differences: Vec<Difference>,
    /// Inputs that are missing or not those of the decision.
    pub lost: Vec<MissingInput>,
}

/// The recomputed figures of one candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recomputed {
    /// The candidate.
    pub endpoint: EndpointId,
    /// The terms of the score; their sum is the score.
    pub terms: ScoreTerms,
    /// Probability that the attempt fails or runs out of time.
    pub failure: f64,
    /// Median time to the first token, seconds.
    pub first_token: f64,
    /// Expected seconds to the first content of a stream, or to the whole plain answer.
    pub expected: f64,
}

/// A value that differs from the record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Difference {
    /// A figure of a candidate.
    Figure {
        /// The candidate.
        endpoint: EndpointId,
        /// Name of the figure: `score`, a term, or a prediction.
        what: &'static str,
        /// The recorded value.
        recorded: f64,
        /// The recomputed value.
        recomputed: f64,
    },
    /// The endpoint at a place of the plan; place 0 is the choice.
    Place {
        /// Counted from 0.
        place: usize,
        /// The recorded endpoint.
        recorded: EndpointId,
        /// The recomputed endpoint.
        recomputed: EndpointId,
    },
    /// Whether exploration noise or a draw changed the choice.
    Explored {
        /// The recorded value.
        recorded: bool,
        /// The recomputed value.
        recomputed: bool,
    },
    /// The part of a divided alias, or its probability.
    Part {
        /// The recorded part and its probability.
        recorded: (SplitPart, f64),
        /// The recomputed ones.
        recomputed: (SplitPart, f64),
    },
}

/// An input that a replay lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingInput {
    /// The record holds no candidate.
    Candidates,
    /// The available policy is not the policy of the decision.
    Policy {
        /// Policy version of the decision.
        recorded: u64,
        /// Available policy version.
        given: u64,
    },
}

impl Replay {
    /// Whether every recomputed value equals the record, bit for bit.
    pub fn is_identical(&self) -> bool {
        self.differences.is_empty() && self.lost.is_empty()
    }

    /// The choice.
    pub fn choice(&self) -> Option<EndpointId> {
        self.order.first().copied()
    }
}

/// Makes a recorded decision again. `policy` is the policy of the decision.
pub fn replay(decision: &Decision, policy: &RoutingPolicy) -> Replay {
    let rescoring = Rescoring::new(decision, policy);
    let rescored: Vec<Rescored<'_>> =
        recorded(decision).map(|candidate| Rescored::new(candidate, &rescoring)).collect();
    let mut order: Vec<&Rescored<'_>> = rescored.iter().collect();
    plan::settle(&mut order, decision.max_attempts, drawn(decision));
    keep_recorded_ties(&mut order, &rescored);
    let explored = is_explored(decision, &order);
    let differences = differences(decision, &rescored, &order, explored);
    Replay {
        candidates: rescored.iter().map(|rescored| rescored.figures).collect(),
        tied: tied(&order),
        order: order.iter().map(|rescored| rescored.candidate.endpoint).collect(),
        explored,
        differences,
        lost: missing_inputs(decision, policy),
    }
}

/// Keeps the recorded order of ties after the choice if the record omits candidates. An omitted candidate can be the
/// first of a run of ties, so only the whole plan determines that order.
fn keep_recorded_ties<'r, 'a>(order: &mut [&'r Rescored<'a>], recorded: &'r [Rescored<'a>]) {
    let is_complete = recorded.iter().enumerate().all(|(at, rescored)| rescored.candidate.place as usize == at);
    let (Some((choice, order)), Some((chosen, recorded))) = (order.split_first_mut(), recorded.split_first()) else {
        return;
    };
    let ties = |(is, was): (&&Rescored<'_>, &Rescored<'_>)| {
        let (is, was) = (is.key(), was.key());
        is.precedence == was.precedence && plan::is_tie(is.rank.min(was.rank), is.rank.max(was.rank))
    };
    if !is_complete && choice.candidate.endpoint == chosen.candidate.endpoint && order.iter().zip(recorded).all(ties) {
        order.iter_mut().zip(recorded).for_each(|(is, was)| *is = was);
    }
}

/// A recorded candidate with its recomputed figures.
struct Rescored<'a> {
    candidate: &'a Candidate,
    figures: Recomputed,
    score: f64,
    noiseless_score: f64,
}

impl<'a> Rescored<'a> {
    fn new(candidate: &'a Candidate, rescoring: &Rescoring) -> Rescored<'a> {
        let inputs = &candidate.inputs;
        let forecast = rescoring.forecast(candidate, inputs);
        let terms = rescoring.scoring.terms(&forecast, inputs.cost);
        let score = terms.sum();
        Rescored {
            candidate,
            figures: Recomputed {
                endpoint: candidate.endpoint,
                terms,
                failure: forecast.noiseless.failure,
                first_token: forecast.first_token,
                expected: forecast.expected(&rescoring.rules),
            },
            score,
            noiseless_score: rescoring.scoring.noiseless_score(&forecast, inputs.cost),
        }
    }

    /// Name, recorded value and recomputed value of every figure.
    fn figures(&self) -> impl Iterator<Item = (&'static str, f64, f64)> {
        let (candidate, figures) = (self.candidate, &self.figures);
        let terms = candidate.terms.iter().zip(figures.terms.iter());
        let terms = terms.map(|(recorded, rescored)| (rescored.name, recorded.value, rescored.value));
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

impl Ranked for Rescored<'_> {
    fn key(&self) -> RankKey {
        let key = self.candidate.key();
        let rank = if key.role == Role::Panic { key.rank } else { self.score };
        RankKey { rank, failure: self.figures.failure, ..key }
    }
}

/// Whether the choice differs from the choice without noise.
fn is_explored(decision: &Decision, order: &[&Rescored<'_>]) -> bool {
    let competes = |rescored: &&Rescored<'_>| rescored.key().role == Role::Candidate;
    let Some(choice) = order.first().copied().filter(|choice| decision.seed != 0 && competes(choice)) else {
        return false;
    };
    let competing = order.iter().copied().filter(competes);
    let noiseless_best = plan::best(competing.map(|rescored| (rescored, rescored.noiseless_score)));
    noiseless_best.is_none_or(|best| best.candidate.endpoint != choice.candidate.endpoint)
}

fn tied(order: &[&Rescored<'_>]) -> Vec<EndpointId> {
    let Some((choice, others)) = order.split_first() else { return Vec::new() };
    let choice = choice.key();
    let least = others.iter().fold(choice.rank, |least, other| least.min(other.key().rank));
    let ties = |key: &RankKey| {
        key.precedence == choice.precedence && plan::is_tie(least, key.rank) && plan::is_tie(least, choice.rank)
    };
    others.iter().map(|other| other.key()).filter(ties).map(|key| key.endpoint).collect()
}

fn differences(
    decision: &Decision,
    rescored: &[Rescored<'_>],
    order: &[&Rescored<'_>],
    explored: bool,
) -> Vec<Difference> {
    let figures = rescored.iter().flat_map(|rescored| {
        let endpoint = rescored.candidate.endpoint;
        let differing =
            rescored.figures().filter(|(_, recorded, recomputed)| recorded.to_bits() != recomputed.to_bits());
        differing.map(move |(what, recorded, recomputed)| Difference::Figure { endpoint, what, recorded, recomputed })
    });
    let places = recorded(decision).zip(order).filter_map(|(was, is)| {
        let (place, recorded, recomputed) = (was.place as usize, was.endpoint, is.candidate.endpoint);
        (recorded != recomputed).then_some(Difference::Place { place, recorded, recomputed })
    });
    let exploration = Difference::Explored { recorded: decision.explored, recomputed: explored };
    let part = decision.split.as_ref().filter(|taken| !is_reproduced(taken)).map(|taken| Difference::Part {
        recorded: (taken.part, taken.probability),
        recomputed: part_at(&taken.split, taken.place, taken.canary_stopped),
    });
    figures.chain(places).chain((decision.explored != explored).then_some(exploration)).chain(part).collect()
}

fn missing_inputs(decision: &Decision, policy: &RoutingPolicy) -> Vec<MissingInput> {
    let other_policy = policy.version != decision.policy_version;
    let policy = MissingInput::Policy { recorded: decision.policy_version, given: policy.version };
    let candidates = decision.candidates.is_empty().then_some(MissingInput::Candidates);
    candidates.into_iter().chain(other_policy.then_some(policy)).collect()
}
