//! The first clause of `decision_reason`: what decided for the chosen endpoint, in words of the objective.
//!
//! Probes and panic plans ignore scores. Otherwise the clause names what ranks before the score where it mattered (the
//! order of models, `provider.order`, preferences, exploration, the prompt cache), then the score and the next best.

use pointsman_domain::{CacheSaving, Candidate, Decision, DecisionCode, Reopens, ScoreUnit};

use super::{
    formatting::{Names, counts_quality, dollars, percent, score_text, seconds, significant, unit_of_balance},
    preferences::preference_text,
    rescoring::{best_scored, drawn, recorded},
};
use crate::decide::{
    conversation_model::is_of_other_model, pending_tool_calls::loses_reasoning, precedence::position_and_grade,
};

/// Whether the clause already names the preferences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Explained {
    Preferences,
    Other,
}

/// The clause, without a full stop.
pub(crate) struct WhyChosen {
    pub text: String,
    pub explained: Explained,
}

pub(crate) fn why_chosen(decision: &Decision, names: Names<'_>, choice: &Candidate) -> WhyChosen {
    let other = |text| WhyChosen { text, explained: Explained::Other };
    let next = next_best(decision, choice);
    if choice.panic {
        return other(panic_text(decision, choice));
    }
    if choice.probe {
        return other(probe_text(names, next));
    }
    if decision.explored {
        return other(match drawn(decision) {
            Some(_) => drawn_text(decision, names, next),
            None => exploration_text(names, choice, next),
        });
    }
    let passed = passed_over(decision, choice);
    let by_order = passed.is_some_and(|passed| order_position(passed) > order_position(choice));
    let only = recorded(decision).count() + decision.omitted.len() == 1;
    let score = if only { "it is the only candidate".to_owned() } else { score_text_of(names, choice, next) };
    let reason = match passed {
        Some(_) if by_order && next.is_some() => {
            format!("provider.order lists its provider first, and among the endpoints there {score}")
        }
        Some(_) if by_order => "provider.order lists its provider first".to_owned(),
        Some(passed) if loses_reasoning(&passed.inputs) => {
            let with_score = next.map_or(String::new(), |_| format!(", and among the endpoints that can {score}"));
            format!("it can take back the reasoning before the tool calls that this turn answers{with_score}")
        }
        Some(passed) if is_of_other_model(&passed.inputs) => {
            let with_score = next.map_or(String::new(), |_| format!(", and among its endpoints {score}"));
            format!("the conversation stays with the model that served it last{with_score}")
        }
        Some(_) => preference_reason(decision, choice, next.map(|_| score)),
        None => cache_reason(decision, choice, score),
    };
    let better = passed.map_or(String::new(), |passed| passed_over_text(names, choice, passed));
    let text = format!("Chosen because {}{better}", with_model_order(decision, choice, reason));
    let by_preference = passed
        .is_some_and(|passed| !loses_reasoning(&passed.inputs) && !is_of_other_model(&passed.inputs))
        && !by_order;
    WhyChosen { text, explained: if by_preference { Explained::Preferences } else { Explained::Other } }
}

/// The best candidate by score among those that rank with the choice before any score.
pub(super) fn next_best<'a>(decision: &'a Decision, choice: &Candidate) -> Option<&'a Candidate> {
    let ranks_with = |other: &&Candidate| other.group == choice.group && other.inputs.tier == choice.inputs.tier;
    best_scored(recorded(decision).skip(1).filter(ranks_with))
}

fn panic_text(decision: &Decision, choice: &Candidate) -> String {
    let ends = match choice.inputs.reopens {
        Reopens::AfterProbe => "this one is being probed".to_owned(),
        Reopens::At(until) if until > decision.tick => {
            format!("the block of this one ends first (in {})", seconds((until - decision.tick).as_secs_f64()))
        }
        Reopens::At(_) | Reopens::Now => "the block of this one ends first".to_owned(),
    };
    format!("Chosen because every endpoint is blocked at the moment (circuit breaker or rate limit) and {ends}")
}

fn probe_text(names: Names<'_>, next: Option<&Candidate>) -> String {
    let otherwise = next.map_or(String::new(), |next| {
        format!("; without the probe the choice would be {}", names.short(next.index, next.endpoint))
    });
    format!(
        "Chosen to probe whether it has recovered: its circuit breaker is half-open, and one request tests it{otherwise}"
    )
}

/// A choice of which the score does not matter.
fn drawn_text(decision: &Decision, names: Names<'_>, next: Option<&Candidate>) -> String {
    let otherwise = next.map_or(String::new(), |next| {
        format!("; without the draw the choice would be {}", names.short(next.index, next.endpoint))
    });
    format!(
        "Chosen to learn from: it was drawn at random from {} endpoints that are safe to try, as {} of requests are \
         (routing.explore.share){otherwise}",
        decision.safe_set.len(),
        percent(decision.exploration_share)
    )
}

/// A score of an explored decision contains the random variation.
fn exploration_text(names: Names<'_>, choice: &Candidate, next: Option<&Candidate>) -> String {
    let next = next.map_or(String::new(), |next| format!(", next best {}", next_text(names, choice, next)));
    format!(
        "Chosen to explore: a random variation of uncertain estimates ranks it first: {}{next}; without the variation \
         another endpoint would be chosen; exploring finds out whether a rarely used endpoint has become better",
        score_with_unit(choice)
    )
}

