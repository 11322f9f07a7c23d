//! What would have happened, for people.

use std::fmt::{self, Write};

use super::{
    estimate_report::{EstimateBody, EstimateReport, SampleBody},
    text::{percent, short, signed, signed_percent, thousands},
};

/// Slices that are shown.
const SHOWN: usize = 8;
/// Longest label.
const WIDTH: usize = 15;

/// The whole report for the terminal.
pub(crate) fn plain(report: &EstimateReport) -> String {
    let tested = thousands(report.self_tested);
    let mut page = format!(
        "{:<WIDTH$} {tested} of {tested} decisions identical\n{:<WIDTH$} as recorded → {}\n",
        "self test", "configuration", report.after
    );
    if !report.not_covered.is_empty() {
        let keys = report.not_covered.join("; ");
        let why = "they change what happens after the choice, or follow what was spent";
        page += &format!("{:<WIDTH$} {keys}: {why}\n", "not covered");
    }
    page + &sections(report)
}

/// What would have happened, for the end of another report.
pub(crate) fn sections(report: &EstimateReport) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write_sections(&mut page, report);
    page
}

fn write_sections(page: &mut String, report: &EstimateReport) -> fmt::Result {
    for sample in &report.samples {
        write_sample(page, sample)?;
    }
    for warning in &report.warnings {
        writeln!(page, "{:<WIDTH$} {warning}", "note")?;
    }
    Ok(())
}

fn write_sample(page: &mut String, sample: &SampleBody) -> fmt::Result {
    let support = &sample.support;
    let [from, until] = [&sample.from, &sample.until].map(|at| at.clone().unwrap_or_default());
    writeln!(page, "{:<WIDTH$} {} requests, {from} to {until}", "estimated from", thousands(support.requests as u64))?;
    let error = support.mean_weight_error.map_or_else(String::new, |error| format!(" ± {error:.3}"));
    writeln!(
        page,
        "{:<WIDTH$} {} choices could have been the same: effective {:.0}, mean weight {:.3}{error}, unsupported {}",
        "support",
        thousands(support.matched as u64),
        support.effective,
        support.mean_weight,
        percent(support.unsupported)
    )?;
    writeln!(
        page,
        "\n{:<27} {:>10} {:>10} {:>10}   {:<21} {:>10} {:>10} {:>10} {:>10}",
        "", "before", "estimated", "change", "95 % interval", "predicted", "IPS", "SNIPS", "clipped"
    )?;
    for figure in &sample.figures {
        write_row(page, figure)?;
    }
    writeln!(page)?;
    for figure in &sample.figures {
        writeln!(page, "{:<WIDTH$} {}", figure.figure, figure.sentence)?;
    }
    // Most rules hold for several figures.
    let mut said: Vec<&str> = Vec::new();
    let refusals = sample.figures.iter().flat_map(|figure| figure.refusals.iter().skip(1)).map(|why| ("refused", why));
    let warnings = sample.figures.iter().flat_map(|figure| &figure.warnings).map(|why| ("warning", why));
    for (label, why) in refusals.chain(warnings) {
        if !said.contains(&why.as_str()) {
            said.push(why);
            writeln!(page, "{label:<WIDTH$} {why}")?;
        }
    }
    let chance = &sample.chance;
    writeln!(
        page,
        "{:<WIDTH$} {} $/1k requests, {} s and {} points of failures more than the choices without it, by prediction",
        "cost of chance",
        short(chance.spend),
        short(chance.total),
        short(chance.failures * 100.0)
    )?;
    for slice in sample.slices.iter().filter(|slice| slice.dimension != "hour").take(SHOWN) {
        writeln!(
            page,
            "{:<WIDTH$} {}: {} requests, effective {:.0}, unsupported {}",
            slice.dimension,
            slice.value,
            thousands(slice.requests as u64),
            slice.effective,
            percent(slice.unsupported)
        )?;
    }
    Ok(())
}

fn write_row(page: &mut String, figure: &EstimateBody) -> fmt::Result {
    let (name, scale) = match figure.figure {
        "spend" => ("spend, $/1k requests", 1.0),
        "failures" => ("failures shown, %", 100.0),
        "acceptance" => ("accepted of rated, %", 100.0),
        "first_token" => ("first token mean, s", 1.0),
        "first_token_p95" => ("first token p95, s", 1.0),
        _ => ("total mean, s", 1.0),
    };
    let change = |value: f64| match scale > 1.0 {
        true => signed(&format!("{:+.2}pp", value * scale)),
        false => signed_percent(value),
    };
    let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| short(value * scale));
    let interval = figure.interval.map(|[least, most]| format!("{} … {}", change(least), change(most)));
    let bound =
        figure.bound.as_ref().map(|bound| format!("{} … {}", short(bound.least * scale), short(bound.most * scale)));
    let none = if figure.refusals.is_empty() { "–" } else { "refused" };
    let others = figure.others.as_ref();
    writeln!(
        page,
        "  {name:<25} {:>10} {:>10} {:>10}   {:<21} {:>10} {:>10} {:>10} {:>10}",
        short(figure.before * scale),
        shown(figure.after),
        figure.change.map_or_else(|| none.to_owned(), change),
        interval.or(bound).unwrap_or_else(|| "–".to_owned()),
        shown(others.map(|others| others.predicted)),
        shown(others.and_then(|others| others.ips.value)),
        shown(others.and_then(|others| others.snips.value)),
        shown(others.and_then(|others| others.clipped.value)),
    )
}
