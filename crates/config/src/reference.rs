//! Reference of all keys: `reference.toml`, with the types and ranges of the code.
//!
//! The table has unit and description of every key. Types, ranges and defaults are recorded while a sample with every
//! section is read, so that the reference shows what is checked. The table says what an absent key means where that is
//! no value, and the default where the code has no getter for it.

use std::{fmt::Write as _, path::Path, sync::LazyLock};

use super::{
    Surroundings,
    environment::Environment,
    fault::{Faults, RequestedKey, SourceLocation},
    files::Files,
    section::Section,
    toml_value,
    tree::{self, Entry, Table, Value},
};

/// One section of the configuration.
pub(super) struct Described {
    /// Its path; `*` stands for a name chosen by the operator, `[]` for each entry of a list.
    pub(super) path: String,
    pub(super) about: String,
    pub(super) keys: Vec<Key>,
}

/// One key of a section.
pub(super) struct Key {
    pub(super) name: String,
    /// `None` when the code records the default, or `absent` describes the meaning of an absent key.
    written_default: Option<Value>,
    pub(super) absent: String,
    unit: String,
    /// Replaces the recorded type, if not empty.
    pub(super) kind: String,
    /// Replaces the recorded range, if not empty.
    allowed: String,
    /// Path under which the key was known before, if it was renamed.
    pub(super) was: Option<String>,
    pub(super) about: String,
}

/// Content of `reference.toml`.
pub(super) struct Reference {
    pub(super) sections: Vec<Described>,
}

/// The parsed reference.
pub(super) static REFERENCE: LazyLock<Reference> = LazyLock::new(|| {
    // A test checks that the file has no faults.
    Reference::of(&tree::read(include_str!("reference.toml"), "reference.toml", &Faults::default()))
});

/// A configuration with all optional sections.
const SAMPLE: &str = "[server.tls]\n[routing.balanced]\n[[keys]]\n[[accounts]]\n[[teams]]\n[[alerts]]\n[[aliases]]\nweights = {}\npreferred_max_latency = {}\n\
                      preferred_min_throughput = {}\ncanary = {}\nrules = [{ when = {} }]\nshares = [{}]\n[simulation.providers.acme]\n[providers.acme]\neffort_budgets = {}\n[shared.postgres]\n[shared.redis]\n[[models]]\n\
                      default_parameters = {}\npricing = { tiers = [{}], service_tiers = { acme = { tiers = [{}] } } }\nusd_per_million = { tiers = [{}], service_tiers = { acme = { tiers = [{}] } } }\nusd_each = {}\nendpoints = [{}]\n";

impl Reference {
    pub(super) fn of(table: &Table) -> Reference {
        let mut reference = Reference { sections: Vec::new() };
        for entry in &table.entries {
            let Some(section) = entry.node.table() else { continue };
            let keys = section.entries.iter().filter_map(Key::of);
            let about = section.text("_about").unwrap_or_default().to_owned();
            reference.sections.push(Described { path: entry.key.clone(), about, keys: keys.collect() });
        }
        reference
    }

    pub(super) fn section(&self, path: &str) -> Option<&Described> {
        self.sections.iter().find(|section| section.path == path)
    }
}

impl Key {
    fn of(entry: &Entry) -> Option<Key> {
        let table = entry.node.table()?;
        let text = |key| table.text(key).unwrap_or_default().to_owned();
        Some(Key {
            name: entry.key.clone(),
            written_default: table.get("default").map(|default| default.node.value.clone()),
            absent: text("absent"),
            unit: text("unit"),
            kind: text("type"),
            allowed: text("allowed"),
            was: table.text("was").map(str::to_owned),
            about: text("about"),
        })
    }

    /// Type and range that the code asks for.
    pub(super) fn requested(&self, section: &Described) -> (&'static str, &'static str) {
        // A key may be requested as a string before it is requested with its type.
        let found =
            self.requests(section).min_by_key(|requested| (requested.kind.is_empty(), requested.kind == "string"));
        found.map_or(("", ""), |requested| (requested.kind, requested.allowed.as_str()))
    }

