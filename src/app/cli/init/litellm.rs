//! `init --from litellm`: a configuration of LiteLLM's proxy as one of ours.
//!
//! Its deployments become endpoints, its names of groups become aliases, its fallbacks further members of them. What has no
//! counterpart is told with line and path, and never with its value, which may be a secret.

mod deployment;
mod write;

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use pointsman_config::{Config, Environment, built_in_providers};

use self::deployment::{Deployment, Target, read};
use super::yaml::Node;

/// LiteLLM's strategies and our objectives.
const STRATEGIES: [(&str, &str); 6] = [
    ("simple-shuffle", "balanced"),
    ("least-busy", "balanced"),
    ("usage-based-routing", "balanced"),
    ("usage-based-routing-v2", "balanced"),
    ("latency-based-routing", "fastest"),
    ("cost-based-routing", "cheapest"),
];
/// Settings without a counterpart, and why none is needed.
const NEEDLESS: [(&str, &str); 7] = [
    ("context_window_fallbacks", "is not needed: endpoints whose context window is too short are left out"),
    ("drop_params", "is not needed: parameters that an endpoint does not list are dropped"),
    ("num_retries", "is decided by [routing.retry]"),
    ("timeout", "is decided by [timeouts]"),
    ("request_timeout", "is decided by [timeouts]"),
    ("rpm", "is not needed: what is left is read from the answers of the provider"),
    ("tpm", "is not needed: what is left is read from the answers of the provider"),
];
/// How a value names a variable.
const VARIABLE: &str = "os.environ/";

/// What a file of LiteLLM says, in our terms.
pub(super) struct Import {
    pub(super) objective: &'static str,
    /// Lines of the configuration.
    pub(super) text: String,
    pub(super) aliases: Vec<String>,
    pub(super) models: Vec<String>,
    pub(super) left_out: Vec<LeftOut>,
}

/// What was not carried over, or not as it was meant.
pub(super) struct LeftOut {
    pub(super) line: usize,
    pub(super) path: String,
    pub(super) why: String,
}

/// A public name with the models that it stands for.
struct Group {
    /// As LiteLLM calls it.
    name: String,
    line: usize,
    /// All names that the alias gets.
    names: Vec<String>,
    models: Vec<String>,
    /// Those that LiteLLM takes only when the others failed.
    fallbacks: Vec<String>,
}

/// The variable of the administrator's key.
struct MasterKey(String);

/// What is known of the built-in catalogue.
pub(super) struct Known {
    /// Models by provider and the provider's name.
    models: HashMap<(String, String), String>,
    /// Variables of keys by provider.
    variables: HashMap<String, String>,
    /// Names that no alias can have.
    names: HashSet<String>,
}

impl Known {
    fn built_in(environment: &Environment) -> Known {
        let catalog =
            Config::parse("[catalog]\nbuiltin = true\n", "", Path::new("."), environment).map(|it| it.catalog(1));
        let (mut models, mut names) = (HashMap::new(), HashSet::new());
        for catalog in catalog.iter() {
            for model in &catalog.models {
                names.extend([model.id.to_string(), model.canonical_slug.to_string()]);
                for (_, endpoint) in catalog.endpoints_of(model) {
                    let Some(provider) = catalog.provider_of(endpoint) else { continue };
                    let at = (provider.slug.to_string(), endpoint.upstream_model.to_string());
                    models.entry(at).or_insert_with(|| model.id.to_string());
                }
            }
        }
        let variables = built_in_providers().into_iter().map(|provider| (provider.slug, provider.key_variable));
        Known { models, variables: variables.collect(), names }
    }
}

