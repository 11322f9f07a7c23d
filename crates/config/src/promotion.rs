//! From a shadow to the lines that try it on a share of the requests: a canary of its alias, and the alias that the canary uses.
//!
//! Nothing is written to a file. The lines are given only if the configuration with them has no fault.

use std::fmt;

use pointsman_domain::{Alias, Guardrail, Weights};

use super::{
    Config,
    changes::name_of,
    fault::{Fault, SourceLocation},
    overrides::laid_over,
    shadows::ShadowConfig,
    toml_value,
    tree::{Entry, Node, Table, Value},
};

/// Keys of an alias that the alias on trial does not take over: its names, and what is of the alias that is asked for.
const NOT_TAKEN: [&str; 5] = ["name", "synonyms", "description", "sticky", "spend_pace"];

/// The lines that put a shadow on trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanaryLines {
    /// The alias whose requests it is tried on.
    pub alias: String,
    /// TOML, with comments that say where it belongs.
    pub toml: String,
}

/// Why a shadow cannot be tried on a share of the requests of one alias.
#[derive(Debug, Clone, PartialEq)]
pub enum NotACanary {
    /// It decides other requests than all of one alias.
    Watches,
    /// The alias is one of free models.
    Free(String),
    /// The alias divides its requests.
    Divides(String),
    /// It changes what an alias does not set, or nothing for this alias. With its changes.
    Changes(String),
    /// It changes nothing but the cascade, on which no choice depends.
    AfterChoice,
    /// It changes the objective of requests whose alias has none. A key with an objective goes before that, and not before
    /// the objective of the alias on trial.
    KeysChoose,
    /// The name of the alias on trial is taken.
    Taken(String),
    /// The configuration with the lines has faults.
    Faults(Vec<Fault>),
}

impl fmt::Display for NotACanary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotACanary::Watches => f.write_str(
                "a canary belongs to one alias, and this shadow decides other requests than all of one: let it watch \
                 one with where = { alias = \"…\" } and without an objective",
            ),
            NotACanary::Free(alias) => write!(f, "'{alias}' is an alias of free models, which cannot have a canary"),
            NotACanary::Divides(alias) => write!(
                f,
                "'{alias}' divides its requests already (ladder, rules, shares or a canary): change these in the file"
            ),
            NotACanary::Changes(changes) => write!(
                f,
                "it changes more, or less, than an alias sets for its own requests (its objective, task, weights, targets, \
                 quality limits, cascade and lists of models; routing.objective and routing.balanced): {changes}"
            ),
            NotACanary::AfterChoice => f.write_str(
                "it changes only the cascade, which acts on answers. A shadow gets no answer and chooses as what serves does, so \
                 its figures say nothing of this change: add a canary to the file yourself, which is judged by what it serves",
            ),
            NotACanary::KeysChoose => f.write_str(
                "it changes routing.objective, and keys with an objective of their own would lose it to the alias on trial: \
                 set the objective of the alias in the shadow instead",
            ),
            NotACanary::Taken(alias) => {
                write!(f, "there is an alias '{alias}' already: remove it, or give the shadow another name")
            }
            NotACanary::Faults(faults) => {
                f.write_str("the configuration with the lines has faults:")?;
                faults.iter().try_for_each(|fault| write!(f, " {fault}"))
            }
        }
    }
}

/// What an alias on trial sets.
struct OnTrial {
    settings: Table,
    /// Whether choices depend on what the shadow changes.
    changes_choices: bool,
    /// Whether its objective is that of requests whose alias has none.
    has_default_objective: bool,
}

