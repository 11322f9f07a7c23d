use pointsman_domain::Dialect;
use proptest::prelude::*;

use super::*;
use crate::refusal::kind_of;

/// A block as it stands in a whole answer.
fn block() -> impl Strategy<Value = Value> {
    let sealed = || "[a-zA-Z0-9+/]{1,20}";
    prop_oneof![
        any::<String>().prop_map(|text| json!({"text": text})),
        (any::<String>(), sealed()).prop_map(
            |(text, signature)| json!({"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}})
        ),
        sealed().prop_map(|data| json!({"reasoningContent": {"redactedContent": data}})),
        ("[a-zA-Z0-9_-]{1,60}", any::<String>(), any::<bool>()).prop_map(|(id, value, custom)| {
            let name = if custom { "patch" } else { "f" };
            json!({"toolUse": {"toolUseId": id, "name": name, "input": {"input": value}}})
        }),
        Just(json!({"toolUse": {"toolUseId": "x", "name": "f", "input": {}}})),
        Just(json!({"somethingNew": {"a": 1}})),
    ]
}

/// The deltas of a member that is a text, cut into pieces of this many characters.
fn pieces(text: &str, size: usize, delta: impl Fn(String) -> Value) -> Vec<Value> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(size).map(|piece| delta(piece.iter().collect())).collect()
}

/// The events of a block. Only calls have a start.
fn stream_of(index: usize, block: &Value, size: usize) -> Vec<Value> {
    let (kind, value) = block.as_object().unwrap().iter().next().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let deltas = match kind.as_str() {
        "text" => pieces(&text(value), size, |piece| json!({"text": piece})),
        "reasoningContent" if value.get("reasoningText").is_some() => {
            let thought = &value["reasoningText"];
            let part =
                |name: &str| pieces(&text(&thought[name]), size, |piece| json!({"reasoningContent": {name: piece}}));
            [part("text"), part("signature")].concat()
        }
        "toolUse" if value["input"] == json!({}) => Vec::new(),
        "toolUse" => pieces(&value["input"].to_string(), size, |piece| json!({"toolUse": {"input": piece}})),
        _ => vec![block.clone()],
    };
    let start = json!({"toolUse": {"toolUseId": value["toolUseId"], "name": value["name"]}});
    let start = json!({"contentBlockStart": {"contentBlockIndex": index, "start": start}});
    let starts = (kind == "toolUse").then_some(start);
    let delta = |delta| json!({"contentBlockDelta": {"contentBlockIndex": index, "delta": delta, "p": "ab"}});
    let stop = json!({"contentBlockStop": {"contentBlockIndex": index}});
    starts.into_iter().chain(deltas.into_iter().map(delta)).chain([stop]).collect()
}

fn names() -> ToolNames {
    with(CLAUDE, json!({"tools": [{"type": "custom", "custom": {"name": "patch"}}]})).names
}

/// A message of a chat history that ends well: calls have their results behind them.
fn message() -> impl Strategy<Value = Vec<Value>> {
    let format = prop::sample::select(vec!["anthropic-claude-v1", "google-gemini-v1"]);
    prop_oneof![
        any::<String>().prop_map(|text| vec![json!({"role": "user", "content": text})]),
        any::<String>().prop_map(|text| vec![json!({"role": "system", "content": text})]),
        "[a-z .]{0,8}x".prop_map(|text| vec![json!({"role": "assistant", "content": text})]),
        ("[a-z./]{0,3}", any::<String>(), any::<bool>(), format).prop_map(|(id, text, middle, format)| {
            let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "a b", "arguments": text}});
            let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
            let thought = json!({"type": "reasoning.text", "text": text, "signature": "S", "format": format});
            let calls = [call(&id), call("q")];
            let mut turn = vec![
                json!({"role": "assistant", "content": text, "tool_calls": calls, "reasoning_details": [thought]}),
                result("q"),
            ];
            turn.extend(middle.then(|| json!({"role": "system", "content": text})));
            turn.push(result(&id));
            turn
        }),
    ]
}

