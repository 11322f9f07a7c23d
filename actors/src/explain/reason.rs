//! A decision told as a sentence.
//!
//! Made from the record alone, when somebody asks, so that it can never say anything the decision did not use.

use std::fmt::Write;

use super::{
    attempt_summary::AttemptSummary,
    figures::{Names, dollars, figure, percent, seconds, significant},
    rescoring::{best_scored, recorded},
};
use crate::decide::preferences::{grade_with, place_and_grade};
use crate::domain::{
    AttemptRecord, Candidate, Catalog, Decision, DecisionCode, ExcludedEndpoint, ExclusionReason, Objective,
    Preference, ScoreUnit,
};

/// Skipped endpoints named one by one; the rest is counted.
const NAMED: usize = 5;

/// Objective and choice with its figures, its score and the next best one, who was skipped and why, whether
/// chance decided, and how many attempts it took. A second sentence says how these went, unless the choice alone was
/// called and answered. Before a request has ended, and for a preview, there are none.
#[must_use]
pub fn reason_sentence(decision: &Decision, catalog: &Catalog, attempts: &[AttemptRecord]) -> String {
    let mut text = String::with_capacity(256);
    let Some(choice) = decision.candidates.first() else {
        return format!("{}: nothing may serve the request.", decision.objective.value);
    };
    let names = Names::new(decision, catalog);
    // Writing to a `String` cannot fail.
    let _ = tell_choice(&mut text, decision, names, choice)
        .and_then(|()| tell_score(&mut text, decision, names, choice))
        .and_then(|()| tell_wishes(&mut text, decision, names, choice))
        .and_then(|()| tell_saving(&mut text, decision, choice))
        .and_then(|()| tell_skipped(&mut text, decision, names))
        .and_then(|()| tell_end(&mut text, decision, names, attempts));
    text
}

fn tell_choice(text: &mut String, decision: &Decision, names: Names<'_>, choice: &Candidate) -> std::fmt::Result {
    let objective = decision.objective.value;
    write!(text, "{objective}: {}, ", names.full(choice.index, choice.endpoint))?;
    let (time, failure, cost) = (time(choice), percent(choice.predicted.failure), dollars(choice.predicted.cost));
    match objective {
        Objective::Fastest => write!(text, "{time}, failure {failure}, {cost}"),
        Objective::Cheapest => write!(text, "{cost}, failure {failure}, {time}"),
        Objective::Reliable => write!(text, "failure {failure}, {time}, {cost}"),
        Objective::Balanced => write!(text, "{time}, {cost}, failure {failure}"),
    }
}

/// `predicted 0.41 s (first token 0.12 s + 110 tokens at 380 tok/s)`
fn time(choice: &Candidate) -> String {
    let predicted = &choice.predicted;
    format!(
        "predicted {} (first token {} + {:.0} tokens at {} tok/s)",
        seconds(predicted.total_p50),
        seconds(predicted.first_token_p50),
        choice.inputs.output_tokens,
        significant(predicted.tokens_per_second, 3),
    )
}

/// What decided: the score and the next best one among those that rank with the choice. A probe goes first
/// whatever it scores, and past shut gates scores decide nothing.
fn tell_score(text: &mut String, decision: &Decision, names: Names<'_>, choice: &Candidate) -> std::fmt::Result {
    if choice.panic {
        return text.write_str("; no gate is open, the one that opens soonest is tried first");
    }
    let ranks_with = |other: &&Candidate| other.group == choice.group && other.inputs.tier == choice.inputs.tier;
    let rivals = recorded(decision).skip(1).filter(ranks_with);
    let next = best_scored(rivals);
    if choice.probe {
        text.push_str("; probes whether it recovered");
        return next.map_or(Ok(()), |next| write!(text, ", else {}", names.short(next.index, next.endpoint)));
    }
    write!(text, "; score {}", figure(choice.score, choice.unit))?;
    if choice.unit == ScoreUnit::None {
        let [typical_time, typical_cost, ..] = decision.baselines;
        write!(text, " (medians {} and {})", seconds(typical_time), dollars(typical_cost))?;
    }
    let Some(next) = next else { return Ok(()) };
    write!(text, ", next best {} {}", names.short(next.index, next.endpoint), figure(next.score, next.unit))?;
    let margin = 100.0 * (next.score / choice.score - 1.0);
    if margin.is_finite() { write!(text, " ({:+.0} %)", margin.max(0.0)) } else { Ok(()) }
}

