//! Generates JSON that fits a JSON Schema, with values from the user's text where their types fit.
//!
//! Supports types, enums, required properties, arrays, bounds, local references and alternatives. Ignores all other
//! keywords, such as `pattern`.

use serde_json::{Number, Value, json};

use super::{mentions::Mentions, words};

/// Maximum nesting depth. A schema that refers to itself ends here with null.
const MAX_DEPTH: u32 = 12;

/// Maximum number of elements of an array.
const MAX_ELEMENTS: u64 = 8;

/// Longest text for a `minLength`.
const MAX_TEXT: u64 = 4096;

/// Parts of the names of properties for places.
const PLACE_NAMES: [&str; 11] =
    ["city", "location", "place", "town", "country", "region", "destination", "origin", "area", "where", "address"];

/// A value that fits `schema`.
pub(super) fn fit(schema: &Value, mentions: &Mentions) -> Value {
    let mut writer = Writer { root: schema, mentions, numbers: 0, quoted: 0, places: 0 };
    writer.value(schema, "", 0)
}

/// Whether a property with this name is for a place.
pub(super) fn asks_for_a_place(name: &str) -> bool {
    let name = name.to_lowercase();
    PLACE_NAMES.iter().any(|part| name.contains(part)) || matches!(name.as_str(), "from" | "to")
}

/// Walks a schema. Every number, quotation and place of the text is used once.
struct Writer<'a> {
    root: &'a Value,
    mentions: &'a Mentions,
    numbers: usize,
    quoted: usize,
    places: usize,
}

impl<'a> Writer<'a> {
    fn value(&mut self, schema: &'a Value, name: &str, depth: u32) -> Value {
        if depth >= MAX_DEPTH {
            return Value::Null;
        }
        let field = |key: &str| schema.get(key);
        if let Some(target) = field("$ref").and_then(Value::as_str).and_then(|path| self.referred(path)) {
            return self.value(target, name, depth + 1);
        }
        if let Some(constant) = field("const") {
            return constant.clone();
        }
        if let Some(values) = field("enum").and_then(Value::as_array).filter(|values| !values.is_empty()) {
            let named = values.iter().find(|value| self.is_named(value));
            return named.or(values.first()).cloned().unwrap_or_default();
        }
        let alternatives = ["anyOf", "oneOf", "allOf"].into_iter().find_map(|key| field(key)?.as_array()?.first());
        match (kind(schema), alternatives) {
            (Some(kind), _) => self.typed(kind, schema, name, depth),
            (None, Some(first)) => self.value(first, name, depth + 1),
            (None, None) if field("properties").is_some() => self.object(schema, depth),
            (None, None) => self.text(schema, name),
        }
    }

