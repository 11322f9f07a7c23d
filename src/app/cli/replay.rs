//! `replay`: repeats a recorded decision in this process, from the answer of a gateway's `/route/replay`.

use std::path::PathBuf;

use actix_web::http::Method;
use clap::Args;
use pointsman_config::Environment;
use pointsman_domain::GenerationId;
use pointsman_routing::explain::replay;
use serde::{Deserialize, Serialize};

use super::{CommandOutput, EXIT_DIFFERENT, Finished, gateway::GatewayArguments, refused};
use crate::proxy::replay::{Recorded, ReplayResult};

/// The record to replay.
#[derive(Debug, Args)]
pub(super) struct ReplayRequest {
    /// Id of the generation; not needed with --file
    generation: Option<String>,
    /// The gateway with the record; default: http://127.0.0.1:8080
    #[arg(long)]
    url: Option<String>,
    /// Environment variable with a key that may read the record; default: POINTSMAN_API_KEY
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,
    /// A saved answer of /api/v1/route/replay, instead of a gateway
    #[arg(long)]
    file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
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
pub(super) fn run(request: &ReplayRequest, environment: &Environment) -> Finished {
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

fn page(request: &ReplayRequest, environment: &Environment) -> Result<Vec<u8>, CommandOutput> {
    if let Some(path) = &request.file {
        return std::fs::read(path).map_err(|error| refused(format!("{}: {error}", path.display())));
    }
    let needed = "replay needs the id of a generation, or --file; see 'pointsman replay --help'";
    let id = request.generation.as_deref().ok_or_else(|| refused(needed))?;
    // Validated here, so that the path cannot contain anything else.
    let id =
        GenerationId::parse(id).ok_or_else(|| refused(format!("'{id}' is not a generation id (gen-<seconds>-…)")))?;
    let gateway = GatewayArguments::new(request.url.clone(), request.key_env.clone());
    let path = format!("/api/v1/route/replay?generation_id={id}");
    gateway.call((Method::GET, &path), None, environment).map(|body| body.to_vec())
}
