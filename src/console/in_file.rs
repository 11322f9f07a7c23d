//! Lines of the configuration that would change what stands there: the console edits no file.

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::{form::to_copy, format};
use crate::{api::admin::config::ConfigBody, state::gateway::Worker};

/// Members of the API whose key in the configuration has another name.
const OTHER_NAMES: [(&str, &str); 2] = [("limit", "spend_limit"), ("limit_reset", "spend_reset")];

/// Where the entry of this name begins in the file; `None` if it is in no file.
pub(super) fn place(worker: &Worker, table: &str, name: &str) -> Option<String> {
    let prefix = format!("{table}[{}].", quoted(name));
    let settings = ConfigBody::now(worker).settings;
    let first = settings.into_iter().find(|setting| setting.key.starts_with(&prefix))?;
    match (first.file, first.line, first.variable) {
        (Some(file), Some(line), _) => Some(format!("{file}:{line}")),
        (_, _, variable) => variable,
    }
}

/// Where the entry stands, and that it is changed there.
pub(super) fn note(place: Option<&str>) -> Markup {
    html! {
        p.note {
            "It is in the configuration"
            @if let Some(place) = place { ", at " code { (format::name(place, 120)) } }
            ", which the console does not edit. Enter what it should be, and get the lines for the file."
        }
    }
}

/// The lines that make `changes` of the entry of this name.
pub(super) fn lines(table: &str, name: &str, changes: &Map<String, Value>) -> String {
    let mut lines = format!("[[{table}]]\nname = {}\n", quoted(name));
    for (member, value) in changes {
        let key = OTHER_NAMES.iter().find(|(of_api, _)| of_api == member).map_or(member.as_str(), |(_, key)| key);
        lines.push_str(&line(key, value));
    }
    lines
}

fn line(key: &str, value: &Value) -> String {
    match value {
        Value::Null if key == "spend_reset" => "spend_reset = \"never\"\n".to_owned(),
        Value::Null => format!("# remove the line '{key}'\n"),
        Value::String(text) => format!("{key} = {}\n", quoted(text)),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| quoted(item.as_str().unwrap_or_default())).collect();
            format!("{key} = [{}]\n", items.join(", "))
        }
        other => format!("{key} = {other}\n"),
    }
}

/// The lines as a part of a page.
pub(super) fn section(table: &str, name: &str, changes: &Map<String, Value>) -> Markup {
    html! {
        section #lines {
            h2 { "Lines for the file" }
            @if changes.is_empty() {
                p.muted { "Nothing differs from what is in force." }
            } @else {
                p { "Set these in the entry of this name, where its other lines stay as they are. The file is read again within seconds if it is watched, or with " code { "pointsman reload" } "." }
                (to_copy(&lines(table, name, changes)))
            }
        }
    }
}

/// The text as TOML writes it.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_become_lines_that_the_configuration_reads() {
        let changes = json!({
            "limit": "5", "limit_reset": null, "concurrency": 4, "requests_per_minute": null, "scopes": ["read", "a\"b"],
        });
        let text = lines("keys", "team \"x\"\n", changes.as_object().unwrap());
        let table: toml::Table = toml::from_str(&text).unwrap();
        let entry = &table["keys"][0];
        assert_eq!(entry["name"].as_str(), Some("team \"x\"\n"));
        assert_eq!((entry["spend_limit"].as_str(), entry["spend_reset"].as_str()), (Some("5"), Some("never")));
        assert_eq!((entry["concurrency"].as_integer(), entry["scopes"][1].as_str()), (Some(4), Some("a\"b")));
        assert!(text.contains("# remove the line 'requests_per_minute'"), "{text}");
    }
}
