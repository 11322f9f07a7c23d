//! Where a JSON value breaks a JSON schema, for schemas of the usual keywords.
//!
//! A schema with any other keyword has no verdict, wherever in it that stands: what the keyword means is not known here.
//! A description of a place holds names and numbers of the schema, and positions in lists, nothing else of the value.

use std::{
    cell::Cell,
    fmt::{Display, Write as _},
};

use serde_json::{Map, Number, Value};

/// Keywords that restrict nothing.
const ANNOTATIONS: [&str; 10] = [
    "$schema",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
];
/// Keywords with a table of named schemas that restrict nothing by themselves.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];
const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];
/// Comparisons for all answers of a call, after which there is no verdict: alternatives of alternatives can need any number. A few
/// tens of milliseconds.
pub(super) const MOST_STEPS: usize = 500_000;
/// Bytes of a text that are counted in one step.
const BYTES_OF_A_STEP: usize = 16;
/// Nesting of schemas within each other, with what they refer to. Values are nested at most 128 deep.
const MOST_DEEP: u32 = 200;
/// Longest description of a place, in characters.
const MOST_CHARACTERS: usize = 120;

/// The first place where `value` breaks `schema`, and what is expected there: `/items/3/price (number expected)`. `None` if it
/// follows the schema, or if there is no verdict. `steps` are those that are left.
pub(super) fn violation(schema: &str, value: &str, steps: &Cell<usize>) -> Option<String> {
    take(steps, steps_of(schema) + steps_of(value))?;
    let schema: Value = serde_json::from_str(schema).ok()?;
    let value: Value = serde_json::from_str(value).ok()?;
    if !is_known(&schema) {
        return None;
    }
    match Checker::new(&schema, steps).value(&schema, &value) {
        Err(Stop::Broken(place)) => Some(place),
        Ok(()) | Err(Stop::NoVerdict) => None,
    }
}

/// Whether every keyword is known, and of the form that is known.
fn is_known(schema: &Value) -> bool {
    match schema {
        Value::Bool(_) => true,
        Value::Object(keywords) => keywords.iter().all(|(name, value)| is_known_keyword(keywords, name, value)),
        _ => false,
    }
}

fn is_known_keyword(keywords: &Map<String, Value>, name: &str, value: &Value) -> bool {
    let all_known = |table: &Map<String, Value>| table.values().all(is_known);
    match name {
        "properties" => value.as_object().is_some_and(all_known),
        _ if DEFINITIONS.contains(&name) => value.as_object().is_some_and(all_known),
        "items" | "additionalProperties" => is_known(value),
        "anyOf" | "allOf" | "oneOf" => {
            value.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(is_known))
        }
        "type" => {
            types(value).all(|name| name.is_some_and(|name| TYPES.contains(&name)))
                && (1..=TYPES.len()).contains(&types(value).count())
        }
        "enum" => value.as_array().is_some_and(|list| !list.is_empty()),
        "required" => value.as_array().is_some_and(|names| names.iter().all(Value::is_string)),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minimum" | "maximum" | "exclusiveMinimum"
        | "exclusiveMaximum" => value.is_number(),
        // Older drafts ignore what stands beside it.
        "$ref" => {
            let is_silent =
                |name: &String| name == "$ref" || ANNOTATIONS.contains(&&**name) || DEFINITIONS.contains(&&**name);
            value.as_str().is_some_and(is_local) && keywords.keys().all(is_silent)
        }
        _ => name == "const" || ANNOTATIONS.contains(&name),
    }
}

/// Whether it refers to the whole schema or to a definition at its top.
fn is_local(reference: &str) -> bool {
    let of_definition = |table: &str| {
        let name = reference.strip_prefix("#/")?.strip_prefix(table)?.strip_prefix('/')?;
        Some(!name.contains('/'))
    };
    reference == "#" || DEFINITIONS.iter().any(|table| of_definition(table) == Some(true))
}

/// The types that `type` names; `None` for what is no name.
fn types(value: &Value) -> impl Iterator<Item = Option<&str>> {
    let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    list.iter().map(Value::as_str)
}

fn steps_of(text: &str) -> usize {
    1 + text.len() / BYTES_OF_A_STEP
}

fn take(steps: &Cell<usize>, cost: usize) -> Option<()> {
    steps.set(steps.get().checked_sub(cost)?);
    Some(())
}

