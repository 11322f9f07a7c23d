//! Regret, for people.

use std::fmt::{self, Write};

use super::{
    regret_report::{DifferenceBody, DifferencesBody, GroupBody, PartBody, RegretReport, signed_short},
    text::{percent, short, thousands},
};

/// Longest label.
const WIDTH: usize = 15;
/// Width of a figure with its interval.
const COLUMN: usize = 32;

/// The whole report for the terminal.
pub(crate) fn plain(report: &RegretReport) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut page, report);
    page
}

fn write(page: &mut String, report: &RegretReport) -> fmt::Result {
    let tested = thousands(report.self_tested);
    writeln!(page, "{:<WIDTH$} {tested} of {tested} decisions identical", "self test")?;
    for group in &report.groups {
        match &group.day {
            Some(day) => write_day(page, group, day)?,
            None => write_group(page, group)?,
        }
    }
    for warning in &report.warnings {
        writeln!(page, "{:<WIDTH$} {warning}", "note")?;
    }
    Ok(())
}

fn write_group(page: &mut String, group: &GroupBody) -> fmt::Result {
    let alias = group.alias.as_deref().unwrap_or("fixed models");
    let requests = thousands(group.requests as u64);
    writeln!(page, "\n{alias}, {}: {requests} requests, {} to {}", group.objective, group.from, group.until)?;
    if let Some(why) = &group.refusal {
        return writeln!(page, "{why}");
    }
    writeln!(page, "{:<25} {:>COLUMN$} {:>COLUMN$} {:>COLUMN$}", "", "$/1k requests", "seconds", "failures, %")?;
    write_row(page, "as it was", "", means(group))?;
    for part in &group.parts {
        let name = if part.part == "total" { "total" } else { &format!("  {}", part.part) };
        write_row(page, name, &grade(part), shown(&part.figures))?;
    }
    let fixed = group.fixed.as_ref();
    if let Some(figures) = fixed.and_then(|fixed| fixed.figures.as_ref()) {
        write_row(page, "best alone", "estimated", shown(figures))?;
    }
    writeln!(page)?;
    group.parts.iter().try_for_each(|part| writeln!(page, "{}", part.sentence))?;
    for restricted in &group.restrictions {
        let [spend, seconds, failures] = shown(&restricted.figures);
        let requests = thousands(restricted.requests as u64);
        writeln!(
            page,
            "  {} alone ({requests} requests): {spend} $/1k, {seconds} s, {failures} points of failures",
            restricted.restriction
        )?;
    }
    let Some(fixed) = fixed else { return Ok(()) };
    writeln!(page, "{}", fixed.sentence)?;
    fixed.refusals.iter().try_for_each(|why| writeln!(page, "  refused for it: {why}"))?;
    fixed.refused.iter().try_for_each(|(endpoint, why)| writeln!(page, "  refused, {endpoint}: {why}"))
}

fn write_row(page: &mut String, name: &str, grade: &str, [spend, seconds, failures]: [String; 3]) -> fmt::Result {
    let label = format!("{name:<16}{grade}");
    writeln!(page, "{label:<30} {spend:>27} {seconds:>COLUMN$} {failures:>COLUMN$}")
}

/// One line for a day: dollars and seconds of each part.
fn write_day(page: &mut String, group: &GroupBody, day: &str) -> fmt::Result {
    let requests = thousands(group.requests as u64);
    if group.refusal.is_some() {
        return writeln!(page, "  {day}  {requests} requests: too few");
    }
    write!(page, "  {day}  {requests} requests:")?;
    for part in &group.parts {
        let value =
            |figure: &Option<DifferenceBody>| figure.as_ref().map_or_else(none, |figure| signed_short(figure.value));
        write!(page, " {} {} $/1k {} s;", part.part, value(&part.figures.spend), value(&part.figures.seconds))?;
    }
    writeln!(page)
}

fn none() -> String {
    "–".to_owned()
}

/// Dollars, seconds and failures as they were.
pub(crate) fn means(group: &GroupBody) -> [String; 3] {
    let mean = |value: Option<f64>, scale: f64| value.map_or_else(none, |value| short(value * scale));
    let before = &group.before;
    [mean(before.spend, 1.0), mean(before.seconds, 1.0), mean(before.failures, 100.0)]
}

/// How well a part is known.
pub(crate) fn grade(part: &PartBody) -> String {
    match &*part.grade {
        "partial" => format!("partial {}", percent(part.uncertain)),
        grade => grade.to_owned(),
    }
}

/// Dollars, seconds and failures with their intervals.
pub(crate) fn shown(figures: &DifferencesBody) -> [String; 3] {
    let of = |figure: &Option<DifferenceBody>, scale: f64| {
        figure.as_ref().map_or_else(none, |figure| {
            let [least, most] = figure.interval.map(|end| signed_short(end * scale));
            format!("{} ({least} … {most})", signed_short(figure.value * scale))
        })
    };
    [of(&figures.spend, 1.0), of(&figures.seconds, 1.0), of(&figures.failures, 100.0)]
}
