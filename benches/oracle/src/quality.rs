//! What routing by quality is worth on real answers: sets of questions that every model answered, so that quality and cost of
//! every policy are known.
//!
//! [`questions`] are read from tables. [`table`] learns the quality of models by class from the first half, with the product's own
//! beliefs, and is judged on the second under the product's own spend pace; beside it are single models, random mixes of them, a
//! [`cascade`] and the oracle. [`pacing`] asks whether the pace keeps its ceiling, [`learning`] how soon ratings tell enough.
//! [`gains`] is the same question asked of two repositories ([`sources`]) by classes and lengths alone.

pub mod cascade;
pub mod gains;
pub mod learning;
pub mod pacing;
pub mod questions;
pub mod sources;
pub mod table;

use self::{
    cascade::Pairs,
    questions::{Means, Mixes, Questions, means, oracle},
    table::{Begin, ClassTable, Classes, Ratings},
};
use crate::sheet::Sheet;

/// Budgets, as shares of what the best single model costs on the first half.
pub const BUDGETS: [f64; 3] = [0.05, 0.2, 0.6];
/// Answers by which a class is drawn to its model's mean: as many as the product gives a score at most.
const DRAWN_TO_MEAN: f64 = 20.0;
/// The same, and more. Which is best is found within the first half.
const STRENGTHS: [f64; 3] = [DRAWN_TO_MEAN, 50.0, 200.0];
/// Parts of the first half that take turns for that.
const PARTS: usize = 5;
/// Draws of which answers are rated: one alone can be lucky.
const DRAWS: u64 = 5;
/// Budgets that are tried for the cost of the best single model's quality, from the cost of the cheapest model on by equal factors.
const BUDGETS_TRIED: u32 = 24;
/// Shares of right and of wrong answers that an imagined verifier accepts.
const IMAGINED: [[f64; 2]; 4] = [[0.9, 0.1], [0.9, 0.3], [0.7, 0.1], [0.7, 0.3]];
/// Shares of answers that are rated.
const RATED: [f64; 2] = [learning::RATED, 0.2];

/// Tables by which a set is judged, in their order, with the file that they come from and the models that take part; none: all.
pub const SETS: [(&str, &str, &str); 4] = [
    ("ParetoBandit", "paretobandit.csv.gz", ""),
    ("RouterBench", "routerbench.csv.gz", ""),
    (
        "BFCL, one mode",
        "bfcl.csv.gz",
        "claude-3-5-sonnet-20240620 claude-3-haiku-20240307 claude-3-opus-20240229 claude-3-sonnet-20240229 command-r-plus \
         gemini-1.0-pro gemini-1.5-flash-preview-0514 gemini-1.5-pro-preview-0514 gpt-3.5-turbo-0125-FC gpt-4-0125-preview \
         gpt-4-0613 gpt-4-1106-preview gpt-4-turbo-2024-04-09 gpt-4o-2024-05-13-FC gpt-4o-2024-08-06-FC \
         gpt-4o-mini-2024-07-18 mistral-large-2407-FC-Any mistral-small-2402 open-mistral-nemo-2407-FC-Auto \
         open-mixtral-8x22b open-mixtral-8x7b yi-large-fc",
    ),
    (
        "BFCL, two modes",
        "bfcl.csv.gz",
        "gpt-3.5-turbo-0125 gpt-3.5-turbo-0125-FC gpt-4-0125-preview gpt-4-0125-preview-FC gpt-4-0613 gpt-4-0613-FC \
         gpt-4-1106-preview gpt-4-1106-preview-FC gpt-4-turbo-2024-04-09 gpt-4-turbo-2024-04-09-FC gpt-4o-2024-05-13 \
         gpt-4o-2024-05-13-FC gpt-4o-2024-08-06 gpt-4o-2024-08-06-FC gpt-4o-mini-2024-07-18 gpt-4o-mini-2024-07-18-FC \
         claude-3-5-sonnet-20240620 claude-3-haiku-20240307 claude-3-opus-20240229 claude-3-sonnet-20240229 \
         gemini-1.5-flash-preview-0514 gemini-1.5-pro-preview-0514",
    ),
];

