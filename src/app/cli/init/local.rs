//! Servers of models on this machine: which of the catalogue's answer, and with which models.

use std::{collections::HashSet, fmt::Write as _, path::Path, time::Duration};

use futures_util::future::join_all;
use pointsman_config::{Config, Environment};
use pointsman_transport::{Connection, client_config, read_page};
use serde_json::Value;

use super::litellm::plain;

/// Slugs in the catalogue, and where each listens by itself.
const SERVERS: [(&str, &str); 3] =
    [("ollama", "127.0.0.1:11434"), ("vllm", "127.0.0.1:8000"), ("llama-cpp", "127.0.0.1:8082")];
/// Where Ollama listens instead, as its own tools read it.
const OLLAMA_HOST: &str = "OLLAMA_HOST";
/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_millis(300);
/// Context window where the server does not say it, tokens.
const ASSUMED_CONTEXT: u64 = 8_192;
/// Most models of one server that are written.
const MAX_MODELS: usize = 50;

/// A server that answers.
pub(super) struct LocalServer {
    pub(super) slug: &'static str,
    pub(super) address: String,
    is_elsewhere: bool,
    pub(super) models: Vec<LocalModel>,
}

pub(super) struct LocalModel {
    pub(super) name: String,
    context: Option<u64>,
}

/// The servers that answer.
pub(super) fn find(environment: &Environment) -> Vec<LocalServer> {
    let asked = SERVERS.map(|(slug, usual)| {
        let named = environment.get(OLLAMA_HOST).filter(|_| slug == "ollama").and_then(host_and_port);
        let address = named.unwrap_or_else(|| usual.to_owned());
        async move {
            let models = models(&address).await?;
            Some(LocalServer { slug, is_elsewhere: address != usual, address, models })
        }
    });
    actix_web::rt::System::new().block_on(join_all(asked)).into_iter().flatten().collect()
}

/// `host:port`, also with a scheme; a server that listens on all addresses is asked on loopback.
fn host_and_port(written: &str) -> Option<String> {
    let text = written.trim().trim_start_matches("http://").trim_end_matches('/');
    let (host, port) = text.rsplit_once(':').unwrap_or((text, "11434"));
    let host = if host == "0.0.0.0" { "127.0.0.1" } else { host };
    (!host.is_empty() && port.parse::<u16>().is_ok()).then(|| format!("{host}:{port}"))
}

async fn models(address: &str) -> Option<Vec<LocalModel>> {
    let connection = Connection::new(&format!("http://{address}/v1")).ok()?;
    let tls = client_config(None).ok()?;
    let (status, body) = read_page(&connection, &tls, "/models", TIMEOUT).await.ok()?;
    let page: Value = serde_json::from_slice(&body).ok().filter(|_| status == 200)?;
    let model = |model: &Value| {
        let name = model.get("id")?.as_str().filter(|name| !name.is_empty() && !name.contains(char::is_control))?;
        Some(LocalModel { name: name.to_owned(), context: model.get("max_model_len").and_then(Value::as_u64) })
    };
    Some(page.get("data")?.as_array()?.iter().filter_map(model).collect())
}

/// Lines of the configuration for these servers; `before` is what stands above them.
pub(super) fn configuration(servers: &[LocalServer], before: &str, environment: &Environment) -> String {
    let mut text = String::new();
    if servers.iter().any(|server| server.is_elsewhere) {
        text.push_str("\n[catalog]\nbuiltin = true                 # beside a provider with an address of its own\n");
    }
    // Writing to a string cannot fail.
    for LocalServer { slug, address, is_elsewhere, .. } in servers {
        let base_url = if *is_elsewhere { format!("base_url = \"http://{address}/v1\"\n") } else { String::new() };
        let _ =
            writeln!(text, "\n[providers.{slug}]\nenabled = true                 # answers at {address}\n{base_url}");
    }
    let known = known(&format!("{before}{text}"), environment);
    let mut ids = HashSet::new();
    for server in servers {
        let new = |model: &&LocalModel| !known.contains(&(server.slug.to_owned(), model.name.clone()));
        for model in server.models.iter().filter(new).take(MAX_MODELS) {
            if let Some(id) = id(server.slug, &model.name).filter(|id| ids.insert(id.clone())) {
                text.push_str(&entry(server.slug, &id, model));
            }
        }
    }
    text
}

fn entry(slug: &str, id: &str, LocalModel { name, context }: &LocalModel) -> String {
    let note = if context.is_some() { "" } else { "          # assumed: the server does not say it" };
    let (name, context) = (toml::Value::from(name.as_str()), context.unwrap_or(ASSUMED_CONTEXT));
    format!(
        "[[models]]\nid = \"{id}\"\n[[models.endpoints]]\nprovider = \"{slug}\"\nupstream_model = {name}\n\
         context_length = {context}{note}\nsupported_parameters = [\"max_tokens\", \"temperature\", \"top_p\", \"stop\", \"seed\"]\n\
         usd_per_million = {{ prompt = \"0\", completion = \"0\" }}\n\n"
    )
}

/// Models that the configuration has already, by provider and name there.
fn known(text: &str, environment: &Environment) -> HashSet<(String, String)> {
    let Ok(config) = Config::parse(text, "", Path::new("."), environment) else { return HashSet::new() };
    let catalog = config.catalog(1);
    let name = |endpoint: &pointsman_domain::Endpoint| {
        Some((catalog.provider_of(endpoint)?.slug.to_string(), endpoint.upstream_model.to_string()))
    };
    catalog.endpoints.iter().filter_map(name).collect()
}

/// The id of a model: the name without what ids do not have, such as the tag of Ollama's latest version.
fn id(slug: &str, name: &str) -> Option<String> {
    let name = plain(name.trim_end_matches(":latest").rsplit('/').next().unwrap_or_default());
    (!name.is_empty()).then(|| format!("{slug}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_local_models_become_ids() {
        for (name, expected) in [
            ("llama3.2:latest", Some("ollama/llama3.2")),
            ("qwen3:8b", Some("ollama/qwen3-8b")),
            ("meta-llama/Llama-3.1 8B", Some("ollama/llama-3.1-8b")),
            (":::", None),
        ] {
            assert_eq!(id("ollama", name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn the_address_of_ollama_is_read_as_its_tools_write_it() {
        for (written, expected) in [
            ("127.0.0.1:9999", Some("127.0.0.1:9999")),
            ("http://box:80/", Some("box:80")),
            ("0.0.0.0", Some("127.0.0.1:11434")),
            ("", None),
            ("box:x", None),
        ] {
            assert_eq!(host_and_port(written).as_deref(), expected, "{written}");
        }
    }
}
