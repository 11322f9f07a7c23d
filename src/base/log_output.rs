//! Where log lines go: formatted as text or as JSON, queued, and written to standard error by a thread of its own, so that
//! a slow disk or pipe delays no request. Lines beyond the queue are dropped and counted.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    io::{self, IsTerminal as _, Write},
    panic::{self, PanicHookInfo},
    sync::{
        LazyLock, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, Receiver, SyncSender, TrySendError},
    },
    thread,
    time::Duration,
};

use arc_swap::ArcSwap;
use chrono::{SecondsFormat, Utc};
use env_logger::{Builder, Logger, Target, fmt::Formatter};
use log::{
    Level, Log, Metadata, Record,
    kv::{Error, Key, Value, VisitSource},
};
use pointsman_config::LogFormat;

/// What is logged unless `RUST_LOG` or `log.level` says otherwise. The HTTP library reports every broken head of a client
/// as an error: any client could fill the log.
const LOGGED: &str = "info,actix_server=warn,actix_http=off";
/// Most lines that wait to be written.
const QUEUE: usize = 8192;
/// Most bytes of a line of JSON.
const LONGEST_LINE: usize = 4096;
/// Most bytes of a message or a field; of the model that a client asked for fewer.
const LONGEST_TEXT: usize = 1024;
const LONGEST_MODEL: usize = 128;
/// How long the end of the process waits for the queue.
const LAST_LINES: Duration = Duration::from_millis(500);

static DROPPED: AtomicU64 = AtomicU64::new(0);
static LOGS_REQUESTS: AtomicBool = AtomicBool::new(false);
static OUTPUT: OnceLock<Output> = OnceLock::new();
static WRITER: LazyLock<SyncSender<Item>> = LazyLock::new(|| {
    let (sender, receiver) = mpsc::sync_channel(QUEUE);
    if let Err(error) = thread::Builder::new().name("log".to_owned()).spawn(move || write_all(&receiver)) {
        let _ = writeln!(io::stderr(), "cannot start the thread that writes the log: {error}");
    }
    sender
});

enum Item {
    Line(Vec<u8>),
    /// Answered when all lines before it are written.
    Flush(SyncSender<()>),
}

struct Output(ArcSwap<Logger>);

impl Log for Output {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.0.load().enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        self.0.load().log(record);
    }

    fn flush(&self) {}
}

/// Starts logging as text, panics included. Only the binary does; a host application has a logger of its own.
pub fn install() {
    let output = OUTPUT.get_or_init(|| Output(ArcSwap::from_pointee(logger(LogFormat::Text, LOGGED))));
    if log::set_logger(output).is_ok() {
        log::set_max_level(output.0.load().filter());
        panic::set_hook(Box::new(log_panic));
    }
}

/// Logs where the program panicked, with a backtrace if `RUST_BACKTRACE` asks for one. The message may hold parts of a request
/// and is not told.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let (thread, backtrace) = (thread::current(), Backtrace::capture());
    let name = thread.name().unwrap_or_default();
    match backtrace.status() {
        BacktraceStatus::Captured => log::error!(event = "panic_place", thread = name; "panic at {place}\n{backtrace}"),
        _ => log::error!(event = "panic_place", thread = name; "panic at {place}"),
    }
    // The process may end now.
    if name == "main" {
        flush();
    }
}

/// Applies the configuration. `RUST_LOG` goes before `level`.
pub fn configure(format: LogFormat, level: Option<&str>, requests: bool) {
    LOGS_REQUESTS.store(requests, Ordering::Relaxed);
    if let Some(output) = OUTPUT.get() {
        let filter =
            level.map_or_else(|| LOGGED.to_owned(), |level| format!("{level},actix_server=warn,actix_http=off"));
        output.0.store(logger(format, &filter).into());
        log::set_max_level(output.0.load().filter());
    }
}

/// Whether every call has a line.
pub fn logs_requests() -> bool {
    LOGS_REQUESTS.load(Ordering::Relaxed)
}

/// Lines dropped since the start because their writer was behind.
pub fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Waits until the lines so far are written, shortly.
pub fn flush() {
    let (done, written) = mpsc::sync_channel(1);
    if OUTPUT.get().is_some() && WRITER.try_send(Item::Flush(done)).is_ok() {
        let _ = written.recv_timeout(LAST_LINES);
    }
}

fn logger(format: LogFormat, filter: &str) -> Logger {
    let mut builder = Builder::from_env(env_logger::Env::default().default_filter_or(filter));
    builder.target(Target::Pipe(Box::new(Queue)));
    let is_terminal = io::stderr().is_terminal();
    match format {
        LogFormat::Text => builder.format(move |formatter, record| write_text(formatter, record, is_terminal)),
        LogFormat::Json => builder.format(write_json),
    };
    builder.build()
}

fn write_all(items: &Receiver<Item>) {
    for item in items {
        match item {
            Item::Line(line) => {
                let _ = io::stderr().lock().write_all(&line);
            }
            Item::Flush(done) => {
                let _ = done.try_send(());
            }
        }
    }
}

/// Takes one whole line per call, as the logger writes them.
struct Queue;

impl Write for Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = WRITER.try_send(Item::Line(line.to_vec())) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A line for people, with the level in colour; further lines of the message are indented.
fn write_text(formatter: &mut Formatter, record: &Record<'_>, has_colors: bool) -> io::Result<()> {
    let color = match record.level() {
        _ if !has_colors => "",
        Level::Error => "\x1b[1;31m",
        Level::Warn => "\x1b[33m",
        Level::Info => "\x1b[32m",
        Level::Debug => "\x1b[34m",
        Level::Trace => "\x1b[36m",
    };
    let (time, text) = (Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true), record.args().to_string());
    let plain = if has_colors { "\x1b[0m" } else { "" };
    let text = text.replace('\n', "\n    ");
    writeln!(formatter, "[{time} {color}{:<5}{plain} {}] {text}", record.level(), record.target())
}

