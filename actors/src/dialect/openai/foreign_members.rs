//! Chat bodies for endpoints that refuse what OpenAI's own chat has not.
//!
//! Marks of the prompt cache and sealed reasoning travel inside messages, where no parameter of the endpoint controls them.
//! Some providers refuse a message with a member that they do not know.

use bytes::Bytes;

use crate::{
    dialect::json::{Fate, Raw, Splice, object},
    domain::{Catalog, Endpoint},
};

const CACHE_CONTROL: &[u8] = b"cache_control";
const REASONING_DETAILS: &[u8] = b"reasoning_details";

/// A body without members that the endpoint does not know.
pub(crate) struct PlainChat {
    pub(crate) body: Bytes,
    /// Marks of the cache were cut.
    pub(crate) without_marks: bool,
    /// Reasoning of earlier turns was cut.
    pub(crate) without_reasoning: bool,
}

/// Cuts reasoning of earlier turns where the endpoint does not know it, and of a body that the gateway wrote for a client of
/// another dialect also marks of the cache where the endpoint does not list `cache_control`. `None` if there is nothing to cut.
pub(crate) fn plain_chat(body: &str, is_foreign: bool, catalog: &Catalog, endpoint: &Endpoint) -> Option<PlainChat> {
    let lists = |name| catalog.parameters.lists(endpoint.parameters, name);
    let has = |name: &[u8]| memchr::memmem::find(body.as_bytes(), name).is_some();
    let cuts_marks = is_foreign && !lists("cache_control");
    let cuts_reasoning = endpoint.wants_reasoning_effort || is_foreign && !lists("reasoning");
    if !(cuts_marks && has(CACHE_CONTROL) || cuts_reasoning && has(REASONING_DETAILS)) {
        return None;
    }
    let mut cutter = Cutter { splice: Splice::new(body), cuts_marks, cuts_reasoning, marks: false, reasoning: false };
    cutter.body(object(body).ok()?);
    let Cutter { splice, marks, reasoning, .. } = cutter;
    (marks || reasoning).then(|| PlainChat {
        body: splice.finish(),
        without_marks: marks,
        without_reasoning: reasoning,
    })
}

struct Cutter<'a> {
    splice: Splice<'a>,
    cuts_marks: bool,
    cuts_reasoning: bool,
    /// What was cut.
    marks: bool,
    reasoning: bool,
}

impl<'a> Cutter<'a> {
    fn body(&mut self, body: Raw<'a>) {
        let Cutter { splice, cuts_marks, cuts_reasoning, marks, reasoning } = self;
        let mut fate_of = |key: Raw<'a>, is_message: bool| match &*key.name() {
            CACHE_CONTROL if *cuts_marks => {
                *marks = true;
                Fate::Cut
            }
            REASONING_DETAILS if *cuts_reasoning && is_message => {
                *reasoning = true;
                Fate::Cut
            }
            _ => Fate::Kept,
        };
        splice.members(body, |key, list, splice| {
            let is_messages = *key.name() == *b"messages";
            if (is_messages || *key.name() == *b"tools") && list.is_array() {
                splice.elements(list, |element, splice| {
                    splice.members(element, |key, value, splice| {
                        if is_messages && *key.name() == *b"content" && value.is_array() {
                            splice.elements(value, |part, splice| {
                                splice.members(part, |key, _, _| fate_of(key, false));
                                Fate::Kept
                            });
                        }
                        fate_of(key, is_messages)
                    });
                    Fate::Kept
                });
            }
            fate_of(key, false)
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn cut(body: &Value) -> Value {
        let text = body.to_string();
        let mut cutter = Cutter {
            splice: Splice::new(&text),
            cuts_marks: true,
            cuts_reasoning: true,
            marks: false,
            reasoning: false,
        };
        cutter.body(object(&text).unwrap());
        serde_json::from_slice(&cutter.splice.finish()).unwrap()
    }

    #[test]
    fn members_of_that_name_are_cut_only_where_chat_would_not_have_them() {
        let mark = json!({"type": "ephemeral"});
        let body = json!({
            "model": "m", "cache_control": mark, "metadata": {"cache_control": "a", "reasoning_details": "b"},
            "messages": [
                {"role": "system", "content": [{"cache_control": mark, "type": "text", "text": "cache_control"}]},
                {"role": "assistant", "content": null, "reasoning_details": [{"type": "reasoning.text"}],
                 "tool_calls": [{"id": "t", "function": {"name": "cache_control", "arguments": "{\"cache_control\":1}"}}]},
                {"role": "tool", "tool_call_id": "t", "content": "reasoning_details", "cache_control": mark},
                "odd", {"content": 1}
            ],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"cache_control": {}}}}, "cache_control": mark}],
        });
        let mut expected = body.clone();
        for path in ["", "/messages/0/content/0", "/messages/2", "/tools/0"] {
            expected.pointer_mut(path).unwrap().as_object_mut().unwrap().remove("cache_control");
        }
        expected["messages"][1].as_object_mut().unwrap().remove("reasoning_details");
        assert_eq!(cut(&body), expected);
        assert_eq!(cut(&expected), expected, "a second pass finds nothing");
        for odd in [json!({}), json!({"messages": 1, "tools": {"cache_control": 1}}), json!({"messages": [[], 1]})] {
            assert_eq!(cut(&odd), odd);
        }
    }
}
