//! `decision_reason`: the explanation of one decision for a person.
//!
//! Three parts: why the first candidate was chosen (`why_chosen`), the figures and the skipped endpoints, and how the
//! attempts went (`attempt_summary`). The text uses the record of the decision only, and is built when it is read.

use std::fmt::{Result, Write};

use pointsman_domain::{
    AttemptRecord, Candidate, Catalog, Decision, DecisionCode, ExcludedEndpoint, ExclusionReason, Objective, Quality,
    QualityBaseline, ScoreUnit, SplitPart, StickyBy, Waited,
};

use super::{
    attempt_summary::AttemptSummary,
    formatting::{Names, dollars, percent, seconds, significant},
    preferences::preference_text,
    why_chosen::{Explained, saving_text, why_chosen},
};
use crate::decide::{
    objective_profile::{ObjectiveProfile, PredictedFigure},
    precedence::position_and_grade,
    preferences::grade_with,
};

/// Difference from which on two qualities are not said to be equal.
const EQUAL: f64 = 5e-4;
/// Skipped endpoints listed by name; the text counts the others.
const MAX_NAMED: usize = 5;

/// `<objective>: <choice>. Chosen because <reason>. <Figures>; <candidates>. <Attempts>.`
///
/// The part on the attempts is left out while `attempts` is empty, as in a preview.
pub fn reason_sentence(decision: &Decision, catalog: &Catalog, attempts: &[AttemptRecord]) -> String {
    let objective = decision.objective.value;
    let names = Names::new(decision, catalog);
    let Some(choice) = decision.candidates.first() else {
        let mut text = format!("{objective}: no endpoint could take the request, so none was called");
        // Writing to a `String` cannot fail.
        let _ = write_excluded(&mut text, decision, names);
        return text;
    };
    let why = why_chosen(decision, names, choice);
    let mut text = String::with_capacity(512);
    // Writing to a `String` cannot fail.
    let _ = write!(text, "{objective}: {}. {}. ", names.full(choice.index, choice.endpoint), why.text)
        .and_then(|()| write_prediction(&mut text, objective, choice, is_priced(choice, catalog)))
        .and_then(|()| write_quality(&mut text, decision, choice, catalog))
        .and_then(|()| write_baselines(&mut text, decision, choice))
        .and_then(|()| write_preferences(&mut text, decision, choice, why.explained))
        .and_then(|()| write_saving(&mut text, decision, choice))
        .and_then(|()| write_excluded(&mut text, decision, names))
        .and_then(|()| write_attempts(&mut text, names, choice, attempts));
    text
}

/// ` It had waited 0.31 s for an endpoint to take requests again (rate limited).`
pub fn waited_sentence(waited: &Waited) -> String {
    let why = waited.reason.as_str().replace('_', " ");
    format!(" It had waited {} for an endpoint to take requests again ({why}).", seconds(waited.ms as f64 / 1e3))
}

/// ` It fell to the canary of service/chat, which gets 5 % of the requests, kept together by session.` `None` where every request
/// of the alias falls to the same part.
pub fn split_sentence(decision: &Decision) -> Option<String> {
    let (taken, alias) = (decision.split.as_deref()?, decision.router.as_deref()?);
    let part = taken.part.name();
    if let SplitPart::Rule(_) = taken.part {
        return Some(format!(" The tags of the request led it here, by {part} of {alias}."));
    }
    let share = percent(taken.probability);
    let kept = match taken.sticky {
        StickyBy::Request => "drawn for this request alone".to_owned(),
        sticky => format!("kept together by {}", sticky.as_str()),
    };
    let of = if taken.part == SplitPart::Own { "rest".to_owned() } else { part };
    (taken.probability < 1.0)
        .then(|| format!(" It fell to the {of} of {alias}, which gets {share} of the requests, {kept}."))
}

/// `Predicted time 1.2 s (first token 0.13 s + 256 tokens at 241 tok/s), failure probability 0.1 %, cost $0.0008`, with
/// the figure first that the objective is about.
fn write_prediction(text: &mut String, objective: Objective, choice: &Candidate, is_priced: bool) -> Result {
    let predicted = &choice.predicted;
    let time = format!(
        "time {} (first token {} + {:.0} tokens at {} tok/s)",
        seconds(predicted.total_p50),
        seconds(predicted.first_token_p50),
        choice.inputs.output_tokens,
        significant(predicted.tokens_per_second, 3),
    );
    let failure = format!("failure probability {}", percent(predicted.failure));
    let cost = match is_priced {
        true => format!("cost {}", dollars(predicted.cost)),
        false => format!("cost unknown (ranked as {})", dollars(predicted.cost)),
    };
    let [first, second, third] = ObjectiveProfile::of(objective).figures.map(|figure| match figure {
        PredictedFigure::Time => &time,
        PredictedFigure::Cost => &cost,
        PredictedFigure::Failure => &failure,
    });
    write!(text, "Predicted {first}, {second}, {third}")
}

/// Whether the price of the choice is known, as far as the catalog tells.
fn is_priced(choice: &Candidate, catalog: &Catalog) -> bool {
    catalog.find(choice.index, choice.endpoint).is_none_or(|endpoint| endpoint.pricing.is_some())
}

