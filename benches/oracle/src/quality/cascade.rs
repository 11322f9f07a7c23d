//! A second model where the answer of the first has a fault that a gateway can see by itself.

use super::questions::{Means, Question, Questions, mean};

/// On half 1, the pair of models with the most quality on half 0 within a budget, and their names. `None`: no pair is within it.
#[must_use]
pub fn best_pair(questions: &Questions, budget: f64) -> Option<(Means, String)> {
    let pairs = questions.arms().flat_map(|first| questions.arms().map(move |second| (first, second)));
    let tried = pairs.filter(|(first, second)| first != second).map(|pair| (pair, outcome(&questions.halves[0], pair)));
    let within = tried.filter(|(_, means)| means.dollars <= budget);
    let (pair, _) = within.max_by(|(_, one), (_, other)| one.quality.total_cmp(&other.quality))?;
    let names = format!("{} → {}", questions.models[pair.0], questions.models[pair.1]);
    Some((outcome(&questions.halves[1], pair), names))
}

fn outcome(questions: &[Question], (first, second): (usize, usize)) -> Means {
    mean(questions.iter().map(|question| {
        let (first, second) = (question.answers[first], question.answers[second]);
        let is_broken = first.fault > 1 || (first.fault == 1 && question.demands_call);
        let (quality, more) = if is_broken { (second.quality, second.dollars) } else { (first.quality, 0.0) };
        Means { quality, dollars: first.dollars + more }
    }))
}