proptest! {
    #[test]
    fn a_whole_answer_and_its_stream_give_the_same(
        blocks in prop::collection::vec((block(), 1_usize..5), 0..6),
        stop in prop::sample::select(vec!["end_turn", "tool_use", "max_tokens", "guardrail_intervened", "malformed_tool_use"]),
        model in prop::sample::select(vec![CLAUDE, OTHER]),
    ) {
        let content: Vec<&Value> = blocks.iter().map(|(block, _)| block).collect();
        let body = answer(json!(content), stop);
        let mut events = vec![json!({"messageStart": {"role": "assistant"}})];
        events.extend(blocks.iter().enumerate().flat_map(|(index, (block, size))| stream_of(index, block, *size)));
        events.push(json!({"messageStop": {"stopReason": stop}}));
        events.push(json!({"metadata": {"usage": body["usage"]}}));
        let mut sink = CompletionWriter::default();
        let whole = Decoder::new(names(), model).whole(&body.to_string(), &mut sink).and_then(|()| sink.finish());
        prop_assert_eq!(streamed(model, &events, names()), whole.map(|body| parsed(&body)));
    }

    #[test]
    fn no_bytes_cause_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        events in prop::collection::vec(prop::sample::select(vec![
            r#"{"messageStart":{}}"#, r#"{"messageStop":{"stopReason":"end_turn"}}"#, r#"{"messageStop":1}"#,
            r#"{"contentBlockStart":{"start":{"toolUse":{"toolUseId":"t","name":"patch"}}}}"#, r#"{"contentBlockStart":{"start":{"toolUse":[]}}}"#,
            r#"{"contentBlockDelta":{"delta":{"toolUse":{"input":"{\"input\":\"\ud83d"}}}}"#, r#"{"contentBlockDelta":{"delta":{"text":"\ud83d"}}}"#,
            r#"{"contentBlockDelta":{"delta":{"reasoningContent":{"signature":"\ude00"}}}}"#, r#"{"contentBlockDelta":{"delta":{"reasoningContent":[]}}}"#,
            r#"{"contentBlockDelta":{"delta":{"citation":{"location":{"web":{"url":1}}}}}}"#, r#"{"contentBlockStop":{"contentBlockIndex":-1}}"#,
            r#"{"metadata":{"usage":{"inputTokens":-1,"cacheDetails":{}}}}"#, r#"{"somethingNew":null}"#, "{}", "[]",
        ]), 0..16),
    ) {
        let (mut decoder, mut sink) = (Decoder::new(names(), CLAUDE), CompletionWriter::default());
        let events = events.iter().map(|event| event.as_bytes()).chain([&*bytes]);
        for data in events {
            let _ = decoder.event(&StreamEvent { data: data.into(), is_error: false }, &mut sink);
            let text = String::from_utf8_lossy(data);
            let _ = Decoder::new(names(), CLAUDE).whole(&text, &mut CompletionWriter::default());
            let _ = kind_of(Dialect::Converse, 400, None, data);
        }
        let _ = decoder.end(&mut sink);
    }

    #[test]
    fn the_body_of_a_conversation_is_a_prefix_of_the_body_with_one_more_turn(
        turns in prop::collection::vec(message(), 1..7),
        model in prop::sample::select(vec![CLAUDE, NOVA, OTHER]),
    ) {
        let body = |turns: &[Vec<Value>]| {
            let opening = vec![json!({"role": "system", "content": "s"}), json!({"role": "user", "content": "u"})];
            let messages = [opening, turns.concat()].concat();
            send(model, &json!({"messages": messages, "max_tokens": 5, "tools": [tool("a b")]}).to_string()).text
        };
        let (before, last) = turns.split_at(turns.len() - 1);
        let (shorter, longer) = (body(before), body(&[before, last].concat()));
        let open = shorter.strip_suffix("]}]}").unwrap();
        prop_assert!(longer.starts_with(open), "{}\n{}", shorter, longer);
    }
}
