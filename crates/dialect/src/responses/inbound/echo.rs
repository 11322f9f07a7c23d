//! What every response object repeats of its request.

use bytes::{Bytes, BytesMut};

use crate::{
    json::{Raw, Splice, SpliceAction, push_member},
    neutral::json_value,
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
/// Members that every function in `tools` has; null where the request has none.
const OF_FUNCTIONS: [&str; 3] = ["description", "parameters", "strict"];

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
            match given {
                Some(tools) if name == "tools" && tools.is_filled() => {
                    let mut splice = Splice::new(tools.written());
                    complete_tools(tools, &mut splice);
                    push_member(&mut out, b"tools", &splice.finish());
                }
                _ => push_member(&mut out, name.as_bytes(), given.map_or(default.as_bytes(), Raw::bytes)),
            }
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
            let object = std::str::from_utf8(&object).ok().and_then(json_value);
            for (key, value) in object.into_iter().flat_map(Raw::members).filter(|(key, _)| !has(&key.name())) {
                push_member(&mut out, key.inner(), value.bytes());
            }
        }
        out
    }

    /// The value of a member; `None` if a response repeats none of that name.
    pub(in crate::responses) fn member(&self, name: &[u8]) -> Option<Vec<u8>> {
        let object = [b"{", self.members.get(1..).unwrap_or_default(), b"}"].concat();
        let object = json_value(std::str::from_utf8(&object).ok()?)?;
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

/// Gives the functions in a list of tools the members that clients expect of each.
pub(in crate::responses) fn complete_tools<'a>(tools: Raw<'a>, splice: &mut Splice<'a>) {
    splice.elements(tools, |tool, splice| {
        match tool.member(b"type").and_then(Raw::text).as_deref() {
            Some("function") => {
                let lacks = OF_FUNCTIONS.iter().filter(|name| tool.member(name.as_bytes()).is_none());
                let missing: Vec<String> = lacks.map(|name| format!("\"{name}\":null")).collect();
                if !missing.is_empty() {
                    splice.add_first(tool, missing.join(",").as_bytes());
                }
            }
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

impl Default for ResponseEcho {
    fn default() -> ResponseEcho {
        ResponseEcho::new(&[], Namespaces::default())
    }
}
