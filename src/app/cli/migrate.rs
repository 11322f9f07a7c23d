//! `config migrate`: the configuration with the current names of keys, comments and order kept.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use pointsman_config::{Migration, migrate};
use serde_json::json;
use similar::TextDiff;

use super::{
    CommandOutput, EXIT_DIFFERENT, failure,
    replaced_file::{backup, replace},
    success,
};

/// The file that is read without a path.
const DEFAULT: &str = "config.toml";

/// What to migrate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct MigrateRequest {
    /// Configuration to rewrite; default: ./config.toml
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Write the file; the old one stays beside it, with .bak behind its name
    #[arg(long)]
    pub write: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Shows the differences, or writes the file.
pub(super) fn run(request: &MigrateRequest) -> CommandOutput {
    let path = request.config.as_deref().unwrap_or(Path::new(DEFAULT));
    let shown = path.display();
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return failure(format!("pointsman: {shown} cannot be read: {error}\n")),
    };
    let migration = match migrate(&text) {
        Ok(migration) => migration,
        Err(why) => {
            return failure(format!("pointsman: {shown} is no TOML ({why}); 'pointsman check' says where\n"));
        }
    };
    let changes = migration.text != text;
    let written = if request.write && changes { Some(replace(path, &migration.text)) } else { None };
    if let Some(Err(error)) = written {
        return failure(format!("pointsman: {shown} cannot be written: {error}\n"));
    }
    let is_written = written.is_some();
    let report = if request.json {
        let Migration { changes, left, .. } = &migration;
        format!(
            "{:#}\n",
            json!({ "file": shown.to_string(), "changes": changes, "by_hand": left, "written": is_written })
        )
    } else {
        report(path, &text, &migration, is_written)
    };
    let is_finding = !migration.left.is_empty() || (changes && !is_written);
    if is_finding { CommandOutput { text: report, code: EXIT_DIFFERENT } } else { success(report) }
}

fn report(path: &Path, before: &str, migration: &Migration, is_written: bool) -> String {
    let shown = path.display().to_string();
    let mut report = TextDiff::from_lines(before, &migration.text)
        .unified_diff()
        .context_radius(2)
        .header(&shown, &shown)
        .to_string();
    for left in &migration.left {
        report.push_str(&format!("{left}\n"));
    }
    let count = match migration.changes.len() {
        0 if migration.left.is_empty() => return format!("{shown}: every key has its current name\n"),
        0 => return report,
        1 => "1 key".to_owned(),
        count => format!("{count} keys"),
    };
    report.push_str(&if is_written {
        format!("{count} rewritten in {shown}; the old file is {}\n", backup(path).display())
    } else {
        format!("{count} would be rewritten: 'pointsman config migrate --write' does it\n")
    });
    report
}
