//! Answers of several models to the same questions, as the repositories of RouteLLM and RouterArena hold them, and as figures
//! without text that are packed in this one.

use std::{
    collections::BTreeMap,
    error::Error,
    fmt::Write as _,
    io::Read as _,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use flate2::read::GzDecoder;
use pointsman_dialect::{ChatPurpose, ChatRequest, RequestLimits};
use pointsman_domain::{Task, TaskClass};
use serde_json::Value;

use super::questions::{Answer, Question, Questions};
use crate::dice::Dice;

/// The models of RouteLLM, the weaker one first.
const ROUTELLM_MODELS: [&str; 2] = ["mistralai/Mixtral-8x7B-Instruct-v0.1", "gpt-4-1106-preview"];
const MMLU: &str = "routellm/evals/mmlu/responses";
const GSM8K: &str = "routellm/evals/gsm8k/gsm8k_responses.csv";
/// The models of RouterArena whose scores and dollars are there.
const ROUTERARENA_MODELS: [&str; 2] = ["gemini-2.0-flash-001", "claude-3-haiku-20240307"];
const CACHED: &str = "cached_results";

/// What is packed of the two repositories; `answers/README.md` says what it is.
const PACKED: [&[u8]; 2] =
    [include_bytes!("../../answers/routellm.csv.gz"), include_bytes!("../../answers/routerarena.csv.gz")];

/// All questions of a source, with the classes that it gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Where it comes from.
    pub name: &'static str,
    /// Names of the models.
    pub models: [&'static str; 2],
    /// Names of the classes.
    pub classes: Vec<String>,
    /// The questions, all of them.
    pub questions: Vec<Question>,
}

impl Source {
    /// RouteLLM and RouterArena as they are packed.
    ///
    /// # Errors
    /// A packed line is not as [`Source::table`] writes it.
    pub fn packed() -> Result<[Source; 2], Box<dyn Error>> {
        let [routellm, routerarena] = PACKED.map(|packed| -> Result<String, Box<dyn Error>> {
            let mut table = String::new();
            GzDecoder::new(packed).read_to_string(&mut table)?;
            Ok(table)
        });
        Ok([
            Source::of_table("RouteLLM", ROUTELLM_MODELS, &routellm?)?,
            Source::of_table("RouterArena", ROUTERARENA_MODELS, &routerarena?)?,
        ])
    }

    /// A line for each question: its class, the class that the gateway detects and its characters, both without and with typos, and
    /// quality and dollars of each model. Without a prompt the four in the middle are those of an empty one.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = "class,detected,characters,mistyped,mistyped characters".to_owned();
        self.models.iter().for_each(|model| table += &format!(",{model}:q,{model}:usd"));
        for Question { class, task, length, mistyped, answers, .. } in &self.questions {
            let (mistyped, characters) = mistyped.unwrap_or((*task, *length));
            let (class, task, mistyped) = (&self.classes[*class], task.as_str(), mistyped.as_str());
            // Writing to a string cannot fail.
            _ = write!(table, "\n{class},{task},{length},{mistyped},{characters}");
            answers.iter().for_each(|answer| _ = write!(table, ",{},{}", answer.quality, answer.dollars));
        }
        table + "\n"
    }

    fn of_table(name: &'static str, models: [&'static str; 2], table: &str) -> Result<Source, Box<dyn Error>> {
        let (mut classes, mut questions): (Vec<String>, Vec<Question>) = (Vec::new(), Vec::new());
        for (number, line) in (2..).zip(table.lines().skip(1)) {
            let cells: Vec<&str> = line.split(',').collect();
            let wrong = || format!("{name}: line {number} is not as it was packed");
            let [class, task, length, mistyped, characters, figures @ ..] = cells.as_slice() else {
                return Err(wrong().into());
            };
            let (task, mistyped) = (Task::named(task).ok_or_else(wrong)?, Task::named(mistyped).ok_or_else(wrong)?);
            let figures: Vec<f64> = figures.iter().map(|cell| cell.parse()).collect::<Result<_, _>>()?;
            let answers: Vec<Answer> =
                figures.chunks_exact(2).map(|of| Answer { quality: of[0], dollars: of[1], fault: 0 }).collect();
            if answers.len() != models.len() {
                return Err(wrong().into());
            }
            let (class, length) = (position(&mut classes, class), length.parse()?);
            let mistyped = (length > 0.0).then_some((mistyped, characters.parse()?));
            questions.push(Question { class, task, length, mistyped, demands_call: false, answers });
        }
        Ok(Source { name, models, classes, questions })
    }

    /// The questions of the MMLU and of GSM8K, from a copy of `lm-sys/RouteLLM`. A file is a class; answers have no dollars.
    ///
    /// # Errors
    /// A file is missing, lacks a column, or holds something other than `True` and `False`.
    pub fn routellm(directory: &Path) -> Result<Source, Box<dyn Error>> {
        let responses = directory.join(MMLU);
        let entries = std::fs::read_dir(&responses).map_err(|error| format!("{}: {error}", responses.display()))?;
        let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "csv"));
        files.sort();
        files.push(directory.join(GSM8K));
        let (mut classes, mut questions) = (Vec::new(), Vec::new());
        for file in files {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy();
            let read = responses_of(&file, classes.len()).map_err(|error| format!("{}: {error}", file.display()))?;
            questions.extend(read);
            classes.push(stem.trim_start_matches("mmlu_").trim_end_matches("_responses").to_owned());
        }
        Ok(Source { name: "RouteLLM", models: ROUTELLM_MODELS, classes, questions })
    }

    /// The scores and dollars of a copy of `RouteWorks/RouterArena`. A class is the name of a question without its number.
    ///
    /// # Errors
    /// A file is missing, a line of it has no name, score or dollars, or a question has the answer of one model alone.
    pub fn routerarena(directory: &Path) -> Result<Source, Box<dyn Error>> {
        let mut answers: BTreeMap<String, Vec<Answer>> = BTreeMap::new();
        for model in ROUTERARENA_MODELS {
            let file = directory.join(CACHED).join(format!("{model}.jsonl"));
            let of_file = |what: &dyn std::fmt::Display| format!("{}: {what}", file.display());
            let text = std::fs::read_to_string(&file).map_err(|error| of_file(&error))?;
            for (number, line) in (1..).zip(text.lines()) {
                let (name, answer) = cached(line)
                    .ok_or_else(|| of_file(&format!("line {number} needs global_index, score and inference_cost")))?;
                answers.entry(name).or_default().push(answer);
            }
        }
        let (mut classes, mut questions) = (Vec::new(), Vec::new());
        for (name, answers) in answers {
            if answers.len() != ROUTERARENA_MODELS.len() {
                return Err(format!("RouterArena: {name} has {} answers", answers.len()).into());
            }
            let class = name.rsplit_once('_').map_or(&*name, |(class, _)| class);
            let class = position(&mut classes, class);
            questions.push(Question {
                class,
                task: Task::General,
                length: 0.0,
                mistyped: None,
                demands_call: false,
                answers,
            });
        }
        Ok(Source { name: "RouterArena", models: ROUTERARENA_MODELS, classes, questions })
    }

    /// Without the questions of a class.
    #[must_use]
    pub fn without(mut self, class: &str) -> Source {
        let classes = &self.classes;
        self.questions.retain(|question| classes[question.class] != class);
        self
    }

    /// As a set whose halves are these.
    #[must_use]
    pub fn halves(&self, halves: [Vec<Question>; 2]) -> Questions {
        Questions { name: self.name.to_owned(), models: self.models.map(str::to_owned).to_vec(), halves }
    }
}

