//! A second model where the answer of the first is not accepted.

use super::questions::{Means, Question, Questions, mean};

/// The probability that an answer to a question is accepted.
pub type Verifier<'v> = &'v dyn Fn(&Question, usize) -> f64;

/// Accepts what has no fault that a gateway can see by itself.
#[must_use]
pub fn visible(question: &Question, arm: usize) -> f64 {
    let fault = question.answers[arm].fault;
    let is_broken = fault > 1 || (fault == 1 && question.demands_call);
    f64::from(u8::from(!is_broken))
}

/// Accepts a right and a wrong answer with these probabilities, as nobody can: what a better signal would be worth.
#[must_use]
pub fn imagined(question: &Question, arm: usize, [right, wrong]: [f64; 2]) -> f64 {
    if question.answers[arm].quality > 0.5 { right } else { wrong }
}

/// All pairs of models with what they come to on half 0.
#[derive(Debug, Clone)]
pub struct Pairs(Vec<((usize, usize), Means)>);

impl Pairs {
    /// Of this set.
    #[must_use]
    pub fn new(questions: &Questions, accepts: Verifier<'_>) -> Pairs {
        let half = &questions.halves[0];
        let pairs = questions.arms().flat_map(|first| questions.arms().map(move |second| (first, second)));
        let pairs = pairs.filter(|(first, second)| first != second);
        Pairs(pairs.map(|pair| (pair, outcome(half, half, pair, accepts))).collect())
    }

    /// The pair with the most quality within a budget, of equal ones the cheapest; `None`: no pair is within it.
    #[must_use]
    pub fn best(&self, budget: f64) -> Option<(usize, usize)> {
        let within = self.0.iter().filter(|(_, means)| means.dollars <= budget);
        let better = |one: &Means, other: &Means| {
            one.quality.total_cmp(&other.quality).then(other.dollars.total_cmp(&one.dollars))
        };
        Some(within.max_by(|(_, one), (_, other)| better(one, other))?.0)
    }
}

/// What a pair comes to on questions, whose answers are accepted as those of the same questions in `asked`.
#[must_use]
pub fn outcome(asked: &[Question], questions: &[Question], pair: (usize, usize), accepts: Verifier<'_>) -> Means {
    mean(asked.iter().zip(questions).map(|(asked, question)| {
        let accepted = accepts(asked, pair.0);
        let (first, second) = (question.answers[pair.0], question.answers[pair.1]);
        Means {
            quality: accepted * first.quality + (1.0 - accepted) * second.quality,
            dollars: first.dollars + (1.0 - accepted) * second.dollars,
        }
    }))
}