impl Config {
    /// The lines that try this shadow on a share of the requests of its alias. `keys_choose` says whether a key that is
    /// not in the configuration has an objective.
    ///
    /// # Errors
    /// A canary cannot do what the shadow does.
    pub fn canary_lines(
        &self,
        shadow: &ShadowConfig,
        share: f64,
        guardrail: &Guardrail,
        keys_choose: bool,
    ) -> Result<CanaryLines, NotACanary> {
        let (Some(id), None) = (&shadow.alias, shadow.objective) else { return Err(NotACanary::Watches) };
        let serving = self.models.alias_called(id).ok_or(NotACanary::Watches)?;
        let name = format!("{id}-{}", shadow.name);
        if serving.free_only {
            return Err(NotACanary::Free(id.clone()));
        }
        if serving.split.is_some() {
            return Err(NotACanary::Divides(id.clone()));
        }
        if self.models.alias_called(&name).is_some() {
            return Err(NotACanary::Taken(name));
        }
        let (mut tree, names) = (self.tree(), self.own_names(id));
        let overrides = overrides_of(&tree, &shadow.name);
        let OnTrial { settings, changes_choices, has_default_objective } =
            self.on_trial(&tree, &overrides, serving).ok_or_else(|| NotACanary::Changes(shadow.overrides.clone()))?;
        if !changes_choices {
            return Err(NotACanary::AfterChoice);
        }
        if has_default_objective && (keys_choose || self.keys.iter().any(|key| key.objective.is_some())) {
            return Err(NotACanary::KeysChoose);
        }
        let place = entry_of(&tree, names).map(|entry| entry.location.clone());
        let (canary, on_trial) = (canary(&name, share, guardrail), with_name(&name, settings));
        add_both(&mut tree, names, &canary, &on_trial);
        self.read_tree(&tree, &table([])).map_err(NotACanary::Faults)?;
        Ok(CanaryLines { alias: id.clone(), toml: toml(id, place.as_ref(), &canary, &on_trial) })
    }

    /// What an alias sets with these overrides. `None` if they change nothing for its requests, or anything else.
    fn on_trial(&self, tree: &Table, overrides: &Table, serving: &Alias) -> Option<OnTrial> {
        // This configuration may have been completed after it was read, with paths beside its file. The other one is not.
        let own = self.read_tree(tree, &table([])).ok()?;
        let read = self.read_tree(tree, overrides).ok()?;
        let changed = laid_over(tree, overrides);
        let decided = read.models.alias_called(&serving.id)?.clone();
        let mut settings = table([]);
        let entry = entry_of(&changed, self.own_names(&serving.id)).into_iter().flat_map(|entry| &entry.entries);
        settings.entries.extend(entry.filter(|entry| !NOT_TAKEN.contains(&entry.key.as_str())).cloned());
        let taken = settings.entries.len();
        let (objective, balanced) = (read.routing.objective, read.routing.policy.balanced);
        let has_default_objective = decided.objective.is_none() && objective != self.routing.objective;
        if has_default_objective {
            settings.add("objective", node(Value::Text(objective.as_str().to_owned())));
        }
        if decided.weights.is_none() && balanced != self.routing.policy.balanced {
            let Weights { latency, cost, quality } = balanced;
            let weights = [("latency", latency), ("cost", cost), ("quality", quality)];
            let weights = table(weights.map(|(key, weight)| (key, Value::Number(weight))));
            settings.add("weights", node(Value::Table(weights)));
        }
        // No decision depends on the description.
        let described = Alias { description: serving.description.clone(), ..decided.clone() };
        let sets_more = settings.entries.len() > taken;
        let changes = described != *serving || sets_more;
        let changes_choices = sets_more || Alias { cascade: serving.cascade.clone(), ..described } != *serving;
        let is_of_a_part = decided.spend_pace == serving.spend_pace && decided.split == serving.split;
        let is_possible = changes && is_of_a_part && own.differs_only_for(read, serving);
        is_possible.then_some(OnTrial { settings, changes_choices, has_default_objective })
    }

    /// Whether a configuration has the effect of this one but for the requests of an alias.
    fn differs_only_for(&self, mut other: Config, serving: &Alias) -> bool {
        if let Some(alias) = other.models.aliases.iter_mut().find(|alias| alias.id == serving.id) {
            *alias = serving.clone();
        }
        other.routing.objective = self.routing.objective;
        other.routing.policy.balanced = self.routing.policy.balanced;
        let alike = Config {
            shadows: self.shadows.clone(),
            notes: self.notes.clone(),
            warnings: self.warnings.clone(),
            origin: self.origin.clone(),
            named_files: self.named_files.clone(),
            ..other
        };
        alike == *self
    }

    /// Names by which the file may call an alias: whole, or without the prefix of the service.
    fn own_names<'a>(&self, id: &'a str) -> [&'a str; 2] {
        let short = id.strip_prefix(&self.service.alias_prefix).and_then(|rest| rest.strip_prefix('/'));
        [id, short.unwrap_or(id)]
    }
}

