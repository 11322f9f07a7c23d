//! Chat bodies without what their endpoint must not get or would refuse inside messages.
//!
//! Marks of the prompt cache and sealed reasoning travel inside messages, where no parameter of the endpoint controls them.
//! Sealed reasoning is of use to the provider that sealed it only. And a body that the gateway wrote for a client of another
//! dialect has members that chat itself has not: some providers refuse a message with a member that they do not know.

use bytes::{Bytes, BytesMut};
use pointsman_domain::{Catalog, Dialect, Endpoint, Provider, ReasoningFormat, ReasoningHistory};

use crate::{
    json::{Raw, Splice, SpliceAction, object},
    openai::request::ChatExtras,
};

const CACHE_CONTROL: &[u8] = b"cache_control";
const REASONING_DETAILS: &[u8] = b"reasoning_details";
/// Members of a message that hold reasoning, each with its name in headers: one is also that of a parameter.
const REASONING: [(&str, &str); 3] = [
    ("reasoning_content", "reasoning_content"),
    ("reasoning", "messages[].reasoning"),
    ("reasoning_details", "reasoning_details"),
];
/// Marks of the cache by the place where they stand.
const OF_PART: &str = "messages[].content[].cache_control";
const OF_MESSAGE: &str = "messages[].cache_control";
const OF_TOOL: &str = "tools[].cache_control";

/// A body without members that the endpoint does not know.
pub(crate) struct PlainChat {
    pub(crate) body: Bytes,
    /// Places of marks of the cache that were cut, each once.
    pub(crate) cut_breakpoints: Vec<&'static str>,
    /// Reasoning of earlier turns that was cut, each name once.
    pub(crate) cut_reasoning: Vec<&'static str>,
}

