//! `logs`: the generations of a running gateway as lines, oldest first, and on request those that follow.

use std::{
    collections::HashSet,
    io::{self, Write},
    time::Duration,
};

use actix_web::{http::Method, rt};
use bytes::Bytes;
use clap::Args;
use pointsman_config::Environment;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use super::{
    CommandOutput, Finished,
    columns::dollars,
    gateway::{GatewayArguments, ReachedGateway},
    refused, success,
};

/// Time between two readings with `--follow`.
const INTERVAL: Duration = Duration::from_secs(1);
/// Most rows of a reading with `--follow`.
const PAGE: u32 = 200;

/// Which generations to show.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct LogsRequest {
    /// How many of the newest to show first
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=200))]
    lines: u32,
    /// Go on with those that end from now on, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// Only those that failed
    #[arg(long)]
    failed: bool,
    /// Show the generations of all keys. --url must be the admin address. The key must have the scope admin
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    gateway: GatewayArguments,
}

/// Shows the lines. Returns what remains to be printed.
pub(super) fn run(request: &LogsRequest, environment: &Environment) -> Finished {
    let gateway = request.gateway.connect(environment)?;
    rt::System::new().block_on(show(request, &gateway)).map(|()| success(String::new()))
}

async fn show(request: &LogsRequest, gateway: &ReachedGateway) -> Result<(), CommandOutput> {
    let listen = |kind| signal(kind).map_err(|error| refused(format!("no signals: {error}")));
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    // Everything that was there before is known, so that only `lines` of it are shown.
    let mut known = HashSet::new();
    let mut is_first = true;
    loop {
        let limit = if request.follow { PAGE } else { request.lines.max(1) };
        let path = request.path(limit);
        let page = tokio::select! {
            page = gateway.call((Method::GET, &path), None) => rows(&page?)?,
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
        };
        let most = if is_first { request.lines as usize } else { usize::MAX };
        let new = page.iter().filter(|row| !known.contains(text(row, "id"))).take(most);
        let lines: Vec<String> =
            new.map(|row| if request.gateway.json { row.to_string() } else { line(row, request.all) }).collect();
        let shown: String = lines.iter().rev().map(|line| format!("{line}\n")).collect();
        // A closed pipe ends the command, and is not an error.
        let mut output = io::stdout().lock();
        if output.write_all(shown.as_bytes()).and_then(|()| output.flush()).is_err() || !request.follow {
            return Ok(());
        }
        drop(output);
        known = page.iter().map(|row| text(row, "id").to_owned()).collect();
        is_first = false;
        tokio::select! {
            () = rt::time::sleep(INTERVAL) => {}
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
        }
    }
}

impl LogsRequest {
    fn path(&self, limit: u32) -> String {
        let list = if self.all { "/api/v1/admin/generations" } else { "/api/v1/generations" };
        let status = if self.failed { "&status=failed" } else { "" };
        format!("{list}?limit={limit}{status}")
    }
}

/// The rows of a page, newest first.
fn rows(page: &Bytes) -> Result<Vec<Value>, CommandOutput> {
    let page: Option<Value> = serde_json::from_slice(page).ok();
    let rows = page.as_ref().and_then(|page| page.get("data")).and_then(Value::as_array);
    rows.cloned().ok_or_else(|| refused("the answer of the gateway holds no list"))
}

fn text<'r>(row: &'r Value, name: &str) -> &'r str {
    row.get(name).and_then(Value::as_str).unwrap_or("-")
}

/// One generation in one line, its parts at fixed places up to the model; with the key where the rows are of all keys.
fn line(row: &Value, is_of_all: bool) -> String {
    let number = |name: &str| row.get(name).and_then(Value::as_u64);
    let time = |name: &str| number(name).map_or_else(|| "-".to_owned(), |time| format!("{time} ms"));
    let cost = match dollars(row, "/cost") {
        cost if cost == "-" => "cost unknown".to_owned(),
        cost => format!("${cost}"),
    };
    let model = match text(row, "model") {
        "-" => text(row, "requested_model"),
        model => model,
    };
    let chain = row.get("chain").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let chain: Vec<String> = match chain {
        [] | [_] => Vec::new(),
        chain => {
            chain.iter().map(|link| format!("{} {}", text(link, "provider_slug"), text(link, "outcome"))).collect()
        }
    };
    let chain = if chain.is_empty() { String::new() } else { format!("  [{}]", chain.join(", ")) };
    let key = if is_of_all { format!("  {}", text(row, "key")) } else { String::new() };
    format!(
        "{}  {:<9}  {}{key}  {model} @ {}  {}, first {}  {}+{} tokens  {cost}{chain}",
        text(row, "created_at"),
        text(row, "status"),
        text(row, "id"),
        text(row, "provider_slug"),
        time("total_ms"),
        time("ttft_ms"),
        number("prompt_tokens").unwrap_or(0),
        number("completion_tokens").unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_tells_when_how_who_how_fast_and_for_how_much() {
        let row = json!({
            "id": "gen-1", "created_at": "2026-11-24T04:00:00.123Z", "status": "completed", "key": "nightly-batch", "requested_model": "service/auto",
            "model": "acme/small", "provider_slug": "b", "ttft_ms": 80, "total_ms": 900, "prompt_tokens": 12,
            "completion_tokens": 3, "cost": 0.00012,
            "chain": [{"provider_slug": "a", "outcome": "failed"}, {"provider_slug": "b", "outcome": "completed"}],
        });
        let expected = "2026-11-24T04:00:00.123Z  completed  gen-1  acme/small @ b  900 ms, first 80 ms  12+3 tokens  \
                        $0.000120  [a failed, b completed]";
        assert_eq!(line(&row, false), expected);
        assert!(line(&row, true).contains("  gen-1  nightly-batch  acme/small @ b  "), "{}", line(&row, true));
        let failed = json!({"id": "gen-2", "created_at": "t", "status": "failed", "requested_model": "x", "model": null,
            "provider_slug": null, "ttft_ms": null, "total_ms": 5, "prompt_tokens": 0, "completion_tokens": 0, "cost": null, "chain": []});
        assert_eq!(line(&failed, false), "t  failed     gen-2  x @ -  5 ms, first -  0+0 tokens  cost unknown");
    }
}
