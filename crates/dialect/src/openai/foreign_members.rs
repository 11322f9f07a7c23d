//! Reasoning of earlier turns in the form in which a chat endpoint takes it back.
//!
//! It travels inside messages, where no parameter of the endpoint controls it, and sealed reasoning is of use to the provider
//! that sealed it only.

use bytes::{Bytes, BytesMut};
use pointsman_domain::{Catalog, Dialect, Endpoint, Provider, ReasoningFormat, ReasoningHistory};

use crate::{
    json::{Raw, Splice, SpliceAction, object},
    openai::request::ChatExtras,
};

const REASONING_DETAILS: &[u8] = b"reasoning_details";
/// Members of a message that hold reasoning, each with its name in headers: one is also that of a parameter.
const REASONING: [(&str, &str); 3] = [
    ("reasoning_content", "reasoning_content"),
    ("reasoning", "messages[].reasoning"),
    ("reasoning_details", "reasoning_details"),
];

/// What an endpoint takes back of the reasoning of earlier turns.
pub(crate) struct ReturnedReasoning {
    /// Whether it knows no `reasoning_details`.
    pub(crate) cuts_details: bool,
    /// The members in which it takes back readable reasoning; `None` if nothing is known.
    pub(crate) targets: Option<&'static [&'static str]>,
    /// Whether it misses readable reasoning in an answer that has none.
    pub(crate) fills: bool,
    /// Formats of sealed reasoning that it must not get.
    foreign: Vec<ReasoningFormat>,
}

impl ReturnedReasoning {
    /// `has_details`: there is reasoning in `reasoning_details`.
    pub(crate) fn to(catalog: &Catalog, endpoint: &Endpoint, has_details: bool) -> ReturnedReasoning {
        let targets = match endpoint.reasoning_history {
            ReasoningHistory::Unknown | ReasoningHistory::Details => None,
            ReasoningHistory::Content | ReasoningHistory::Required => Some(&["reasoning_content"][..]),
            ReasoningHistory::Reasoning => Some(&["reasoning"][..]),
            ReasoningHistory::Both => Some(&["reasoning_content", "reasoning"][..]),
            ReasoningHistory::Nothing => Some(&[][..]),
        };
        let knows_details = endpoint.reasoning_history == ReasoningHistory::Details || !endpoint.wants_reasoning_effort;
        ReturnedReasoning {
            cuts_details: !knows_details,
            targets,
            fills: endpoint.reasoning_history == ReasoningHistory::Required,
            foreign: if has_details { foreign_formats(catalog, endpoint) } else { Vec::new() },
        }
    }

    /// Whether it does not get an element of `reasoning_details`.
    pub(crate) fn cuts(&self, format: Option<ReasoningFormat>, is_sealed: bool) -> bool {
        self.cuts_details || is_sealed && format.is_some_and(|format| self.foreign.contains(&format))
    }
}

/// Cuts sealed reasoning of other providers, and all reasoning of earlier turns where the endpoint does not know it; readable
/// reasoning of chat providers gets into the member in which the endpoint takes it back. Gives the body, and the names of what was
/// cut, each once; `None` if nothing changes.
pub(crate) fn plain_chat(
    body: &[u8],
    extras: ChatExtras,
    catalog: &Catalog,
    endpoint: &Endpoint,
) -> Option<(Bytes, Vec<&'static str>)> {
    let returned = ReturnedReasoning::to(catalog, endpoint, extras.reasoning_details);
    if !(extras.reasoning_details || extras.reasoning && returned.targets.is_some() || returned.fills) {
        return None;
    }
    let body = std::str::from_utf8(body).ok()?;
    let mut cutter = Cutter { splice: Splice::new(body), returned, is_changed: false, cut: Vec::new() };
    cutter.body(object(body).ok()?);
    let Cutter { splice, is_changed, cut, .. } = cutter;
    (is_changed || !cut.is_empty()).then(|| (splice.finish(), cut))
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
    returned: ReturnedReasoning,
    /// Whether reasoning is in another member now.
    is_changed: bool,
    /// What was cut.
    cut: Vec<&'static str>,
}

impl<'a> Cutter<'a> {
    fn body(&mut self, body: Raw<'a>) {
        let Cutter { splice, returned, is_changed, cut } = self;
        let is_foreign = |detail: Raw<'a>| is_cut(detail, returned);
        splice.members(body, |key, list, splice| {
            if *key.name() == *b"messages" {
                splice.elements(list, |message, splice| {
                    let moved = returned
                        .targets
                        .and_then(|targets| Returned::read(message, targets, returned.fills && is_answer(message)));
                    if let Some(Returned { member, lost }) = &moved {
                        *is_changed = true;
                        lost.iter().for_each(|name| note(name, cut));
                        member.iter().for_each(|member| splice.add_first(message, member));
                    }
                    splice.members(message, |key, value, splice| {
                        if moved.is_some() && REASONING.iter().any(|(name, _)| *key.name() == *name.as_bytes()) {
                            return SpliceAction::Cut;
                        }
                        if *key.name() == *REASONING_DETAILS
                            && (returned.cuts_details || value.elements().any(is_foreign))
                        {
                            note("reasoning_details", cut);
                            if value.elements().all(is_foreign) {
                                return SpliceAction::Cut;
                            }
                            splice.elements(value, |detail, _| {
                                if is_foreign(detail) { SpliceAction::Cut } else { SpliceAction::Kept }
                            });
                        }
                        SpliceAction::Kept
                    });
                    SpliceAction::Kept
                });
            }
            SpliceAction::Kept
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
    fn read(message: Raw<'_>, targets: &[&'static str], fills: bool) -> Option<Returned> {
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
                push!(members; target.as_bytes(), br#"":""#, text, br#"""#);
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

/// Whether the endpoint does not get an element of `reasoning_details`.
fn is_cut(detail: Raw<'_>, returned: &ReturnedReasoning) -> bool {
    let is_sealed =
        [&b"signature"[..], b"data"].into_iter().any(|name| detail.member(name).is_some_and(|it| !it.is_null()));
    let format = detail.member(b"format").and_then(Raw::text).map(|name| ReasoningFormat::named(&name));
    returned.cuts(format, is_sealed)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cutter<'a>(text: &'a str, returned: ReturnedReasoning) -> Cutter<'a> {
        let mut cutter = Cutter { splice: Splice::new(text), returned, is_changed: false, cut: Vec::new() };
        cutter.body(object(text).unwrap());
        cutter
    }

    fn to(targets: Option<&'static [&'static str]>, fills: bool) -> ReturnedReasoning {
        ReturnedReasoning { cuts_details: true, targets, fills, foreign: Vec::new() }
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
            let returned = ReturnedReasoning { cuts_details: false, foreign: foreign.to_vec(), ..to(None, false) };
            let cutter = cutter(&text, returned);
            let has_cut = !cutter.cut.is_empty();
            (serde_json::from_slice::<Value>(&cutter.splice.finish()).unwrap(), has_cut)
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
                let cutter = cutter(&text, to(Some(targets), false));
                assert_eq!(cutter.cut.join(","), named, "{text}");
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
            let cutter = cutter(&text, to(Some(&["reasoning_content"]), true));
            let out = String::from_utf8(cutter.splice.finish().to_vec()).unwrap();
            let sent: Value = serde_json::from_str(&out).unwrap();
            assert_eq!(sent["messages"][0].get("reasoning_content").and_then(Value::as_str), expected, "{out}");
            assert!(out.matches("reasoning_content").count() <= 1, "{out}");
            assert!(sent["messages"][0].get("reasoning").is_none(), "{out}");
        }
    }
}