/// One policy on the second half.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// What it is.
    pub name: String,
    /// Quality and dollars.
    pub means: Means,
    /// Quality of the best random mix of single models at this cost.
    pub mix: f64,
    /// Least dollars at which this kind of policy has the best single model's quality.
    pub at_best: Option<f64>,
    /// Mean share of the quality between the cheapest and the best single model that this kind of policy has, over the budgets tried.
    pub apgr: Option<f64>,
    /// Share of the answers that are not the best single model's.
    pub moved: Option<f64>,
}

/// All policies on one set, and what there is to say of it.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// In order.
    pub judged: Vec<Judged>,
    /// Sentences.
    pub remarks: Vec<String>,
    /// Answers by which classes are drawn to their model's mean.
    pub strength: f64,
}

/// Judges all policies on one set.
#[must_use]
pub fn judge(questions: &Questions) -> Verdict {
    let half = &questions.halves[1];
    let singles = questions.singles(1);
    let mixes = Mixes::new(singles.clone());
    let [cheapest, best] = questions.cheapest_and_best();
    let strength = strength(questions);
    let mut judged = Vec::new();
    let mut add = |name: String, means: Means, [at_best, apgr, moved]: [Option<f64>; 3]| {
        judged.push(Judged { name, means, mix: mixes.quality_at(means.dollars), at_best, apgr, moved });
    };
    let top = singles[best].quality;
    let reached = |means: Means| (means.quality >= top).then_some(means.dollars);
    let single = |arm: usize| [reached(singles[arm]), None, Some(f64::from(u8::from(arm != best)))];
    add(format!("cheapest single: {}", questions.models[cheapest]), singles[cheapest], single(cheapest));
    add(format!("best single: {}", questions.models[best]), singles[best], single(best));
    let kinds = kinds(questions, strength);
    let swept: Vec<[Option<f64>; 2]> = kinds.iter().map(|kind| swept(questions, &kind.policy)).collect();
    let [_, apgr_of_mix] = swept_mix(questions, &mixes);
    let elsewhere = elsewhere(questions, best);
    for share in BUDGETS {
        let budget = share * questions.singles(0)[best].dollars;
        let title = format!("{:.0} % ({:.3})", share * 100.0, budget * 1000.0);
        if let Some(arm) = best_within(questions, budget) {
            add(format!("{title}: single {}", questions.models[arm]), singles[arm], single(arm));
        }
        let mix = Means { quality: mixes.quality_at(budget), dollars: budget };
        add(format!("{title}: random mix of singles"), mix, [mixes.dollars_at(top), apgr_of_mix, None]);
        for (kind, [at_best, apgr]) in kinds.iter().zip(&swept) {
            let Some(means) = (kind.policy)(questions, budget) else { continue };
            let moved = (kind.policy)(&elsewhere, budget).map(|means| means.quality);
            add(format!("{title}: {}", kind.name), means, [*at_best, *apgr, moved]);
        }
    }
    let oracle = oracle(half);
    add("oracle".to_owned(), oracle, [reached(oracle), None, None]);
    Verdict { judged, remarks: remarks(questions, strength), strength }
}

/// The same questions, where an answer is good if it is not the best single model's: no policy sees that before it has chosen.
fn elsewhere(questions: &Questions, best: usize) -> Questions {
    let mut elsewhere = questions.clone();
    for question in &mut elsewhere.halves[1] {
        let answers = question.answers.iter_mut().enumerate();
        answers.for_each(|(arm, answer)| answer.quality = f64::from(u8::from(arm != best)));
    }
    elsewhere
}

/// What it comes to on the second half of these questions with a budget for each call.
type Policy<'q> = Box<dyn Fn(&Questions, f64) -> Option<Means> + 'q>;

/// A kind of policy, learnt on the first half.
struct Kind<'q> {
    name: String,
    policy: Policy<'q>,
}

