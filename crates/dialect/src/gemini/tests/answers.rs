use super::*;
use crate::neutral::MAX_SIGNATURE;

#[test]
fn three_calls_of_one_function_in_three_chunks_are_three_calls_and_end_with_tool_calls() {
    let call = |n: u32| chunk(json!([{"functionCall": {"name": "f", "args": {"n": n}}}]), None);
    let answer =
        streamed(&[call(1), call(2), call(3), chunk(json!([{"text": ""}]), Some("STOP"))], ToolNames::default())
            .unwrap();
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    let calls = choice["message"]["tool_calls"].as_array().unwrap();
    let arguments: Vec<&str> = calls.iter().map(|call| call["function"]["arguments"].as_str().unwrap()).collect();
    assert_eq!(arguments, [r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":3}"#]);
    let mut ids: Vec<&str> = calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[test]
fn thoughts_stand_beside_the_answer_and_tool_use_prompts_inside_the_prompt() {
    let usage = |usage: Value| {
        let mut body = chunk(json!([{"text": "a"}]), Some("STOP"));
        body["usageMetadata"] = usage;
        let usage = whole(&body).unwrap()["usage"].clone();
        let details = usage["completion_tokens_details"]["reasoning_tokens"].clone();
        (usage["prompt_tokens"].clone(), usage["completion_tokens"].clone(), details)
    };
    let counts =
        json!({"promptTokenCount": 107, "candidatesTokenCount": 31, "thoughtsTokenCount": 148, "totalTokenCount": 286});
    assert_eq!(usage(counts), (json!(107), json!(179), json!(148)));
    let counts = json!({"promptTokenCount": 10, "toolUsePromptTokenCount": 5, "cachedContentTokenCount": 8, "candidatesTokenCount": 2});
    assert_eq!(usage(counts), (json!(15), json!(2), Value::Null));
}

#[test]
fn filtered_answers_are_answers_and_malformed_ones_are_failures() {
    let filtered = whole(&chunk(json!([{"text": "Some"}]), Some("SAFETY"))).unwrap();
    assert_eq!(filtered["choices"][0]["message"]["content"], "Some");
    assert_eq!(filtered["choices"][0]["finish_reason"], "content_filter");
    let blocked =
        whole(&json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}})).unwrap();
    assert_eq!(blocked["choices"][0]["finish_reason"], "content_filter");
    assert_eq!(blocked["choices"][0]["native_finish_reason"], "PROMPT_BLOCKED:SAFETY");
    let kind = |body: Value| whole(&body).unwrap_err().kind;
    assert_eq!(kind(chunk(json!([]), Some("MALFORMED_FUNCTION_CALL"))), FailureKind::Malformed);
    assert_eq!(kind(chunk(json!([]), Some("STOP"))), FailureKind::Malformed);
    assert_eq!(kind(chunk(json!([{"text": "a"}]), None)), FailureKind::Truncated);
    assert_eq!(kind(json!({})), FailureKind::Malformed);
    let overloaded = json!({"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}});
    assert_eq!(kind(overloaded.clone()), FailureKind::Overloaded);
    assert_eq!(kind(json!([overloaded])), FailureKind::Overloaded);
}

#[test]
fn grounding_is_told_before_the_signature_or_the_call_that_ends_its_text() {
    #[derive(Default)]
    struct Order(Vec<&'static str>);
    impl AnswerSink for Order {
        fn event(&mut self, event: AnswerEvent<'_>) -> Result<(), AnswerFault> {
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
        fn event(&mut self, _: AnswerEvent<'_>) -> Result<(), AnswerFault> {
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
fn an_answer_without_any_part_is_malformed_and_one_of_thoughts_only_is_not() {
    let kind = |parts: Value, finish: &str| whole(&chunk(parts, Some(finish))).map_err(|fault| fault.kind);
    assert_eq!(kind(json!([]), "STOP").unwrap_err(), FailureKind::Malformed);
    assert_eq!(kind(json!([{"text": ""}]), "STOP").unwrap_err(), FailureKind::Malformed);
    assert_eq!(kind(json!([{"text": "hm", "thought": true}]), "OTHER").unwrap_err(), FailureKind::Malformed);
    let thoughts = kind(json!([{"text": "hm", "thought": true}]), "STOP").unwrap();
    assert_eq!(
        (&thoughts["choices"][0]["message"]["reasoning"], &thoughts["choices"][0]["finish_reason"]),
        (&json!("hm"), &json!("stop"))
    );
    assert_eq!(kind(json!([]), "MAX_TOKENS").unwrap()["choices"][0]["finish_reason"], "length");
    assert_eq!(kind(json!([{"text": "a"}]), "OTHER").unwrap()["choices"][0]["finish_reason"], "stop");
    assert_eq!(
        kind(json!([{"functionCall": {"name": "f"}}]), "MAX_TOKENS").unwrap()["choices"][0]["finish_reason"],
        "length"
    );
}

#[test]
fn a_stream_that_ends_early_is_truncated_and_one_without_candidates_is_malformed() {
    let kind = |chunks: &[Value]| streamed(chunks, ToolNames::default()).unwrap_err().kind;
    assert_eq!(kind(&[]), FailureKind::Truncated);
    assert_eq!(kind(&[chunk(json!([{"text": "a"}]), None)]), FailureKind::Truncated);
    assert_eq!(kind(&[json!({"usageMetadata": {"promptTokenCount": 1}})]), FailureKind::Malformed);
}

#[test]
fn places_of_grounding_are_bytes_there_and_characters_in_chat() {
    let text = "Café 😀 opens at nine.";
    let (start, end) = (text.find("opens").unwrap(), text.find(" at").unwrap());
    let grounding = json!({
        "groundingChunks": [{"web": {"uri": "https://h/a", "title": "A"}}, {"other": {}}, {"web": {"uri": "https://h/b"}}],
        "groundingSupports": [{"segment": {"startIndex": start, "endIndex": end, "text": "opens"}, "groundingChunkIndices": [0, 2, 9]},
            {"segment": {"endIndex": 5}, "groundingChunkIndices": [1, 0]}],
    });
    let mut last = chunk(json!([{"text": "😀 opens at nine."}]), Some("STOP"));
    last["candidates"][0]["groundingMetadata"] = grounding.clone();
    last["candidates"][0]["citationMetadata"] =
        json!({"citationSources": [{"startIndex": 0, "endIndex": 999, "uri": "https://h/c"}, {"license": "MIT"}]});
    let mut repeated = chunk(json!([]), None);
    repeated["candidates"][0]["groundingMetadata"] = grounding;
    let answer = streamed(&[chunk(json!([{"text": "Café "}]), None), last, repeated], ToolNames::default()).unwrap();
    let cited = |start: u64, end: u64, title: &str, url: &str| json!({"type": "url_citation", "url_citation": {"start_index": start, "end_index": end, "title": title, "url": url}});
    let expected = json!([
        cited(0, 21, "https://h/c", "https://h/c"),
        cited(7, 12, "A", "https://h/a"),
        cited(7, 12, "https://h/b", "https://h/b"),
        cited(0, 4, "A", "https://h/a"),
    ]);
    assert_eq!(answer["choices"][0]["message"]["annotations"], expected);
}

#[test]
fn call_ids_fit_the_clients_alphabet_and_are_never_repeated_in_an_answer() {
    let call = |id: Value| json!({"functionCall": {"id": id, "name": "f", "args": {"a": 1}}});
    let parts = json!([
        call(json!("ok-1_x")),
        call(json!("ok-1_x")),
        call(json!("bad id!/é")),
        call(json!("x".repeat(200))),
        call(Value::Null),
        call(json!(""))
    ]);
    let mut body = chunk(parts, Some("STOP"));
    body["responseId"] = json!("r1");
    let ids = |body: &Value| {
        let answer = whole(body).unwrap();
        let calls = answer["choices"][0]["message"]["tool_calls"].as_array().unwrap().clone();
        calls.iter().map(|call| call["id"].as_str().unwrap().to_owned()).collect::<Vec<String>>()
    };
    let first = ids(&body);
    assert_eq!(first[0], "ok-1_x");
    for (place, id) in first.iter().enumerate() {
        assert!(crate::neutral::CLIENT_IDS.fits(id), "{id}");
        assert!(!first[..place].contains(id), "{first:?}");
    }
    assert_eq!(ids(&body), first);
    body["responseId"] = json!("r2");
    assert_ne!(ids(&body)[4], first[4], "ids of two answers differ");
}

#[test]
fn a_surrogate_pair_split_between_chunks_is_joined_also_in_thoughts() {
    let piece =
        |text: &str, more: &str| format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"{more}}}]}}}}]}}"#);
    let thought = r#","thought":true"#;
    let end = r#"{"candidates":[{"finishReason":"STOP"}]}"#.to_owned();
    let events =
        [piece(r"a\ud83d", thought), piece(r"\ude00", thought), piece(r"b\ud83d", ""), piece(r"\ude00c", ""), end];
    let (mut decoder, mut sink) = (Decoder::new(ToolNames::default(), None), CompletionWriter::default());
    for event in &events {
        decoder.event(&StreamEvent { data: event.as_bytes().into(), is_error: false }, &mut sink).unwrap();
    }
    decoder.end(&mut sink).unwrap();
    let message = parsed(&sink.finish().unwrap())["choices"][0]["message"].clone();
    assert_eq!((&message["reasoning"], &message["content"]), (&json!("a😀"), &json!("b😀c")));
}

#[test]
fn images_are_shown_and_drafts_within_thoughts_are_not() {
    let image = |data: &str| json!({"mimeType": "image/png", "data": data});
    let parts = json!([{"inlineData": image("DRAFT"), "thought": true}, {"inlineData": image("AAAA"), "thoughtSignature": "S"}, {"executableCode": {"code": "x"}}]);
    let message = whole(&chunk(parts, Some("STOP"))).unwrap()["choices"][0]["message"].clone();
    assert_eq!(message["images"], json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]));
    assert_eq!(message["reasoning_details"][0]["data"], "S");
}

#[test]
fn log_probabilities_have_the_form_of_chat() {
    let mut body = chunk(json!([{"text": "é"}]), Some("STOP"));
    body["candidates"][0]["logprobsResult"] = json!({
        "chosenCandidates": [{"token": "é", "tokenId": 1, "logProbability": -0.25}],
        "topCandidates": [{"candidates": [{"token": "é", "logProbability": -0.25}, {"token": "e", "logProbability": -2.5}]}],
    });
    let entry = |token: &str, logprob: f64| json!({"token": token, "logprob": logprob, "bytes": token.as_bytes()});
    let mut chosen = entry("é", -0.25);
    chosen["top_logprobs"] = json!([entry("é", -0.25), entry("e", -2.5)]);
    assert_eq!(whole(&body).unwrap()["choices"][0]["logprobs"], json!({"content": [chosen], "refusal": null}));
}

#[test]
fn several_candidates_are_several_choices() {
    let candidate = |index: u64, text: &str, finish: Value| json!({"index": index, "content": {"parts": [{"text": text}]}, "finishReason": finish});
    let chunks = [
        json!({"candidates": [candidate(1, "b", Value::Null)]}),
        json!({"candidates": [candidate(0, "a", json!("STOP")), candidate(1, "c", json!("SAFETY"))]}),
    ];
    let answer = streamed(&chunks, ToolNames::default()).unwrap();
    assert_eq!(
        (&answer["choices"][0]["message"]["content"], &answer["choices"][0]["finish_reason"]),
        (&json!("a"), &json!("stop"))
    );
    assert_eq!(
        (&answer["choices"][1]["message"]["content"], &answer["choices"][1]["finish_reason"]),
        (&json!("bc"), &json!("content_filter"))
    );
}

#[test]
fn audio_tokens_are_told_apart() {
    let mut body = chunk(json!([{"text": "a"}]), Some("STOP"));
    body["usageMetadata"] = json!({"promptTokenCount": 10, "candidatesTokenCount": 2,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 3}, {"modality": "AUDIO", "tokenCount": 7}], "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": 1}]});
    let usage = whole(&body).unwrap()["usage"].clone();
    assert_eq!(
        (&usage["prompt_tokens_details"]["audio_tokens"], &usage["completion_tokens_details"]["audio_tokens"]),
        (&json!(7), &json!(1))
    );
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
        fn event(&mut self, event: AnswerEvent<'_>) -> Result<(), AnswerFault> {
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

#[test]
fn thoughts_before_and_after_a_call_are_two_blocks() {
    let thought = |text: &str| json!({"text": text, "thought": true});
    let parts = json!([thought("a"), thought("b"), {"functionCall": {"name": "f"}}, thought("c"), {"text": "d"}]);
    let message = whole(&chunk(parts, Some("STOP"))).unwrap()["choices"][0]["message"].clone();
    let block = |text: &str, index: u32| json!({"type": "reasoning.text", "text": text, "format": "google-gemini-v1", "index": index});
    assert_eq!(message["reasoning_details"], json!([block("ab", 0), block("c", 1)]));
}
