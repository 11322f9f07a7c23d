//! Class tables: the quality of every model by class, learnt from ratings, and the choices that follow from it.

use std::collections::BTreeMap;

use pointsman_routing::{
    quality::{Known, Posterior, with_others},
    spend_pace::{CallEnd, SpendPace},
};

use super::questions::{Means, Mixes, Question, Questions, arm_with_most, mean, means};
use crate::dice::Dice;

/// Resolution of budgets in the best table without mixing.
const GRID: f64 = 4000.0;
/// Times that the second half is asked under a pace.
const TURNS: usize = 10;

/// How questions are put into classes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Classes {
    /// By the classes of the set, or by those that the gateway detects.
    pub given: bool,
    /// Each in three by length, with these bounds.
    pub lengths: Option<[f64; 2]>,
}

impl Classes {
    /// The classes of the set.
    pub const GIVEN: Classes = Classes { given: true, lengths: None };

    /// All four ways, with their names.
    #[must_use]
    pub fn all(questions: &Questions) -> [(&'static str, Classes); 4] {
        let mut lengths: Vec<f64> = questions.halves[0].iter().map(|question| question.length).collect();
        lengths.sort_by(f64::total_cmp);
        let bounds = Some([lengths.len() / 3, lengths.len() * 2 / 3].map(|at| lengths[at]));
        [
            ("given classes", Classes::GIVEN),
            ("given classes × three lengths", Classes { given: true, lengths: bounds }),
            ("detected classes", Classes { given: false, lengths: None }),
            ("detected classes × three lengths", Classes { given: false, lengths: bounds }),
        ]
    }

    fn of(self, question: &Question) -> usize {
        let class = if self.given { question.class } else { question.task as usize };
        let is_above = |bound: &f64| question.length > *bound;
        class * 3 + self.lengths.map_or(0, |bounds| bounds.iter().filter(|bound| is_above(bound)).count())
    }
}

/// Ratings of answers by class and model: how much was accepted and rejected.
#[derive(Debug, Clone)]
pub struct Ratings {
    classes: Classes,
    arms: usize,
    cells: BTreeMap<usize, Vec<Cell>>,
    /// By model, with the answers of which each was measured; none: there are none.
    scores: Vec<(Posterior, Cell)>,
}

/// What is believed of a model before its ratings for a class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Begin {
    /// What all its ratings say, for so many answers at most.
    Model(f64),
    /// What the product believes of a model with a score, if there are scores, and else without one.
    Product,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Cell {
    accepted: f64,
    rejected: f64,
}

impl Ratings {
    /// None.
    #[must_use]
    pub fn new(classes: Classes, arms: usize) -> Ratings {
        Ratings { classes, arms, cells: BTreeMap::new(), scores: Vec::new() }
    }

    /// None, of models with a score each, which says how good all its answers to the first half are, for as much as a score counts.
    #[must_use]
    pub fn scored(classes: Classes, questions: &Questions, strength: f64) -> Ratings {
        let arms = questions.models.len();
        let all = Ratings::of_all(classes, arms, questions.halves[0].iter());
        let scores = questions.arms().map(|arm| (all.overall(arm).at_most(strength), all.sum(arm))).collect();
        Ratings { scores, ..Ratings::new(classes, arms) }
    }

    /// Of all answers to these questions.
    #[must_use]
    pub fn of_all<'q>(classes: Classes, arms: usize, questions: impl Iterator<Item = &'q Question>) -> Ratings {
        let mut ratings = Ratings::new(classes, arms);
        for question in questions {
            (0..arms).for_each(|arm| ratings.add(question, arm, question.answers[arm].quality));
        }
        ratings
    }

    /// Of a share of all answers to the first half, a part of which are rated the wrong way.
    #[must_use]
    pub fn of_some(classes: Classes, questions: &Questions, [share, wrong]: [f64; 2], seed: u64) -> Ratings {
        let mut ratings = Ratings::new(classes, questions.models.len());
        let mut dice = Dice::new(seed, 4);
        for question in &questions.halves[0] {
            for arm in questions.arms() {
                if dice.uniform() < share {
                    ratings.add(question, arm, rated(question.answers[arm].quality, wrong, &mut dice));
                }
            }
        }
        ratings
    }

    /// One more.
    pub fn add(&mut self, question: &Question, arm: usize, value: f64) {
        let cells = self.cells.entry(self.classes.of(question)).or_insert_with(|| vec![Cell::default(); self.arms]);
        cells[arm].accepted += value;
        cells[arm].rejected += 1.0 - value;
    }