fn kinds<'q>(questions: &'q Questions, strength: f64) -> Vec<Kind<'q>> {
    let mut kinds = Vec::new();
    let mut add = |name: String, policy: Policy<'q>| kinds.push(Kind { name, policy });
    let fixed = ClassTable::full(questions, Classes::GIVEN, Begin::Model(STRENGTHS[0]));
    add("one model for each given class".to_owned(), Box::new(move |on, budget| fixed.fixed(on, budget)));
    for (name, classes) in Classes::all(questions) {
        let table = ClassTable::full(questions, classes, Begin::Model(strength));
        add(format!("paced table, {name}"), Box::new(move |on, budget| Some(table.paced(on, budget))));
    }
    for share in RATED {
        let rated = |seed| {
            let ratings = Ratings::of_some(Classes::GIVEN, questions, [share, learning::WRONG], seed);
            ClassTable::new(&ratings, Begin::Model(STRENGTHS[0]), &questions.halves[0])
        };
        let rated: Vec<ClassTable> = (0..DRAWS).map(rated).collect();
        let name = format!("paced table, given classes, {:.0} % of answers rated", share * 100.0);
        let paced = move |on: &Questions, budget| rated.iter().map(|table| table.paced(on, budget)).collect::<Vec<_>>();
        add(name, Box::new(move |on, budget| Some(questions::mean(paced(on, budget).into_iter()))));
    }
    if questions.halves[0].iter().any(|question| question.answers.iter().any(|answer| answer.fault > 0)) {
        add("cascade on visible faults".to_owned(), cascade(questions, cascade::visible));
    }
    for [right, wrong] in IMAGINED {
        let name = format!(
            "imagined verifier, accepts {:.0} % of right and {:.0} % of wrong answers",
            right * 100.0,
            wrong * 100.0
        );
        add(name, cascade(questions, move |question, arm| cascade::imagined(question, arm, [right, wrong])));
    }
    kinds
}

fn cascade<'q>(questions: &'q Questions, accepts: impl Fn(&questions::Question, usize) -> f64 + 'q) -> Policy<'q> {
    let pairs = Pairs::new(questions, &accepts);
    Box::new(move |on, budget| {
        let pair = pairs.best(budget)?;
        Some(cascade::outcome(&questions.halves[1], &on.halves[1], pair, &accepts))
    })
}

/// A kind of policy under the budgets tried: the least that it spends on the second half for the quality of the best single model,
/// and the mean share of the quality between the cheapest and the best one that it has.
fn swept(questions: &Questions, policy: &Policy<'_>) -> [Option<f64>; 2] {
    let (singles, on) = (questions.singles(0), questions.singles(1));
    let [cheapest, best] = questions.cheapest_and_best();
    let [low, high] = [cheapest, best].map(|arm| singles[arm].dollars);
    let [bottom, top] = [cheapest, best].map(|arm| on[arm].quality);
    let budgets =
        (1..=BUDGETS_TRIED).map(|step| low * libm::pow(high / low, f64::from(step) / f64::from(BUDGETS_TRIED)));
    // Where nothing is within a budget, the cheapest model is all there is.
    let swept: Vec<Means> = budgets.map(|budget| policy(questions, budget).unwrap_or(on[cheapest])).collect();
    let reached = swept.iter().filter(|means| means.quality >= top).map(|means| means.dollars);
    let shares = swept.iter().map(|means| (means.quality - bottom) / (top - bottom));
    let apgr = shares.sum::<f64>() / f64::from(BUDGETS_TRIED);
    [reached.min_by(f64::total_cmp), apgr.is_finite().then_some(apgr)]
}

