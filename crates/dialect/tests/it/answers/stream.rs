//! Streams, from a corpus of ordinary and hostile upstreams, whole and split.

use bytes::{Bytes, BytesMut};
use expect_test::expect_file;
use pointsman_dialect::{AnswerContext, ChatStream, StreamError, StreamOptions, UsageChunk};
use pointsman_domain::{FailureKind, FinishReason};
use serde_json::Value;

use super::common::{Run, account, context, corpus, run, setting, stream_error};

/// `stop_after_tool_calls`.
#[test]
fn streams_become_what_their_golden_files_say() {
    for (path, stream) in corpus("sse", "sse") {
        let run = run([stream.as_slice()], setting(&stream));
        let content = if run.had_content { "" } else { "-- no content\n" };
        let text = String::from_utf8_lossy(&run.out) + content;
        expect_file![path.with_extension("out")].assert_eq(&account(&text, run.fault.as_ref(), Some(&run.outcome)));
    }
}

#[test]
fn how_reads_split_a_stream_changes_nothing() {
    for (path, stream) in corpus("sse", "sse") {
        let whole = run([stream.as_slice()], setting(&stream));
        for length in [1, 2, 3, 7, 64, 500] {
            let split = run(stream.chunks(length), setting(&stream));
            let (split_text, whole_text) = (String::from_utf8_lossy(&split.out), String::from_utf8_lossy(&whole.out));
            assert_eq!(split_text, whole_text, "{} in reads of {length}", path.display());
            assert_eq!(split.fault, whole.fault, "{} in reads of {length}", path.display());
            assert_eq!(split.outcome, whole.outcome, "{} in reads of {length}", path.display());
        }
    }
}

#[test]
fn every_stream_keeps_the_promises_made_to_clients() {
    for (path, stream) in corpus("sse", "sse") {
        let run = run([stream.as_slice()], setting(&stream));
        if let Err(broken) = check_promises(&run) {
            panic!("{}: {broken}\n{}", path.display(), String::from_utf8_lossy(&run.out));
        }
    }
}

/// The rules about chunks that hold for every stream, whole or broken.
fn check_promises(run: &Run) -> Result<(), String> {
    let text = std::str::from_utf8(&run.out).map_err(|error| error.to_string())?;
    let events: Vec<&str> = text.split_terminator("\n\n").collect();
    let (last, chunks) = events.split_last().ok_or("nothing at all")?;
    if *last != "data: [DONE]" {
        return Err("[DONE] is not last".to_owned());
    }
    let mut choices: std::collections::BTreeMap<u64, (u32, u32)> = std::collections::BTreeMap::new();
    for chunk in chunks {
        let json = chunk.strip_prefix("data: ").ok_or("an event that is no data line")?;
        let chunk: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        check_chunk(&chunk)?;
        for choice in chunk.get("choices").and_then(Value::as_array).into_iter().flatten() {
            let index = choice.get("index").and_then(Value::as_u64).ok_or("a choice without index")?;
            let (roles, finishes) = choices.entry(index).or_default();
            let delta = choice.get("delta").and_then(Value::as_object).ok_or("a choice without delta")?;
            *roles += u32::from(delta.contains_key("role"));
            *finishes += u32::from(choice.get("finish_reason").ok_or("no finish_reason")?.is_string());
            if delta.get("tool_calls").is_some_and(|calls| !calls.is_array()) {
                return Err("tool_calls that are no list".to_owned());
            }
        }
    }
    match choices.values().find(|(roles, finishes)| *roles > 1 || (run.fault.is_none() && *finishes != 1)) {
        Some((roles, finishes)) => Err(format!("a choice with {roles} roles and {finishes} finishes")),
        None => Ok(()),
    }
}

fn check_chunk(chunk: &Value) -> Result<(), String> {
    let expected = [
        ("id", "gen-1763629500-AbCdEfGhIjKlMnOpQrStUv"),
        ("object", "chat.completion.chunk"),
        ("model", "acme/small"),
        ("provider", "Acme"),
    ];
    for (name, value) in expected {
        if chunk.get(name).and_then(Value::as_str) != Some(value) {
            return Err(format!("{name} is not {value}"));
        }
    }
    if chunk.get("system_fingerprint").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err("no fingerprint".to_owned());
    }
    match ["usage", "error"].into_iter().find(|name| chunk.get(name).is_some_and(Value::is_null)) {
        Some(name) => Err(format!("{name} is null")),
        None => Ok(()),
    }
}

