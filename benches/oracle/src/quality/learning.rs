//! How soon a table is learnt from a few ratings, some of them wrong, of the answers that it chooses.

use super::{
    questions::{Means, Question, Questions},
    table::{ClassTable, Classes, Ratings, pace, pay, rated},
};
use crate::{dice::Dice, sheet::Sheet};

/// Share of the answers that are rated.
pub const RATED: f64 = 0.05;
/// Share of the ratings that are wrong.
pub const WRONG: f64 = 0.1;
/// Requests after which the table is looked at.
const MARKS: [usize; 3] = [2_000, 8_000, 32_000];
/// Answers by which a class is drawn to its model's ratings: as many as a score counts for in the product.
const STRENGTH: f64 = 20.0;
/// Runs of which the mean is told.
const RUNS: u64 = 3;

/// Quality at a ceiling of what is learnt of the answers that were chosen, after each number of requests.
///
/// Every request is drawn from the first half. The choice is made by a draw from each belief, so that models are tried as long as
/// they may be good.
#[must_use]
pub fn learnt(questions: &Questions, classes: Classes, ceiling: f64, seed: u64, marks: &[usize]) -> Vec<Means> {
    let half = &questions.halves[0];
    let Some(mut pace) = pace(ceiling) else { return Vec::new() };
    let mut dice = Dice::new(seed, 6);
    let mut ratings = Ratings::new(classes, questions.models.len());
    let costs = ClassTable::new(&ratings, STRENGTH, half);
    let mut found = Vec::new();
    for request in 1..=marks.last().copied().unwrap_or_default() {
        let question: &Question = &half[dice.below(half.len())];
        let expected = costs.expected(question);
        let beliefs = ratings.beliefs(question, STRENGTH);
        let drawn: Vec<f64> = beliefs.iter().map(|belief| belief.quantile(dice.uniform())).collect();
        let price = pace.quality_per_dollar();
        let arm = super::questions::arm_with_most(questions.arms(), |arm| drawn[arm] - price * expected[arm].dollars);
        let answer = question.answers[arm];
        pay(&mut pace, expected[arm].dollars, answer.dollars);
        if dice.uniform() < RATED {
            ratings.add(question, arm, rated(answer.quality, WRONG, &mut dice));
        }
        if marks.contains(&request) {
            found.push(ClassTable::new(&ratings, STRENGTH, half).paced(questions, ceiling));
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
    let mut header = vec!["set", "models", "nothing known", "all answers rated"];
    let marks = MARKS.map(|mark| format!("after {mark}"));
    marks.iter().for_each(|mark| header.extend([mark.as_str(), "of the way"]));
    let mut sheet = Sheet::new(title, header);
    for questions in sets.iter().flat_map(|questions| [questions.clone(), questions.on_the_hull()]) {
        for (name, classes) in Classes::all(&questions).into_iter().filter(|(_, classes)| classes.lengths.is_none()) {
            sheet.row(row(&questions, name, classes));
        }
    }
    sheet
}

fn row(questions: &Questions, name: &str, classes: Classes) -> Vec<String> {
    let singles = questions.singles(0);
    let ceiling = 0.2 * singles[questions.cheapest_and_best()[1]].dollars;
    let nothing = ClassTable::new(&Ratings::new(classes, singles.len()), STRENGTH, &questions.halves[0]);
    let [before, full] =
        [nothing, ClassTable::full(questions, classes, STRENGTH)].map(|table| table.paced(questions, ceiling).quality);
    let runs: Vec<_> = (0..RUNS).map(|seed| learnt(questions, classes, ceiling, seed, &MARKS)).collect();
    let after = (0..MARKS.len()).flat_map(|mark| {
        let quality = runs.iter().map(|run| run[mark].quality).sum::<f64>() / RUNS as f64;
        [format!("{quality:.4}"), format!("{:.0} %", (quality - before) / (full - before) * 100.0)]
    });
    let name = format!("{}, {name}", questions.name);
    [name, singles.len().to_string(), format!("{before:.4}"), format!("{full:.4}")].into_iter().chain(after).collect()
}
