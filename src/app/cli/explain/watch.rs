//! `explain --watch`: every generation of the key that ends from now on.

use std::{
    collections::HashSet,
    io::{self, Write as _},
    time::Duration,
};

use actix_web::{http::Method, rt};
use bytes::Bytes;
use pointsman_actors::domain::GenerationId;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use super::{ExplainRequest, text};
use crate::{
    app::cli::{
        CommandOutput,
        columns::{list, shown},
        failure,
        gateway::ReachedGateway,
        success,
    },
    config::Environment,
};

/// Time between two readings.
const INTERVAL: Duration = Duration::from_secs(1);
/// The newest generations of the key. More of them in one interval are not explained.
const NEWEST: &str = "/api/v1/generations?limit=200";

/// Explains until a signal arrives or the gateway is lost. Returns what remains to be printed.
pub(super) fn run(request: &ExplainRequest, environment: &Environment) -> CommandOutput {
    let gateway = match request.gateway.connect(environment) {
        Ok(gateway) => gateway,
        Err(output) => return output,
    };
    rt::System::new().block_on(until_a_signal(request, &gateway)).err().unwrap_or(success(String::new()))
}

async fn until_a_signal(request: &ExplainRequest, gateway: &ReachedGateway) -> Result<(), CommandOutput> {
    let listen = |kind| signal(kind).map_err(|error| failure(format!("pointsman: no signals: {error}\n")));
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    tokio::select! {
        ended = watch(request, gateway) => ended,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}

async fn watch(request: &ExplainRequest, gateway: &ReachedGateway) -> Result<(), CommandOutput> {
    let mut known = newest(gateway).await?;
    loop {
        rt::time::sleep(INTERVAL).await;
        let ids = newest(gateway).await?;
        let before: HashSet<&GenerationId> = known.iter().collect();
        for id in ids.iter().rev().filter(|id| !before.contains(id)) {
            let page = gateway.call((Method::GET, &request.path(id)), None).await?;
            // A closed pipe ends the command, and is not an error.
            if print(request, &page)?.is_err() {
                return Ok(());
            }
        }
        known = ids;
    }
}

/// The ids of the newest generations, the newest first.
async fn newest(gateway: &ReachedGateway) -> Result<Vec<GenerationId>, CommandOutput> {
    let page = parsed(&gateway.call((Method::GET, NEWEST), None).await?)?;
    Ok(list(&page, "data").iter().filter_map(|row| GenerationId::parse(&shown(row, "/id"))).collect())
}

fn parsed(body: &Bytes) -> Result<Value, CommandOutput> {
    serde_json::from_slice(body)
        .map_err(|error| failure(format!("pointsman: the answer of the gateway cannot be read: {error}\n")))
}

/// One explanation; as JSON in one line, as text with an empty line behind it.
fn print(request: &ExplainRequest, body: &Bytes) -> Result<io::Result<()>, CommandOutput> {
    let page = parsed(body)?;
    let mut output = io::stdout().lock();
    let written = match request.gateway.json {
        true => output.write_all(body).and_then(|()| output.write_all(b"\n")),
        false => output.write_all(format!("{}\n", text::decision(page.get("data").unwrap_or(&page))).as_bytes()),
    };
    Ok(written.and_then(|()| output.flush()))
}