    /// What is believed of each model for the class of a question.
    #[must_use]
    pub fn beliefs(&self, question: &Question, begin: Begin) -> Vec<Posterior> {
        let class = self.classes.of(question);
        let cell = |arm: usize| self.cells.get(&class).map_or(Cell::default(), |cells| cells[arm]);
        let strength = match begin {
            Begin::Model(strength) => strength,
            Begin::Product => return self.product(class, cell),
        };
        let begun = |arm: usize| (self.overall(arm).at_most(strength), cell(arm));
        (0..self.arms).map(begun).map(|(begun, cell)| begun.with(cell.accepted, cell.rejected)).collect()
    }

    /// What the product believes of each model.
    fn product(&self, class: usize, cell: impl Fn(usize) -> Cell) -> Vec<Posterior> {
        let unscored = || self.unscored(class).into_iter().map(|belief| (belief, Cell::default())).collect();
        let begun = if self.scores.is_empty() { unscored() } else { self.scores.clone() };
        let of = |Cell { accepted, rejected }: Cell| [accepted, rejected];
        let known = |(arm, (prior, scored))| Known::new("", prior, of(scored), of(cell(arm)));
        with_others(&(0..).zip(begun).map(known).collect::<Vec<_>>(), 1.0)
    }

    /// What the product believes of models without a score.
    fn unscored(&self, class: usize) -> Vec<Posterior> {
        let (mut gains, mut ratings) = (vec![0.0; self.arms], vec![0.0; self.arms]);
        for (_, cells) in self.cells.iter().filter(|(other, _)| **other != class) {
            let mean = usual(cells).mean();
            for (arm, cell) in cells.iter().enumerate() {
                ratings[arm] += cell.accepted + cell.rejected;
                gains[arm] += cell.accepted - mean * (cell.accepted + cell.rejected);
            }
        }
        let usual = usual(self.cells.get(&class).map_or(&[], Vec::as_slice));
        gains.into_iter().zip(ratings).map(|(gain, ratings)| usual.moved(gain, ratings)).collect()
    }

    /// What is believed of a model by all its ratings.
    fn overall(&self, arm: usize) -> Posterior {
        let Cell { accepted, rejected } = self.sum(arm);
        Posterior::of_class(0.0, 0.0).with(accepted, rejected)
    }

    /// All ratings of a model.
    fn sum(&self, arm: usize) -> Cell {
        let add = |sum: Cell, cells: &Vec<Cell>| Cell {
            accepted: sum.accepted + cells[arm].accepted,
            rejected: sum.rejected + cells[arm].rejected,
        };
        self.cells.values().fold(Cell::default(), add)
    }
}

/// What is believed of a model of which only the class is known.
fn usual(cells: &[Cell]) -> Posterior {
    let all = |of: fn(&Cell) -> f64| cells.iter().map(of).sum();
    Posterior::of_class(all(|cell| cell.accepted), all(|cell| cell.rejected))
}

/// A rating of an answer, the wrong way in a part of the cases.
pub fn rated(quality: f64, wrong: f64, dice: &mut Dice) -> f64 {
    if dice.uniform() < wrong { 1.0 - quality } else { quality }
}

/// Quality and dollars of every model by class. Classes that were not met have those of all questions.
#[derive(Debug, Clone)]
pub struct ClassTable {
    classes: Classes,
    overall: Vec<Means>,
    by_class: BTreeMap<usize, (usize, Vec<Means>)>,
}

impl ClassTable {
    /// From ratings, and from what answers to these questions cost.
    #[must_use]
    pub fn new(ratings: &Ratings, begin: Begin, questions: &[Question]) -> ClassTable {
        let classes = ratings.classes;
        let mut of_class: BTreeMap<usize, Vec<&Question>> = BTreeMap::new();
        questions.iter().for_each(|question| of_class.entry(classes.of(question)).or_default().push(question));
        let by_class = of_class.into_iter().filter_map(|(class, of)| {
            let beliefs = ratings.beliefs(of.first()?, begin);
            Some((class, (of.len(), with_costs(beliefs.into_iter(), &of))))
        });
        let overall = (0..ratings.arms).map(|arm| ratings.overall(arm));
        let overall = with_costs(overall, &questions.iter().collect::<Vec<_>>());
        ClassTable { classes, overall, by_class: by_class.collect() }
    }

    /// From all answers of the first half.
    #[must_use]
    pub fn full(questions: &Questions, classes: Classes, begin: Begin) -> ClassTable {
        let half = &questions.halves[0];
        ClassTable::new(&Ratings::of_all(classes, questions.models.len(), half.iter()), begin, half)
    }

    /// What is expected of each model.
    #[must_use]
    pub fn expected(&self, question: &Question) -> &[Means] {
        self.by_class.get(&self.classes.of(question)).map_or(&self.overall, |(_, means)| means)
    }

    /// The choice where a dollar has to buy this quality.
    #[must_use]
    pub fn choice(&self, question: &Question, quality_per_dollar: f64) -> usize {
        let expected = self.expected(question);
        arm_with_most(0..expected.len(), |arm| expected[arm].quality - quality_per_dollar * expected[arm].dollars)
    }

