//! Why a model, a provider or an endpoint was not the choice, and the smallest change that would have made it one.
//!
//! Made from the record of a decision: the first gate that refused it, or the margin by which it lost. How the answer
//! is told lives in `why_not_tell`, how a change is searched in `change`.

pub mod preview;
pub mod sentence;

use std::{cmp::Ordering, time::Duration};

use super::{
    attempt_summary::AttemptSummary,
    counterfactual::{Counterfactual, Figure, Trial, smallest},
    figures::{full_name_of, seconds, significant},
    name_resolution::{Named, named, suggestions},
    rescoring::{Rescoring, best_scored, leader, rank, recorded},
    why_not::sentence::sentence,
};
use crate::decide::{
    filter::purpose,
    plan::is_tie,
    preferences::{MissedPreference, grade_with, missed_latency, missed_rate, place_and_grade},
};
use crate::domain::{
    ApiType, AttemptRecord, Candidate, Catalog, Decision, EndpointId, ExcludedEndpoint, ExclusionReason, Modalities,
    Modality, Objective, Prediction, ProviderState, RouteError, RoutingPolicy, ScoreInputs, ScoreUnit, Weights,
};

/// The reason of whoever scored well enough and misses a preference.
pub(crate) const PREFERENCE_MISSED: &str = "preference_missed";

/// The answer to "why not X?".
#[derive(Debug, Clone, PartialEq)]
pub struct WhyNot {
    /// What was asked about, as it was written.
    pub asked: String,
    /// What became of it.
    pub verdict: Verdict,
    /// The endpoint the answer is about, by its position at the decision and its id: of several that were meant, the
    /// one that came nearest to being the choice.
    pub about: Option<(u32, EndpointId)>,
    /// How many endpoints the name stands for.
    pub matched: usize,
    /// Its place in the plan, counted from 1.
    pub rank: Option<usize>,
    /// Why: an [`ExclusionReason`], or what ranked before its score, or its score.
    pub reason: &'static str,
    /// The figure or pattern behind the reason.
    pub detail: String,
    /// When the gate that refused it opens, from the decision on.
    pub opens_in: Option<Duration>,
    /// By how much it lost.
    pub margin: Option<Margin>,
    /// The changes of one figure each that would have made it the choice, the relatively smallest first.
    pub would_win_if: Vec<Counterfactual>,
    /// Names that resemble an unknown one.
    pub suggestions: Vec<String>,
    /// What became of the choice that did not answer, and of whoever was called after it.
    pub fate: Option<String>,
    /// All of it in one or two sentences.
    pub sentence: String,
}

/// What became of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It took no part.
    Refused,
    /// It took part, and another was better.
    Lost,
    /// It is the choice.
    Chosen,
    /// Nobody has that name.
    Unknown,
    /// It was not asked for.
    NotInPool,
}

impl Verdict {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Refused => "refused",
            Verdict::Lost => "lost",
            Verdict::Chosen => "chosen",
            Verdict::Unknown => "unknown",
            Verdict::NotInPool => "not_in_pool",
        }
    }
}

/// By how much a candidate lost, and to whom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    /// To whom, by position and id.
    pub to: (u32, EndpointId),
    /// Its score less the better one.
    pub difference: f64,
    /// The same relative to the better one.
    pub relative: f64,
    /// The unit of the difference.
    pub unit: ScoreUnit,
    /// The term in which it is furthest behind, and by how much.
    pub most: Option<(&'static str, f64)>,
}

