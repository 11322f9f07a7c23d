//! What `top` shows of a reading: the verdict, and the endpoints in the order and with the filter that keys have set.

use std::cmp::Reverse;

use serde_json::Value;

use crate::app::cli::columns::{cut, dollars, endpoint as name, number, shown};

/// The order of the endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Order {
    #[default]
    Trouble,
    Calls,
    FirstToken,
    Name,
}

impl Order {
    const fn next(self) -> Order {
        match self {
            Order::Trouble => Order::Calls,
            Order::Calls => Order::FirstToken,
            Order::FirstToken => Order::Name,
            Order::Name => Order::Trouble,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Order::Trouble => "trouble",
            Order::Calls => "calls",
            Order::FirstToken => "first token",
            Order::Name => "name",
        }
    }
}

/// What to do after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Nothing has changed.
    Ignore,
    /// Draw the last reading again.
    Draw,
    Quit,
}

/// Order and filter, and whether readings go on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct View {
    order: Order,
    filter: String,
    /// The filter that is being typed.
    typed: Option<String>,
    is_paused: bool,
}

impl View {
    /// Whether no further reading is wanted for now.
    pub(super) const fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Takes one byte of the keyboard.
    pub(super) fn press(&mut self, byte: u8) -> Reaction {
        const ESCAPE: u8 = 27;
        if let Some(typed) = &mut self.typed {
            match byte {
                b'\r' | b'\n' => self.filter = self.typed.take().unwrap_or_default(),
                ESCAPE => self.typed = None,
                8 | 127 => drop(typed.pop()),
                byte if byte.is_ascii_graphic() => typed.push(char::from(byte)),
                _ => return Reaction::Ignore,
            }
            return Reaction::Draw;
        }
        match byte {
            b'q' => return Reaction::Quit,
            b's' => self.order = self.order.next(),
            b'p' | b' ' => self.is_paused = !self.is_paused,
            b'/' => self.typed = Some(self.filter.clone()),
            ESCAPE => self.filter.clear(),
            _ => return Reaction::Ignore,
        }
        Reaction::Draw
    }

    /// The line that says what the keys do and what they have set.
    pub(super) fn keys(&self) -> String {
        if let Some(typed) = &self.typed {
            return format!("filter: {typed}_   Enter: show, Esc: back");
        }
        let filter = if self.filter.is_empty() { String::new() } else { format!(": {}", self.filter) };
        let paused = if self.is_paused { "p go on (paused)" } else { "p pause" };
        format!("q quit   s sort: {}   {paused}   / filter{filter}", self.order.as_str())
    }

    /// The verdict and the table, with at most `most` endpoints.
    pub(super) fn lines(&self, rows: &[Value], url: &str, most: usize) -> Vec<String> {
        let wanted = |row: &&Value| self.filter.is_empty() || name(row).contains(&self.filter);
        let mut shown: Vec<&Value> = rows.iter().filter(wanted).collect();
        self.sort(&mut shown);
        let mut lines = vec![
            verdict(rows, url),
            String::new(),
            format!(
                "{:<32} {:<9} {:>5} {:>6} {:>6} {:>7} {:>6}",
                "ENDPOINT", "STATE", "CALLS", "OK %", "BUSY", "TTFT MS", "TOK/S"
            ),
        ];
        lines.extend(shown.iter().take(most).map(|row| line(row)));
        if shown.len() > most {
            lines.push(format!("and {} more", shown.len() - most));
        }
        if shown.is_empty() && !rows.is_empty() {
            lines.push(format!("No endpoint has '{}' in its name.", self.filter));
        }
        lines
    }

