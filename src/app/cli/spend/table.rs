//! Spending as a table: the dearest first, or a column for each day; and why it changed.

use std::{collections::BTreeSet, fmt::Write as _};

use chrono::{DateTime, Duration};
use serde_json::Value;

use crate::app::cli::columns::{dollars, list, shown};

/// Most columns of days; of more, every day has rows of its own.
const MOST_DAYS: usize = 14;
/// Longest name in a column.
const LONGEST: usize = 40;

/// A table in the making: the first `names` columns are texts, the others are numbers.
struct Table {
    names: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
                if at < self.names { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        text
    }
}

/// The answer of `/activity` with `group_by`.
pub(super) fn spend(page: &Value, minutes: i64) -> String {
    let groups: Vec<&str> = list(page, "group_by").iter().filter_map(Value::as_str).collect();
    let (times, names): (Vec<&str>, Vec<&str>) = groups.iter().partition(|group| ["day", "hour"].contains(group));
    let rows = list(page, "data");
    let mut text = format!("Spend from {} to {}", time(page, "/since", minutes), time(page, "/until", minutes));
    let before = page.pointer("/before/since").map(|_| time(page, "/before/since", minutes));
    if let Some(before) = &before {
        let _ = write!(text, "; before: from {before}, as long");
    }
    text.push_str("\n\n");
    if rows.is_empty() {
        text.push_str("No call ended in this time.\n");
        return text;
    }
    let days: BTreeSet<&str> = rows.iter().filter_map(|row| row.get("date")).filter_map(Value::as_str).collect();
    let is_pivot = times == ["day"] && !names.is_empty() && days.len() <= MOST_DAYS;
    let table = match is_pivot {
        true => by_day(page, &names, &days),
        false => plain(page, &names, times.first().copied(), minutes),
    };
    text.push_str(&table.text());
    if is_pivot || !times.is_empty() {
        let _ = writeln!(text, "\n{}", totals(page));
    }
    let unknown = page.pointer("/totals/unknown_costs/value").and_then(Value::as_u64).unwrap_or(0);
    if unknown > 0 {
        let _ = writeln!(text, "\nNot in the sums: the cost of {unknown} requests, whose price is not known.");
    }
    text
}

/// A row for each group, and one for all together.
fn plain(page: &Value, names: &[&str], time_of: Option<&str>, minutes: i64) -> Table {
    let has_before = time_of.is_none() && page.get("before").is_some();
    let mut head: Vec<String> = time_of.iter().chain(names).map(|name| name.to_uppercase()).collect();
    let texts = head.len();
    head.extend(["REQUESTS", "FAILED", "TOKENS IN", "TOKENS OUT", "COST $", "SHARE"].map(str::to_owned));
    if has_before {
        head.extend(["BEFORE $", "CHANGE"].map(str::to_owned));
    }
    let mut rows = vec![head];
    for row in list(page, "data") {
        let mut cells = Vec::new();
        match time_of {
            Some("hour") => cells.push(time(row, "/start", minutes)),
            Some(_) => cells.push(shown(row, "/date")),
            None => {}
        }
        cells.extend(names.iter().map(|name| name_of(row, name)));
        cells.extend(["/requests", "/failed", "/prompt_tokens", "/completion_tokens"].map(|path| shown(row, path)));
        cells.push(dollars(row, "/cost"));
        cells.push(share(row));
        if has_before {
            cells.push(dollars(row, "/cost_before"));
            cells.push(change_of(row, "/cost", "/cost_before"));
        }
        rows.push(cells);
    }
    if time_of.is_none() {
        let mut total = vec!["Total".to_owned()];
        total.resize(texts.max(1), String::new());
        let of = |name: &str| shown(page, &format!("/totals/{name}/value"));
        total.extend(["requests", "failed", "prompt_tokens", "completion_tokens"].map(of));
        total.push(dollars(page, "/totals/cost/value"));
        total.push(String::new());
        if has_before {
            total.push(dollars(page, "/totals/cost/before"));
            total.push(change_of(page, "/totals/cost/value", "/totals/cost/before"));
        }
        rows.push(total);
    }
    Table { names: texts.max(1), rows }
}

