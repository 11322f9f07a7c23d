//! The tables that are printed: what stands in which cell. How a table is set is in [`crate::sheet`].

use crate::{
    figures::{FAILURE_BINS, Figures, Outage, median},
    goals,
    request::Aim,
    rules::Kind,
    sheet::Sheet,
    table::{Cell, Plan, mean_and_worst},
    traffic::Traffic,
};

/// Every table of a plan that ran.
#[must_use]
pub fn all(plan: &Plan, cells: &[Cell]) -> Vec<Sheet> {
    let mut sheets = vec![summary("All rules", plan, cells)];
    let of = |aim: Aim| cells.iter().filter(move |cell| cell.aim == aim).collect::<Vec<&Cell>>();
    sheets.extend(plan.aims.iter().map(|aim| regrets(*aim, &of(*aim))));
    sheets.push(failures("Failures shown, all objectives and scenarios", cells));
    if plan.rules.contains(&Kind::Pointsman) {
        sheets.extend(plan.aims.iter().map(|aim| traffic(*aim, &of(*aim))));
        sheets.push(failure_calibration(cells));
        sheets.push(outages(cells));
    }
    sheets
}

/// Mean and worst of every rule by objective, and the goals.
#[must_use]
pub fn summary(what: &str, plan: &Plan, cells: &[Cell]) -> Sheet {
    let seeds = (plan.seeds.first().copied().unwrap_or(0), plan.seeds.last().copied().unwrap_or(0));
    let requests = if plan.traffic == Traffic::Poisson { String::new() } else { format!(", {}", plan.traffic.name()) };
    let title = format!("{what}: regret, mean / worst over the scenarios, seeds {} to {}{requests}", seeds.0, seeds.1);
    let mut sheet =
        Sheet::new(title, ["objective", "goal"].into_iter().chain(plan.rules.iter().map(|rule| rule.name())));
    for aim in &plan.aims {
        let pair = |mean: f64, worst: f64| format!("{mean:.3} / {worst:.3}");
        let goal =
            goals::regret(*aim).map_or_else(|| "-".to_owned(), |goal| format!("{:.2} / {:.2}", goal.mean, goal.worst));
        let of = |rule: &Kind| mean_and_worst(cells.iter().filter(|cell| cell.aim == *aim), *rule);
        let regrets =
            plan.rules.iter().map(|rule| of(rule).map_or_else(String::new, |(mean, worst)| pair(mean, worst)));
        sheet.row([aim.name().to_owned(), goal].into_iter().chain(regrets));
    }
    sheet
}

/// Pointsman's regret by scenario and traffic, one table per objective, and what callers saw of it.
#[must_use]
pub fn traces(plan: &Plan, all: &[(Traffic, Vec<Cell>)]) -> Vec<Sheet> {
    let mut sheets: Vec<Sheet> = plan.aims.iter().map(|aim| by_traffic(plan, *aim, all)).collect();
    let header =
        ["requests from", "requests", "failures shown", "with a healthy endpoint there", "wasted, mean / most"];
    let mut sheet = Sheet::new("Pointsman on real traffic, all objectives and scenarios", header);
    for (traffic, cells) in all {
        let mut sum = Figures::default();
        let entries = cells.iter().filter_map(|cell| cell.entry(Kind::Pointsman));
        entries.for_each(|entry| sum.add(entry.figures.clone()));
        let counts = [sum.requests, sum.shown, sum.avoidable].map(|count| count.to_string());
        sheet.row([traffic.name().to_owned()].into_iter().chain(counts).chain([wasted(&sum)]));
    }
    sheets.push(sheet);
    sheets
}

/// Mean and most attempts wasted per outage.
#[must_use]
pub fn wasted(figures: &Figures) -> String {
    let wasted = || figures.outages.iter().map(|outage| outage.wasted);
    let mean = wasted().sum::<usize>() as f64 / figures.outages.len().max(1) as f64;
    format!("{mean:.1} / {}", wasted().max().unwrap_or(0))
}

