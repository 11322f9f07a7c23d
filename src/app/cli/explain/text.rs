//! A decision as text of at most 80 columns, but for longer words: the sentence, the candidates as bars, who is left out, the
//! attempts as lanes, the cost.

use std::fmt::{Result, Write as _};

use serde_json::Value;

use crate::app::cli::columns::{cut, dollars, endpoint, list, number, shown};

/// Letters of a name.
const NAME: usize = 30;
/// Letters of the longest bar.
const BAR: usize = 10;
/// Letters of a lane.
const LANE: usize = 20;
/// A bar ends at this many times the best score, so that one bad candidate does not flatten all others.
const MOST_TIMES: f64 = 6.0;
/// Columns of the text.
const WIDTH: usize = 80;

/// The decision.
pub(super) fn decision(page: &Value) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_decision(&mut text, page);
    text
}

fn write_decision(text: &mut String, page: &Value) -> Result {
    if let Some(head) = head(page) {
        write_sentence(text, &head)?;
        text.push('\n');
    }
    if page.get("summary").is_some() {
        write_sentence(text, &shown(page, "/summary"))?;
        text.push('\n');
    }
    write_sentence(text, &shown(page, "/decision_reason"))?;
    let (requested, objective) = (shown(page, "/requested_model"), shown(page, "/objective"));
    text.push('\n');
    write_sentence(text, &format!("requested {requested}, objective {objective}"))?;
    for warning in list(page, "warnings") {
        write_sentence(text, &format!("warning: {}", shown(warning, "/message")))?;
    }
    if page.pointer("/what_if/sentence").is_some() {
        writeln!(text, "\nWHAT IF")?;
        write_sentence(text, &shown(page, "/what_if/sentence"))?;
    }
    if page.pointer("/why_not/sentence").is_some() {
        text.push('\n');
        write_sentence(text, &format!("WHY NOT {}", shown(page, "/why_not/asked")))?;
        write_sentence(text, &shown(page, "/why_not/sentence"))?;
    }
    write_candidates(text, list(page, "candidates"))?;
    if !list(page, "excluded").is_empty() {
        writeln!(text, "\n  EXCLUDED")?;
    }
    for excluded in list(page, "excluded") {
        let why = format!("{}: {}", shown(excluded, "/reason"), shown(excluded, "/detail"));
        write_wrapped(text, &format!("  {:<NAME$} ", cut(&endpoint(excluded), NAME)), &why)?;
    }
    write_attempts(text, list(page, "attempts"))?;
    write_shadows(text, list(page, "shadows"))?;
    if page.get("total_cost").is_some() {
        let (cost, status) = (dollars(page, "/total_cost"), shown(page, "/status"));
        let cost = if cost == "-" { "unknown".to_owned() } else { format!("${cost}") };
        text.push('\n');
        write_sentence(text, &format!("cost {cost}, status {status}"))?;
    }
    Ok(())
}

/// What shadow policies would have chosen, and what that was expected to cost.
fn write_shadows(text: &mut String, shadows: &[Value]) -> Result {
    if !shadows.is_empty() {
        writeln!(text, "\n  {:<NAME$} WOULD HAVE CHOSEN", "SHADOW")?;
    }
    for shadow in shadows {
        let choice = match shadow.get("choice").filter(|choice| !choice.is_null()) {
            Some(choice) => format!("{}, ${}", endpoint(choice), dollars(shadow, "/expected_cost")),
            None => "no endpoint".to_owned(),
        };
        let same = if shadow.get("agrees") == Some(&Value::Bool(true)) { ", the same" } else { "" };
        write_wrapped(text, &format!("  {:<NAME$} ", shown(shadow, "/shadow")), &format!("{choice}{same}"))?;
    }
    Ok(())
}

