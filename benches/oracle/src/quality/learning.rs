//! How soon a table is learnt from a few ratings, some of them wrong, of the answers that it chooses.

use super::{
    questions::{Means, Question, Questions},
    table::{Begin, ClassTable, Classes, Ratings, pace, pay, rated},
};
use crate::{dice::Dice, sheet::Sheet};

/// Share of the answers that are rated.
pub const RATED: f64 = 0.05;
/// Share of the ratings that are wrong.
pub const WRONG: f64 = 0.1;
/// Requests after which the table is looked at.
const MARKS: [usize; 2] = [2_000, 8_000];
/// Runs of which the mean is told. After 2,000 requests the standard deviation of a run is .002 to .054.
const RUNS: u64 = 12;
/// Answers that a score of a model counts for: as many as in the product at most.
const SCORED: f64 = 20.0;
/// Quality between no ratings and all below which a share of the way is chance.
const LEAST_WAY: f64 = 0.02;

/// Quality at a ceiling of what is learnt of the answers that were chosen, after each number of requests, from `ratings` on.
///
/// Every request is drawn from the first half. The choice is made by a draw from each belief, so that models are tried as long as
/// they may be good.
#[must_use]
pub fn learnt(questions: &Questions, mut ratings: Ratings, ceiling: f64, seed: u64, marks: &[usize]) -> Vec<Means> {
    let half = &questions.halves[0];
    let Some(mut pace) = pace(ceiling) else { return Vec::new() };
    let mut dice = Dice::new(seed, 6);
    let costs = ClassTable::new(&ratings, Begin::Product, half);
    let mut found = Vec::new();
    for request in 1..=marks.last().copied().unwrap_or_default() {
        let question: &Question = &half[dice.below(half.len())];
        let expected = costs.expected(question);
        let beliefs = ratings.beliefs(question, Begin::Product);
        let drawn: Vec<f64> = beliefs.iter().map(|belief| belief.quantile(dice.uniform())).collect();
        let price = pace.quality_per_dollar();
        let arm = super::questions::arm_with_most(questions.arms(), |arm| drawn[arm] - price * expected[arm].dollars);
        let answer = question.answers[arm];
        pay(&mut pace, expected[arm].dollars, answer.dollars);
        if dice.uniform() < RATED {
            ratings.add(question, arm, rated(answer.quality, WRONG, &mut dice));
        }
        if marks.contains(&request) {
            found.push(ClassTable::new(&ratings, Begin::Product, half).paced(questions, ceiling));
        }
    }
    found
}

/// The table of all sets, with all models and with few.
#[must_use]
pub fn sheet(sets: &[Questions]) -> Sheet {
    let title = format!(
        "Learning: {:.0} % of the chosen answers rated, {:.0} % of the ratings wrong, ceiling 20 % of the best single's cost",
        RATED * 100.0,
        WRONG * 100.0
    );
    let mut header = vec!["set", "models", "no ratings", "all answers rated"];
    let marks = MARKS.map(|mark| format!("after {mark}"));
    marks.iter().for_each(|mark| header.extend([mark.as_str(), "± of a run", "of the way"]));
    let mut sheet = Sheet::new(title, header);
    for questions in sets.iter().flat_map(|questions| [questions.clone(), questions.on_the_hull()]) {
        for (name, classes) in Classes::all(&questions).into_iter().filter(|(_, classes)| classes.lengths.is_none()) {
            sheet.row(row(&questions, name, Ratings::new(classes, questions.models.len()), classes));
            if sets.contains(&questions) {
                let name = format!("{name}, a score of each model");
                sheet.row(row(&questions, &name, Ratings::scored(classes, &questions, SCORED), classes));
            }
        }
    }
    sheet
}

fn row(questions: &Questions, name: &str, known: Ratings, classes: Classes) -> Vec<String> {
    let singles = questions.singles(0);
    let ceiling = 0.2 * singles[questions.cheapest_and_best()[1]].dollars;
    let begin = ClassTable::new(&known, Begin::Product, &questions.halves[0]);
    let [before, full] = [begin, ClassTable::full(questions, classes, Begin::Product)]
        .map(|table| table.paced(questions, ceiling).quality);
    let runs: Vec<_> = (0..RUNS).map(|seed| learnt(questions, known.clone(), ceiling, seed, &MARKS)).collect();
    let after = (0..MARKS.len()).flat_map(|mark| {
        let sum = |of: &dyn Fn(f64) -> f64| runs.iter().map(|run| of(run[mark].quality)).sum::<f64>();
        let quality = sum(&|quality| quality) / RUNS as f64;
        let deviation = (sum(&|one| (one - quality) * (one - quality)) / (RUNS - 1) as f64).sqrt();
        let (gained, way) = (quality - before, full - before);
        let share = if way < LEAST_WAY { format!("{gained:+.4}") } else { format!("{:.0} %", gained / way * 100.0) };
        [format!("{quality:.4}"), format!("{deviation:.4}"), share]
    });
    let name = format!("{}, {name}", questions.name);
    [name, singles.len().to_string(), format!("{before:.4}"), format!("{full:.4}")].into_iter().chain(after).collect()
}
