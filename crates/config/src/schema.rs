//! JSON Schema of the configuration file, for editors: made from the reference.
//!
//! It knows the keys, their types, words and ranges. What several keys mean together only the reading of a configuration
//! knows (`pointsman check`).

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use super::{described::Key, reference::REFERENCE, tree::Value};

/// `humantime`'s durations: numbers, each with its unit.
const DURATION: &str = r"^\s*(0|([0-9.]+\s*[A-Za-z]+\s*)+)$";
const SIZE: &str = r"^\s*[0-9]+\s*(B|[kK]B|KiB|MB|MiB|GB|GiB)?\s*$";
/// Required keys that an entry need not have when it changes an entry of the built-in catalogue.
const IN_CATALOGUE: [&str; 2] = ["base_url", "upstream_model"];
/// Prices and scores of endpoints are described at their models.
const PRICED: &str = "models[].endpoints[]";
const PRICES: [&str; 4] = ["pricing", "usd_per_million", "usd_each", "quality"];

/// The schema, as text.
pub fn schema() -> String {
    let mut root = table("");
    root.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    root.insert("title".to_owned(), json!("Configuration of Pointsman"));
    format!("{:#}\n", Json::Object(root))
}

/// The table at a path of the reference: its keys and the tables below it.
fn table(path: &str) -> Map<String, Json> {
    let section = REFERENCE.at(path);
    let mut schema = Map::from_iter([("type".to_owned(), json!("object"))]);
    schema.extend(section.map(|section| ("description".to_owned(), json!(section.about))));
    let mut properties = Map::new();
    let mut others = json!(false);
    for below in below(path) {
        let inner = join(path, below);
        match below.strip_suffix("[]") {
            _ if below == "*" => others = Json::Object(table(&inner)),
            Some(list) => {
                properties.insert(list.to_owned(), json!({ "type": "array", "items": table(&inner) }));
            }
            None => {
                properties.insert(below.to_owned(), prices_or(below, &inner));
            }
        }
    }
    if path == PRICED {
        properties.extend(PRICES.map(|key| (key.to_owned(), prices_or(key, &format!("models[].{key}")))));
    }
    for key in section.into_iter().flat_map(|section| &section.keys) {
        properties.insert(key.name.clone(), described(key));
    }
    let is_required = |key: &&Key| key.absent == "required" && !IN_CATALOGUE.contains(&key.name.as_str());
    let keys = section.into_iter().flat_map(|section| &section.keys);
    let required: Vec<&str> = keys.filter(is_required).map(|key| key.name.as_str()).collect();
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema.insert("properties".to_owned(), Json::Object(properties));
    schema.insert("additionalProperties".to_owned(), others);
    schema
}

/// The table, or the word that may stand instead of prices.
fn prices_or(key: &str, path: &str) -> Json {
    let table = table(path);
    if key == "pricing" { json!({ "anyOf": [table, { "enum": ["unknown"] }] }) } else { Json::Object(table) }
}

fn described(key: &Key) -> Json {
    let mut schema = typed(key.kind(), &key.range);
    schema.insert("description".to_owned(), json!(key.about));
    schema.extend(key.default().map(|default| ("default".to_owned(), value(&default))));
    Json::Object(schema)
}

/// A type of the reference, with its range or words.
fn typed(kind: &str, allowed: &str) -> Map<String, Json> {
    let schema = match kind {
        "true or false" => json!({ "type": "boolean" }),
        "whole number" => bounded("integer", allowed),
        "number" => bounded("number", allowed),
        "duration" => json!({ "type": "string", "pattern": DURATION }),
        "size" => json!({ "type": ["integer", "string"], "minimum": 0, "pattern": SIZE }),
        "word" => json!({ "enum": words(allowed) }),
        "list of strings" => {
            let most = allowed.strip_prefix("at most ").and_then(|most| most.parse::<u64>().ok());
            json!({ "type": "array", "items": { "type": "string" }, "maxItems": most })
        }
        "table of strings" => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        "table" => json!({ "type": "object" }),
        "number or table" => json!({ "type": ["number", "object"] }),
        "date or Unix seconds" => json!({ "type": ["string", "integer"] }),
        "" => json!({}),
        // Dates too: in JSON they are strings.
        _ => json!({ "type": "string" }),
    };
    let members = schema.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    members.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// A number of a range such as `1 to 100`.
fn bounded(kind: &str, range: &str) -> Json {
    let bound = |text: &str| serde_json::from_str::<Json>(text.trim()).ok().filter(Json::is_number);
    let (least, most) = range.split_once(" to ").unwrap_or_default();
    json!({ "type": kind, "minimum": bound(least), "maximum": bound(most) })
}

/// `"a", "b"`.
fn words(allowed: &str) -> Vec<&str> {
    allowed.split(", ").map(|word| word.trim_matches('"')).collect()
}

/// The first names below a path: those of its tables, not of its keys.
fn below(path: &str) -> BTreeSet<&'static str> {
    let prefix = join(path, "");
    let tables = REFERENCE.sections.iter().map(|section| section.path.as_str());
    let inner = tables.filter_map(|table| table.strip_prefix(prefix.as_str()));
    inner.filter_map(|rest| rest.split('.').next()).filter(|name| !name.is_empty()).collect()
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// A default as JSON.
fn value(of: &Value) -> Json {
    match of {
        Value::Text(text) => json!(text),
        Value::Integer(number) => json!(number),
        Value::Huge => Json::Null,
        Value::Number(number) => json!(number),
        Value::Flag(flag) => json!(flag),
        Value::Date(date) => json!(date.to_string()),
        Value::List(items) => items.iter().map(|item| value(&item.value)).collect(),
        Value::Table(table) => {
            table.entries.iter().map(|entry| (entry.key.clone(), value(&entry.node.value))).collect()
        }
    }
}
