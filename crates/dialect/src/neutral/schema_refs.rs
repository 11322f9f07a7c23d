//! Schemas in which nothing stands beside a `$ref`, as Google's API and OpenAI's strict schemas want it.
//!
//! Pydantic and others describe a reference where they use it. The definition with these members takes the place of such a
//! reference. Where it cannot, because it refers to itself or would become too large, the reference stays alone.

use std::borrow::Cow;

use bytes::{BufMut as _, BytesMut};
use memchr::memmem;

use super::unsupported_fields::UnsupportedFields;
use crate::json::{Raw, push_comma, push_key};

const REF: &[u8] = b"$ref";
/// Most definitions within each other that take the place of references.
const MAX_DEPTH: usize = 8;
/// Most bytes of definitions that are copied into one schema.
const MAX_COPIED: usize = 64 * 1_024;

/// The schema with references that stand alone. `path`: the client's name of it, under which lost members are named.
pub(crate) fn with_lone_references<'a>(
    schema: Raw<'a>,
    path: &str,
    unsupported: &mut UnsupportedFields,
) -> Cow<'a, [u8]> {
    if memmem::find(schema.bytes(), b"\"$ref\"").is_none() {
        return Cow::Borrowed(schema.bytes());
    }
    let mut writer = Writer {
        root: schema,
        open: Vec::new(),
        room: MAX_COPIED,
        out: BytesMut::with_capacity(schema.bytes().len() + 256),
        path,
        unsupported,
    };
    writer.schema(schema);
    Cow::Owned(writer.out.to_vec())
}

struct Writer<'a, 'f> {
    root: Raw<'a>,
    /// References whose definitions are being written.
    open: Vec<&'a str>,
    room: usize,
    out: BytesMut,
    path: &'f str,
    unsupported: &'f mut UnsupportedFields,
}

