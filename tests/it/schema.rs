//! Answers checked against the published OpenAI schemas: types, required keys and enumerations.
//!
//! The fixture holds only the structure of the schemas, under the MIT licence that stands beside it. The checker knows
//! just the keywords that occur there.

use std::{collections::BTreeMap, sync::Mutex};

use regex::Regex;
use serde_json::Value;

/// Fails the test unless `value` fits the schema of that name.
pub(crate) fn conforms(value: &Value, name: &str) {
    let schemas: Value = serde_json::from_str(include_str!("fixtures/openai/chat_schemas.json")).unwrap();
    let schema = schemas["$defs"].get(name).unwrap_or_else(|| panic!("no schema {name}"));
    if let Err(fault) = check(value, schema, &schemas, name) {
        panic!("{fault}\n{value:#}");
    }
}

/// Why `value` does not fit a schema whose references lead into `root`.
pub(crate) fn fault(value: &Value, schema: &Value, root: &Value) -> Option<String> {
    check(value, schema, root, "body").err()
}

fn check(value: &Value, schema: &Value, root: &Value, path: &str) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#')).expect("a dangling reference");
        return check(value, target, root, path);
    }
    if schema["nullable"] == true && value.is_null() {
        return Ok(());
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        check(value, part, root, path)?;
    }
    for keyword in ["oneOf", "anyOf"] {
        let Some(choices) = schema[keyword].as_array() else { continue };
        let faults: Vec<String> = choices.iter().filter_map(|one| check(value, one, root, path).err()).collect();
        if faults.len() == choices.len() {
            return Err(format!("{path}: fits none of: {}", faults.join("; ")));
        }
    }
    if !has_type(value, &schema["type"]) {
        return Err(format!("{path}: {value} is not {}", schema["type"]));
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        return Err(format!("{path}: {value} is not among {}", schema["enum"]));
    }
    for (keyword, is_outside) in [("minimum", f64::lt as fn(&f64, &f64) -> bool), ("maximum", f64::gt)] {
        let pair = value.as_f64().zip(schema[keyword].as_f64());
        if pair.is_some_and(|(value, bound)| is_outside(&value, &bound)) {
            return Err(format!("{path}: {value} is beyond the {keyword} {}", schema[keyword]));
        }
    }
    if value.as_f64().zip(schema["exclusiveMinimum"].as_f64()).is_some_and(|(value, bound)| value <= bound) {
        return Err(format!("{path}: {value} is not above {}", schema["exclusiveMinimum"]));
    }
    let lengths = [
        ("Items", value.as_array().map(Vec::len)),
        ("Length", value.as_str().map(|text| text.chars().count())),
        ("Properties", value.as_object().map(serde_json::Map::len)),
    ];
    for (of, length) in lengths {
        let Some(length) = length.map(|length| length as u64) else { continue };
        let [least, most] = ["min", "max"].map(|end| schema[format!("{end}{of}")].as_u64());
        if least.is_some_and(|least| length < least) || most.is_some_and(|most| length > most) {
            return Err(format!("{path}: {length} is not within {least:?} to {most:?} {of}"));
        }
    }
    if let Some((text, pattern)) = value.as_str().zip(schema["pattern"].as_str())
        && !matches(text, pattern)
    {
        return Err(format!("{path}: {text:?} does not match {pattern}"));
    }
    if schema.get("not").is_some_and(|not| check(value, not, root, path).is_ok()) {
        return Err(format!("{path}: {value} is excluded"));
    }
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.is_object() && value.get(key).is_none() {
            return Err(format!("{path}: {key} is missing"));
        }
    }
    for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(member) = value.get(key) {
            check(member, inner, root, &format!("{path}.{key}"))?;
        }
    }
    if let Some(additional) = schema.get("additionalProperties") {
        let known = |key: &String| schema["properties"].get(key).is_some();
        for (key, inner) in value.as_object().into_iter().flatten().filter(|(key, _)| !known(key)) {
            if *additional == false {
                return Err(format!("{path}: there is no member {key}"));
            }
            check(inner, additional, root, &format!("{path}.{key}"))?;
        }
    }
    for (index, element) in value.as_array().into_iter().flatten().enumerate() {
        check(element, &schema["items"], root, &format!("{path}[{index}]"))?;
    }
    Ok(())
}

/// Patterns are compiled once: every answer of every test is checked.
fn matches(text: &str, pattern: &str) -> bool {
    static COMPILED: Mutex<BTreeMap<String, Regex>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap();
    if !compiled.contains_key(pattern) {
        compiled.insert(pattern.to_owned(), Regex::new(pattern).unwrap());
    }
    compiled[pattern].is_match(text)
}

fn has_type(value: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::Null => true,
        Value::Array(any) => any.iter().any(|one| has_type(value, one)),
        Value::String(name) => match name.as_str() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "null" => value.is_null(),
            other => panic!("unknown type {other}"),
        },
        other => panic!("odd type {other}"),
    }
}
