//! The tables in the documentation: written by one command, between two marks, so that they are never typed.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use crate::{
    plot,
    rules::Kind,
    sheet::Sheet,
    sheets,
    table::{self, Cell, Plan},
    traffic::Traffic,
};

/// The page, and the picture beside it.
const PAGE: &str = "SIMULATION.md";
const PICTURE: &str = "regret.svg";

/// Why nothing was written.
#[derive(Debug)]
pub enum ReportError {
    /// A file could not be read or written.
    File(PathBuf, io::Error),
    /// The page lacks the marks of this name.
    Marks(PathBuf, &'static str),
}

/// Runs the plan and writes its tables and its picture into a directory.
///
/// # Errors
/// Files that cannot be read or written, a page without marks.
pub fn write(plan: &Plan, directory: &Path) -> Result<(), ReportError> {
    let cells = table::run(plan);
    let (mut tables, mut picture) = (String::new(), String::new());
    // Writing to a string cannot fail.
    for sheet in sheets::all(plan, &cells).into_iter().chain(worth(plan)) {
        _ = sheet.markdown(&mut tables);
    }
    _ = plot::write(plan, &cells, &mut picture);
    put(directory, "tables", &tables)?;
    write_traces(plan, directory)?;
    let path = directory.join(PICTURE);
    fs::write(&path, picture).map_err(|error| ReportError::File(path, error))
}

/// Runs Pointsman on drawn requests and on the real hours, and writes how it does on each into the page.
///
/// # Errors
/// As [`write()`].
pub fn write_traces(plan: &Plan, directory: &Path) -> Result<(), ReportError> {
    let plan = Plan { rules: vec![Kind::Pointsman], ..plan.clone() };
    let run = |traffic: Traffic| (traffic, table::run(&Plan { traffic, ..plan.clone() }));
    let all: Vec<(Traffic, Vec<Cell>)> = [Traffic::Poisson].into_iter().chain(Traffic::TRACES).map(run).collect();
    let mut text = String::new();
    for sheet in sheets::traces(&plan, &all) {
        _ = sheet.markdown(&mut text);
    }
    put(directory, "traces", &text)
}

/// What Pointsman's own ideas are worth.
fn worth(plan: &Plan) -> [Sheet; 2] {
    let rules = [Kind::Pointsman].into_iter().chain(Kind::CRIPPLED).collect();
    let plan = Plan { rules, ..plan.clone() };
    let cells = table::run(&plan);
    let what = "Pointsman without something of its own";
    [sheets::summary(what, &plan, &cells), sheets::failures(&format!("Failures shown, {what}"), &cells)]
}

/// Puts a text between the marks of this name.
///
/// # Errors
/// As [`write()`].
pub fn put(directory: &Path, name: &'static str, text: &str) -> Result<(), ReportError> {
    let path = directory.join(PAGE);
    let read = fs::read_to_string(&path);
    let page = read.map_err(|error| ReportError::File(path.clone(), error))?;
    let Some(page) = replaced(&page, name, text) else { return Err(ReportError::Marks(path, name)) };
    fs::write(&path, page).map_err(|error| ReportError::File(path, error))
}

fn replaced(page: &str, name: &str, text: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->"));
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{}\n\n{end}{after}", text.trim_end()))
}

impl fmt::Display for ReportError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReportError::File(path, error) => write!(out, "{}: {error}", path.display()),
            ReportError::Marks(path, name) => {
                let marks = format!("`<!-- {name}: begin -->` and `<!-- {name}: end -->`");
                write!(out, "{}: put {marks} where the figures belong", path.display())
            }
        }
    }
}

impl std::error::Error for ReportError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let page = "a\n<!-- t: begin -->\nold\n<!-- t: end -->\nb";
        let new = replaced(page, "t", "new\n").unwrap();
        assert_eq!(new, "a\n<!-- t: begin -->\n\nnew\n\n<!-- t: end -->\nb");
        assert_eq!(replaced(&new, "t", "new").as_deref(), Some(new.as_str()));
        assert_eq!(replaced(page, "u", "new"), None);
    }
}
