//! Chat bodies without what their endpoint must not get or would refuse inside messages.
//!
//! Marks of the prompt cache and sealed reasoning travel inside messages, where no parameter of the endpoint controls them.
//! Sealed reasoning is of use to the provider that sealed it only. And a body that the gateway wrote for a client of another
//! dialect has members that chat itself has not: some providers refuse a message with a member that they do not know.

use bytes::Bytes;

use crate::{
    dialect::json::{Fate, Raw, Splice, object},
    domain::{Catalog, Dialect, Endpoint, Provider, ReasoningFormat},
};

const CACHE_CONTROL: &[u8] = b"cache_control";
const REASONING_DETAILS: &[u8] = b"reasoning_details";
/// Marks of the cache by the place where they stand.
const OF_PART: &str = "messages[].content[].cache_control";
const OF_MESSAGE: &str = "messages[].cache_control";
const OF_TOOL: &str = "tools[].cache_control";

/// A body without members that the endpoint does not know.
pub(crate) struct PlainChat {
    pub(crate) body: Bytes,
    /// Places of marks of the cache that were cut, each once.
    pub(crate) cut_marks: Vec<&'static str>,
    /// Reasoning of earlier turns was cut.
    pub(crate) without_reasoning: bool,
}

/// Cuts sealed reasoning of other providers, and all reasoning of earlier turns where the endpoint does not know it. Of a body
/// that was `written` for a client of another dialect, also marks of the cache where the endpoint does not list
/// `cache_control`. `None` if there is nothing to cut.
pub(crate) fn plain_chat(body: &[u8], catalog: &Catalog, endpoint: &Endpoint, written: bool) -> Option<PlainChat> {
    let lists = |name| catalog.parameters.lists(endpoint.parameters, name);
    let has = |name: &[u8]| memchr::memmem::find(body, name).is_some();
    let cuts_marks = written && !lists("cache_control");
    let cuts_reasoning = endpoint.wants_reasoning_effort || written && !lists("reasoning");
    if !(cuts_marks && has(CACHE_CONTROL) || has(REASONING_DETAILS)) {
        return None;
    }
    let body = std::str::from_utf8(body).ok()?;
    let mut cutter = Cutter {
        splice: Splice::new(body),
        cuts_marks,
        cuts_reasoning,
        foreign: foreign_formats(catalog, endpoint),
        marks: Vec::new(),
        reasoning: false,
    };
    cutter.body(object(body).ok()?);
    let Cutter { splice, marks, reasoning, .. } = cutter;
    (!marks.is_empty() || reasoning).then(|| PlainChat {
        body: splice.finish(),
        cut_marks: marks,
        without_reasoning: reasoning,
    })
}

/// Formats of sealed reasoning that another provider of the catalog issues, and that the model of the endpoint does not
/// understand. Reasoning in another format can only come from a chat endpoint, such as this one.
fn foreign_formats(catalog: &Catalog, endpoint: &Endpoint) -> Vec<ReasoningFormat> {
    let maker = catalog.model_of(endpoint).and_then(|model| model.id.as_str().split_once('/')).map(|(maker, _)| maker);
    let is_issued = |dialect: Dialect| {
        let mut others = catalog.endpoints.iter().filter(|other| other.provider != endpoint.provider);
        others.any(|other| other.dialect == dialect && catalog.provider_of(other).is_some_and(Provider::is_on))
    };
    // Reasoning of OpenAI is bound to an organisation: no other provider of its models understands it.
    let formats = [
        (ReasoningFormat::Anthropic, Dialect::Anthropic, Some("anthropic")),
        (ReasoningFormat::Gemini, Dialect::Gemini, Some("google")),
        (ReasoningFormat::Responses, Dialect::Responses, None),
    ];
    let foreign = formats.into_iter().filter(|(_, dialect, of)| (of.is_none() || *of != maker) && is_issued(*dialect));
    foreign.map(|(format, ..)| format).collect()
}

struct Cutter<'a> {
    splice: Splice<'a>,
    cuts_marks: bool,
    cuts_reasoning: bool,
    /// Formats of sealed reasoning that the endpoint must not get.
    foreign: Vec<ReasoningFormat>,
    /// What was cut.
    marks: Vec<&'static str>,
    reasoning: bool,
}

