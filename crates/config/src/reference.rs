//! Reference of all keys: what their declarations say, recorded while every section is read as if it were empty.
//!
//! The page about every key, the JSON Schema and `pointsman config show` are made from it.

use std::{cell::RefCell, fmt::Write as _, path::Path, sync::LazyLock};

use super::{
    Surroundings,
    described::{Described, Key, Reference, first_sentence},
    environment::Environment,
    fault::{Faults, SourceLocation},
    files::Files,
    section::Section,
    tree::{self, Table},
};

/// The reference of the sections that are described.
pub(super) static REFERENCE: LazyLock<Reference> = LazyLock::new(|| {
    let mut reference = record();
    reference.sections.retain(|section| !section.about.is_empty());
    reference
});

fn record() -> Reference {
    let (faults, files, recorder) = (Faults::default(), Files::default(), RefCell::default());
    let root = Table::empty(SourceLocation::Default);
    let environment = Environment::default();
    let surroundings = Surroundings { directory: Path::new("."), environment: &environment, files: &files };
    Section::recorded(&root, &faults, &recorder, |root| super::read(root, "reference", &surroundings));
    recorder.into_inner()
}

const PREFACE: &str = include_str!("reference.md");

/// The text of `docs/CONFIG.md`.
pub fn page() -> String {
    let mut page = PREFACE.to_owned();
    // Writing to a `String` cannot fail.
    let _ = write_often_changed(&mut page);
    page.push_str("\n# Every key\n");
    for section in &REFERENCE.sections {
        let _ = section.write(&mut page);
    }
    page
}

/// The first sentence about each key that `config.toml` shows, in its order.
fn write_often_changed(page: &mut String) -> std::fmt::Result {
    writeln!(page, "\n# What people change\n\n| Key | Default | Purpose |\n| --- | --- | --- |")?;
    let mut section = None;
    for line in crate::BUILT_IN.lines().map(|line| line.trim_start_matches(['#', ' '])) {
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(header, _)| header) {
            let list = header.strip_prefix('[').map(|list| format!("{}[]", list.replace('.', "[].")));
            let path = list.unwrap_or_else(|| header.replace(".acme", ".*").replace(".ollama", ".*"));
            section = REFERENCE.at(&path);
        }
        let Some((name, _)) = line.split_once(" = ") else { continue };
        let Some((section, key)) =
            section.and_then(|section| Some((section, section.keys.iter().find(|key| key.name == name)?)))
        else {
            continue;
        };
        let purpose = first_sentence(&key.about);
        writeln!(page, "| `{}.{name}` | {} | {purpose} |", section.shown_path(), key.shown_default())?;
    }
    Ok(())
}

impl Described {
    fn shown_path(&self) -> String {
        self.path.replace("[]", "").replace('*', "<name>")
    }

    fn write(&self, page: &mut String) -> std::fmt::Result {
        let shown = if self.path.ends_with("[]") {
            format!("[[{}]]", self.shown_path())
        } else {
            format!("[{}]", self.shown_path())
        };
        writeln!(page, "\n## `{shown}`\n\n{}\n", self.about)?;
        writeln!(page, "| Key | Type | Default | Unit | Allowed | Purpose |\n| --- | --- | --- | --- | --- | --- |")?;
        for key in &self.keys {
            let Key { name, about, .. } = key;
            let (kind, default, unit, range) = (key.kind(), key.shown_default(), key.words.unit, key.shown_range());
            writeln!(page, "| `{name}` | {kind} | {default} | {unit} | {range} | {about} |")?;
        }
        Ok(())
    }
}

/// The position of a top-level section in the reference.
pub(super) fn position(key: &str) -> usize {
    let begins = |section: &Described| section.path.split(['.', '[']).next() == Some(key);
    REFERENCE.sections.iter().position(begins).unwrap_or(usize::MAX)
}

/// The path of the key whose section and name are these words with `_` between them, such as `server.bind` of `server_bind`.
pub(super) fn path_of_words(words: &str) -> Option<String> {
    let sections = REFERENCE.sections.iter().filter(|section| !section.path.contains(['*', '[']));
    let mut paths =
        sections.flat_map(|section| section.keys.iter().map(|key| format!("{}.{}", section.path, key.name)));
    paths.find(|path| path.replace('.', "_") == words)
}

/// Calls `tell` with path and value of every key that has a default, but for those of named sections and of lists of sections.
pub(super) fn defaults(mut tell: impl FnMut(&str, &tree::Value)) {
    for section in REFERENCE.sections.iter().filter(|section| !section.path.contains(['*', '['])) {
        for key in &section.keys {
            if let Some(default) = key.default() {
                tell(&format!("{}.{}", section.path, key.name), &default);
            }
        }
    }
}

