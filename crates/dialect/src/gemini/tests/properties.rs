use pointsman_domain::Dialect;
use proptest::prelude::*;

use super::*;
use crate::refusal::kind_of;

/// A part of an answer.
fn part() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<String>().prop_map(|text| json!({"text": text})),
        any::<String>().prop_map(|text| json!({"text": text, "thought": true})),
        (any::<String>(), "[a-zA-Z0-9+/]{0,9}").prop_map(|(text, signature)| json!({"text": text, "thoughtSignature": signature})),
        ("[a-z .]{0,4}", any::<String>(), any::<bool>()).prop_map(|(id, value, custom)| {
            json!({"functionCall": {"id": id, "name": if custom { "patch" } else { "f" }, "args": {"input": value}}, "thoughtSignature": "S"})
        }),
        any::<i64>().prop_map(|n| json!({"functionCall": {"name": "f", "args": {"n": n}}})),
        Just(json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}})),
        Just(json!({"executableCode": {"language": "PYTHON", "code": "1"}})),
    ]
}

/// The parts that a part comes as in a stream: its text cut into pieces.
fn pieces(part: &Value, size: usize) -> Vec<Value> {
    let Some(text) = part["text"].as_str().filter(|_| part.get("thoughtSignature").is_none()) else {
        return vec![part.clone()];
    };
    let characters: Vec<char> = text.chars().collect();
    let piece = |piece: &[char]| {
        let mut cut = part.clone();
        cut["text"] = json!(piece.iter().collect::<String>());
        cut
    };
    characters.chunks(size).map(piece).collect()
}

fn names() -> ToolNames {
    send(NEWEST, &json!({"messages": [], "tools": [{"type": "custom", "custom": {"name": "patch"}}]})).1
}

