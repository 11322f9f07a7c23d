//! A comparison that a running gateway makes of its own records: `pointsman diff --url`.

use std::{path::Path, time::Duration};

use actix_web::http::Method;
use bytes::Bytes;
use pointsman_config::Environment;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{CommandOutput, DiffCommand};
use crate::{
    api::diff::{report::DiffReport, run::SELF_TEST_FAILED},
    app::cli::{
        admin_place::reached,
        gateway::ReachedGateway,
        recorded_traffic::{misused, no_condition},
        refused,
    },
};

/// Pause between two looks at a comparison that runs.
const PAUSE: Duration = Duration::from_millis(250);

#[derive(Deserialize)]
struct Enveloped {
    data: Job,
}

/// A comparison as the gateway shows it.
#[derive(Deserialize)]
struct Job {
    id: String,
    state: String,
    report: Option<Box<DiffReport>>,
    why: Option<String>,
}

/// The report of the gateway at `url`. Blocks until the comparison has ended.
///
/// # Errors
/// Why there is none.
pub(super) fn report(command: &DiffCommand, url: &str, environment: &Environment) -> Result<DiffReport, CommandOutput> {
    let elsewhere = [
        ("--ledger", command.records.ledger.is_some()),
        ("--against", command.against.is_some()),
        ("--sample", command.records.sample.is_some()),
        ("--threads", command.records.threads.is_some()),
    ];
    if let Some((name, _)) = elsewhere.into_iter().find(|(_, is_given)| *is_given) {
        return Err(misused(format!("{name} does not go with --url: the gateway compares all of its own records")));
    }
    let body = Bytes::from(request(command)?.to_string());
    let gateway = reached(url, command.key_env.as_deref(), environment)?;
    actix_web::rt::System::new().block_on(async {
        let mut job: Job = ask(&gateway, (Method::POST, "/api/v1/admin/diff"), Some(body)).await?;
        let path = format!("/api/v1/admin/diff/{}", job.id);
        while job.state == "running" {
            actix_web::rt::time::sleep(PAUSE).await;
            job = ask(&gateway, (Method::GET, &path), None).await?;
        }
        match job {
            Job { report: Some(report), .. } => Ok(*report),
            Job { why, .. } => Err(no_answer(&why.unwrap_or_else(|| "the comparison was cancelled".to_owned()))),
        }
    })
}

/// As the exit code of a comparison on this machine.
fn no_answer(why: &str) -> CommandOutput {
    let code = if why.contains(SELF_TEST_FAILED) { 3 } else { 2 };
    CommandOutput { text: format!("pointsman: {why}\n"), code }
}

fn request(command: &DiffCommand) -> Result<Value, CommandOutput> {
    let path = command.records.config.as_deref().unwrap_or(Path::new("config.toml"));
    let config = std::fs::read_to_string(path).map_err(|error| refused(format!("{}: {error}", path.display())))?;
    let (since, until) = command.records.moments()?;
    let mut conditions = Map::new();
    for condition in command.records.conditions() {
        let (name, value) = condition?;
        if !["alias", "objective", "key"].contains(&name) {
            return Err(no_condition(name));
        }
        conditions.insert(name.to_owned(), json!(value));
    }
    let mut body = json!({
        "config": config,
        "since": since.map(|ms| ms.to_string()),
        "until": until.map(|ms| ms.to_string()),
        "where": conditions,
        "limits": command.fail_if,
        "strict": command.strict,
        "examples": command.examples,
    });
    // Gateways of earlier versions do not know these.
    for (name, is_set) in [("open_loop", command.open_loop), ("exact_only", command.exact_only)] {
        if let Some(body) = body.as_object_mut().filter(|_| is_set) {
            body.insert(name.to_owned(), json!(true));
        }
    }
    Ok(body)
}

async fn ask(gateway: &ReachedGateway, call: (Method, &str), body: Option<Bytes>) -> Result<Job, CommandOutput> {
    let (status, body) = gateway.page(call, body).await?;
    if !(200..300).contains(&status) {
        return Err(gateway.refused_by_admin(status, &body));
    }
    read::<Enveloped>(&body).map(|page| page.data)
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, CommandOutput> {
    serde_json::from_slice(body).map_err(|error| refused(format!("the gateway's answer cannot be read: {error}")))
}
