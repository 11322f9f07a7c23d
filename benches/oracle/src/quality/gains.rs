//! What a choice between two models gains by class and length of questions, on the answers of two public repositories.
//!
//! Gains are learnt from one half of the questions, and the other half is judged, over random halves. Among two models of different
//! price the share of the quality gap that is recovered counts, and the share of calls of the strong model that this takes. Where one
//! model is better and cheaper, nothing can be gained.

use super::{
    DRAWN_TO_MEAN, dominance,
    questions::{Means, Question, Questions, mean, means, oracle},
    sources::Source,
    table::{Begin, ClassTable, Classes, shuffled},
};
use crate::{dice::Dice, sheet::Sheet};

/// Random halves of the questions.
const HALVES: u64 = 40;
/// Shares of the gap for which strong calls are counted.
const GAPS: [f64; 4] = [0.5, 0.8, 0.95, 1.0];
/// Characters above which a prompt is of middle length, and long.
const LENGTHS: [f64; 2] = [300.0, 1_000.0];
/// A class whose answers the source did not read: the strong model is right in 3 % of it, the weak one in 32 %.
const UNREADABLE: &str = "high_school_mathematics";
/// Classes that are no `general` ones, in groups as a client might name them.
const COARSE: [&str; 4] = [
    "gsm8k abstract_algebra college_mathematics econometrics elementary_mathematics formal_logic high_school_statistics",
    "college_computer_science computer_security high_school_computer_science machine_learning",
    "anatomy astronomy clinical_knowledge college_biology college_chemistry college_medicine college_physics \
     conceptual_physics electrical_engineering high_school_biology high_school_chemistry high_school_physics human_aging \
     medical_genetics nutrition professional_medicine virology",
    "high_school_european_history high_school_us_history high_school_world_history international_law jurisprudence \
     logical_fallacies moral_disputes moral_scenarios philosophy prehistory professional_law world_religions",
];

/// What is known of a question when the model is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Known {
    Nothing,
    Detected,
    Coarse,
    Given,
    Answers,
}

/// The rows: name, class, and whether the length is known, too.
const ROWS: [(&str, Known, bool); 8] = [
    ("random mix", Known::Nothing, false),
    ("detected classes", Known::Detected, false),
    ("three prompt lengths", Known::Nothing, true),
    ("detected classes × three lengths", Known::Detected, true),
    ("five coarse classes, given", Known::Coarse, false),
    ("five given classes × three lengths", Known::Coarse, true),
    ("all given classes", Known::Given, false),
    ("oracle", Known::Answers, false),
];

/// How much of the gap between two models a way to choose recovers, as means over the halves.
#[derive(Debug, Clone, PartialEq)]
pub struct Gain {
    /// Who decides which question goes to the strong model.
    pub name: &'static str,
    /// Mean share of the gap that is recovered, over all shares of strong calls, and its standard deviation.
    pub apgr: [f64; 2],
    /// Shares of strong calls for half of the gap, 80, 95 and 100 % of it.
    pub strong_calls: [f64; 4],
    /// Share of the questions for which another model is called if their prompts have typos, where half of the calls are strong.
    pub mistyped: f64,
}

/// The source less what cannot be read in it.
#[must_use]
pub fn readable(routellm: Source) -> Source {
    routellm.without(UNREADABLE)
}

