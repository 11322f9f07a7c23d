//! What every response object repeats of its request.

use bytes::{Bytes, BytesMut};

use super::tools::declaration;
use crate::{
    json::{Raw, Splice, SpliceAction, push_member},
    responses::namespaces::Namespaces,
};

/// Members of a response object that repeat those of the request, and their values if the request has none. `store` says what
/// is done, not what was wished.
const ECHOED: [(&str, &str); 22] = [
    ("background", "false"),
    ("frequency_penalty", "0.0"),
    ("instructions", "null"),
    ("max_output_tokens", "null"),
    ("max_tool_calls", "null"),
    ("metadata", "{}"),
    ("parallel_tool_calls", "true"),
    ("presence_penalty", "0.0"),
    ("previous_response_id", "null"),
    ("prompt_cache_key", "null"),
    ("reasoning", "{\"effort\":null,\"summary\":null}"),
    ("safety_identifier", "null"),
    ("service_tier", "\"auto\""),
    ("store", "false"),
    ("temperature", "1.0"),
    ("text", "{\"format\":{\"type\":\"text\"}}"),
    ("tool_choice", "\"auto\""),
    ("tools", "[]"),
    ("top_logprobs", "0"),
    ("top_p", "1.0"),
    ("truncation", "\"disabled\""),
    ("user", "null"),
];
/// Members whose value is the same for every request here.
const FIXED: [&str; 4] = ["background", "previous_response_id", "store", "truncation"];
/// Members that every function in `tools` has, and their values if the request has none.
const OF_FUNCTIONS: [(&str, &str); 3] = [("description", "null"), ("parameters", "null"), ("strict", "null")];
const OF_REASONING: [(&str, &str); 2] = [("effort", "null"), ("summary", "null")];
const OF_TEXT: [(&str, &str); 1] = [("format", TEXT_FORMAT)];
const OF_SCHEMAS: [(&str, &str); 3] = [("description", "null"), ("schema", "null"), ("strict", "false")];
const TEXT_FORMAT: &str = "{\"type\":\"text\"}";

/// What an answer repeats of its request, and the names that its calls are turned back to. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ResponseEcho {
    /// Members of the response object, each after a comma.
    members: Bytes,
    namespaces: std::sync::Arc<Namespaces>,
}

impl ResponseEcho {
    pub(super) fn new(members: &[(Raw<'_>, Raw<'_>)], namespaces: Namespaces) -> ResponseEcho {
        let mut out = BytesMut::new();
        for (name, default) in ECHOED {
            let given = members.iter().find(|(key, _)| *key.name() == *name.as_bytes() && !FIXED.contains(&name));
            let given = given.map(|(_, value)| *value).filter(|value| !value.is_null());
            let Some(given) = given else {
                push_member(&mut out, name.as_bytes(), default.as_bytes());
                continue;
            };
            let mut splice = Splice::new(given.written());
            complete(name.as_bytes(), given, &mut splice);
            push_member(&mut out, name.as_bytes(), &splice.finish());
        }
        ResponseEcho { members: out.freeze(), namespaces: std::sync::Arc::new(namespaces) }
    }

    /// The members, each after a comma.
    pub(in crate::responses) fn members(&self) -> &[u8] {
        &self.members
    }

    /// The members that a response lacks, each behind a comma.
    pub(in crate::responses) fn members_but(&self, has: impl Fn(&[u8]) -> bool) -> BytesMut {
        let mut out = BytesMut::new();
        if ECHOED.iter().any(|(name, _)| !has(name.as_bytes())) {
            let object = [b"{", self.members.get(1..).unwrap_or_default(), b"}"].concat();
            let object = Raw::whole_of(&object);
            for (key, value) in object.into_iter().flat_map(Raw::members).filter(|(key, _)| !has(&key.name())) {
                push_member(&mut out, key.inner(), value.bytes());
            }
        }
        out
    }

    /// The value of a member; `None` if a response repeats none of that name.
    pub(in crate::responses) fn member(&self, name: &[u8]) -> Option<Vec<u8>> {
        let object = [b"{", self.members.get(1..).unwrap_or_default(), b"}"].concat();
        let object = Raw::whole_of(&object)?;
        object.member(name).map(|value| value.bytes().to_vec())
    }

    /// The names of tools in namespaces.
    pub(in crate::responses) fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }
}

/// Whether null is a value of this member of a response object.
pub(in crate::responses) fn may_be_null(name: &[u8]) -> bool {
    ECHOED.iter().any(|(known, default)| *known.as_bytes() == *name && *default == "null")
}

