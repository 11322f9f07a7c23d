//! Schemas in the form that the API can hold a model to.
//!
//! Names, values and their order stay as they were written. What the API does not know is said in `description`, so that
//! the model still reads it. A schema whose meaning would change is not lowered at all.

use std::borrow::Cow;

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::{
    json::{Raw, push_comma, push_key, push_string},
    neutral::{EscapedText, UnsupportedFields},
};

/// Most properties in all objects together that are not required.
pub(crate) const MAX_OPTIONAL: usize = 24;
/// Most named definitions.
const MAX_DEFINITIONS: usize = 256;
/// Formats of strings that the API knows.
const FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];

/// Why a schema cannot have that form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unlowered {
    /// It refers to itself or to another document, or has an open object.
    Open,
    /// It has more optional properties than [`MAX_OPTIONAL`]: so many.
    TooManyOptional(usize),
}

/// The schema in that form.
///
/// # Errors
/// Why it cannot have it.
pub(crate) fn lower(schema: Raw<'_>) -> Result<Bytes, Unlowered> {
    let mut lowering = Lowering { out: BytesMut::with_capacity(schema.bytes().len() + 64), optional: 0 };
    lowering.schema(schema).filter(|()| references_end(schema)).ok_or(Unlowered::Open)?;
    match lowering.optional {
        0..=MAX_OPTIONAL => Ok(lowering.out.freeze()),
        optional => Err(Unlowered::TooManyOptional(optional)),
    }
}

struct Lowering {
    out: BytesMut,
    /// Members that are not required, of all objects so far.
    optional: usize,
}

impl Lowering {
    fn schema(&mut self, schema: Raw<'_>) -> Option<()> {
        if !schema.is_object() {
            return None;
        }
        let is_object = is_of_objects(schema);
        if is_object && schema.member(b"properties").is_none() {
            return None;
        }
        if schema.member(b"anyOf").is_some() && schema.member(b"oneOf").is_some() {
            return None;
        }
        self.optional += optional_members(schema);
        let notes = notes(schema);
        self.out.put_u8(b'{');
        let mut described = notes.is_empty();
        for (key, value) in schema.members() {
            let name = key.name();
            match Keyword::named(&name, value) {
                Keyword::Copied => self.member(key.bytes(), value.bytes()),
                Keyword::Schema => {
                    push_key(&mut self.out, key.bytes());
                    self.schema(value)?;
                }
                Keyword::Schemas => self.schemas(if *name == *b"oneOf" { b"\"anyOf\"" } else { key.bytes() }, value)?,
                Keyword::NamedSchemas => self.named_schemas(key.bytes(), value)?,
                Keyword::Description => {
                    self.description(Some(value), &notes);
                    described = true;
                }
                Keyword::Open => return None,
                Keyword::Noted | Keyword::Closed | Keyword::Ignored => {}
            }
        }
        if !described {
            self.description(None, &notes);
        }
        if is_object {
            self.member(b"\"additionalProperties\"", b"false");
        }
        self.out.put_u8(b'}');
        Some(())
    }

    fn member(&mut self, quoted: &[u8], value: &[u8]) {
        push_key(&mut self.out, quoted);
        self.out.put_slice(value);
    }

    fn schemas(&mut self, quoted: &[u8], list: Raw<'_>) -> Option<()> {
        if !list.is_array() {
            return None;
        }
        push_key(&mut self.out, quoted);
        self.out.put_u8(b'[');
        for schema in list.elements() {
            push_comma(&mut self.out);
            self.schema(schema)?;
        }
        self.out.put_u8(b']');
        Some(())
    }

    fn named_schemas(&mut self, quoted: &[u8], schemas: Raw<'_>) -> Option<()> {
        if !schemas.is_object() {
            return None;
        }
        push_key(&mut self.out, quoted);
        self.out.put_u8(b'{');
        for (name, schema) in schemas.members() {
            push_key(&mut self.out, name.bytes());
            self.schema(schema)?;
        }
        self.out.put_u8(b'}');
        Some(())
    }

    /// Appends the description with the notes behind it.
    fn description(&mut self, description: Option<Raw<'_>>, notes: &str) {
        let text = description.and_then(Raw::text).unwrap_or(Cow::Borrowed(""));
        push_key(&mut self.out, b"\"description\"");
        match description {
            Some(description) if notes.is_empty() => self.out.put_slice(description.bytes()),
            _ if text.is_empty() => push_string(&mut self.out, notes),
            _ => push_string(&mut self.out, &format!("{text} {notes}")),
        }
    }
}