impl<'a> Writer<'a, '_> {
    /// A schema, or a list of some.
    fn schema(&mut self, value: Raw<'a>) {
        if value.is_array() {
            self.out.put_u8(b'[');
            for element in value.elements() {
                push_comma(&mut self.out);
                self.schema(element);
            }
            return self.out.put_u8(b']');
        }
        if !value.is_object() {
            return self.out.put_slice(value.bytes());
        }
        let reference = value.member(REF).filter(|reference| reference.is_string()).map(Raw::inner_text);
        let is_beside = |key: Raw<'_>| !key.name().starts_with(b"$");
        let Some(reference) = reference.filter(|_| value.members().any(|(key, _)| is_beside(key))) else {
            return self.object(value.members());
        };
        let Some(definition) = self.definition(reference) else {
            for (key, _) in value.members().filter(|(key, _)| is_beside(*key)) {
                self.unsupported.drop(&format!("{}.{}", self.path, String::from_utf8_lossy(&key.name())));
            }
            return self.object(value.members().filter(|(key, _)| !is_beside(*key)));
        };
        self.open.push(reference);
        self.room -= definition.bytes().len();
        let own = |(key, _): &(Raw<'a>, Raw<'a>)| *key.name() != *REF;
        let is_overridden = |key: Raw<'_>| value.member(&key.name()).is_some();
        let inherited = definition.members().filter(|(key, _)| !is_overridden(*key));
        self.object(inherited.chain(value.members().filter(own)));
        self.open.pop();
    }

    /// Members of a schema.
    fn object(&mut self, members: impl Iterator<Item = (Raw<'a>, Raw<'a>)>) {
        self.out.put_u8(b'{');
        for (key, value) in members {
            push_key(&mut self.out, key.bytes());
            match &*key.name() {
                // Names of the client's choosing, each with a schema.
                b"properties" | b"patternProperties" | b"$defs" | b"definitions" | b"dependentSchemas"
                    if value.is_object() =>
                {
                    self.named(value);
                }
                b"const" | b"enum" | b"default" | b"examples" | b"example" => self.out.put_slice(value.bytes()),
                _ => self.schema(value),
            }
        }
        self.out.put_u8(b'}');
    }

    fn named(&mut self, schemas: Raw<'a>) {
        self.out.put_u8(b'{');
        for (name, schema) in schemas.members() {
            push_key(&mut self.out, name.bytes());
            self.schema(schema);
        }
        self.out.put_u8(b'}');
    }

    /// The definition that may take the place of a reference to it.
    fn definition(&self, reference: &'a str) -> Option<Raw<'a>> {
        if self.open.contains(&reference) || self.open.len() >= MAX_DEPTH {
            return None;
        }
        let mut found = self.root;
        for name in reference.strip_prefix("#/")?.split('/') {
            found = found.member(name.replace("~1", "/").replace("~0", "~").as_bytes())?;
        }
        let fits = found.is_object() && found.member(REF).is_none() && found.bytes().len() <= self.room;
        fits.then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(schema: &Value) -> (Value, Vec<String>) {
        let text = schema.to_string();
        let mut unsupported = UnsupportedFields::default();
        let written = with_lone_references(Raw::whole(&text).unwrap(), "s", &mut unsupported);
        let dropped = unsupported.dropped().iter().map(|name| name.to_string()).collect();
        (serde_json::from_slice(&written).unwrap(), dropped)
    }

    #[test]
    fn a_definition_takes_the_place_of_a_reference_with_other_members() {
        let option = json!({"type": "string", "enum": ["a", "b"], "description": "general"});
        let described = json!({"$ref": "#/$defs/Opt", "description": "special"});
        let schema = json!({
            "type": "object", "$defs": {"Opt": option, "List": {"type": "array", "items": described}},
            "properties": {
                "a": described, "b": {"type": "array", "items": described}, "c": {"anyOf": [described, {"type": "null"}]},
                "d": {"$ref": "#/$defs/List", "title": "t"}, "$ref": {"type": "string"}, "e": {"$ref": "#/$defs/Opt"},
                "f": {"enum": [described]},
            },
        });
        let here = json!({"type": "string", "enum": ["a", "b"], "description": "special"});
        let expected = json!({
            "type": "object", "$defs": {"Opt": option, "List": {"type": "array", "items": here}},
            "properties": {
                "a": here, "b": {"type": "array", "items": here}, "c": {"anyOf": [here, {"type": "null"}]},
                "d": {"type": "array", "items": here, "title": "t"}, "$ref": {"type": "string"}, "e": {"$ref": "#/$defs/Opt"},
                "f": {"enum": [described]},
            },
        });
        assert_eq!(written(&schema), (expected, vec![]));
    }

    #[test]
    fn a_reference_whose_definition_cannot_stand_there_stays_alone_and_what_is_lost_is_named() {
        let node = |next: Value| json!({"type": "object", "properties": {"next": next}});
        let described = json!({"$ref": "#/$defs/Node", "description": "x"});
        let alone = json!({"$ref": "#/$defs/Node"});
        let (out, dropped) = written(&json!({"$defs": {"Node": node(described.clone())}, "items": described}));
        let mut inner = node(alone);
        assert_eq!(out["$defs"]["Node"]["properties"]["next"]["properties"]["next"], inner["properties"]["next"]);
        inner["description"] = json!("x");
        assert_eq!((&out["items"], dropped), (&inner, vec!["s.description".to_owned()]));
        for elsewhere in ["#", "#/$defs/None", "https://a.example/schema", "#/$defs/Other"] {
            let schema = json!({"$defs": {"Other": {"$ref": "#/$defs/None"}}, "not": {"$ref": elsewhere, "title": "t", "$comment": "c"}});
            let (out, dropped) = written(&schema);
            assert_eq!(
                (&out["not"], dropped),
                (&json!({"$ref": elsewhere, "$comment": "c"}), vec!["s.title".to_owned()])
            );
        }
    }

    #[test]
    fn definitions_that_multiply_are_copied_only_up_to_a_limit() {
        let mut definitions = serde_json::Map::new();
        for n in 0..40 {
            let next = json!({"$ref": format!("#/$defs/D{}", n + 1), "title": "t"});
            let fields: serde_json::Map<String, Value> = (0..20).map(|k| (format!("p{k}"), next.clone())).collect();
            definitions.insert(format!("D{n}"), json!({"type": "object", "properties": fields}));
        }
        definitions.insert("D40".to_owned(), json!({"type": "string"}));
        let schema = json!({"$defs": definitions, "$ref": "#/$defs/D0", "title": "t"});
        let (out, dropped) = written(&schema);
        assert!(out.to_string().len() < schema.to_string().len() + 3 * MAX_COPIED);
        assert_eq!(dropped, ["s.title"]);
    }
}