/// Where something asked about stands in a decision.
enum Position<'a> {
    /// Among those the record holds, by place.
    Recorded(usize, &'a Candidate),
    /// Behind them, by place.
    Omitted(usize, u32, EndpointId),
    Excluded(&'a ExcludedEndpoint),
    /// Nowhere: an endpoint that was not asked for.
    Outside(u32, EndpointId),
}

/// Why `asked` is not the choice of a decision. `catalog` gives the names, as far as it still knows them.
#[must_use]
pub fn why_not(asked: &str, decision: &Decision, policy: &RoutingPolicy, catalog: &Catalog) -> WhyNot {
    answer(asked, catalog, |endpoints| {
        let standing = standing(endpoints, decision, catalog);
        match standing {
            Position::Recorded(0, choice) => chosen(choice),
            Position::Recorded(place, candidate) => lost(place, candidate, decision, policy),
            Position::Omitted(place, index, id) => omitted(place, index, id),
            Position::Excluded(excluded) => refused(excluded),
            Position::Outside(index, id) => {
                outside(index, id, catalog, |output| output_missed(output, decision, catalog))
            }
        }
    })
}

/// Why `asked` is not the choice where nothing is left to choose from.
#[must_use]
pub fn why_not_in(asked: &str, error: &RouteError, catalog: &Catalog) -> WhyNot {
    answer(asked, catalog, |endpoints| match nearest(endpoints, &error.excluded, catalog) {
        Some(excluded) => refused(excluded),
        None => endpoints.first().and_then(|index| Some((*index, catalog.endpoint(*index)?.id))).map_or_else(
            WhyNot::nobody,
            |(index, id)| {
                let wanted = error.query.router.as_ref().map(|_| purpose(error.query.api));
                outside(index, id, catalog, |output| wanted.filter(|wanted| !output.contains(*wanted)))
            },
        ),
    })
}

/// The same after the request, whose attempts say what became of the choice.
#[must_use]
pub fn why_not_after(
    asked: &str,
    decision: &Decision,
    attempts: &[AttemptRecord],
    policy: &RoutingPolicy,
    catalog: &Catalog,
) -> WhyNot {
    let answer = why_not(asked, decision, policy, catalog);
    let choice = answer.about.filter(|_| answer.verdict == Verdict::Chosen);
    let fate = choice.and_then(|(index, _)| AttemptSummary::of(attempts, index, full_name_of)?.of_choice());
    let answer = WhyNot { fate, ..answer };
    WhyNot { sentence: sentence(&answer, catalog), ..answer }
}

fn answer(asked: &str, catalog: &Catalog, of: impl FnOnce(&[u32]) -> WhyNot) -> WhyNot {
    let found = match named(catalog, asked) {
        Named::Endpoints(endpoints) => WhyNot { matched: endpoints.len(), ..of(&endpoints) },
        Named::Alias => WhyNot {
            reason: "alias",
            detail: "an alias stands for many; name a model, a provider or model@provider".to_owned(),
            ..WhyNot::nobody()
        },
        Named::Nobody => WhyNot { suggestions: suggestions(catalog, asked), ..WhyNot::nobody() },
    };
    let found = WhyNot { asked: asked.to_owned(), ..found };
    WhyNot { sentence: sentence(&found, catalog), ..found }
}

impl WhyNot {
    /// Nobody has that name.
    fn nobody() -> WhyNot {
        WhyNot {
            asked: String::new(),
            verdict: Verdict::Unknown,
            about: None,
            matched: 0,
            rank: None,
            reason: "unknown_name",
            detail: "neither a model nor a provider has this name".to_owned(),
            opens_in: None,
            margin: None,
            would_win_if: Vec::new(),
            suggestions: Vec::new(),
            fate: None,
            sentence: String::new(),
        }
    }

    fn about(verdict: Verdict, about: (u32, EndpointId), reason: &'static str, detail: String) -> WhyNot {
        WhyNot { verdict, about: Some(about), reason, detail, ..WhyNot::nobody() }
    }
}

/// The one of these endpoints that came nearest to being the choice. Positions are those of `catalog`, ids decide.
fn standing<'a>(endpoints: &[u32], decision: &'a Decision, catalog: &Catalog) -> Position<'a> {
    let ids: Vec<(u32, EndpointId)> =
        endpoints.iter().filter_map(|index| Some((*index, catalog.endpoint(*index)?.id))).collect();
    let meant = recorded(decision).filter(|candidate| ids.iter().any(|(_, meant)| *meant == candidate.endpoint));
    // The choice, whatever it scores; past shut gates the plan is an order of dates.
    let first = meant.clone().next().filter(|first| first.place == 0 || first.panic);
    if let Some(candidate) = first.or_else(|| best_scored(meant)) {
        return Position::Recorded(candidate.place as usize, candidate);
    }
    let omitted = decision.omitted_ranks().find_map(|(place, id)| {
        let (index, id) = ids.iter().find(|(_, meant)| *meant == id)?;
        Some((place, *index, *id))
    });
    if let Some((place, index, id)) = omitted {
        return Position::Omitted(place, index, id);
    }
    match nearest(endpoints, &decision.excluded, catalog) {
        Some(excluded) => Position::Excluded(excluded),
        None => ids.first().map_or(Position::Outside(0, EndpointId(0)), |(index, id)| Position::Outside(*index, *id)),
    }
}

