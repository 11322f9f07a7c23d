//! `connect`: writes the settings with which an agent calls a gateway, and takes them out again. The change is shown first, and keys
//! in it are not. Other settings in the same file stay.

mod json;
mod lines;

use std::{
    fs::{self, OpenOptions},
    io::{self, BufRead as _, ErrorKind, IsTerminal as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use pointsman_config::{DEVELOPMENT_KEY, Environment};
use serde_json::json;

use self::lines::Added;
use super::{
    Finished, failure,
    gateway::{self, GatewayArguments},
    success,
};

/// Environment variable with the key, unless another is named.
const KEY_VARIABLE: &str = "POINTSMAN_API_KEY";
/// Ending of the copy of a JSON file as it was before.
const BEFORE: &str = "before-pointsman";

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

/// What an agent is told.
struct Told {
    url: String,
    key: String,
    /// Environment variable in which an agent that reads one finds the key.
    variable: String,
    model: String,
}

/// Shows the change, and writes it.
pub(super) fn run(request: &ConnectRequest, environment: &Environment) -> Finished {
    let outcome = connect(request, environment)
        .map_err(|why| failure(format!("pointsman: {}\n", why.trim_start_matches("pointsman: ").trim_end())))?;
    let Outcome { file, difference, is_written, said } = outcome;
    Ok(success(match request.json {
        true => {
            let page = json!({ "file": file.display().to_string(), "difference": difference, "written": is_written });
            format!("{page}\n")
        }
        false => format!("{}\n{difference}\n{said}\n", file.display()),
    }))
}

/// What became of it.
struct Outcome {
    file: PathBuf,
    /// The lines that differ.
    difference: String,
    is_written: bool,
    /// What was done and what is next, for people.
    said: String,
}

fn connect(request: &ConnectRequest, environment: &Environment) -> Result<Outcome, String> {
    let file = request.agent.file(environment)?;
    let copy = PathBuf::from(format!("{}.{BEFORE}", file.display()));
    let (now, before) = (read(&file)?, read(&copy)?);
    let text = now.as_deref().unwrap_or_default();
    let told = if request.off { None } else { Some(told(request, environment)?) };
    let changed = match (&told, request.agent.is_json()) {
        (Some(told), true) => Some(json::with(text, &request.agent.members(told))),
        (Some(told), false) => Some(request.agent.with_lines(text, told)),
        (None, true) => json::without(text, before.as_deref(), &request.agent.places()).transpose(),
        (None, false) => Some(lines::without(text)).filter(|text| !text.trim().is_empty()).map(Ok),
    };
    let changed = changed.transpose().map_err(|why| format!("{}: {why}", file.display()))?;
    let key = told.as_ref().map(|told| told.key.as_str()).filter(|key| *key != DEVELOPMENT_KEY);
    let difference = lines::difference(text, changed.as_deref().unwrap_or_default());
    let difference = key.map_or(difference.clone(), |key| difference.replace(key, "…"));
    let outcome = |is_written, said: &str| Outcome {
        file: file.clone(),
        difference: difference.clone(),
        is_written,
        said: said.to_owned(),
    };
    if changed == now {
        let how = if request.off { "It has no settings of Pointsman." } else { "It has these settings already." };
        return Ok(outcome(false, how));
    }
    if !request.yes && !is_agreed(&format!("{}\n{difference}", file.display())) {
        return Ok(outcome(false, "Nothing is written. Repeat with --yes to write it."));
    }
    let write = || -> io::Result<()> {
        match (request.off, &now) {
            (false, Some(now)) if request.agent.is_json() && before.is_none() => write(&copy, now)?,
            (true, _) if before.is_some() => fs::remove_file(&copy)?,
            _ => {}
        }
        match &changed {
            Some(text) => write(&file, text),
            None => fs::remove_file(&file),
        }
    };
    write().map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
    let next = told.map_or_else(String::new, |told| request.agent.next(&told, environment));
    Ok(outcome(true, &format!("Written.{next}")))
}

fn told(request: &ConnectRequest, environment: &Environment) -> Result<Told, String> {
    let variable = request.key_env.as_deref().unwrap_or(KEY_VARIABLE);
    let arguments = GatewayArguments::new(request.url.clone(), request.key_env.clone());
    let url = arguments.connect(environment).map(|gateway| gateway.url().to_owned());
    let url = url.map_err(|output| match output.text.contains(" is not set") {
        true => {
            format!("the variable {variable} is not set; set it to a key of the gateway with the scope 'inference'")
        }
        false => output.text,
    })?;
    let key = gateway::key(request.key_env.as_deref(), &url, environment)?;
    Ok(Told { url, key: key.expose().to_owned(), variable: variable.to_owned(), model: request.model.clone() })
}

impl Agent {
    const fn is_json(self) -> bool {
        matches!(self, Agent::Claude | Agent::Opencode)
    }

    /// The file with its settings, where the agent itself looks for it.
    fn file(self, environment: &Environment) -> Result<PathBuf, String> {
        let set = |name: &str| environment.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = set("HOME").ok_or("HOME is not set, so the settings of the agent are not found");
        Ok(match self {
            Agent::Claude => set("CLAUDE_CONFIG_DIR")
                .map_or_else(|| home.map(|home| home.join(".claude")), Ok)?
                .join("settings.json"),
            Agent::Codex => {
                set("CODEX_HOME").map_or_else(|| home.map(|home| home.join(".codex")), Ok)?.join("config.toml")
            }
            Agent::Opencode => {
                let settings = set("XDG_CONFIG_HOME").map_or_else(|| home.map(|home| home.join(".config")), Ok)?;
                settings.join("opencode/opencode.json")
            }
            Agent::Aider => home?.join(".aider.conf.yml"),
        })
    }

    /// The members of a JSON file, each with its place.
    fn members(self, told: &Told) -> Vec<(&'static [&'static str], serde_json::Value)> {
        let Told { url, key, model, .. } = told;
        let provider = json!({
            "npm": "@ai-sdk/openai-compatible",
            "options": { "baseURL": format!("{url}/api/v1"), "apiKey": key },
            "models": { model: { "tool_call": true, "limit": { "context": 100_000, "output": 8_000 } } },
        });
        let values = match self {
            Agent::Claude => vec![json!(format!("{url}/api")), json!(key), json!(model), json!(model)],
            _ => vec![json!(format!("pointsman/{model}")), provider],
        };
        self.places().into_iter().zip(values).collect()
    }

    fn places(self) -> Vec<&'static [&'static str]> {
        match self {
            Agent::Claude => vec![
                &["env", "ANTHROPIC_BASE_URL"],
                &["env", "ANTHROPIC_AUTH_TOKEN"],
                &["env", "ANTHROPIC_MODEL"],
                &["env", "ANTHROPIC_DEFAULT_HAIKU_MODEL"],
            ],
            _ => vec![&["model"], &["provider", "pointsman"]],
        }
    }

    /// The text of a file in TOML or YAML with the settings.
    fn with_lines(self, text: &str, told: &Told) -> Result<String, String> {
        let Told { url, key, variable, model } = told;
        let quoted = |text: &str| json!(text).to_string();
        let setting = |name: &'static str, value: String| (name, value);
        match self {
            Agent::Codex => {
                let top = [setting("model", quoted(model)), setting("model_provider", quoted("pointsman"))];
                let end = format!(
                    "[model_providers.pointsman]\nname = \"Pointsman\"\nbase_url = {}\nenv_key = {}\nwire_api = \"responses\"",
                    quoted(&format!("{url}/api/v1")),
                    quoted(variable)
                );
                let changed = lines::with(text, &Added { sign: " =", settings: &top, end: Some(&end) });
                let checked: Result<toml::Table, _> = toml::from_str(&changed);
                checked.map(|_| changed).map_err(|error| format!("cannot be extended: {}", error.message()))
            }
            _ => {
                let settings = [
                    setting("model", quoted(&format!("openai/{model}"))),
                    setting("openai-api-base", quoted(&format!("{url}/api/v1"))),
                    setting("openai-api-key", quoted(key)),
                    setting("show-model-warnings", "false".to_owned()),
                ];
                let changed = lines::with(text, &Added { sign: ":", settings: &settings, end: None });
                let checked = yaml_rust2::YamlLoader::load_from_str(&changed);
                checked.map(|_| changed).map_err(|error| format!("cannot be extended: {error}"))
            }
        }
    }

    /// What to do next, after "Written.".
    fn next(self, told: &Told, environment: &Environment) -> String {
        let program = self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let variable = &told.variable;
        let is_missing = self == Agent::Codex && environment.get(variable).is_none_or(str::is_empty);
        let first = if is_missing {
            format!(" Codex reads its key from {variable}: export {variable}={}", told.key)
        } else {
            String::new()
        };
        format!(
            "{first} Start '{program}' as always. 'pointsman connect {program} --off' takes the settings out again."
        )
    }
}

/// Whether to write, asked on a terminal.
fn is_agreed(shown: &str) -> bool {
    let mut talk = io::stderr();
    if !(talk.is_terminal() && io::stdin().is_terminal()) {
        return false;
    }
    let _ = write!(talk, "{shown}\nWrite it? [y/N] ").and_then(|()| talk.flush());
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

fn read(file: &Path) -> Result<Option<String>, String> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{} cannot be read: {error}", file.display())),
    }
}

/// A new file is for its owner alone: it may hold a key. One that exists keeps its rights, and a link stays a link.
fn write(file: &Path, text: &str) -> io::Result<()> {
    file.parent().map_or(Ok(()), fs::create_dir_all)?;
    let mut open = OpenOptions::new();
    open.write(true).create(true).truncate(true).mode(0o600).open(file)?.write_all(text.as_bytes())
}
