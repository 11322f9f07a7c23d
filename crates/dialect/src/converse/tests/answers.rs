use super::*;
use crate::neutral::MAX_SIGNATURE;

fn start() -> Value {
    json!({"messageStart": {"role": "assistant"}})
}

fn delta(index: u32, delta: Value) -> Value {
    json!({"contentBlockDelta": {"contentBlockIndex": index, "delta": delta, "p": "abcd"}})
}

fn stop(index: u32) -> Value {
    json!({"contentBlockStop": {"contentBlockIndex": index}})
}

#[test]
fn names_and_ids_are_restored_in_calls() {
    let sent = with(OTHER, json!({"tools": [tool("1st tool!")]}));
    let name = sent.body["toolConfig"]["tools"][0]["toolSpec"]["name"].clone();
    assert_ne!(name, "1st tool!");
    let mut decoder = Decoder::new(sent.names, OTHER);
    let mut sink = CompletionWriter::default();
    let call = json!({"toolUse": {"toolUseId": "a".repeat(64), "name": name, "input": {}}});
    let body = answer(json!([call]), "tool_use").to_string();
    assert!(!decoder.is_done());
    decoder.event(&StreamEvent { data: b"{\"unknownEvent\":{}}"[..].into(), is_error: false }, &mut sink).unwrap();
    decoder.whole(&body, &mut sink).unwrap();
    let call = parsed(&sink.finish().unwrap())["choices"][0]["message"]["tool_calls"][0].clone();
    assert_eq!(call["function"], json!({"name": "1st tool!", "arguments": "{}"}));
    assert!(call["id"].as_str().unwrap().len() <= 40, "{call}");
}

#[test]
fn a_hostile_upstream_ends_in_a_fault_within_the_limits() {
    let call = |index: u32| {
        let tool = json!({"toolUse": {"toolUseId": format!("t{index}"), "name": "f"}});
        json!({"contentBlockStart": {"contentBlockIndex": index, "start": tool}})
    };
    let calls = std::iter::once(start()).chain((0..2_000).flat_map(|index| [call(index), stop(index)]));
    let fault = streamed(OTHER, &calls.collect::<Vec<_>>(), ToolNames::default()).unwrap_err();
    assert_eq!(fault.kind, FailureKind::Malformed);
    let long = "s".repeat(MAX_SIGNATURE + 1);
    let signed = [start(), delta(0, json!({"reasoningContent": {"signature": long}}))];
    assert_eq!(streamed(OTHER, &signed, ToolNames::default()).unwrap_err().kind, FailureKind::Malformed);
    let nested = format!("{{\"output\":{}", "[".repeat(10_000));
    let mut sink = CompletionWriter::default();
    let fault = Decoder::new(ToolNames::default(), OTHER).whole(&nested, &mut sink).unwrap_err();
    assert_eq!(fault.kind, FailureKind::Malformed);
}
