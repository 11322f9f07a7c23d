use pointsman_domain::Dialect;
use proptest::prelude::*;
use serde_json::json;

use super::{
    super::splice::{splice_answer, splice_request},
    answers::{collect, collect_whole, decode},
    *,
};
use crate::{
    Outcome, anthropic::Decoder, body_edits::BodyEdits, openai::completion_writer::CompletionWriter, refusal::kind_of,
};

/// Cuts a text into pieces after these numbers of characters.
fn cut(text: &str, sizes: &[usize]) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let (mut pieces, mut rest) = (Vec::new(), characters.as_slice());
    for size in sizes {
        let (piece, tail) = rest.split_at((*size).min(rest.len()));
        pieces.push(piece.iter().collect());
        rest = tail;
    }
    pieces.push(rest.iter().collect());
    pieces
}

/// A block as it stands in a whole answer, and whether it is streamed as it is.
fn block() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<String>().prop_map(|text| json!({"type":"text","text":text})),
        (any::<String>(), "[a-zA-Z0-9+/]{0,20}").prop_map(|(text, signature)| json!({"type":"thinking","thinking":text,"signature":signature})),
        "[a-zA-Z0-9+/]{0,20}".prop_map(|data| json!({"type":"redacted_thinking","data":data})),
        ("[a-zA-Z0-9_-]{1,60}", any::<String>(), any::<bool>())
            .prop_map(|(id, value, custom)| json!({"type":"tool_use","id":id,"name":if custom { "patch" } else { "f" },"input":{"input":value}})),
        Just(json!({"type":"tool_use","id":"x","name":"f","input":{}})),
        Just(json!({"type":"server_tool_use","id":"x","name":"f","input":{"q":1}})),
    ]
}

/// The events of a block, its text cut into pieces.
fn stream_of(index: usize, block: &Value, sizes: &[usize]) -> Vec<Value> {
    let deltas = |name: &str, member: &str, text: &str| -> Vec<Value> {
        let delta =
            |piece: String| json!({"type":"content_block_delta","index":index,"delta":{"type":name,member:piece}});
        cut(text, sizes).into_iter().map(delta).collect()
    };
    let mut start = block.clone();
    let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
    let middle = match block["type"].as_str().unwrap() {
        "text" => {
            start["text"] = json!("");
            deltas("text_delta", "text", &text("text"))
        }
        "thinking" => {
            start["thinking"] = json!("");
            start["signature"] = json!("");
            [
                deltas("thinking_delta", "thinking", &text("thinking")),
                deltas("signature_delta", "signature", &text("signature")),
            ]
            .concat()
        }
        "tool_use" if block["input"] != json!({}) => {
            start["input"] = json!({});
            deltas("input_json_delta", "partial_json", &block["input"].to_string())
        }
        _ => Vec::new(),
    };
    let start = json!({"type":"content_block_start","index":index,"content_block":start});
    [vec![start], middle, vec![json!({"type":"content_block_stop","index":index})]].concat()
}