/// Cuts sealed reasoning of other providers, and all reasoning of earlier turns where the endpoint does not know it; readable
/// reasoning of chat providers gets into the member in which the endpoint takes it back. Of a body that was `written` for a
/// client of another dialect, also marks of the cache where the endpoint does not list `cache_control`. `None` if nothing
/// changes.
pub(crate) fn plain_chat(
    body: &[u8],
    extras: ChatExtras,
    catalog: &Catalog,
    endpoint: &Endpoint,
    written: bool,
) -> Option<PlainChat> {
    let lists = |name| catalog.parameters.lists(endpoint.parameters, name);
    let cuts_breakpoints = written && !lists("cache_control");
    let targets = match endpoint.reasoning_history {
        ReasoningHistory::Unknown | ReasoningHistory::Details => None,
        ReasoningHistory::Content | ReasoningHistory::Required => Some(&["reasoning_content"][..]),
        ReasoningHistory::Reasoning => Some(&["reasoning"][..]),
        ReasoningHistory::Both => Some(&["reasoning_content", "reasoning"][..]),
        ReasoningHistory::Nothing => Some(&[][..]),
    };
    let knows_details = endpoint.reasoning_history == ReasoningHistory::Details || !endpoint.wants_reasoning_effort;
    let cuts_reasoning = !knows_details || written && !lists("reasoning");
    let has_reasoning = extras.reasoning_details || extras.reasoning && targets.is_some();
    let fills = endpoint.reasoning_history == ReasoningHistory::Required;
    if !(cuts_breakpoints && extras.cache_breakpoints || has_reasoning || fills) {
        return None;
    }
    let body = std::str::from_utf8(body).ok()?;
    let mut cutter = Cutter {
        splice: Splice::new(body),
        cuts_breakpoints,
        cuts_reasoning,
        targets,
        fills,
        foreign: foreign_formats(catalog, endpoint),
        is_changed: false,
        breakpoints: Vec::new(),
        reasoning: Vec::new(),
    };
    cutter.body(object(body).ok()?);
    let Cutter { splice, is_changed, breakpoints, reasoning, .. } = cutter;
    (is_changed || !breakpoints.is_empty() || !reasoning.is_empty()).then(|| PlainChat {
        body: splice.finish(),
        cut_breakpoints: breakpoints,
        cut_reasoning: reasoning,
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
    cuts_breakpoints: bool,
    cuts_reasoning: bool,
    /// The members in which the endpoint takes back readable reasoning; `None` if nothing is known.
    targets: Option<&'static [&'static str]>,
    /// Whether the endpoint misses readable reasoning in an answer that has none.
    fills: bool,
    /// Formats of sealed reasoning that the endpoint must not get.
    foreign: Vec<ReasoningFormat>,
    /// Whether reasoning is in another member now.
    is_changed: bool,
    /// What was cut.
    breakpoints: Vec<&'static str>,
    reasoning: Vec<&'static str>,
}

impl<'a> Cutter<'a> {
    fn body(&mut self, body: Raw<'a>) {
        let Cutter {
            splice,
            cuts_breakpoints,
            cuts_reasoning,
            targets,
            fills,
            foreign,
            is_changed,
            breakpoints,
            reasoning,
        } = self;
        let is_foreign = |detail: Raw<'a>| *cuts_reasoning || is_foreign(detail, foreign);
        let mut fate_of = |key: Raw<'a>, place| match &*key.name() {
            CACHE_CONTROL if *cuts_breakpoints => {
                note(place, breakpoints);
                SpliceAction::Cut
            }
            _ => SpliceAction::Kept,
        };
        splice.members(body, |key, list, splice| {
            let is_messages = *key.name() == *b"messages";
            if (is_messages || *key.name() == *b"tools") && list.is_array() {
                splice.elements(list, |element, splice| {
                    let returned = targets
                        .filter(|_| is_messages)
                        .and_then(|targets| Returned::of(element, targets, *fills && is_answer(element)));
                    if let Some(Returned { member, lost }) = &returned {
                        *is_changed = true;
                        lost.iter().for_each(|name| note(name, reasoning));
                        member.iter().for_each(|member| splice.add_first(element, member));
                    }
                    splice.members(element, |key, value, splice| {
                        if returned.is_some() && REASONING.iter().any(|(name, _)| *key.name() == *name.as_bytes()) {
                            return SpliceAction::Cut;
                        }
                        if is_messages && *key.name() == *b"content" && value.is_array() {
                            splice.elements(value, |part, splice| {
                                splice.members(part, |key, _, _| fate_of(key, OF_PART));
                                SpliceAction::Kept
                            });
                        }
                        if is_messages
                            && *key.name() == *REASONING_DETAILS
                            && (*cuts_reasoning || value.elements().any(is_foreign))
                        {
                            note("reasoning_details", reasoning);
                            if value.elements().all(is_foreign) {
                                return SpliceAction::Cut;
                            }
                            splice.elements(value, |detail, _| {
                                if is_foreign(detail) { SpliceAction::Cut } else { SpliceAction::Kept }
                            });
                        }
                        fate_of(key, if is_messages { OF_MESSAGE } else { OF_TOOL })
                    });
                    SpliceAction::Kept
                });
            }
            fate_of(key, "cache_control")
        });
    }
}

fn note(name: &'static str, names: &mut Vec<&'static str>) {
    if !names.contains(&name) {
        names.push(name);
    }
}

/// The reasoning of an earlier answer, for an endpoint that takes it back in some members or not at all.
struct Returned {
    /// These members, as JSON.
    member: Option<BytesMut>,
    /// Names of what the endpoint does not get.
    lost: Vec<&'static str>,
}