impl Import {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(text: &str, environment: &Environment) -> Result<Import, String> {
        let root = Node::parse(text)?;
        let list = root.get("model_list").map(Node::items).unwrap_or_default();
        if list.is_empty() {
            return Err("it has no model_list".to_owned());
        }
        let (known, mut left_out) = (Known::built_in(environment), Vec::new());
        let mut deployments: Vec<Deployment> = Vec::new();
        let mut groups: Vec<Group> = Vec::new();
        for (n, entry) in list.iter().enumerate() {
            let path = format!("model_list[{n}]");
            match read(entry, &path, &known, &mut left_out) {
                Ok(deployment) => {
                    member(&mut groups, &deployment);
                    deployments.push(deployment);
                }
                Err(why) => {
                    entry.read();
                    left_out.push(LeftOut { line: entry.line, path, why });
                }
            }
        }
        tell_apart(&mut deployments, &mut left_out);
        let objective = strategy(&root, &mut left_out);
        fallbacks(&root, &mut groups, &mut left_out);
        group_aliases(&root, &mut groups, &mut left_out);
        let master = master_key(&root, &mut left_out);
        let mut unread = Vec::new();
        root.unread("", &mut unread);
        left_out.extend(unread.into_iter().map(|(line, path)| LeftOut { line, why: why(&path).to_owned(), path }));
        left_out.sort_by(|one, other| (one.line, &one.path).cmp(&(other.line, &other.path)));
        let mut models: Vec<String> = deployments.iter().map(|deployment| deployment.model.clone()).collect();
        models.sort_unstable();
        models.dedup();
        let taken: HashSet<&str> = known.names.iter().chain(&models).map(String::as_str).collect();
        for group in &mut groups {
            group.withdraw(&taken, &mut left_out);
        }
        let text = write::configuration(&deployments, &groups, master.as_ref(), &left_out);
        let aliases = groups.iter().flat_map(|group| group.names.clone()).collect();
        Ok(Import { objective, text, aliases, models, left_out })
    }
}

/// Adds the model of a deployment to its group.
fn member(groups: &mut Vec<Group>, deployment: &Deployment) {
    let Deployment { group: name, model, line, .. } = deployment;
    if let Some(group) = groups.iter_mut().find(|group| group.name == *name) {
        if !group.models.contains(model) {
            group.models.push(model.clone());
        }
        return;
    }
    let (models, names) = (vec![model.clone()], vec![name.clone()]);
    groups.push(Group { name: name.clone(), line: *line, names, models, fallbacks: Vec::new() });
}

impl Group {
    /// Takes the names back that models have. If it is the one model of the group, the name means the same as before.
    fn withdraw(&mut self, taken: &HashSet<&str>, left_out: &mut Vec<LeftOut>) {
        let is_the_model = self.fallbacks.is_empty() && self.models == [self.name.clone()];
        for name in self.names.iter().filter(|name| taken.contains(name.as_str()) && !is_the_model) {
            let why = format!("is the id of a model as well: call the alias '{}'", plain(&self.name));
            left_out.push(LeftOut { line: self.line, path: name.clone(), why });
        }
        self.names.retain(|name| !taken.contains(name.as_str()));
    }
}

/// Gives providers at different addresses, or with different keys, different names.
fn tell_apart(deployments: &mut [Deployment], left_out: &mut Vec<LeftOut>) {
    let mut seen: Vec<(String, String, Option<String>)> = Vec::new();
    for Deployment { target, line, path, .. } in deployments {
        match target {
            Target::Own { slug, base_url, variable, .. } => {
                let same = seen.iter().find(|(_, url, key)| url == base_url && key == variable);
                if let Some((known, ..)) = same {
                    slug.clone_from(known);
                    continue;
                }
                let first = slug.clone();
                for n in 2.. {
                    if !seen.iter().any(|(known, ..)| known == slug) {
                        break;
                    }
                    *slug = format!("{first}-{n}");
                }
                seen.push((slug.clone(), base_url.clone(), variable.clone()));
            }
            Target::BuiltIn { slug, variable, .. } => match seen.iter().find(|(known, ..)| known == slug) {
                Some((.., key)) if key != variable => {
                    let why = "has another key than the same provider above, which is used for both".to_owned();
                    left_out.push(LeftOut { line: *line, path: path.clone(), why });
                }
                Some(_) => {}
                None => seen.push((slug.clone(), String::new(), variable.clone())),
            },
        }
    }
}