/// Of those excluded, the one that came furthest.
fn nearest<'a>(endpoints: &[u32], excluded: &'a [ExcludedEndpoint], catalog: &Catalog) -> Option<&'a ExcludedEndpoint> {
    let is_meant = |excluded: &&ExcludedEndpoint| {
        endpoints.iter().any(|index| catalog.endpoint(*index).is_some_and(|endpoint| endpoint.id == excluded.endpoint))
    };
    // Of equally far ones the first.
    excluded.iter().filter(is_meant).rev().max_by_key(|excluded| progress(excluded.reason))
}

/// How many reasons are looked at before this one.
fn progress(reason: ExclusionReason) -> usize {
    use ExclusionReason::{
        BlockedModel, CircuitOpen, ConfigFault, ContextLength, DataPolicy, Disabled, Draining, InputModality,
        KeyPolicy, MaxCostPer1kTokens, MaxPrice, ModelExpired, NotAllowedModel, NotFree, OutputModality, Paced,
        ProbeInFlight, ProviderIgnored, ProviderNotAllowed, ProviderOff, Quantization, RateLimited, Saturated,
        UnsupportedParameter, WrongEndpoint,
    };
    const ORDER: [ExclusionReason; 25] = [
        Draining,
        ModelExpired,
        Disabled,
        ProviderOff,
        WrongEndpoint,
        KeyPolicy,
        BlockedModel,
        NotAllowedModel,
        NotFree,
        ProviderIgnored,
        ProviderNotAllowed,
        OutputModality,
        InputModality,
        UnsupportedParameter,
        ContextLength,
        Quantization,
        DataPolicy,
        MaxCostPer1kTokens,
        MaxPrice,
        ConfigFault,
        RateLimited,
        CircuitOpen,
        ProbeInFlight,
        Paced,
        Saturated,
    ];
    ORDER.iter().position(|known| *known == reason).unwrap_or_default()
}

fn chosen(choice: &Candidate) -> WhyNot {
    let about = (choice.index, choice.endpoint);
    WhyNot { rank: Some(1), ..WhyNot::about(Verdict::Chosen, about, "choice", "it is the choice".to_owned()) }
}

fn refused(excluded: &ExcludedEndpoint) -> WhyNot {
    let about = (excluded.index, excluded.endpoint);
    let answer = WhyNot::about(Verdict::Refused, about, excluded.reason.as_str(), excluded.detail.to_string());
    WhyNot { opens_in: excluded.detail.wait(), ..answer }
}

fn omitted(place: usize, index: u32, id: EndpointId) -> WhyNot {
    let detail =
        format!("it stands at place {} of the plan, and the record keeps the figures of the first only", place + 1);
    WhyNot { rank: Some(place + 1), ..WhyNot::about(Verdict::Lost, (index, id), "score", detail) }
}

/// An endpoint outside the pool. `missed` tells which output a model would have to give for an alias to stand for it.
fn outside(index: u32, id: EndpointId, catalog: &Catalog, missed: impl Fn(Modalities) -> Option<Modality>) -> WhyNot {
    let endpoint = catalog.endpoint(index);
    let provider = endpoint.and_then(|endpoint| catalog.provider_of(endpoint));
    if let Some(ProviderState::Off(why)) = provider.map(|provider| &provider.state) {
        return WhyNot::about(Verdict::NotInPool, (index, id), "not_in_pool", format!("its provider is off: {why}"));
    }
    let model = endpoint.and_then(|endpoint| catalog.model_of(endpoint));
    let output = model.map(|model| model.architecture.output);
    if let Some((output, wanted)) = output.and_then(|output| Some((output, missed(output)?))) {
        let gives: Vec<&str> = output.iter().map(Modality::as_str).collect();
        let detail = format!("it gives {}, the request asks for {wanted}", gives.join(" and "));
        return WhyNot::about(Verdict::NotInPool, (index, id), ExclusionReason::OutputModality.as_str(), detail);
    }
    WhyNot::about(Verdict::NotInPool, (index, id), "not_in_pool", "the request asks for other models".to_owned())
}

