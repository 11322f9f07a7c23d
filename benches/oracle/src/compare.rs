//! What a change of the code does to Pointsman's regret: a run saved before it against a run saved after it, seed by seed.
//!
//! A saved run is text: one line per objective, scenario and seed, with the regret of that seed, and its failures shown and
//! attempts wasted. Worlds depend on the seed alone, so lines of the same name belong to the same world.

use std::{collections::BTreeMap, fmt::Write};

use crate::{
    ablation::mean_and_interval,
    rules::Kind,
    sheet::Sheet,
    table::{self, Plan},
};

/// One saved line.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Saved {
    regret: f64,
    shown: usize,
    wasted: usize,
}

/// Objective, scenario, seed.
type Key = (String, String, u64);

/// Runs Pointsman alone and returns the text to save.
#[must_use]
pub fn save(plan: &Plan) -> String {
    let mut text = String::new();
    // Counts are wanted by seed, and cells hold them over all seeds.
    for seed in &plan.seeds {
        let plan = Plan { rules: vec![Kind::Pointsman], seeds: vec![*seed], ..plan.clone() };
        for cell in table::run(&plan) {
            let (Some(position), Some(entry)) = (cell.position(Kind::Pointsman), cell.entry(Kind::Pointsman)) else {
                continue;
            };
            let wasted = entry.figures.outages.iter().map(|outage| outage.wasted).max().unwrap_or(0);
            let (own, range) = cell.distance(position);
            let (aim, scenario, shown) = (cell.aim.name(), cell.scenario.name(), entry.figures.shown);
            _ = writeln!(text, "{aim}\t{scenario}\t{seed}\t{own}\t{range}\t{shown}\t{wasted}");
        }
    }
    text
}

/// The change from one saved run to another: regret with a 95 % interval over seeds, by objective.
///
/// # Errors
/// A line that is not one of [`save`], or runs of different worlds.
pub fn changes(before: &str, after: &str) -> Result<Sheet, String> {
    let (before, after) = (read(before)?, read(after)?);
    if !before.keys().eq(after.keys()) {
        return Err("the two runs are of different objectives, scenarios or seeds".to_owned());
    }
    let columns = ["mean", "worst", "change", "worst change", "most wasted", "shown"];
    let mut sheet = Sheet::new("Change of regret", ["objective"].into_iter().chain(columns));
    let mut aims: Vec<&String> = before.keys().map(|(aim, ..)| aim).collect();
    aims.dedup();
    for aim in aims {
        let of = |run: &BTreeMap<Key, Saved>| -> BTreeMap<Key, Saved> {
            run.iter().filter(|(key, _)| key.0 == *aim).map(|(key, saved)| (key.clone(), *saved)).collect()
        };
        let (old, new) = (of(&before), of(&after));
        let (old_means, new_means) = (by_scenario(&old), by_scenario(&new));
        let (mean, worst) = summary(&old_means);
        let (new_mean, new_worst) = summary(&new_means);
        let (change, interval) = mean_and_interval(&by_seed(&old, &new));
        let most = new_means.iter().map(|(name, new)| (new - old_means.get(name).unwrap_or(new), name));
        let most = most.max_by(|a, b| a.0.total_cmp(&b.0)).map_or_else(String::new, |(c, n)| format!("{c:+.3} ({n})"));
        let wasted = |run: &BTreeMap<Key, Saved>| run.values().map(|saved| saved.wasted).max().unwrap_or(0);
        let shown = |run: &BTreeMap<Key, Saved>| run.values().map(|saved| saved.shown).sum::<usize>();
        sheet.row([
            aim.clone(),
            format!("{mean:.4} -> {new_mean:.4}"),
            format!("{worst:.3} -> {new_worst:.3}"),
            format!("{change:+.4} ± {interval:.4}"),
            most,
            format!("{} -> {}", wasted(&old), wasted(&new)),
            format!("{} -> {}", shown(&old), shown(&new)),
        ]);
    }
    Ok(sheet)
}

/// Lines by their world, with regrets relative to the range of all seeds, so that a seed in which random is hardly worse
/// than the oracle counts for little.
fn read(text: &str) -> Result<BTreeMap<Key, Saved>, String> {
    let mut lines = BTreeMap::new();
    let mut ranges: BTreeMap<(String, String), (f64, usize)> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [aim, scenario, seed, own, range, shown, wasted] = fields[..] else {
            return Err(format!("not a line of a saved run: {line}"));
        };
        let fault = |_| format!("not a number in: {line}");
        let range: f64 = range.parse().map_err(|_| format!("not a number in: {line}"))?;
        let (sum, count) = ranges.entry((aim.to_owned(), scenario.to_owned())).or_default();
        (*sum, *count) = (*sum + range, *count + 1);
        let saved = Saved {
            regret: own.parse().map_err(|_| format!("not a number in: {line}"))?,
            shown: shown.parse().map_err(fault)?,
            wasted: wasted.parse().map_err(fault)?,
        };
        lines.insert((aim.to_owned(), scenario.to_owned(), seed.parse().map_err(fault)?), saved);
    }
    for ((aim, scenario, _), saved) in &mut lines {
        let (sum, count) = ranges.get(&(aim.clone(), scenario.clone())).copied().unwrap_or((1.0, 1));
        saved.regret *= count as f64 / sum;
    }
    Ok(lines)
}

fn by_scenario(run: &BTreeMap<Key, Saved>) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, (f64, usize)> = BTreeMap::new();
    for ((_, scenario, _), saved) in run {
        let (sum, count) = sums.entry(scenario.clone()).or_default();
        (*sum, *count) = (*sum + saved.regret, *count + 1);
    }
    sums.into_iter().map(|(name, (sum, count))| (name, sum / count as f64)).collect()
}

fn by_seed(before: &BTreeMap<Key, Saved>, after: &BTreeMap<Key, Saved>) -> Vec<f64> {
    let mut sums: BTreeMap<u64, (f64, usize)> = BTreeMap::new();
    for ((key, old), new) in before.iter().zip(after.values()) {
        let (sum, count) = sums.entry(key.2).or_default();
        (*sum, *count) = (*sum + new.regret - old.regret, *count + 1);
    }
    sums.into_values().map(|(sum, count)| sum / count as f64).collect()
}

fn summary(by_scenario: &BTreeMap<String, f64>) -> (f64, f64) {
    let mean = by_scenario.values().sum::<f64>() / by_scenario.len() as f64;
    (mean, by_scenario.values().copied().fold(f64::NEG_INFINITY, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_paired_by_seed_and_relative_to_the_range_of_all_seeds() {
        let before = "fastest\tcalm\t1\t1\t10\t0\t3\nfastest\tcalm\t2\t3\t30\t0\t4\n";
        let after = "fastest\tcalm\t1\t2\t10\t1\t3\nfastest\tcalm\t2\t4\t30\t0\t9\n";
        let mut text = String::new();
        changes(before, after).unwrap().text(&mut text).unwrap();
        assert!(text.contains("0.1000 -> 0.1500"), "{text}");
        assert!(text.contains("+0.0500 ± 0.0000") && text.contains("4 -> 9") && text.contains("0 -> 1"), "{text}");
    }

    #[test]
    fn runs_of_different_worlds_are_not_compared() {
        let line = |seed: u64| format!("fastest\tcalm\t{seed}\t1\t10\t0\t3\n");
        assert!(changes(&line(1), &line(2)).is_err());
        assert!(changes("nonsense\n", &line(1)).is_err());
    }
}