    fn sort(&self, rows: &mut [&Value]) {
        match self.order {
            Order::Trouble => {
                rows.sort_by_key(|row| (Reverse(trouble(row)), Reverse(integer(row, "/requests")), name(row)))
            }
            Order::Calls => rows.sort_by_key(|row| (Reverse(integer(row, "/requests")), name(row))),
            // Those without a measurement last.
            Order::FirstToken => rows.sort_by_key(|row| {
                let millis = row.pointer("/ttft_ms/p50").and_then(Value::as_f64);
                (millis.is_none(), Reverse(millis.map_or(0, |millis| (millis * 1e3) as i64)), name(row))
            }),
            Order::Name => rows.sort_by_key(|row| name(row)),
        }
    }
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
    let circuit = shown(row, "/circuit");
    let state = if circuit == "closed" { shown(row, "/state") } else { circuit };
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

/// The last decisions, newest first, below a line of its own; nothing without one.
pub(super) fn last(rows: &[Value]) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let head = format!("{:<8} {:<9} {:<40} {:>8} {:>10}", "LAST", "STATUS", "SERVED BY", "MS", "COST $");
    let line = |row: &Value| {
        let clock: String = shown(row, "/created_at").chars().skip(11).take(8).collect();
        let served = match shown(row, "/model") {
            model if model == "-" => shown(row, "/requested_model"),
            model => format!("{model} @ {}", shown(row, "/provider_slug")),
        };
        let cost =
            if row.get("cost").is_some_and(Value::is_number) { dollars(row, "/cost") } else { "unknown".to_owned() };
        format!(
            "{clock:<8} {:<9} {:<40} {:>8} {:>10}",
            shown(row, "/status"),
            cut(&served, 40),
            number(row, "/total_ms", 1.0, 0),
            cut(&cost, 10)
        )
    };
    [String::new(), head].into_iter().chain(rows.iter().map(line)).collect()
}

