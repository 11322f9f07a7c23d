//! What every key means: the table in `reference.toml`, with what the reading itself asks for.
//!
//! The table says default, unit, former name and reason. Type and range are those that the reading tells while it
//! reads a sample in which every section stands, so that what is described is what is checked.

use std::{fmt::Write as _, path::Path, sync::LazyLock};

use super::{
    Surroundings,
    environment::Environment,
    fault::{Asked, Faults, SourceLocation},
    files::Files,
    section::Section,
    toml_value,
    tree::{self, Entry, Table, Value},
};

/// One section of the configuration.
pub(super) struct Described {
    /// Its path; `*` stands for a name of the operator's, `[]` for each entry of a list.
    pub(super) path: String,
    about: String,
    pub(super) keys: Vec<Key>,
}

/// One key of a section.
pub(super) struct Key {
    pub(super) name: String,
    /// `None`: `absent` says what holds.
    pub(super) default: Option<Value>,
    absent: String,
    unit: String,
    /// Instead of what the reading tells, where it is not empty.
    kind: String,
    allowed: String,
    /// Path of the former name.
    pub(super) was: Option<String>,
    about: String,
}

/// A key that has no effect any more.
pub(super) struct Removed {
    pub(super) path: String,
    pub(super) why: String,
}

/// The whole table.
pub(super) struct Reference {
    pub(super) sections: Vec<Described>,
    pub(super) removed: Vec<Removed>,
}

/// Read once.
pub(super) static REFERENCE: LazyLock<Reference> = LazyLock::new(|| {
    // The tests hold that it has no fault.
    Reference::of(&tree::read(include_str!("reference.toml"), "reference.toml", &Faults::default()))
});

/// A configuration in which every section stands that need not be there.
const SAMPLE: &str = "[server.tls]\n[routing.balanced]\n[[keys]]\n[[aliases]]\nweights = {}\npreferred_max_latency = {}\n\
                      preferred_min_throughput = {}\n[simulation.providers.acme]\n[providers.acme]\n[[models]]\n\
                      default_parameters = {}\npricing = {}\nusd_per_million = {}\nusd_each = {}\nendpoints = [{}]\n";

impl Reference {
    fn of(table: &Table) -> Reference {
        let mut reference = Reference { sections: Vec::new(), removed: Vec::new() };
        for entry in &table.entries {
            let Some(section) = entry.node.table() else { continue };
            if entry.key == "removed" {
                let removed = section.entries.iter().filter_map(|entry| {
                    Some(Removed { path: entry.key.clone(), why: section.text(&entry.key)?.to_owned() })
                });
                reference.removed.extend(removed);
                continue;
            }
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
            default: table.get("default").map(|default| default.node.value.clone()),
            absent: text("absent"),
            unit: text("unit"),
            kind: text("type"),
            allowed: text("allowed"),
            was: table.text("was").map(str::to_owned),
            about: text("about"),
        })
    }
}

/// Every key that the reading asks for, with its section as in the table.
fn asked() -> Vec<Asked> {
    let (faults, files) = (Faults::recording(), Files::default());
    let root = tree::read(SAMPLE, "sample", &Faults::default());
    let environment = Environment::default();
    let surroundings = Surroundings { directory: Path::new("."), environment: &environment, files: &files };
    Section::root(&root, &faults, |root| super::read(root, "sample", &surroundings));
    let mut all = faults.into_asked();
    for asked in &mut all {
        asked.section = pattern(&asked.section);
    }
    all
}

/// The path of a section of the sample, as the table has it.
fn pattern(path: &str) -> String {
    let path = path.replace("[0]", "[]").replace(".acme", ".*");
    match path.strip_prefix("models[].endpoints[].") {
        // Prices of an endpoint are written as those of a model.
        Some(prices) => format!("models[].{prices}"),
        None => path,
    }
}

const PREFACE: &str = "\
# Configuration

Every key, with its default, unit and reason. This page is made from the table that `pointsman check` uses
(`src/config/reference.toml` and the reading itself): do not edit it. `config.toml` shows what people change;
`pointsman config show` prints what holds for you and where each value comes from.

A configuration is a TOML file: the one named with `--config`, else `./config.toml`, else the shipped one. A key that is
left out has its default. A key that is unknown is a fault; `pointsman check` reports every fault at once, with file, line
and column.

Durations are strings with units (`\"15s\"`, `\"250ms\"`, `\"1h30m\"`), sizes are strings (`\"32MiB\"`, `\"64KiB\"`) or whole
numbers of bytes.