/// What becomes of a member of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keyword {
    Copied,
    /// Its value is a schema.
    Schema,
    /// Its value is a list of schemas.
    Schemas,
    /// Its value holds schemas by name.
    NamedSchemas,
    Description,
    /// Says that an object has no members but the declared ones, which is said of every object.
    Closed,
    /// Admits members or elements that no member declares.
    Open,
    /// Said in the description.
    Noted,
    /// Constrains nothing.
    Ignored,
}

impl Keyword {
    fn named(name: &[u8], value: Raw<'_>) -> Keyword {
        match name {
            b"$ref" | b"type" | b"enum" | b"const" | b"required" | b"title" | b"default" => Keyword::Copied,
            b"items" => Keyword::Schema,
            b"anyOf" | b"oneOf" | b"allOf" => Keyword::Schemas,
            b"properties" | b"$defs" | b"definitions" => Keyword::NamedSchemas,
            b"description" if value.is_string() => Keyword::Description,
            b"additionalProperties" if value.bytes() == b"false" => Keyword::Closed,
            b"unevaluatedProperties" if value.bytes() == b"false" => Keyword::Closed,
            b"additionalProperties" | b"unevaluatedProperties" | b"patternProperties" | b"prefixItems" => Keyword::Open,
            b"format" if value.text().is_some_and(|format| FORMATS.contains(&&*format)) => Keyword::Copied,
            b"description" | b"$schema" | b"$id" | b"id" | b"$comment" => Keyword::Ignored,
            _ => Keyword::Noted,
        }
    }
}

/// Whether values of the schema may be objects.
fn is_of_objects(schema: Raw<'_>) -> bool {
    let names_object = |value: Raw<'_>| value.text().as_deref() == Some("object");
    let by_type = schema.member(b"type").is_some_and(|kind| names_object(kind) || kind.elements().any(names_object));
    by_type || schema.member(b"properties").is_some()
}

/// The constraints that are said in words: `minimum: 1. pattern: ^a$.`
fn notes(schema: Raw<'_>) -> String {
    let noted = schema.members().filter(|(key, value)| Keyword::named(&key.name(), *value) == Keyword::Noted);
    let notes = noted.map(|(key, value)| {
        let value = value.text().unwrap_or_else(|| String::from_utf8_lossy(value.bytes()));
        format!("{}: {value}.", String::from_utf8_lossy(&key.name()))
    });
    notes.collect::<Vec<String>>().join(" ")
}

fn optional_members(schema: Raw<'_>) -> usize {
    let required: Vec<Cow<'_, str>> = schema.elements_of(b"required").filter_map(Raw::text).collect();
    let properties = schema.member(b"properties").into_iter().flat_map(Raw::members);
    properties.filter(|(name, _)| !required.iter().any(|required| required.as_bytes() == &*name.name())).count()
}

/// Whether every reference leads to a definition of this schema, and none leads back to where it stands.
fn references_end(schema: Raw<'_>) -> bool {
    let mut definitions = Vec::new();
    for holder in ["$defs", "definitions"] {
        for (name, definition) in schema.member(holder.as_bytes()).into_iter().flat_map(Raw::members) {
            let address = format!("#/{holder}/{}", String::from_utf8_lossy(&name.name()));
            definitions.push((address, references(definition)));
        }
    }
    if definitions.len() > MAX_DEFINITIONS {
        return false;
    }
    let is_known = |reference: &String| definitions.iter().any(|(address, _)| address == reference);
    if !references(schema).iter().all(is_known) {
        return false;
    }
    // A definition ends when all it refers to end. What is left when none ends any more leads in a circle.
    let mut ended: Vec<String> = Vec::new();
    while let Some(place) =
        definitions.iter().position(|(_, references)| references.iter().all(|reference| ended.contains(reference)))
    {
        ended.push(definitions.swap_remove(place).0);
    }
    definitions.is_empty()
}

/// All references in a value, each once.
fn references(value: Raw<'_>) -> Vec<String> {
    let mut found = Vec::new();
    collect_references(value, &mut found);
    found.sort();
    found.dedup();
    found
}

fn collect_references(value: Raw<'_>, found: &mut Vec<String>) {
    for (key, value) in value.members() {
        match EscapedText::read(value).filter(|_| *key.name() == *b"$ref") {
            Some(reference) => found.push(reference.unescaped().into_owned()),
            None => collect_references(value, found),
        }
    }
    value.elements().for_each(|value| collect_references(value, found));
}

