//! `init`: writes a first configuration, with the providers whose keys are in the environment, the servers of models that
//! answer on this machine, and a new key for callers; or with what a configuration of LiteLLM says.

mod litellm;
mod local;
mod yaml;

use std::{
    fmt::Write as _,
    fs::{self, OpenOptions},
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use clap::Args;
use pointsman_config::{BuiltInProvider, Config, DEFAULT_FILE, Environment, built_in_providers};
use serde_json::{Value, json};

use self::{
    litellm::{Import, LeftOut},
    local::LocalServer,
};
use super::{CommandOutput, Finished, failure, keygen::NewKey, refused, report, success};

/// Where to write.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct InitRequest {
    /// File to write; an existing file is never overwritten
    #[arg(long, value_name = "FILE", default_value = DEFAULT_FILE)]
    out: PathBuf,
    /// Name of the new key in logs and records
    #[arg(long, value_name = "NAME", default_value = "my-key")]
    name: String,
    /// Take over a configuration of another gateway: litellm and its config.yaml. What has no counterpart is told with its line
    #[arg(long, num_args = 2, value_names = ["FORMAT", "FILE"])]
    from: Vec<String>,
    /// Do not look for servers of models on this machine
    #[arg(long)]
    no_local: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Writes the file and shows the key, once.
pub(super) fn run(request: &InitRequest, environment: &Environment) -> Finished {
    let is_set = |provider: &BuiltInProvider| {
        environment.get(&provider.key_variable).is_some_and(|value| !value.trim().is_empty())
    };
    let imported = import(&request.from, environment)?;
    // What is taken over names its own providers.
    let all = if imported.is_some() { Vec::new() } else { built_in_providers() };
    let (found, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_set);
    let servers = if request.no_local || imported.is_some() { Vec::new() } else { local::find(environment) };
    let key = NewKey::random();
    let mut text = head(&key, &request.name, imported.as_ref().map_or("balanced", |imported| imported.objective));
    match &imported {
        Some(imported) => text.push_str(&imported.text),
        None => text.push_str(&providers((&found, &others), servers.is_empty())),
    }
    if !servers.is_empty() {
        text.push_str("\n# Servers of models on this machine.\n");
        text.push_str(&local::configuration(&servers, &text, environment));
    }
    let shown = request.out.display();
    // The file is checked as it will be read, so that a variable with an invalid key is reported now.
    if let Err(faults) = Config::parse(&text, &shown.to_string(), Path::new("."), environment) {
        return Err(failure(format!("{}\npointsman: {shown} is not written.\n", report(&faults))));
    }
    if let Err(error) = write_new(&request.out, &text) {
        let why = match error.kind() {
            ErrorKind::AlreadyExists => {
                "exists already and is not changed; name another file with --out, or move it away".to_owned()
            }
            _ => format!("cannot be written: {error}"),
        };
        return Err(refused(format!("{shown} {why}")));
    }
    if request.json {
        let providers: Vec<&str> = found.iter().map(|provider| provider.slug.as_str()).collect();
        let local = servers.iter().map(|server| {
            let models: Vec<&str> = server.models.iter().map(|model| model.name.as_str()).collect();
            json!({ "provider": server.slug, "address": server.address, "models": models })
        });
        let local: Vec<Value> = local.collect();
        let mut page =
            json!({ "file": shown.to_string(), "providers": providers, "local": local, "key": key.expose() });
        if let (Some(imported), Some(page)) = (imported, page.as_object_mut()) {
            page.insert("imported".to_owned(), imported.json());
        }
        return Ok(success(format!("{page}\n")));
    }
    let told = match &imported {
        Some(imported) => imported.summary(),
        None => summary(&found, &servers),
    };
    Ok(success(format!(
        "{shown} is written.\n\n{told}\nYour key. It is shown only once and not stored:\n\n  {}\n\nNext: 'pointsman doctor' \
         checks the providers, 'pointsman' starts the gateway.\n",
        key.expose()
    )))
}

/// What the named file of another gateway says.
fn import(from: &[String], environment: &Environment) -> Result<Option<Import>, CommandOutput> {
    let [format, path] = from else { return Ok(None) };
    if format != "litellm" {
        return Err(refused(format!("--from {format}: the only format that is known is litellm")));
    }
    let text = fs::read_to_string(path).map_err(|error| refused(format!("{path} cannot be read: {error}")))?;
    let imported = Import::read(&text, environment);
    imported.map(Some).map_err(|why| refused(format!("{path} is no configuration of LiteLLM: {why}")))
}

impl Import {
    fn json(&self) -> Value {
        let left_out = |LeftOut { line, path, why }: &LeftOut| json!({ "line": line, "path": path, "why": why });
        json!({
            "objective": self.objective,
            "models": self.models,
            "names": self.aliases,
            "left_out": self.left_out.iter().map(left_out).collect::<Vec<_>>(),
        })
    }

    fn summary(&self) -> String {
        let (models, names) = (self.models.join(", "), self.aliases.join(", "));
        let mut text = format!("Models     {models}\nNames      {names}\nObjective  {}\n", self.objective);
        if !self.left_out.is_empty() {
            text.push_str("\nNot carried over, or not as it was meant; the file says it too:\n");
        }
        for LeftOut { line, path, why } in &self.left_out {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  line {line:<4} {path}: {why}");
        }
        text
    }
}

/// Writes a file that did not exist. One that cannot be written whole is removed.
fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    written
}

