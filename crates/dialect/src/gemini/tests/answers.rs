use super::*;
use crate::neutral::MAX_SIGNATURE;

#[test]
fn grounding_is_told_before_the_signature_or_the_call_that_ends_its_text() {
    #[derive(Default)]
    struct Order(Vec<&'static str>);
    impl AnswerSink for Order {
        fn event(&mut self, event: AnswerEvent<'_>) -> AnswerResult {
            self.0.extend(match event {
                AnswerEvent::Text { .. } => Some("text"),
                AnswerEvent::Annotation { .. } => Some("citation"),
                AnswerEvent::Reasoning { .. } => Some("signature"),
                AnswerEvent::ToolCallStarted { .. } => Some("call"),
                _ => None,
            });
            Ok(())
        }
    }
    let grounding = json!({
        "groundingChunks": [{"web": {"uri": "https://h/a", "title": "A"}}],
        "groundingSupports": [{"segment": {"endIndex": 9}, "groundingChunkIndices": [0]}],
    });
    let order = |parts: Value| {
        let mut last = chunk(parts, Some("STOP"));
        last["candidates"][0]["groundingMetadata"] = grounding.clone();
        let (mut decoder, mut sink) = (Decoder::new(ToolNames::default(), None), Order::default());
        for body in [chunk(json!([{"text": "Nine text"}]), None), last] {
            let data = body.to_string().into_bytes().into();
            decoder.event(&StreamEvent { data, is_error: false }, &mut sink).unwrap();
        }
        sink.0
    };
    let signed = json!({"text": "", "thoughtSignature": "QUJD"});
    assert_eq!(order(json!([signed])), ["text", "citation", "signature"]);
    let call = json!({"functionCall": {"name": "f", "args": {}}});
    assert_eq!(order(json!([call])), ["text", "citation", "call"]);
    // Its places are known only when all text is there.
    assert_eq!(order(json!([signed, {"text": ", b"}, signed])), ["text", "signature", "text", "citation", "signature"]);
}

#[test]
fn a_malformed_call_fails_before_anything_of_its_chunk_is_sent() {
    #[derive(Default)]
    struct Events(usize);
    impl AnswerSink for Events {
        fn event(&mut self, _: AnswerEvent<'_>) -> AnswerResult {
            self.0 += 1;
            Ok(())
        }
    }
    for reason in [
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE",
    ] {
        let mut sink = Events::default();
        let body = chunk(json!([{"text": "print(f())"}]), Some(reason)).to_string();
        let fault = Decoder::new(ToolNames::default(), None).whole(&body, &mut sink).unwrap_err();
        assert_eq!((fault.kind, &*fault.detail), (FailureKind::Malformed, &*format!("the answer ended with {reason}")));
        assert_eq!(sink.0, 0, "nothing was handed on");
    }
}

#[test]
fn a_hostile_upstream_ends_in_a_fault_within_the_limits() {
    let kind = |body: Value| whole(&body).unwrap_err().kind;
    let call = json!({"functionCall": {"name": "f"}});
    assert_eq!(kind(chunk(json!(vec![call; 200]), Some("STOP"))), FailureKind::Malformed);
    assert_eq!(
        kind(chunk(json!([{"text": "a", "thoughtSignature": "x".repeat(MAX_SIGNATURE + 1)}]), Some("STOP"))),
        FailureKind::Malformed
    );
    assert_eq!(kind(chunk(json!([{"functionCall": {}}]), Some("STOP"))), FailureKind::Malformed);
    assert_eq!(kind(json!({"candidates": [{"index": 4_000_000_000_u32}]})), FailureKind::Malformed);
    assert_eq!(
        kind(json!({"candidates": [{"index": 100, "content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}]})),
        FailureKind::Truncated
    );
    let pages: Vec<Value> = (0..3_000).map(|page| json!({"uri": format!("https://h/{page}")})).collect();
    let mut body = chunk(json!([{"text": "a"}]), Some("STOP"));
    body["candidates"][0]["citationMetadata"] = json!({"citations": pages});
    assert_eq!(kind(body), FailureKind::Malformed);
    let nested = format!(r#"{{"candidates":{}"#, "[".repeat(10_000));
    let fault = Decoder::new(ToolNames::default(), None).whole(&nested, &mut CompletionWriter::default()).unwrap_err();
    assert_eq!(fault.kind, FailureKind::Malformed);
    assert!(size_of::<Decoder>() <= 256, "{}", size_of::<Decoder>());
}

#[test]
fn tokens_of_a_failed_answer_are_told_before_it_fails() {
    #[derive(Default)]
    struct Tokens(Option<(u64, u64)>);
    impl AnswerSink for Tokens {
        fn event(&mut self, event: AnswerEvent<'_>) -> AnswerResult {
            if let AnswerEvent::Usage(tokens) = event {
                self.0 = Some((tokens.prompt, tokens.completion));
            }
            Ok(())
        }
    }
    let mut body = chunk(json!([]), Some("MALFORMED_FUNCTION_CALL"));
    body["usageMetadata"] = json!({"promptTokenCount": 9, "thoughtsTokenCount": 4});
    let mut tokens = Tokens::default();
    assert!(Decoder::new(ToolNames::default(), None).whole(&body.to_string(), &mut tokens).is_err());
    assert_eq!(tokens.0, Some((9, 4)));
}
