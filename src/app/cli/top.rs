//! `top`: the endpoints of a running gateway as a table that is drawn anew, those in trouble first.
//!
//! On a terminal it draws on the alternate screen and leaves it on every way out, until Ctrl-C or SIGTERM. Into a pipe or
//! a file it prints one JSON object per interval.

use std::{
    cmp::Reverse,
    io::{self, IsTerminal as _, Write},
    time::Duration,
};

use actix_web::{http::Method, rt};
use bytes::Bytes;
use clap::Args;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use super::{
    CommandOutput, failure,
    gateway::{GatewayArguments, ReachedGateway},
};
use crate::config::Environment;

/// Measurements of every endpoint.
const STATS: &str = "/api/v1/models/stats";
/// To the alternate screen, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Back to the screen as it was.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// To the first column of the first line.
const HOME: &str = "\x1b[H";
/// Clears the rest of the line, and starts the next one.
const END_LINE: &str = "\x1b[K\r\n";
/// Clears everything below.
const CLEAR_BELOW: &str = "\x1b[J";
/// Most endpoints on the screen; further ones are counted.
const MAX_SHOWN: usize = 40;

/// Which gateway to watch, and how.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct TopRequest {
    /// Seconds between two readings
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=3600))]
    interval: u32,
    /// Show one reading and exit
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    gateway: GatewayArguments,
}

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One JSON object per reading.
    Json,
    /// A table as plain text.
    Text,
    /// A table on the alternate screen.
    Screen,
}

/// Shows readings until a signal arrives or the gateway is lost. Returns what remains to be printed.
pub(super) fn run(request: &TopRequest, environment: &Environment) -> CommandOutput {
    let form = match (request.gateway.json, request.once, io::stdout().is_terminal()) {
        (false, true, _) => Form::Text,
        (true, _, _) | (false, false, false) => Form::Json,
        (false, false, true) => Form::Screen,
    };
    let gateway = match request.gateway.connect(environment) {
        Ok(gateway) => gateway,
        Err(output) => return output,
    };
    let done = rt::System::new().block_on(watch(request, form, &gateway));
    done.err().unwrap_or(CommandOutput { text: String::new(), code: 0 })
}

async fn watch(request: &TopRequest, form: Form, gateway: &ReachedGateway) -> Result<(), CommandOutput> {
    // Listens before the screen is changed, so that no signal can leave it changed.
    let listen = |kind| signal(kind).map_err(|error| failure(format!("pointsman: no signals: {error}\n")));
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    let mut screen = None;
    loop {
        let reading = tokio::select! {
            reading = gateway.call((Method::GET, STATS), None) => reading?,
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
        };
        if form == Form::Screen && screen.is_none() {
            screen = Some(Screen::enter());
        }
        // A closed pipe ends the command, and is not an error.
        if io::stdout().lock().write_all(render(form, &reading, gateway.url())?.as_bytes()).is_err() || request.once {
            return Ok(());
        }
        if io::stdout().lock().flush().is_err() {
            return Ok(());
        }
        tokio::select! {
            () = rt::time::sleep(Duration::from_secs(u64::from(request.interval))) => {}
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
        }
    }
}

/// The alternate screen. Left when the value is dropped.
struct Screen;

impl Screen {
    fn enter() -> Screen {
        let _ = io::stdout().lock().write_all(ENTER.as_bytes());
        Screen
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut output = io::stdout().lock();
        let _ = output.write_all(LEAVE.as_bytes()).and_then(|()| output.flush());
    }
}

fn render(form: Form, reading: &Bytes, url: &str) -> Result<String, CommandOutput> {
    let unreadable = |why: String| failure(format!("pointsman: the answer of the gateway cannot be read: {why}\n"));
    let page: Value = serde_json::from_slice(reading).map_err(|error| unreadable(error.to_string()))?;
    let rows = page.get("data").and_then(Value::as_array).ok_or_else(|| unreadable("no list of endpoints".into()))?;
    Ok(match form {
        Form::Json => format!("{page}\n"),
        Form::Text => lines(rows, url).iter().map(|line| format!("{line}\n")).collect(),
        Form::Screen => {
            let text: String = lines(rows, url).iter().map(|line| format!("{line}{END_LINE}")).collect();
            format!("{HOME}{text}{CLEAR_BELOW}")
        }
    })
}

/// The verdict and the table.
fn lines(rows: &[Value], url: &str) -> Vec<String> {
    let mut sorted: Vec<&Value> = rows.iter().collect();
    sorted.sort_by_key(|row| (Reverse(trouble(row)), Reverse(integer(row, "/requests")), name(row)));
    let mut lines = vec![
        verdict(rows, url),
        String::new(),
        format!(
            "{:<32} {:<9} {:>5} {:>6} {:>6} {:>7} {:>6}",
            "ENDPOINT", "STATE", "CALLS", "OK %", "BUSY", "TTFT MS", "TOK/S"
        ),
    ];
    lines.extend(sorted.iter().take(MAX_SHOWN).map(|row| line(row)));
    if sorted.len() > MAX_SHOWN {
        lines.push(format!("and {} more", sorted.len() - MAX_SHOWN));
    }
    lines
}