/// Why the check ended.
enum Stop {
    /// The value breaks the schema, at this place. Empty for one of several forms, of which nobody asks where it is broken.
    Broken(String),
    NoVerdict,
}

/// A step into a value.
#[derive(Clone, Copy)]
enum Step<'s> {
    /// A member that the schema names.
    Member(&'s str),
    /// Another member, whose name is not shown.
    Other,
    Element(usize),
}

struct Checker<'s> {
    root: &'s Value,
    steps: &'s Cell<usize>,
    depth: u32,
    /// How many `anyOf` and `oneOf` are around it.
    within_forms: u32,
    /// Whether a `format` was met, which may restrict something after all.
    has_format: bool,
    /// Where the value stands.
    place: Vec<Step<'s>>,
}

impl<'s> Checker<'s> {
    fn new(root: &'s Value, steps: &'s Cell<usize>) -> Checker<'s> {
        Checker { root, steps, depth: 0, within_forms: 0, has_format: false, place: Vec::new() }
    }

    fn value(&mut self, schema: &'s Value, value: &Value) -> Result<(), Stop> {
        self.step(1)?;
        if self.depth == MOST_DEEP {
            return Err(Stop::NoVerdict);
        }
        self.depth += 1;
        let found = match schema {
            Value::Object(keywords) => {
                keywords.iter().try_for_each(|(name, wanted)| self.keyword(keywords, name, wanted, value))
            }
            Value::Bool(false) => Err(self.broken(|| "nothing expected")),
            _ => Ok(()),
        };
        self.depth -= 1;
        found
    }

    fn keyword(
        &mut self,
        keywords: &'s Map<String, Value>,
        name: &str,
        wanted: &'s Value,
        value: &Value,
    ) -> Result<(), Stop> {
        match (name, value) {
            ("$ref", _) => {
                let reference = wanted.as_str().ok_or(Stop::NoVerdict)?;
                self.step(steps_of(reference))?;
                let referred = reference.get(1..).and_then(|pointer| self.root.pointer(pointer));
                self.value(referred.ok_or(Stop::NoVerdict)?, value)
            }
            ("type", _) => {
                let is_one = types(wanted).flatten().any(|name| is_of_type(name, value));
                let names = || types(wanted).flatten().collect::<Vec<_>>().join(" or ");
                self.expect(is_one, || format!("{} expected", names()))
            }
            ("const", _) => {
                let is_it = self.is_same(wanted, value)?;
                self.expect(is_it, || "another constant expected")
            }
            ("enum", _) => {
                for allowed in wanted.as_array().into_iter().flatten() {
                    if self.is_same(allowed, value)? {
                        return Ok(());
                    }
                }
                Err(self.broken(|| "one of the listed values expected"))
            }
            ("anyOf" | "allOf" | "oneOf", _) => self.alternatives(name, wanted, value),
            ("properties" | "required" | "additionalProperties", Value::Object(members)) => {
                self.members(keywords, name, wanted, members)
            }
            ("items", Value::Array(elements)) => elements
                .iter()
                .enumerate()
                .try_for_each(|(at, element)| self.within(Step::Element(at), wanted, element)),
            ("minItems" | "maxItems", Value::Array(elements)) => {
                self.bound(name, wanted, elements.len() as f64, " elements")
            }
            ("minLength" | "maxLength", Value::String(text)) => {
                self.step(steps_of(text))?;
                self.bound(name, wanted, text.chars().count() as f64, " characters")
            }
            ("minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum", Value::Number(number)) => {
                self.bound(name, wanted, number.as_f64().ok_or(Stop::NoVerdict)?, "")
            }
            ("format", _) => {
                self.has_format = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn alternatives(&mut self, name: &str, wanted: &'s Value, value: &Value) -> Result<(), Stop> {
        let (mut met, mut all) = (0, 0);
        let forms = u32::from(name != "allOf");
        self.within_forms += forms;
        for schema in wanted.as_array().into_iter().flatten() {
            let steps_into = self.place.len();
            match self.value(schema, value) {
                Ok(()) => met += 1,
                Err(Stop::Broken(_)) if name != "allOf" => self.place.truncate(steps_into),
                Err(stop) => return Err(stop),
            }
            all += 1;
        }
        self.within_forms -= forms;
        match name {
            // Which of the forms that fit have another format is not known.
            "oneOf" if met > 1 && self.has_format => Err(Stop::NoVerdict),
            "anyOf" => self.expect(met > 0, || format!("one of {all} forms expected")),
            "oneOf" => self.expect(met == 1, || format!("exactly one of {all} forms expected")),
            _ => Ok(()),
        }
    }

    fn members(
        &mut self,
        keywords: &'s Map<String, Value>,
        name: &str,
        wanted: &'s Value,
        members: &Map<String, Value>,
    ) -> Result<(), Stop> {
        let declared = keywords.get("properties").and_then(Value::as_object);
        match name {
            "properties" => {
                let known = declared.into_iter().flatten();
                self.step(known.clone().map(|(name, _)| steps_of(name)).sum())?;
                let mut given = known.filter_map(|(name, schema)| Some((name, schema, members.get(name)?)));
                given.try_for_each(|(name, schema, member)| self.within(Step::Member(name), schema, member))
            }
            "required" => {
                let mut names = wanted.as_array().into_iter().flatten().filter_map(Value::as_str);
                self.step(names.clone().map(steps_of).sum())?;
                let missing = names.find(|name| !members.contains_key(*name));
                missing.map_or(Ok(()), |name| Err(self.broken(|| format!("{name} expected"))))
            }
            _ => {
                self.step(members.keys().map(|name| steps_of(name)).sum())?;
                let is_other = |name: &str| declared.is_none_or(|declared| !declared.contains_key(name));
                let mut others = members.iter().filter(|(name, _)| is_other(name));
                others.try_for_each(|(_, member)| self.within(Step::Other, wanted, member))
            }
        }
    }

    fn within(&mut self, step: Step<'s>, schema: &'s Value, value: &Value) -> Result<(), Stop> {
        self.place.push(step);
        self.value(schema, value)?;
        self.place.pop();
        Ok(())
    }

    fn bound(&mut self, name: &str, wanted: &Value, found: f64, unit: &str) -> Result<(), Stop> {
        let limit = wanted.as_f64().ok_or(Stop::NoVerdict)?;
        let (is_kept, words) = match name {
            "exclusiveMinimum" => (found > limit, "more than"),
            "exclusiveMaximum" => (found < limit, "less than"),
            "minimum" | "minLength" | "minItems" => (found >= limit, "at least"),
            _ => (found <= limit, "at most"),
        };
        self.expect(is_kept, || format!("{words} {wanted}{unit} expected"))
    }

    fn expect<T: Display>(&self, holds: bool, what: impl FnOnce() -> T) -> Result<(), Stop> {
        if holds { Ok(()) } else { Err(self.broken(what)) }
    }

    fn is_same(&mut self, one: &Value, other: &Value) -> Result<bool, Stop> {
        self.step(1)?;
        Ok(match (one, other) {
            (Value::Number(one), Value::Number(other)) => is_same_number(one, other),
            (Value::String(one), Value::String(other)) => {
                self.step(one.len().min(other.len()) / BYTES_OF_A_STEP)?;
                one == other
            }
            (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
                let mut pairs = one.iter().zip(other);
                pairs.try_fold(true, |same, (one, other)| Ok(same && self.is_same(one, other)?))?
            }
            (Value::Object(one), Value::Object(other)) if one.len() == other.len() => {
                one.iter().try_fold(true, |same, (name, value)| {
                    self.step(steps_of(name))?;
                    match other.get(name) {
                        Some(other) if same => self.is_same(value, other),
                        _ => Ok(false),
                    }
                })?
            }
            (one, other) => one == other,
        })
    }

    fn step(&self, cost: usize) -> Result<(), Stop> {
        take(self.steps, cost).ok_or(Stop::NoVerdict)
    }

    fn broken<T: Display>(&self, what: impl FnOnce() -> T) -> Stop {
        if self.within_forms > 0 {
            return Stop::Broken(String::new());
        }
        let mut text = String::new();
        for step in &self.place {
            // Writing to a string cannot fail.
            let _ = match step {
                Step::Member(name) => write!(text, "/{name}"),
                Step::Other => write!(text, "/*"),
                Step::Element(at) => write!(text, "/{at}"),
            };
        }
        let place = if text.is_empty() { "/" } else { &text };
        let whole = format!("{place} ({})", what());
        let shown = whole.chars().map(|c| if c.is_control() { '?' } else { c });
        Stop::Broken(shown.take(MOST_CHARACTERS).collect())
    }
}

fn is_of_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "boolean" => value.is_boolean(),
        _ => value.is_null(),
    }
}