impl Returned {
    /// `None` if the message has none, or has it in the member that is the only target already. With `fills`, one without any gets
    /// a blank.
    fn of(message: Raw<'_>, targets: &[&'static str], fills: bool) -> Option<Returned> {
        let given = message
            .pick(REASONING.map(|(name, _)| name.as_bytes()))
            .map(|value| value.filter(|value| value.is_filled()));
        let [content, plain, details] = given;
        let there = || REASONING.iter().zip(given).filter(|(_, value)| value.is_some()).map(|(names, _)| *names);
        if there().all(|(name, _)| targets == [name]) && !(fills && content.is_none()) {
            return None;
        }
        if targets.is_empty() {
            return Some(Returned { member: None, lost: there().map(|(_, name)| name).collect() });
        }
        let texts: Vec<Option<Raw<'_>>> = details.into_iter().flat_map(Raw::elements).map(readable).collect();
        let is_foreign = !texts.is_empty() && texts.iter().all(Option::is_none);
        let whole = content.or(plain.filter(|_| !is_foreign)).and_then(Raw::filled_string);
        let mut text: Vec<&[u8]> = match whole {
            Some(whole) => vec![whole.inner()],
            None => texts.iter().flatten().map(|text| text.inner()).collect(),
        };
        if fills && text.is_empty() {
            text.push(b" ");
        }
        let member = (!text.is_empty()).then(|| {
            let text = text.concat();
            let mut members = BytesMut::new();
            for target in targets {
                members.extend_from_slice(if members.is_empty() { b"\"" } else { b",\"" });
                members.extend_from_slice(target.as_bytes());
                members.extend_from_slice(b"\":\"");
                members.extend_from_slice(&text);
                members.extend_from_slice(b"\"");
            }
            members
        });
        let is_lossy = texts.iter().any(Option::is_none);
        Some(Returned { member, lost: if is_lossy { vec!["reasoning_details"] } else { Vec::new() } })
    }
}

fn is_answer(message: Raw<'_>) -> bool {
    message.member(b"role").and_then(Raw::text).is_some_and(|role| role == "assistant")
}

