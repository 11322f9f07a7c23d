//! What names a conversation from one turn to the next.

use pointsman_domain::SessionOpening;
use serde_json::{Value, json};

use super::world::read;

/// The opening of a request with these messages and further members.
fn opening_of(messages: Value, more: &str) -> Option<SessionOpening> {
    read(format!(r#"{{"model":"acme/able","messages":{messages}{more}}}"#)).opening
}

fn opening(messages: Value) -> SessionOpening {
    opening_of(messages, "").expect("long enough")
}

fn long(word: &str) -> String {
    word.repeat(2000)
}

fn said(role: &str, content: impl Into<Value>) -> Value {
    json!({"role": role, "content": content.into()})
}

#[test]
fn a_turn_later_the_opening_is_the_same() {
    let system = said("system", long("a"));
    let first = json!([system, said("user", "Which way?")]);
    let call = json!({"role": "assistant", "content": null, "tool_calls":
        [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let result = json!({"role": "tool", "tool_call_id": "c", "content": "left"});
    let later =
        json!([system, said("user", "Which way?"), call, result, said("user", "And now?"), said("system", "!")]);
    assert_eq!(opening(first), opening(later));
}

#[test]
fn another_first_message_is_another_conversation_with_the_same_instructions() {
    let [one, other] =
        ["Which way?", "What time?"].map(|first| opening(json!([said("system", long("a")), said("user", first)])));
    assert_eq!(one.instructions, other.instructions);
    assert_ne!(one.conversation, other.conversation);
    assert_eq!(one.instructions.tokens, 500);
}

#[test]
fn conversations_that_begin_with_the_same_4_kib_share_these_where_instructions_are_short() {
    let of = |system: &str, document: &str, question: &str| {
        opening(json!([said("system", system), said("user", document.to_owned() + question)]))
    };
    let document = long("a") + &long("b");
    let [one, other] = ["Why?", "Who, and when?"].map(|question| of(&"s".repeat(96), &document, question));
    assert_eq!((one.beginning, one.beginning.map(|beginning| beginning.tokens)), (other.beginning, Some(1024)));
    assert_ne!(one.conversation, other.conversation);
    let text = document.replacen('b', "c", 1);
    assert_ne!(one.beginning, of(&"s".repeat(96), &text, "Why?").beginning);
    let instructed = |question| of(&(document.clone() + &document), question, "Why?");
    let [one, other] = ["What?", "Which?"].map(instructed);
    assert_eq!((one.instructions, one.beginning), (other.instructions, None), "long instructions are shared whole");
    let tool = json!({"type": "function", "function": {"name": "f", "description": document.clone() + &document}});
    let tooled = |text: String| opening_of(json!([said("user", text)]), &format!(r#","tools":[{tool}]"#)).unwrap();
    let [one, other] = ["d", "e"].map(|first| tooled(first.to_owned() + &document + &document));
    assert_eq!((one.instructions, one.beginning), (other.instructions, None), "long tools, too");
}

#[test]
fn short_instructions_are_shared_whatever_long_text_follows() {
    let system = "s".repeat(3000);
    let of = |text: String| opening(json!([said("system", system.clone()), said("user", text)]));
    let [short, one, other] = ["Why?".to_owned(), long("one"), long("other")].map(of);
    assert_eq!((one.instructions, one.instructions.tokens), (other.instructions, 750));
    assert_eq!((short.instructions, short.beginning), (one.instructions, None));
    assert!(one.beginning.is_some() && one.beginning != other.beginning);
}

#[test]
fn other_instructions_are_another_conversation() {
    let [one, other] = ["a", "b"].map(|word| opening(json!([said("system", long(word)), said("user", "Which way?")])));
    assert_ne!(one.instructions, other.instructions);
    assert_ne!(one.conversation, other.conversation);
}

#[test]
fn tools_belong_to_the_instructions_wherever_they_stand() {
    let tool = r#"[{"type":"function","function":{"name":"weather","description":"Looks."}}]"#;
    let messages = json!([said("user", long("a"))]);
    let before = read(format!(r#"{{"tools":{tool},"model":"acme/able","messages":{messages}}}"#)).opening;
    let after = opening_of(messages.clone(), &format!(r#","tools":{tool}"#));
    let without = opening_of(messages, "");
    assert_eq!(before, after);
    assert_ne!(before, without);
    assert_eq!(before.map(|opening| opening.instructions.tokens), Some(4), "name and description");
}

#[test]
fn how_text_is_escaped_and_in_which_order_members_come_does_not_matter() {
    let text = long("a");
    let plain = read(format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"{text}é\n"}}]}}"#,
        text = text.clone() + "\\u0041"
    ));
    let escaped = read(format!(r#"{{"model":"m","messages":[{{"content":"{text}A\u00e9\u000a","role":"user"}}]}}"#));
    assert!(plain.opening.is_some());
    assert_eq!(plain.opening, escaped.opening);
}

#[test]
fn parts_count_media_by_their_length() {
    let with = |data: &str, text: &str| {
        let url = format!("data:image/png;base64,{data}");
        opening(json!([said(
            "user",
            json!([{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}])
        )]))
    };
    let text = long("a");
    assert_eq!(with("AAAA", &text), with("AAAA", &text));
    assert_ne!(with("AAAA", &text), with("AAAAAAAA", &text));
    assert_ne!(with("AAAA", &text), with("AAAA", &long("b")));
}

#[test]
fn a_border_between_messages_is_no_border_of_texts() {
    let together = opening(json!([said("system", long("a") + "bc"), said("user", "d")]));
    let apart = opening(json!([said("system", long("a") + "b"), said("user", "cd")]));
    assert_ne!(together.conversation, apart.conversation);
    let one = opening(json!([said("system", long("a")), said("system", "b"), said("user", "c")]));
    let two = opening(json!([said("system", long("a") + "b"), said("user", "c")]));
    assert_ne!(one.conversation, two.conversation);
}

#[test]
fn short_prompts_have_none() {
    assert_eq!(opening_of(json!([said("user", "Which way?")]), ""), None);
}