/// Whether both are the same number, however they are written.
fn is_same_number(one: &Number, other: &Number) -> bool {
    one == other || one.as_f64().is_some_and(|one| other.as_f64() == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: &str, value: &str, expected: Option<&str>) {
        let found = violation(schema, value, &Cell::new(MOST_STEPS));
        assert_eq!(found.as_deref(), expected, "{schema:.300} {value:.300}");
    }

    const ORDER: &str = r##"{
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object", "required": ["items"], "additionalProperties": false,
        "properties": {"items": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/item"}},
                       "note": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]}},
        "$defs": {"item": {"type": "object", "required": ["price"],
            "properties": {"price": {"type": "number", "exclusiveMinimum": 0}, "count": {"type": "integer"},
                           "kind": {"enum": ["a", 1]}, "parts": {"type": "array", "items": {"$ref": "#/$defs/item"}}}}}
    }"##;

    #[test]
    fn a_value_that_follows_its_schema_breaks_nothing() {
        check(ORDER, r#"{"items": [{"price": 0.5, "count": 2.0, "kind": 1.0}], "note": null}"#, None);
        check(ORDER, r#"{"items": [{"price": 1, "parts": [{"price": 2, "more": []}]}], "note": "äöü"}"#, None);
        check("true", "[1]", None);
        check("{}", "null", None);
    }

    #[test]
    fn the_first_broken_place_is_named_with_what_is_expected_there() {
        check(ORDER, r#"{"items": [{"price": "3"}]}"#, Some("/items/0/price (number expected)"));
        check(ORDER, r#"{"items": [{"price": 0}]}"#, Some("/items/0/price (more than 0 expected)"));
        check(ORDER, r#"{"items": [{"count": 1}]}"#, Some("/items/0 (price expected)"));
        check(ORDER, r#"{"items": [{"price": 1, "count": 1.5}]}"#, Some("/items/0/count (integer expected)"));
        check(
            ORDER,
            r#"{"items": [{"price": 1, "kind": "b"}]}"#,
            Some("/items/0/kind (one of the listed values expected)"),
        );
        check(ORDER, r#"{"items": [{"price": 1, "parts": [{}]}]}"#, Some("/items/0/parts/0 (price expected)"));
        check(ORDER, r#"{"items": []}"#, Some("/items (at least 1 elements expected)"));
        check(ORDER, r#"{"items": [{"price": 1}], "note": "long"}"#, Some("/note (one of 2 forms expected)"));
        check(ORDER, "[]", Some("/ (object expected)"));
        check(r#"{"type": ["string", "null"]}"#, "1", Some("/ (string or null expected)"));
        check(
            r#"{"oneOf": [{"type": "number"}, {"type": "integer"}]}"#,
            "1",
            Some("/ (exactly one of 2 forms expected)"),
        );
        check(r#"{"allOf": [{"type": "number"}, {"maximum": 3}]}"#, "4", Some("/ (at most 3 expected)"));
        check(r#"{"const": {"a": [1, 2]}}"#, r#"{"a": [1, 3]}"#, Some("/ (another constant expected)"));
    }

    #[test]
    fn a_name_of_the_value_alone_is_not_shown() {
        check(ORDER, r#"{"items": [{"price": 1}], "secret": 1}"#, Some("/* (nothing expected)"));
        check(r#"{"additionalProperties": {"type": "string"}}"#, r#"{"secret": 1}"#, Some("/* (string expected)"));
    }

    #[test]
    fn a_schema_with_an_unknown_keyword_anywhere_has_no_verdict() {
        for unknown in [
            r#"{"type": "object", "patternProperties": {}}"#,
            r#"{"type": "object", "properties": {"other": {"pattern": "^a"}}}"#,
            r#"{"type": "object", "$defs": {"unused": {"not": {}}}}"#,
            r#"{"type": "object", "nullable": true}"#,
            r#"{"type": "objekt"}"#,
            r#"{"type": "object", "items": [{}]}"#,
            r#"{"$ref": "https://example.org/schema"}"#,
            r##"{"$ref": "#/$defs/absent"}"##,
            r##"{"$ref": "#/$defs/a", "type": "object", "$defs": {"a": {"type": "object"}}}"##,
            r#"{"minimum": "1", "type": "object"}"#,
            r#"{"type": []}"#,
            r#"{"enum": []}"#,
            r#"{"anyOf": []}"#,
            r#"{"oneOf": []}"#,
            r#"{"allOf": [], "type": "object"}"#,
            "[]",
        ] {
            check(unknown, "3", None);
        }
    }

    #[test]
    fn forms_that_only_a_format_tells_apart_have_no_verdict() {
        let forms = r#"{"oneOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "uuid"}]}"#;
        check(forms, "\"2026-11-28\"", None);
        check(forms, "3", Some("/ (exactly one of 2 forms expected)"));
        check(&forms.replace("format", "title"), "\"2026-11-28\"", Some("/ (exactly one of 2 forms expected)"));
    }

    #[test]
    fn where_one_of_several_forms_is_broken_is_not_written_down() {
        let (steps, value) = (Cell::new(MOST_STEPS), Value::from(1));
        let says = |within_forms: u32, schema: &str| {
            let schema: Value = serde_json::from_str(schema).unwrap();
            let mut checker = Checker { within_forms, ..Checker::new(&schema, &steps) };
            match checker.value(&schema, &value) {
                Err(Stop::Broken(place)) => place,
                _ => panic!("{schema} is broken"),
            }
        };
        for schema in ["false", r#"{"type": "null"}"#, r#"{"allOf": [{"enum": [2]}]}"#, r#"{"anyOf": [{"const": 2}]}"#]
        {
            assert!(says(0, schema).ends_with("expected)"), "{schema}");
            assert_eq!(says(1, schema), "", "{schema}");
        }
    }

    #[test]
    fn long_names_and_texts_count_by_their_length() {
        let name = "x".repeat(100_000);
        let text = format!("\"{name}\"");
        let object = format!("{{{text}: {text}}}");
        for (form, value) in [
            (format!("{{\"required\": [{text}]}}"), &object),
            (format!("{{\"properties\": {{{text}: true}}}}"), &object),
            ("{\"additionalProperties\": true}".to_owned(), &object),
            (format!("{{\"const\": {text}}}"), &text),
            (format!("{{\"const\": {object}}}"), &object),
            (format!("{{\"enum\": [{text}]}}"), &text),
        ] {
            let often = |times: usize| {
                let references = "{\"$ref\": \"#/$defs/a\"},".repeat(times);
                format!("{{\"allOf\": [{references} false], \"$defs\": {{\"a\": {form}}}}}")
            };
            check(&often(10), value, Some("/ (nothing expected)"));
            check(&often(100), value, None);
        }
        let references = format!("{{\"$ref\": \"#/$defs/{name}\"}},").repeat(3);
        let nested = format!(
            "{{\"items\": {{\"allOf\": [{references} true]}}, \"maxItems\": 0, \"$defs\": {{\"{name}\": true}}}}"
        );
        check(&nested, "[1]", Some("/ (at most 0 elements expected)"));
        check(&nested, &format!("[{} 1]", "1,".repeat(50)), None);
    }

    #[test]
    fn a_check_that_would_take_too_long_has_no_verdict() {
        let names: Vec<String> = (0..10_000).map(|n| format!("\"p{n}\": {{\"type\": \"null\"}}")).collect();
        let wide = format!("{{\"items\": {{\"properties\": {{{}}}}}}}", names.join(", "));
        check(&wide, "[{}, {\"p1\": 1}]", Some("/1/p1 (null expected)"));
        check(&wide, &format!("[{} {{\"p1\": 1}}]", "{},".repeat(10_000)), None);
        let long = format!("{{\"allOf\": [{} {{\"maxLength\": 3}}]}}", "{\"minLength\": 3},".repeat(10_000));
        check(&long, &format!("\"{}\"", "x".repeat(100_000)), None);
    }

    #[test]
    fn a_schema_that_never_ends_has_no_verdict() {
        check(r##"{"$ref": "#"}"##, "1", None);
        check(
            r##"{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}"##,
            "1",
            None,
        );
        let next = |n: u32| {
            format!(r##""d{n}": {{"anyOf": [{{"$ref": "#/$defs/d{0}"}}, {{"$ref": "#/$defs/d{0}"}}]}}"##, n + 1)
        };
        let tables: Vec<String> = (0..60).map(next).collect();
        let doubling = format!(r##"{{"$ref": "#/$defs/d0", "$defs": {{{}, "d60": false}}}}"##, tables.join(", "));
        check(&doubling, "1", None);
    }
}
