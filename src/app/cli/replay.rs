//! Making a recorded decision again in this process, from the page that a gateway shows of it.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use pointsman_actors::{domain::GenerationId, explain::replay};
use serde::Deserialize;

use super::{Answer, EXIT_CONFIGURATION, EXIT_DIFFERENT};
use crate::{
    base::secret::Secret,
    config::{DEVELOPMENT_KEY, Environment},
    proxy::record::{Recorded, ReplayResult},
    upstream::{Connection, client_config, read_page},
};

/// Where a gateway is unless it is said otherwise.
const URL: &str = "http://127.0.0.1:8080";
/// The variable that holds the key unless another is named.
const KEY_VARIABLE: &str = "POINTSMAN_API_KEY";
/// How long the gateway may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which record is to be made again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplayOrder {
    /// Id of the generation; not needed for a file.
    pub generation: Option<String>,
    /// Address of the gateway.
    pub url: Option<String>,
    /// The variable that holds a key which may read the record.
    pub key_env: Option<String>,
    /// A page that was fetched before.
    pub file: Option<PathBuf>,
}

/// The page, as far as it is read.
#[derive(Deserialize)]
struct Page {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    generation_id: String,
    recorded: Recorded,
}

/// The page of a refusal.
#[derive(Deserialize)]
struct Refusal {
    error: Message,
}

#[derive(Deserialize)]
struct Message {
    message: String,
}

/// Makes the decision again and says `identical`, or what is not.
pub(super) fn answer(order: &ReplayOrder, environment: &Environment) -> Answer {
    match verdict(order, environment) {
        Ok((text, true)) => Answer { text, code: 0 },
        Ok((text, false)) => Answer { text, code: EXIT_DIFFERENT },
        Err(why) => Answer { text: format!("pointsman: {why}\n"), code: EXIT_CONFIGURATION },
    }
}

fn verdict(order: &ReplayOrder, environment: &Environment) -> Result<(String, bool), String> {
    let text = page(order, environment)?;
    let Page { data: Data { generation_id, recorded } } =
        serde_json::from_slice(&text).map_err(|error| format!("this is no record that can be made again: {error}"))?;
    if let Some(other) = order.generation.as_ref().filter(|asked| **asked != generation_id) {
        return Err(format!("the record is of {generation_id}, not of {other}"));
    }
    let (decision, policy) = recorded.decision()?;
    let verdict = ReplayResult::new(&replay(&decision, &policy), &recorded);
    Ok((format!("{generation_id}: {}\n{verdict}", recorded.summary()), verdict.identical))
}

fn page(order: &ReplayOrder, environment: &Environment) -> Result<Vec<u8>, String> {
    if let Some(path) = &order.file {
        return std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    }
    let id = order.generation.as_deref().ok_or("replay needs the id of a generation, or --file")?;
    // Checked here, so that nothing else can get into the address.
    let id = GenerationId::parse(id).ok_or_else(|| format!("'{id}' is no id of a generation (gen-<seconds>-…)"))?;
    let url = root(order.url.as_deref().unwrap_or(URL));
    let connection = Connection::new(url).map_err(|fault| format!("--url {fault}"))?;
    let connection =
        connection.with_bearer(key(order, url, environment)?).map_err(|fault| format!("the key {fault}"))?;
    let tls = client_config(None).map_err(|fault| fault.to_string())?;
    let path = format!("/api/v1/route/replay?generation_id={id}");
    let read = actix_web::rt::System::new().block_on(read_page(&connection, &tls, &path, PATIENCE));
    match read.map_err(|error| format!("{url}: {error}"))? {
        (200, body) => Ok(body.to_vec()),
        (status, body) => {
            let refusal = serde_json::from_slice(&body).map(|Refusal { error }| error.message);
            Err(format!("{url} answers {status}: {}", refusal.as_deref().unwrap_or("nothing that can be read")))
        }
    }
}

/// The address without the version that the printed base address ends in: paths are given with theirs.
fn root(url: &str) -> &str {
    let url = url.trim().trim_end_matches('/');
    ["/api/v1", "/v1", "/api"].iter().find_map(|version| url.strip_suffix(version)).unwrap_or(url)
}

/// The key in the named variable. On this machine the development key does where none is set.
fn key(order: &ReplayOrder, url: &str, environment: &Environment) -> Result<Secret, String> {
    let variable = order.key_env.as_deref().unwrap_or(KEY_VARIABLE);
    match environment.get(variable).filter(|key| !key.is_empty()) {
        Some(key) => Ok(Secret::from(key)),
        None if order.key_env.is_none() && is_here(url) => Ok(Secret::from(DEVELOPMENT_KEY)),
        None => Err(format!("the variable {variable} is not set; it holds a key that may read the record")),
    }
}

fn is_here(url: &str) -> bool {
    let uri = url.parse::<actix_web::http::Uri>().ok();
    let host = uri.as_ref().and_then(|uri| uri.host()).unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
