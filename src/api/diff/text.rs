//! The answer of a comparison for people: for the terminal, and as Markdown for a pull request.

use std::fmt::{self, Write};

use pointsman_routing::explain::diff::MOST_CHANGES;

use super::{
    recorded::ExplorationBody,
    report::{DiffReport, EndpointLoadBody, FigureBody, LoadBody, MoveBody, OpenLoopBody},
};

/// Moves and causes that are shown.
const SHOWN: usize = 5;
/// Digits of a digest that are shown.
const DIGITS: usize = 12;
/// Requests at a share of 1 after which a cost is known to ± 4 % where the standard deviation of costs is their mean: (1.96 ÷ 0.04)².
const UNIT_REQUESTS: f64 = 2_401.0;

/// A report for the terminal.
pub(crate) fn plain(report: &DiffReport) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write_plain(&mut page, report);
    page
}

/// A report as Markdown.
pub(crate) fn markdown(report: &DiffReport) -> String {
    let mut page = String::new();
    let _ = write_markdown(&mut page, report);
    page
}

fn write_plain(page: &mut String, report: &DiffReport) -> fmt::Result {
    for (label, text) in lines(report) {
        writeln!(page, "{label:<15} {text}")?;
    }
    writeln!(page, "\n{:<31} {:>11} {:>11} {:>10}   {:<19} how", "", "before", "after", "change", "95 % interval")?;
    for figure in figures(report) {
        let [before, after, delta, interval] = row(figure);
        let name = format!("  {}", name(figure));
        writeln!(page, "{name:<31} {before:>11} {after:>11} {delta:>10}   {interval:<19} {}", how(figure))?;
    }
    writeln!(page)?;
    for (label, text) in after_figures(report) {
        writeln!(page, "{label:<15} {text}")?;
    }
    Ok(())
}

fn write_markdown(page: &mut String, report: &DiffReport) -> fmt::Result {
    let heading = match &*report.verdict {
        "kept" => "Routing: limits kept",
        "broken" => "Routing: a limit is broken",
        _ => "Routing: no answer",
    };
    writeln!(page, "### {heading}\n")?;
    for (label, text) in lines(report) {
        writeln!(page, "* **{label}**: {text}")?;
    }
    writeln!(page, "\n| | before | after | change | 95 % interval | how |\n| --- | --: | --: | --: | --- | --- |")?;
    for figure in figures(report) {
        let [before, after, delta, interval] = row(figure);
        writeln!(page, "| {} | {before} | {after} | {delta} | {interval} | {} |", name(figure), how(figure))?;
    }
    writeln!(page)?;
    for (label, text) in after_figures(report) {
        match label {
            "" => writeln!(page, "  * {text}")?,
            label => writeln!(page, "* **{label}**: {text}")?,
        }
    }
    Ok(())
}

/// The figures, and behind them those that the load changes.
pub(crate) fn figures(report: &DiffReport) -> impl Iterator<Item = &FigureBody> {
    report.figures.iter().chain(report.load.iter().flat_map(|load| &load.figures))
}

pub(crate) fn lines(report: &DiffReport) -> Vec<(&'static str, String)> {
    let answer = &report.answerable;
    let share = |count: u64| percent(count as f64 / answer.decisions.max(1) as f64);
    let mut lines = vec![
        (
            "self test",
            format!("{} of {} decisions identical", thousands(report.self_tested), thousands(report.self_tested)),
        ),
        ("records", records(report)),
        (
            "configuration",
            format!(
                "{}{} → {}{}",
                report.before,
                digest(report.before_sha256.as_ref()),
                report.after,
                digest(report.after_sha256.as_ref())
            ),
        ),
        (
            "changes",
            listed(report.changes.iter().map(|change| match (&change.before, &change.after) {
                (Some(before), Some(after)) => format!("{} {before} → {after}", change.key),
                _ => change.key.clone(),
            })),
        ),
    ];
    if !report.not_covered.is_empty() {
        let keys = listed(report.not_covered.iter().map(|change| change.key.clone()));
        let why = "they change what happens after the choice, or follow what was spent; no record tells it";
        lines.push(("not covered", format!("{keys}: {why}")));
    }
    lines.extend(report.exploration.iter().map(|explored| ("explore", exploration(explored))));
    lines.extend(report.cascades.iter().map(|cascade| ("cascade", cascade.clone())));
    let left_out = if report.exact_only && answer.partial > 0 { " (left out)" } else { "" };
    let never = if answer.none > 0 { " (never measured)" } else { "" };
    lines.push((
        "answerable",
        format!(
            "exact {}   partial {}{left_out}   open loop {}   no {}{never}",
            share(answer.exact),
            share(answer.partial),
            share(answer.open_loop),
            share(answer.none)
        ),
    ));
    if !report.never_measured.is_empty() {
        let never = report.never_measured.iter();
        let endpoints = never.map(|one| format!("{} could serve {} decisions", one.endpoint, thousands(one.decisions)));
        let remedy = "What is not known cannot be compared: let [routing.explore] try them, or a canary";
        lines.push(("never measured", format!("{}. {remedy}", listed(endpoints))));
    }
    if let Some(open_loop) = &report.open_loop {
        lines.push(("open loop", in_open_loop(open_loop)));
    }
    let changed = format!(
        "{} of {} decisions ({})",
        thousands(report.changed),
        thousands(answer.decisions),
        share(report.changed)
    );
    lines.push(("changed", changed));
    lines
}