/// `gen-… · 11:27:36 · nightly-batch (research, team science) · 466+86 tokens, streamed · 2104 ms`; `None` for a preview.
fn head(page: &Value) -> Option<String> {
    let generation = page.get("generation_id")?.as_str()?;
    let time = page.get("created_at").and_then(Value::as_str).and_then(|time| time.get(11..19)).unwrap_or("-");
    let name = |member: &str| page.get(member).and_then(Value::as_str);
    let key = name("key").unwrap_or("removed key");
    let account = name("account").filter(|account| *account != key).map(str::to_owned);
    let holders: Vec<String> = account.into_iter().chain(name("team").map(|team| format!("team {team}"))).collect();
    let holders = if holders.is_empty() { String::new() } else { format!(" ({})", holders.join(", ")) };
    let tokens = |member: &str| page.pointer(member).and_then(Value::as_u64).unwrap_or(0);
    let (prompt, completion) = (tokens("/usage/prompt_tokens"), tokens("/usage/completion_tokens"));
    let streamed = if page.get("streamed") == Some(&Value::Bool(true)) { ", streamed" } else { "" };
    let total = page.get("total_ms").and_then(Value::as_u64).map_or(String::new(), |ms| format!(" · {ms} ms"));
    let request = name("request_id").map_or(String::new(), |id| format!(" · request {id}"));
    let conversation = name("session_id").map_or(String::new(), |id| format!(" · conversation {id}"));
    let text = format!(
        "{generation} · {time} · {key}{holders} · {prompt}+{completion} tokens{streamed}{total}{request}{conversation}"
    );
    Some(text.chars().filter(|c| !c.is_control()).collect())
}

/// The sentence in lines of at most [`WIDTH`] columns.
fn write_sentence(text: &mut String, sentence: &str) -> Result {
    write_wrapped(text, "", sentence)
}

/// The head and the sentence, whose further lines begin below its first word.
fn write_wrapped(text: &mut String, head: &str, sentence: &str) -> Result {
    let indent = head.chars().count();
    let mut columns = indent;
    text.push_str(head);
    for word in sentence.split(' ') {
        let letters = word.chars().count();
        if columns > indent && columns + 1 + letters > WIDTH {
            write!(text, "\n{:indent$}", "")?;
            columns = indent;
        }
        if columns > indent {
            text.push(' ');
            columns += 1;
        }
        text.push_str(word);
        columns += letters;
    }
    writeln!(text)
}

/// The candidates in their order, the chosen one with a star. The shortest bar is the best score.
fn write_candidates(text: &mut String, candidates: &[Value]) -> Result {
    let scores = || candidates.iter().filter_map(score);
    let (best, worst) = (scores().fold(f64::INFINITY, f64::min), scores().fold(0.0, f64::max));
    let most = if best > 0.0 { worst.min(best * MOST_TIMES) } else { worst };
    if !candidates.is_empty() {
        writeln!(
            text,
            "\n  {:<NAME$} {:<BAR$} {:>7} {:>6} {:>10} {:>5}",
            "CANDIDATE", "SCORE", "TTFT MS", "TOK/S", "COST $", "FAIL%"
        )?;
    }
    for candidate in candidates {
        writeln!(
            text,
            "{} {:<NAME$} {:<BAR$} {:>7} {:>6} {:>10} {:>5}",
            if candidate.get("selected") == Some(&Value::Bool(true)) { '*' } else { ' ' },
            cut(&endpoint(candidate), NAME),
            score(candidate).map(|score| bar(score / most)).unwrap_or_default(),
            number(candidate, "/predicted/ttft_ms/p50", 1.0, 0),
            number(candidate, "/predicted/throughput_tps", 1.0, 1),
            number(candidate, "/predicted/cost", 1.0, 6),
            number(candidate, "/predicted/failure_probability", 100.0, 1)
        )?;
    }
    Ok(())
}

fn score(candidate: &Value) -> Option<f64> {
    candidate.get("score").and_then(Value::as_f64).filter(|score| score.is_finite())
}