    /// The second half under a pace that begins with the first one.
    #[must_use]
    pub fn paced(&self, questions: &Questions, ceiling: f64) -> Means {
        let Some(mut pace) = pace(ceiling) else { return Means::default() };
        let mut dice = Dice::new(38, 3);
        _ = self.under(&mut pace, shuffled(&questions.halves[0], 2, &mut dice).into_iter());
        mean(self.under(&mut pace, shuffled(&questions.halves[1], TURNS, &mut dice).into_iter()).into_iter())
    }

    /// Answers to questions under a pace.
    pub fn under<'q>(&self, pace: &mut SpendPace, questions: impl Iterator<Item = &'q Question>) -> Vec<Means> {
        let one = |question: &Question| {
            let arm = self.choice(question, pace.quality_per_dollar());
            let answer = question.answers[arm];
            pay(pace, self.expected(question)[arm].dollars, answer.dollars);
            Means { quality: answer.quality, dollars: answer.dollars }
        };
        questions.map(one).collect()
    }

    /// What mixes of the choices at all prices of quality come to on the second half.
    #[must_use]
    pub fn frontier(&self, questions: &Questions) -> Mixes {
        let prices = (-20..=140).map(|step| libm::exp(f64::from(step) * 0.1)).chain([0.0]);
        Mixes::new(prices.map(|price| means(&questions.halves[1], |of| self.choice(of, price))).collect())
    }

    /// The second half with one model for each class, so that the most quality is had on the first half within a budget; `None` if
    /// nothing is within it. Costs are rounded up, so the budget holds.
    #[must_use]
    pub fn fixed(&self, questions: &Questions, budget: f64) -> Option<Means> {
        let total = budget * questions.halves[0].len() as f64;
        let mut best = BTreeMap::from([(0_u32, (0.0, Vec::new()))]);
        for (count, expected) in self.by_class.values() {
            best = with_class(&best, *count as f64, expected, total);
        }
        let (_, chosen) = best.into_values().next_back()?;
        let chosen: BTreeMap<&usize, usize> = self.by_class.keys().zip(chosen).collect();
        let within = |arm: &usize| self.overall[*arm].dollars <= budget;
        let other = arm_with_most(questions.arms().filter(within), |arm| self.overall[arm].quality);
        let choice = |question: &Question| chosen.get(&self.classes.of(question)).copied().unwrap_or(other);
        Some(means(&questions.halves[1], choice))
    }
}

/// The best value for each amount of money, with one more class: no amount is worth less than a lesser one.
fn with_class(best: &Best, count: f64, expected: &[Means], total: f64) -> Best {
    let mut next = Best::new();
    for (spent, (value, path)) in best {
        for (arm, means) in expected.iter().enumerate() {
            let spent = spent + (count * means.dollars / total * GRID - 1e-9).ceil().min(1e9) as u32;
            let value = value + count * means.quality;
            if f64::from(spent) <= GRID && next.get(&spent).is_none_or(|(known, _)| value > known + 1e-12) {
                next.insert(spent, (value, [path.as_slice(), &[arm]].concat()));
            }
        }
    }
    let mut most = f64::NEG_INFINITY;
    next.retain(|_, (value, _)| {
        let is_better = *value > most + 1e-12;
        most = most.max(*value);
        is_better
    });
    next
}

type Best = BTreeMap<u32, (f64, Vec<usize>)>;

fn with_costs(beliefs: impl Iterator<Item = Posterior>, questions: &[&Question]) -> Vec<Means> {
    let count = questions.len().max(1) as f64;
    let dollars = |arm: usize| questions.iter().map(|question| question.answers[arm].dollars).sum::<f64>() / count;
    (0..).zip(beliefs).map(|(arm, belief)| Means { quality: belief.mean(), dollars: dollars(arm) }).collect()
}

/// A pace of so many dollars a call.
pub fn pace(ceiling: f64) -> Option<SpendPace> {
    SpendPace::new(pointsman_domain::Usd::from_f64(ceiling * 1000.0)?)
}

/// Charges a call and settles it at once.
pub fn pay(pace: &mut SpendPace, expected: f64, paid: f64) {
    pace.charge(expected);
    pace.settle(expected, pointsman_domain::Usd::from_f64(paid).map_or(CallEnd::Unknown, CallEnd::Paid));
}

/// The questions, so many times, each time in another order.
pub fn shuffled<'q>(questions: &'q [Question], turns: usize, dice: &mut Dice) -> Vec<&'q Question> {
    let mut all = Vec::with_capacity(questions.len() * turns);
    for _ in 0..turns {
        let mut order: Vec<&Question> = questions.iter().collect();
        for at in (1..order.len()).rev() {
            order.swap(at, dice.below(at + 1));
        }
        all.append(&mut order);
    }
    all
}
