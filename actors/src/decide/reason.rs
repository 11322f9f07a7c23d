//! A decision told as a sentence.
//!
//! Made from the record alone, when somebody asks, so that it can never say anything the decision did not use.

use std::fmt::Write;

use crate::domain::{Candidate, Catalog, Decision, DecisionCode, Excluded, ExclusionReason, Objective, ScoreUnit};

/// Skipped endpoints named one by one; the rest is counted.
const NAMED: usize = 5;

/// Objective and choice with its figures, its score and the next best one, who was skipped and why, whether
/// chance decided, and how many attempts it took. A second sentence follows when it took more than one.
#[must_use]
pub fn reason_sentence(decision: &Decision, catalog: &Catalog, attempts: usize) -> String {
    let mut text = String::with_capacity(256);
    let Some(choice) = decision.candidates.first() else {
        return format!("{}: nothing may serve the request.", decision.objective.value);
    };
    // Writing to a `String` cannot fail.
    let _ = tell_choice(&mut text, decision, catalog, choice)
        .and_then(|()| tell_score(&mut text, decision, catalog, choice))
        .and_then(|()| tell_saving(&mut text, decision, choice))
        .and_then(|()| tell_skipped(&mut text, decision, catalog))
        .and_then(|()| tell_end(&mut text, decision, attempts));
    text
}

fn tell_choice(text: &mut String, decision: &Decision, catalog: &Catalog, choice: &Candidate) -> std::fmt::Result {
    let objective = decision.objective.value;
    write!(text, "{objective}: {} on {}, ", model(catalog, choice.index), provider(catalog, choice.index))?;
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
fn tell_score(text: &mut String, decision: &Decision, catalog: &Catalog, choice: &Candidate) -> std::fmt::Result {
    if choice.panic {
        return text.write_str("; no gate is open, the one that opens soonest is tried first");
    }
    let ranks_with = |other: &&Candidate| other.target == choice.target && other.inputs.tier == choice.inputs.tier;
    let rivals = decision.candidates.iter().skip(1).filter(ranks_with);
    let next = rivals.min_by(|a, b| a.score.total_cmp(&b.score));
    if choice.probe {
        text.push_str("; probes whether it recovered");
        return next.map_or(Ok(()), |next| write!(text, ", else {}", name(decision, catalog, next.index)));
    }
    write!(text, "; score {}", figure(choice.score, choice.unit))?;
    if choice.unit == ScoreUnit::None {
        let [typical_time, typical_cost, _] = decision.yardsticks;
        write!(text, " (medians {} and {})", seconds(typical_time), dollars(typical_cost))?;
    }
    let Some(next) = next else { return Ok(()) };
    write!(text, ", next best {} {}", name(decision, catalog, next.index), figure(next.score, next.unit))?;
    let margin = 100.0 * (next.score / choice.score - 1.0);
    if margin.is_finite() { write!(text, " ({:+.0} %)", margin.max(0.0)) } else { Ok(()) }
}

/// `kept for its prompt cache: 1200 tokens, 0.12 s and $0.00108 saved`
fn tell_saving(text: &mut String, decision: &Decision, choice: &Candidate) -> std::fmt::Result {
    let Some(saving) = choice.saving else { return Ok(()) };
    let why =
        if decision.code == DecisionCode::SessionSticky { "kept for its prompt cache" } else { "its prompt cache" };
    write!(text, "; {why}: {} tokens, {}", saving.cached_tokens, seconds(saving.seconds))?;
    if saving.usd > 0.0 { write!(text, " and {} saved", dollars(saving.usd)) } else { text.write_str(" saved") }
}

fn tell_skipped(text: &mut String, decision: &Decision, catalog: &Catalog) -> std::fmt::Result {
    let candidates = decision.candidates.len();
    write!(text, "; {candidates} candidate{}", if candidates == 1 { "" } else { "s" })?;
    let passing: Vec<&Excluded> = decision.excluded.iter().filter(|excluded| excluded.reason.is_passing()).collect();
    for (position, excluded) in passing.iter().take(NAMED).enumerate() {
        let before = if position == 0 { ", skipped: " } else { ", " };
        write!(text, "{before}{} ({})", name(decision, catalog, excluded.index), excluded.detail)?;
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

fn tell_end(text: &mut String, decision: &Decision, attempts: usize) -> std::fmt::Result {
    let explored = if decision.explored { "yes" } else { "no" };
    write!(text, "; explored: {explored}")?;
    match attempts {
        // A preview, or a request still on its way.
        0 => text.write_str("."),
        1 => text.write_str("; attempts: 1."),
        _ => write!(text, "; attempts: {attempts}. The choice failed before its first content."),
    }
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

/// The provider alone where the model is known, model and provider where several are about.
fn name(decision: &Decision, catalog: &Catalog, index: u32) -> String {
    let several = decision.router.is_some() || decision.candidates.iter().any(|candidate| candidate.target > 0);
    let (model, provider) = (model(catalog, index), provider(catalog, index));
    if several { format!("{model} on {provider}") } else { provider.to_owned() }
}

fn model(catalog: &Catalog, index: u32) -> &str {
    catalog.endpoint(index).and_then(|endpoint| catalog.model_of(endpoint)).map_or("?", |model| model.id.as_str())
}

fn provider(catalog: &Catalog, index: u32) -> &str {
    catalog.endpoint(index).and_then(|endpoint| catalog.provider_of(endpoint)).map_or("?", |provider| &provider.name)
}

fn figure(score: f64, unit: ScoreUnit) -> String {
    match unit {
        ScoreUnit::Seconds => seconds(score),
        ScoreUnit::Usd => dollars(score),
        ScoreUnit::Probability => percent(score),
        ScoreUnit::None => significant(score, 3),
    }
}

fn seconds(value: f64) -> String {
    format!("{} s", significant(value, 2))
}

fn dollars(value: f64) -> String {
    format!("${}", significant(value, 3))
}

fn percent(probability: f64) -> String {
    format!("{} %", significant(100.0 * probability, if probability >= 0.1 { 3 } else { 2 }))
}

/// Plain decimal notation with so many significant digits, no trailing zeros after the point.
fn significant(value: f64, digits: i32) -> String {
    if !value.is_finite() || value == 0.0 {
        return if value == 0.0 { "0".to_owned() } else { "?".to_owned() };
    }
    let magnitude = libm::floor(libm::log10(value.abs())) as i32;
    let decimals = usize::try_from(digits - 1 - magnitude).unwrap_or(0).min(15);
    let text = format!("{value:.decimals$}");
    if decimals == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_plain() {
        let cases = [
            (0.412, 2, "0.41"),
            (0.001_12, 3, "0.00112"),
            (0.000_004_8, 3, "0.0000048"),
            (380.4, 3, "380"),
            (12_345.0, 3, "12345"),
            (2.0, 2, "2"),
            (0.0, 2, "0"),
        ];
        for (value, digits, text) in cases {
            assert_eq!(significant(value, digits), text);
        }
    }
}
