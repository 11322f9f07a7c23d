use pointsman_domain::Usage;
use proptest::prelude::*;

use super::{
    super::provider_state::ProviderState,
    super::splice::{splice_answer, splice_event, splice_request},
    answers::{collect, collect_whole, decode},
    splicing::identity,
    *,
};
use crate::{body_edits::BodyEdits, openai::completion_writer::CompletionWriter, responses::Decoder};

/// Cuts a text into pieces after these numbers of characters.
pub(super) fn cut(text: &str, sizes: &[usize]) -> Vec<String> {
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

/// An item as it stands in a whole response.
fn item() -> impl Strategy<Value = Value> {
    let texts = || prop::collection::vec(any::<String>(), 0..3);
    let part = prop_oneof![
        any::<String>().prop_map(|text| json!({"type": "output_text", "text": text, "annotations": []})),
        any::<String>().prop_map(|text| json!({"type": "refusal", "refusal": text})),
    ];
    prop_oneof![
        prop::collection::vec(part, 0..3)
            .prop_map(|content| json!({"type": "message", "id": "msg_1", "content": content})),
        (texts(), prop::option::of("[a-zA-Z0-9]{1,20}")).prop_map(|(texts, sealed)| {
            let summary: Vec<Value> = texts.iter().map(|text| json!({"type": "summary_text", "text": text})).collect();
            json!({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": sealed})
        }),
        ("[a-zA-Z0-9_-]{1,60}", any::<String>())
            .prop_map(|(id, text)| json!({"type": "function_call", "call_id": id, "name": "f", "arguments": text})),
        ("[a-zA-Z0-9_-]{1,60}", any::<String>())
            .prop_map(|(id, text)| json!({"type": "custom_tool_call", "call_id": id, "name": "p", "input": text})),
        Just(json!({"type": "web_search_call", "action": {"type": "search"}})),
        Just(json!({"type": "something_new", "content": [1]})),
    ]
}

/// The events of an item, its texts cut into pieces; `form`: which of the events `…done` there are.
fn stream_of(place: usize, item: &Value, sizes: &[usize], form: u8) -> Vec<Value> {
    let mut start = item.clone();
    let mut middle = Vec::new();
    let mut part = |kind: &str, index: usize, member: &str, text: &str| {
        let event =
            |kind: String| json!({"type": kind, "output_index": place, "content_index": index, "summary_index": index});
        if form & 1 == 0 {
            for piece in cut(text, sizes) {
                let mut delta = event(format!("response.{kind}.delta"));
                delta["delta"] = json!(piece);
                middle.push(delta);
            }
        }
        if form & 2 == 0 {
            let mut done = event(format!("response.{kind}.done"));
            done[member] = json!(text);
            middle.push(done);
        }
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match item["type"].as_str().unwrap() {
        "message" => {
            start["content"] = json!([]);
            for (index, content) in item["content"].as_array().unwrap().iter().enumerate() {
                match content["type"].as_str().unwrap() {
                    "refusal" => part("refusal", index, "refusal", &text(&content["refusal"])),
                    _ => part("output_text", index, "text", &text(&content["text"])),
                }
            }
        }
        "reasoning" => {
            start["summary"] = json!([]);
            start["encrypted_content"] = json!("");
            for (index, content) in item["summary"].as_array().unwrap().iter().enumerate() {
                part("reasoning_summary_text", index, "text", &text(&content["text"]));
            }
        }
        "function_call" => {
            start["arguments"] = json!("");
            part("function_call_arguments", 0, "arguments", &text(&item["arguments"]));
        }
        "custom_tool_call" => {
            start["input"] = json!("");
            part("custom_tool_call_input", 0, "input", &text(&item["input"]));
        }
        _ => {}
    }
    let mut events = vec![json!({"type": "response.output_item.added", "output_index": place, "item": start})];
    events.extend(middle);
    if form & 4 == 0 {
        events.push(json!({"type": "response.output_item.done", "output_index": place, "item": item}));
    }
    events
}

proptest! {
    #[test]
    fn a_whole_answer_and_its_stream_give_the_same(
        items in prop::collection::vec((item(), prop::collection::vec(0_usize..5, 0..4), 0_u8..4), 0..6),
        status in prop::sample::select(vec!["completed", "incomplete"]),
    ) {
        let output: Vec<&Value> = items.iter().map(|(item, _, _)| item).collect();
        let response = json!({"id": "resp_1", "status": status, "output": output, "incomplete_details": {"reason": "max_output_tokens"},
            "usage": {"input_tokens": 5, "output_tokens": 7}});
        let mut events = vec![json!({"type": "response.created", "response": {"id": "resp_1"}}).to_string()];
        for (place, (item, sizes, form)) in items.iter().enumerate() {
            events.extend(stream_of(place, item, sizes, *form).iter().map(Value::to_string));
            events.push(json!({"type": "keepalive"}).to_string());
        }
        events.push(json!({"type": format!("response.{status}"), "response": response}).to_string());
        let streamed = collect(&events, ToolNames::default()).unwrap();
        prop_assert_eq!(streamed, collect_whole(&response.to_string(), ToolNames::default()).unwrap());
    }

    #[test]
    fn no_bytes_cause_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        members in prop::collection::vec(prop::sample::select(vec![
            r#""type":"response.created""#, r#""type":"response.output_item.added""#, r#""type":"response.output_item.done""#,
            r#""type":"response.output_text.delta""#, r#""type":"response.output_text.done""#, r#""type":"response.function_call_arguments.delta""#,
            r#""type":"response.reasoning_summary_text.delta""#, r#""type":"response.output_text.annotation.added""#, r#""type":"response.completed""#,
            r#""type":"response.failed""#, r#""type":"error""#, r#""output_index":0"#, r#""output_index":-1"#, r#""content_index":9"#,
            r#""item":{"type":"message","content":[{"type":"output_text","text":"\ud83d","annotations":[1]}]}"#,
            r#""item":{"type":"function_call","name":"f","arguments":1}"#, r#""item":{"type":"reasoning","summary":[{}],"encrypted_content":"g"}"#,
            r#""item":[]"#, r#""delta":"\ud83d""#, r#""delta":"\ude00""#, r#""text":"x""#, r#""annotation":{"type":"url_citation","url":"u","start_index":4294967295}"#,
            r#""response":{"status":"completed","output":[{"type":"custom_tool_call","name":"p","input":"x"}],"usage":{"input_tokens":-1}}"#,
            r#""response":{"status":"incomplete"}"#, r#""logprobs":[1]"#, r#""error":{}"#,
        ]), 0..24),
        size in 1_usize..4,
    ) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut events: Vec<String> = members.chunks(size).map(|members| format!("{{{}}}", members.join(","))).collect();
        events.push(text.replace(['\n', '\r'], ""));
        // Only that it ends without a panic; what it writes is judged by other tests.
        let _ = decode(&events, ToolNames::default(), &mut CompletionWriter::default());
        for event in &events {
            let _ = Decoder::new(ToolNames::default()).whole(event, &mut CompletionWriter::default());
            let _ = splice_request(event, &BodyEdits::to("m"), ProviderState::Refused);
            let _ = splice_answer(event, &identity(), Usage::default);
            let _ = splice_event(event, &identity(), Usage::default);
        }
    }

    #[test]
    fn what_is_not_ours_survives_the_splice_byte_for_byte(
        names in prop::collection::vec("[a-z]{1,6}_x", 0..5),
        values in prop::collection::vec(prop::sample::select(vec!["1.0", "12345678901234567890", "{ \"a\":[1e3 ] }", "\"\\u00e9\"", "null"]), 5),
        space in prop::sample::select(vec!["", " ", "\n\t"]),
        ours in 0_usize..6,
    ) {
        let mut members: Vec<String> = names.iter().zip(&values).map(|(name, value)| format!("\"{name}\"{space}:{space}{value}")).collect();
        members.insert(0, format!("\"include\":{space}[\"reasoning.encrypted_content\"]"));
        let body = |members: &[String], model: &str, store: &str| {
            let heads = [format!("\"model\":{space}\"{model}\""), format!("\"store\":{space}{store}")];
            format!("{space}{{{}}}", [&heads[..], members].concat().join(&format!("{space},{space}")))
        };
        let expected = body(&members, "gpt-x", "false");
        members.insert(ours.min(members.len()), "\"objective\":{\"x\":[]}".to_owned());
        let spliced = splice_request(&body(&members, "auto", "true"), &BodyEdits::to("gpt-x"), ProviderState::Refused).unwrap();
        prop_assert_eq!(spliced.body, expected.as_bytes());
    }
}