Any key can be set from the environment: `POINTSMAN__SECTION__KEY`, such as `POINTSMAN__SERVER__BIND=127.0.0.1:9000` or
`POINTSMAN__PROVIDERS__OLLAMA__ENABLED=true`. The value is read as TOML, and as plain text where it is not TOML; `_` also
stands for `-` and `.`. A list is replaced as a whole. A variable that names no key is a fault.

Secrets never stand in the file: a provider's key is named by its variable or its file, a caller's key by its SHA-256 or
its variable.

## The built-in catalogue

Providers, models and prices ship with the program (`src/config/catalog/*.toml`, each price with its source and date).
They are used where the configuration defines no provider of its own, or says `[catalog] builtin = true`; with
`builtin = false` never. A provider is one's own when the catalogue does not know its name, or when it says `base_url`;
everything else corrects an entry of the catalogue. An entry with the same name, or of models with the same `id`,
overrides only the keys it names; so does an endpoint with the same `provider` and `variant`, and others are added.
`disabled = true` takes an endpoint away, `enabled = false` a provider. Prices in one form take the place of those in
the other.
";

/// The text of `docs/CONFIG.md`.
#[must_use]
pub fn page() -> String {
    let asked = asked();
    let mut page = PREFACE.to_owned();
    // Writing to a `String` cannot fail.
    for section in &REFERENCE.sections {
        let _ = section.write(&mut page, &asked);
    }
    let _ = write_former(&mut page);
    page
}

impl Described {
    fn write(&self, page: &mut String, asked: &[Asked]) -> std::fmt::Result {
        let shown = match self.path.strip_suffix("[]") {
            Some(list) => format!("[[{}]]", list.replace("[]", "")),
            None => format!("[{}]", self.path.replace("[]", "").replace('*', "<name>")),
        };
        writeln!(page, "\n## `{shown}`\n\n{}\n", self.about)?;
        writeln!(page, "| Key | Type | Default | Unit | Allowed | What for |\n| --- | --- | --- | --- | --- | --- |")?;
        for key in &self.keys {
            let told = asked.iter().filter(|asked| asked.section == self.path && asked.key == key.name);
            // A key may be asked for as text first and then as what it is.
            let told = told.min_by_key(|asked| (asked.kind.is_empty(), asked.kind == "string"));
            let (kind, range) = told.map_or(("", ""), |asked| (asked.kind, asked.allowed.as_str()));
            let words = format!("`{}`", range.replace("\", \"", "`, `").replace('"', ""));
            let range = if kind == "word" { &words } else { range };
            let kind = if key.kind.is_empty() { kind } else { &key.kind };
            let allowed = if key.allowed.is_empty() { range } else { &key.allowed };
            let default = match &key.default {
                Some(value) => format!("`{}`", toml_value::value(value)),
                None => key.absent.clone(),
            };
            writeln!(page, "| `{}` | {kind} | {default} | {} | {allowed} | {} |", key.name, key.unit, key.about)?;
        }
        Ok(())
    }
}

fn write_former(page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## Former names\n\nThey are accepted, also from the environment, with a warning that names the new key; a number \
         is in the unit that the name ends in. Both names at once are a fault.\n\n| Former name | Today |\n| --- | --- |"
    )?;
    for section in &REFERENCE.sections {
        for key in &section.keys {
            if let Some(was) = &key.was {
                writeln!(page, "| `{was}` | `{}.{}` |", section.path, key.name)?;
            }
        }
    }
    if !REFERENCE.removed.is_empty() {
        writeln!(page, "\nKeys that have no effect any more:\n\n| Key | Why |\n| --- | --- |")?;
    }
    for removed in &REFERENCE.removed {
        writeln!(page, "| `{}` | {} |", removed.path, removed.why)?;
    }
    Ok(())
}

/// Where a section of the root stands among all of them.
pub(super) fn position(key: &str) -> usize {
    let begins = |section: &Described| section.path.split(['.', '[']).next() == Some(key);
    REFERENCE.sections.iter().position(begins).unwrap_or(usize::MAX)
}

