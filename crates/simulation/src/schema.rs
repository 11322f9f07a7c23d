//! Generates JSON that fits a JSON Schema. Texts are those of the user, everything else is the simplest value that fits.
//!
//! Supports types, enums, required properties, arrays, bounds, local references and alternatives. Ignores all other
//! keywords, such as `pattern`.

use serde_json::{Number, Value, json};

use super::words;

/// Maximum nesting depth. A schema that refers to itself ends here with null.
const MAX_DEPTH: u32 = 12;

/// Maximum number of elements of an array.
const MAX_ELEMENTS: u64 = 8;

/// Longest text for a `minLength`.
const MAX_TEXT: u64 = 4096;

/// The date of values that are dates.
const DATE: &str = "2026-01-01";

/// A value that fits `schema`, whose texts are `text`.
pub(super) fn fit(schema: &Value, text: &str) -> Value {
    Writer { root: schema, text: words::hint(text) }.value(schema, 0)
}

/// Walks a schema.
struct Writer<'a> {
    root: &'a Value,
    text: String,
}

impl<'a> Writer<'a> {
    fn value(&self, schema: &'a Value, depth: u32) -> Value {
        if depth >= MAX_DEPTH {
            return Value::Null;
        }
        let field = |key: &str| schema.get(key);
        if let Some(target) = field("$ref").and_then(Value::as_str).and_then(|path| self.referred(path)) {
            return self.value(target, depth + 1);
        }
        if let Some(constant) = field("const") {
            return constant.clone();
        }
        if let Some(values) = field("enum").and_then(Value::as_array).filter(|values| !values.is_empty()) {
            return values.first().cloned().unwrap_or_default();
        }
        let alternatives = ["anyOf", "oneOf", "allOf"].into_iter().find_map(|key| field(key)?.as_array()?.first());
        match (kind(schema), alternatives) {
            (Some(kind), _) => self.typed(kind, schema, depth),
            (None, Some(first)) => self.value(first, depth + 1),
            (None, None) if field("properties").is_some() => self.object(schema, depth),
            (None, None) => self.text(schema),
        }
    }

    fn typed(&self, kind: &str, schema: &'a Value, depth: u32) -> Value {
        match kind {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, depth),
            "integer" | "number" => number(schema, kind == "integer"),
            "boolean" => schema.get("default").filter(|value| value.is_boolean()).cloned().unwrap_or(Value::Bool(true)),
            "null" => Value::Null,
            _ => self.text(schema),
        }
    }

    /// The required properties, else all, so that the object is not empty.
    fn object(&self, schema: &'a Value, depth: u32) -> Value {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return json!({}) };
        let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let fill = |(name, property): (&String, &'a Value)| (name.clone(), self.value(property, depth + 1));
        if required.is_empty() {
            return Value::Object(properties.iter().map(fill).collect());
        }
        // In the order of the list, because JSON objects have no order.
        let named = required.iter().filter_map(|name| properties.get_key_value(name.as_str()?));
        Value::Object(named.map(fill).collect())
    }

    fn array(&self, schema: &'a Value, depth: u32) -> Value {
        let bound = |key: &str| schema.get(key).and_then(Value::as_u64);
        let most = bound("maxItems").unwrap_or(MAX_ELEMENTS).min(MAX_ELEMENTS);
        let Some(items) = schema.get("items").filter(|items| items.is_object()) else { return json!([]) };
        let count = bound("minItems").unwrap_or(1).max(1).min(most);
        (0..count).map(|_| self.value(items, depth + 1)).collect()
    }

    fn text(&self, schema: &Value) -> Value {
        let default = || schema.get("default").and_then(Value::as_str);
        let text = match schema.get("format").and_then(Value::as_str).unwrap_or_default() {
            "date" => DATE.to_owned(),
            "date-time" => format!("{DATE}T00:00:00Z"),
            "time" => "12:00:00Z".to_owned(),
            "email" => "someone@example.org".to_owned(),
            "uri" | "url" => "https://example.org/".to_owned(),
            "uuid" => "00000000-0000-4000-8000-000000000000".to_owned(),
            _ if self.text.is_empty() => default().unwrap_or("simulated").to_owned(),
            _ => default().unwrap_or(&self.text).to_owned(),
        };
        Value::String(sized(text, schema))
    }

    fn referred(&self, path: &str) -> Option<&'a Value> {
        self.root.pointer(path.strip_prefix('#')?)
    }
}

