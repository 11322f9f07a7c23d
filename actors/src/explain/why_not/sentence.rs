//! The answer to "why not X?" in words.

use std::fmt::Write;

use super::{Margin, Verdict, WhyNot};
use crate::domain::Catalog;
use crate::explain::{
    counterfactual::{Counterfactual, Figure},
    figures::{dollars, figure, full_name, percent, seconds, significant},
};

/// Changes named in the sentence.
const NAMED: usize = 2;

/// One or two sentences.
pub(crate) fn sentence(answer: &WhyNot, catalog: &Catalog) -> String {
    let name = |(index, id)| full_name(catalog, index, id);
    let who = answer.about.map(name).unwrap_or_default();
    match answer.verdict {
        Verdict::Unknown if answer.reason == "alias" => {
            format!("'{}' is no endpoint: {}.", answer.asked, answer.detail)
        }
        Verdict::Unknown => unknown(answer),
        Verdict::NotInPool => format!("{who} did not take part: {}.", answer.detail),
        Verdict::Chosen => match &answer.fate {
            Some(fate) => format!("{who} was the choice: it {fate}."),
            None => format!("{who} is the choice."),
        },
        Verdict::Refused => refused(answer, &who),
        Verdict::Lost => match &answer.margin {
            Some(margin) => lost(answer, &who, margin, &name(margin.to)),
            None => format!("{who} was not chosen: {}.{}", answer.detail, enough(answer).unwrap_or_default()),
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

fn refused(answer: &WhyNot, who: &str) -> String {
    let mut text = format!("{who} was refused: {} ({}).", answer.reason, answer.detail);
    if let Some(wait) = answer.opens_in {
        // Writing to a `String` cannot fail.
        let _ = write!(text, " Its gate would have to be open, and opens in {:.1} s.", wait.as_secs_f64());
    }
    text
}

fn lost(answer: &WhyNot, who: &str, margin: &Margin, winner: &str) -> String {
    if answer.reason == "tie" {
        return format!("{who} scored the same as {winner}: {}. Any better figure would make it win.", answer.detail);
    }
    let most = margin.most.map_or(String::new(), |(term, _)| format!(", most of it in {term}"));
    let enough = enough(answer).unwrap_or_else(|| " No change of a single figure would be enough.".to_owned());
    format!("{who} lost to {winner} by {}{most}.{enough}", behind(margin))
}

/// A sentence about what would be enough, if anything is known to be.
fn enough(answer: &WhyNot) -> Option<String> {
    let changes: Vec<String> = answer.would_win_if.iter().take(NAMED).map(change).collect();
    (!changes.is_empty()).then(|| format!(" It would win with {}, everything else equal.", changes.join(", or with ")))
}

fn behind(margin: &Margin) -> String {
    let relative = if margin.relative.is_finite() { format!(" (+{})", share(margin.relative)) } else { String::new() };
    format!("{}{relative}", figure(margin.difference, margin.unit))
}

fn change(change: &Counterfactual) -> String {
    let Counterfactual { figure, from, to } = *change;
    let by = if change.relative().is_finite() { format!(" ({})", signed(change.relative())) } else { String::new() };
    match figure {
        Figure::Price => format!("prices that make it {} instead of {}{by}", dollars(to), dollars(from)),
        Figure::FirstToken => format!("a first token after {} instead of {}{by}", fine(to), fine(from)),
        Figure::TokensPerSecond => {
            format!("{} instead of {} tokens per second{by}", significant(to, 3), significant(from, 3))
        }
        Figure::FailureProbability => {
            format!("a failure probability of {} instead of {}{by}", percent(to), percent(from))
        }
        Figure::LatencyWeight => {
            format!("a latency weight of {} instead of {}{by}", significant(to, 3), significant(from, 3))
        }
    }
}

/// Seconds with one digit more than elsewhere: the difference is what matters here.
fn fine(value: f64) -> String {
    if value == 0.0 { seconds(value) } else { format!("{} s", significant(value, 3)) }
}

fn signed(relative: f64) -> String {
    format!("{}{}", if relative < 0.0 { "−" } else { "+" }, share(relative.abs()))
}

/// A share in per cent, with as many digits as say something.
fn share(relative: f64) -> String {
    format!("{} %", significant(100.0 * relative, 2))
}
