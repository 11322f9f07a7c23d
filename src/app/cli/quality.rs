//! `quality import`: the lines that give models the scores of a file, as a difference to the configuration. Changes nothing itself,
//! and reads nothing from the network.

mod every_eval_ever;
mod scores;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::PathBuf,
};

use chrono::NaiveDate;
use clap::{Args, Subcommand};
use pointsman_config::Environment;
use pointsman_domain::{Catalog, Model, QualityScore, Task, listed_names};

use self::scores::{Format, Given, Scored};
use super::{CommandOutput, EXIT_DIFFERENT, Finished, load, refused, success};

/// Largest file that is read, bytes.
const MOST_BYTES: u64 = 64 << 20;
/// Most names in a note.
const MOST_NAMED: usize = 20;

/// What to do with scores of quality.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct QualityRequest {
    #[command(subcommand)]
    action: QualityAction,
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
enum QualityAction {
    /// Print the lines to write for the scores of a file, as a difference; exits with 1 if there are any
    Import(ImportArguments),
}

#[derive(Debug, Clone, PartialEq, Eq, Args)]
struct ImportArguments {
    /// The file with the scores
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// Its format: csv has the columns model, class, score and n
    #[arg(long, value_enum)]
    format: Format,
    /// Source of the scores; default: the name of the board, required for csv and every-eval-ever
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// When it was measured, such as 2026-11-02; required unless the file says so
    #[arg(long)]
    date: Option<NaiveDate>,
    /// Answers that were judged for each score, where the file does not say so
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    n: Option<u32>,
    /// Class of tasks that the scores are for, where the format has none
    #[arg(long, value_name = "NAME", value_parser = class)]
    class: Option<Task>,
    /// Evaluation that counts, where a file has several
    #[arg(long, value_name = "NAME")]
    evaluation: Option<String>,
    /// Under which licence the scores may be used
    #[arg(long, value_name = "NAME")]
    licence: Option<String>,
    /// Configuration; default: ./config.toml if it exists, else the built-in catalogue
    #[arg(id = "quality_config", short = 'c', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
}

fn class(name: &str) -> Result<Task, String> {
    Task::named(name).ok_or_else(|| format!("allowed: {}", listed_names(name, Task::ALL.map(Task::as_str))))
}

impl QualityRequest {
    /// The configuration named behind the command.
    pub(super) fn config_mut(&mut self) -> &mut Option<PathBuf> {
        let QualityAction::Import(arguments) = &mut self.action;
        &mut arguments.config
    }
}

/// Compares the scores of the file with those of the configuration.
pub(super) fn run(request: &QualityRequest, environment: &Environment) -> Finished {
    let QualityAction::Import(arguments) = &request.action;
    let catalog = load(arguments.config.as_deref(), environment)?.config.catalog(1);
    let text = read(arguments)?;
    let given = Given { n: arguments.n, class: arguments.class, evaluation: arguments.evaluation.as_deref() };
    let scored = scores::read(&text, arguments.format, &given).map_err(|why| faulty(arguments, &why))?;
    let scored = with_origin(arguments, scored)?;
    let (mut page, names) = difference(&catalog, &scored);
    let is_finding = !page.is_empty();
    if !is_finding {
        page.push_str("# the configuration has these scores already\n");
    }
    let unknown = names.values().filter(|one| one.models.is_empty());
    page.push_str(&note("not in the configuration", unknown.map(|one| one.name.to_owned()).collect()));
    let several = names.values().filter(|one| one.models.len() > 1);
    let several = several.map(|one| format!("{} ({})", one.name, one.models.join(", ")));
    page.push_str(&note("names of several models, each of which gets the scores", several.collect()));
    Ok(if is_finding { CommandOutput { text: page, code: EXIT_DIFFERENT } } else { success(page) })
}

fn read(arguments: &ImportArguments) -> Result<String, CommandOutput> {
    let size = fs::metadata(&arguments.from).map_err(|why| faulty(arguments, &why.to_string()))?.len();
    if size > MOST_BYTES {
        return Err(faulty(arguments, &format!("has {size} bytes, more than {MOST_BYTES}")));
    }
    fs::read_to_string(&arguments.from).map_err(|why| faulty(arguments, &why.to_string()))
}

