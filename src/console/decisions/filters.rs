//! The filters of the list of decisions: the parameters of its address, and the form that sets them.

use actix_web::web;
use chrono::{DateTime, Duration, SecondsFormat, Utc};
use maud::{Markup, html};
use pointsman_base::clock;
use pointsman_dialect::percent;
use pointsman_domain::{FailureKind, Objective, Task};

use super::super::{form::any_of, format, words};

/// Filters that are either on or absent.
const EVENTS: [&str; 5] = ["rescued", "hedged", "explored", "missed_target", "slower_than_predicted"];
/// Statuses of ended generations.
const STATUSES: [&str; 3] = ["completed", "failed", "cancelled"];
/// Filters that stand behind a click.
const FURTHER: [&str; 9] = ["objective", "alias", "cause", "account", "team", "min_ttft_ms", "min_cost", "q", "owner"];
/// Parameters that are no filters: the place in the list and how it is shown.
const PLACES: [&str; 4] = ["after", "limit", "offset", "sums"];
/// Times that begin this long ago, hours.
const PRESETS: [(&str, i64); 4] = [("last hour", 1), ("24 hours", 24), ("7 days", 24 * 7), ("30 days", 24 * 30)];

/// The parameters of the address that have a value, in their order.
pub(in crate::console) struct Filters(Vec<(String, String)>);

impl Filters {
    pub(in crate::console) fn parse(query: &str) -> Filters {
        let pairs = web::Query::<Vec<(String, String)>>::from_query(query).map(web::Query::into_inner);
        let pairs = pairs.unwrap_or_default().into_iter().map(|(name, value)| (name, value.trim().to_owned()));
        let pairs = pairs.map(|(name, value)| (name, with_zone(value)));
        Filters(pairs.filter(|(_, value)| !value.is_empty()).collect())
    }

    pub(in crate::console) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rfind(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The query string of the parameters that `keeps` names, with its question mark.
    pub(in crate::console) fn query(&self, keeps: impl Fn(&str) -> bool) -> String {
        let kept = self.0.iter().filter(|(name, _)| keeps(name));
        let pairs: Vec<String> =
            kept.map(|(name, value)| format!("{}={}", percent::encoded(name), percent::encoded(value))).collect();
        if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
    }

    /// The query string with this filter in place of another of its name, from the first page on.
    pub(in crate::console) fn with(&self, name: &str, value: &str) -> String {
        let kept = self.query(|other| other != name && !PLACES.contains(&other));
        let sign = if kept.is_empty() { "?" } else { "&" };
        format!("{kept}{sign}{name}={}", percent::encoded(value))
    }

    /// The query string of the page that begins at `cursor`.
    pub(in crate::console) fn page_at(&self, cursor: Option<&str>) -> String {
        let query = self.query(|name| !["after", "sums"].contains(&name));
        match cursor {
            None => query,
            Some(cursor) if query.is_empty() => format!("?after={}", percent::encoded(cursor)),
            Some(cursor) => format!("{query}&after={}", percent::encoded(cursor)),
        }
    }

    pub(in crate::console) fn is_filtered(&self) -> bool {
        self.0.iter().any(|(name, _)| !PLACES.contains(&name.as_str()))
    }
}

/// A time as browsers write one is in UTC here, and says so.
fn with_zone(value: String) -> String {
    let is_local = value.len() == 16 && value.as_bytes().get(10) == Some(&b'T');
    if is_local { format!("{value}:00Z") } else { value }
}

/// Links to the decisions since some time.
pub(in crate::console) fn presets(filters: &Filters) -> Markup {
    let now = DateTime::from_timestamp_millis(clock::unix_millis()).unwrap_or_default();
    let since = |hours: i64| (now - Duration::hours(hours)).to_rfc3339_opts(SecondsFormat::Secs, true);
    let today = format!("{}", now.format("%Y-%m-%d"));
    let month = format!("{}", now.format("%Y-%m-01"));
    let kept = filters.query(|name| !["since", "until", "after", "sums"].contains(&name));
    let base = Filters::parse(kept.trim_start_matches('?'));
    html! {
        nav.presets aria-label="Times" {
            @for (label, hours) in PRESETS { a href={ "decisions" (base.with("since", &since(hours))) } { (label) } }
            a href={ "decisions" (base.with("since", &today)) } { "today" }
            a href={ "decisions" (base.with("since", &month)) } { "this month" }
            @if filters.get("since").or(filters.get("until")).is_some() { a href={ "decisions" (kept) } { "any time" } }
        }
    }
}

/// The form.
pub(in crate::console) fn form(filters: &Filters, keys: &[&str]) -> Markup {
    let text = |name: &'static str, label: &str, hint: &str, size: u32| {
        html! {
            label { span { (label) } input name=(name) value=[filters.get(name)] placeholder=(hint) size=(size) autocomplete="off"; }
        }
    };
    let choice =
        |name: &str, label: &str, options: &[&str]| any_of(name, label, filters.get(name), options, words::spaced);
    html! {
        form.filters method="get" action="decisions" role="search" {
            (text("model", "Model", "author/name", 18))
            (text("provider", "Provider", "slug", 10))
            (choice("status", "Status", &STATUSES))
            (any_of("key", "Key", filters.get("key"), keys, str::to_owned))
            (time("since", "Since", filters))
            (time("until", "Before", filters))
            fieldset {
                legend { "Only" }
                @for event in EVENTS {
                    label.check { input type="checkbox" name=(event) value="true" checked[filters.get(event) == Some("true")]; (words::spaced(event)) }
                }
            }
            details.further open[FURTHER.iter().any(|name| filters.get(name).is_some())] {
                summary { "More filters" }
                div.filters {
                    (choice("objective", "Objective", &Objective::ALL.map(Objective::as_str)))
                    (text("alias", "Alias", "service/auto", 14))
                    (choice("task", "Task", &Task::ALL.map(Task::as_str)))
                    (choice("cause", "Failed of", &FailureKind::ALL.map(FailureKind::as_str)))
                    (text("account", "Account", "name", 12))
                    (text("team", "Team", "name", 10))
                    (text("min_ttft_ms", "First token ≥ ms", "800", 7))
                    (text("min_cost", "Cost ≥ $", "0.01", 7))
                    (text("q", "Name has", "part of a model or provider", 18))
                    @if let Some(owner) = filters.get("owner") { input type="hidden" name="owner" value=(owner); }
                }
            }
            (text("id", "Or one id", "gen-…", 22))
            div.act {
                button.primary type="submit" { "Show" }
                @if filters.is_filtered() { a.button href="decisions" { "Clear" } }
            }
        }
    }
}

