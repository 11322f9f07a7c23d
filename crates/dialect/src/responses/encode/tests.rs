use pointsman_domain::ReasoningFormat;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    frame::sse::SseSplitter,
    json::MAX_DEPTH,
    neutral::{ReasoningKind, ToolNames},
    openai::{chat_events::read_chunk, completion_writer::CompletionWriter, request_writer::whole_chat},
    responses::{Decoder, inbound::read_responses, provider_state::ProviderState},
};

mod client;

use client::StrictClient;

const KEY: StateKey = StateKey::new([5; 32]);

fn opening(form: AnswerForm) -> ResponseOpening {
    ResponseOpening {
        id: "gen-17-AbC".into(),
        model: "anthropic/x".into(),
        created: 17,
        clock: || 20,
        form,
        echo: ResponseEcho::default(),
        max_answer_bytes: 100_000,
        state_key: KEY,
    }
}

/// The answer to chat chunks, streamed and whole.
fn encode_with(opening: impl Fn(AnswerForm) -> ResponseOpening, chunks: &[Value]) -> (StrictClient, Value) {
    let encoded = |form: AnswerForm| {
        let mut encoder = ResponsesEncoder::new(opening(form));
        for chunk in chunks {
            read_chunk(chunk.to_string().as_bytes(), &mut encoder).unwrap();
        }
        encoder.whole()
    };
    let client = StrictClient::read(&encoded(AnswerForm::Streamed));
    (client, serde_json::from_slice(&encoded(AnswerForm::Whole)).unwrap())
}

#[track_caller]
fn encode(chunks: &[Value]) -> Value {
    let (client, whole) = encode_with(opening, chunks);
    assert_eq!(client.response(), &whole, "stream and whole answer");
    whole
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

fn detail(detail: Value) -> Value {
    delta(json!({ "reasoning_details": [detail] }))
}

fn call(index: u64, id: &str, name: &str) -> Value {
    delta(
        json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]}),
    )
}

fn arguments(index: u64, text: &str) -> Value {
    delta(json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]}))
}

fn finished(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason, "native_finish_reason": "x"}]})
}

