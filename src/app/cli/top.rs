//! `top`: the endpoints of a running gateway as a table that is drawn anew, those in trouble first, and the last decisions.
//!
//! On a terminal it draws on the alternate screen and leaves it on every way out, until `q`, Ctrl-C or SIGTERM; keys sort,
//! filter and pause. Into a pipe or a file it prints one JSON object per interval.

mod terminal;
mod view;

use std::{
    io::{self, IsTerminal as _, Write as _},
    pin::pin,
    time::Duration,
};

use actix_web::{http::Method, rt};
use bytes::Bytes;
use clap::Args;
use pointsman_config::Environment;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use self::{
    terminal::Terminal,
    view::{Reaction, View},
};
use super::{
    CommandOutput,
    columns::cut,
    failure,
    gateway::{GatewayArguments, ReachedGateway},
};

/// Measurements of every endpoint.
const STATS: &str = "/api/v1/models/stats";
/// The newest generations of the key.
const LAST: &str = "/api/v1/generations?limit=5";
/// To the first column of the first line.
const HOME: &str = "\x1b[H";
/// Clears the rest of the line, and starts the next one.
const END_LINE: &str = "\x1b[K\r\n";
/// Clears everything below.
const CLEAR_BELOW: &str = "\x1b[J";
/// Most endpoints of a text; further ones are counted.
const MAX_SHOWN: usize = 40;
/// Lines of a screen that are no endpoints: verdict, head, what was left out, keys, and lines between. The last decisions come
/// on top.
const OTHER_LINES: usize = 7;

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
    let (mut terminal, mut view) = (None, View::default());
    loop {
        let reading = tokio::select! {
            reading = Reading::of(gateway, form) => reading?,
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
        };
        if form == Form::Screen && terminal.is_none() {
            terminal = Some(Terminal::enter());
        }
        // A closed pipe ends the command, and is not an error.
        let draw = |view: &View| -> Result<bool, CommandOutput> {
            Ok(print(&render(form, &reading, gateway.url(), view)?).is_ok())
        };
        if !draw(&view)? || request.once {
            return Ok(());
        }
        let mut over = pin!(rt::time::sleep(Duration::from_secs(u64::from(request.interval))));
        loop {
            let key = tokio::select! {
                () = &mut over, if !view.is_paused() => break,
                key = pressed(&mut terminal) => key,
                _ = interrupt.recv() => return Ok(()),
                _ = terminate.recv() => return Ok(()),
            };
            match view.press(key) {
                Reaction::Quit => return Ok(()),
                Reaction::Draw if !draw(&view)? => return Ok(()),
                Reaction::Draw | Reaction::Ignore => {}
            }
        }
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush())
}

async fn pressed(terminal: &mut Option<Terminal>) -> u8 {
    match terminal {
        Some(terminal) => terminal.key().await,
        None => std::future::pending().await,
    }
}

/// What the gateway says at one time.
struct Reading {
    endpoints: Value,
    /// Newest first; none where the records are in memory only.
    last: Vec<Value>,
}

impl Reading {
    async fn of(gateway: &ReachedGateway, form: Form) -> Result<Reading, CommandOutput> {
        let endpoints = parsed(&gateway.call((Method::GET, STATS), None).await?)?;
        let last = match form {
            Form::Json => None,
            Form::Text | Form::Screen => Some(gateway.page((Method::GET, LAST), None).await?),
        };
        let last = last.filter(|(status, _)| *status == 200).map(|(_, body)| parsed(&body)).transpose()?;
        let last = last.as_ref().and_then(|page| page.get("data")).and_then(Value::as_array);
        Ok(Reading { last: last.cloned().unwrap_or_default(), endpoints })
    }
}

fn unreadable(why: &str) -> CommandOutput {
    failure(format!("pointsman: the answer of the gateway cannot be read: {why}\n"))
}

fn parsed(body: &Bytes) -> Result<Value, CommandOutput> {
    serde_json::from_slice(body).map_err(|error| unreadable(&error.to_string()))
}

fn render(form: Form, reading: &Reading, url: &str, view: &View) -> Result<String, CommandOutput> {
    let Reading { endpoints: page, last } = reading;
    let rows = page.get("data").and_then(Value::as_array).ok_or_else(|| unreadable("no list of endpoints"))?;
    let last = view::last(last);
    let lines = |most: usize| view.lines(rows, url, most).into_iter().chain(last.clone());
    Ok(match form {
        Form::Json => format!("{page}\n"),
        Form::Text => lines(MAX_SHOWN).map(|line| format!("{line}\n")).collect(),
        Form::Screen => {
            let (columns, height) = terminal::size();
            let most = height.saturating_sub(OTHER_LINES + last.len()).max(1);
            let lines = lines(most).chain([String::new(), view.keys()]);
            let text: String = lines.map(|line| format!("{}{END_LINE}", cut(&line, columns))).collect();
            format!("{HOME}{text}{CLEAR_BELOW}")
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_drawn_reading_overwrites_the_one_before_line_by_line() {
        let endpoints = json!({"data": [{"model": "a/one", "provider_slug": "p", "circuit": "closed"}]});
        let last = vec![json!({"created_at": "2026-11-24T04:00:00.123Z", "status": "completed", "model": "a/one"})];
        let reading = Reading { endpoints, last };
        let view = View::default();
        let drawn = render(Form::Screen, &reading, "u", &view).unwrap();
        assert!(drawn.starts_with(HOME) && drawn.ends_with(CLEAR_BELOW), "{drawn:?}");
        assert_eq!(drawn.matches(END_LINE).count(), 9, "{drawn:?}");
        assert!(drawn.contains("q quit   s sort: trouble   p pause   / filter"), "{drawn:?}");
        let plain = render(Form::Text, &reading, "u", &view).unwrap();
        assert!(
            !plain.contains('\u{1b}') && !plain.contains("q quit") && plain.contains("04:00:00 completed"),
            "{plain:?}"
        );
        let strange = Reading { endpoints: json!([]), last: Vec::new() };
        assert!(render(Form::Text, &strange, "u", &view).is_err());
    }
}
