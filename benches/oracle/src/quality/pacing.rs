//! Whether the spend pace keeps to its ceiling, and what that costs in quality.

use super::{
    questions::{Answer, Question, Questions, mean},
    table::{ClassTable, pace, shuffled},
};
use crate::{dice::Dice, sheet::Sheet};
use pointsman_routing::spend_pace::{CallEnd, SpendPace};

/// Calls of a run. A mean of fewer says little: one answer of BFCL costs as much as a hundred others.
pub const CALLS: usize = 4_000;
/// Ceilings between the cheapest model and the best one.
pub const CEILINGS: u32 = 7;

/// What a pace is put through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// None.
    None,
    /// What is paid doubles midway; what is expected does not.
    Doubled,
    /// A tenth of the costs never become known.
    Unknown,
    /// Costs become known a hundred calls later.
    Late,
}

/// What one run came to, in ceilings a call where it is money.
#[derive(Debug, Clone)]
pub struct Kept {
    /// Mean cost, less 1.
    pub off: f64,
    /// The same where what never becomes known counts as expected: what a pace can see.
    pub seen_off: f64,
    /// Mean quality, less that of the best mix of class tables at the same cost.
    pub lost: f64,
    /// Mean quality.
    pub quality: f64,
    /// Mean cost of the first 10 and the first 100 calls.
    pub early: [f64; 2],
    /// Whether the ceiling is above what is spent without a pace.
    pub is_idle: bool,
    /// Whether no choice is as cheap as the ceiling by the end.
    pub is_out_of_reach: bool,
}

/// Evenly spaced ratios from the cheapest model to the best, both left out.
#[must_use]
pub fn ceilings(questions: &Questions) -> Vec<f64> {
    let singles = questions.singles(0);
    let [low, high] = questions.cheapest_and_best().map(|arm| singles[arm].dollars);
    let steps = f64::from(CEILINGS + 1);
    (1..=CEILINGS).map(|step| low * libm::pow(high / low, f64::from(step) / steps)).collect()
}

/// One run on the second half with a table from the first, from a pace without calls.
#[must_use]
pub fn kept(questions: &Questions, table: &ClassTable, ceiling: f64, trouble: Trouble) -> Kept {
    let mut dice = Dice::new(38, 5);
    let half = &questions.halves[1];
    let order = shuffled(half, CALLS.div_ceil(half.len()), &mut dice);
    let (answers, seen) = run(&order[..CALLS], table, ceiling, trouble, &mut dice);
    let means = mean(answers.iter().map(|answer| super::Means { quality: answer.quality, dollars: answer.dollars }));
    let spent = |calls: usize| answers.iter().take(calls).map(|answer| answer.dollars).sum::<f64>() / calls as f64;
    let frontier = table.frontier(questions);
    let dearer = if trouble == Trouble::Doubled { 2.0 } else { 1.0 };
    Kept {
        off: means.dollars / ceiling - 1.0,
        seen_off: seen / CALLS as f64 / ceiling - 1.0,
        lost: means.quality - frontier.quality_at(means.dollars),
        quality: means.quality,
        early: [10, 100].map(|calls| spent(calls) / ceiling),
        is_idle: super::questions::means(half, |question| table.choice(question, 0.0)).dollars < ceiling,
        is_out_of_reach: frontier.least_dollars() * dearer > ceiling,
    }
}

/// The answers, and the dollars that the pace can see.
fn run(order: &[&Question], table: &ClassTable, ceiling: f64, trouble: Trouble, dice: &mut Dice) -> (Vec<Answer>, f64) {
    let Some(mut pace) = pace(ceiling) else { return Default::default() };
    let mut seen = 0.0;
    let mut under_way = std::collections::VecDeque::new();
    let late = if trouble == Trouble::Late { 100 } else { 0 };
    let mut answers = Vec::with_capacity(order.len());
    for (call, question) in order.iter().enumerate() {
        let arm = table.choice(question, pace.quality_per_dollar());
        let expected = table.expected(question)[arm].dollars;
        let mut answer = question.answers[arm];
        if trouble == Trouble::Doubled && call >= order.len() / 2 {
            answer.dollars *= 2.0;
        }
        pace.charge(expected);
        let is_unknown = trouble == Trouble::Unknown && dice.uniform() < 0.1;
        under_way.push_back((expected, (!is_unknown).then_some(answer.dollars)));
        seen += if is_unknown { expected } else { answer.dollars };
        answers.push(answer);
        if under_way.len() > late
            && let Some(ended) = under_way.pop_front()
        {
            settle(&mut pace, ended);
        }
    }
    (answers, seen)
}

fn settle(pace: &mut SpendPace, (expected, paid): (f64, Option<f64>)) {
    let paid = paid.and_then(pointsman_domain::Usd::from_f64);
    pace.settle(expected, paid.map_or(CallEnd::Unknown, CallEnd::Paid));
}

/// The table of one set.
#[must_use]
pub fn sheet(questions: &Questions, table: &ClassTable) -> Sheet {
    let title = format!("{}: spend pace, {CALLS} calls from a start without any, by ceiling", questions.name);
    let header = [
        "$ per 1k",
        "mean cost, off by",
        "quality",
        "to the best mix of tables at that cost",
        "first 10 calls, of the ceiling",
        "first 100",
        "prices double midway: off by",
        "a tenth of costs unknown",
        "of what is seen",
        "costs 100 calls late",
    ];
    let mut sheet = Sheet::new(title, header);
    for ceiling in ceilings(questions) {
        let run = |trouble| kept(questions, table, ceiling, trouble);
        let calm = run(Trouble::None);
        let off = |kept: &Kept| match kept {
            Kept { is_out_of_reach: true, .. } => "out of reach".to_owned(),
            Kept { is_idle: true, .. } => "not reached".to_owned(),
            Kept { off, .. } => format!("{:+.2} %", off * 100.0),
        };
        let unknown = run(Trouble::Unknown);
        sheet.row([
            format!("{:.3}", ceiling * 1000.0),
            off(&calm),
            format!("{:.4}", calm.quality),
            format!("{:+.4}", calm.lost),
            format!("{:.2}", calm.early[0]),
            format!("{:.2}", calm.early[1]),
            off(&run(Trouble::Doubled)),
            off(&unknown),
            off(&Kept { off: unknown.seen_off, ..unknown }),
            off(&run(Trouble::Late)),
        ]);
    }
    sheet
}