    /// The value that an absent key has; `None` when `absent` describes what it means.
    pub(super) fn default(&self, section: &Described) -> Option<Value> {
        let recorded = || self.requests(section).find_map(|requested| requested.default.as_ref()).and_then(value_of);
        self.written_default.clone().or_else(|| if self.absent.is_empty() { recorded() } else { None })
    }

    fn shown_default(&self, section: &Described) -> String {
        self.default(section).map_or_else(|| self.absent.clone(), |value| format!("`{}`", toml_value::value(&value)))
    }

    fn requests(&self, section: &Described) -> impl Iterator<Item = &'static RequestedKey> {
        REQUESTED.iter().filter(|requested| requested.section == section.path && requested.key == self.name)
    }
}

/// A recorded default: a value that is not made of others.
fn value_of(recorded: &toml::Value) -> Option<Value> {
    Some(match recorded {
        toml::Value::String(text) => Value::Text(text.clone()),
        toml::Value::Integer(number) => Value::Integer(*number),
        toml::Value::Float(number) => Value::Number(*number),
        toml::Value::Boolean(flag) => Value::Flag(*flag),
        _ => return None,
    })
}

/// All keys that the code requests, with their sections as in the reference.
static REQUESTED: LazyLock<Vec<RequestedKey>> = LazyLock::new(|| {
    let (faults, files) = (Faults::recording(), Files::default());
    let root = tree::read(SAMPLE, "sample", &Faults::default());
    let environment = Environment::default();
    let surroundings = Surroundings { directory: Path::new("."), environment: &environment, files: &files };
    Section::root(&root, &faults, |root| super::read(root, "sample", &surroundings));
    let mut all = faults.into_requested();
    for requested in &mut all {
        requested.section = pattern(&requested.section);
    }
    all
});

/// The path of a section of the sample, as in the reference.
fn pattern(path: &str) -> String {
    let path = path.replace("[0]", "[]").replace(".acme", ".*");
    match path.strip_prefix("models[].endpoints[].") {
        // The reference describes the prices of endpoints at their models.
        Some(prices) => format!("models[].{prices}"),
        None => path,
    }
}

const PREFACE: &str = "\
# Configuration

[What people change](#what-people-change) has the keys of `config.toml`; [every key](#every-key) follows, with default, unit and purpose.
This page is generated from `crates/config/src/reference.toml`, `config.toml` and the code that reads the configuration: do not edit it.
`pointsman config show` prints the values in force and their sources.

The configuration is a TOML file: the one named with `--config`, else `./config.toml`, else the built-in one. A key that
is left out has its default. An unknown key is a fault; `pointsman check` reports all faults at once, with file, line and
column.

Durations are strings with units (`\"15s\"`, `\"250ms\"`, `\"1h30m\"`), sizes are strings (`\"32MiB\"`, `\"64KiB\"`) or whole
numbers of bytes.

Any key can be set from the environment: `POINTSMAN__SECTION__KEY`, such as `POINTSMAN__SERVER__BIND=127.0.0.1:9000` or
`POINTSMAN__PROVIDERS__OLLAMA__ENABLED=true`. The value is parsed as TOML, and used as plain text if it is not TOML; `_`
also matches `-` and `.`. A list is replaced as a whole. A variable that matches no key is a fault.
`HTTP_PROXY`, `HTTPS_PROXY` and `ALL_PROXY` have no effect, and a warning says so: providers and stores are called directly.

`pointsman schema` prints a JSON Schema of the file, with which editors complete keys and mark faults: save it, and begin the
file with `#:schema` and its path.

The file contains no secrets: it names the variable or file of a provider's key, and the SHA-256 or the variable of a
caller's key.

## The built-in catalogue

Providers, models and prices ship with the program (`crates/config/src/catalog/*.toml`, each price with its source and date).
They are used when the configuration defines no provider, or sets `[catalog] builtin = true`; with `builtin = false` they
are never used. An entry defines a provider when its name is not in the catalogue or when it sets `base_url`; any other
entry changes a provider of the catalogue. A provider with the same name, a model with the same `id`, and an endpoint with
the same `provider` and `variant` override only the keys they set; other entries are added. `disabled = true` removes an
endpoint, `enabled = false` a provider. Prices replace those of the catalogue as a whole, also in the other form.
";

/// The text of `docs/CONFIG.md`.
#[must_use]
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
            section = REFERENCE.section(&path);
        }
        let Some((name, _)) = line.split_once(" = ") else { continue };
        let Some((section, key)) =
            section.and_then(|section| Some((section, section.keys.iter().find(|key| key.name == name)?)))
        else {
            continue;
        };
        let purpose = key.about.split_once(". ").map_or(key.about.as_str(), |(first, _)| first).trim_end_matches('.');
        writeln!(page, "| `{}.{name}` | {} | {purpose}. |", section.shown_path(), key.shown_default(section))?;
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
            let (kind, range) = key.requested(self);
            let words = format!("`{}`", range.replace("\", \"", "`, `").replace('"', ""));
            let range = if kind == "word" { &words } else { range };
            let kind = if key.kind.is_empty() { kind } else { &key.kind };
            let allowed = if key.allowed.is_empty() { range } else { &key.allowed };
            let default = key.shown_default(self);
            writeln!(page, "| `{}` | {kind} | {default} | {} | {allowed} | {} |", key.name, key.unit, key.about)?;
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

