//! Whether the records answer a comparison, and what becomes of its limits.

use pointsman_routing::explain::diff::Tally;

use super::limit::Verdict;

/// Least share of decisions that must be answered.
const LEAST_ANSWERED: f64 = 0.9;
/// Fewest decisions that limits are judged by.
const FEWEST: u64 = 30;
/// Share of further decisions without an endpoint beyond which spending and times are those of other calls.
const MOST_UNSERVED: f64 = 0.01;

/// `kept`, `broken` or `no_answer`.
pub(super) fn verdict(tally: &Tally, verdicts: &[Verdict]) -> &'static str {
    match verdicts {
        _ if !is_answered(tally) => "no_answer",
        [] => "kept",
        _ if tally.decisions < FEWEST => "no_answer",
        _ if verdicts.contains(&Verdict::Broken) => "broken",
        _ if verdicts.contains(&Verdict::Unknown) => "no_answer",
        _ => "kept",
    }
}

fn is_answered(tally: &Tally) -> bool {
    tally.summed as f64 >= LEAST_ANSWERED * tally.decisions as f64
}

/// Whether so many more decisions have no endpoint that spending and times are those of other calls.
pub(super) fn loses_calls(tally: &Tally) -> bool {
    let [before, after] = tally.unserved;
    after.saturating_sub(before) as f64 > MOST_UNSERVED * tally.decisions as f64
}

/// Why there is no answer, or a limit is not judged.
pub(super) fn no_answer(tally: &Tally, verdicts: &[Verdict]) -> Option<String> {
    let decisions = tally.decisions;
    if !is_answered(tally) {
        let share = percent(tally.summed as f64 / decisions.max(1) as f64);
        return Some(format!("{share} of the decisions are answered, and {} are needed", percent(LEAST_ANSWERED)));
    }
    if verdicts.is_empty() {
        return None;
    }
    if decisions < FEWEST {
        return Some(format!("limits are judged by {FEWEST} decisions or more, and there are {decisions}"));
    }
    verdicts.contains(&Verdict::Unknown).then(|| match loses_calls(tally) {
        true => "so many more decisions have no endpoint that spending and times are those of other calls: limits of them are not \
                 judged"
            .to_owned(),
        false => "a limit is about a figure that these records do not give".to_owned(),
    })
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
