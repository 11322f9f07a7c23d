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
/// Budgets that are tried for the cost of the best single model's quality.
const BUDGETS_TRIED: u32 = 24;

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
    let mut add = |name: String, means: Means, at_best: Option<f64>| {
        judged.push(Judged { name, means, mix: mixes.quality_at(means.dollars), at_best });
    };
    let top = singles[best].quality;
    let reached = |means: Means| (means.quality >= top).then_some(means.dollars);
    add(format!("cheapest single: {}", questions.models[cheapest]), singles[cheapest], reached(singles[cheapest]));
    add(format!("best single: {}", questions.models[best]), singles[best], reached(singles[best]));
    let kinds = kinds(questions, strength);
    let at_best: Vec<Option<f64>> = kinds.iter().map(|kind| least_dollars(questions, kind, top)).collect();
    for share in BUDGETS {
        let budget = share * questions.singles(0)[best].dollars;
        let title = format!("{:.0} % ({:.3})", share * 100.0, budget * 1000.0);
        if let Some(single) = best_within(questions, budget) {
            let name = format!("{title}: single {}", questions.models[single]);
            add(name, singles[single], reached(singles[single]));
        }
        let mix = Means { quality: mixes.quality_at(budget), dollars: budget };
        add(format!("{title}: random mix of singles"), mix, mixes.dollars_at(top));
        for (kind, at_best) in kinds.iter().zip(&at_best) {
            let means = (kind.policy)(budget);
            means.into_iter().for_each(|means| add(format!("{title}: {}", kind.name), means, *at_best));
        }
    }
    let oracle = oracle(half);
    add("oracle".to_owned(), oracle, reached(oracle));
    Verdict { judged, remarks: remarks(questions, strength), strength }
}

/// A kind of policy: what it comes to on the second half with a budget for each call.
struct Kind<'q> {
    name: String,
    policy: Box<dyn Fn(f64) -> Option<Means> + 'q>,
}

fn kinds(questions: &Questions, strength: f64) -> Vec<Kind<'_>> {
    let mut kinds = Vec::new();
    let fixed = ClassTable::full(questions, Classes::GIVEN, Begin::Model(STRENGTHS[0]));
    let policy = Box::new(move |budget| fixed.fixed(questions, budget));
    kinds.push(Kind { name: "one model for each given class".to_owned(), policy });
    for (name, classes) in Classes::all(questions) {
        let table = ClassTable::full(questions, classes, Begin::Model(strength));
        let policy = Box::new(move |budget| Some(table.paced(questions, budget)));
        kinds.push(Kind { name: format!("paced table, {name}"), policy });
    }
    let rated = |seed| {
        let ratings = Ratings::of_some(Classes::GIVEN, questions, [learning::RATED, learning::WRONG], seed);
        ClassTable::new(&ratings, Begin::Model(STRENGTHS[0]), &questions.halves[0])
    };
    let rated: Vec<ClassTable> = (0..DRAWS).map(rated).collect();
    let policy =
        Box::new(move |budget| Some(questions::mean(rated.iter().map(|table| table.paced(questions, budget)))));
    kinds.push(Kind { name: "paced table, given classes, 5 % of answers rated".to_owned(), policy });
    if questions.halves[0].iter().any(|question| question.answers.iter().any(|answer| answer.fault > 0)) {
        let policy = Box::new(move |budget| cascade::best_pair(questions, budget).map(|(means, _)| means));
        kinds.push(Kind { name: "cascade on visible faults".to_owned(), policy });
    }
    kinds
}

/// The least of the budgets tried at which a kind of policy has this quality on the second half, as it is spent there.
fn least_dollars(questions: &Questions, kind: &Kind<'_>, quality: f64) -> Option<f64> {
    let singles = questions.singles(0);
    let [low, high] = questions.cheapest_and_best().map(|arm| singles[arm].dollars);
    let budgets =
        (1..=BUDGETS_TRIED).map(|step| low * libm::pow(high / low, f64::from(step) / f64::from(BUDGETS_TRIED)));
    let reached = budgets.filter_map(|budget| (kind.policy)(budget)).filter(|means| means.quality >= quality);
    reached.map(|means| means.dollars).min_by(f64::total_cmp)
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
        ];
        let mut sheet = Sheet::new(title, header);
        for Judged { name, means, mix, at_best } in &verdict.judged {
            let dollars = |dollars: f64| format!("{:.3}", dollars * 1000.0);
            sheet.row([
                name.clone(),
                format!("{:.4}", means.quality),
                dollars(means.dollars),
                format!("{:+.4}", means.quality - mix),
                at_best.map_or("–".to_owned(), dollars),
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