/// Gives a member of a response object what clients expect within it, in the forms that they know.
pub(in crate::responses) fn complete<'a>(name: &[u8], value: Raw<'a>, splice: &mut Splice<'a>) {
    match name {
        b"reasoning" => add_missing(value, &OF_REASONING, splice),
        b"text" => {
            add_missing(value, &OF_TEXT, splice);
            value.member(b"format").into_iter().for_each(|format| complete_format(format, splice));
        }
        b"tools" => complete_tools(value, splice),
        b"tool_choice" => match flat(value) {
            Some(flat) => splice.replace(value, &flat),
            None => splice.members(value, |key, value, splice| {
                if *key.name() == *b"tools" {
                    let each = |tool, splice: &mut Splice<'a>| {
                        flat(tool).into_iter().for_each(|flat| splice.replace(tool, &flat));
                        SpliceAction::Kept
                    };
                    splice.elements(value, each);
                }
                SpliceAction::Kept
            }),
        },
        _ => {}
    }
}

fn complete_format<'a>(format: Raw<'a>, splice: &mut Splice<'a>) {
    if format.is_null() {
        return splice.replace(format, TEXT_FORMAT.as_bytes());
    }
    if format.member(b"type").is_none_or(|kind| kind.inner() != b"json_schema") {
        return;
    }
    add_missing(format, &OF_SCHEMAS, splice);
    if let Some(strict) = format.member(b"strict").filter(|strict| strict.is_null()) {
        splice.replace(strict, b"false");
    }
}

fn complete_tools<'a>(tools: Raw<'a>, splice: &mut Splice<'a>) {
    splice.elements(tools, |tool, splice| {
        match tool.kind().as_deref() {
            Some("function") => match flat(tool) {
                Some(flat) => {
                    let flat = String::from_utf8_lossy(&flat);
                    let mut completed = Splice::new(&flat);
                    Raw::whole(&flat)
                        .ok()
                        .into_iter()
                        .for_each(|tool| add_missing(tool, &OF_FUNCTIONS, &mut completed));
                    splice.replace(tool, &completed.finish());
                }
                None => add_missing(tool, &OF_FUNCTIONS, splice),
            },
            Some("custom") => flat(tool).into_iter().for_each(|flat| splice.replace(tool, &flat)),
            Some("namespace") => splice.members(tool, |key, value, splice| {
                if *key.name() == *b"tools" {
                    complete_tools(value, splice);
                }
                SpliceAction::Kept
            }),
            _ => {}
        }
        SpliceAction::Kept
    });
}

/// A tool, or the choice of one, in the form of this API; `None` if it has it.
fn flat(tool: Raw<'_>) -> Option<BytesMut> {
    let (kind, declared) = (tool.member(b"type")?, declaration(tool));
    let is_flat = declared.bytes().as_ptr() == tool.bytes().as_ptr();
    if is_flat && (declared.member(b"input_schema").is_none() || tool.kind().as_deref() != Some("function")) {
        return None;
    }
    let mut out = BytesMut::from(&b"{\"type\":"[..]);
    out.extend_from_slice(kind.bytes());
    for (key, value) in declared.members() {
        match &*key.name() {
            b"type" => {}
            b"input_schema" if declared.member(b"parameters").is_some() => {}
            b"input_schema" => push_member(&mut out, b"parameters", value.bytes()),
            b"format" => match value.member(b"grammar").filter(|grammar| grammar.is_filled()) {
                Some(grammar) => {
                    let format = [b"{\"type\":\"grammar\",", grammar.inner(), b"}"].concat();
                    push_member(&mut out, b"format", &format);
                }
                None => push_member(&mut out, b"format", value.bytes()),
            },
            _ => push_member(&mut out, key.inner(), value.bytes()),
        }
    }
    out.extend_from_slice(b"}");
    Some(out)
}

/// Adds members that an object lacks. Nothing happens to anything else.
fn add_missing<'a>(object: Raw<'a>, members: &[(&str, &str)], splice: &mut Splice<'a>) {
    let lacks = |name: &str| object.is_object() && object.member(name.as_bytes()).is_none();
    let missing = members.iter().filter(|(name, _)| lacks(name)).map(|(name, value)| format!("\"{name}\":{value}"));
    let missing: Vec<String> = missing.collect();
    if !missing.is_empty() {
        splice.add_first(object, missing.join(",").as_bytes());
    }
}

impl Default for ResponseEcho {
    fn default() -> ResponseEcho {
        ResponseEcho::new(&[], Namespaces::default())
    }
}