/// A message of a chat history that ends well: calls have their results behind them.
fn message() -> impl Strategy<Value = Vec<Value>> {
    let state = prop::sample::select(vec!["google-gemini-v1", "anthropic-claude-v1"]);
    prop_oneof![
        any::<String>().prop_map(|text| vec![json!({"role": "user", "content": text})]),
        any::<String>().prop_map(|text| vec![json!({"role": "system", "content": text})]),
        ("[a-z .]{0,8}x", any::<bool>()).prop_map(|(text, is_signed)| {
            let details = json!([{"type": "reasoning.encrypted", "data": "T", "format": "google-gemini-v1"}]);
            vec![json!({"role": "assistant", "content": text, "reasoning_details": if is_signed { details } else { Value::Null }})]
        }),
        ("[a-z./]{0,3}", any::<String>(), any::<bool>(), state).prop_map(|(id, text, middle, format)| {
            let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "a b", "arguments": text}});
            let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
            let mut turn = vec![
                json!({"role": "assistant", "content": text, "tool_calls": [call(&id), call("q")],
                "reasoning_details": [{"type": "reasoning.encrypted", "data": "S", "id": id, "format": format}]}),
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
        parts in prop::collection::vec((part(), 1_usize..4), 0..7),
        finish in prop::sample::select(vec!["STOP", "MAX_TOKENS", "SAFETY", "OTHER", "NEW_REASON", "MALFORMED_RESPONSE"]),
        is_last_empty in any::<bool>(),
    ) {
        let usage = json!({"promptTokenCount": 5, "cachedContentTokenCount": 3, "candidatesTokenCount": 7});
        let all: Vec<&Value> = parts.iter().map(|(part, _)| part).collect();
        let mut body = chunk(json!(all), Some(finish));
        body["responseId"] = json!("r1");
        body["usageMetadata"] = usage.clone();
        let mut chunks: Vec<Value> =
            parts.iter().flat_map(|(part, size)| pieces(part, *size)).map(|part| chunk(json!([part]), None)).collect();
        match chunks.last_mut().filter(|_| !is_last_empty) {
            Some(last) => last["candidates"][0]["finishReason"] = json!(finish),
            None => chunks.push(chunk(json!([{"text": ""}]), Some(finish))),
        }
        chunks.iter_mut().for_each(|chunk| chunk["responseId"] = json!("r1"));
        chunks.push(json!({"usageMetadata": usage}));
        let (mut decoder, mut sink) = (Decoder::new(names(), None), CompletionWriter::default());
        let mut result = chunks.iter().try_for_each(|chunk| {
            decoder.event(&StreamEvent { data: chunk.to_string().into_bytes().into(), is_error: false }, &mut sink)
        });
        result = result.and_then(|()| decoder.end());
        let streamed = result.and_then(|()| sink.finish());
        let mut sink = CompletionWriter::default();
        let whole = Decoder::new(names(), None).whole(&body.to_string(), &mut sink).and_then(|()| sink.finish());
        prop_assert_eq!(streamed, whole);
    }

    #[test]
    fn no_bytes_cause_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        members in prop::collection::vec(prop::sample::select(vec![
            r#""candidates":[{"content":{"parts":[{"text":"\ud83d"}]}}]"#, r#""candidates":[{"index":1,"finishReason":"STOP"}]"#, r#""candidates":[{"finishReason":"STOP"}]"#,
            r#""candidates":[{"content":{"parts":[{"functionCall":{"name":"patch","args":[]}}]}}]"#, r#""candidates":{}"#, r#""promptFeedback":{"blockReason":1}"#,
            r#""candidates":[{"groundingMetadata":{"groundingChunks":[{"web":{"uri":"u"}}],"groundingSupports":[{"segment":{"startIndex":9},"groundingChunkIndices":[0,-1]}]}}]"#,
            r#""candidates":[{"logprobsResult":{"chosenCandidates":[{}]}}]"#, r#""usageMetadata":{"promptTokenCount":-1}"#, r#""error":{"details":{}}"#, r#""error":{}"#, r#""responseId":"\ud800""#,
        ]), 0..16),
        size in 1_usize..3,
        is_error in any::<bool>(),
    ) {
        let mut events: Vec<Vec<u8>> = members.chunks(size).map(|members| format!("{{{}}}", members.join(",")).into_bytes()).collect();
        events.push(bytes);
        let (mut decoder, mut sink) = (Decoder::new(names(), None), CompletionWriter::default());
        for event in &events {
            let _ = decoder.event(&StreamEvent { data: event.as_slice().into(), is_error }, &mut sink);
            let _ = Decoder::new(names(), None).whole(&String::from_utf8_lossy(event), &mut CompletionWriter::default());
            let _ = kind_of(Dialect::Gemini, 429, None, event);
            let _ = retry_delay(event);
            let _ = refuses_signature(400, event);
        }
        let _ = decoder.end();
    }

    #[test]
    fn the_body_of_a_conversation_is_a_prefix_of_the_body_with_one_more_turn(
        turns in prop::collection::vec(message(), 1..7),
        model in prop::sample::select(vec![NEWEST, BUDGET, "gemini-1.5-pro"]),
    ) {
        let body = |turns: &[Vec<Value>]| {
            let opening = vec![json!({"role": "system", "content": "s"}), json!({"role": "user", "content": "u"})];
            let messages = [opening, turns.concat()].concat();
            let body = json!({"messages": messages, "max_tokens": 5, "tools": [{"type": "function", "function": {"name": "a b"}}]}).to_string();
            let written = write_request(&read_settled(&body), &endpoint(model), &mut UnsupportedFields::default());
            String::from_utf8(written.body.to_vec()).unwrap()
        };
        let (before, last) = turns.split_at(turns.len() - 1);
        let (shorter, longer) = (body(before), body(&[before, last].concat()));
        let open = shorter.strip_suffix("]}]}").unwrap();
        prop_assert!(longer.starts_with(open), "{}\n{}", shorter, longer);
    }
}