/// A schema of arguments as it is, but for its root, which must say that it is an object.
pub(crate) fn object_schema(schema: Option<Raw<'_>>, unsupported: &mut UnsupportedFields) -> Bytes {
    let Some(schema) = schema else { return Bytes::from_static(b"{\"type\":\"object\",\"properties\":{}}") };
    if schema.kind().as_deref() == Some("object") {
        return Bytes::copy_from_slice(schema.bytes());
    }
    unsupported.emulate("tools[].function.parameters");
    let mut out = BytesMut::from(&b"{\"type\":\"object\""[..]);
    for (key, value) in schema.members().filter(|(key, _)| *key.name() != *b"type") {
        push_key(&mut out, key.bytes());
        out.put_slice(value.bytes());
    }
    out.put_u8(b'}');
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Cursor;

    fn lowered(schema: &str) -> Option<String> {
        let lowered = lower(Cursor::new(schema).value().unwrap()).ok()?;
        Some(String::from_utf8(lowered.to_vec()).unwrap())
    }

    #[test]
    fn constraints_that_the_api_does_not_know_stand_in_the_description() {
        let schema = r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{
            "n":{"type":"integer","minimum":1.0,"maximum":12345678901234567890},"s":{"description":"A \"code\".","type":"string","pattern":"^\\d+$","format":"credit-card"},
            "d":{"type":"string","format":"date"},"k":{"oneOf":[{"const":"x"},{"type":"null"}]}},"required":["n"],"additionalProperties":false}"#;
        let expected = r#"{"type":"object","properties":{"n":{"type":"integer","description":"minimum: 1.0. maximum: 12345678901234567890."},"s":{"description":"A \"code\". pattern: ^\\d+$. format: credit-card.","type":"string"},"d":{"type":"string","format":"date"},"k":{"anyOf":[{"const":"x"},{"type":"null"}]}},"required":["n"],"additionalProperties":false}"#;
        assert_eq!(lowered(schema).as_deref(), Some(expected));
    }

    #[test]
    fn every_object_is_closed_also_in_definitions_and_lists() {
        let schema = r##"{"$defs":{"p":{"type":"object","properties":{"x":{"type":"number"}},"required":["x"]}},"type":"object","properties":{
            "list":{"type":"array","items":{"$ref":"#/$defs/p"}},"both":{"allOf":[{"$ref":"#/$defs/p"}]}},"required":["list","both"]}"##;
        let lowered = lowered(schema).unwrap();
        assert_eq!(lowered.matches(r#""additionalProperties":false"#).count(), 2, "{lowered}");
    }

    #[test]
    fn a_recursive_schema_or_one_with_a_map_is_not_lowered() {
        for schema in [
            r##"{"type":"object","properties":{"next":{"$ref":"#"}}}"##,
            r##"{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"type":"array","items":{"$ref":"#/$defs/a"}}},"type":"object","properties":{"a":{"$ref":"#/$defs/a"}}}"##,
            r#"{"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":"string"}}}}"#,
            r#"{"type":"object","properties":{"m":{"type":"object","properties":{},"additionalProperties":true}}}"#,
            r#"{"type":"object","properties":{"m":{"type":"object"}}}"#,
            r#"{"type":"object","properties":{"m":{"type":["object","null"]}}}"#,
            r#"{"type":"object","properties":{"m":{"type":"object","properties":{},"patternProperties":{"^a":{}}}}}"#,
            r#"{"type":"object","properties":{"m":{"$ref":"https://example.com/schema"}}}"#,
            r##"{"type":"object","properties":{"m":{"$ref":"#/$defs/none"}}}"##,
            r#"{"type":"object","properties":{"m":true}}"#,
            "true",
        ] {
            assert_eq!(lowered(schema), None, "{schema}");
        }
    }

    #[test]
    fn too_many_optional_properties_are_not_lowered() {
        let schema = |count: usize| {
            let members: Vec<String> = (0..count).map(|n| format!(r#""p{n}":{{"type":"string"}}"#)).collect();
            format!(r#"{{"type":"object","properties":{{{}}}}}"#, members.join(","))
        };
        assert!(lowered(&schema(24)).is_some());
        let lower = lower(Cursor::new(&schema(25)).value().unwrap());
        assert_eq!(lower, Err(Unlowered::TooManyOptional(25)));
    }
}