/// A bar of this share of [`BAR`], in eighths of a letter. One that is longer ends with `»`.
fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if share > 1.0 + f64::EPSILON {
        return "█".repeat(BAR - 1) + "»";
    }
    let eighths = (share.max(0.0) * BAR as f64 * 8.0).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS.get(eighths % 8).copied().unwrap_or_default()
}

/// The attempts in their order, each with its place in the time of all.
fn write_attempts(text: &mut String, attempts: &[Value]) -> Result {
    let end = attempts.iter().filter_map(span).map(|(_, end)| end).max().unwrap_or(0);
    if !attempts.is_empty() {
        writeln!(text, "\n  {:<NAME$} 0{:>width$} OUTCOME", "ATTEMPT", format!("{end} ms"), width = LANE - 1)?;
    }
    for attempt in attempts {
        let status = match attempt.get("status") {
            None | Some(Value::Null) => String::new(),
            Some(status) => format!(" {status}"),
        };
        let outcome = format!("{}{status}, {} ms", shown(attempt, "/outcome"), shown(attempt, "/duration_ms"));
        let lane = span(attempt).map_or_else(|| " ".repeat(LANE), |span| lane(span, end));
        write_wrapped(text, &format!("  {:<NAME$} {lane} ", cut(&endpoint(attempt), NAME)), &outcome)?;
    }
    Ok(())
}

/// Start and end of an attempt, in milliseconds.
fn span(attempt: &Value) -> Option<(u64, u64)> {
    let start = attempt.get("started_ms")?.as_u64()?;
    Some((start, start.saturating_add(attempt.get("duration_ms")?.as_u64()?)))
}