/// Adds the defaults of all keys that the tree does not set. Named sections and lists of sections are not changed.
pub(super) fn fill_in(root: &mut Table) {
    for section in REFERENCE.sections.iter().filter(|section| !section.path.contains(['*', '['])) {
        for key in &section.keys {
            let Some(default) = key.default() else { continue };
            let path: Vec<&str> = section.path.split('.').collect();
            if let Some(table) = tree::descend(root, &path, &SourceLocation::Default)
                && table.get(&key.name).is_none()
            {
                table.add(&key.name, tree::Node::new(default, SourceLocation::Default));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, toml_value};

    #[test]
    fn every_key_that_is_read_is_described_and_the_other_way_round() {
        let recorded = record().sections;
        for section in &recorded {
            let (parent, name) = section.path.rsplit_once('.').unwrap_or(("", &section.path));
            let is_key = REFERENCE.at(parent).is_some_and(|parent| parent.keys.iter().any(|key| key.name == name));
            assert!(section.keys.is_empty() || is_key || !section.about.is_empty(), "[{}] has no text", section.path);
            for key in section.keys.iter().filter(|_| !is_key) {
                assert!(!key.about.is_empty(), "{}.{} has no text", section.path, key.name);
                let path = format!("{}.{}", section.path, key.name);
                let is_read = key.requested.is_some() || recorded.iter().any(|table| table.path == path);
                assert!(is_read, "{path} is read nowhere");
            }
        }
        assert!(REFERENCE.sections.iter().map(|section| section.keys.len()).sum::<usize>() > 180);
    }

    #[test]
    fn what_an_absent_key_means_is_said_once() {
        for section in &REFERENCE.sections {
            for key in &section.keys {
                assert!(key.default().is_some() == key.absent.is_empty(), "{}.{}", section.path, key.name);
                assert!(key.words.default.is_empty() || key.absent.is_empty(), "{}.{}", section.path, key.name);
            }
        }
    }

    fn defaults_of(section: &Described, header: &str) -> String {
        let lines = section.keys.iter().filter_map(|key| {
            let default = key.default()?;
            Some(format!("{} = {}\n", key.name, toml_value::value(&default)))
        });
        format!("{header}\n{}", lines.collect::<String>())
    }

    fn config(toml: &str) -> Config {
        Config::parse(toml, "f", Path::new("."), &Environment::default()).unwrap_or_else(|faults| {
            panic!("{toml}\n{}", faults.iter().map(|fault| format!("{fault}\n")).collect::<String>())
        })
    }

    #[test]
    fn the_defaults_in_the_reference_equal_those_of_the_code() {
        let plain = REFERENCE.sections.iter().filter(|section| !section.path.contains(['*', '[']));
        let text: String = plain
            // Sections that need a file or a variable.
            .filter(|section| !["server.tls", "shared.postgres", "shared.redis"].contains(&section.path.as_str()))
            .map(|section| defaults_of(section, &format!("[{}]", section.path)))
            .collect();
        assert_eq!(config(&text), Config { ..config("") });
    }

    #[test]
    fn the_defaults_of_entries_in_the_reference_equal_those_of_the_code() {
        let section = |path: &str| REFERENCE.at(path).unwrap();
        let digest = "a".repeat(64);
        let acme = "base_url = \"http://h/v1\"\n";
        let model = "id = \"a/b\"\ncontext_length = 9\n";
        let endpoint = "provider = \"acme\"\nupstream_model = \"b\"\n";
        let prices = "prompt = \"1\"\ncompletion = \"2\"\n";
        let explicit = format!(
            "{}{acme}{}{}name = \"x\"\n{}sha256 = \"{digest}\"\nname = \"x\"\n{}{model}{}{endpoint}{}{prices}{}",
            defaults_of(section("providers.*"), "[providers.acme]"),
            defaults_of(section("simulation.providers.*"), "[simulation.providers.sim]"),
            defaults_of(section("aliases[]"), "[[aliases]]"),
            defaults_of(section("keys[]"), "[[keys]]"),
            defaults_of(section("models[]"), "[[models]]"),
            defaults_of(section("models[].endpoints[]"), "[[models.endpoints]]"),
            defaults_of(section("models[].usd_per_million"), "[models.endpoints.usd_per_million]"),
            defaults_of(section("models[].usd_each"), "[models.endpoints.usd_each]"),
        );
        let implicit = format!(
            "[providers.acme]\n{acme}[simulation.providers.sim]\n[[aliases]]\nname = \"x\"\n[[keys]]\nname = \"x\"\n\
             sha256 = \"{digest}\"\n[[models]]\n{model}[[models.endpoints]]\n{endpoint}\
             [models.endpoints.usd_per_million]\n{prices}"
        );
        assert_eq!(config(&explicit), config(&implicit));
    }
}
