//! Schemas in the subset of OpenAPI that early models take.
//!
//! Names, values and their order stay as they were written. A schema whose meaning would change is not lowered at all.

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::json::{Raw, push_comma, push_key};

/// Members that mean the same there, with plain values.
const COPIED: [&[u8]; 15] = byte_names![
    description title format nullable required minItems maxItems minLength maxLength pattern minimum maximum
    minProperties maxProperties propertyOrdering
];
/// Members that constrain nothing.
const IGNORED: [&[u8]; 6] = [b"$schema", b"$id", b"$comment", b"examples", b"default", b"example"];

/// The schema in that form; `None` if it cannot have it, because it refers to definitions, holds a map, or says something
/// that the subset has no word for.
pub(super) fn lower(schema: Raw<'_>) -> Option<Bytes> {
    if has_no_members(schema) {
        return None;
    }
    let mut out = BytesMut::with_capacity(schema.bytes().len());
    push_schema(schema, false, &mut out)?;
    Some(out.freeze())
}

/// Whether the schema is of an object without members.
pub(super) fn has_no_members(schema: Raw<'_>) -> bool {
    let is_object = schema.kind().as_deref() == Some("object");
    is_object && schema.member(b"properties").is_none_or(|properties| !properties.is_filled())
}

/// Appends a schema. `nullable`: whether null is allowed besides what the schema says.
fn push_schema(schema: Raw<'_>, nullable: bool, out: &mut BytesMut) -> Option<()> {
    if !schema.is_object() {
        return None;
    }
    let choices = ["anyOf", "oneOf"].into_iter().find_map(|name| schema.member(name.as_bytes()));
    if let Some(choices) = choices {
        return push_choices(schema, choices, nullable, out);
    }
    let mut members = Members { out, is_first: true };
    for (key, value) in schema.members() {
        let name = key.name();
        match &*name {
            b"type" => members.kind(value, nullable)?,
            b"enum" => members.texts(value)?,
            b"const" => {
                members.key("enum");
                push!(members.out; b"[", value.is_string().then_some(value)?.bytes(), b"]");
            }
            b"items" => {
                members.key("items");
                push_schema(value, false, members.out)?;
            }
            b"properties" => {
                members.key("properties");
                members.out.put_u8(b'{');
                for (name, schema) in value.members() {
                    push_key(members.out, name.bytes());
                    push_schema(schema, false, members.out)?;
                }
                members.out.put_u8(b'}');
            }
            // Objects are closed there unless they are maps.
            b"additionalProperties" if value.bytes() == b"false" => {}
            name if IGNORED.contains(&name) => {}
            name if COPIED.contains(&name) => {
                members.key(std::str::from_utf8(name).ok()?);
                members.out.put_slice(value.bytes());
            }
            _ => return None,
        }
    }
    if nullable && schema.member(b"type").is_none() {
        members.key("nullable");
        members.out.put_slice(b"true");
    }
    members.end();
    Some(())
}

/// Appends a choice between schemas: nothing may stand beside `anyOf`, and null is no schema but a member.
fn push_choices(schema: Raw<'_>, choices: Raw<'_>, nullable: bool, out: &mut BytesMut) -> Option<()> {
    let stands_beside =
        |name: &[u8]| !matches!(name, b"anyOf" | b"oneOf" | b"description" | b"title") && !IGNORED.contains(&name);
    let has_both = schema.member(b"anyOf").is_some() && schema.member(b"oneOf").is_some();
    if has_both || schema.members().any(|(key, _)| stands_beside(&key.name())) {
        return None;
    }
    let is_null = |choice: &Raw<'_>| choice.kind().as_deref() == Some("null");
    let others: Vec<Raw<'_>> = choices.elements().filter(|choice| !is_null(choice)).collect();
    let nullable = nullable || choices.elements().any(|choice| is_null(&choice));
    if let [only] = others.as_slice() {
        return push_schema(*only, nullable, out);
    }
    if others.is_empty() {
        return None;
    }
    out.put_slice(b"{\"anyOf\":[");
    for choice in others {
        push_comma(out);
        push_schema(choice, nullable, out)?;
    }
    out.put_slice(b"]}");
    Some(())
}

struct Members<'o> {
    out: &'o mut BytesMut,
    is_first: bool,
}

impl Members<'_> {
    fn key(&mut self, name: &str) {
        self.out.put_u8(if std::mem::take(&mut self.is_first) { b'{' } else { b',' });
        push!(self.out; name, b":");
    }

    fn end(self) {
        if self.is_first {
            self.out.put_u8(b'{');
        }
        self.out.put_u8(b'}');
    }

    /// Appends `type`, which is one name there; null is a member of its own.
    fn kind(&mut self, value: Raw<'_>, nullable: bool) -> Option<()> {
        let names: Vec<Raw<'_>> = if value.is_string() { vec![value] } else { value.elements().collect() };
        let (nulls, names): (Vec<Raw<'_>>, Vec<Raw<'_>>) =
            names.into_iter().partition(|name| name.text().as_deref() == Some("null"));
        let [name] = names.as_slice() else { return None };
        self.key("type");
        self.out.put_slice(name.bytes());
        if nullable || !nulls.is_empty() {
            self.key("nullable");
            self.out.put_slice(b"true");
        }
        Some(())
    }

    /// Appends `enum`, which holds texts only there.
    fn texts(&mut self, value: Raw<'_>) -> Option<()> {
        if !value.is_array() || !value.elements().all(Raw::is_string) {
            return None;
        }
        self.key("enum");
        self.out.put_slice(value.bytes());
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lowered(schema: &str) -> Option<String> {
        lower(Raw::whole(schema).unwrap()).map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[test]
    fn what_the_subset_has_another_word_for_is_said_with_that_word() {
        let schema = r#"{"$schema":"x","type":"object","properties":{"a":{"type":["string","null"],"minLength":1.0},"k":{"const":"x"},
            "o":{"anyOf":[{"type":"integer"},{"type":"null"}]},"c":{"oneOf":[{"type":"string"},{"type":"array","items":{"type":"number"}}]},"z":{}},
            "required":["a"],"additionalProperties":false}"#;
        let expected = r#"{"type":"object","properties":{"a":{"type":"string","nullable":true,"minLength":1.0},"k":{"enum":["x"]},"o":{"type":"integer","nullable":true},"c":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"number"}}]},"z":{}},"required":["a"]}"#;
        assert_eq!(lowered(schema).as_deref(), Some(expected));
    }

    #[test]
    fn a_schema_whose_meaning_would_change_is_not_lowered() {
        for schema in [
            r##"{"$ref":"#/$defs/a","$defs":{"a":{}}}"##,
            r#"{"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":"string"}}}}"#,
            r#"{"type":["string","integer"]}"#,
            r#"{"enum":[1,2]}"#,
            r#"{"const":1}"#,
            r#"{"type":"string","anyOf":[{"minLength":1},{"maxLength":2}]}"#,
            r#"{"allOf":[{}]}"#,
            r#"{"type":"object","properties":{"m":true}}"#,
            "true",
        ] {
            assert_eq!(lowered(schema), None, "{schema}");
        }
    }
}
