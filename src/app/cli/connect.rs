//! `connect`: writes the settings with which an agent calls a gateway, and takes them out again. The change is shown first, without
//! keys. Other settings in the same file stay.

mod json;
mod lines;

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process,
};

use clap::{Args, ValueEnum};
use pointsman_config::Environment;
use serde_json::{Value, json};
use yaml_rust2::YamlLoader;

use super::{
    Finished,
    gateway::{self, GatewayArguments},
    is_agreed, success,
};

/// Environment variable with the key, unless another is named.
const KEY_VARIABLE: &str = "POINTSMAN_API_KEY";

/// Which agent, and which gateway.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ConnectRequest {
    /// The agent
    agent: Agent,
    /// The gateway; default: POINTSMAN_URL, else http://127.0.0.1:8080
    #[arg(long)]
    url: Option<String>,
    /// Environment variable with the key; default: POINTSMAN_API_KEY, and without it, on this machine, the development key
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,
    /// Model or alias to ask for
    #[arg(long, default_value = "service/auto")]
    model: String,
    /// Take the settings out again; what they replaced comes back
    #[arg(long)]
    off: bool,
    /// Write without asking
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Agents whose settings are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Agent {
    /// Claude Code
    Claude,
    /// Codex CLI
    Codex,
    /// opencode
    Opencode,
    /// Aider
    Aider,
}

/// A place in a file of settings: its name, or that of a table or object and the name in it.
type Place = &'static [&'static str];

/// How an agent reaches the gateway. An agent that reads the key from an environment variable gets its name.
#[derive(Default)]
struct GatewayAccess {
    url: String,
    key: String,
    variable: String,
    model: String,
}

/// Shows the change, and writes it.
pub(super) fn run(request: &ConnectRequest, environment: &Environment) -> Finished {
    let file = request.agent.file(environment)?;
    Ok(success(connect(request, &file, environment)?))
}

fn connect(request: &ConnectRequest, file: &Path, environment: &Environment) -> Result<String, String> {
    let (agent, shown_file) = (request.agent, file.display());
    // A copy of a JSON file as it was before, empty if there was none; other files have it as comments.
    let copy = PathBuf::from(format!("{shown_file}.before-pointsman"));
    let (now, before) = (read(file)?, read(&copy)?);
    let text = match now.as_deref() {
        // Something to give back: what is empty afterwards did not exist.
        Some("") if !request.off => "\n",
        now => now.unwrap_or_default(),
    };
    let access = if request.off { GatewayAccess::default() } else { gateway_access(request, environment)? };
    let settings = agent.settings(&access);
    let is_json = matches!(agent, Agent::Claude | Agent::Opencode);
    // A copy from before someone else took the settings out is out of date.
    let before = before.filter(|_| is_json && json::has(text, &settings));
    let changed = match (is_json, request.off) {
        (true, false) => json::with(text, settings).map(Some),
        (true, true) => before.as_ref().map_or_else(|| Ok(now.clone()), |before| json::without(text, before, settings)),
        (false, false) => lines::with(text, if agent == Agent::Codex { " =" } else { ":" }, &settings).map(Some),
        (false, true) => lines::without(text, &settings).map(|left| match left == text {
            true => now.clone(),
            false => Some(left).filter(|left| !left.is_empty()),
        }),
    };
    let changed = changed.and_then(|changed| if changed == now { Ok(changed) } else { agent.checked(changed) });
    let changed = changed.map_err(|why| format!("{shown_file}: {why}"))?;
    let difference = lines::difference(text, changed.as_deref().unwrap_or_default());
    let is_new = changed != now;
    let is_written =
        is_new && (request.yes || is_agreed(&format!("{shown_file}\n{difference}\nWrite it?")) == Some(true));
    let mut is_restricted = false;
    if is_written {
        let kept = if is_json && !request.off && before.is_none() { write(&copy, text) } else { Ok(false) };
        let target = target(file);
        let written = kept.and_then(|_| match changed {
            None => fs::remove_file(target).map(|()| false),
            Some(text) => write(&target, &text),
        });
        let cleared = written.and_then(|is_restricted| match request.off && before.is_some() {
            true => fs::remove_file(&copy).map(|()| is_restricted),
            false => Ok(is_restricted),
        });
        is_restricted = cleared.map_err(|error| format!("{shown_file} cannot be written: {error}"))?;
    }
    if request.json {
        let page = json!({
            "file": shown_file.to_string(),
            "difference": difference,
            "written": is_written,
            "restricted": is_restricted,
        });
        return Ok(format!("{page}\n"));
    }
    let said = match (is_new, is_written) {
        (false, _) if request.off => "It has no settings of Pointsman.".to_owned(),
        (false, _) => "It has these settings already.".to_owned(),
        (true, false) => "Nothing is written. Repeat with --yes to write it.".to_owned(),
        (true, true) if request.off => "Written.".to_owned(),
        (true, true) => format!("Written.{} --off takes the settings out again.", agent.next(&access, environment)),
    };
    let rights = if is_restricted { " Only you can read the file now: it has a key." } else { "" };
    Ok(format!("{shown_file}\n{difference}\n{said}{rights}\n"))
}