/// What a share of choices at random costs and tells.
pub(crate) fn exploration(body: &ExplorationBody) -> String {
    let share = format!("routing.explore.share = {}: ", body.after);
    let Some(price) = &body.price else {
        return format!(
            "{share}what it costs is not known, for there is no record of a request. It buys the cost of another choice to ± 4 % \
             after about {} requests, if the standard deviation of costs is their mean",
            rounded(UNIT_REQUESTS / body.after)
        );
    };
    let requests = thousands(price.requests);
    if price.drawable == 0 {
        return format!(
            "{share}no recorded request of {requests} could be drawn: none had two endpoints that are safe to try, or aliases and objectives \
             leave them out"
        );
    }
    let a_day = price.spend_per_day.map_or(String::new(), |spend| format!(", {} a day", signed_dollars(spend)));
    let paused = match price.allowed {
        allowed if allowed < 1.0 => {
            format!(" max_extra_cost lets through {} of the draws, and the figures count these.", percent(allowed))
        }
        _ => String::new(),
    };
    let days = price.days_needed.map_or(String::new(), |days| format!(", {} days", short(days)));
    let bought = match price.requests_needed {
        None => "How many requests it takes to know the cost of another choice is not known yet".to_owned(),
        Some(needed) => {
            format!("It buys the cost of another choice to ± 4 % after about {} requests{days}", rounded(needed))
        }
    };
    format!(
        "{share}{} per 1,000 requests ({} of expected spending){a_day}, by {requests} recorded requests. {} of the requests are \
         drawn, from {:.1} endpoints each; their first token: {} s.{paused} {bought}",
        signed_dollars(price.spend),
        signed_percent(price.relative),
        percent(price.drawn),
        price.endpoints,
        signed(&format!("{:+.2}", price.later)),
    )
}

/// A number with two digits that are not 0.
fn rounded(number: f64) -> String {
    let unit = 10.0_f64.powf(number.max(1.0).log10().floor() - 1.0).max(1.0);
    // Casts saturate: beyond this nobody waits.
    thousands(((number / unit).round() * unit) as u64)
}

/// Which records: their time, their number, and what they were drawn from.
fn records(report: &DiffReport) -> String {
    let records = &report.records;
    let mut text = thousands(report.answerable.decisions);
    if let Some(all) = records.sampled_from {
        text.push_str(&format!(", a sample of {},", thousands(all)));
    }
    if let (Some(from), Some(until)) = (&records.from, &records.until) {
        text.push_str(&format!(" from {from} to {until}"));
    }
    text.push_str(&match records.clusters {
        None => ", in more than 100,000 groups".to_owned(),
        Some(1) => ", in one group".to_owned(),
        Some(groups) => format!(", in {} groups", thousands(groups as u64)),
    });
    if let Some(exported) = &records.exported {
        text.push_str(&format!(
            "; export of {}, {} of {} records,{}",
            exported.written_at,
            thousands(exported.records),
            thousands(exported.drawn_from),
            digest(Some(&exported.sha256))
        ));
    }
    text
}

fn digest(sha256: Option<&String>) -> String {
    sha256.map_or_else(String::new, |all| format!(" {}", all.get(..DIGITS).unwrap_or(all)))
}

fn under_load(report: &LoadBody) -> String {
    let endpoint = |load: &EndpointLoadBody| {
        let EndpointLoadBody { endpoint, before, after, knee } = load;
        format!("{endpoint} in flight {} → {}, knee {}", short(*before), short(*after), short(*knee))
    };
    let endpoints: Vec<String> = report.endpoints.iter().take(SHOWN).map(endpoint).collect();
    let still = match report.last_move {
        moved if moved < 0.005 => format!("shares stand still after {} rounds", report.rounds),
        moved => format!("after {} rounds shares still move by {}", report.rounds, percent(moved)),
    };
    let figures = if report.figures.is_empty() { "it changes no figure" } else { "see the rows with load" };
    let decisions = thousands(report.decisions);
    format!("{figures}; {still} (modelled on {decisions} decisions). {}", endpoints.join("; "))
}