/// A row for each group and a column for each day, the dearest group first.
fn by_day(page: &Value, names: &[&str], days: &BTreeSet<&str>) -> Table {
    let amount = |row: &Value| row.get("cost").and_then(Value::as_f64).unwrap_or(0.0);
    let mut groups: Vec<(Vec<String>, Vec<f64>)> = Vec::new();
    for row in list(page, "data") {
        let name: Vec<String> = names.iter().map(|name| name_of(row, name)).collect();
        let found = groups.iter().position(|(known, _)| *known == name);
        let at = found.unwrap_or_else(|| {
            groups.push((name, vec![0.0; days.len()]));
            groups.len() - 1
        });
        let day = days.iter().position(|day| row.get("date").and_then(Value::as_str) == Some(day));
        if let Some(sum) = groups.get_mut(at).zip(day).and_then(|((_, sums), day)| sums.get_mut(day)) {
            *sum += amount(row);
        }
    }
    groups.sort_by(|(_, one), (_, other)| other.iter().sum::<f64>().total_cmp(&one.iter().sum()));
    let mut head: Vec<String> = names.iter().map(|name| name.to_uppercase()).collect();
    head.extend(days.iter().map(|day| day.get(5..).unwrap_or(day).to_owned()).chain(["ALL $".to_owned()]));
    let line = |name: Vec<String>, sums: &[f64]| {
        let all = sums.iter().sum::<f64>();
        name.into_iter().chain(sums.iter().chain([&all]).map(|sum| amount_text(*sum))).collect::<Vec<String>>()
    };
    let mut rows = vec![head];
    rows.extend(groups.iter().map(|(name, sums)| line(name.clone(), sums)));
    let total: Vec<f64> =
        (0..days.len()).map(|day| groups.iter().filter_map(|(_, sums)| sums.get(day)).sum()).collect();
    let mut name = vec!["Total".to_owned()];
    name.resize(names.len(), String::new());
    rows.push(line(name, &total));
    Table { names: names.len(), rows }
}

/// Requests, failures and cost of all, each with its change.
fn totals(page: &Value) -> String {
    let part = |name: &str, text: String| {
        let path = |member: &str| format!("/totals/{name}/{member}");
        match change_of(page, &path("value"), &path("before")) {
            change if change == "-" => text,
            change => format!("{text} ({change})"),
        }
    };
    let count = |name: &str| part(name, format!("{} {name}", shown(page, &format!("/totals/{name}/value"))));
    let cost = part("cost", format!("${}", dollars(page, "/totals/cost/value")));
    format!("Total: {cost}, {}, {}", count("requests"), count("failed"))
}

/// Why the cost changed: the answer of `/activity/explain`.
pub(super) fn change(page: &Value, minutes: i64) -> String {
    let mut text = format!("{}\n", shown(page, "/summary"));
    let parts = list(page, "parts");
    if parts.is_empty() {
        return text;
    }
    let mut rows: Vec<Vec<String>> =
        parts.iter().map(|part| vec![shown(part, "/text"), signed(&dollars(part, "/change"))]).collect();
    rows.push(vec!["Together".to_owned(), signed(&dollars(page, "/cost/change"))]);
    let _ = write!(text, "\n{}", Table { names: 1, rows }.text());
    let of = |path: &str| time(page, path, minutes);
    let _ = writeln!(
        text,
        "\nFrom {} to {}: ${}, {} requests. From {} to {}: ${}, {} requests.",
        of("/before/since"),
        of("/before/until"),
        dollars(page, "/cost/before"),
        shown(page, "/requests_before"),
        of("/since"),
        of("/until"),
        dollars(page, "/cost/value"),
        shown(page, "/requests"),
    );
    text
}

fn signed(amount: &str) -> String {
    if amount.starts_with('-') || amount == "0" { amount.to_owned() } else { format!("+{amount}") }
}

/// The name of a row in a group.
fn name_of(row: &Value, group: &str) -> String {
    let member = if group == "provider" { "provider_slug" } else { group };
    let name = shown(row, &format!("/{member}"));
    match (name.as_str(), group) {
        // Keys and accounts that are gone have a number only.
        ("-", "key") if shown(row, "/key_id") != "-" => format!("removed {}", shown(row, "/key_id")),
        ("-", "account") => format!("removed {}", shown(row, "/owner")),
        ("-", _) => "(none)".to_owned(),
        _ => super::super::columns::cut(&name, LONGEST),
    }
}

fn share(row: &Value) -> String {
    let share = row.get("share").and_then(Value::as_f64);
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}%", share * 100.0))
}

/// The change in percent; `new` of what was not there before, `-` where nothing can be said.
fn change_of(page: &Value, now: &str, before: &str) -> String {
    let number = |path| page.pointer(path).and_then(Value::as_f64);
    match (number(now), number(before)) {
        (Some(now), Some(0.0)) if now > 0.0 => "new".to_owned(),
        (Some(now), Some(before)) if before > 0.0 => format!("{:+.0}%", (now - before) / before * 100.0),
        _ => "-".to_owned(),
    }
}

fn amount_text(amount: f64) -> String {
    dollars(&serde_json::json!({ "amount": amount }), "/amount")
}

