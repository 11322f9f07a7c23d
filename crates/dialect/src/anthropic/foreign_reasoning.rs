//! Reasoning of other providers in a body that an endpoint of this dialect gets as it came: cut, because their signatures are
//! the gateway's envelopes, which the endpoint refuses.

use bytes::Bytes;

use crate::{
    json::{Raw, Splice, SpliceAction, object},
    neutral::StateKey,
};

/// A body without reasoning of other providers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WithoutForeignReasoning {
    /// The body.
    pub(crate) body: Bytes,
    /// Whether `thinking` was cut too. A turn whose calls have just been answered must begin with reasoning of the endpoint
    /// itself as long as thinking has a budget, and this one does not any more.
    pub(crate) without_thinking: bool,
}

/// Cuts the reasoning of other providers, and messages that consist of nothing else. `None` if there is none, or if the body
/// is no JSON object.
pub(crate) fn without_foreign_reasoning(body: &str) -> Option<WithoutForeignReasoning> {
    memchr::memmem::find(body.as_bytes(), StateKey::PREFIX.as_bytes())?;
    let whole = object(body).ok()?;
    let list = whole.member(b"messages").filter(|list| list.is_array())?;
    let messages: Vec<Message<'_>> = list.elements().map(Message::read).collect();
    if !messages.iter().any(Message::has_foreign) {
        return None;
    }
    let kind = whole.member(b"thinking").and_then(|thinking| thinking.member(b"type")).and_then(Raw::text);
    let without_thinking = kind.as_deref() == Some("enabled") && is_open_turn_foreign(&messages);
    let mut splice = Splice::new(body);
    splice.members(whole, |key, value, splice| match &*key.name() {
        b"thinking" if without_thinking => SpliceAction::Cut,
        b"messages" if value.is_array() => {
            cut_messages(value, &messages, splice);
            SpliceAction::Kept
        }
        _ => SpliceAction::Kept,
    });
    Some(WithoutForeignReasoning { body: splice.finish(), without_thinking })
}

/// Cuts reasoning of other providers in a list of `messages`, and those that consist of nothing else.
fn cut_messages<'a>(list: Raw<'a>, messages: &[Message<'a>], splice: &mut Splice<'a>) {
    let mut messages = messages.iter();
    splice.elements(list, |element, splice| {
        let Some(message) = messages.next() else { return SpliceAction::Kept };
        if message.is_foreign() {
            return SpliceAction::Cut;
        }
        if let Some(content) = element.member(b"content").filter(|content| content.is_array()) {
            let mut blocks = message.blocks.iter();
            splice.elements(content, |_, _| match blocks.next() {
                Some((_, true)) => SpliceAction::Cut,
                _ => SpliceAction::Kept,
            });
        }
        SpliceAction::Kept
    });
}

struct Message<'a> {
    is_assistant: bool,
    /// The blocks, and whether each is reasoning of another provider.
    blocks: Vec<(Raw<'a>, bool)>,
}