/// The overrides of a shadow.
fn overrides_of(tree: &Table, name: &str) -> Table {
    let shadows = list_of(tree, "shadow").iter().filter(|item| name_of(item) == Some(name));
    let overrides = shadows.filter_map(|item| item.table()?.get("overrides")?.node.table()).next();
    overrides.cloned().unwrap_or_else(|| table([]))
}

fn list_of<'t>(tree: &'t Table, key: &str) -> &'t [Node] {
    match tree.get(key).map(|entry| &entry.node.value) {
        Some(Value::List(items)) => items,
        _ => &[],
    }
}

/// The entry of an alias in the file. A built-in alias may have none.
fn entry_of<'t>(tree: &'t Table, names: [&str; 2]) -> Option<&'t Table> {
    let is_it = |item: &&Node| name_of(item).is_some_and(|name| names.contains(&name));
    list_of(tree, "aliases").iter().find(is_it)?.table()
}

fn canary(name: &str, share: f64, guardrail: &Guardrail) -> Table {
    let Guardrail { spend, failures, first_token } = *guardrail;
    let limits = [("max_spend", spend), ("max_failures", failures), ("max_ttft", first_token)];
    let limits = limits.into_iter().filter_map(|(key, limit)| Some((key, Value::Number(limit?))));
    let names = Value::List(vec![node(Value::Text(name.to_owned()))]);
    table([("share", Value::Number(share)), ("use", names)].into_iter().chain(limits))
}

fn with_name(name: &str, settings: Table) -> Table {
    let mut named = table([("name", Value::Text(name.to_owned()))]);
    named.entries.extend(settings.entries);
    named
}

fn table<'k>(entries: impl IntoIterator<Item = (&'k str, Value)>) -> Table {
    let mut table = Table::empty(SourceLocation::Default);
    entries.into_iter().for_each(|(key, value)| table.add(key, node(value)));
    table
}

/// Adds the canary to the entry of its alias, and the alias on trial behind all others.
fn add_both(tree: &mut Table, names: [&str; 2], canary: &Table, on_trial: &Table) {
    if tree.get("aliases").is_none() {
        tree.add("aliases", node(Value::List(Vec::new())));
    }
    let aliases = tree.entries.iter_mut().find(|entry| entry.key == "aliases").map(|entry| &mut entry.node.value);
    let Some(Value::List(aliases)) = aliases else { return };
    let is_it = |item: &&mut Node| name_of(item).is_some_and(|name| names.contains(&name));
    match aliases.iter_mut().find(is_it).map(|item| &mut item.value) {
        Some(Value::Table(entry)) => entry.add("canary", node(Value::Table(canary.clone()))),
        _ => {
            let mut entry = with_name(names[0], table([]));
            entry.add("canary", node(Value::Table(canary.clone())));
            aliases.push(node(Value::Table(entry)));
        }
    }
    aliases.push(node(Value::Table(on_trial.clone())));
}

fn node(value: Value) -> Node {
    Node::new(value, SourceLocation::Default)
}