fn names() -> ToolNames {
    send(SAMPLING, r#"{"messages":[],"tools":[{"type":"custom","custom":{"name":"patch"}}]}"#).names
}

/// A message of a chat history that ends well: calls have their results behind them.
fn message() -> impl Strategy<Value = Vec<Value>> {
    prop_oneof![
        any::<String>().prop_map(|text| vec![json!({"role":"user","content":text})]),
        any::<String>().prop_map(|text| vec![json!({"role":"system","content":text})]),
        "[a-z .]{0,8}x".prop_map(|text| vec![json!({"role":"assistant","content":text})]),
        ("[a-z./]{0,3}", any::<String>(), any::<bool>()).prop_map(|(id, text, middle)| {
            let call = |id: &str| json!({"id":id,"type":"function","function":{"name":"a.b","arguments":text}});
            let result = |id: &str| json!({"role":"tool","tool_call_id":id,"content":text});
            let mut turn = vec![
                json!({"role":"assistant","content":text,"tool_calls":[call(&id), call("q")],
                "reasoning_details":[{"type":"reasoning.text","text":text,"signature":"S"}]}),
                result("q"),
            ];
            if middle {
                turn.push(json!({"role":"system","content":text}));
            }
            turn.push(result(&id));
            turn
        }),
    ]
}

proptest! {
    #[test]
    fn a_whole_answer_and_its_stream_give_the_same(
        blocks in prop::collection::vec((block(), prop::collection::vec(0_usize..5, 0..4)), 0..6),
        reason in prop::sample::select(vec!["end_turn", "tool_use", "max_tokens", "refusal", "pause_turn"]),
    ) {
        let usage = json!({"input_tokens":5,"cache_read_input_tokens":3,"output_tokens":7});
        let content: Vec<&Value> = blocks.iter().map(|(block, _)| block).collect();
        let whole = json!({"id":"msg_1","type":"message","content":content,"stop_reason":reason,"usage":usage,"stop_details":{"explanation":"no"}});
        let mut events = vec![json!({"type":"message_start","message":{"id":"msg_1","content":[],"usage":{"input_tokens":5,"output_tokens":1}}}).to_string()];
        for (index, (block, sizes)) in blocks.iter().enumerate() {
            events.extend(stream_of(index, block, sizes).iter().map(Value::to_string));
            events.push(json!({"type":"ping"}).to_string());
        }
        let delta = json!({"stop_reason":reason,"stop_details":{"explanation":"no"}});
        events.push(json!({"type":"message_delta","delta":delta,"usage":usage}).to_string());
        events.push(json!({"type":"message_stop"}).to_string());
        let (streamed, whole) = (collect(&events, names()).unwrap(), collect_whole(&whole.to_string(), names()).unwrap());
        prop_assert_eq!(streamed, whole);
    }

    #[test]
    fn no_bytes_cause_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        members in prop::collection::vec(prop::sample::select(vec![
            r#""type":"message_start""#, r#""message":{"id":"x"}"#, r#""type":"content_block_start""#, r#""type":"content_block_delta""#,
            r#""type":"content_block_stop""#, r#""type":"message_delta""#, r#""type":"message_stop""#, r#""type":"error""#, r#""index":0"#,
            r#""content_block":{"type":"text"}"#, r#""content_block":{"type":"thinking","thinking":1}"#, r#""content_block":{"type":"tool_use","name":"f","input":[]}"#,
            r#""delta":{"type":"text_delta","text":"\ud83d"}"#, r#""delta":{"type":"input_json_delta"}"#, r#""delta":{"stop_reason":"x"}"#, r#""usage":{"input_tokens":-1,"iterations":{}}"#, r#""error":{}"#,
        ]), 0..24),
        size in 1_usize..4,
    ) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut events: Vec<String> = members.chunks(size).map(|members| format!("{{{}}}", members.join(","))).collect();
        events.push(text.replace(['\n', '\r'], ""));
        // Only that it ends without a panic; what it writes is judged by other tests.
        let _ = decode(&events, names(), &mut CompletionWriter::default());
        for event in &events {
            let _ = Decoder::new(names()).whole(event, &mut CompletionWriter::default());
            let _ = kind_of(Dialect::Anthropic, 429, None, event.as_bytes());
            let _ = splice_request(event, &BodyEdits::to("m"));
            let _ = splice_answer(event, "i", "m", &Outcome::default());
        }
    }

    #[test]
    fn the_body_of_a_conversation_is_a_prefix_of_the_body_with_one_more_turn(
        turns in prop::collection::vec(message(), 1..7),
        model in prop::sample::select(vec![SAMPLING, BUDGET, NEWEST]),
    ) {
        let body = |turns: &[Vec<Value>]| {
            let opening = json!({"role":"system","content":"s"});
            let first = json!({"role":"user","content":"u"});
            let messages = [vec![opening, first], turns.concat()].concat();
            let tools = json!([{"type":"function","function":{"name":"a.b"}}]);
            send(model, &json!({"messages":messages,"tools":tools}).to_string()).text
        };
        let (before, last) = turns.split_at(turns.len() - 1);
        let (shorter, longer) = (body(before), body(&[before, last].concat()));
        let open = shorter.strip_suffix("]}]}").unwrap();
        prop_assert!(longer.starts_with(open), "{shorter}\n{longer}");
    }

    #[test]
    fn what_is_not_ours_survives_the_splice_byte_for_byte(
        names in prop::collection::vec("[a-z]{1,6}_x", 0..5),
        values in prop::collection::vec(prop::sample::select(vec!["1.0", "12345678901234567890", "{ \"a\":[1e3 ] }", "\"\\u00e9\"", "null"]), 5),
        space in prop::sample::select(vec!["", " ", "\n\t"]),
        ours in 0_usize..6,
    ) {
        let mut members: Vec<String> = names.iter().zip(&values).map(|(name, value)| format!("\"{name}\"{space}:{space}{value}")).collect();
        let expected = |members: &[String]| {
            let model = format!("\"model\":{space}\"claude-x\"");
            let all: Vec<&str> = std::iter::once(&*model).chain(members.iter().map(|member| &**member)).collect();
            format!("{space}{{{}}}", all.join(&format!("{space},{space}")))
        };
        let expected = expected(&members);
        members.insert(0, format!("\"model\":{space}\"auto\""));
        members.insert(ours.min(members.len()), "\"objective\":{\"x\":[]}".to_owned());
        let body = format!("{space}{{{}}}", members.join(&format!("{space},{space}")));
        prop_assert_eq!(splice_request(&body, &BodyEdits::to("claude-x")).unwrap().body, expected.as_bytes());
    }
}