impl<'a> Cutter<'a> {
    fn body(&mut self, body: Raw<'a>) {
        let Cutter { splice, cuts_marks, cuts_reasoning, foreign, marks, reasoning } = self;
        let is_foreign = |detail: Raw<'a>| *cuts_reasoning || is_foreign(detail, foreign);
        let mut fate_of = |key: Raw<'a>, place, details: Option<Raw<'a>>, splice: &mut Splice<'a>| match &*key.name() {
            CACHE_CONTROL if *cuts_marks => {
                if !marks.contains(&place) {
                    marks.push(place);
                }
                Fate::Cut
            }
            REASONING_DETAILS => {
                let Some(details) = details.filter(|details| *cuts_reasoning || details.is_array()) else {
                    return Fate::Kept;
                };
                let any_foreign = *cuts_reasoning || details.elements().any(is_foreign);
                *reasoning |= any_foreign;
                if any_foreign && details.elements().all(is_foreign) {
                    return Fate::Cut;
                }
                splice.elements(details, |detail, _| if is_foreign(detail) { Fate::Cut } else { Fate::Kept });
                Fate::Kept
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
                                splice.members(part, |key, _, splice| fate_of(key, OF_PART, None, splice));
                                Fate::Kept
                            });
                        }
                        let place = if is_messages { OF_MESSAGE } else { OF_TOOL };
                        fate_of(key, place, is_messages.then_some(value), splice)
                    });
                    Fate::Kept
                });
            }
            fate_of(key, "cache_control", None, splice)
        });
    }
}

/// Whether an element of `reasoning_details` is sealed in one of these formats.
fn is_foreign(detail: Raw<'_>, formats: &[ReasoningFormat]) -> bool {
    let is_sealed =
        [&b"signature"[..], b"data"].into_iter().any(|name| detail.member(name).is_some_and(|it| !it.is_null()));
    let format = detail.member(b"format").and_then(Raw::text);
    is_sealed && format.is_some_and(|format| formats.contains(&ReasoningFormat::named(&format)))
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
            foreign: Vec::new(),
            marks: Vec::new(),
            reasoning: false,
        };
        cutter.body(object(&text).unwrap());
        serde_json::from_slice(&cutter.splice.finish()).unwrap()
    }

    #[test]
    fn sealed_reasoning_of_foreign_formats_is_cut_and_all_other_reasoning_stays() {
        use ReasoningFormat::{Anthropic, Gemini, Responses};
        let of = |format: &str| json!({"type": "reasoning.text", "text": "hm", "signature": "c2ln", "format": format});
        let plain = json!({"type": "reasoning.text", "text": "hm", "format": "anthropic-claude-v1", "signature": null});
        let state = json!({"type": "reasoning.encrypted", "data": "AbC=", "format": "google-gemini-v1"});
        let message =
            |details: Value| json!({"messages": [{"role": "assistant", "content": "a", "reasoning_details": details}]});
        let cut = |details: Value, foreign: &[ReasoningFormat]| {
            let text = message(details).to_string();
            let mut cutter = Cutter {
                splice: Splice::new(&text),
                cuts_marks: false,
                cuts_reasoning: false,
                foreign: foreign.to_vec(),
                marks: Vec::new(),
                reasoning: false,
            };
            cutter.body(object(&text).unwrap());
            (serde_json::from_slice::<Value>(&cutter.splice.finish()).unwrap(), cutter.reasoning)
        };
        let all = json!([of("anthropic-claude-v1"), plain, state, of("unknown"), of("openai-responses-v1")]);
        assert_eq!(cut(all.clone(), &[Anthropic, Gemini, Responses]), (message(json!([plain, of("unknown")])), true));
        let own = json!([of("anthropic-claude-v1"), plain, of("unknown")]);
        assert_eq!(cut(all.clone(), &[Gemini, Responses]), (message(own), true));
        assert_eq!(cut(all.clone(), &[]), (message(all), false));
        assert_eq!(
            cut(json!([state]), &[Gemini]),
            (json!({"messages": [{"role": "assistant", "content": "a"}]}), true)
        );
        for same in [json!([plain]), json!([]), json!("odd"), json!([1, {}])] {
            assert_eq!(cut(same.clone(), &[Anthropic]), (message(same), false));
        }
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