/// Why a setting is left out.
fn why(path: &str) -> &'static str {
    let last = path.split('.').rfind(|part| !part.starts_with('[')).unwrap_or(path);
    let is_meant = |(name, _): &&(&str, &str)| last == *name || path.contains(&format!(".{name}["));
    NEEDLESS.iter().find(is_meant).map_or("has no counterpart", |(_, why)| why)
}

fn strategy(root: &Node, left_out: &mut Vec<LeftOut>) -> &'static str {
    let Some(node) = root.get("router_settings").and_then(|settings| settings.get("routing_strategy")) else {
        return "balanced";
    };
    let asked = node.text().unwrap_or_default();
    let found = STRATEGIES.iter().find(|(theirs, _)| *theirs == asked).map(|(_, ours)| *ours);
    found.unwrap_or_else(|| {
        let why = "is no strategy that is known here; the objective is balanced".to_owned();
        left_out.push(LeftOut { line: node.line, path: "router_settings.routing_strategy".to_owned(), why });
        "balanced"
    })
}

/// `fallbacks: [{name: [other, …]}]`, which may stand in either section.
fn fallbacks(root: &Node, groups: &mut [Group], left_out: &mut Vec<LeftOut>) {
    for section in ["router_settings", "litellm_settings"] {
        let Some(list) = root.get(section).and_then(|settings| settings.get("fallbacks")) else { continue };
        for (n, entry) in list.items().iter().flat_map(Node::entries).enumerate() {
            let (name, others) = entry;
            for other in others.items() {
                let Some(target) = other.text() else { continue };
                let models = groups.iter().find(|group| group.name == target).map(|group| group.models.clone());
                let group = groups.iter_mut().find(|group| group.name == *name);
                let (Some(models), Some(group)) = (models, group) else {
                    let why = format!("one of '{name}' and '{target}' is no model of this configuration");
                    left_out.push(LeftOut { line: other.line, path: format!("{section}.fallbacks[{n}]"), why });
                    continue;
                };
                let new = models.into_iter().filter(|model| !group.models.contains(model));
                group.fallbacks.extend(new);
            }
        }
    }
}

/// `model_group_alias: {name: group}`.
fn group_aliases(root: &Node, groups: &mut [Group], left_out: &mut Vec<LeftOut>) {
    let named = root.get("router_settings").and_then(|settings| settings.get("model_group_alias"));
    for (name, node) in named.into_iter().flat_map(Node::entries) {
        let target = node.text().unwrap_or_default();
        match groups.iter_mut().find(|group| group.name == target) {
            Some(group) => group.names.push(name.clone()),
            None => {
                let why = "is no model of this configuration".to_owned();
                let path = format!("router_settings.model_group_alias.{name}");
                left_out.push(LeftOut { line: node.line, path, why });
            }
        }
    }
}

fn master_key(root: &Node, left_out: &mut Vec<LeftOut>) -> Option<MasterKey> {
    let node = root.get("general_settings")?.get("master_key")?;
    match node.text()?.strip_prefix(VARIABLE) {
        Some(variable) => Some(MasterKey(variable.to_owned())),
        None => {
            let why = "the key itself stands there: put it into a variable, and name that in [[keys]]".to_owned();
            left_out.push(LeftOut { line: node.line, path: "general_settings.master_key".to_owned(), why });
            None
        }
    }
}

/// Letters, digits, dots and lines of a name.
pub(super) fn plain(name: &str) -> String {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '_');
    let name: String = name.chars().map(|letter| if allowed(letter) { letter } else { '-' }).collect();
    name.trim_matches(['-', '.', '_']).to_ascii_lowercase()
}

impl Deployment {
    /// The slug of its provider.
    fn provider(&self) -> &str {
        match &self.target {
            Target::BuiltIn { slug, .. } | Target::Own { slug, .. } => slug,
        }
    }
}
