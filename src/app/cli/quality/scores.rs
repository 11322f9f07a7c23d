//! Files with scores, format by format.

use chrono::NaiveDate;
use clap::ValueEnum;
use pointsman_domain::{Task, listed_names};
use serde_json::Value;

use super::every_eval_ever;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Columns model, class, score (0 to 1) and n
    Csv,
    /// Aider's polyglot_leaderboard.yml: class code
    Aider,
    /// The Berkeley function calling leaderboard's data_overall.csv: class tools; needs --n and --date
    Bfcl,
    /// EvalPlus' results.json: class code; needs --date
    Evalplus,
    /// Records of Every Eval Ever; needs --class
    EveryEvalEver,
}

impl Format {
    /// The name of its board.
    pub(super) const fn board(self) -> Option<&'static str> {
        match self {
            Format::Csv | Format::EveryEvalEver => None,
            Format::Aider => Some("aider-polyglot"),
            Format::Bfcl => Some("bfcl"),
            Format::Evalplus => Some("evalplus"),
        }
    }
}

/// A score as a file has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scored {
    pub(super) model: String,
    pub(super) task: Task,
    pub(super) score: f64,
    pub(super) count: u32,
    pub(super) date: Option<NaiveDate>,
}

/// What is said about a file that does not say it itself.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Given<'g> {
    /// Answers that were judged for each score.
    pub(super) n: Option<u32>,
    pub(super) class: Option<Task>,
    /// The one evaluation of several that counts.
    pub(super) evaluation: Option<&'g str>,
}

/// The scores of a file, in its order.
pub(super) fn read(text: &str, format: Format, given: &Given<'_>) -> Result<Vec<Scored>, String> {
    let n = given.n;
    let scored = match format {
        Format::Csv => csv(text, n)?,
        Format::Aider => aider(text)?,
        Format::Bfcl => bfcl(text, n)?,
        Format::Evalplus => evalplus(text)?,
        Format::EveryEvalEver => every_eval_ever::read(text, given)?,
    };
    if scored.is_empty() { Err("has no scores of this format".to_owned()) } else { Ok(scored) }
}

fn csv(text: &str, n: Option<u32>) -> Result<Vec<Scored>, String> {
    let table = Table::read(text)?;
    let [model, class, score] = ["model", "class", "score"].map(|name| table.column(name));
    let (model, class, score, count) = (model?, class?, score?, table.column("n").ok());
    let read = |(number, row): (usize, &Vec<String>)| {
        let cell = |column: usize| row.get(column).map_or("", |cell| cell.trim());
        let name = cell(class);
        let names = Task::ALL.map(Task::as_str);
        let task = Task::named(name)
            .ok_or_else(|| format!("line {number}: no class of tasks; allowed: {}", listed_names(name, names)))?;
        let share =
            share(cell(score), 1.0).ok_or_else(|| format!("line {number}: 'score' is no number from 0 to 1"))?;
        let own = count.and_then(|count| cell(count).parse().ok()).filter(|count| *count > 0);
        let count = own.or(n).ok_or_else(|| format!("line {number}: 'n' is no number above 0, and --n is missing"))?;
        Ok(Scored { model: cell(model).to_owned(), task, score: share, count, date: None })
    };
    table.numbered().map(read).collect()
}

fn bfcl(text: &str, n: Option<u32>) -> Result<Vec<Scored>, String> {
    let table = Table::read(text)?;
    let (model, accuracy) = (table.column("Model")?, table.column("Overall Acc")?);
    let count = n.ok_or("says not how many calls were judged: --n is missing")?;
    let read = |(number, row): (usize, &Vec<String>)| {
        let cell = |column: usize| row.get(column).map_or("", |cell| cell.trim());
        let score = share(cell(accuracy).trim_end_matches('%'), 100.0)
            .ok_or_else(|| format!("line {number}: 'Overall Acc' is no percentage"))?;
        // The board adds the kind of call: `gpt-4o-2024-11-20 (Prompt)`.
        let name = cell(model).split(" (").next().unwrap_or_default();
        Ok(Scored { model: name.to_owned(), task: Task::Tools, score, count, date: None })
    };
    table.numbered().map(read).collect()
}

/// A list of tables with `key: value` lines. The second pass rate counts: an answer may be mended once after its tests failed.
fn aider(text: &str) -> Result<Vec<Scored>, String> {
    let mut scored: Vec<Scored> = Vec::new();
    let runs = text.split("\n- ").map(|run| run.trim_start_matches("- "));
    for run in runs.filter(|run| run.contains("pass_rate_2:")) {
        let value = |key: &str| {
            let of =
                |line: &'_ str| line.trim().strip_prefix(key)?.strip_prefix(':').map(|value| value.trim().to_owned());
            run.lines().find_map(of)
        };
        let model = value("model").ok_or("has a run without 'model'")?;
        let wrong = |what: &str| format!("the run of {model}: '{what}' is missing or wrong");
        let score = value("pass_rate_2").and_then(|rate| share(&rate, 100.0)).ok_or_else(|| wrong("pass_rate_2"))?;
        let count = value("test_cases").and_then(|count| count.parse().ok()).filter(|count| *count > 0);
        let count = count.ok_or_else(|| wrong("test_cases"))?;
        let date = value("date").and_then(|date| date.parse().ok());
        scored.push(Scored { model, task: Task::Code, score, count, date });
    }
    // The latest run of a model counts.
    scored.sort_by_key(|one| one.date);
    Ok(scored)
}

