//! What every response object repeats of its request.

use bytes::{Bytes, BytesMut};

use crate::dialect::{
    json::{Raw, push_member},
    responses::namespaces::Namespaces,
};

/// Members of a response object that repeat those of the request, and their values if the request has none. `store` says what
/// is done, not what was wished.
const ECHOED: [(&str, &str); 20] = [
    ("background", "false"),
    ("instructions", "null"),
    ("max_output_tokens", "null"),
    ("max_tool_calls", "null"),
    ("metadata", "{}"),
    ("parallel_tool_calls", "true"),
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

/// What an answer repeats of its request, and the names that its calls are turned back to. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ResponseEcho {
    /// Members of the response object, each after a comma.
    members: Bytes,
    namespaces: std::sync::Arc<Namespaces>,
}

impl ResponseEcho {
    pub(super) fn of(members: &[(Raw<'_>, Raw<'_>)], namespaces: Namespaces) -> ResponseEcho {
        let mut out = BytesMut::new();
        for (name, default) in ECHOED {
            let given = members.iter().find(|(key, _)| *key.name() == *name.as_bytes() && !FIXED.contains(&name));
            push_member(&mut out, name.as_bytes(), given.map_or(default.as_bytes(), |(_, value)| value.bytes()));
        }
        ResponseEcho { members: out.freeze(), namespaces: std::sync::Arc::new(namespaces) }
    }

    /// The members, each after a comma.
    pub(in crate::dialect::responses) fn members(&self) -> &[u8] {
        &self.members
    }

    /// The names of tools in namespaces.
    pub(in crate::dialect::responses) fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }
}

impl Default for ResponseEcho {
    fn default() -> ResponseEcho {
        ResponseEcho::of(&[], Namespaces::default())
    }
}