/// A time that a browser can set; one of another form stays as it is.
pub(in crate::console) fn time(name: &str, label: &str, filters: &Filters) -> Markup {
    let value = filters.get(name);
    let time = value.and_then(|value| match value.len() {
        10 => DateTime::parse_from_rfc3339(&format!("{value}T00:00:00Z")).ok(),
        _ if value.bytes().all(|byte| byte.is_ascii_digit()) => {
            DateTime::from_timestamp_millis(value.parse().ok()?).map(|time| time.fixed_offset())
        }
        _ => DateTime::parse_from_rfc3339(value).ok(),
    });
    let minutes = time.map(|time| time.with_timezone(&Utc).format("%Y-%m-%dT%H:%M").to_string());
    html! {
        label {
            span { (label) ", " (format::zone()) }
            @if value.is_some() && minutes.is_none() { input name=(name) value=[value] size="15" autocomplete="off"; }
            @else { input type="datetime-local" name=(name) value=[minutes] data-utc autocomplete="off"; }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_survive_in_the_links_of_pages_and_the_cursor_is_replaced() {
        let filters = Filters::parse("model=a%2Fb+c&status=&after=old&rescued=true");
        assert_eq!(filters.page_at(Some("x=1")), "?model=a%2Fb%20c&rescued=true&after=x%3D1");
        assert_eq!(filters.page_at(None), "?model=a%2Fb%20c&rescued=true");
        assert_eq!(Filters::parse("after=old").page_at(None), "");
        assert!(filters.is_filtered() && !Filters::parse("after=x&status=").is_filtered());
    }

    #[test]
    fn a_cell_adds_its_filter_to_the_others_and_begins_at_the_newest() {
        let filters = Filters::parse("model=a&status=failed&after=old&sums=true");
        assert_eq!(filters.with("status", "completed"), "?model=a&status=completed");
        assert_eq!(Filters::parse("").with("key", "a b"), "?key=a%20b");
    }

    #[test]
    fn a_time_of_a_browser_is_in_utc_and_other_forms_stay() {
        let filters = Filters::parse("since=2026-11-23T06:00&until=2026-11-24");
        assert_eq!((filters.get("since"), filters.get("until")), (Some("2026-11-23T06:00:00Z"), Some("2026-11-24")));
        let shown = time("since", "Since", &filters).into_string();
        assert!(shown.contains("value=\"2026-11-23T06:00\""), "{shown}");
        let odd = Filters::parse("since=yesterday");
        assert!(time("since", "Since", &odd).into_string().contains("value=\"yesterday\""));
    }
}