/// The problems with more tests of both collections.
fn evalplus(text: &str) -> Result<Vec<Scored>, String> {
    const COLLECTIONS: [(&str, f64); 2] = [("humaneval+", 164.0), ("mbpp+", 378.0)];
    let root: serde_json::Map<String, Value> =
        serde_json::from_str(text).map_err(|why| format!("is no JSON object: {why}"))?;
    let read = |(model, entry): (&String, &Value)| {
        let rates = entry.get("pass@1")?;
        let rate = |(name, problems): (&str, f64)| {
            let rate = rates.get(name)?.as_f64().filter(|rate| (0.0..=100.0).contains(rate))?;
            Some((rate / 100.0 * problems, problems))
        };
        let (solved, problems) =
            COLLECTIONS.into_iter().filter_map(rate).fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d));
        (problems > 0.0).then(|| {
            let score = rounded(solved / problems);
            Scored { model: model.clone(), task: Task::Code, score, count: problems as u32, date: None }
        })
    };
    Ok(root.iter().filter_map(read).collect())
}

/// A number from 0 to `most`, as a share of it.
fn share(text: &str, most: f64) -> Option<f64> {
    let number: f64 = text.parse().ok().filter(|number| (0.0..=most).contains(number))?;
    Some(rounded(number / most))
}

/// Four decimals, so that a file of percentages gives short numbers.
pub(super) fn rounded(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}

/// Comma-separated lines; the first one has the names.
struct Table {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn read(text: &str) -> Result<Table, String> {
        let mut lines = text.trim_start_matches('\u{feff}').lines().map(cells);
        let names = lines.next().filter(|names| names.len() > 1).ok_or("has no line with names of columns")?;
        Ok(Table { names: names.iter().map(|name| name.trim().to_owned()).collect(), rows: lines.collect() })
    }

    fn column(&self, name: &str) -> Result<usize, String> {
        let found = self.names.iter().position(|known| known.eq_ignore_ascii_case(name));
        found.ok_or_else(|| format!("has no column '{name}'"))
    }

    /// The rows that are not empty, with the numbers of their lines.
    fn numbered(&self) -> impl Iterator<Item = (usize, &Vec<String>)> {
        let is_filled = |(_, row): &(usize, &Vec<String>)| row.iter().any(|cell| !cell.trim().is_empty());
        (2..).zip(&self.rows).filter(is_filled)
    }
}

/// The cells of a line. Quoted ones may contain commas, and quotes doubled.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut rest = line.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '"' if is_quoted && rest.peek() == Some(&'"') => cell.extend(rest.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(std::mem::take(&mut cell)),
            other => cell.push(other),
        }
    }
    cells.push(cell);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, format: Format, n: Option<u32>) -> String {
        let show = |one: &Scored| {
            let date = one.date.map_or(String::new(), |date| format!(" {date}"));
            format!("{} {} {} n{}{date}", one.model, one.task.as_str(), one.score, one.count)
        };
        read(text, format, &Given { n, ..Given::default() })
            .map_or_else(|why| why, |all| all.iter().map(show).collect::<Vec<_>>().join(" | "))
    }

    #[test]
    fn a_table_of_models_and_classes_is_read_whatever_the_order_of_its_columns() {
        let table = "\u{feff}class,Model,n,score\ncode,acme/small,225,0.71\n\n\"tools\",\"acme/large, the new\",9,1\n";
        assert_eq!(shown(table, Format::Csv, None), "acme/small code 0.71 n225 | acme/large, the new tools 1 n9");
        assert_eq!(shown("model,class,score\na,math,0.5", Format::Csv, Some(7)), "a math 0.5 n7");
    }

    #[test]
    fn a_wrong_line_is_named_and_nothing_of_the_file_is_taken() {
        for (text, why) in [
            ("", "has no line with names of columns"),
            ("model,class,score,n\n", "has no scores of this format"),
            ("model,score,n\na,1,2", "has no column 'class'"),
            ("model,class,score,n\na,code,0.5,1\nb,code,71,1", "line 3: 'score' is no number from 0 to 1"),
            ("model,class,score,n\na,code,NaN,1", "line 2: 'score' is no number from 0 to 1"),
            ("model,class,score,n\na,code,0.5,0", "line 2: 'n' is no number above 0, and --n is missing"),
        ] {
            assert_eq!(shown(text, Format::Csv, None), why, "{text}");
        }
        let unknown = shown("model,class,score,n\na,cooking,0.5,1", Format::Csv, None);
        assert!(unknown.starts_with("line 2: no class of tasks; allowed: "), "{unknown}");
    }

    #[test]
    fn boards_are_read_and_the_latest_run_of_a_model_comes_last() {
        let runs = "- dirname: b\n  test_cases: 225\n  model: gpt-x\n  pass_rate_1: 10.0\n  pass_rate_2: 61.3\n  date: 2025-03-01\n\
                    - dirname: a\n  test_cases: 225\n  model: gpt-x\n  pass_rate_2: 3.6\n  date: 2024-12-21\n";
        assert_eq!(
            shown(runs, Format::Aider, None),
            "gpt-x code 0.036 n225 2024-12-21 | gpt-x code 0.613 n225 2025-03-01"
        );
        let overall = "Rank,Overall Acc,Model,Total Cost ($)\n1,70.36%,gpt-x (FC),4.1\n";
        assert_eq!(shown(overall, Format::Bfcl, Some(4000)), "gpt-x tools 0.7036 n4000");
        assert!(shown(overall, Format::Bfcl, None).contains("--n is missing"));
        let results = r#"{"gpt-x": {"pass@1": {"humaneval+": 86.6, "mbpp+": 73.3}}, "none": {"pass@1": {"mbpp": 1}}}"#;
        assert_eq!(shown(results, Format::Evalplus, None), "gpt-x code 0.7732 n542");
        assert!(shown("[]", Format::Evalplus, None).starts_with("is no JSON object"));
    }
}