fn faulty(arguments: &ImportArguments, why: &str) -> CommandOutput {
    refused(format!("{}: {why}", arguments.from.display()))
}

/// The scores with their source and date.
fn with_origin(
    arguments: &ImportArguments,
    scored: Vec<Scored>,
) -> Result<Vec<(String, Task, QualityScore)>, CommandOutput> {
    let source = arguments.source.as_deref().or(arguments.format.board());
    let Some(source) = source.map(str::trim).filter(|source| !source.is_empty()) else {
        return Err(refused("--source is missing: who measured these scores, such as own-eval"));
    };
    let complete = |one: Scored| {
        let date = arguments.date.or(one.date);
        let date = date.ok_or_else(|| refused("--date is missing: when these scores were measured"))?;
        let licence = arguments.licence.as_deref().map(Into::into);
        let score = QualityScore { score: one.score, count: one.count, source: source.into(), date, licence };
        Ok((one.model, one.task, score))
    };
    scored.into_iter().map(complete).collect()
}

/// The scores of a name, whatever its case, and who has that name.
struct Named<'s> {
    /// As it was written first.
    name: &'s str,
    /// The latest of each class, with its place in the file.
    scores: BTreeMap<Task, (usize, &'s QualityScore)>,
    models: Vec<&'s str>,
}

/// The lines to write, and the names of the file. Of two scores for one class the later line counts.
fn difference<'s>(
    catalog: &'s Catalog,
    scored: &'s [(String, Task, QualityScore)],
) -> (String, BTreeMap<String, Named<'s>>) {
    let (mut page, mut names) = (String::new(), BTreeMap::<String, Named<'_>>::new());
    for (at, (name, task, score)) in scored.iter().enumerate() {
        let new = || Named { name, scores: BTreeMap::new(), models: Vec::new() };
        names.entry(name.to_ascii_lowercase()).or_insert_with(new).scores.insert(*task, (at, score));
    }
    for model in &catalog.models {
        let mut latest = BTreeMap::<Task, (usize, &QualityScore)>::new();
        for name in names_of(catalog, model) {
            let Some(named) = names.get_mut(&name) else { continue };
            named.models.push(model.id.as_str());
            for (task, found) in &named.scores {
                let known = latest.entry(*task).or_insert(*found);
                *known = if found.0 > known.0 { *found } else { *known };
            }
        }
        let lines = latest.into_iter().filter_map(|(task, (_, score))| changed(task, model.quality.get(task), score));
        let lines: String = lines.collect();
        if !lines.is_empty() {
            let id = quoted(model.id.as_str());
            // Writing to a string cannot fail.
            let _ = write!(page, "  [[models]]\n  id = {id}\n  [models.quality]\n{lines}");
        }
    }
    (page, names)
}

/// What a file may call a model, in lower case: its id with or without the namespace, its permanent name, or a provider's name for it.
fn names_of(catalog: &Catalog, model: &Model) -> BTreeSet<String> {
    let id = model.id.as_str();
    let bare = id.rsplit('/').next().unwrap_or(id);
    let upstream = catalog.endpoints_of(model).map(|(_, endpoint)| &*endpoint.upstream_model);
    let names = [id, bare, &*model.canonical_slug].into_iter().chain(upstream);
    names.map(str::to_ascii_lowercase).collect()
}

/// A line that names some; empty if there are none.
fn note(what: &str, names: Vec<String>) -> String {
    let more = names.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named: Vec<String> = names.into_iter().take(MOST_NAMED).collect();
    if named.is_empty() { String::new() } else { format!("# {what}: {}{more}\n", named.join(", ")) }
}

/// The line of a class that goes and the one that comes.
fn changed(task: Task, now: Option<&QualityScore>, then: &QualityScore) -> Option<String> {
    if now == Some(then) {
        return None;
    }
    let gone = now.map_or(String::new(), |now| format!("- {}\n", line(task, now)));
    Some(format!("{gone}+ {}\n", line(task, then)))
}

fn line(task: Task, score: &QualityScore) -> String {
    let QualityScore { score, count, source, date, licence } = score;
    let licence = licence.as_deref().map_or(String::new(), |licence| format!(", licence = {}", quoted(licence)));
    let task = task.as_str();
    format!("{task} = {{ score = {score:?}, n = {count}, source = {}, date = {date}{licence} }}", quoted(source))
}

/// A text as TOML.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}