const ROLE: &str =
    "data: {\"id\":\"u1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
const HELLO: &str = "data: {\"id\":\"u1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"}}]}\n\n";

fn push(stream: &mut ChatStream, text: &str, out: &mut BytesMut) -> bool {
    let progress = stream.push(&Bytes::copy_from_slice(text.as_bytes()), out).expect("no fault");
    progress.content
}

#[test]
fn neither_a_role_nor_a_comment_is_content_and_text_is() {
    let mut stream = ChatStream::new(context(), StreamOptions::default());
    let mut out = BytesMut::new();
    assert!(!push(&mut stream, ": waiting\n\n", &mut out) && out.is_empty());
    assert!(!push(&mut stream, ROLE, &mut out) && !out.is_empty());
    assert!(!stream.has_content());
    assert!(push(&mut stream, HELLO, &mut out));
    assert!(stream.has_content() && !stream.is_whole());
    assert!(!push(&mut stream, ROLE, &mut out), "a later event without content is not progress");
}

#[test]
fn excluded_reasoning_is_progress_but_not_content() {
    let context = AnswerContext { exclude_reasoning: true, ..context() };
    let mut stream = ChatStream::new(context, StreamOptions::default());
    let thought = "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning\":\"hm\"}}]}\n\n";
    assert!(push(&mut stream, thought, &mut BytesMut::new()));
    assert!(!stream.has_content());
}

#[test]
fn a_cancelled_stream_is_estimated_from_what_it_produced() {
    let mut stream = ChatStream::new(context(), StreamOptions::default());
    push(&mut stream, &format!("{ROLE}{HELLO}{HELLO}"), &mut BytesMut::new());
    let outcome = stream.outcome();
    assert_eq!((outcome.usage.prompt_tokens, outcome.usage.completion_tokens), (12, 3), "10 bytes are 3 tokens");
    assert!(outcome.usage.estimated);
    assert_eq!(outcome.finish, None);
    assert_eq!(outcome.upstream_id.as_deref(), Some("u1"));
    assert_eq!(outcome.cost.unwrap().total().to_string(), "0.0000036");
}

/// The report covers what came before it; what came after is estimated. A whole answer is billed as reported.
#[test]
fn a_cut_stream_costs_its_last_report_and_what_came_after_it() {
    let report = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"}}],\
                  \"usage\":{\"prompt_tokens\":40,\"completion_tokens\":20}}\n\n";
    let usage_of = |text: &str| {
        let mut stream = ChatStream::new(context(), StreamOptions::default());
        push(&mut stream, text, &mut BytesMut::new());
        let usage = stream.outcome().usage;
        (usage.prompt_tokens, usage.completion_tokens, usage.estimated)
    };
    assert_eq!(usage_of(report), (40, 20, false));
    assert_eq!(usage_of(&format!("{report}{HELLO}{HELLO}")), (40, 23, true), "10 further bytes are 3 tokens");
    assert_eq!(usage_of(&format!("{report}{HELLO}{report}")), (40, 20, false));
    let finish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    assert_eq!(usage_of(&format!("{report}{HELLO}{finish}data: [DONE]\n\n")), (40, 20, false));
}

#[test]
fn a_finished_choice_is_whole_even_before_done() {
    let mut stream = ChatStream::new(context(), StreamOptions::default());
    let finish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    let mut out = BytesMut::new();
    push(&mut stream, &format!("{HELLO}{finish}"), &mut out);
    assert!(stream.is_whole() && !stream.is_done());
    stream.end(&mut out).expect("whole");
    assert!(stream.is_done());
    assert_eq!(stream.outcome().finish, Some(FinishReason::Stop));
}

#[test]
fn nothing_follows_done() {
    let mut stream = ChatStream::new(context(), StreamOptions { usage_chunk: UsageChunk::Omitted, ..<_>::default() });
    let mut out = BytesMut::new();
    push(&mut stream, &format!("{HELLO}data: [DONE]\n\n{HELLO}"), &mut out);
    let done = out.clone();
    push(&mut stream, HELLO, &mut out);
    stream.fail(&stream_error(), &mut out);
    stream.end(&mut out).expect("done before");
    assert_eq!(out, done);
    assert!(done.ends_with(b"data: [DONE]\n\n"));
}