/// Every way to choose between the weak and the strong model of a source.
#[must_use]
pub fn gains(source: &Source) -> Vec<Gain> {
    let coarse: Vec<usize> = source.classes.iter().map(|class| coarse(class)).collect();
    let gain = |(name, known, by_length): (&'static str, Known, bool)| {
        let class = |question: &Question| match known {
            Known::Nothing | Known::Answers => 0,
            Known::Detected => question.task as usize,
            Known::Coarse => coarse[question.class],
            Known::Given => question.class,
        };
        let classed = |question: &Question| Question { class: class(question), ..question.clone() };
        let classed = Source { questions: source.questions.iter().map(classed).collect(), ..source.clone() };
        let classes = Classes { given: true, lengths: by_length.then_some(LENGTHS) };
        let halves: Vec<Recovered> = halves(&classed).map(|half| recovered(&half, known, classes)).collect();
        let of = |figure: &dyn Fn(&Recovered) -> f64| average(halves.iter().map(figure));
        let apgr = of(&|half| half.apgr);
        let square = |half: &Recovered| (half.apgr - apgr) * (half.apgr - apgr);
        let deviation = (of(&square) * HALVES as f64 / (HALVES - 1) as f64).sqrt();
        let strong_calls = [0, 1, 2, 3].map(|gap: usize| of(&|half| half.strong_calls[gap]));
        Gain { name, apgr: [apgr, deviation], strong_calls, mistyped: of(&|half| half.mistyped) }
    };
    ROWS.into_iter().map(gain).collect()
}

fn coarse(class: &str) -> usize {
    COARSE.into_iter().position(|group| group.split_whitespace().any(|name| name == class)).unwrap_or(COARSE.len())
}

/// The source cut in two at random, again and again.
fn halves(source: &Source) -> impl Iterator<Item = Questions> {
    (0..HALVES).map(|seed| {
        let all: Vec<Question> = shuffled(&source.questions, 1, &mut Dice::new(seed, 6)).into_iter().cloned().collect();
        let (learnt, judged) = all.split_at(all.len() / 2);
        source.halves([learnt.to_vec(), judged.to_vec()])
    })
}

struct Recovered {
    apgr: f64,
    strong_calls: [f64; 4],
    mistyped: f64,
}

/// One half is learnt from; on the other the strong model is called where it is expected to gain most.
fn recovered(questions: &Questions, known: Known, classes: Classes) -> Recovered {
    let table = ClassTable::full(questions, classes, Begin::Model(DRAWN_TO_MEAN));
    let gained = |question: &Question| question.answers[1].quality - question.answers[0].quality;
    let expected = |question: &Question| {
        let expected = table.expected(question);
        if known == Known::Answers { gained(question) } else { expected[1].quality - expected[0].quality }
    };
    let mut order: Vec<(f64, f64)> =
        questions.halves[1].iter().map(|question| (expected(question), gained(question))).collect();
    // Questions of which the same is expected stay in their random order.
    order.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let least = order[order.len() / 2].0;
    let is_changed = |question: &&Question| {
        let mistyped = mistyped(question, known);
        known != Known::Answers && (expected(question) >= least) != (expected(&mistyped) >= least)
    };
    let changed = questions.halves[1].iter().filter(is_changed).count() as f64 / order.len() as f64;
    Recovered { mistyped: changed, ..of_gap(order.into_iter().map(|(_, gained)| gained)) }
}

/// The question as it looks with typos in its prompt.
fn mistyped(question: &Question, known: Known) -> Question {
    let (task, length) = question.mistyped.unwrap_or((question.task, question.length));
    let class = if known == Known::Detected { task as usize } else { question.class };
    Question { class, length, ..question.clone() }
}

/// From gains in the order of the strong calls.
fn of_gap(gains: impl Iterator<Item = f64> + Clone) -> Recovered {
    let gap: f64 = gains.clone().sum();
    let mut sum = 0.0;
    let shares = gains.map(|gain| {
        sum += gain;
        sum / gap
    });
    let shares: Vec<f64> = std::iter::once(0.0).chain(shares).collect();
    let calls = (shares.len() - 1) as f64;
    // A sum of many parts may miss the whole by a rounding.
    let reaching = |share: f64| shares.iter().position(|reached| *reached >= share - 1e-9);
    let strong_calls = GAPS.map(|share| reaching(share).map_or(1.0, |at| at as f64 / calls));
    Recovered { apgr: average(shares.into_iter()), strong_calls, mistyped: 0.0 }
}