/// What stands above the providers.
fn head(key: &NewKey, name: &str, objective: &str) -> String {
    let mut text = String::from(
        "# Configuration of Pointsman, written by 'pointsman init'. A key that is left out has its default;\n\
         # 'pointsman config show' prints every key with its value and where that comes from.\n\
         # Secrets never stand here: a provider's key is named by its variable, a caller's key by its SHA-256.\n\n\
         [server]\n\
         bind = \"127.0.0.1:8080\"       # where applications call; other addresses need TLS or a proxy before it\n\n\
         [admin]\n\
         bind = \"127.0.0.1:8081\"       # reload, keys and ledger, for keys with the scope admin; \"\": none\n\n\
         [auth]\n\
         development_key_enabled = false\n\n\
         # Your key. Further ones: 'pointsman keygen', or 'pointsman keys create' at the running gateway.\n",
    );
    text.push_str(&key.configuration(name));
    text.push_str(&format!(
        "\n[routing]\nobjective = \"{objective}\"        # cheapest, fastest, reliable or balanced\n"
    ));
    text
}

/// `is_alone`: no server of models answers on this machine.
fn providers((found, others): (&[BuiltInProvider], &[BuiltInProvider]), is_alone: bool) -> String {
    let mut text = String::from(
        "\n# Providers. Models and prices come from the built-in catalogue: 'pointsman models' lists them.\n",
    );
    if found.is_empty() && is_alone {
        text.push_str("# No variable of a provider was set; until one is, simulated providers answer.\n");
    }
    // Writing to a string cannot fail.
    for BuiltInProvider { slug, name, key_variable } in found {
        let _ = writeln!(text, "\n[providers.{slug}]             # {name}\napi_key_env = \"{key_variable}\"");
    }
    if !others.is_empty() {
        text.push_str("\n# Also known; each is on once its variable is set:\n");
    }
    for BuiltInProvider { slug, key_variable, .. } in others {
        let _ = writeln!(text, "#   {slug:<14} {key_variable}");
    }
    text
}

fn summary(found: &[BuiltInProvider], servers: &[LocalServer]) -> String {
    let mut text = String::from("Providers\n");
    for provider in found {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {:<14} {} is set", provider.slug, provider.key_variable);
    }
    for LocalServer { slug, address, models, .. } in servers {
        let _ = writeln!(text, "  {slug:<14} answers at {address}, models: {}", models.len());
    }
    if found.is_empty() && servers.is_empty() {
        text.push_str("  none: set a variable such as OPENAI_API_KEY; until then simulated providers answer\n");
    }
    text
}
