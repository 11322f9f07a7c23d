//! What each mechanism of the routing is worth: the same worlds with it and without it, seed by seed.

use crate::{
    figures::Figures,
    rules::Kind,
    sheet::Sheet,
    sheets::wasted,
    table::{self, Cell, Plan, mean_and_worst},
};

/// Two-sided 95th percentile of Student's distribution, by degrees of freedom from 1.
const STUDENT: [f64; 15] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13];

/// Runs the plan with everything and without each mechanism: one row per mechanism.
#[must_use]
pub fn run(plan: &Plan) -> Sheet {
    let rules = [Kind::Pointsman].into_iter().chain(Kind::ABLATED).collect();
    let plan = Plan { rules, ..plan.clone() };
    sheet(&plan, &table::run(&plan))
}

fn sheet(plan: &Plan, cells: &[Cell]) -> Sheet {
    let (first, last) = (plan.seeds.first().unwrap_or(&0), plan.seeds.last().unwrap_or(&0));
    let title = format!(
        "Without each mechanism: mean regret and its change (95 % interval over seeds), {}, seeds {first} to {last}",
        plan.traffic.name()
    );
    let aims = plan.aims.iter().map(|aim| aim.name());
    let columns = ["worst change of a scenario", "failures shown", "with a healthy endpoint", "wasted, mean / most"];
    let mut sheet = Sheet::new(title, ["without"].into_iter().chain(aims).chain(columns));
    for kind in &plan.rules {
        let regrets = plan.aims.iter().map(|aim| {
            let of: Vec<&Cell> = cells.iter().filter(|cell| cell.aim == *aim).collect();
            let mean = mean_and_worst(of.iter().copied(), *kind).map_or(f64::NAN, |(mean, _)| mean);
            if *kind == Kind::Pointsman {
                return format!("{mean:.3}");
            }
            let (change, interval) = mean_and_interval(&by_seed(&of, *kind));
            format!("{mean:.3} ({change:+.4} ± {interval:.4})")
        });
        let mut sum = Figures::default();
        cells.iter().filter_map(|cell| cell.entry(*kind)).for_each(|entry| sum.add(entry.figures.clone()));
        let counts = [sum.shown.to_string(), sum.avoidable.to_string(), wasted(&sum)];
        let name = if *kind == Kind::Pointsman { "(everything there)" } else { kind.name() };
        sheet.row([name.to_owned()].into_iter().chain(regrets).chain([worst(cells, *kind)]).chain(counts));
    }
    sheet
}

fn changes(cell: &Cell, kind: Kind) -> Option<Vec<f64>> {
    Some(cell.changes(cell.position(Kind::Pointsman)?, cell.position(kind)?))
}

/// The mean change over the scenarios, by seed.
fn by_seed(cells: &[&Cell], kind: Kind) -> Vec<f64> {
    let all: Vec<Vec<f64>> = cells.iter().filter_map(|cell| changes(cell, kind)).collect();
    let seeds = all.first().map_or(0, Vec::len);
    (0..seeds).map(|seed| all.iter().map(|of| of[seed]).sum::<f64>() / all.len() as f64).collect()
}

/// Where regret grows most.
fn worst(cells: &[Cell], kind: Kind) -> String {
    let of = |cell: &Cell| changes(cell, kind).map_or(0.0, |of| mean_and_interval(&of).0);
    let most = cells.iter().map(|cell| (of(cell), cell)).max_by(|a, b| a.0.total_cmp(&b.0));
    match most {
        Some((change, cell)) if kind != Kind::Pointsman => {
            format!("{change:+.3} ({}, {})", cell.scenario.name(), cell.aim.name())
        }
        _ => "-".to_owned(),
    }
}

/// The mean of these, and half of its 95 % interval: infinite of a single one.
pub(crate) fn mean_and_interval(of: &[f64]) -> (f64, f64) {
    let count = of.len() as f64;
    let mean = of.iter().sum::<f64>() / count;
    if of.len() < 2 {
        return (mean, f64::INFINITY);
    }
    let variance = of.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let student = STUDENT.get(of.len() - 2).copied().unwrap_or(1.96);
    (mean, student * (variance / count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_grows_with_the_spread_and_shrinks_with_the_seeds() {
        let (mean, interval) = mean_and_interval(&[0.1, 0.3]);
        assert!((mean - 0.2).abs() < 1e-12 && (interval - 1.271).abs() < 1e-9, "{mean} ± {interval}");
        assert!(mean_and_interval(&[0.1, 0.3, 0.1, 0.3]).1 < 0.2);
        assert_eq!(mean_and_interval(&[0.5]).1, f64::INFINITY);
    }
}