impl<'a> Message<'a> {
    fn read(value: Raw<'a>) -> Message<'a> {
        let is_assistant = value.member(b"role").and_then(Raw::text).as_deref() == Some("assistant");
        let blocks = value.elements_of(b"content");
        let blocks = blocks.map(|block| (block, is_assistant && is_foreign(block))).collect();
        Message { is_assistant, blocks }
    }

    fn has_foreign(&self) -> bool {
        self.blocks.iter().any(|(_, is_foreign)| *is_foreign)
    }

    /// Whether there is nothing else in it.
    fn is_foreign(&self) -> bool {
        !self.blocks.is_empty() && self.blocks.iter().all(|(_, is_foreign)| *is_foreign)
    }

    fn answers_calls(&self) -> bool {
        self.blocks.iter().any(|(block, _)| block.kind().as_deref() == Some("tool_result"))
    }
}

/// Whether a block is reasoning whose signature, or whose data, is one of our envelopes.
fn is_foreign(block: Raw<'_>) -> bool {
    let name: &[u8] = match block.kind().as_deref() {
        Some("thinking") => b"signature",
        Some("redacted_thinking") => b"data",
        _ => return false,
    };
    block.member(name).and_then(Raw::text).is_some_and(|sealed| sealed.starts_with(StateKey::PREFIX))
}

/// Whether the last message answers calls, in a turn that has reasoning of another provider.
fn is_open_turn_foreign(messages: &[Message<'_>]) -> bool {
    let in_turn = |message: &&Message<'_>| message.is_assistant || message.answers_calls();
    messages.last().is_some_and(Message::answers_calls)
        && messages.iter().rev().take_while(in_turn).any(Message::has_foreign)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use pointsman_domain::ReasoningFormat;

    fn foreign() -> Value {
        let key = StateKey::new([1; 32]);
        json!({"type": "thinking", "thinking": "hm", "signature": key.seal(ReasoningFormat::Gemini, "AbC=")})
    }

    fn own() -> Value {
        json!({"type": "thinking", "thinking": "pm1.", "signature": "EqQB"})
    }

    fn call() -> Value {
        json!({"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1.0}})
    }

    fn body(thinking: &Value, messages: &[Value]) -> String {
        json!({"model": "m", "thinking": thinking, "messages": messages}).to_string()
    }

    #[test]
    fn a_body_without_foreign_thoughts_stays_as_it_is() {
        let same =
            body(&Value::Null, &[json!({"role": "assistant", "content": [own(), {"type": "text", "text": "pm1."}]})]);
        assert_eq!(without_foreign_reasoning(&same), None);
        for odd in ["", "pm1.", "[\"pm1.\"]", r#"{"messages":"pm1."}"#, r#"{"messages":[1,{"content":"pm1."}]}"#] {
            assert_eq!(without_foreign_reasoning(odd), None, "{odd}");
        }
    }

    #[test]
    fn foreign_thoughts_are_cut_and_nothing_else_is_touched() {
        let sealed = foreign()["signature"].as_str().unwrap().to_owned();
        let text = format!(
            r#" {{ "x" : 1.0, "messages" : [ {{"role":"user","content":"pm1."}} , {{"role":"assistant","content":[ {{"type":"thinking","thinking":"","signature":"{sealed}"}} , {{"type":"text","text":"\u00e9"}} , {{"type":"redacted_thinking","data":"{sealed}"}} ]}}, {{"role":"assistant","content":[{{"type":"redacted_thinking","data":"{sealed}"}}]}} ] }}"#
        );
        let expected = r#" { "x" : 1.0, "messages" : [ {"role":"user","content":"pm1."} , {"role":"assistant","content":[ {"type":"text","text":"\u00e9"} ]} ] }"#;
        let cut = without_foreign_reasoning(&text).unwrap();
        assert_eq!(String::from_utf8_lossy(&cut.body), expected);
        assert!(!cut.without_thinking);
    }

    #[test]
    fn thinking_with_a_budget_yields_in_a_turn_whose_calls_have_just_been_answered() {
        let budget = json!({"type": "enabled", "budget_tokens": 2048});
        let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]});
        let turn = json!({"role": "assistant", "content": [foreign(), call()]});
        let cut = |thinking: &Value, messages: &[Value]| without_foreign_reasoning(&body(thinking, messages)).unwrap();
        let open = cut(&budget, &[turn.clone(), result.clone()]);
        let sent: Value = serde_json::from_slice(&open.body).unwrap();
        assert!(open.without_thinking && sent.get("thinking").is_none(), "{sent}");
        assert!(!cut(&json!({"type": "adaptive"}), &[turn.clone(), result.clone()]).without_thinking);
        let later = json!({"role": "user", "content": "go on"});
        assert!(!cut(&budget, &[turn.clone(), result.clone(), later.clone()]).without_thinking);
        let own_turn = json!({"role": "assistant", "content": [own(), call()]});
        assert!(!cut(&budget, &[turn, result.clone(), later, own_turn, result]).without_thinking);
    }

    proptest! {
        #[test]
        fn what_is_left_is_the_body_without_the_foreign_thoughts(
            messages in prop::collection::vec(prop::collection::vec(0_usize..4, 0..5), 1..5), is_pretty in any::<bool>(),
        ) {
            let blocks = [foreign(), own(), call(), json!({"type": "text", "text": "a\"]},{"})];
            let message = |kinds: &Vec<usize>, keeps_foreign: bool| {
                let kept = kinds.iter().filter(|kind| keeps_foreign || **kind != 0);
                json!({"role": "assistant", "content": kept.map(|kind| blocks[*kind].clone()).collect::<Vec<_>>()})
            };
            let all: Vec<Value> = messages.iter().map(|kinds| message(kinds, true)).collect();
            let left = messages.iter().filter(|kinds| kinds.is_empty() || kinds.iter().any(|kind| *kind != 0));
            let left: Vec<Value> = left.map(|kinds| message(kinds, false)).collect();
            let body = json!({"model": "m", "messages": all, "z": 1});
            let text = if is_pretty { serde_json::to_string_pretty(&body).unwrap() } else { body.to_string() };
            match without_foreign_reasoning(&text) {
                Some(cut) => {
                    let sent: Value = serde_json::from_slice(&cut.body).unwrap();
                    prop_assert_eq!(sent, json!({"model": "m", "messages": left, "z": 1}));
                }
                None => prop_assert!(messages.iter().flatten().all(|kind| *kind != 0)),
            }
        }
    }
}