/// The lines, with where they belong.
fn toml(alias: &str, entry: Option<&SourceLocation>, canary: &Table, on_trial: &Table) -> String {
    let keys = |table: &Table| {
        let line =
            |entry: &Entry| format!("{} = {}\n", toml_value::key(&entry.key), toml_value::value(&entry.node.value));
        table.entries.iter().map(line).collect::<String>()
    };
    let place = match entry {
        Some(place) => format!("# Below the other keys of the entry of '{alias}' at {place}:\n"),
        None => format!("# At the end of the file:\n[[aliases]]\nname = {}\n\n", toml_value::quoted(alias)),
    };
    let further = if entry.is_some() { "# At the end of the file:\n" } else { "" };
    format!("{place}[aliases.canary]\n{}\n{further}[[aliases]]\n{}", keys(canary), keys(on_trial))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Environment;

    const GUARDRAIL: Guardrail = Guardrail { spend: Some(0.1), failures: Some(0.005), first_token: Some(0.2) };
    const WORLD: &str = "[[aliases]]\nname = \"chat\"\nallowed_models = [\"openai/*\"]\nweights = { latency = 0.5, cost = 0.5 }\n\
                         cascade = { to = \"service/auto\", on = [\"empty\"] }\nsynonyms = [\"c\"]\n";

    fn read(toml: &str) -> Config {
        let read = Config::parse(toml, "config.toml", Path::new("."), &Environment::default());
        read.unwrap_or_else(|faults| panic!("{toml}\n{faults:?}"))
    }

    fn lines(world: &str, shadow: &str) -> Result<CanaryLines, NotACanary> {
        let config = read(&format!("{world}[[shadow]]\nname = \"thrifty\"\n{shadow}"));
        config.canary_lines(&config.shadows[0], 0.05, &GUARDRAIL, false)
    }

    fn of_chat(overrides: &str) -> String {
        format!("where = {{ alias = \"service/chat\" }}\n[shadow.overrides]\n{overrides}")
    }

    /// The configuration with the lines where they belong: the canary behind the only alias.
    fn promoted(world: &str, overrides: &str) -> Config {
        let lines = lines(world, &of_chat(overrides)).unwrap_or_else(|why| panic!("{overrides}: {why}"));
        read(&format!("{world}{}", lines.toml))
    }

    #[test]
    fn the_alias_on_trial_sets_what_the_shadow_decides_for_the_requests_of_its_alias() {
        for overrides in [
            "'aliases[\"chat\"].objective' = \"cheapest\"",
            "routing.objective = \"cheapest\"",
            "'aliases[\"chat\"].weights' = { latency = 0.1, cost = 0.9 }",
            "'aliases[\"chat\"].allowed_models' = [\"openai/*\", \"anthropic/*\"]\nrouting.objective = \"fastest\"",
            "'aliases[\"chat\"].min_quality' = { p10 = 0.7 }\n'aliases[\"chat\"].preferred_max_latency' = { p95 = 0.8 }",
        ] {
            let shadow = read(&format!("{WORLD}[[shadow]]\nname = \"thrifty\"\n{}", of_chat(overrides)));
            let shadow = &shadow.shadows[0];
            let decided = shadow.catalog.alias_called("service/chat").unwrap();
            let promoted = promoted(WORLD, overrides);
            let on_trial = promoted.models.alias_called("service/chat-thrifty").unwrap();
            let objective = decided.objective.unwrap_or(shadow.default_objective);
            assert_eq!(on_trial.objective.unwrap_or(promoted.routing.objective), objective, "{overrides}");
            let named = Alias { id: on_trial.id.clone(), objective: on_trial.objective, ..decided.clone() };
            assert_eq!(*on_trial, named, "{overrides}");
            let canary = promoted.models.alias_called("service/chat").unwrap().split.clone().unwrap().canary.clone();
            let canary = canary.unwrap();
            assert_eq!((canary.share, canary.guardrail), (0.05, GUARDRAIL));
            assert_eq!(canary.names, ["service/chat-thrifty"]);
        }
    }

    #[test]
    fn the_weights_of_all_requests_become_those_of_the_alias_on_trial() {
        let world = "[[aliases]]\nname = \"chat\"\n";
        let promoted = promoted(world, "routing.balanced.cost = 0.9");
        let on_trial = promoted.models.alias_called("service/chat-thrifty").unwrap();
        let weights = on_trial.weights.unwrap();
        assert_eq!((weights.latency, weights.cost), (promoted.routing.policy.balanced.latency, 0.9));
    }

    #[test]
    fn a_built_in_alias_without_an_entry_gets_one() {
        let shadow = "where = { alias = \"service/auto\" }\n[shadow.overrides]\nrouting.objective = \"cheapest\"";
        let lines = lines("", shadow).unwrap();
        let expected = "# At the end of the file:\n[[aliases]]\nname = \"service/auto\"\n\n[aliases.canary]\nshare = 0.05\n\
                        use = [\"service/auto-thrifty\"]\nmax_spend = 0.1\nmax_failures = 0.005\nmax_ttft = 0.2\n\n[[aliases]]\n\
                        name = \"service/auto-thrifty\"\nobjective = \"cheapest\"\n";
        assert_eq!((lines.alias.as_str(), lines.toml.as_str()), ("service/auto", expected));
        assert!(read(&lines.toml).models.alias_called("service/auto").unwrap().split.is_some());
    }

    #[test]
    fn a_file_that_leaves_the_paths_of_its_data_to_the_start_gives_the_same_lines_as_its_text() {
        let (shadow, folder) = (of_chat("routing.objective = \"cheapest\""), std::env::temp_dir());
        let text = format!("{WORLD}[[shadow]]\nname = \"thrifty\"\n{shadow}");
        let path = folder.join(format!("pointsman-promotion-{}.toml", std::process::id()));
        std::fs::write(&path, &text).unwrap();
        let loaded = Config::load(Some(&path), &Environment::default());
        std::fs::remove_file(&path).unwrap();
        let config = loaded.unwrap_or_else(|faults| panic!("{faults:?}")).config;
        assert_ne!(config.ledger.data_dir, read(&text).ledger.data_dir, "a file has a directory beside it");
        let of_file = config.canary_lines(&config.shadows[0], 0.05, &GUARDRAIL, false);
        let of_file = of_file.unwrap_or_else(|why| panic!("{why}"));
        let of_text = lines(WORLD, &shadow).unwrap();
        assert_eq!(of_file.toml.replace(&path.display().to_string(), "config.toml"), of_text.toml);
    }

    #[test]
    fn a_shadow_of_the_default_objective_is_refused_while_a_key_has_an_objective() {
        let key = |more: &str| format!("[[keys]]\nname = \"team\"\nsha256 = \"{}\"\n{more}", "ab".repeat(32));
        let promoted = |more: &str, overrides: &str, keys_choose: bool| {
            let shadow = of_chat(overrides);
            let config = read(&format!("{WORLD}{}\n[[shadow]]\nname = \"thrifty\"\n{shadow}", key(more)));
            config.canary_lines(&config.shadows[0], 0.05, &GUARDRAIL, keys_choose).map(drop)
        };
        let (all, own) = ("routing.objective = \"cheapest\"", "'aliases[\"chat\"].objective' = \"cheapest\"");
        let chooses = "objective = \"fastest\"";
        assert_eq!(promoted("", all, false), Ok(()));
        assert_eq!(promoted(chooses, all, false), Err(NotACanary::KeysChoose));
        assert_eq!(promoted("", all, true), Err(NotACanary::KeysChoose), "a key that is not in the file");
        assert_eq!(promoted(chooses, own, true), Ok(()), "the objective of an alias goes before that of a key anyway");
    }

    #[test]
    fn what_no_canary_can_do_is_refused_with_the_reason() {
        let cheapest = "routing.objective = \"cheapest\"";
        let (chat, twice) = (of_chat(cheapest), format!("{WORLD}[[aliases]]\nname = \"chat-thrifty\"\n"));
        let divided = WORLD.replace("synonyms = [\"c\"]", "ladder = [\"service/auto\"]");
        let free = "where = { alias = \"service/free\" }\n[shadow.overrides]\nrouting.objective = \"cheapest\"";
        let by_objective = "where = { alias = \"service/chat\", objective = \"balanced\" }\n";
        for (world, shadow, said) in [
            (WORLD, format!("[shadow.overrides]\n{cheapest}"), "belongs to one alias"),
            (WORLD, by_objective.to_owned(), "belongs to one alias"),
            (WORLD, free.to_owned(), "alias of free models"),
            (&divided, chat.clone(), "divides its requests already"),
            (&twice, chat, "an alias 'service/chat-thrifty' already"),
            (WORLD, of_chat("providers.openai.enabled = false"), "more, or less, than an alias sets"),
            (WORLD, of_chat("routing.exploration = 0.25"), "routing.exploration = 0.25"),
            (
                WORLD,
                of_chat("'aliases[\"chat\"].objective' = \"cheapest\"\nrouting.exploration = 0.25"),
                "more, or less",
            ),
            (WORLD, of_chat("'aliases[\"auto\"].objective' = \"cheapest\""), "more, or less"),
            (WORLD, of_chat("'aliases[\"chat\"].weights' = { latency = 0.5, cost = 0.5 }"), "more, or less"),
            (WORLD, of_chat(""), "more, or less"),
            (WORLD, of_chat("'aliases[\"chat\"].description' = \"Small talk\""), "more, or less"),
            (
                WORLD,
                of_chat("'aliases[\"chat\"].cascade' = { to = \"service/auto\", on = [\"schema\"] }"),
                "only the cascade",
            ),
        ] {
            let why = lines(world, &shadow).map_err(|why| why.to_string());
            assert!(why.as_ref().is_err_and(|why| why.contains(said)), "{shadow}: {why:?}");
        }
    }
}
