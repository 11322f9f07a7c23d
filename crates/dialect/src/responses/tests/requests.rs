use proptest::prelude::*;

use super::*;

/// A message of a chat history.
fn message() -> impl Strategy<Value = Vec<Value>> {
    prop_oneof![
        any::<String>().prop_map(|text| vec![json!({"role": "user", "content": text})]),
        any::<String>().prop_map(|text| vec![json!({"role": "system", "content": text})]),
        any::<String>().prop_map(|text| vec![json!({"role": "assistant", "content": text})]),
        ("[a-z./]{0,3}", any::<String>(), any::<bool>()).prop_map(|(id, text, custom)| {
            let call = if custom {
                json!({"id": id, "type": "custom", "custom": {"name": "a.b", "input": text}})
            } else {
                json!({"id": id, "type": "function", "function": {"name": "a.b", "arguments": text}})
            };
            let details = json!([{"type": "reasoning.encrypted", "data": "g", "format": "openai-responses-v1"}]);
            vec![
                json!({"role": "assistant", "content": text, "tool_calls": [call], "reasoning_details": details}),
                json!({"role": "tool", "tool_call_id": id, "content": text}),
            ]
        }),
    ]
}

proptest! {
    #[test]
    fn the_body_of_a_conversation_is_a_prefix_of_the_body_with_one_more_turn(
        turns in prop::collection::vec(message(), 1..7),
        model in prop::sample::select(vec![REASONING, IDLE, PLAIN]),
    ) {
        let body = |turns: &[Vec<Value>]| {
            let opening = vec![json!({"role": "system", "content": "s"}), json!({"role": "user", "content": "u"})];
            let messages = [opening, turns.concat()].concat();
            let tools = json!([{"type": "function", "function": {"name": "a.b"}}]);
            send(model, &json!({"messages": messages, "tools": tools}).to_string()).text
        };
        let (before, last) = turns.split_at(turns.len() - 1);
        let (shorter, longer) = (body(before), body(&[before, last].concat()));
        prop_assert!(serde_json::from_str::<Value>(&longer).is_ok(), "{longer}");
        let open = shorter.strip_suffix("]}").unwrap();
        prop_assert!(longer.starts_with(open), "{shorter}\n{longer}");
    }
}
