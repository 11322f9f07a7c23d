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
use pointsman_dialect::percent::encoded;
use serde_json::Value;

use super::{
    CommandOutput, Finished,
    admin_place::{admin_url, reached, reached_by_configuration},
    columns::{dollars, shown},
    gateway::{GatewayArguments, ReachedGateway, until_a_signal},
    moment::moment,
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
    /// Only those since then: 24h, 30m, 7d, 2026-11-23, 2026-11-23T06:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only those that were slower than their predicted 95th percentile
    #[arg(long)]
    slow: bool,
    /// Show the generations of all keys: asks the admin address (--url, else POINTSMAN_ADMIN_URL or http://127.0.0.1:8081) with
    /// a key of the scope admin (--key-env, else POINTSMAN_ADMIN_KEY)
    #[arg(long)]
    all: bool,
    /// Only those of this key, with --all or --refused
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    /// Show instead the calls that were refused last, with the reason: they have no generation. Asks the admin address, as --all
    #[arg(long, conflicts_with_all = ["follow", "failed", "slow", "since"])]
    refused: bool,
    #[command(flatten)]
    pub(super) gateway: GatewayArguments,
}

/// Shows the lines. Returns what remains to be printed.
pub(super) fn run(request: &LogsRequest, environment: &Environment) -> Finished {
    let gateway = request.gateway(environment)?;
    request.path(1).map_err(refused)?;
    if request.refused {
        return refused_calls(request, &gateway);
    }
    until_a_signal(show(request, &gateway))
}

async fn show(request: &LogsRequest, gateway: &ReachedGateway) -> Result<(), CommandOutput> {
    // Everything that was there before is known, so that only `lines` of it are shown.
    let mut known = HashSet::new();
    let mut is_first = true;
    loop {
        let limit = if request.follow { PAGE } else { request.lines.max(1) };
        let path = request.path(limit).map_err(refused)?;
        let page = rows(&gateway.call((Method::GET, &path), None).await?)?;
        let most = if is_first { request.lines as usize } else { usize::MAX };
        let new = page.iter().filter(|row| !known.contains(text(row, "id"))).take(most);
        let lines: Vec<String> =
            new.map(|row| if request.gateway.json { row.to_string() } else { line(row, request.all) }).collect();
        if lines.is_empty() && is_first && request.lines > 0 {
            // Not among the lines, which another program may read.
            let _ = writeln!(io::stderr(), "pointsman: no generation to show");
        }
        let shown: String = lines.iter().rev().map(|line| format!("{line}\n")).collect();
        // A closed pipe ends the command, and is not an error.
        let mut output = io::stdout().lock();
        if output.write_all(shown.as_bytes()).and_then(|()| output.flush()).is_err() || !request.follow {
            return Ok(());
        }
        drop(output);
        known = page.iter().map(|row| text(row, "id").to_owned()).collect();
        is_first = false;
        rt::time::sleep(INTERVAL).await;
    }
}

impl LogsRequest {
    fn gateway(&self, environment: &Environment) -> Result<ReachedGateway, CommandOutput> {
        if !self.all && !self.refused {
            return self.gateway.connect(environment);
        }
        let GatewayArguments { url, config, key_env, .. } = &self.gateway;
        match (url, config) {
            (None, Some(file)) => reached_by_configuration(Some(file), key_env.as_deref(), environment),
            _ => reached(&admin_url(url.as_deref(), environment), key_env.as_deref(), environment),
        }
    }

    fn path(&self, limit: u32) -> Result<String, String> {
        let list = if self.all { "/api/v1/admin/generations" } else { "/api/v1/generations" };
        let status = if self.failed { "&status=failed" } else { "" };
        let slow = if self.slow { "&slower_than_predicted=true" } else { "" };
        let key = self.key.as_ref().map(|key| format!("&key={}", encoded(key))).unwrap_or_default();
        let since = match &self.since {
            None => String::new(),
            Some(text) => {
                let wrong = || format!("--since {text} is no time, such as 24h or 2026-11-23T06:00:00Z");
                format!("&since={}", moment(text).ok_or_else(wrong)?)
            }
        };
        Ok(format!("{list}?limit={limit}{status}{slow}{key}{since}"))
    }
}

/// The calls that were refused last, oldest first as the generations.
fn refused_calls(request: &LogsRequest, gateway: &ReachedGateway) -> Finished {
    let key = request.key.as_ref().map(|key| format!("&key={}", encoded(key))).unwrap_or_default();
    let path = format!("/api/v1/admin/refused?limit={}{key}", request.lines.max(1));
    let page = rt::System::new().block_on(gateway.call((Method::GET, &path), None))?;
    let rows = rows(&page)?;
    let shown = |row: &Value| if request.gateway.json { row.to_string() } else { refused_line(row) };
    Ok(success(rows.iter().rev().map(|row| format!("{}\n", shown(row))).collect()))
}

/// One refused call in one line.
fn refused_line(row: &Value) -> String {
    let status = row.get("status").and_then(Value::as_u64).unwrap_or_default();
    let [at, reason, key, account, team, model, request] =
        ["/at", "/reason", "/key", "/account", "/team", "/model", "/request_id"].map(|path| shown(row, path));
    format!("{at}  {status} {reason:<20}  {key} (account {account}, team {team})  {model}  {request}")
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
    fn a_refused_call_is_a_line_with_its_reason_and_who_asked() {
        let row = json!({"at": "2026-11-24T04:00:00.123Z", "status": 402, "reason": "team_limit", "key": "web", "account": "shop",
            "team": "product", "model": null, "request_id": "req-1"});
        let expected = "2026-11-24T04:00:00.123Z  402 team_limit            web (account shop, team product)  -  req-1";
        assert_eq!(refused_line(&row), expected);
    }

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
