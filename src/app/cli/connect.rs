//! `connect`: writes the settings with which an agent calls a gateway, and takes them out again. The change is shown first, without
//! keys. Other settings in the same file stay.

mod json;
mod lines;

use std::{
    fs::{self, OpenOptions},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use pointsman_config::{DEVELOPMENT_KEY, Environment};
use serde_json::{Value, json};

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

/// What an agent is told. An agent that reads the key from an environment variable is told its name.
#[derive(Default)]
struct Told {
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
    let text = now.as_deref().unwrap_or_default();
    let told = if request.off { Told::default() } else { told(request, environment)? };
    let settings = agent.settings(&told);
    let changed = match (agent, request.off) {
        (Agent::Claude | Agent::Opencode, false) => json::with(text, settings).map(Some),
        (Agent::Claude | Agent::Opencode, true) => match &before {
            Some(before) => json::without(text, before, settings),
            None => Ok(now.clone()),
        },
        (Agent::Codex | Agent::Aider, true) => Ok(Some(lines::without(text)).filter(|text| !text.trim().is_empty())),
        (Agent::Codex, false) => {
            let text = lines::with(text, " =", &settings);
            let checked: Result<toml::Table, _> = toml::from_str(&text);
            checked.map(|_| Some(text)).map_err(|error| format!("cannot be extended: {}", error.message()))
        }
        (Agent::Aider, false) => {
            let text = lines::with(text, ":", &settings);
            let checked = yaml_rust2::YamlLoader::load_from_str(&text);
            checked.map(|_| Some(text)).map_err(|error| format!("cannot be extended: {error}"))
        }
    };
    let changed = changed.map_err(|why| format!("{shown_file}: {why}"))?;
    let difference = lines::difference(text, changed.as_deref().unwrap_or_default());
    let is_secret = !told.key.is_empty() && told.key != DEVELOPMENT_KEY;
    let difference = if is_secret { difference.replace(&told.key, "…") } else { difference };
    let is_new = changed != now;
    let is_written =
        is_new && (request.yes || is_agreed(&format!("{shown_file}\n{difference}\nWrite it?")) == Some(true));
    if is_written {
        let is_first = !request.off && before.is_none() && matches!(agent, Agent::Claude | Agent::Opencode);
        let kept = if is_first { write(&copy, text) } else { Ok(()) };
        let written = kept.and_then(|()| changed.map_or_else(|| fs::remove_file(file), |text| write(file, &text)));
        let cleared =
            written.and_then(|()| if request.off && before.is_some() { fs::remove_file(&copy) } else { Ok(()) });
        cleared.map_err(|error| format!("{shown_file} cannot be written: {error}"))?;
    }
    if request.json {
        let page = json!({ "file": shown_file.to_string(), "difference": difference, "written": is_written });
        return Ok(format!("{page}\n"));
    }
    let said = match (is_new, is_written) {
        (false, _) if request.off => "It has no settings of Pointsman.".to_owned(),
        (false, _) => "It has these settings already.".to_owned(),
        (true, false) => "Nothing is written. Repeat with --yes to write it.".to_owned(),
        (true, true) if request.off => "Written.".to_owned(),
        (true, true) => format!("Written.{} --off takes the settings out again.", agent.next(&told, environment)),
    };
    Ok(format!("{shown_file}\n{difference}\n{said}\n"))
}

fn told(request: &ConnectRequest, environment: &Environment) -> Result<Told, String> {
    let variable = request.key_env.as_deref().unwrap_or(KEY_VARIABLE);
    let url = GatewayArguments::new(request.url.clone(), None).url(environment);
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(format!("--url {url} needs http:// or https://"));
    }
    let key = gateway::key(request.key_env.as_deref(), &url, environment).map_err(|_| {
        format!("the variable {variable} is not set; set it to a key of the gateway with the scope 'inference'")
    })?;
    Ok(Told { url, key: key.expose().to_owned(), variable: variable.to_owned(), model: request.model.clone() })
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

    fn settings(self, told: &Told) -> Vec<(Place, Value)> {
        let Told { url, key, variable, model } = told;
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
                &[(&["model"], json!(format!("pointsman/{model}"))), (&["provider", "pointsman"], provider)]
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

    /// What to do next.
    fn next(self, told: &Told, environment: &Environment) -> String {
        let Told { variable, key, .. } = told;
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

/// A new file is for its owner alone: it may hold a key. One that exists keeps its rights, and a link stays a link.
fn write(file: &Path, text: &str) -> io::Result<()> {
    file.parent().map_or(Ok(()), fs::create_dir_all)?;
    let mut open = OpenOptions::new();
    open.write(true).create(true).truncate(true).mode(0o600).open(file)?.write_all(text.as_bytes())
}