fn by_traffic(plan: &Plan, aim: Aim, all: &[(Traffic, Vec<Cell>)]) -> Sheet {
    let seeds = (plan.seeds.first().copied().unwrap_or(0), plan.seeds.last().copied().unwrap_or(0));
    let title = format!("Pointsman's regret on real traffic, {}, seeds {} to {}", aim.name(), seeds.0, seeds.1);
    let mut sheet = Sheet::new(title, ["scenario"].into_iter().chain(all.iter().map(|(traffic, _)| traffic.name())));
    let of = |cells: &'_ [Cell]| cells.iter().filter(|cell| cell.aim == aim).cloned().collect::<Vec<Cell>>();
    let columns: Vec<Vec<Cell>> = all.iter().map(|(_, cells)| of(cells)).collect();
    let regret = |cell: &Cell| cell.position(Kind::Pointsman).map_or(f64::NAN, |position| cell.regret(position));
    for (row, cell) in columns.first().map_or(&[][..], Vec::as_slice).iter().enumerate() {
        let regrets = columns.iter().map(|cells| format!("{:.3}", regret(&cells[row])));
        sheet.row([cell.scenario.name().to_owned()].into_iter().chain(regrets));
    }
    let over = columns.iter().filter_map(|cells| mean_and_worst(cells, Kind::Pointsman));
    let (means, worsts): (Vec<String>, Vec<String>) =
        over.map(|(mean, worst)| (format!("{mean:.3}"), format!("{worst:.3}"))).unzip();
    sheet.row(["mean".to_owned()].into_iter().chain(means));
    sheet.row(["worst".to_owned()].into_iter().chain(worsts));
    sheet
}

/// Regret of every rule in every scenario.
fn regrets(aim: Aim, cells: &[&Cell]) -> Sheet {
    let entries = cells.first().map_or(&[][..], |cell| &cell.entries[2..]);
    let title = format!("Normalised regret, {}", aim.name());
    let mut sheet = Sheet::new(title, ["scenario"].into_iter().chain(entries.iter().map(|entry| entry.kind.name())));
    let number = |regret: f64| format!("{regret:.3}");
    for cell in cells {
        let regrets = (2..cell.entries.len()).map(|position| number(cell.regret(position)));
        sheet.row([cell.scenario.name().to_owned()].into_iter().chain(regrets));
    }
    let over = entries.iter().filter_map(|entry| mean_and_worst(cells.iter().copied(), entry.kind));
    let (means, worsts): (Vec<String>, Vec<String>) = over.map(|(mean, worst)| (number(mean), number(worst))).unzip();
    sheet.row(["mean".to_owned()].into_iter().chain(means));
    sheet.row(["worst".to_owned()].into_iter().chain(worsts));
    sheet
}

/// Failures that callers were shown, by rule, over everything that ran.
#[must_use]
pub fn failures(title: &str, cells: &[Cell]) -> Sheet {
    let header =
        ["rule", "requests", "failures shown", "with a healthy endpoint there", "of these: tried healthy ones only"];
    let mut sheet = Sheet::new(title, header);
    let kinds = cells.first().map_or(&[][..], |cell| &cell.entries[..]).iter().map(|entry| entry.kind);
    for kind in kinds {
        let mut sum = Figures::default();
        cells.iter().filter_map(|cell| cell.entry(kind)).for_each(|entry| sum.add(entry.figures.clone()));
        let counts = [sum.requests, sum.shown, sum.avoidable, sum.unlucky].map(|count| count.to_string());
        sheet.row([kind.name().to_owned()].into_iter().chain(counts));
    }
    sheet
}