/// `keeps preferred_max_latency (p95 0.8 s, margin 1.2), before delta $0.00026`: what ranked before the score, and whom
/// it was that scored better and came after all the same.
fn tell_wishes(text: &mut String, decision: &Decision, names: Names<'_>, choice: &Candidate) -> std::fmt::Result {
    if choice.panic || choice.probe {
        return Ok(());
    }
    let (place, grade) = place_and_grade(choice.inputs.tier);
    let wishes = wishes(decision);
    if !wishes.is_empty() {
        let verb = match (grade, grade_with(decision, &choice.inputs, &choice.predicted)) {
            (0, 0) => "keeps",
            (0, _) => "hardly known, may keep",
            _ => "comes nearest to",
        };
        write!(text, "; {verb} {}", wishes.join(" and "))?;
    }
    let better = |other: &&Candidate| {
        other.group == choice.group && other.inputs.tier > choice.inputs.tier && other.score < choice.score
    };
    let Some(passed) = recorded(decision).skip(1).filter(better).min_by(|a, b| a.score.total_cmp(&b.score)) else {
        return Ok(());
    };
    let by_order = place_and_grade(passed.inputs.tier).0 > place;
    text.push_str(if by_order { "; provider.order puts it before " } else { ", before " });
    write!(text, "{} {}", names.short(passed.index, passed.endpoint), figure(passed.score, passed.unit))
}

/// What was preferred: `preferred_max_latency (p95 0.8 s, margin 1.2)`.
fn wishes(decision: &Decision) -> Vec<String> {
    let bounds = |preference: Preference, write: fn(f64) -> String| -> String {
        let bounds: Vec<String> =
            preference.bounds().map(|(at, bound)| format!("{} {}", at.as_str(), write(bound))).collect();
        bounds.join(", ")
    };
    let latency = decision.parameters.preferred_max_latency.map(|latency| {
        let margin = significant(decision.latency_margin, 3);
        let margin = if margin == "1" { String::new() } else { format!(", margin {margin}") };
        format!("preferred_max_latency ({}{margin})", bounds(latency.value, seconds))
    });
    let rate = decision.parameters.preferred_min_throughput.map(|rate| {
        let rate = bounds(rate.value, |bound| format!("{} tok/s", significant(bound, 3)));
        format!("preferred_min_throughput ({rate})")
    });
    latency.into_iter().chain(rate).collect()
}

/// `kept for its prompt cache: 1200 tokens, 0.12 s and $0.00108 saved`
fn tell_saving(text: &mut String, decision: &Decision, choice: &Candidate) -> std::fmt::Result {
    let Some(saving) = choice.saving else { return Ok(()) };
    let why =
        if decision.code == DecisionCode::SessionSticky { "kept for its prompt cache" } else { "its prompt cache" };
    write!(text, "; {why}: {} tokens, {}", saving.cached_tokens, seconds(saving.seconds))?;
    if saving.usd > 0.0 { write!(text, " and {} saved", dollars(saving.usd)) } else { text.write_str(" saved") }
}

fn tell_skipped(text: &mut String, decision: &Decision, names: Names<'_>) -> std::fmt::Result {
    let candidates = decision.candidates.len() + decision.omitted.len();
    write!(text, "; {candidates} candidate{}", if candidates == 1 { "" } else { "s" })?;
    let passing: Vec<&ExcludedEndpoint> =
        decision.excluded.iter().filter(|excluded| excluded.reason.is_passing()).collect();
    for (position, excluded) in passing.iter().take(NAMED).enumerate() {
        let before = if position == 0 { ", skipped: " } else { ", " };
        write!(text, "{before}{} ({})", names.short(excluded.index, excluded.endpoint), excluded.detail)?;
    }
    if passing.len() > NAMED {
        write!(text, " and {} more", passing.len() - NAMED)?;
    }
    let reasons =
        counted(decision.excluded.iter().map(|excluded| excluded.reason).filter(|reason| !reason.is_passing()));
    for (position, (reason, count)) in reasons.iter().enumerate() {
        write!(text, "{}{}×{count}", if position == 0 { "; excluded: " } else { ", " }, reason.as_str())?;
    }
    Ok(())
}

fn tell_end(text: &mut String, decision: &Decision, names: Names<'_>, attempts: &[AttemptRecord]) -> std::fmt::Result {
    let explored = if decision.explored { "yes" } else { "no" };
    write!(text, "; explored: {explored}")?;
    let choice = decision.candidates.first();
    let Some(course) =
        choice.and_then(|choice| AttemptSummary::of(attempts, choice.index, |attempt| names.tried(attempt)))
    else {
        return text.write_str(".");
    };
    write!(text, "; attempts: {}.", attempts.len())?;
    course.sentence().map_or(Ok(()), |sentence| write!(text, " {sentence}"))
}

/// The most frequent first.
fn counted(reasons: impl Iterator<Item = ExclusionReason>) -> Vec<(ExclusionReason, usize)> {
    let mut counts: Vec<(ExclusionReason, usize)> = Vec::new();
    for reason in reasons {
        match counts.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => counts.push((reason, 1)),
        }
    }
    counts.sort_by_key(|(reason, count)| (std::cmp::Reverse(*count), *reason));
    counts
}