fn in_open_loop(report: &OpenLoopBody) -> String {
    let OpenLoopBody { attempts, left_out, same_choices, estimated, first_token_off, failures_off } = report;
    format!(
        "{} recorded attempts happened again ({} left out); under the running constants they lead to the recorded choice in {} of \
         decisions, first token {} off, failures {:.2} points off; {} of the choices have figures of their own, the others keep \
         recorded ones. What endpoints would have answered to other requests is not known",
        thousands(*attempts),
        thousands(*left_out),
        percent(*same_choices),
        percent(*first_token_off),
        failures_off * 100.0,
        percent(*estimated)
    )
}

pub(crate) fn after_figures(report: &DiffReport) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    lines.extend(report.load.iter().map(|load| ("load", under_load(load))));
    lines.extend(report.no_interval.iter().map(|why| ("no interval", why.clone())));
    if let Some([least, most]) = report.spend_bounds {
        let text = format!(
            "spend {} … {}, if each choice that is not certain were the cheapest one possible, or the dearest one with all attempts \
             after it; times and failures of these have no bounds",
            signed_percent(least),
            signed_percent(most)
        );
        lines.push(("uncertain", text));
    }
    if let Some(repriced) = &report.repriced {
        let text = format!(
            "${} → ${}: the tokens of {} moved decisions at list prices; another model may write more or less",
            short(repriced.before_usd),
            short(repriced.after_usd),
            thousands(repriced.decisions)
        );
        lines.push(("re-priced", text));
    }
    let share = |count: u64| percent(count as f64 / report.changed.max(1) as f64);
    let causes = report.causes.iter().take(SHOWN).map(|cause| {
        let changes = match cause.changes.as_slice() {
            [] if report.changes.len() > MOST_CHANGES => "too many changes to tell apart".to_owned(),
            [] => "not found".to_owned(),
            [one] => one.clone(),
            several => format!("only together: {}", several.join(" + ")),
        };
        format!("{} {changes}", share(cause.decisions))
    });
    if report.changed > 0 && !report.causes.is_empty() {
        lines.push(("why", causes.collect::<Vec<_>>().join("   ")));
    }
    let endpoint = |name: &Option<String>| name.clone().unwrap_or_else(|| "no endpoint".to_owned());
    for (at, one) in report.moves.iter().take(SHOWN).enumerate() {
        let to =
            if one.from == one.to { "stays, other figures".to_owned() } else { format!("→ {}", endpoint(&one.to)) };
        let text = format!(
            "{} {to}: {} decisions, {}",
            endpoint(&one.from),
            thousands(one.decisions),
            signed_dollars(one.cost_usd)
        );
        lines.push((if at == 0 { "moves" } else { "" }, text));
    }
    let (hidden, others) = (report.moves.get(SHOWN..).unwrap_or_default(), report.other_moves.as_ref());
    let sums = others.map_or((0, 0, 0.0), |others| (others.moves, others.decisions, others.cost_usd));
    let add = |(moves, decisions, cost): (usize, u64, f64), one: &MoveBody| {
        (moves + 1, decisions + one.decisions, cost + one.cost_usd)
    };
    let (moves, decisions, cost) = hidden.iter().fold(sums, add);
    if moves > 0 {
        let text = format!("{moves} other moves: {} decisions, {}", thousands(decisions), signed_dollars(cost));
        lines.push(("", text));
    }
    for (at, example) in report.examples.iter().enumerate() {
        let score = |score: Option<f64>| score.map_or_else(String::new, |score| format!(" ({})", short(score)));
        let text = format!(
            "{} {}: {}{} → {}{}; {}, {} s",
            example.record,
            example.objective,
            endpoint(&example.from),
            score(example.from_score),
            endpoint(&example.to),
            score(example.to_score),
            signed_dollars(example.cost_usd),
            signed(&format!("{:+.2}", example.first_token_s))
        );
        lines.push((if at == 0 { "examples" } else { "" }, text));
    }
    let limits = report.limits.iter().map(|limit| format!("{}: {}", limit.limit, limit.verdict));
    if !report.limits.is_empty() {
        lines.push(("limits", limits.collect::<Vec<_>>().join("   ")));
    }
    lines.extend(report.no_answer.iter().map(|why| ("no answer", why.clone())));
    lines.extend(report.warnings.iter().map(|warning| ("note", warning.clone())));
    lines
}