fn gateway_access(request: &ConnectRequest, environment: &Environment) -> Result<GatewayAccess, String> {
    let variable = request.key_env.as_deref().unwrap_or(KEY_VARIABLE);
    let url = GatewayArguments::new(request.url.clone(), None).url(environment);
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(format!("--url {url} needs http:// or https://"));
    }
    let key = gateway::key(request.key_env.as_deref(), &url, environment).map_err(|_| {
        format!("the variable {variable} is not set; set it to a key of the gateway with the scope 'inference'")
    })?;
    Ok(GatewayAccess { url, key: key.expose().to_owned(), variable: variable.to_owned(), model: request.model.clone() })
}

impl Agent {
    /// The file with its settings, where the agent itself looks for it.
    fn file(self, environment: &Environment) -> Result<PathBuf, String> {
        let (variable, below_home, name) = match self {
            Agent::Claude => ("CLAUDE_CONFIG_DIR", ".claude", "settings.json"),
            Agent::Codex => ("CODEX_HOME", ".codex", "config.toml"),
            Agent::Opencode => ("XDG_CONFIG_HOME", ".config", "opencode/opencode.json"),
            Agent::Aider => ("HOME", "", ".aider.conf.yml"),
        };
        let set = |name: &str| environment.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let directory = set(variable).or_else(|| Some(set("HOME")?.join(below_home)));
        let directory = directory.ok_or("HOME is not set, so the settings of the agent are not found")?;
        Ok(directory.join(name))
    }

    fn settings(self, access: &GatewayAccess) -> Vec<(Place, Value)> {
        let GatewayAccess { url, key, variable, model } = access;
        let (messages, base) = (json!(format!("{url}/api")), json!(format!("{url}/api/v1")));
        let settings: &[(Place, Value)] = match self {
            Agent::Claude => &[
                (&["env", "ANTHROPIC_BASE_URL"], messages),
                (&["env", "ANTHROPIC_AUTH_TOKEN"], json!(key)),
                (&["env", "ANTHROPIC_MODEL"], json!(model)),
                (&["env", "ANTHROPIC_DEFAULT_HAIKU_MODEL"], json!(model)),
            ],
            Agent::Codex => &[
                (&["model"], json!(model)),
                (&["model_provider"], json!("pointsman")),
                (&["model_providers.pointsman", "name"], json!("Pointsman")),
                (&["model_providers.pointsman", "base_url"], base),
                (&["model_providers.pointsman", "env_key"], json!(variable)),
                (&["model_providers.pointsman", "wire_api"], json!("responses")),
            ],
            Agent::Opencode => {
                let models = json!({ model: { "tool_call": true, "limit": { "context": 100_000, "output": 8_000 } } });
                let options = json!({ "baseURL": base, "apiKey": key });
                let provider = json!({ "npm": "@ai-sdk/openai-compatible", "options": options, "models": models });
                &[(&["provider", "pointsman"], provider), (&["model"], json!(format!("pointsman/{model}")))]
            }
            Agent::Aider => &[
                (&["model"], json!(format!("openai/{model}"))),
                (&["openai-api-base"], base),
                (&["openai-api-key"], json!(key)),
                (&["show-model-warnings"], json!(false)),
            ],
        };
        settings.to_vec()
    }

    /// The file with its new text, if the agent can read it.
    fn checked(self, text: Option<String>) -> Result<Option<String>, String> {
        let new = text.as_deref().unwrap_or_default();
        let why = match self {
            Agent::Claude | Agent::Opencode => None,
            Agent::Codex => toml::from_str::<toml::Table>(new).err().map(|error| error.message().to_owned()),
            Agent::Aider => match YamlLoader::load_from_str(new) {
                Ok(documents) if documents.len() > 1 => Some("it would be more than one document".to_owned()),
                Ok(_) => None,
                Err(error) => Some(error.to_string()),
            },
        };
        why.map_or(Ok(text), |why| Err(format!("cannot be changed: {why}")))
    }

    /// What to do next.
    fn next(self, access: &GatewayAccess, environment: &Environment) -> String {
        let GatewayAccess { variable, key, .. } = access;
        let is_missing = self == Agent::Codex && environment.get(variable).is_none_or(str::is_empty);
        if is_missing {
            format!(" Codex reads its key from {variable}: export {variable}={key}.")
        } else {
            String::new()
        }
    }
}

fn read(file: &Path) -> Result<Option<String>, String> {
    match fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(|error| format!("{} cannot be read: {error}", file.display())),
    }
}

/// The file that links lead to.
fn target(file: &Path) -> PathBuf {
    let mut file = file.to_owned();
    while let Ok(to) = fs::read_link(&file) {
        file.set_file_name(to);
    }
    file
}

/// Replaces the file as a whole. A new one is for its owner alone, and so is one with a key; others keep their rights.
/// Returns whether others lost theirs.
fn write(file: &Path, text: &str) -> io::Result<bool> {
    file.parent().map_or(Ok(()), fs::create_dir_all)?;
    let old = fs::metadata(file).map_or(0o600, |metadata| metadata.permissions().mode() & 0o777);
    let mode = if lines::has_key(text) { old & 0o700 } else { old };
    let mut temporary = file.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", process::id()));
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = new.write_all(text.as_bytes()).and_then(|()| new.set_permissions(Permissions::from_mode(mode)));
    let replaced = written.and_then(|()| new.sync_all()).and_then(|()| fs::rename(&temporary, file));
    if replaced.is_err() {
        // The error that counts is the first.
        let _ = fs::remove_file(&temporary);
    }
    replaced.map(|()| mode != old)
}