/// The default, or the number nearest to 1 that is allowed.
fn number(schema: &Value, whole: bool) -> Value {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let step = if whole { 1.0 } else { f64::EPSILON };
    let least = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|least| least + step));
    let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|most| most - step));
    let value = bound("default").unwrap_or(1.0).max(least.unwrap_or(f64::MIN)).min(most.unwrap_or(f64::MAX));
    if whole || value.fract() == 0.0 && value.abs() < 1e15 {
        let is_below = least.is_some_and(|least| value.floor() < least);
        return Value::from(if is_below { value.ceil() } else { value.floor() } as i64);
    }
    Number::from_f64(value).map_or(Value::from(1), Value::Number)
}

/// The type of a schema; of several types the first that is not null.
fn kind(schema: &Value) -> Option<&str> {
    match schema.get("type")? {
        Value::String(kind) => Some(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        _ => None,
    }
}

/// `text`, truncated or padded to the allowed length.
fn sized(text: String, schema: &Value) -> String {
    let bound = |key: &str| schema.get(key).and_then(Value::as_u64);
    let most = bound("maxLength").map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
    let least = bound("minLength").unwrap_or(0).min(MAX_TEXT) as usize;
    let missing = least.saturating_sub(text.chars().count());
    text.chars().chain(std::iter::repeat_n('.', missing)).take(most).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, schema: Value, expected: Value) {
        assert_eq!(fit(&schema, text), expected, "{text}: {schema}");
    }

    #[test]
    fn every_kind_of_schema_gets_a_fitting_value() {
        check("hi", json!({ "const": 7 }), json!(7));
        check("hi", json!({ "enum": ["x", "y"] }), json!("x"));
        check("hi", json!({ "type": ["null", "boolean"] }), json!(true));
        check("hi", json!({ "type": "integer", "minimum": 5 }), json!(5));
        check("hi", json!({ "type": "integer", "exclusiveMaximum": 1 }), json!(0));
        check("hi", json!({ "type": "number", "default": 2.5 }), json!(2.5));
        check("hi", json!({ "type": "string", "format": "date" }), json!("2026-01-01"));
        check("hi", json!({ "type": "array", "items": { "type": "integer" } }), json!([1]));
        let optional = json!({ "a": { "type": "string" }, "b": { "type": "integer" } });
        check("hi", json!({ "type": "object", "properties": optional, "required": ["b"] }), json!({ "b": 1 }));
        check("hi", json!({ "type": "array", "items": { "type": "boolean" }, "minItems": 2 }), json!([true, true]));
        check("hi", json!({ "type": "string", "minLength": 4 }), json!("hi.."));
        check("hello", json!({ "type": "string", "maxLength": 2 }), json!("he"));
        check("hi", json!({ "anyOf": [{ "type": "null" }, { "type": "string" }] }), json!(null));
        check("hi", json!({ "$ref": "#/$defs/n", "$defs": { "n": { "type": "integer" } } }), json!(1));
        check("hi", json!({ "properties": { "a": { "type": "string" } } }), json!({ "a": "hi" }));
        check("", json!({ "type": "string" }), json!("simulated"));
        check("hi", json!(true), json!("hi"));
    }

    #[test]
    fn a_schema_that_refers_to_itself_comes_to_an_end() {
        let schema = json!({ "type": "object", "properties": { "child": { "$ref": "#" } }, "required": ["child"] });
        let value = fit(&schema, "");
        assert!(value.get("child").is_some(), "{value}");
    }

    /// Whether `value` has the types and required properties of `schema`.
    fn fits(value: &Value, schema: &Value) -> bool {
        match kind(schema) {
            Some("object") => schema["required"].as_array().unwrap().iter().all(|name| {
                let name = name.as_str().unwrap();
                value.get(name).is_some_and(|inner| fits(inner, &schema["properties"][name]))
            }),
            Some("array") => value.as_array().is_some_and(|items| items.iter().all(|v| fits(v, &schema["items"]))),
            Some("integer") => value.is_i64(),
            Some("number") => value.is_number(),
            Some("boolean") => value.is_boolean(),
            _ => value.is_string(),
        }
    }

    fn any_schema() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just("string"), Just("integer"), Just("number"), Just("boolean")]
            .prop_map(|kind| json!({ "type": kind }));
        leaf.prop_recursive(3, 24, 4, |inner| {
            let properties = prop::collection::btree_map("[a-z]{1,6}", inner.clone(), 0..4);
            prop_oneof![
                inner.prop_map(|items| json!({ "type": "array", "items": items })),
                properties.prop_map(|properties| {
                    let required: Vec<&String> = properties.keys().collect();
                    json!({ "type": "object", "properties": properties, "required": required })
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_is_asked_for_and_written_the_value_fits(schema in any_schema(), text in "\\PC{0,60}") {
            let value = fit(&schema, &text);
            prop_assert!(fits(&value, &schema), "{} for {}", value, schema);
        }
    }
}