/// What the score of `balanced` is a multiple of.
fn write_baselines(text: &mut String, decision: &Decision, choice: &Candidate) -> Result {
    if choice.unit != ScoreUnit::None || choice.probe || choice.panic {
        return Ok(());
    }
    let [typical_time, typical_cost, ..] = decision.baselines;
    let weights = decision.weights;
    let share = |weight: f64| percent(weight / weights.sum());
    write!(
        text,
        "; score: {} time ÷ median {} + {} cost ÷ median {}, failures included",
        share(weights.latency),
        seconds(typical_time),
        share(weights.cost),
        dollars(typical_cost)
    )?;
    match decision.quality {
        Some(QualityBaseline { median_loss, per_dollar, .. }) => {
            let loss = significant(median_loss, 2);
            write!(text, " + {} (1 − quality) ÷ median {loss}", share(weights.quality))?;
            if per_dollar > 0.0 {
                let asked = significant(per_dollar / 1e3, 2);
                write!(text, "; the spend pace asks {asked} of quality for each $1 more per 1,000 calls")?;
            }
            Ok(())
        }
        None => Ok(()),
    }
}

/// `quality for code 0.71 (own-eval, 2026-11-02, n 225; 38 ratings since: 0.74 ± 0.12)`, where quality counted or a least one was
/// asked for.
fn write_quality(text: &mut String, decision: &Decision, choice: &Candidate, catalog: &Catalog) -> Result {
    let asked = decision.parameters.min_quality.is_some();
    let Some(class) = decision.task_class.filter(|_| asked || decision.quality.is_some()) else { return Ok(()) };
    let task = class.task.as_str();
    let endpoint = catalog.find(choice.index, choice.endpoint);
    let score = endpoint.and_then(|endpoint| catalog.quality_score(endpoint, class.task));
    let Some(quality) = choice.inputs.quality else {
        write!(text, "; quality for {task} unknown")?;
        return match decision.quality {
            Some(baseline) => write!(text, ", counted as the lowest known, {}", significant(baseline.lowest, 2)),
            None => write!(text, ", let in by quality_unknown = \"allow\""),
        };
    };
    let mean = significant(quality.mean, 2);
    let spread = significant((quality.mean - quality.tenth).max(0.0), 2);
    match (score, quality.ratings > 0.0) {
        (Some(score), true) => write!(
            text,
            "; quality for {task} {} ({score}; {:.0} ratings since: {mean} ± {spread})",
            significant(score.score, 2),
            quality.ratings
        ),
        (Some(score), false) => write!(text, "; quality for {task} {mean} ({score})"),
        (None, _) => write!(text, "; quality for {task} {mean} ± {spread} ({:.0} ratings)", quality.ratings),
    }?;
    write!(text, ", class {}", class.source.from_text())?;
    let is_as_good = |of: Quality| of.ratings > 0.0 && (of.mean - quality.mean).abs() < EQUAL;
    let others = decision.candidates.iter().filter(|other| other.endpoint != choice.endpoint);
    let rated = others.filter(|_| quality.ratings > 0.0);
    match rated.filter(|other| other.inputs.quality.is_some_and(is_as_good)).count() {
        0 => Ok(()),
        1 => write!(text, "; ratings show no difference to 1 other candidate"),
        others => write!(text, "; ratings show no difference to {others} other candidates"),
    }
}

/// Whether the choice keeps the preferred latency and throughput, unless the first clause says so.
fn write_preferences(text: &mut String, decision: &Decision, choice: &Candidate, explained: Explained) -> Result {
    let preferences = preference_text(decision);
    if choice.panic || choice.probe || preferences.is_empty() || explained == Explained::Preferences {
        return Ok(());
    }
    let (_, grade) = position_and_grade(choice.inputs.tier);
    let verb = match (grade, grade_with(decision, &choice.inputs, &choice.predicted)) {
        (0, 0) => "expected to keep",
        (0, _) => "has few observations and may keep",
        _ => "comes nearest to",
    };
    write!(text, "; {verb} {preferences}")
}

/// `its prompt cache saves 0.12 s and $0.00108 (1200 tokens)`, unless the first clause says so.
fn write_saving(text: &mut String, decision: &Decision, choice: &Candidate) -> Result {
    match choice.saving {
        Some(saving) if decision.code != DecisionCode::SessionSticky => {
            write!(text, "; its prompt cache saves {}", saving_text(&saving))
        }
        _ => Ok(()),
    }
}

/// The number of candidates if there are any, then the endpoints excluded for now with their figures, then the filters by
/// count.
fn write_excluded(text: &mut String, decision: &Decision, names: Names<'_>) -> Result {
    let candidates = decision.candidates.len() + decision.omitted.len();
    if candidates > 0 {
        write!(text, "; {candidates} candidate{}", if candidates == 1 { "" } else { "s" })?;
    }
    let passing: Vec<&ExcludedEndpoint> =
        decision.excluded.iter().filter(|excluded| excluded.reason.is_passing()).collect();
    for (position, excluded) in passing.iter().take(MAX_NAMED).enumerate() {
        let before = if position == 0 { "; skipped for now: " } else { ", " };
        write!(text, "{before}{} ({})", names.short(excluded.index, excluded.endpoint), excluded.detail)?;
    }
    if passing.len() > MAX_NAMED {
        write!(text, " and {} more", passing.len() - MAX_NAMED)?;
    }
    let filtered = decision.excluded.iter().map(|excluded| excluded.reason).filter(|reason| !reason.is_passing());
    for (position, (reason, count)) in ExclusionReason::counts(filtered).iter().enumerate() {
        let before = if position == 0 { "; excluded: " } else { ", " };
        write!(text, "{before}{count} by {}", reason.as_str())?;
    }
    text.write_char('.')
}

fn write_attempts(text: &mut String, names: Names<'_>, choice: &Candidate, attempts: &[AttemptRecord]) -> Result {
    match AttemptSummary::new(attempts, choice.index, |attempt| names.tried(attempt)) {
        Some(summary) => write!(text, " {}", summary.sentence()),
        None => Ok(()),
    }
}
