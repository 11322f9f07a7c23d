//! The lines of our configuration.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
};

use pointsman_domain::Price;

use super::{Deployment, Group, LeftOut, MasterKey, Target, plain};

/// Context window where the file does not say it, tokens.
const ASSUMED_CONTEXT: u32 = 128_000;
/// Parameters of a chat model of which nothing is known.
const PARAMETERS: &str =
    "[\"max_tokens\", \"temperature\", \"top_p\", \"stop\", \"seed\", \"response_format\", \"tools\", \"tool_choice\"]";
/// Tokens that `usd_per_million` is for.
const MILLION: u64 = 1_000_000;

pub(super) fn configuration(
    deployments: &[Deployment],
    groups: &[Group],
    master: Option<&MasterKey>,
    left_out: &[LeftOut],
) -> String {
    let mut text =
        String::from("\n[catalog]\nbuiltin = true                 # beside providers with an address of their own\n");
    text.push_str(&providers(deployments));
    text.push_str(&models(deployments));
    text.push_str(&aliases(groups));
    // Writing to a string cannot fail.
    if let Some(MasterKey(variable)) = master {
        let _ = writeln!(
            text,
            "\n[[keys]]                       # the master key\nname = \"master\"\nenv = {}\nscopes = [\"inference\", \"read\", \"admin\"]",
            quoted(variable)
        );
    }
    if !left_out.is_empty() {
        text.push_str("\n# Not carried over, or not as it was meant (line and place in the file of LiteLLM):\n");
    }
    for LeftOut { line, path, why } in left_out {
        let _ = writeln!(text, "#   line {line}: {}: {why}", one_line(path));
    }
    text
}

fn providers(deployments: &[Deployment]) -> String {
    let mut tables: BTreeMap<&str, String> = BTreeMap::new();
    for deployment in deployments {
        let table = tables.entry(deployment.provider()).or_default();
        if table.is_empty() {
            *table = provider(&deployment.target);
        }
    }
    let shown = tables.iter().filter(|(_, table)| !table.is_empty());
    shown.map(|(slug, table)| format!("\n[providers.{slug}]\n{table}")).collect()
}

fn provider(target: &Target) -> String {
    let key = |variable: &Option<String>| {
        variable.as_ref().map(|variable| format!("api_key_env = {}\n", quoted(variable))).unwrap_or_default()
    };
    match target {
        Target::BuiltIn { variable, is_local, .. } => {
            let enabled = if *is_local { "enabled = true\n" } else { "" };
            format!("{enabled}{}", key(variable))
        }
        Target::Own { base_url, variable, is_azure, has_versions, .. } => {
            let auth = if *is_azure { "auth = \"api-key\"\n" } else { "" };
            let routes = if *has_versions { "routes = \"deployments\"\n" } else { "" };
            format!("base_url = {}\n{auth}{routes}{}", quoted(base_url), key(variable))
        }
    }
}

/// The models that the catalogue does not have at these providers.
fn models(deployments: &[Deployment]) -> String {
    let mut entries: BTreeMap<&str, Vec<&Deployment>> = BTreeMap::new();
    for deployment in deployments.iter().filter(|deployment| !deployment.is_known) {
        let endpoints = entries.entry(deployment.model.as_str()).or_default();
        let is_same =
            |other: &&Deployment| (other.provider(), &other.upstream) == (deployment.provider(), &deployment.upstream);
        if !endpoints.iter().any(is_same) {
            endpoints.push(deployment);
        }
    }
    let mut text = String::new();
    for (id, endpoints) in entries {
        let is_embedding = endpoints.iter().any(|endpoint| endpoint.is_embedding);
        let outputs = if is_embedding { "output_modalities = [\"embeddings\"]\n" } else { "" };
        let _ = write!(text, "\n[[models]]\nid = {}\n{outputs}", quoted(id));
        endpoints.iter().for_each(|deployment| text.push_str(&endpoint(deployment)));
    }
    text
}

fn endpoint(deployment: &Deployment) -> String {
    let context = match deployment.context {
        Some(tokens) => format!("context_length = {tokens}\n"),
        None => format!("context_length = {ASSUMED_CONTEXT}        # assumed\n"),
    };
    let parameters = if deployment.is_embedding {
        String::new()
    } else {
        format!("supported_parameters = {PARAMETERS}  # assumed\n")
    };
    let prices = match deployment.prices {
        Some((prompt, completion)) => {
            let million = |price: Price| price.times(MILLION).to_string();
            let (prompt, completion) = (million(prompt), million(completion));
            format!("usd_per_million = {{ prompt = \"{prompt}\", completion = \"{completion}\" }}\n")
        }
        None => "pricing = \"unknown\"            # no budget and no limit on cost uses it before it has prices\n"
            .to_owned(),
    };
    format!(
        "[[models.endpoints]]\nprovider = \"{}\"\nupstream_model = {}\n{context}{parameters}{prices}",
        deployment.provider(),
        quoted(&deployment.upstream)
    )
}

/// One alias per public name, unless that is the id of the one model behind it.
fn aliases(groups: &[Group]) -> String {
    let (mut text, mut used) = (String::new(), HashSet::new());
    for Group { name, names, models, fallbacks, .. } in groups {
        if names.is_empty() && fallbacks.is_empty() && *models == [name.clone()] {
            continue;
        }
        let first = plain(name);
        let numbered = (2..).map(|n| format!("{first}-{n}"));
        let id = std::iter::once(first.clone()).chain(numbered).find(|id| used.insert(id.clone())).unwrap_or(first);
        let is_name = |name: &&String| name.bytes().all(|byte| byte.is_ascii_graphic());
        let names: Vec<String> = names.iter().filter(is_name).map(|name| quoted(name)).collect();
        let members: Vec<String> = models.iter().chain(fallbacks).map(|model| quoted(model)).collect();
        let _ = write!(
            text,
            "\n[[aliases]]\nname = {}\nsynonyms = [{}]\nallowed_models = [{}]\n",
            quoted(&id),
            names.join(", "),
            members.join(", ")
        );
        if !fallbacks.is_empty() {
            let _ = writeln!(
                text,
                "# LiteLLM takes {} only when the others failed; here the objective chooses among all.",
                fallbacks.iter().map(|model| one_line(model)).collect::<Vec<_>>().join(", ")
            );
        }
    }
    text
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// Without what could end a comment.
fn one_line(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}