fn write_json(formatter: &mut Formatter, record: &Record<'_>) -> io::Result<()> {
    let time = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true);
    formatter.write_all(json_line(&time, record).as_bytes())
}

/// The line of a record, with its line feed.
fn json_line(time: &str, record: &Record<'_>) -> String {
    let mut line = JsonLine { text: String::with_capacity(256), has_event: false };
    line.text.push('{');
    line.add_text("ts", time, LONGEST_TEXT);
    line.add_text("level", &record.level().as_str().to_lowercase(), LONGEST_TEXT);
    line.add_text("target", record.target(), LONGEST_TEXT);
    line.add_text("msg", &record.args().to_string(), LONGEST_TEXT);
    // Cannot fail: the visitor never does.
    let _ = record.key_values().visit(&mut line);
    if !line.has_event {
        line.add_text("event", "log", LONGEST_TEXT);
    }
    line.text.push_str("}\n");
    line.text
}

struct JsonLine {
    text: String,
    has_event: bool,
}

impl JsonLine {
    /// Adds a member, unless the line would become too long.
    fn add(&mut self, key: &str, value: &serde_json::Value) {
        let member = format!("{}:{value}", serde_json::Value::from(key));
        // Room for the comma, the closing brace, the line feed and the event.
        if self.text.len() + member.len() + 32 <= LONGEST_LINE {
            if self.text.len() > 1 {
                self.text.push(',');
            }
            self.text.push_str(&member);
        }
    }

    fn add_text(&mut self, key: &str, value: &str, most: usize) {
        let mut shown = value.get(..value.floor_char_boundary(most)).unwrap_or_default().to_owned();
        // Control characters take six bytes each in JSON.
        if serde_json::Value::from(shown.as_str()).to_string().len() > most * 2 {
            shown.truncate(shown.floor_char_boundary(most / 6));
        }
        if shown.len() < value.len() {
            shown.push('…');
        }
        self.add(key, &shown.into());
    }
}

impl<'kvs> VisitSource<'kvs> for JsonLine {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), Error> {
        let key = key.as_str();
        self.has_event |= key == "event";
        if let Some(number) = value.to_u64() {
            self.add(key, &number.into());
        } else if let Some(flag) = value.to_bool() {
            self.add(key, &flag.into());
        } else {
            let text = value.to_string();
            let most = if key == "requested_model" { LONGEST_MODEL } else { LONGEST_TEXT };
            // Absent when unknown.
            if !text.is_empty() {
                self.add_text(key, &text, most);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn line(message: &str, fields: &[(&str, &str)]) -> String {
        let arguments = format_args!("{message}");
        json_line("2026-11-23T10:00:00.000Z", &Record::builder().args(arguments).key_values(&fields).build())
    }

    #[test]
    fn a_line_is_one_json_object_with_its_fields_in_order_and_without_empty_ones() {
        let text = line("he said \"no\"\n", &[("event", "call"), ("key", "team"), ("model", "")]);
        assert_eq!(
            text,
            "{\"ts\":\"2026-11-23T10:00:00.000Z\",\"level\":\"info\",\"target\":\"\",\
             \"msg\":\"he said \\\"no\\\"\\n\",\"event\":\"call\",\"key\":\"team\"}\n"
        );
    }

    #[test]
    fn a_panic_is_a_line_of_json_that_names_its_place_and_repeats_nothing_of_its_message() {
        const CHILD: &str = "POINTSMAN_TEST_PANICS";
        // The hook is that of a whole process: this test runs once more in a process of its own.
        if std::env::var_os(CHILD).is_some() {
            install();
            configure(LogFormat::Json, None, false);
            let prompt = "the canary sings";
            let panics = thread::Builder::new().name("worker".to_owned()).spawn(move || panic!("not here: {prompt}"));
            assert!(panics.unwrap().join().is_err());
            flush();
            return;
        }
        let name = "a_panic_is_a_line_of_json_that_names_its_place_and_repeats_nothing_of_its_message";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let child = child
            .arg(format!("{}::{name}", module_path!().split_once("::").unwrap().1))
            .args(["--exact", "--nocapture"]);
        let output = child.env(CHILD, "1").env("RUST_BACKTRACE", "0").output().unwrap();
        let (said, log) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success() && said.contains("1 passed"), "{said}{log}");
        let [line] = log.lines().collect::<Vec<_>>()[..] else { panic!("{log}") };
        let line: Value = serde_json::from_str(line).unwrap();
        let place = format!("panic at {}:", file!());
        assert!(line["msg"].as_str().unwrap().starts_with(&place), "{line}");
        assert_eq!(
            (&line["event"], &line["thread"], &line["level"]),
            (&"panic_place".into(), &"worker".into(), &"error".into())
        );
        assert!(!log.contains("canary"), "{log}");
    }

    #[test]
    fn a_line_never_exceeds_4_kib_and_stays_json_whatever_a_client_asks_for() {
        for bad in ["x".repeat(100_000), "\u{1}".repeat(5_000), "ü\"".repeat(9_000)] {
            let fields: Vec<(&str, &str)> =
                ["requested_model", "model", "provider", "key", "a", "b"].map(|key| (key, &*bad)).into();
            let text = line(&bad, &fields);
            assert!(text.len() <= LONGEST_LINE, "{}", text.len());
            let parsed: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(parsed["event"], "log");
            assert!(parsed["requested_model"].as_str().unwrap().len() <= LONGEST_MODEL + 3);
        }
    }
}