/// What Pointsman's requests took, and how its predictions held.
fn traffic(aim: Aim, cells: &[&Cell]) -> Sheet {
    let header = [
        "scenario",
        "shown",
        "oracle's",
        "attempts",
        "hedges",
        "first token",
        "total",
        "within p95",
        "total p95",
        "cost in range",
    ];
    let mut sheet = Sheet::new(format!("Pointsman, {}", aim.name()), header);
    for cell in cells {
        let (Some(own), Some(oracle)) = (cell.entry(Kind::Pointsman), cell.entry(Kind::Oracle)) else { continue };
        let figures = &own.figures;
        sheet.row([
            cell.scenario.name().to_owned(),
            figures.shown.to_string(),
            oracle.figures.shown.to_string(),
            format!("{:.3}", figures.attempts_per_request()),
            figures.hedges.to_string(),
            off(&figures.first),
            off(&figures.total),
            percent(figures.first_within),
            percent(figures.total_within),
            percent(figures.cost_within),
        ]);
    }
    sheet
}

/// How often first attempts failed, by how likely that was said to be.
fn failure_calibration(cells: &[Cell]) -> Sheet {
    let mut sum = Figures::default();
    let entries = cells.iter().filter_map(|cell| cell.entry(Kind::Pointsman));
    entries.for_each(|entry| sum.add(entry.figures.clone()));
    let mut sheet = Sheet::new("Pointsman, predicted failure", ["up to", "attempts", "predicted", "failed"]);
    let ends = FAILURE_BINS.into_iter().chain([1.0]);
    for (end, bin) in ends.zip(sum.failure_bins).filter(|(_, bin)| bin.attempts > 0) {
        let share = |of: f64| format!("{:.2} %", 100.0 * of / bin.attempts as f64);
        let (predicted, failed) = (share(bin.predicted), share(bin.failed as f64));
        sheet.row([format!("{:.2} %", 100.0 * end), bin.attempts.to_string(), predicted, failed]);
    }
    sheet
}

/// The median of these, if there are enough to mean something.
fn off(of: &[f64]) -> String {
    if of.len() < 100 { "-".to_owned() } else { format!("{:.2}", median(of)) }
}

fn percent((within, of): (usize, usize)) -> String {
    if of == 0 { "-".to_owned() } else { format!("{:.1} %", 100.0 * within as f64 / of as f64) }
}

/// Dead endpoints: attempts lost, time to leave, time to come back.
fn outages(cells: &[Cell]) -> Sheet {
    let header = [
        "outages",
        "number",
        "lost after the first, mean / most",
        "wasted, mean / most",
        "of these unaware, mean / most",
        "left after s, median / most",
        "back after s, median",
        "could come back",
        "never came",
    ];
    let mut sheet =
        Sheet::new("Pointsman in outages: attempts lost, seconds until half its share was gone, and back", header);
    for cell in cells.iter().filter(|cell| cell.scenario.is_outage()) {
        let Some(entry) = cell.entry(Kind::Pointsman) else { continue };
        let outages = &entry.figures.outages;
        let counted = |of: fn(&Outage) -> usize| {
            let counts: Vec<usize> = outages.iter().map(of).collect();
            let mean = counts.iter().sum::<usize>() as f64 / counts.len().max(1) as f64;
            format!("{mean:.1} / {}", counts.iter().max().unwrap_or(&0))
        };
        let left: Vec<f64> = outages.iter().map(|outage| outage.detected).collect();
        let back: Vec<f64> = outages.iter().filter_map(|outage| outage.recovered).collect();
        sheet.row([
            format!("{}, {}", cell.scenario.name(), cell.aim.name()),
            outages.len().to_string(),
            counted(|outage| outage.after_first),
            counted(|outage| outage.wasted),
            counted(|outage| outage.unaware),
            format!("{:.1} / {:.1}", median(&left), left.iter().copied().fold(0.0, f64::max)),
            if back.is_empty() { "-".to_owned() } else { format!("{:.1}", median(&back)) },
            back.len().to_string(),
            back.iter().filter(|seconds| seconds.is_infinite()).count().to_string(),
        ]);
    }
    sheet
}