fn usage() -> Value {
    json!({"choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 4}, "cost": 0.5}})
}

#[test]
fn arguments_of_calls_may_come_in_turns() {
    let whole = encode(&[
        call(0, "a", "f"),
        arguments(0, "{\"x\":"),
        call(1, "b", "g"),
        arguments(1, "{}"),
        arguments(0, "1}"),
        call(2, "c", "h"),
        arguments(1, " "),
        finished("tool_calls"),
    ]);
    let texts: Vec<&Value> = whole["output"].as_array().unwrap().iter().map(|item| &item["arguments"]).collect();
    assert_eq!(texts, [&json!("{\"x\":1}"), &json!("{}"), &json!("{}")]);
}

#[test]
fn reasoning_of_any_provider_comes_back_as_it_was() {
    let details = [
        json!({"type": "reasoning.text", "format": "anthropic-claude-v1", "text": "Let \"me\" 😀", "signature": "EqQB"}),
        json!({"type": "reasoning.encrypted", "format": "anthropic-claude-v1", "data": "redacted"}),
        json!({"type": "reasoning.encrypted", "format": "google-gemini-v1", "data": "AbC=", "id": "call_1"}),
        json!({"type": "reasoning.text", "format": "unknown", "text": "hm"}),
        json!({"type": "reasoning.encrypted", "format": "openai-responses-v1", "data": "gAAA", "id": "rs_up"}),
    ];
    let mut chunks: Vec<Value> = Vec::new();
    for (index, element) in details.iter().enumerate() {
        let mut element = element.clone();
        element["index"] = json!(index);
        // The signature of a text comes behind it.
        if let Some(signature) = element.as_object_mut().unwrap().remove("signature") {
            chunks.push(detail(element.clone()));
            let of =
                json!({"type": element["type"], "format": element["format"], "index": index, "signature": signature});
            chunks.push(detail(of));
        } else {
            chunks.push(detail(element));
        }
    }
    chunks.extend([call(0, "call_1", "f"), arguments(0, "{}"), finished("tool_calls")]);
    let mut input = encode(&chunks)["output"].as_array().unwrap().clone();
    assert_eq!(input.len(), 6, "five of reasoning and a call");
    input.push(json!({"type": "function_call_output", "call_id": "call_1", "output": "1"}));
    let body = json!({"model": "m", "input": input}).to_string();
    let inbound = read_responses(body.as_bytes(), &KEY, || ProviderState::Refused, MAX_DEPTH).unwrap();
    assert!(inbound.unsupported.dropped().is_empty());
    let chat = whole_chat(&inbound.chat.conversation, false);
    assert_eq!(chat["messages"][0]["reasoning_details"], Value::Array(details.to_vec()));
}

#[test]
fn an_id_that_was_made_here_never_reaches_an_upstream() {
    let sealed = json!({"type": "reasoning.encrypted", "data": "gAAA", "format": "openai-responses-v1", "index": 0});
    let output = encode(&[detail(sealed), finished("stop")])["output"].clone();
    assert!(output[0]["id"].as_str().unwrap().starts_with("rs_gen"));
    let body = json!({"model": "m", "input": output}).to_string();
    let inbound = read_responses(body.as_bytes(), &KEY, || ProviderState::Refused, MAX_DEPTH).unwrap();
    let chat = whole_chat(&inbound.chat.conversation, false);
    assert_eq!(chat["messages"][0]["reasoning_details"][0].get("id"), None);
}

#[test]
fn a_refusal_an_image_citations_and_log_probabilities_have_their_places() {
    let citation = json!({"type": "url_citation", "url_citation": {"url": "https://h/", "title": "t", "start_index": 1, "end_index": 2}});
    let probable = json!([{"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}]);
    let mut text = delta(json!({"content": "ab"}));
    text["choices"][0]["logprobs"] = json!({"content": probable, "refusal": null});
    let image = json!({"images": [{"type": "image_url", "image_url": {"url": "data:image/webp;base64,iVBO"}}]});
    let whole = encode(&[
        text,
        delta(json!({"annotations": [citation]})),
        delta(
            json!({"citations": [{"type": "page_location", "document_index": 2, "document_title": "d.pdf", "file_id": null}]}),
        ),
        delta(json!({"refusal": "N"})),
        delta(json!({"refusal": "o."})),
        delta(image),
        finished("stop"),
    ]);
    let flat = json!({"type": "url_citation", "url": "https://h/", "title": "t", "start_index": 1, "end_index": 2});
    let of_file = json!({"type": "file_citation", "file_id": "", "filename": "d.pdf", "index": 2});
    let content = json!([{"type": "output_text", "text": "ab", "annotations": [flat, of_file], "logprobs": probable}, {"type": "refusal", "refusal": "No."}]);
    assert_eq!(whole["output"][0]["content"], content);
    let image = json!({"type": "image_generation_call", "id": "ig_gen17AbC_1", "status": "completed", "result": "iVBO", "output_format": "webp"});
    assert_eq!(whole["output"][1], image);
}

#[test]
fn an_answer_that_was_cut_off_is_incomplete_and_says_why() {
    for (reason, told) in [("length", "max_output_tokens"), ("content_filter", "content_filter")] {
        let whole =
            encode(&[delta(json!({"content": "x"})), call(0, "c", "f"), arguments(0, "{\"a"), finished(reason)]);
        assert_eq!((&whole["status"], &whole["incomplete_details"]), (&json!("incomplete"), &json!({"reason": told})));
        assert_eq!(whole["output"][1]["status"], "incomplete");
    }
}

fn provider_error() -> StreamError {
    StreamError {
        code: 429,
        error_type: "rate_limit_exceeded",
        message: "Slow down.".into(),
        ..StreamError::broken_answer()
    }
}

#[test]
fn every_stream_ends_with_exactly_one_last_event_whatever_happens() {
    let begun = [delta(json!({"content": "x"})), call(0, "c", "f"), arguments(0, "{")];
    for length in 0..=begun.len() {
        let mut encoder = ResponsesEncoder::new(opening(AnswerForm::Streamed));
        encoder.keep_alive();
        for chunk in &begun[..length] {
            read_chunk(chunk.to_string().as_bytes(), &mut encoder).unwrap();
            encoder.keep_alive();
        }
        encoder.fail(&provider_error());
        encoder.keep_alive();
        encoder.finish();
        encoder.fail(&provider_error());
        let client = StrictClient::read(&encoder.take());
        let response = client.response();
        let message = "Slow down. Please try again in 5s.";
        assert_eq!(response["error"], json!({"code": "rate_limit_exceeded", "message": message}));
        assert_eq!((&response["status"], client.kinds().last()), (&json!("failed"), Some(&"failed")));
    }
    let (client, whole) = encode_with(opening, &[delta(json!({"content": "x"})), finished("error")]);
    assert_eq!(client.response()["error"]["code"], "server_error");
    assert_eq!(whole["error"]["code"], 502, "a whole answer is an error of its own");
}

#[test]
fn an_error_behind_events_of_the_upstream_has_the_next_number() {
    let mut encoder = ResponsesEncoder::new(opening(AnswerForm::Streamed));
    encoder.continue_at(7);
    encoder.fail(&provider_error());
    let text = String::from_utf8(encoder.take().to_vec()).unwrap();
    assert!(
        text.starts_with("event: response.failed\ndata: {\"type\":\"response.failed\",\"sequence_number\":7,"),
        "{text}"
    );
}

#[test]
fn nothing_of_a_whole_answer_is_there_before_its_end() {
    let mut encoder = ResponsesEncoder::new(opening(AnswerForm::Whole));
    read_chunk(delta(json!({"content": "x"})).to_string().as_bytes(), &mut encoder).unwrap();
    encoder.keep_alive();
    assert!(encoder.take().is_empty());
}

#[test]
fn an_answer_over_a_limit_is_a_fault() {
    let mut encoder = ResponsesEncoder::new(opening(AnswerForm::Streamed));
    let piece = delta(json!({"content": "x".repeat(10_000)})).to_string();
    let outcomes: Vec<bool> = (0..11).map(|_| read_chunk(piece.as_bytes(), &mut encoder).is_ok()).collect();
    assert_eq!(outcomes.iter().filter(|is_taken| **is_taken).count(), 10);
    encoder.fail(&provider_error());
    StrictClient::read(&encoder.take());
    let mut encoder = ResponsesEncoder::new(opening(AnswerForm::Streamed));
    let faults =
        (0..5_000).find_map(|index| read_chunk(call(index, "c", "f").to_string().as_bytes(), &mut encoder).err());
    assert!(faults.is_some());
    let mut encoder = ResponsesEncoder::new(opening(AnswerForm::Streamed));
    assert!(read_chunk(arguments(3, "x").to_string().as_bytes(), &mut encoder).is_err());
}

#[test]
fn other_choices_are_not_shown() {
    let other = json!({"choices": [{"index": 1, "delta": {"content": "y"}, "finish_reason": "length"}]});
    let whole = encode(&[delta(json!({"content": "x"})), other, finished("stop")]);
    assert_eq!((whole["output"].as_array().unwrap().len(), &whole["status"]), (1, &json!("completed")));
}

/// A chunk, by what it adds.
#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    Refusal(String),
    Summary(u8, String),
    Sealed(String),
    Call(String, bool),
    Arguments(prop::sample::Index, String),
    Image,
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        any::<String>().prop_map(Piece::Text),
        any::<String>().prop_map(Piece::Refusal),
        (0_u8..3, any::<String>()).prop_map(|(index, text)| Piece::Summary(index, text)),
        "[a-zA-Z0-9]{1,9}".prop_map(Piece::Sealed),
        ("[a-zA-Z0-9_-]{1,9}", any::<bool>()).prop_map(|(id, custom)| Piece::Call(id, custom)),
        (any::<prop::sample::Index>(), "[a-z\"{}:]{0,5}").prop_map(|(call, text)| Piece::Arguments(call, text)),
        Just(Piece::Image),
    ]
}

/// Chunks of chat in which every call gets a text that does not end before the answer does.
fn chunks_of(pieces: &[Piece]) -> Vec<Value> {
    let (mut calls, mut chunks) = (0_u64, Vec::new());
    for piece in pieces {
        let chunk = match piece {
            Piece::Text(text) => delta(json!({ "content": text })),
            Piece::Refusal(text) => delta(json!({ "refusal": text })),
            Piece::Summary(index, text) => detail(
                json!({"type": "reasoning.summary", "summary": text, "format": "openai-responses-v1", "index": index}),
            ),
            Piece::Sealed(data) => detail(
                json!({"type": "reasoning.encrypted", "data": data, "id": "rs_1", "format": "openai-responses-v1", "index": 9}),
            ),
            Piece::Call(id, custom) => {
                calls += 1;
                chunks.push(match custom {
                    true => delta(json!({"tool_calls": [{"index": calls - 1, "id": id, "type": "custom", "custom": {"name": "p", "input": ""}}]})),
                    false => call(calls - 1, id, "f"),
                });
                arguments(calls - 1, "x")
            }
            Piece::Arguments(_, _) if calls == 0 => continue,
            Piece::Arguments(call, text) => arguments(call.index(calls as usize) as u64, text),
            Piece::Image => {
                delta(json!({"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}]}))
            }
        };
        chunks.push(chunk);
    }
    chunks
}

/// What a collected answer says, apart from how its reasoning is cut into blocks.
fn essence(mut answer: Value) -> Value {
    let message = &mut answer["choices"][0]["message"];
    let details = message["reasoning_details"].take();
    let sealed: Vec<Value> = details
        .as_array()
        .into_iter()
        .flatten()
        .filter(|detail| detail["data"].is_string())
        .map(|detail| detail["data"].clone())
        .collect();
    message["sealed"] = Value::Array(sealed);
    answer["choices"][0]["native_finish_reason"] = Value::Null;
    // A Response always tells a service, a chat only a special one.
    if let Some(usage) = answer["usage"].as_object_mut() {
        usage.remove("service_tier");
    }
    answer
}

proptest! {
    #[test]
    fn any_answer_is_in_the_grammar_and_decoding_gives_it_back(
        pieces in prop::collection::vec(piece(), 0..20),
        finish in prop::sample::select(vec!["stop", "length", "content_filter"]),
    ) {
        let has_calls = pieces.iter().any(|piece| matches!(piece, Piece::Call(..)));
        let finish = if has_calls && finish == "stop" { "tool_calls" } else { finish };
        let mut chunks = chunks_of(&pieces);
        chunks.extend([finished(finish), usage()]);
        let mut direct = CompletionWriter::default();
        direct.event(AnswerEvent::Started { id: EscapedText::plain("gen-17-AbC") }).unwrap();
        for chunk in &chunks {
            read_chunk(chunk.to_string().as_bytes(), &mut direct).unwrap();
        }
        let direct: Value = serde_json::from_slice(&direct.finish().unwrap()).unwrap();

        let encoded = |form| {
            let mut encoder = ResponsesEncoder::new(opening(form));
            for chunk in &chunks {
                read_chunk(chunk.to_string().as_bytes(), &mut encoder).unwrap();
            }
            encoder.whole()
        };
        let (streamed, whole) = (encoded(AnswerForm::Streamed), encoded(AnswerForm::Whole));
        let client = StrictClient::read(&streamed);
        prop_assert_eq!(client.response(), &serde_json::from_slice::<Value>(&whole).unwrap());

        let (mut decoder, mut decoded) = (Decoder::new(ToolNames::default()), CompletionWriter::default());
        SseSplitter::new(1_000_000).push(&streamed, |event| decoder.event(&event, &mut decoded)).unwrap();
        decoder.end().unwrap();
        let decoded: Value = serde_json::from_slice(&decoded.finish().unwrap()).unwrap();
        let direct = essence(direct);
        prop_assert_eq!(essence(decoded), direct.clone());
        let mut decoded = CompletionWriter::default();
        Decoder::new(ToolNames::default()).whole(std::str::from_utf8(&whole).unwrap(), &mut decoded).unwrap();
        prop_assert_eq!(essence(serde_json::from_slice(&decoded.finish().unwrap()).unwrap()), direct);
    }

    #[test]
    fn no_events_cause_a_panic_and_the_stream_stays_in_the_grammar(
        events in prop::collection::vec((0_u8..9, 0_u32..3, "[a-z{}\"]{0,4}", 0_usize..4), 0..24),
        fails in any::<bool>(),
    ) {
        let mut encoder = ResponsesEncoder::new(opening(AnswerForm::Streamed));
        for (kind, number, text, format) in &events {
            let text = || EscapedText::escaping(text);
            let choice = 0;
            let formats = [ReasoningFormat::Anthropic, ReasoningFormat::Gemini, ReasoningFormat::Responses, ReasoningFormat::Unknown];
            let kinds = [ReasoningKind::Text, ReasoningKind::Summary, ReasoningKind::Encrypted];
            let _ = encoder.event(match kind {
                0 => AnswerEvent::Text { choice, text: text() },
                1 => AnswerEvent::Refusal { choice, text: text() },
                2 => AnswerEvent::Reasoning { choice, index: *number, state: ReasoningState { format: formats[*format], kind: kinds[*number as usize], text: Some(text()), sealed: None, id: Some(text()) } },
                3 => AnswerEvent::Reasoning { choice, index: *number, state: ReasoningState { format: formats[*format], kind: kinds[*number as usize], text: None, sealed: Some(text()), id: None } },
                4 => AnswerEvent::ToolCallStarted { choice, call: *number, id: text(), name: text(), kind: if *format == 0 { ToolKind::Custom } else { ToolKind::Function } },
                5 => AnswerEvent::ToolCallArguments { choice, call: *number, text: text() },
                6 => AnswerEvent::Annotation { choice, json: text().bytes().to_vec().into() },
                7 => AnswerEvent::Finished { choice, finish: FinishReason::Stop, native: text() },
                _ => AnswerEvent::Image { choice, media_type: text(), data: text() },
            });
        }
        if fails { encoder.fail(&provider_error()) } else { encoder.finish() }
        StrictClient::read(&encoder.take());
    }
}