fn average(figures: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = figures.len() as f64;
    figures.sum::<f64>() / count
}

/// What single models, a class table and the oracle come to where dollars are known, and whether one model dominates.
#[derive(Debug, Clone)]
pub struct Priced {
    /// By name.
    pub rows: Vec<(String, Means)>,
    /// The sentence, if one does.
    pub dominance: Option<String>,
}

/// Judges a source with dollars.
#[must_use]
pub fn priced(source: &Source) -> Priced {
    let all = &source.questions;
    let mut rows: Vec<(String, Means)> =
        (0..).zip(source.models).map(|(arm, model)| (model.to_owned(), means(all, |_| arm))).collect();
    let by_class = halves(source).map(|half| {
        let table = ClassTable::full(&half, Classes::GIVEN, Begin::Model(DRAWN_TO_MEAN));
        means(&half.halves[1], |question| table.choice(question, 0.0))
    });
    rows.push((format!("best model of each of {} given classes", source.classes.len()), mean(by_class)));
    rows.push(("oracle".to_owned(), oracle(all)));
    Priced { rows, dominance: dominance(&source.halves([all.clone(), all.clone()])) }
}

/// Both tables.
#[must_use]
pub fn sheets(routellm: Source, routerarena: &Source) -> [Sheet; 2] {
    [gap_sheet(&readable(routellm)), priced_sheet(routerarena)]
}

fn gap_sheet(source: &Source) -> Sheet {
    let shown = |share: f64| format!("{:.1} %", 100.0 * share);
    let single = |arm: usize| means(&source.questions, |_| arm).quality;
    let ahead: Vec<&str> = (0..)
        .zip(&source.classes)
        .filter(|(class, _)| {
            let of = source.questions.iter().filter(|question| question.class == *class);
            of.map(|question| question.answers[1].quality - question.answers[0].quality).sum::<f64>() < 0.0
        })
        .map(|(_, class)| class.as_str())
        .collect();
    let title = format!(
        "{}: {} questions without {UNREADABLE}; weak {}, strong {}, either {}. The weak model is ahead in {}.",
        source.name,
        source.questions.len(),
        shown(single(0)),
        shown(single(1)),
        shown(oracle(&source.questions).quality),
        if ahead.is_empty() { "no class".to_owned() } else { ahead.join(", ") },
    );
    let header = ["who decides which question goes to the strong model", "APGR (sd)"];
    let gaps = ["strong calls for 50 %", "80 %", "95 %", "100 % of the gap", "changed by typos"];
    let mut sheet = Sheet::new(title, header.into_iter().chain(gaps));
    for Gain { name, apgr: [apgr, deviation], strong_calls, mistyped } in gains(source) {
        let apgr = format!("{apgr:.3} ({deviation:.3})");
        sheet.row([name.to_owned(), apgr].into_iter().chain(strong_calls.map(shown)).chain([shown(mistyped)]));
    }
    sheet
}

fn priced_sheet(source: &Source) -> Sheet {
    let Priced { rows, dominance } = priced(source);
    let best = rows[..source.models.len()]
        .iter()
        .map(|(_, means)| *means)
        .max_by(|one, other| one.quality.total_cmp(&other.quality));
    let best = best.unwrap_or_default();
    let title = format!("{}: {} questions. {}", source.name, source.questions.len(), dominance.unwrap_or_default());
    let mut sheet = Sheet::new(title, ["who decides", "quality", "$ per 1k", "saved at the quality of the best model"]);
    for (name, means) in rows {
        // Plus 0: a small loss is no "-0".
        let saved = (100.0 * (1.0 - means.dollars / best.dollars)).round() + 0.0;
        let saved = if means.quality < best.quality { "–".to_owned() } else { format!("{saved} %") };
        let dollars = format!("{:.4}", 1_000.0 * means.dollars);
        sheet.row([name, format!("{:.1} %", 100.0 * means.quality), dollars, saved]);
    }
    sheet
}