/// What all candidates of a decision about an alias give and this output does not hold: what the call is for.
fn output_missed(output: Modalities, decision: &Decision, catalog: &Catalog) -> Option<Modality> {
    let given = |candidate: &Candidate| {
        let endpoint = catalog.find(candidate.index, candidate.endpoint)?;
        Some(catalog.model_of(endpoint)?.architecture.output)
    };
    let all_give = |wanted: &Modality| {
        recorded(decision).all(|candidate| given(candidate).is_some_and(|output| output.contains(*wanted)))
    };
    let purposes = [ApiType::Completions, ApiType::Image].map(purpose);
    let is_missed = |wanted: &Modality| decision.router.is_some() && !output.contains(*wanted) && all_give(wanted);
    purposes.into_iter().find(is_missed)
}

/// A candidate that is not the choice.
fn lost(place: usize, candidate: &Candidate, decision: &Decision, policy: &RoutingPolicy) -> WhyNot {
    let (reason, detail) = cause(candidate, decision);
    let about = (candidate.index, candidate.endpoint);
    let answer = WhyNot { rank: Some(place + 1), ..WhyNot::about(Verdict::Lost, about, reason, detail) };
    let Some(leader) =
        leader(decision, candidate.probe).filter(|_| matches!(reason, "score" | "tie" | PREFERENCE_MISSED))
    else {
        return answer;
    };
    let mut trial = Again::new(candidate, leader, decision, policy);
    WhyNot {
        margin: (reason != PREFERENCE_MISSED).then(|| margin(candidate, leader)),
        would_win_if: smallest(&figures(candidate, decision), &mut trial),
        ..answer
    }
}

/// What decided against a candidate, and how.
fn cause(candidate: &Candidate, decision: &Decision) -> (&'static str, String) {
    let Some(leader) = leader(decision, candidate.probe) else { return ("score", String::new()) };
    let probed = decision.candidates.first().is_some_and(|first| first.probe) && !candidate.probe;
    let place = |candidate: &Candidate| place_and_grade(candidate.inputs.tier).0;
    if probed && leader.endpoint == candidate.endpoint {
        return ("probe", "a half-open endpoint is probed first; this one would have been the choice".to_owned());
    }
    if candidate.group != leader.group {
        return ("models_order", "models named before it still had an endpoint to serve".to_owned());
    }
    if candidate.panic {
        return ("panic", "no gate is open, and another opens sooner".to_owned());
    }
    if place(candidate) != place(leader) {
        return ("provider_order", "provider.order names another first".to_owned());
    }
    if candidate.inputs.tier != leader.inputs.tier {
        return (PREFERENCE_MISSED, missed(candidate, leader, decision));
    }
    if is_tie(leader.score, candidate.score) {
        let detail = "equal scores fall to the lower failure probability, then cost, then fewer in flight, then the id";
        return ("tie", detail.to_owned());
    }
    ("score", "another scored better".to_owned())
}

fn missed(candidate: &Candidate, leader: &Candidate, decision: &Decision) -> String {
    let (inputs, predicted) = (&candidate.inputs, &candidate.predicted);
    let latency = missed_latency(decision, inputs, predicted).map(|MissedPreference { at, expected, bound }| {
        let (at, expected, bound) = (at.as_str(), seconds(expected), seconds(bound));
        let margin = significant(decision.latency_margin, 3);
        let margin = if margin == "1" { String::new() } else { format!(" with a margin of {margin}") };
        format!("its {at} of the first token is {expected} where preferred_max_latency wants {bound}{margin}")
    });
    let rate = missed_rate(decision, inputs, predicted).map(|MissedPreference { at, expected, bound }| {
        let (expected, bound) = (significant(expected, 3), significant(bound, 3));
        format!("its {} is {expected} tok/s where preferred_min_throughput wants {bound}", at.as_str())
    });
    let missed: Vec<String> = latency.into_iter().chain(rate).collect();
    let others = if place_and_grade(leader.inputs.tier).1 == 0 { "others keep that" } else { "others come nearer" };
    format!("{}; {others}", missed.join(" and "))
}

pub(crate) fn margin(candidate: &Candidate, leader: &Candidate) -> Margin {
    let terms = candidate.terms.iter().zip(leader.terms.iter());
    let behind = terms.map(|(own, better)| (own.name, own.value - better.value));
    Margin {
        to: (leader.index, leader.endpoint),
        difference: candidate.score - leader.score,
        relative: candidate.score / leader.score - 1.0,
        unit: candidate.unit,
        most: behind.max_by(|(_, a), (_, b)| a.total_cmp(b)).filter(|(_, behind)| *behind > 0.0),
    }
}

