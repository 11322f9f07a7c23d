//! One entry of `model_list`: at which provider it is, under which name, with which key and prices.

use pointsman_config::BaseUrl;
use pointsman_domain::Price;

use super::{Known, LeftOut, VARIABLE, plain};
use crate::app::cli::{catalog::dollars, init::yaml::Node};

/// Prefixes of models and our providers.
const BUILT_IN: [(&str, &str); 13] = [
    ("openai", "openai"),
    ("anthropic", "anthropic"),
    ("gemini", "google"),
    ("mistral", "mistral"),
    ("groq", "groq"),
    ("deepseek", "deepseek"),
    ("xai", "xai"),
    ("together_ai", "together"),
    ("fireworks_ai", "fireworks"),
    ("openrouter", "openrouter"),
    ("ollama", "ollama"),
    ("ollama_chat", "ollama"),
    ("hosted_vllm", "vllm"),
];
/// Beginnings of names that LiteLLM knows without a prefix.
const UNPREFIXED: [(&str, &str); 6] = [
    ("gpt-", "openai"),
    ("chatgpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("claude-", "anthropic"),
];
/// Prefixes of an API like OpenAI's at an address of one's own.
const COMPATIBLE: [&str; 5] = ["openai", "hosted_vllm", "custom_openai", "litellm_proxy", "text-completion-openai"];

/// An endpoint.
pub(super) struct Deployment {
    pub(super) line: usize,
    pub(super) path: String,
    /// Its public name.
    pub(super) group: String,
    /// Id of the model.
    pub(super) model: String,
    pub(super) upstream: String,
    pub(super) target: Target,
    /// Whether the built-in catalogue has the endpoint, with prices and limits.
    pub(super) is_known: bool,
    pub(super) is_embedding: bool,
    pub(super) context: Option<u32>,
    /// Dollars per token of prompt and answer.
    pub(super) prices: Option<(Price, Price)>,
}

/// Where it is.
pub(super) enum Target {
    /// A provider of the built-in catalogue, with the variable of its key if that is another one.
    BuiltIn { slug: String, variable: Option<String>, is_local: bool },
    /// One at an address of its own.
    Own { slug: String, base_url: String, variable: Option<String>, is_azure: bool, has_versions: bool },
}

/// Reads an entry.
///
/// # Errors
/// Why it cannot be carried over.
pub(super) fn read(entry: &Node, path: &str, known: &Known, left_out: &mut Vec<LeftOut>) -> Result<Deployment, String> {
    let group = entry.text_at("model_name").ok_or("has no model_name")?.to_owned();
    if group.contains('*') {
        return Err("stands for any model: every model of the catalogue can be called by its id without it".to_owned());
    }
    let parameters = entry.get("litellm_params").ok_or("has no litellm_params")?;
    let model = parameters.text_at("model").ok_or("has no litellm_params.model")?;
    let info = entry.get("model_info");
    let mode = info.and_then(|info| info.text_at("mode")).unwrap_or("chat");
    if !["chat", "embedding", "completion", "responses"].contains(&mode) {
        return Err(format!("is of the mode {mode}, which is written by hand"));
    }
    let (prefix, name) = split(model)?;
    let variable = variable(parameters, path, left_out);
    let target = target(parameters, prefix, variable, known)?;
    let slug = match &target {
        Target::BuiltIn { slug, .. } | Target::Own { slug, .. } => slug.clone(),
    };
    let known_model = known.models.get(&(slug.clone(), name.to_owned()));
    let own_id = plain(name.rsplit('/').next().unwrap_or(name));
    if own_id.is_empty() {
        return Err("has a model without a name".to_owned());
    }
    let owner = if matches!(target, Target::Own { .. }) { prefix } else { slug.as_str() };
    let number = |key: &str| info.and_then(|info| info.text_at(key)).and_then(|text| text.parse::<u32>().ok());
    let context = number("max_input_tokens").or_else(|| number("max_tokens")).filter(|tokens| *tokens > 0);
    let price = |key: &str| {
        let text = parameters.text_at(key).or_else(|| info.and_then(|info| info.text_at(key)))?;
        dollars(text)
    };
    let prompt = price("input_cost_per_token");
    let completion = price("output_cost_per_token").or_else(|| prompt.filter(|_| mode == "embedding"));
    Ok(Deployment {
        line: entry.line,
        path: path.to_owned(),
        group,
        model: known_model.cloned().unwrap_or_else(|| format!("{}/{own_id}", plain(owner))),
        upstream: name.to_owned(),
        is_known: known_model.is_some(),
        is_embedding: mode == "embedding",
        target,
        context,
        prices: prompt.zip(completion),
    })
}

/// Prefix and name of a model.
fn split(model: &str) -> Result<(&str, &str), String> {
    if let Some((prefix, name)) = model.split_once('/') {
        return Ok((prefix, name));
    }
    let known = UNPREFIXED.iter().find(|(beginning, _)| model.starts_with(beginning));
    known.map(|(_, prefix)| (*prefix, model)).ok_or_else(|| "names no provider before its model".to_owned())
}

/// The variable of the key. The key itself is never carried over.
fn variable(parameters: &Node, path: &str, left_out: &mut Vec<LeftOut>) -> Option<String> {
    let node = parameters.get("api_key")?;
    let text = node.text()?;
    let variable = text.strip_prefix(VARIABLE);
    if variable.is_none() && !["none", "dummy", "EMPTY", "anything"].iter().any(|none| none.eq_ignore_ascii_case(text))
    {
        let why = "the key itself stands there: put it into the variable that api_key_env names".to_owned();
        left_out.push(LeftOut { line: node.line, path: format!("{path}.litellm_params.api_key"), why });
    }
    variable.map(str::to_owned)
}

fn target(parameters: &Node, prefix: &str, variable: Option<String>, known: &Known) -> Result<Target, String> {
    let base = parameters.text_at("api_base").or_else(|| parameters.text_at("base_url"));
    let version = parameters.text_at("api_version");
    if prefix == "azure" {
        let base = base.ok_or("has no api_base")?;
        return azure(base, version, variable);
    }
    if base.is_some_and(|base| base.starts_with(VARIABLE)) {
        return Err("has its address in a variable: write the provider by hand, with base_url".to_owned());
    }
    if let Some(base) = base {
        let is_ollama = prefix.starts_with("ollama");
        if !is_ollama && !COMPATIBLE.contains(&prefix) {
            return Err(format!("is at an address of its own with the API of {prefix}: write it by hand"));
        }
        let base = base.trim_end_matches('/');
        let base_url = if is_ollama && !base.ends_with("/v1") { format!("{base}/v1") } else { base.to_owned() };
        let slug = slug_of(&base_url, prefix)?;
        return Ok(Target::Own { slug, base_url, variable, is_azure: false, has_versions: false });
    }
    let slug = BUILT_IN.iter().find(|(theirs, _)| *theirs == prefix).map(|(_, slug)| *slug);
    let slug = slug.ok_or_else(|| format!("is at {prefix}, which the catalogue does not have: docs/CLOUDS.md"))?;
    let usual = known.variables.get(slug);
    let is_local = usual.is_none();
    Ok(Target::BuiltIn { slug: slug.to_owned(), variable: variable.filter(|name| Some(name) != usual), is_local })
}

fn azure(base: &str, version: Option<&str>, variable: Option<String>) -> Result<Target, String> {
    if base.starts_with(VARIABLE) {
        return Err("has its address in a variable: write the provider by hand, as docs/CLOUDS.md shows".to_owned());
    }
    let base = base.trim_end_matches('/');
    let base = base.strip_suffix("/openai").unwrap_or(base);
    let slug = slug_of(base, "azure")?;
    let base_url = match version {
        Some(version) => format!("{base}/openai?api-version={version}"),
        None => format!("{base}/openai/v1"),
    };
    Ok(Target::Own { slug, base_url, variable, is_azure: true, has_versions: version.is_some() })
}

/// A short name for a provider at this address: the first part of its host, or its port on a machine without a name.
fn slug_of(address: &str, prefix: &str) -> Result<String, String> {
    let url = BaseUrl::parse(address).map_err(|fault| format!("has an address that {fault}"))?;
    let host = url.host();
    let first = host.split('.').next().unwrap_or_default();
    let has_name = first.chars().any(|letter| letter.is_ascii_alphabetic()) && first != "localhost" && first != "api";
    let name = match host.split('.').nth(1) {
        _ if has_name => first.to_owned(),
        Some(second) if first == "api" => second.to_owned(),
        _ => format!("{}-{}", plain(prefix).replace('_', "-"), url.port()),
    };
    let name = plain(&name);
    // Not one of the catalogue, whose address would change.
    let is_taken = BUILT_IN.iter().any(|(_, slug)| *slug == name);
    Ok(if is_taken { format!("own-{name}") } else { name })
}
