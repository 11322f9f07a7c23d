//! The text of an answer to "why not X?".

use std::fmt::Write;

use pointsman_domain::{Catalog, ScoreUnit};

use super::{Margin, Verdict, WhyNot};

use crate::explain::{
    counterfactual::{Counterfactual, Figure},
    formatting::{dollars, full_name, percent, score_text, seconds, significant, unit_of_balance},
};

/// Maximum number of changes in the sentence.
const MAX_CHANGES: usize = 2;

/// One or two sentences.
pub(crate) fn sentence(answer: &WhyNot, catalog: &Catalog) -> String {
    let name_of = |(index, id)| full_name(catalog, index, id);
    let name = answer.about.map(name_of).unwrap_or_default();
    match answer.verdict {
        Verdict::Unknown if answer.reason == "alias" => {
            format!("'{}' is not an endpoint: {}.", answer.asked, answer.detail)
        }
        Verdict::Unknown => unknown(answer),
        Verdict::NotInPool => format!("{name} was not considered: {}.", answer.detail),
        Verdict::Chosen => match &answer.outcome {
            Some(outcome) => format!("{name} was the choice, but it {outcome}."),
            None => format!("{name} is the choice."),
        },
        Verdict::Refused => refused(answer, &name),
        Verdict::Lost => match &answer.margin {
            Some(margin) => lost(answer, &name, margin, &name_of(margin.to)),
            None => format!("{name} was not chosen: {}.{}", answer.detail, winning_changes(answer).unwrap_or_default()),
        },
    }
}

fn unknown(answer: &WhyNot) -> String {
    let similar = match answer.suggestions.as_slice() {
        [] => String::new(),
        names => format!(" Similar: {}.", names.join(", ")),
    };
    format!("Neither a model nor a provider is called '{}'.{similar}", answer.asked)
}

fn refused(answer: &WhyNot, name: &str) -> String {
    let mut text = format!("{name} was refused: {} ({}).", answer.reason, answer.detail);
    if let Some(wait) = answer.opens_in {
        // Writing to a `String` cannot fail.
        let _ = write!(text, " It can serve again in {:.1} s at the earliest.", wait.as_secs_f64());
    }
    text
}

fn lost(answer: &WhyNot, name: &str, margin: &Margin, winner: &str) -> String {
    if answer.reason == "tie" {
        return format!(
            "{name} has the same score as {winner}: {}. Any better figure would make it win.",
            answer.detail
        );
    }
    let largest = margin.most.map_or(String::new(), |(term, _)| format!(", mostly in {}", term_text(term)));
    let changes =
        winning_changes(answer).unwrap_or_else(|| " No change of a single figure would make it win.".to_owned());
    format!("{name} lost to {winner} by {}{largest}.{changes}", behind(margin))
}

/// A score term in words.
fn term_text(term: &'static str) -> &'static str {
    match term {
        "first_token" => "time to first token",
        "generation" => "generation time",
        "queueing" => "queueing delay",
        "expected_cost" => "cost",
        "failure" => "failures",
        "failure_time" => "time lost by failures",
        "failure_cost" => "cost of failures",
        "slow" => "slow answers",
        "asked_again" => "answers that are not accepted",
        other => other,
    }
}

/// The sentence with the changes that would win; `None` without any.
fn winning_changes(answer: &WhyNot) -> Option<String> {
    let changes: Vec<String> = answer.would_win_if.iter().take(MAX_CHANGES).map(change).collect();
    (!changes.is_empty()).then(|| format!(" It would win with {}, everything else equal.", changes.join(", or with ")))
}

fn behind(margin: &Margin) -> String {
    let relative =
        if margin.relative.is_finite() { format!(" (+{})", percent_of(margin.relative)) } else { String::new() };
    let difference = match margin.unit {
        ScoreUnit::Probability => format!("{} percentage points of risk", significant(100.0 * margin.difference, 3)),
        ScoreUnit::None => format!("{} {}", significant(margin.difference, 3), unit_of_balance(margin.counts_quality)),
        ScoreUnit::Seconds | ScoreUnit::Usd => score_text(margin.difference, margin.unit),
    };
    format!("{difference}{relative}")
}

fn change(change: &Counterfactual) -> String {
    let Counterfactual { figure, from, to } = *change;
    let by = if change.relative().is_finite() { format!(" ({})", signed(change.relative())) } else { String::new() };
    match figure {
        Figure::Price => format!("prices that lower its cost from {} to {}{by}", dollars(from), dollars(to)),
        Figure::FirstToken => {
            format!("a first token after {} instead of {}{by}", precise_seconds(to), precise_seconds(from))
        }
        Figure::TokensPerSecond => {
            format!("{} instead of {} tokens per second{by}", significant(to, 3), significant(from, 3))
        }
        Figure::FailureProbability => {
            format!("a failure probability of {} instead of {}{by}", percent(to), percent(from))
        }
        Figure::LatencyWeight => {
            format!("a latency weight of {} instead of {}{by}", significant(to, 3), significant(from, 3))
        }
        Figure::Quality => format!("a quality of {} instead of {}{by}", significant(to, 3), significant(from, 3)),
        Figure::QualityWeight => {
            format!("a quality weight of {} instead of {}{by}", significant(to, 3), significant(from, 3))
        }
    }
}

/// Seconds with three digits instead of two, since the difference matters here.
fn precise_seconds(value: f64) -> String {
    if value == 0.0 { seconds(value) } else { format!("{} s", significant(value, 3)) }
}

fn signed(relative: f64) -> String {
    format!("{}{}", if relative < 0.0 { "−" } else { "+" }, percent_of(relative.abs()))
}

/// A ratio in per cent with two digits.
fn percent_of(relative: f64) -> String {
    format!("{} %", significant(100.0 * relative, 2))
}