fn lane((start, end): (u64, u64), last: u64) -> String {
    let place = |ms: u64| (ms as f64 / last.max(1) as f64 * LANE as f64) as usize;
    let start = place(start).min(LANE - 1);
    let end = place(end).clamp(start + 1, LANE);
    "·".repeat(start) + &"━".repeat(end - start) + &"·".repeat(LANE - end)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn candidate(model: &str, score: f64, selected: bool) -> Value {
        let predicted = json!({"ttft_ms": {"p50": 207.4}, "throughput_tps": 127.5, "cost": 0.0000615,
                               "failure_probability": 0.069});
        json!({"model": model, "provider_slug": "sim-flaky", "score": score, "selected": selected, "predicted": predicted})
    }

    #[test]
    fn a_rescued_decision_is_drawn_in_80_columns() {
        let page = json!({
            "generation_id": "gen-1763629500-BAAAAAAACAAAAAAADAAAAA", "created_at": "2026-11-26T11:27:36.120Z",
            "key": "nightly-batch", "account": "research", "team": "science", "request_id": "req-7", "session_id": null,
            "streamed": true, "total_ms": 2226, "usage": {"prompt_tokens": 466, "completion_tokens": 86},
            "summary": "meadow/small on Flaky failed with error 500; Thrift answered instead.",
            "decision_reason": "balanced: meadow/small on Flaky. Chosen because it has the best balance of time and cost: \
                                0.481 times the median time and cost, next best meadow/small on Thrift 0.508 times (+6 %).",
            "requested_model": "auto", "objective": "balanced", "total_cost": 0.0000206, "status": "completed",
            "warnings": [{"message": "The parameter 'seed' was dropped."}],
            "why_not": {"asked": "sim-thrift", "sentence": "It lost by 5.6 %, mostly in time."},
            "candidates": [
                candidate("meadow/small", 0.481, true),
                candidate("meadow/large", 0.962, false),
                candidate("harbor/a-model-with-a-very-long-name-that-ends-nowhere", 4.0, false),
                candidate("beacon/free", 0.601, false),
            ],
            "excluded": [{"model": "beacon/old", "provider_slug": "acme", "reason": "circuit_open",
                          "detail": "five failures in a row, probed again in 12 seconds at the latest"}],
            "attempts": [
                {"model": "meadow/small", "provider_slug": "sim-flaky", "started_ms": 1, "duration_ms": 284,
                 "status": 500, "outcome": "server"},
                {"model": "meadow/small", "provider_slug": "sim-thrift", "started_ms": 286, "duration_ms": 1940,
                 "status": 200, "outcome": "completed"},
            ],
            "shadows": [
                {"shadow": "thrifty", "agrees": true, "expected_cost": 0.0000103,
                 "choice": {"model": "meadow/small", "provider_slug": "sim-flaky"}},
                {"shadow": "strict", "agrees": false, "expected_cost": 0, "choice": null},
            ],
        });
        let text = decision(&page);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        expect![[r#"
            gen-1763629500-BAAAAAAACAAAAAAADAAAAA · 11:27:36 · nightly-batch (research, team
            science) · 466+86 tokens, streamed · 2226 ms · request req-7

            meadow/small on Flaky failed with error 500; Thrift answered instead.

            balanced: meadow/small on Flaky. Chosen because it has the best balance of time
            and cost: 0.481 times the median time and cost, next best meadow/small on Thrift
            0.508 times (+6 %).

            requested auto, objective balanced
            warning: The parameter 'seed' was dropped.

            WHY NOT sim-thrift
            It lost by 5.6 %, mostly in time.

              CANDIDATE                      SCORE      TTFT MS  TOK/S     COST $ FAIL%
            * meadow/small @ sim-flaky       █▋             207  127.5   0.000062   6.9
              meadow/large @ sim-flaky       ███▍           207  127.5   0.000062   6.9
              harbor/a-model-with-a-very-lo… █████████»     207  127.5   0.000062   6.9
              beacon/free @ sim-flaky        ██▏            207  127.5   0.000062   6.9

              EXCLUDED
              beacon/old @ acme              circuit_open: five failures in a row, probed
                                             again in 12 seconds at the latest

              ATTEMPT                        0            2226 ms OUTCOME
              meadow/small @ sim-flaky       ━━·················· server 500, 284 ms
              meadow/small @ sim-thrift      ··━━━━━━━━━━━━━━━━━━ completed 200, 1940 ms

              SHADOW                         WOULD HAVE CHOSEN
              thrifty                        meadow/small @ sim-flaky, $0.0000103, the same
              strict                         no endpoint

            cost $0.0000206, status completed
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn long_names_and_outcomes_are_wrapped_and_nothing_of_them_is_cut() {
        let long = "harbor/a-model-with-a-very-long-name-that-ends-nowhere";
        let page = json!({
            "requested_model": long, "objective": "the one that the key has from its account",
            "why_not": {"asked": format!("{long} at sim-thrift or wherever else"), "sentence": "It lost."},
            "total_cost": 1, "status": "failed after more words than the line has columns for, twenty and more of them",
            "attempts": [{"model": "a", "provider_slug": "b", "outcome": "content_filtered_by_the provider", "status": 200}],
        });
        let text = decision(&page);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for whole in [
            format!("requested {long}, objective the one that the key has from its account"),
            format!("WHY NOT {long} at sim-thrift or wherever else"),
            "content_filtered_by_the provider 200".to_owned(),
            "more words than the line has columns for, twenty and more of them".to_owned(),
        ] {
            assert!(words.contains(&whole), "{whole}: {text}");
        }
    }

    #[test]
    fn a_page_without_its_members_and_with_control_characters_is_drawn_too() {
        let text = decision(&json!({"candidates": [{"model": "a\u{1b}[2J", "score": null}], "attempts": [{}]}));
        assert!(!text.contains('\u{1b}') && text.contains("a[2J @ -"), "{text}");
        assert_eq!((bar(0.0), bar(1.0), bar(1.5)), (String::new(), "█".repeat(BAR), "█".repeat(BAR - 1) + "»"));
        assert_eq!(lane((0, 0), 0).chars().count(), LANE);
        assert_eq!(lane((7, 7), 7).chars().count(), LANE);
    }
}