fn verdict(rows: &[Value], url: &str) -> String {
    let total = rows.len();
    let down: Vec<&Value> = rows.iter().filter(|row| trouble(row) == Trouble::Down).collect();
    let calls: i64 = rows.iter().map(|row| integer(row, "/requests")).sum();
    let window = rows.iter().map(|row| integer(row, "/window_secs")).max().unwrap_or(0);
    let flow = format!("{calls} attempts in {window} s");
    match down.first() {
        _ if rows.is_empty() => format!("No endpoint is on. {url}"),
        None => format!("All {total} endpoints take calls, {flow}. {url}"),
        Some(worst) => {
            format!("{} takes no calls ({} of {total} endpoints), {flow}. {url}", name(worst), down.len())
        }
    }
}

/// How much attention an endpoint needs; the greatest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    None,
    Failing,
    Down,
}

fn trouble(row: &Value) -> Trouble {
    let is = |member: &str, value: &str| row.get(member).and_then(Value::as_str) == Some(value);
    let failed = integer(row, "/requests") > integer(row, "/successes");
    if is("circuit", "open") || is("state", "down") || row.get("silent") == Some(&Value::Bool(true)) {
        Trouble::Down
    } else if failed || is("state", "degraded") || is("circuit", "half_open") {
        Trouble::Failing
    } else {
        Trouble::None
    }
}

fn line(row: &Value) -> String {
    let circuit = text(row, "circuit");
    let state = if circuit == "closed" { text(row, "state") } else { circuit };
    format!(
        "{:<32} {state:<9} {:>5} {:>6} {:>6} {:>7} {:>6}",
        cut(&name(row), 32),
        integer(row, "/requests"),
        number(row, "/success_rate", 100.0, 1),
        integer(row, "/in_flight"),
        number(row, "/ttft_ms/p50", 1.0, 0),
        number(row, "/throughput_tps/p50", 1.0, 1)
    )
}

fn name(row: &Value) -> String {
    format!("{} @ {}", text(row, "model"), text(row, "provider_slug"))
}

/// At most `most` letters.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// The member without control characters, which could move the cursor.
fn text(row: &Value, member: &str) -> String {
    let text = row.get(member).and_then(Value::as_str).unwrap_or("-");
    text.chars().filter(|letter| !letter.is_control()).collect()
}

fn integer(row: &Value, pointer: &str) -> i64 {
    row.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn number(row: &Value, pointer: &str, factor: f64, decimals: usize) -> String {
    let number = row.pointer(pointer).and_then(Value::as_f64);
    number.map_or_else(|| "-".to_owned(), |number| format!("{:.decimals$}", number * factor))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(model: &str, circuit: &str, successes: i64) -> Value {
        json!({"model": model, "provider_slug": "p", "state": "healthy", "circuit": circuit, "silent": false,
               "in_flight": 1, "window_secs": 300, "requests": 4, "successes": successes, "success_rate": 0.5,
               "ttft_ms": {"p50": 120.4}, "throughput_tps": {"p50": null}})
    }

    #[test]
    fn endpoints_in_trouble_come_first_and_the_verdict_names_the_worst() {
        let rows = [row("a/well", "closed", 4), row("b/failing", "closed", 2), row("c/down", "open", 0)];
        let lines = lines(&rows, "http://h");
        assert_eq!(lines[0], "c/down @ p takes no calls (1 of 3 endpoints), 12 attempts in 300 s. http://h");
        let order: Vec<&str> = lines[3..].iter().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(order, ["c/down", "b/failing", "a/well"]);
        assert!(lines.iter().skip(1).all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert!(verdict(&rows[..1], "u").starts_with("All 1 endpoints take calls, 4 attempts in 300 s."));
        assert_eq!(verdict(&[], "u"), "No endpoint is on. u");
    }

    #[test]
    fn a_name_cannot_move_the_cursor_or_widen_the_table() {
        let long = format!("x\u{1b}[2J{}", "y".repeat(100));
        let shown = line(&row(&long, "closed", 4));
        assert!(!shown.contains('\u{1b}') && shown.chars().count() <= 80, "{shown}");
    }

    #[test]
    fn a_drawn_reading_overwrites_the_one_before_line_by_line() {
        let page = Bytes::from(json!({"data": [row("a/one", "closed", 4)]}).to_string());
        let drawn = render(Form::Screen, &page, "u").unwrap();
        assert!(drawn.starts_with(HOME) && drawn.ends_with(CLEAR_BELOW), "{drawn:?}");
        assert_eq!(drawn.matches(END_LINE).count(), 4, "{drawn:?}");
        let plain = render(Form::Text, &page, "u").unwrap();
        assert!(!plain.contains('\u{1b}'), "{plain:?}");
        assert!(render(Form::Text, &Bytes::from_static(b"[]"), "u").is_err());
    }
}