/// Puts the default of every key into a tree that does not say it. Sections whose names or number the operator chooses
/// are left as they are.
pub(super) fn fill_in(root: &mut Table) {
    for section in REFERENCE.sections.iter().filter(|section| !section.path.contains(['*', '['])) {
        for key in &section.keys {
            let Some(default) = &key.default else { continue };
            let path: Vec<&str> = section.path.split('.').collect();
            if let Some(table) = tree::descend(root, &path, &SourceLocation::Default)
                && table.get(&key.name).is_none()
            {
                table.add(&key.name, tree::Node::new(default.clone(), SourceLocation::Default));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::Config;

    #[test]
    fn the_table_is_good_toml_and_every_key_of_it_says_what_it_is_for() {
        let faults = Faults::default();
        let table = tree::read(include_str!("reference.toml"), "reference.toml", &faults);
        assert!(faults.is_empty(), "{:?}", faults.into_sorted());
        let known = ["default", "absent", "unit", "type", "allowed", "was", "about"];
        for section in table.entries.iter().filter(|entry| entry.key != "removed") {
            for key in section.node.table().unwrap().entries.iter().filter(|entry| entry.key != "_about") {
                let fields = key.node.table().unwrap();
                let strange: Vec<_> = fields.entries.iter().filter(|field| !known.contains(&&*field.key)).collect();
                assert!(strange.is_empty(), "{}.{}", section.key, key.key);
                assert!(
                    fields.get("default").is_some() != fields.get("absent").is_some(),
                    "{}.{}",
                    section.key,
                    key.key
                );
                assert!(fields.text("about").is_some_and(|about| !about.is_empty()), "{}.{}", section.key, key.key);
            }
        }
    }

    #[test]
    fn every_key_that_the_reading_asks_for_is_described_and_no_other() {
        let described: BTreeSet<(String, String)> = REFERENCE
            .sections
            .iter()
            .flat_map(|section| section.keys.iter().map(|key| (section.path.clone(), key.name.clone())))
            .collect();
        // A table that is described in a line of its own need not be described key by key.
        let whole = |section: &str| {
            let (parent, key) = section.rsplit_once('.')?;
            Some((parent.to_owned(), key.to_owned())).filter(|pair| described.contains(pair))
        };
        let asked: BTreeSet<(String, String)> = asked()
            .into_iter()
            .map(|asked| whole(&asked.section).unwrap_or((asked.section, asked.key.to_owned())))
            .collect();
        let missing: Vec<_> = asked.difference(&described).collect();
        assert!(missing.is_empty(), "add a line to src/config/reference.toml for {missing:?}");
        let idle: Vec<_> = described.difference(&asked).collect();
        assert!(idle.is_empty(), "nobody reads {idle:?}");
        assert!(asked.len() > 180, "{}", asked.len());
    }

    fn defaults_of(section: &Described, header: &str) -> String {
        let lines = section.keys.iter().filter_map(|key| {
            let default = key.default.as_ref()?;
            Some(format!("{} = {}\n", key.name, toml_value::value(default)))
        });
        format!("{header}\n{}", lines.collect::<String>())
    }

    fn config(toml: &str) -> Config {
        Config::parse(toml, "f", Path::new("."), &Environment::default())
            .unwrap_or_else(|faults| panic!("{toml}\n{}", crate::app::cli::report(&faults)))
    }

    #[test]
    fn every_default_of_the_table_is_that_of_the_code() {
        let plain = REFERENCE.sections.iter().filter(|section| !section.path.contains(['*', '[']));
        let text: String = plain
            .filter(|section| section.path != "server.tls")
            .map(|section| defaults_of(section, &format!("[{}]", section.path)))
            .collect();
        assert_eq!(config(&text), Config { ..config("") });
    }

    #[test]
    fn every_default_of_an_entry_is_that_of_the_code() {
        let section = |path: &str| REFERENCE.section(path).unwrap();
        let digest = "a".repeat(64);
        let acme = "base_url = \"http://h/v1\"\n";
        let model = "id = \"a/b\"\ncontext_length = 9\n";
        let endpoint = "provider = \"acme\"\nupstream_model = \"b\"\n";
        let prices = "prompt = \"1\"\ncompletion = \"2\"\n";
        let outspoken = format!(
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
        let silent = format!(
            "[providers.acme]\n{acme}[simulation.providers.sim]\n[[aliases]]\nname = \"x\"\n[[keys]]\nname = \"x\"\n\
             sha256 = \"{digest}\"\n[[models]]\n{model}[[models.endpoints]]\n{endpoint}\
             [models.endpoints.usd_per_million]\n{prices}"
        );
        assert_eq!(config(&outspoken), config(&silent));
    }
}
