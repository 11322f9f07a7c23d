//! The answer for a candidate that another one beat: the criterion, the margin and the changes that would win.

use pointsman_domain::{Candidate, Decision, Objective, RoutingPolicy, Weights};

use super::{Margin, PREFERENCE_MISSED, Verdict, WhyNot, recorded_trial::RecordedTrial};
use crate::decide::{
    conversation_model::is_of_other_model,
    pending_tool_calls::loses_reasoning,
    plan::is_tie,
    precedence::position_and_grade,
    preferences::{MissedPreference, missed_latency, missed_rate},
};

use crate::explain::{
    counterfactual::{Figure, smallest},
    formatting::{counts_quality, seconds, significant},
    rescoring::{counted_quality, leader, recorded},
};

const PROBED_FIRST: &str = "an endpoint with a half-open circuit breaker is probed first; without the probe this one \
                            would be the choice";
const STATE_LOST: &str = "the request brings results of tool calls, and this endpoint cannot take back the reasoning \
                          before them";
const OTHER_MODEL: &str = "the conversation stays with the model that served it last, whatever ratings said since";
const TIE_BREAK: &str = "equal scores are ordered by failure probability, then cost, then requests in flight, then \
                         endpoint id, lower first";

/// The answer for a candidate that is not the choice.
pub(super) fn lost(place: usize, candidate: &Candidate, decision: &Decision, policy: &RoutingPolicy) -> WhyNot {
    let (reason, detail) = cause(candidate, decision);
    let about = (candidate.index, candidate.endpoint);
    let answer = WhyNot { rank: Some(place + 1), ..WhyNot::about(Verdict::Lost, about, reason, detail) };
    let Some(leader) =
        leader(decision, candidate.probe).filter(|_| matches!(reason, "score" | "tie" | PREFERENCE_MISSED))
    else {
        return answer;
    };
    let mut trial = RecordedTrial::new(candidate, leader, decision, policy);
    WhyNot {
        margin: (reason != PREFERENCE_MISSED).then(|| margin(candidate, leader)),
        would_win_if: smallest(&figures(candidate, decision), &mut trial),
        ..answer
    }
}

/// The criterion that put a candidate behind the leader, and its detail.
fn cause(candidate: &Candidate, decision: &Decision) -> (&'static str, String) {
    let Some(leader) = leader(decision, candidate.probe) else { return ("score", String::new()) };
    let probed = decision.candidates.first().is_some_and(|first| first.probe) && !candidate.probe;
    let order_position = |candidate: &Candidate| position_and_grade(candidate.inputs.tier).0;
    if probed && leader.endpoint == candidate.endpoint {
        return ("probe", PROBED_FIRST.to_owned());
    }
    if candidate.group != leader.group {
        return ("models_order", "a model listed before it in the request has an available endpoint".to_owned());
    }
    if candidate.panic {
        return (
            "panic",
            "every endpoint is blocked at the moment, and the block of another one ends first".to_owned(),
        );
    }
    if order_position(candidate) != order_position(leader) {
        return ("provider_order", "provider.order lists another provider before it".to_owned());
    }
    if candidate.inputs.tier != leader.inputs.tier && loses_reasoning(&candidate.inputs) {
        return ("reasoning_state", STATE_LOST.to_owned());
    }
    if candidate.inputs.tier != leader.inputs.tier && is_of_other_model(&candidate.inputs) {
        return ("conversation_model", OTHER_MODEL.to_owned());
    }
    if candidate.inputs.tier != leader.inputs.tier {
        return (PREFERENCE_MISSED, missed(candidate, leader, decision));
    }
    if is_tie(leader.score, candidate.score) {
        return ("tie", TIE_BREAK.to_owned());
    }
    ("score", "another scored better".to_owned())
}

/// The bounds that the candidate is expected to miss.
fn missed(candidate: &Candidate, leader: &Candidate, decision: &Decision) -> String {
    let (inputs, predicted) = (&candidate.inputs, &candidate.predicted);
    let latency = missed_latency(decision, predicted).map(|MissedPreference { at, expected, bound }| {
        let (at, expected, bound) = (at.as_str(), seconds(expected), seconds(bound));
        let margin = significant(decision.latency_margin, 3);
        let margin = if margin == "1" { String::new() } else { format!(" with a margin of {margin}") };
        format!("its expected {at} time to first token is {expected}, preferred_max_latency allows {bound}{margin}")
    });
    let rate = missed_rate(decision, inputs, predicted).map(|MissedPreference { at, expected, bound }| {
        let (expected, bound) = (significant(expected, 3), significant(bound, 3));
        format!(
            "its expected {} throughput is {expected} tok/s, preferred_min_throughput asks for {bound}",
            at.as_str()
        )
    });
    let missed: Vec<String> = latency.into_iter().chain(rate).collect();
    let others = if position_and_grade(leader.inputs.tier).1 == 0 {
        "the choice is expected to keep that"
    } else {
        "the choice comes nearer"
    };
    format!("{}; {others}", missed.join(" and "))
}

fn margin(candidate: &Candidate, leader: &Candidate) -> Margin {
    let terms = candidate.terms.iter().zip(leader.terms.iter());
    let differences = terms.map(|(own, better)| (own.name, own.value - better.value));
    Margin {
        to: (leader.index, leader.endpoint),
        difference: candidate.score - leader.score,
        relative: candidate.score / leader.score - 1.0,
        unit: candidate.unit,
        counts_quality: counts_quality(candidate),
        most: differences.max_by(|(_, a), (_, b)| a.total_cmp(b)).filter(|(_, behind)| *behind > 0.0),
    }
}

/// The present values of the figures that a counterfactual can change.
pub(crate) fn figures(candidate: &Candidate, decision: &Decision) -> Vec<(Figure, f64)> {
    let predicted = &candidate.predicted;
    let mut figures = vec![
        (Figure::Price, candidate.inputs.cost),
        (Figure::FirstToken, predicted.first_token_p50),
        (Figure::TokensPerSecond, predicted.tokens_per_second),
        (Figure::FailureProbability, predicted.failure),
    ];
    if decision.objective.value == Objective::Balanced {
        let Weights { latency, cost, quality } = decision.weights;
        if latency + cost > 0.0 {
            figures.push((Figure::LatencyWeight, latency / (latency + cost)));
        }
        if recorded(decision).any(|candidate| candidate.inputs.quality.is_some()) {
            figures.push((Figure::QualityWeight, quality / decision.weights.sum()));
        }
    }
    if let Some(counted) = counted_quality(candidate, decision) {
        figures.push((Figure::Quality, counted));
    }
    figures
}
