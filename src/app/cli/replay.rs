//! `replay`: repeats a recorded decision in this process, from the answer of a gateway's `/route/replay`.

use std::{fmt, path::PathBuf};

use actix_web::http::Method;
use pointsman_config::Environment;
use pointsman_domain::GenerationId;
use pointsman_routing::explain::replay;
use serde::{Deserialize, Serialize};

use super::{CommandOutput, EXIT_DIFFERENT, failure, gateway::GatewayArguments};
use crate::proxy::record::{Recorded, ReplayResult};

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
    /// Whether the result is printed as JSON.
    pub json: bool,
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

/// Result of a replay as JSON.
#[derive(Serialize)]
struct Report<'a> {
    generation_id: &'a str,
    #[serde(flatten)]
    result: &'a ReplayResult,
}

/// Repeats the decision, and gives `identical` or the differences.
pub(super) fn run(request: &ReplayRequest, environment: &Environment) -> CommandOutput {
    compare(request, environment).unwrap_or_else(|output| output)
}

fn compare(request: &ReplayRequest, environment: &Environment) -> Result<CommandOutput, CommandOutput> {
    let text = page(request, environment)?;
    let Page { data: Data { generation_id, recorded } } =
        serde_json::from_slice(&text).map_err(|error| refused(format!("the record cannot be replayed: {error}")))?;
    if let Some(wanted) = request.generation.as_ref().filter(|wanted| **wanted != generation_id) {
        return Err(refused(format!("the record is of generation {generation_id}, not of {wanted}")));
    }
    let (decision, policy) = recorded.decision().map_err(refused)?;
    let result = ReplayResult::new(&replay(&decision, &policy), &recorded);
    let code = if result.identical { 0 } else { EXIT_DIFFERENT };
    if request.json {
        let report = Report { generation_id: &generation_id, result: &result };
        let text = serde_json::to_string(&report).map_err(|error| refused(error.to_string()))?;
        return Ok(CommandOutput { text: format!("{text}\n"), code });
    }
    Ok(CommandOutput { text: format!("{generation_id}: {}\n{result}", recorded.summary()), code })
}

fn refused(message: impl fmt::Display) -> CommandOutput {
    failure(format!("pointsman: {message}\n"))
}

fn page(request: &ReplayRequest, environment: &Environment) -> Result<Vec<u8>, CommandOutput> {
    if let Some(path) = &request.file {
        return std::fs::read(path).map_err(|error| refused(format!("{}: {error}", path.display())));
    }
    let id = request.generation.as_deref().ok_or_else(|| refused("replay needs the id of a generation, or --file"))?;
    // Validated here, so that the path cannot contain anything else.
    let id =
        GenerationId::parse(id).ok_or_else(|| refused(format!("'{id}' is not a generation id (gen-<seconds>-…)")))?;
    let gateway = GatewayArguments::new(request.url.clone(), request.key_env.clone());
    let path = format!("/api/v1/route/replay?generation_id={id}");
    gateway.call((Method::GET, &path), None, environment).map(|body| body.to_vec())
}