/// Where a name stands, which is added if it is new.
fn position(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

fn responses_of(file: &Path, class: usize) -> Result<Vec<Question>, Box<dyn Error>> {
    let mut table = csv::Reader::from_path(file)?;
    let header = table.headers()?.clone();
    let column = |name: &str| header.iter().position(|known| known == name).ok_or_else(|| format!("no column {name}"));
    let prompt = column("prompt")?;
    let [weak, strong] = ROUTELLM_MODELS.map(column);
    let columns = [weak?, strong?];
    let question = |row: csv::StringRecord| {
        let line = row.position().map_or(0, csv::Position::line);
        let answers = columns.map(|at| match row.get(at) {
            Some("True") => Ok(1.0),
            Some("False") => Ok(0.0),
            _ => Err(format!("line {line}: {} is neither True nor False", header.get(at).unwrap_or_default())),
        });
        let prompt = row.get(prompt).unwrap_or_default();
        let typed = typed(prompt, line);
        let answer = |quality| Answer { quality, dollars: 0.0, fault: 0 };
        let [weak, strong] = answers;
        Ok(Question {
            class,
            task: detected(prompt)?,
            length: prompt.chars().count() as f64,
            mistyped: Some((detected(&typed)?, typed.chars().count() as f64)),
            demands_call: false,
            answers: vec![answer(weak?), answer(strong?)],
        })
    };
    table.into_records().map(|row| question(row?)).collect()
}

/// A prompt with a typo in every twentieth letter: another one, none, or two.
fn typed(prompt: &str, seed: u64) -> String {
    let mut dice = Dice::new(seed, 8);
    let mut typed = String::with_capacity(prompt.len());
    for letter in prompt.chars() {
        match (letter.is_alphabetic(), dice.below(20)) {
            (true, 0) => typed.push_str(["e", "", "tt"][dice.below(3)]),
            _ => typed.push(letter),
        }
    }
    typed
}

/// The class that the gateway would find in a request with this prompt.
fn detected(prompt: &str) -> Result<Task, Box<dyn Error>> {
    let messages = serde_json::json!([{"role": "user", "content": prompt}]);
    let body = serde_json::json!({"model": "any/model", "messages": messages}).to_string();
    let request = ChatRequest::parse(Bytes::from(body), ChatPurpose::Chat, &RequestLimits::default());
    let request = request.map_err(|error| format!("the gateway refuses a prompt: {error:?}"))?;
    Ok(TaskClass::of_features(request.task_features).task)
}

/// Name and answer of a line of RouterArena.
fn cached(line: &str) -> Option<(String, Answer)> {
    let line: Value = serde_json::from_str(line).ok()?;
    let figure = |name: &str| line.get("evaluation_result")?.get(name)?.as_f64();
    let answer = Answer { quality: figure("score")?, dollars: figure("inference_cost")?, fault: 0 };
    Some((line.get("global_index")?.as_str()?.to_owned(), answer))
}
