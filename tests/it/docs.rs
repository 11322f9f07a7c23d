//! Names in README and `docs`: links, commands, options, metrics, keys and paths that stand there exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use regex::Regex;
use serde_json::Value;

/// Words of the form of a key or a metric that are none.
const NO_NAMES: [&str; 8] = [
    "alerts.json",
    "accounts.log",
    "shared.log",
    "ledger.db",
    "ledger.redb",
    "metrics.rules",
    "metrics.dashboard",
    "pointsman_records",
];

struct Known {
    /// Options by command, such as `pointsman keys list`.
    commands: BTreeMap<String, BTreeSet<String>>,
    metrics: BTreeSet<String>,
    /// Keys by section.
    keys: BTreeMap<String, BTreeSet<String>>,
    paths: Vec<Regex>,
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap()
}

fn found(pattern: &str, text: &str) -> BTreeSet<String> {
    regex(pattern).captures_iter(text).map(|found| found[1].to_owned()).collect()
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The sections of a page by what stands first in backticks behind their headings.
fn sections(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.split("\n## `").skip(1).filter_map(|section| section.split_once('`'))
}

impl Known {
    /// From the pages that are compared with the program, and from the documents that are compared with the routes.
    fn new() -> Known {
        let (cli, config) = (read("docs/CLI.md"), read("docs/CONFIG.md"));
        let commands =
            sections(&cli).map(|(name, text)| (name.to_owned(), found(r"(?m)^\s+(?:-\w, )?(--[a-z-]+)", text)));
        let bare = |name: &str| name.trim_matches(['[', ']']).to_owned();
        let keys = sections(&config).map(|(name, text)| (bare(name), found(r"\n\| `(\w+)` \|", text)));
        let mut paths = Vec::new();
        for document in ["inference", "admin"] {
            let document: Value = serde_json::from_str(&read(&format!("src/api/openapi/{document}.json"))).unwrap();
            for (path, item) in document["paths"].as_object().unwrap() {
                let server = item.get("servers").unwrap_or(&document["servers"])[0]["url"].as_str().unwrap();
                let path = format!("{}{path}", server.trim_end_matches('/'));
                let pattern = regex(r"\{[^}]*\}").replace_all(&path, "[^/]+(/[^/]+)?").into_owned();
                paths.push(regex(&format!("^{pattern}$")));
            }
        }
        Known {
            commands: commands.collect(),
            metrics: found(r"\n\| `((?:pointsman|process)_\w+)`", &read("docs/METRICS.md")),
            keys: keys.collect(),
            paths,
        }
    }

    fn has_metric(&self, name: &str) -> bool {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let begins_some = name.ends_with('_') && self.metrics.iter().any(|metric| metric.starts_with(name));
        begins_some || [name, base].iter().any(|name| self.metrics.contains(*name))
    }

    /// Whether a word that looks like a key of the configuration is one; other words are none of these.
    fn has_key(&self, word: &str) -> bool {
        let (section, key) = word.rsplit_once('.').unwrap();
        let is_section = |name: &String| *name == word || name.starts_with(&format!("{word}."));
        let first = word.split('.').next().unwrap();
        !self.keys.contains_key(first)
            || self.keys.get(section).is_some_and(|keys| keys.contains(key))
            || self.keys.keys().any(is_section)
    }

    /// What is wrong with a command in a line of code.
    fn command_fault(&self, words: &str, options: &BTreeSet<String>) -> Option<String> {
        let mut name = "pointsman".to_owned();
        for word in words.split_whitespace() {
            let longer = format!("{name} {word}");
            if !self.commands.contains_key(&longer) {
                if name == "pointsman" {
                    return Some(format!("no command '{longer}'"));
                }
                break;
            }
            name = longer;
        }
        // An option may stand at a command above.
        let above = |known: &str| name == known || name.starts_with(&format!("{known} "));
        let known = self.commands.iter().filter(|(command, _)| above(command));
        let known: BTreeSet<&String> = known.flat_map(|(_, options)| options).collect();
        options.iter().find(|option| !known.contains(option)).map(|option| format!("no option {option} of '{name}'"))
    }

    fn faults(&self, page: &str, text: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
        let directory = directory.parent().unwrap();
        for link in found(r"\]\(([^)#\s]+)", text).iter().filter(|link| !link.contains("://")) {
            if !directory.join(link).exists() {
                wrong.push(format!("{page}: no file {link}"));
            }
        }
        let is_name = |name: &&String| !NO_NAMES.contains(&name.as_str());
        for metric in found(r"\b(pointsman_[a-z0-9_]+)", text).iter().filter(is_name) {
            if !self.has_metric(metric) {
                wrong.push(format!("{page}: no metric {metric}"));
            }
        }
        let mut code: Vec<String> = found(r"`([^`\n]+)`", text).into_iter().collect();
        code.extend(text.split("```").skip(1).step_by(2).flat_map(str::lines).map(str::to_owned));
        let command = regex(r"(?:^|\| |sudo )pointsman((?: [a-z][a-z-]*)*)((?: [^`|;#]*)?)");
        for line in &code {
            for call in command.captures_iter(line) {
                let options = found(r"(?:^| )(--[a-z-]+)", &call[2]);
                wrong.extend(self.command_fault(&call[1], &options).map(|fault| format!("{page}: {fault}: {line}")));
            }
            for path in found(r"(?:^|[\s(])(/api/v1/[\w/{}<>.:-]*\w)", line) {
                if !self
                    .paths
                    .iter()
                    .any(|known| known.is_match(&path) || known.as_str().starts_with(&format!("^{path}/")))
                {
                    wrong.push(format!("{page}: no path {path}"));
                }
            }
            let keys = found(r"(?:^|[\s(\[])([a-z_]+(?:\.[a-z_0-9]+)+)(?:$|[\s,;:)=])", line);
            for key in keys.iter().filter(is_name).filter(|key| !self.has_key(key)) {
                wrong.push(format!("{page}: no key {key}"));
            }
        }
        wrong
    }
}

#[test]
fn every_command_option_metric_key_path_and_file_that_the_documentation_names_exists() {
    let known = Known::new();
    assert!(known.commands.len() > 25 && known.metrics.len() > 60 && known.keys.len() > 30 && known.paths.len() > 50);
    let mut wrong = Vec::new();
    for page in ["README.md", "benches/oracle/SIMULATION.md"] {
        wrong.extend(known.faults(page, &read(page)));
    }
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // The keys of CONFIG.md are compared with the code.
        if name.ends_with(".md") && name != "CONFIG.md" {
            let page = format!("docs/{name}");
            wrong.extend(known.faults(&page, &read(&page)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_name_that_does_not_exist_would_be_found() {
    let known = Known::new();
    for text in [
        "[a](GONE.md)",
        "`pointsman_no_such_total`",
        "`pointsman frobnicate`",
        "`pointsman check --spend`",
        "`/api/v1/explain`",
        "`routing.no_such_key = 1`",
        "```sh\npointsman doctor --free\n```",
    ] {
        assert_eq!(known.faults("docs/TESTING.md", text).len(), 1, "{text}");
    }
    let right = "[a](CLI.md) `pointsman_ledger_*` `pointsman keys list --url http://h` `GET /api/v1/route/explain?generation_id=x` \
                 `routing.objective` `pointsman --version`";
    assert_eq!(known.faults("docs/TESTING.md", right), Vec::<String>::new());
}
