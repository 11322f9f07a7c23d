//! `replay`: repeats a recorded decision in this process, from the answer of a gateway's `/route/replay`.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use pointsman_actors::{domain::GenerationId, explain::replay};
use serde::Deserialize;

use super::{CommandOutput, EXIT_CONFIGURATION, EXIT_DIFFERENT};
use crate::{
    base::secret::Secret,
    config::{DEVELOPMENT_KEY, Environment},
    proxy::record::{Recorded, ReplayResult},
    upstream::{Connection, client_config, read_page},
};

/// Default address of the gateway.
const DEFAULT_URL: &str = "http://127.0.0.1:8080";
/// Default environment variable of the key.
const DEFAULT_KEY_VARIABLE: &str = "POINTSMAN_API_KEY";
/// Timeout of the request to the gateway.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The record to replay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplayRequest {
    /// Id of the generation; not needed for a file.
    pub generation: Option<String>,
    /// Address of the gateway.
    pub url: Option<String>,
    /// Environment variable with a key that may read the record.
    pub key_env: Option<String>,
    /// A saved answer of `/route/replay`.
    pub file: Option<PathBuf>,
}

/// The members of the answer that are used.
#[derive(Deserialize)]
struct Page {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    generation_id: String,
    recorded: Recorded,
}

/// An error answer.
#[derive(Deserialize)]
pub(super) struct ErrorPage {
    pub(super) error: Message,
}

#[derive(Deserialize)]
pub(super) struct Message {
    pub(super) message: String,
}

/// Repeats the decision, and gives `identical` or the differences.
pub(super) fn run(request: &ReplayRequest, environment: &Environment) -> CommandOutput {
    match compare(request, environment) {
        Ok((text, true)) => CommandOutput { text, code: 0 },
        Ok((text, false)) => CommandOutput { text, code: EXIT_DIFFERENT },
        Err(message) => CommandOutput { text: format!("pointsman: {message}\n"), code: EXIT_CONFIGURATION },
    }
}

fn compare(request: &ReplayRequest, environment: &Environment) -> Result<(String, bool), String> {
    let text = page(request, environment)?;
    let Page { data: Data { generation_id, recorded } } =
        serde_json::from_slice(&text).map_err(|error| format!("the record cannot be replayed: {error}"))?;
    if let Some(wanted) = request.generation.as_ref().filter(|wanted| **wanted != generation_id) {
        return Err(format!("the record is of generation {generation_id}, not of {wanted}"));
    }
    let (decision, policy) = recorded.decision()?;
    let result = ReplayResult::new(&replay(&decision, &policy), &recorded);
    Ok((format!("{generation_id}: {}\n{result}", recorded.summary()), result.identical))
}

fn page(request: &ReplayRequest, environment: &Environment) -> Result<Vec<u8>, String> {
    if let Some(path) = &request.file {
        return std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    }
    let id = request.generation.as_deref().ok_or("replay needs the id of a generation, or --file")?;
    // Validated here, so that the path cannot contain anything else.
    let id = GenerationId::parse(id).ok_or_else(|| format!("'{id}' is not a generation id (gen-<seconds>-…)"))?;
    let url = root(request.url.as_deref().unwrap_or(DEFAULT_URL));
    let connection = Connection::new(url).map_err(|fault| format!("--url {fault}"))?;
    let connection = connection
        .with_bearer(key(request.key_env.as_deref(), url, environment)?)
        .map_err(|fault| format!("the key {fault}"))?;
    let tls = client_config(None).map_err(|fault| fault.to_string())?;
    let path = format!("/api/v1/route/replay?generation_id={id}");
    let read = actix_web::rt::System::new().block_on(read_page(&connection, &tls, &path, TIMEOUT));
    match read.map_err(|error| format!("{url}: {error}"))? {
        (200, body) => Ok(body.to_vec()),
        (status, body) => {
            let message = serde_json::from_slice(&body).map(|ErrorPage { error }| error.message);
            Err(format!("{url} answers {status}: {}", message.as_deref().unwrap_or("no readable error message")))
        }
    }
}

/// The address without the version path at the end of the printed base address.
pub(super) fn root(url: &str) -> &str {
    let url = url.trim().trim_end_matches('/');
    ["/api/v1", "/v1", "/api"].iter().find_map(|version| url.strip_suffix(version)).unwrap_or(url)
}

/// The key in the named variable. For a gateway on loopback the development key is the default.
pub(super) fn key(key_env: Option<&str>, url: &str, environment: &Environment) -> Result<Secret, String> {
    let variable = key_env.unwrap_or(DEFAULT_KEY_VARIABLE);
    match environment.get(variable).filter(|key| !key.is_empty()) {
        Some(key) => Ok(Secret::from(key)),
        None if key_env.is_none() && is_loopback(url) => Ok(Secret::from(DEVELOPMENT_KEY)),
        None => Err(format!("the variable {variable} is not set; set it to a key that may read the record")),
    }
}

fn is_loopback(url: &str) -> bool {
    let uri = url.parse::<actix_web::http::Uri>().ok();
    let host = uri.as_ref().and_then(|uri| uri.host()).unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