/// A time of an answer in the local zone.
fn time(page: &Value, pointer: &str, minutes: i64) -> String {
    let text = shown(page, pointer);
    let parsed = DateTime::parse_from_rfc3339(&text).map(|time| time.to_utc() + Duration::minutes(minutes));
    parsed.map_or(text, |time| time.format("%Y-%m-%d %H:%M").to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(group_by: &[&str], data: Value) -> Value {
        let figure = |value: f64, before: f64| json!({"value": value, "before": before, "change": value - before});
        json!({
            "group_by": group_by, "data": data, "since": "2026-11-20T00:00:00.000Z", "until": "2026-11-22T00:00:00.000Z",
            "before": {"since": "2026-11-18T00:00:00.000Z", "until": "2026-11-20T00:00:00.000Z"},
            "totals": {"requests": {"value": 30, "before": 20}, "failed": {"value": 1, "before": 0},
                "prompt_tokens": {"value": 900}, "completion_tokens": {"value": 90}, "unknown_costs": {"value": 0},
                "cost": figure(4.0, 2.0)},
        })
    }

    #[test]
    fn a_table_has_the_share_and_the_change_of_each_row_and_the_sum_below() {
        let data = json!([
            {"team": "search", "requests": 20, "failed": 0, "prompt_tokens": 600, "completion_tokens": 60, "cost": 3.0,
                "share": 0.75, "cost_before": 2.0, "cost_change": 1.0},
            {"team": null, "requests": 10, "failed": 1, "prompt_tokens": 300, "completion_tokens": 30, "cost": 1.0,
                "share": 0.25, "cost_before": 0.0, "cost_change": 1.0},
        ]);
        expect_test::expect![[r#"
            Spend from 2026-11-20 00:00 to 2026-11-22 00:00; before: from 2026-11-18 00:00, as long

            TEAM    REQUESTS  FAILED  TOKENS IN  TOKENS OUT  COST $  SHARE  BEFORE $  CHANGE
            search        20       0        600          60    3.00  75.0%      2.00    +50%
            (none)        10       1        300          30    1.00  25.0%         0     new
            Total         30       1        900          90    4.00             2.00   +100%
        "#]]
        .assert_eq(&spend(&page(&["team"], data), 0));
    }

    #[test]
    fn days_are_columns_beside_names_and_rows_alone() {
        let row = |date: &str, model: &str, cost: f64| {
            json!({"date": date, "model": model, "requests": 5, "failed": 0,
            "prompt_tokens": 1, "completion_tokens": 1, "cost": cost, "share": 0.5})
        };
        let data = json!([
            row("2026-11-21", "acme/small", 1.0),
            row("2026-11-20", "acme/large", 3.0),
            row("2026-11-20", "acme/small", 0.5)
        ]);
        expect_test::expect![[r#"
            Spend from 2026-11-20 01:00 to 2026-11-22 01:00; before: from 2026-11-18 01:00, as long

            MODEL       11-20  11-21  ALL $
            acme/large   3.00      0   3.00
            acme/small  0.500   1.00   1.50
            Total        3.50   1.00   4.50

            Total: $4.00 (+100%), 30 requests (+50%), 1 failed (new)
        "#]]
        .assert_eq(&spend(&page(&["model", "day"], data.clone()), 60));
        let rows = spend(&page(&["day"], data), 0);
        assert!(rows.contains("DAY         REQUESTS") && rows.contains("2026-11-21         5"), "{rows}");
    }

    #[test]
    fn a_change_is_a_sentence_and_its_parts_with_their_sum() {
        let page = json!({
            "summary": "Spend rose by $2.00 (+100 %): $3.00 from more requests, less $1.00 from more cache hits.",
            "parts": [{"cause": "requests", "text": "more requests", "change": 3.0}, {"cause": "caches", "text": "more cache hits", "change": -1.0}],
            "cost": {"value": 4.0, "before": 2.0, "change": 2.0}, "requests": 30, "requests_before": 12,
            "since": "2026-11-20T00:00:00.000Z", "until": "2026-11-22T00:00:00.000Z",
            "before": {"since": "2026-11-18T00:00:00.000Z", "until": "2026-11-20T00:00:00.000Z"},
        });
        expect_test::expect![[r#"
            Spend rose by $2.00 (+100 %): $3.00 from more requests, less $1.00 from more cache hits.

            more requests    +3.00
            more cache hits  -1.00
            Together         +2.00

            From 2026-11-18 00:00 to 2026-11-20 00:00: $2.00, 12 requests. From 2026-11-20 00:00 to 2026-11-22 00:00: $4.00, 30 requests.
        "#]]
        .assert_eq(&change(&page, 0));
    }
}