/// The text of an element of `reasoning_details` that a provider of chats gave: reasoning of all others has a format.
fn readable(detail: Raw<'_>) -> Option<Raw<'_>> {
    let [text, summary, format] = detail.pick([b"text", b"summary", b"format"]);
    let is_bound = format.and_then(Raw::text).is_some_and(|format| ReasoningFormat::named(&format).is_bound());
    text.or(summary).filter(|text| text.is_string() && !is_bound)
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
            cuts_breakpoints: true,
            cuts_reasoning: true,
            targets: None,
            fills: false,
            foreign: Vec::new(),
            is_changed: false,
            breakpoints: Vec::new(),
            reasoning: Vec::new(),
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
                cuts_breakpoints: false,
                cuts_reasoning: false,
                targets: None,
                fills: false,
                foreign: foreign.to_vec(),
                is_changed: false,
                breakpoints: Vec::new(),
                reasoning: Vec::new(),
            };
            cutter.body(object(&text).unwrap());
            (serde_json::from_slice::<Value>(&cutter.splice.finish()).unwrap(), !cutter.reasoning.is_empty())
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
    fn readable_reasoning_of_chat_providers_gets_into_the_member_in_which_an_endpoint_takes_it_back() {
        let detail = |format: &str, text: &str| json!({"type": "reasoning.text", "format": format, "text": text});
        let (hm, so) = (detail("unknown", "h\"m"), detail("unknown", ", so"));
        let claude = detail("anthropic-claude-v1", "I");
        let (nothing, named): (&[&str], _) = (&[], "reasoning_details");
        let (content, plain): (&[&str], &[&str]) = (&["reasoning_content"], &["reasoning"]);
        let both: &[&str] = &["reasoning_content", "reasoning"];
        let sealed = json!({"type": "reasoning.encrypted", "data": "A"});
        let rows = [
            // Reasoning of the message, targets, what becomes of it, what is named.
            (json!({"reasoning_details": [hm, so]}), content, json!({"reasoning_content": "h\"m, so"}), ""),
            (json!({"reasoning": "x", "reasoning_details": [hm]}), content, json!({"reasoning_content": "x"}), ""),
            (json!({"reasoning": "x"}), content, json!({"reasoning_content": "x"}), ""),
            (json!({"reasoning_content": "x"}), content, json!({"reasoning_content": "x"}), ""),
            (json!({"reasoning_content": "x", "reasoning": "y"}), content, json!({"reasoning_content": "x"}), ""),
            (json!({"reasoning_content": "x"}), plain, json!({"reasoning": "x"}), ""),
            (json!({"reasoning_content": "x"}), both, json!({"reasoning_content": "x", "reasoning": "x"}), ""),
            (json!({"reasoning": "I", "reasoning_details": [claude]}), content, json!({}), named),
            (json!({"reasoning_details": [claude, hm]}), content, json!({"reasoning_content": "h\"m"}), named),
            (json!({"reasoning_details": [sealed]}), content, json!({}), named),
            (
                json!({"reasoning_content": "x", "reasoning": "x"}),
                nothing,
                json!({}),
                "reasoning_content,messages[].reasoning",
            ),
            (json!({"reasoning": null}), content, json!({"reasoning": null}), ""),
        ];
        for (given, targets, expected, named) in rows {
            for mut message in [json!({"role": "assistant", "content": "a"}), json!({"a": [], "tool_calls": []})] {
                let mut wanted = message.clone();
                message.as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
                wanted.as_object_mut().unwrap().extend(expected.as_object().unwrap().clone());
                let text = json!({"messages": [{"role": "user", "reasoning": {}}, message]}).to_string();
                let mut cutter = Cutter {
                    splice: Splice::new(&text),
                    cuts_breakpoints: true,
                    cuts_reasoning: true,
                    targets: Some(targets),
                    fills: false,
                    foreign: Vec::new(),
                    is_changed: false,
                    breakpoints: Vec::new(),
                    reasoning: Vec::new(),
                };
                cutter.body(object(&text).unwrap());
                assert_eq!(cutter.reasoning.join(","), named, "{text}");
                let out: Value = serde_json::from_slice(&cutter.splice.finish()).unwrap();
                assert_eq!(out["messages"][1], wanted, "{targets:?} {text}");
            }
        }
    }

    #[test]
    fn where_an_endpoint_misses_reasoning_every_answer_without_gets_a_blank() {
        let claude =
            json!([{"type": "reasoning.text", "format": "anthropic-claude-v1", "text": "I", "signature": "A"}]);
        let rows = [
            (json!({"role": "assistant", "tool_calls": []}), Some(" ")),
            (json!({"role": "assistant", "content": "a", "reasoning_content": null}), Some(" ")),
            (json!({"role": "assistant", "content": "a", "reasoning_content": ""}), Some(" ")),
            (json!({"role": "assistant", "content": "a", "reasoning_content": "x"}), Some("x")),
            (json!({"role": "assistant", "content": "a", "reasoning": "y"}), Some("y")),
            (json!({"role": "assistant", "content": "a", "reasoning_details": claude}), Some(" ")),
            (json!({"role": "user", "content": "a"}), None),
            (json!({"role": "tool", "content": "a"}), None),
        ];
        for (message, expected) in rows {
            let text = json!({"messages": [message]}).to_string();
            let mut cutter = Cutter {
                splice: Splice::new(&text),
                cuts_breakpoints: false,
                cuts_reasoning: true,
                targets: Some(&["reasoning_content"]),
                fills: true,
                foreign: Vec::new(),
                is_changed: false,
                breakpoints: Vec::new(),
                reasoning: Vec::new(),
            };
            cutter.body(object(&text).unwrap());
            let out = String::from_utf8(cutter.splice.finish().to_vec()).unwrap();
            let sent: Value = serde_json::from_str(&out).unwrap();
            assert_eq!(sent["messages"][0].get("reasoning_content").and_then(Value::as_str), expected, "{out}");
            assert!(out.matches("reasoning_content").count() <= 1, "{out}");
            assert!(sent["messages"][0].get("reasoning").is_none(), "{out}");
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