fn integer(row: &Value, pointer: &str) -> i64 {
    row.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
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

    fn order(view: &View, rows: &[Value]) -> String {
        let lines = view.lines(rows, "http://h", 40);
        lines[3..].iter().filter_map(|line| line.split(' ').next()).collect::<Vec<_>>().join(" ")
    }

    fn press(view: &mut View, keys: &str) -> Vec<Reaction> {
        keys.bytes().map(|key| view.press(key)).collect()
    }

    #[test]
    fn endpoints_in_trouble_come_first_and_the_verdict_names_the_worst() {
        let rows = [row("a/well", "closed", 4), row("b/failing", "closed", 2), row("c/down", "open", 0)];
        let lines = View::default().lines(&rows, "http://h", 40);
        assert_eq!(lines[0], "c/down @ p takes no calls (1 of 3 endpoints), 12 attempts in 300 s. http://h");
        assert_eq!(order(&View::default(), &rows), "c/down b/failing a/well");
        assert!(lines.iter().skip(1).all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert!(verdict(&rows[..1], "u").starts_with("All 1 endpoints take calls, 4 attempts in 300 s."));
        assert_eq!(verdict(&[], "u"), "No endpoint is on. u");
        assert_eq!(View::default().lines(&rows, "u", 2).last().unwrap(), "and 1 more");
    }

    #[test]
    fn the_whole_text_is_eighty_columns_wide() {
        let mut rows = [
            row("meadow/small", "closed", 4),
            row("harbor/a-model-with-a-very-long-name", "open", 0),
            row("lantern/free", "half_open", 3),
        ];
        rows[0]["requests"] = json!(1_204);
        rows[0]["successes"] = json!(1_204);
        rows[0]["success_rate"] = json!(1.0);
        rows[0]["throughput_tps"]["p50"] = json!(127.46);
        let served = json!({"created_at": "2026-11-24T04:00:00.123Z", "status": "completed", "model": "meadow/small",
                            "provider_slug": "p", "total_ms": 1_712.4, "cost": 0.0000085});
        let failed = json!({"created_at": "2026-11-24T03:59:58.001Z", "status": "failed", "model": null,
                            "requested_model": "auto", "total_ms": 30, "cost": null});
        let view = View::default();
        let text = [view.lines(&rows, "http://127.0.0.1:8080", 40), last(&[served, failed])].concat().join("\n");
        assert!(text.lines().skip(1).all(|line| line.chars().count() <= 80), "{text}");
        expect_test::expect![[r#"
            harbor/a-model-with-a-very-long-name @ p takes no calls (1 of 3 endpoints), 1212 attempts in 300 s. http://127.0.0.1:8080

            ENDPOINT                         STATE     CALLS   OK %   BUSY TTFT MS  TOK/S
            harbor/a-model-with-a-very-long… open          4   50.0      1     120      -
            lantern/free @ p                 half_open     4   50.0      1     120      -
            meadow/small @ p                 healthy    1204  100.0      1     120  127.5

            LAST     STATUS    SERVED BY                                      MS     COST $
            04:00:00 completed meadow/small @ p                             1712 0.00000850
            03:59:58 failed    auto                                           30    unknown
        "#]]
        .assert_eq(&format!("{text}\n"));
    }

    #[test]
    fn keys_sort_filter_pause_and_quit() {
        let mut rows = [row("c/slow", "closed", 4), row("a/busy", "closed", 4), row("b/new", "closed", 4)];
        rows[0]["ttft_ms"]["p50"] = json!(900.0);
        rows[1]["requests"] = json!(9);
        rows[2]["ttft_ms"]["p50"] = Value::Null;
        let mut view = View::default();
        for sorted in ["a/busy b/new c/slow", "c/slow a/busy b/new", "a/busy b/new c/slow"] {
            assert_eq!(press(&mut view, "s"), [Reaction::Draw]);
            assert_eq!(order(&view, &rows), sorted, "{}", view.keys());
        }
        assert_eq!(press(&mut view, "s?"), [Reaction::Draw, Reaction::Ignore]);
        assert!(view.keys().contains("sort: trouble"), "{}", view.keys());

        press(&mut view, "/xsl");
        assert!(view.keys().starts_with("filter: xsl_"), "{}", view.keys());
        press(&mut view, "\u{7f}\u{7f}\u{7f}slow\r");
        assert_eq!(order(&view, &rows), "c/slow");
        press(&mut view, "/q\u{1b}");
        assert_eq!(order(&view, &rows), "c/slow", "a filter that is given up changes nothing");
        press(&mut view, "/zzz\r");
        assert!(view.lines(&rows, "u", 40).last().unwrap().contains("'slowzzz'"));
        press(&mut view, "\u{1b}");
        assert_eq!(order(&view, &rows).split(' ').count(), 3);

        press(&mut view, "p");
        assert!(view.is_paused() && view.keys().contains("paused"));
        assert_eq!(press(&mut view, " q"), [Reaction::Draw, Reaction::Quit]);
        assert!(!view.is_paused());
    }

    #[test]
    fn the_last_decisions_say_when_how_who_how_long_and_for_how_much() {
        let rows = [
            json!({"created_at": "2026-11-24T04:00:00.123Z", "status": "completed", "model": "a/one", "provider_slug": "p",
                   "requested_model": "service/auto", "total_ms": 812, "cost": 0.00012}),
            json!({"created_at": "2026-11-24T03:59:59.000Z", "status": "failed", "model": null, "provider_slug": null,
                   "requested_model": "x\u{1b}".repeat(40), "total_ms": 5, "cost": null}),
        ];
        let lines = last(&rows);
        assert_eq!(lines[2], "04:00:00 completed a/one @ p                                     812   0.000120");
        assert!(lines[3].starts_with("03:59:59 failed    xxxx") && lines[3].ends_with("unknown"), "{}", lines[3]);
        assert!(lines.iter().all(|line| line.chars().count() <= 80 && !line.contains('\u{1b}')), "{lines:#?}");
        assert!(last(&[]).is_empty());
    }

    #[test]
    fn a_name_cannot_move_the_cursor_or_widen_the_table() {
        let long = format!("x\u{1b}[2J{}", "y".repeat(100));
        let shown = line(&row(&long, "closed", 4));
        assert!(!shown.contains('\u{1b}') && shown.chars().count() <= 80, "{shown}");
    }
}