#[test]
fn whatever_was_whole_before_a_fault_is_kept_and_the_fault_is_not() {
    let mut stream = ChatStream::new(context(), StreamOptions::default());
    let mut out = BytesMut::new();
    let broken = format!("{HELLO}data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"x\"}}}}]\n\n");
    let fault = stream.push(&Bytes::from(broken), &mut out).expect_err("broken JSON");
    assert_eq!(fault.kind, FailureKind::Malformed);
    let text = String::from_utf8_lossy(&out);
    assert!(text.contains("Hello") && text.ends_with("\n\n") && !text.contains("\"x\""), "{text}");
    assert_eq!(stream.outcome().finish, None);
    stream.fail(&stream_error(), &mut out);
    assert_eq!(stream.outcome().finish, Some(FinishReason::Error));
}

/// Feeds the event again and again with another number in the place of `N`, until the stream objects.
fn events_until_fault(event: &str) -> usize {
    let mut stream = ChatStream::new(context(), StreamOptions::default());
    let push = |n: usize| {
        let event = Bytes::from(event.replace('N', &n.to_string()));
        stream.push(&event, &mut BytesMut::new()).is_ok()
    };
    (0..10_000).map(push).take_while(|fine| *fine).count()
}

#[test]
fn what_must_be_remembered_of_a_stream_is_bounded() {
    let call = |name: &str| {
        let function = format!("{{\"name\":\"{name}\",\"arguments\":\"\"}}");
        let call = format!("{{\"index\":N,\"id\":\"cN\",\"function\":{function}}}");
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{call}]}}}}]}}\n\n")
    };
    assert_eq!(events_until_fault(&call("f")), 1_024, "calls");
    assert_eq!(events_until_fault(&call(&"f".repeat(100_000))), 2, "names of calls");
    let early = call("").replace("\"arguments\":\"\"", &format!("\"arguments\":\"{}\"", "a".repeat(100_000)));
    assert_eq!(events_until_fault(&early.replace("\"index\":N,\"id\":\"cN\"", "\"index\":0")), 2, "nameless calls");
    assert_eq!(events_until_fault("data: {\"choices\":[{\"index\":N,\"delta\":{}}]}\n\n"), 128, "choices");
}

#[test]
fn members_too_long_to_wait_for_the_finish_go_at_once() {
    let mut stream = ChatStream::new(context(), StreamOptions::default());
    let mut out = BytesMut::new();
    push(&mut stream, HELLO, &mut out);
    out.clear();
    let trace = "x".repeat(70_000);
    let finish = format!("{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\",\"trace\":\"{trace}\"}}");
    push(&mut stream, &format!("data: {{\"choices\":[{finish}]}}\n\n"), &mut out);
    assert!(out.len() > trace.len() && !stream.is_done());
    out.clear();
    stream.end(&mut out).expect("whole");
    let text = String::from_utf8_lossy(&out);
    assert!(text.contains("\"finish_reason\":\"stop\"") && !text.contains("xxx"), "{text}");
}

#[test]
fn a_stream_without_content_may_have_taken_something() {
    let took = |events: &str| {
        let context = AnswerContext { exclude_reasoning: true, ..context() };
        let (mut stream, mut out) = (ChatStream::new(context, StreamOptions::default()), BytesMut::new());
        push(&mut stream, events, &mut out);
        assert!(!stream.has_content(), "{events}");
        stream.spent().map(|usage| (usage.prompt_tokens, usage.completion_tokens))
    };
    let event = |delta: &str| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n");
    assert_eq!(took(": beat\n\n"), None);
    assert_eq!(took(&event("{\"role\":\"assistant\",\"content\":\"\"}")), None);
    let thinking = r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"twelve bytes"}]}]}"#;
    for delta in [r#"{"reasoning":"twelve bytes"}"#, thinking] {
        assert_eq!(took(&event(delta)), Some((12, 3)), "hidden, but paid for: {delta}");
    }
}

#[test]
fn an_error_chunk_tells_of_earlier_attempts() {
    let list = r#"[{"provider":"Acme","code":"server"}]"#;
    let error = StreamError { previous_errors: Some(list.into()), ..stream_error() };
    let (mut stream, mut out) = (ChatStream::new(context(), StreamOptions::default()), BytesMut::new());
    stream.fail(&error, &mut out);
    let text = String::from_utf8_lossy(&out);
    let chunk: Value = serde_json::from_str(text.lines().next().unwrap().strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(chunk["error"]["metadata"]["previous_errors"][0]["code"], "server", "{text}");
}