/// Adds the defaults of all keys that the tree does not set. Named sections and lists of sections are not changed.
pub(super) fn fill_in(root: &mut Table) {
    for section in REFERENCE.sections.iter().filter(|section| !section.path.contains(['*', '['])) {
        for key in &section.keys {
            let Some(default) = key.default(section) else { continue };
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
    use std::collections::BTreeSet;

    use super::*;
    use crate::Config;

    #[test]
    fn the_reference_is_valid_and_describes_every_key() {
        let faults = Faults::default();
        let table = tree::read(include_str!("reference.toml"), "reference.toml", &faults);
        assert!(faults.is_empty(), "{:?}", faults.into_sorted());
        let known = ["default", "absent", "unit", "type", "allowed", "was", "about"];
        for section in &table.entries {
            for key in section.node.table().unwrap().entries.iter().filter(|entry| entry.key != "_about") {
                let fields = key.node.table().unwrap();
                let strange: Vec<_> = fields.entries.iter().filter(|field| !known.contains(&&*field.key)).collect();
                assert!(strange.is_empty(), "{}.{}", section.key, key.key);
                assert!(fields.text("about").is_some_and(|about| !about.is_empty()), "{}.{}", section.key, key.key);
            }
        }
    }

    #[test]
    fn exactly_the_keys_that_the_code_requests_are_described() {
        let described: BTreeSet<(String, String)> = REFERENCE
            .sections
            .iter()
            .flat_map(|section| section.keys.iter().map(|key| (section.path.clone(), key.name.clone())))
            .collect();
        // The keys of a table that is described as one key need no descriptions.
        let whole = |section: &str| {
            let (parent, key) = section.rsplit_once('.')?;
            Some((parent.to_owned(), key.to_owned())).filter(|pair| described.contains(pair))
        };
        let requested: BTreeSet<(String, String)> = REQUESTED
            .iter()
            .map(|requested| whole(&requested.section).unwrap_or((requested.section.clone(), requested.key.to_owned())))
            .collect();
        let missing: Vec<_> = requested.difference(&described).collect();
        assert!(missing.is_empty(), "add a line to crates/config/src/reference.toml for {missing:?}");
        let unused: Vec<_> = described.difference(&requested).collect();
        assert!(unused.is_empty(), "no code reads {unused:?}");
        assert!(requested.len() > 180, "{}", requested.len());
    }

    #[test]
    fn what_an_absent_key_means_is_said_once() {
        for section in &REFERENCE.sections {
            for key in &section.keys {
                let recorded = key.requests(section).any(|requested| requested.default.is_some());
                let (written, described) = (key.written_default.is_some(), !key.absent.is_empty());
                let once = if described { !written } else { written != recorded };
                assert!(once, "{}.{}: {written} {described} {recorded}", section.path, key.name);
            }
        }
    }

    fn defaults_of(section: &Described, header: &str) -> String {
        let lines = section.keys.iter().filter_map(|key| {
            let default = key.default(section)?;
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
        let section = |path: &str| REFERENCE.section(path).unwrap();
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