fn swept_mix(questions: &Questions, mixes: &Mixes) -> [Option<f64>; 2] {
    let mix = |_: &Questions, dollars| Some(Means { quality: mixes.quality_at(dollars), dollars });
    swept(questions, &(Box::new(mix) as Policy<'_>))
}

/// The best single model within a budget on the first half.
fn best_within(questions: &Questions, budget: f64) -> Option<usize> {
    let singles = questions.singles(0);
    let within: Vec<usize> = questions.arms().filter(|arm| singles[*arm].dollars <= budget).collect();
    (!within.is_empty()).then(|| questions::arm_with_most(within.into_iter(), |arm| singles[arm].quality))
}

/// The strength with the best tables where each part of the first half is judged by the others.
fn strength(questions: &Questions) -> f64 {
    let half = &questions.halves[0];
    let without = |part: usize| {
        let numbered = || half.iter().enumerate();
        let learnt = numbered().filter(|(at, _)| at % PARTS != part).map(|(_, question)| question.clone());
        let judged = numbered().filter(|(at, _)| at % PARTS == part).map(|(_, question)| question.clone());
        Questions { halves: [learnt.collect(), judged.collect()], ..questions.clone() }
    };
    let parts: Vec<Questions> = (0..PARTS).map(without).collect();
    let gain_of = |part: &Questions, strength: f64| -> f64 {
        let table = ClassTable::full(part, Classes::GIVEN, Begin::Model(strength)).frontier(part);
        let mixes = Mixes::new(part.singles(1));
        let best = part.singles(0)[part.cheapest_and_best()[1]].dollars;
        BUDGETS.iter().map(|share| table.quality_at(share * best) - mixes.quality_at(share * best)).sum()
    };
    let gain = |strength: f64| parts.iter().map(|part| gain_of(part, strength)).sum::<f64>();
    STRENGTHS.into_iter().rev().max_by(|one, other| gain(*one).total_cmp(&gain(*other))).unwrap_or(STRENGTHS[0])
}

/// Where routing can save nothing, and where it can only lose.
fn remarks(questions: &Questions, strength: f64) -> Vec<String> {
    let [_, best] = questions.cheapest_and_best();
    let name = &questions.models[best];
    let mut remarks =
        vec![format!("A class is drawn to its model's mean by {strength:.0} answers, found within half 0.")];
    remarks.extend(dominance(questions));
    let table = ClassTable::full(questions, Classes::GIVEN, Begin::Model(strength));
    let chosen = |question: &questions::Question| table.choice(question, 0.0);
    if questions.halves[0].iter().all(|question| chosen(question) == best) {
        let quality = means(&questions.halves[1], |_| best).quality;
        remarks.push(format!(
            "{name} is the best in every class, so above its quality of {quality:.4} classes find nothing."
        ));
    }
    remarks
}

/// The sentence on a model that is the best and the cheapest on the first half, if there is one.
fn dominance(questions: &Questions) -> Option<String> {
    let [cheapest, best] = questions.cheapest_and_best();
    let name = questions.models.get(best).filter(|_| cheapest == best)?;
    Some(format!("One model dominates: {name} is the best and the cheapest, so routing can only lose money."))
}

/// The tables of all sets.
#[must_use]
pub fn sheets(sets: &[Questions]) -> Vec<Sheet> {
    let mut sheets = Vec::new();
    for questions in sets {
        let verdict = judge(questions);
        let title = format!(
            "{}: learnt on half 0 ({} questions), judged on half 1 ({}). {}",
            questions.name,
            questions.halves[0].len(),
            questions.halves[1].len(),
            verdict.remarks.join(" ")
        );
        let header = [
            "budget: policy",
            "quality",
            "$ per 1k",
            "above the random mix of singles",
            "$ at the best single's quality",
            "APGR",
            "share moved",
        ];
        let mut sheet = Sheet::new(title, header);
        for Judged { name, means, mix, at_best, apgr, moved } in &verdict.judged {
            let dollars = |dollars: f64| format!("{:.3}", dollars * 1000.0);
            sheet.row([
                name.clone(),
                format!("{:.4}", means.quality),
                dollars(means.dollars),
                format!("{:+.4}", means.quality - mix),
                at_best.map_or("–".to_owned(), dollars),
                apgr.map_or("–".to_owned(), |apgr| format!("{apgr:.3}")),
                moved.map_or("–".to_owned(), |moved| format!("{:.0} %", 100.0 * moved)),
            ]);
        }
        sheets.push(sheet);
        sheets.push(pacing::sheet(
            questions,
            &ClassTable::full(questions, Classes::GIVEN, Begin::Model(verdict.strength)),
        ));
    }
    sheets.push(learning::sheet(sets));
    sheets
}