/// `reason`, after the order of the requested models where that decided.
fn with_model_order(decision: &Decision, choice: &Candidate, reason: String) -> String {
    let is_better_and_later = |other: &Candidate| other.group > choice.group && other.score < choice.score;
    if choice.group > 0 {
        format!("no model listed before it in the request has an available endpoint, and {reason}")
    } else if recorded(decision).any(is_better_and_later) {
        format!("its model is listed first in the request, and among the endpoints of that model {reason}")
    } else {
        reason
    }
}

/// The choice ranks before a candidate with a better score, because of the preferences.
fn preference_reason(decision: &Decision, choice: &Candidate, score: Option<String>) -> String {
    let preferences = preference_text(decision);
    let (_, grade) = position_and_grade(choice.inputs.tier);
    match (grade, score) {
        (0, Some(score)) => format!("among the endpoints expected to keep {preferences}, {score}"),
        (0, None) => format!("it is the only endpoint expected to keep {preferences}"),
        (_, _) => format!("no endpoint is expected to keep {preferences} and it comes nearest"),
    }
}

/// `score`, after the prompt cache where that decided.
fn cache_reason(decision: &Decision, choice: &Candidate, score: String) -> String {
    match choice.saving.filter(|_| decision.code == DecisionCode::SessionSticky) {
        Some(saving) => {
            let saving = saving_text(&saving);
            format!("its cache holds the prompt of this conversation, which saves {saving}; with that {score}")
        }
        None => score,
    }
}

/// The candidate with the best score among those that scored better and rank lower for another reason.
pub(super) fn passed_over<'a>(decision: &'a Decision, choice: &Candidate) -> Option<&'a Candidate> {
    let is_passed_over = |other: &&Candidate| {
        other.group == choice.group && other.inputs.tier > choice.inputs.tier && other.score < choice.score
    };
    recorded(decision).skip(1).filter(is_passed_over).min_by(|a, b| a.score.total_cmp(&b.score))
}

/// `; bolt/b on bolt has a better score ($0.0011) but is expected to miss that`
fn passed_over_text(names: Names<'_>, choice: &Candidate, passed: &Candidate) -> String {
    let reason = match position_and_grade(choice.inputs.tier) {
        (position, _) if order_position(passed) > position => "comes later in that order",
        _ if loses_reasoning(&passed.inputs) => "cannot take it back",
        _ if is_of_other_model(&passed.inputs) => "is of another model",
        (_, 0) => "is expected to miss that",
        _ => "is expected to miss that by more",
    };
    let (name, score) = (names.short(passed.index, passed.endpoint), score_with_unit(passed));
    format!("; {name} has a better score ({score}) but {reason}")
}

/// The position in `provider.order`.
pub(super) fn order_position(candidate: &Candidate) -> u32 {
    position_and_grade(candidate.inputs.tier).0
}

/// `1200 tokens, 0.12 s and $0.00108`
pub(crate) fn saving_text(saving: &CacheSaving) -> String {
    let usd = if saving.usd > 0.0 { format!(" and {}", dollars(saving.usd)) } else { String::new() };
    format!("{}{usd} ({} tokens)", seconds(saving.seconds), saving.cached_tokens)
}

/// What the score means for the objective, with the next best: `it is expected to finish first: 1.2 s, next best Flaky
/// 1.3 s (+12 %)`.
fn score_text_of(names: Names<'_>, choice: &Candidate, next: Option<&Candidate>) -> String {
    let claim = match choice.unit {
        ScoreUnit::Seconds => "it is expected to finish first",
        ScoreUnit::Usd if counts_quality(choice) => {
            "it is expected to cost the least until an answer is accepted, with failures and waiting priced in"
        }
        ScoreUnit::Usd => "it is expected to cost the least, with failures and waiting priced in",
        ScoreUnit::Probability => "it is the least likely to fail or to be slow",
        ScoreUnit::None if counts_quality(choice) => "it has the best balance of time, cost and quality",
        ScoreUnit::None => "it has the best balance of time and cost",
    };
    let next = next.map_or(String::new(), |next| format!(", next best {}", next_text(names, choice, next)));
    format!("{claim}: {}{next}", score_with_unit(choice))
}

/// `1.2 s`, `$0.001`, `9.8 %`, or for `balanced` `0.79 times the median time and cost`.
fn score_with_unit(candidate: &Candidate) -> String {
    let score = score_text(candidate.score, candidate.unit);
    match candidate.unit {
        ScoreUnit::None => format!("{score} {}", unit_of_balance(counts_quality(candidate))),
        _ => score,
    }
}

/// `Flaky 1.3 s (+12 %)`
fn next_text(names: Names<'_>, choice: &Candidate, next: &Candidate) -> String {
    let name = names.short(next.index, next.endpoint);
    let text = format!("{name} {}", score_text(next.score, next.unit));
    let margin = 100.0 * (next.score / choice.score - 1.0);
    match next.unit {
        ScoreUnit::Probability => {
            let points = significant(100.0 * (next.score - choice.score).max(0.0), 2);
            format!("{text} ({points} percentage points more)")
        }
        ScoreUnit::None => format!("{text} times ({:+.0} %)", margin.max(0.0)),
        _ if margin.is_finite() => format!("{text} ({:+.0} %)", margin.max(0.0)),
        _ => text,
    }
}