    fn typed(&mut self, kind: &str, schema: &'a Value, name: &str, depth: u32) -> Value {
        match kind {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, name, depth),
            "integer" | "number" => self.number(schema, kind == "integer"),
            "boolean" => schema.get("default").filter(|value| value.is_boolean()).cloned().unwrap_or(Value::Bool(true)),
            "null" => Value::Null,
            _ => self.text(schema, name),
        }
    }

    /// The required properties, and optional ones whose value is in the text. Without required properties all are filled,
    /// so that the object is not empty.
    fn object(&mut self, schema: &'a Value, depth: u32) -> Value {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return json!({}) };
        let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        // Required properties first, in the order of the list, because JSON objects have no order.
        let first = required.iter().filter_map(|name| properties.get_key_value(name.as_str()?));
        let wanted = |property| required.is_empty() || self.names_one_of(property);
        let others = properties
            .iter()
            .filter(|(name, property)| !required.iter().any(|known| known.as_str() == Some(name)) && wanted(property));
        let order: Vec<(&'a String, &'a Value)> = first.chain(others).collect();
        let fill = |(name, property): (&'a String, &'a Value)| (name.clone(), self.value(property, name, depth + 1));
        Value::Object(order.into_iter().map(fill).collect())
    }

    fn array(&mut self, schema: &'a Value, name: &str, depth: u32) -> Value {
        let bound = |key: &str| schema.get(key).and_then(Value::as_u64);
        let most = bound("maxItems").unwrap_or(MAX_ELEMENTS).min(MAX_ELEMENTS);
        let Some(items) = schema.get("items").filter(|items| items.is_object()) else { return json!([]) };
        let offered = match kind(items) {
            Some("integer" | "number") => self.mentions.numbers.len().saturating_sub(self.numbers),
            Some("string") if asks_for_a_place(name) => self.mentions.places.len().saturating_sub(self.places),
            Some("string") => self.mentions.quoted.len().saturating_sub(self.quoted),
            _ => 1,
        };
        let count = (offered as u64).max(bound("minItems").unwrap_or(1)).min(most);
        (0..count).map(|_| self.value(items, name, depth + 1)).collect()
    }

    fn number(&mut self, schema: &Value, whole: bool) -> Value {
        let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
        let step = if whole { 1.0 } else { f64::EPSILON };
        let least = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|least| least + step));
        let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|most| most - step));
        let mentioned = self.mentions.numbers.get(self.numbers).copied();
        self.numbers += usize::from(mentioned.is_some());
        let value = mentioned.or_else(|| bound("default")).unwrap_or(1.0);
        let value = value.max(least.unwrap_or(f64::MIN)).min(most.unwrap_or(f64::MAX));
        if whole || value.fract() == 0.0 && value.abs() < 1e15 {
            return Value::from(if least.is_some_and(|least| value.floor() < least) {
                value.ceil()
            } else {
                value.floor()
            } as i64);
        }
        Number::from_f64(value).map_or(Value::from(1), Value::Number)
    }

    fn text(&mut self, schema: &Value, name: &str) -> Value {
        let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
        let text = self.by_shape(format, name).or_else(|| self.by_place(name)).or_else(|| self.next_quoted());
        let default = || schema.get("default").and_then(Value::as_str).map(str::to_owned);
        let text = text.or_else(default).unwrap_or_else(|| self.anything());
        Value::String(sized(text, schema))
    }

    /// A text for the format, or for the name of the property.
    fn by_shape(&self, format: &str, name: &str) -> Option<String> {
        let name = name.to_lowercase();
        let first = |found: &[String], otherwise: &str| found.first().map_or(otherwise, String::as_str).to_owned();
        match format {
            "date" => Some(first(&self.mentions.dates, "2026-01-01")),
            "date-time" => Some(first(&self.mentions.dates, "2026-01-01") + "T00:00:00Z"),
            "time" => Some("12:00:00Z".to_owned()),
            "email" => Some(first(&self.mentions.emails, "someone@example.org")),
            "uri" | "url" => Some(first(&self.mentions.urls, "https://example.org/")),
            "uuid" => Some("00000000-0000-4000-8000-000000000000".to_owned()),
            _ if name.contains("date") => self.mentions.dates.first().cloned(),
            _ if name.contains("mail") => self.mentions.emails.first().cloned(),
            _ if name.contains("url") || name.contains("link") => self.mentions.urls.first().cloned(),
            _ => None,
        }
    }

    fn by_place(&mut self, name: &str) -> Option<String> {
        let place = asks_for_a_place(name).then(|| self.mentions.places.get(self.places))??;
        self.places += 1;
        Some(place.clone())
    }

    fn next_quoted(&mut self) -> Option<String> {
        let quoted = self.mentions.quoted.get(self.quoted)?;
        self.quoted += 1;
        Some(quoted.clone())
    }

    /// The user's text, shortened.
    fn anything(&self) -> String {
        let hint = words::hint(&self.mentions.text);
        if hint.is_empty() { "simulated".to_owned() } else { hint }
    }

    fn is_named(&self, value: &Value) -> bool {
        value.as_str().is_some_and(|text| self.mentions.names(text))
    }

    fn names_one_of(&self, property: &Value) -> bool {
        property.get("enum").and_then(Value::as_array).is_some_and(|values| values.iter().any(|v| self.is_named(v)))
    }

    fn referred(&self, path: &str) -> Option<&'a Value> {
        self.root.pointer(path.strip_prefix('#')?)
    }
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
        assert_eq!(fit(&schema, &Mentions::of(text)), expected, "{text}: {schema}");
    }

    fn object(properties: Value, required: &[&str]) -> Value {
        json!({ "type": "object", "properties": properties, "required": required })
    }

    #[test]
    fn values_of_the_text_are_used_where_their_types_fit() {
        let units = json!({ "type": "string", "enum": ["celsius", "fahrenheit"] });
        let weather = || object(json!({ "city": { "type": "string" }, "unit": units }), &["city"]);
        check("weather in Paris?", weather(), json!({ "city": "Paris" }));
        check("weather in Paris in Fahrenheit?", weather(), json!({ "city": "Paris", "unit": "fahrenheit" }));

        let add = object(json!({ "a": { "type": "number" }, "b": { "type": "integer" } }), &["a", "b"]);
        check("add 2.5 and 40", add.clone(), json!({ "a": 2.5, "b": 40 }));
        check("add them", add, json!({ "a": 1, "b": 1 }));

        let text = json!({ "type": "string" });
        let trip = json!({ "destination": text, "origin": text, "date": text });
        let expected = json!({ "origin": "Oslo", "destination": "Bergen", "date": "2026-03-01" });
        check("from Oslo to Bergen on 2026-03-01", object(trip, &["origin", "destination", "date"]), expected);

        let mail = json!({ "address": { "type": "string", "format": "email" }, "subject": { "type": "string" } });
        let expected = json!({ "address": "ada@example.org", "subject": "lunch" });
        check("Mail ada@example.org about \"lunch\"", object(mail, &["address", "subject"]), expected);
    }

    #[test]
    fn every_kind_of_schema_gets_a_fitting_value() {
        check("hi", json!({ "const": 7 }), json!(7));
        check("hi", json!({ "enum": ["x", "y"] }), json!("x"));
        check("hi", json!({ "type": ["null", "boolean"] }), json!(true));
        check("hi", json!({ "type": "integer", "minimum": 5 }), json!(5));
        check("take 99", json!({ "type": "integer", "exclusiveMaximum": 10 }), json!(9));
        check("sum 1 2 3", json!({ "type": "array", "items": { "type": "integer" } }), json!([1, 2, 3]));
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
        let value = fit(&schema, &Mentions::default());
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
            let properties = prop::collection::btree_map("[a-z]{1,6}|city|date|url", inner.clone(), 0..4);
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
            let value = fit(&schema, &Mentions::of(&text));
            prop_assert!(fits(&value, &schema), "{} for {}", value, schema);
        }
    }
}