/// The figures that could be otherwise, as they are.
pub(crate) fn figures(candidate: &Candidate, decision: &Decision) -> Vec<(Figure, f64)> {
    let predicted = &candidate.predicted;
    let mut figures = vec![
        (Figure::Price, candidate.inputs.cost),
        (Figure::FirstToken, predicted.first_token_p50),
        (Figure::TokensPerSecond, predicted.tokens_per_second),
        (Figure::FailureProbability, predicted.failure),
    ];
    if decision.objective.value == Objective::Balanced {
        let Weights { latency, cost } = decision.weights;
        figures.push((Figure::LatencyWeight, latency / (latency + cost)));
    }
    figures
}

/// The recorded contest again, with one figure changed and the yardsticks held.
struct Again<'a> {
    candidate: &'a Candidate,
    rivals: Vec<&'a Candidate>,
    decision: &'a Decision,
    policy: &'a RoutingPolicy,
    contest: Rescoring,
    /// The best score of the others.
    least: f64,
    /// How well whoever was better keeps the preferences.
    grade: u32,
}

impl<'a> Again<'a> {
    /// Against those that rank with `leader`.
    fn new(
        candidate: &'a Candidate,
        leader: &Candidate,
        decision: &'a Decision,
        policy: &'a RoutingPolicy,
    ) -> Again<'a> {
        let competes = |other: &&Candidate| {
            rank(other) == rank(leader) && other.probe == candidate.probe && other.endpoint != candidate.endpoint
        };
        let rivals: Vec<&Candidate> = recorded(decision).filter(competes).collect();
        let contest = Rescoring::of(decision, policy);
        let least = rivals.iter().map(|rival| rival.score).fold(f64::INFINITY, f64::min);
        let (_, grade) = place_and_grade(leader.inputs.tier);
        Again { candidate, rivals, decision, policy, contest, least, grade }
    }

    /// How well it keeps the preferences with another figure: never worse than it did.
    fn grade_with(&self, figure: Figure, value: f64) -> u32 {
        let Candidate { inputs, predicted, .. } = self.candidate;
        let predicted = match figure {
            Figure::FirstToken => Prediction { first_token_p50: value, ..*predicted },
            Figure::TokensPerSecond => Prediction { tokens_per_second: value, ..*predicted },
            Figure::Price | Figure::FailureProbability | Figure::LatencyWeight => *predicted,
        };
        grade_with(self.decision, inputs, &predicted).min(place_and_grade(inputs.tier).1)
    }

    fn score(&self, inputs: &ScoreInputs) -> f64 {
        let forecast = self.contest.forecast(self.candidate, inputs);
        self.contest.scoring.score(&forecast, inputs.cost)
    }
}

impl Trial for Again<'_> {
    fn wins(&mut self, figure: Figure, value: f64) -> bool {
        let (candidate, inputs) = (self.candidate, self.candidate.inputs);
        let predicted = &candidate.predicted;
        let (score, least) = match figure {
            Figure::Price => (self.score(&ScoreInputs { cost: value, ..inputs }), self.least),
            Figure::FirstToken => {
                let by = value / predicted.first_token_p50;
                let (intercept, prompt_slope) = (inputs.intercept + libm::log(by), inputs.prompt_slope * by);
                (self.score(&ScoreInputs { intercept, prompt_slope, ..inputs }), self.least)
            }
            Figure::TokensPerSecond => {
                let shift = libm::log(predicted.tokens_per_second / value);
                (self.score(&ScoreInputs { per_token: inputs.per_token + shift, ..inputs }), self.least)
            }
            Figure::FailureProbability => {
                let forecast = self.contest.forecast(candidate, &inputs);
                (self.contest.scoring.score_if(value, &forecast, inputs.cost), self.least)
            }
            Figure::LatencyWeight => {
                let weights = Weights { latency: value, cost: 1.0 - value };
                let contest = Rescoring::weighing(self.decision, self.policy, weights);
                let others = self.rivals.iter().map(|rival| contest.score(rival));
                (contest.score(candidate), others.fold(f64::INFINITY, f64::min))
            }
        };
        match self.grade_with(figure, value).cmp(&self.grade) {
            Ordering::Less => true,
            Ordering::Equal => score < least && !is_tie(score, least),
            Ordering::Greater => false,
        }
    }
}