pub(crate) fn name(figure: &FigureBody) -> &'static str {
    match (&*figure.figure, &*figure.how) {
        ("spend", "modelled") => "  with load: spend",
        ("first_token_p50", "modelled") => "  with load: first token p50",
        ("first_token_p95", "modelled") => "  with load: first token p95",
        ("total_p50", "modelled") => "  with load: total p50",
        (_, "modelled") => "  with load: failures",
        ("spend", _) => "spend, $/1k requests",
        ("first_token_p50", _) => "first token p50, s",
        ("first_token_p95", _) => "first token p95, s",
        ("total_p50", _) => "total p50, s",
        _ => "failures shown, %",
    }
}

pub(crate) fn how(figure: &FigureBody) -> &'static str {
    match (&*figure.how, &*figure.figure) {
        ("modelled", _) => "modelled",
        ("open_loop", "failures") => "open loop, calibrated; attempts fail independently",
        ("open_loop", _) => "open loop, calibrated",
        (_, "failures") => "predicted, calibrated; attempts fail independently",
        _ => "predicted, calibrated",
    }
}

/// Before, after, change and interval.
pub(crate) fn row(figure: &FigureBody) -> [String; 4] {
    let is_share = figure.figure == "failures";
    let scale = if is_share { 100.0 } else { 1.0 };
    let change = |value: f64| match is_share {
        true => signed(&format!("{:+.3}pp", value * 100.0)),
        false => signed_percent(value),
    };
    let interval = figure.interval.map(|[least, most]| format!("{} … {}", change(least), change(most)));
    [
        short(figure.before * scale),
        short(figure.after * scale),
        change(figure.delta),
        interval.unwrap_or_else(|| "–".to_owned()),
    ]
}

fn listed(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    match items.len() {
        0 => "none that change decisions".to_owned(),
        count if count > 2 * SHOWN => {
            let shown: Vec<String> = items.into_iter().take(2 * SHOWN).collect();
            format!("{}; and {} more", shown.join("; "), count - 2 * SHOWN)
        }
        _ => items.join("; "),
    }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

pub(crate) fn signed_percent(share: f64) -> String {
    match share {
        0.0 => "0 %".to_owned(),
        f64::INFINITY => "from nothing".to_owned(),
        _ => signed(&format!("{:+.1} %", share * 100.0)),
    }
}

/// Dollars with four decimals, or as many as two digits take.
pub(crate) fn signed_dollars(dollars: f64) -> String {
    let decimals = (4..12).find(|decimals| dollars.abs() >= 10.0_f64.powi(1 - decimals)).unwrap_or(4);
    let sign = if dollars < 0.0 { "−" } else { "+" };
    if dollars == 0.0 { "no cost".to_owned() } else { format!("{sign}${:.*}", decimals as usize, dollars.abs()) }
}

/// With the sign that numbers have.
pub(super) fn signed(text: &str) -> String {
    text.replace('-', "−")
}

/// Three digits; of what is small at most eight decimals, and below them a bound, for no one reads powers of ten.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        magnitude if magnitude >= 100.0 => format!("{value:.0}"),
        magnitude if magnitude >= 10.0 => format!("{value:.1}"),
        magnitude if magnitude >= 1.0 => format!("{value:.2}"),
        magnitude if magnitude >= 0.001 || magnitude == 0.0 => format!("{value:.4}"),
        magnitude if magnitude >= 0.000_01 => format!("{value:.6}"),
        magnitude if magnitude >= 0.000_000_01 => format!("{value:.8}"),
        _ => "< 0.00000001".to_owned(),
    }
}

/// A number with its thousands apart.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_grows_from_nothing_is_read_as_it_was_written() {
        let (figure, how) = ("spend".into(), "predicted".into());
        let grown = FigureBody { figure, before: 0.0, after: 0.4, delta: f64::INFINITY, interval: None, how };
        let written = serde_json::to_string(&grown).unwrap();
        assert!(written.contains("\"delta\":null"), "{written}");
        assert_eq!(row(&serde_json::from_str(&written).unwrap())[2], "from nothing");
    }

    #[test]
    fn small_amounts_keep_two_digits() {
        for (dollars, text) in [
            (0.0, "no cost"),
            (12.5, "+$12.5000"),
            (-0.0123, "−$0.0123"),
            (0.000_034_6, "+$0.000035"),
            (-0.000_000_071_2, "−$0.000000071"),
        ] {
            assert_eq!(signed_dollars(dollars), text);
        }
        for (value, text) in [
            (0.0, "0.0000"),
            (412.3, "412"),
            (0.0123, "0.0123"),
            (0.000_080_22, "0.000080"),
            (0.000_000_81, "0.00000081"),
            (1e-12, "< 0.00000001"),
        ] {
            assert_eq!(short(value), text);
        }
        assert_eq!((thousands(999), thousands(1_234_567)), ("999".to_owned(), "1,234,567".to_owned()));
    }
}
