use proptest::prelude::*;

use super::*;
use crate::neutral::{ReasoningKind, ReasoningState};

/// An event that owns its texts.
#[derive(Debug, Clone)]
enum Event {
    Text(u32, String),
    Refusal(String),
    Reasoning(u32, ReasoningFormat, ReasoningKind, Option<String>, Option<String>, Option<String>),
    Call(u32, bool),
    Arguments(u32, String),
    Citation,
    Usage(u64, u64, u64),
    Finished(FinishReason),
    KeepAlive,
}

fn send(encoder: &mut impl AnswerSink, event: &Event) -> AnswerResult {
    let text = |text: &str| EscapedText::escaping(text);
    let optional = |text: &Option<String>| text.as_deref().map(EscapedText::escaping);
    encoder.event(match event {
        Event::Text(choice, piece) => AnswerEvent::Text { choice: *choice, text: text(piece) },
        Event::Refusal(piece) => AnswerEvent::Refusal { choice: 0, text: text(piece) },
        Event::Reasoning(index, format, kind, shown, sealed, id) => AnswerEvent::Reasoning {
            choice: 0,
            index: *index,
            state: ReasoningState {
                format: *format,
                kind: *kind,
                text: optional(shown),
                sealed: optional(sealed),
                id: optional(id),
            },
        },
        Event::Call(call, custom) => AnswerEvent::ToolCallStarted {
            choice: 0,
            call: *call,
            id: text(&format!("call_{call}")),
            name: text("f"),
            kind: if *custom { ToolKind::Custom } else { ToolKind::Function },
        },
        Event::Arguments(call, piece) => AnswerEvent::ToolCallArguments { choice: 0, call: *call, text: text(piece) },
        Event::Citation => {
            let json = br#"{"type":"url_citation","url_citation":{"url":"https://h/"}}"#;
            AnswerEvent::Annotation { choice: 0, json: json.into() }
        }
        Event::Usage(prompt, cached, completion) => AnswerEvent::Usage(ReportedTokens {
            prompt: *prompt,
            cached: Some(*cached),
            completion: *completion,
            ..Default::default()
        }),
        Event::Finished(finish) => {
            AnswerEvent::Finished { choice: 0, finish: *finish, native: EscapedText::plain("end_turn") }
        }
        Event::KeepAlive => return Ok(()),
    })
}

fn format() -> impl Strategy<Value = ReasoningFormat> {
    prop::sample::select(vec![
        ReasoningFormat::Anthropic,
        ReasoningFormat::Gemini,
        ReasoningFormat::Responses,
        ReasoningFormat::Unknown,
    ])
}

fn reasoning() -> impl Strategy<Value = Event> {
    let kind = prop::sample::select(vec![ReasoningKind::Text, ReasoningKind::Summary, ReasoningKind::Encrypted]);
    let text = || prop::option::of(any::<String>());
    (0_u32..3, format(), kind, text(), text(), text())
        .prop_map(|(index, format, kind, shown, sealed, id)| Event::Reasoning(index, format, kind, shown, sealed, id))
}

/// Any event at all.
fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0_u32..2, any::<String>()).prop_map(|(choice, text)| Event::Text(choice, text)),
        1 => any::<String>().prop_map(Event::Refusal),
        3 => reasoning(),
        4 => (0_u32..4, prop::bool::weighted(0.1)).prop_map(|(call, custom)| Event::Call(call, custom)),
        4 => (0_u32..4, any::<String>()).prop_map(|(call, text)| Event::Arguments(call, text)),
        4 => (0_u32..4, "[ {}\\[\\]\",:\\\\a]{0,6}").prop_map(|(call, text)| Event::Arguments(call, text)),
        1 => Just(Event::Citation),
        1 => (0_u64..99, 0_u64..99, 0_u64..99).prop_map(|(prompt, cached, completion)| Event::Usage(prompt, cached, completion)),
        1 => prop::sample::select(vec![FinishReason::Stop, FinishReason::Length, FinishReason::ToolCalls, FinishReason::ContentFilter, FinishReason::Error])
            .prop_map(Event::Finished),
        2 => Just(Event::KeepAlive),
    ]
}

/// A block as an upstream of this API has it, with its text in pieces.
#[derive(Debug, Clone)]
enum Block {
    Text(Vec<String>),
    Thought(Vec<String>, String),
    Redacted(String),
    Call(Value, usize),
}

fn block() -> impl Strategy<Value = Block> {
    let pieces = || prop::collection::vec(".{1,5}", 1..4);
    prop_oneof![
        pieces().prop_map(Block::Text),
        (pieces(), "[a-zA-Z0-9+/]{1,20}").prop_map(|(pieces, signature)| Block::Thought(pieces, signature)),
        "[a-zA-Z0-9+/]{1,20}".prop_map(Block::Redacted),
        (prop::collection::btree_map(".{0,4}", ".{0,9}", 0..3), 0_usize..20)
            .prop_map(|(input, cut)| Block::Call(json!(input), cut)),
    ]
}

/// The events of blocks, in the order of the blocks or with the arguments of calls in turns, each at its end.
fn events(blocks: &[Block], finish: FinishReason, in_turns: bool) -> Vec<Event> {
    let (mut events, mut later) = (Vec::new(), Vec::new());
    let (mut calls, mut thoughts) = (0, 0);
    let thought =
        |index, kind, text, sealed| Event::Reasoning(index, ReasoningFormat::Anthropic, kind, text, sealed, None);
    for block in blocks {
        match block {
            Block::Text(pieces) => events.extend(pieces.iter().map(|piece| Event::Text(0, piece.clone()))),
            Block::Thought(pieces, signature) => {
                let text = |piece: &String| thought(thoughts, ReasoningKind::Text, Some(piece.clone()), None);
                events.extend(pieces.iter().map(text));
                events.push(thought(thoughts, ReasoningKind::Text, None, Some(signature.clone())));
                thoughts += 1;
            }
            Block::Redacted(data) => {
                events.push(thought(thoughts, ReasoningKind::Encrypted, None, Some(data.clone())));
                thoughts += 1;
            }
            Block::Call(input, cut) => {
                let characters: Vec<char> = input.to_string().chars().collect();
                let (before, after) = characters.split_at((*cut).min(characters.len()));
                events.push(Event::Call(calls, false));
                events.push(Event::Arguments(calls, before.iter().collect()));
                let rest = Event::Arguments(calls, after.iter().collect());
                if in_turns {
                    later.push(rest)
                } else {
                    events.push(rest)
                }
                calls += 1;
            }
        }
    }
    events.extend(later);
    let finish = if calls > 0 && finish == FinishReason::Stop { FinishReason::ToolCalls } else { finish };
    let finish = if calls == 0 && finish == FinishReason::ToolCalls { FinishReason::Stop } else { finish };
    events.extend([Event::Finished(finish), Event::Usage(50, 40, 9)]);
    events
}

fn encoded(events: &[Event], form: AnswerForm) -> Bytes {
    let mut opening = opening(form);
    opening.max_held_bytes = 100_000;
    let mut encoder = MessagesEncoder::new(opening);
    events.iter().for_each(|event| send(&mut encoder, event).unwrap());
    encoder.whole()
}

/// The chat answer of these events, without what only this API's answers tell.
fn collected(feed: impl FnOnce(&mut CompletionWriter)) -> Value {
    let mut writer = CompletionWriter::default();
    feed(&mut writer);
    let mut answer: Value = serde_json::from_slice(&writer.finish().unwrap()).unwrap();
    answer["id"] = Value::Null;
    answer["choices"][0]["native_finish_reason"] = Value::Null;
    let prompt = &mut answer["usage"]["prompt_tokens_details"];
    prompt.as_object_mut().unwrap().remove("cache_write_tokens");
    answer["usage"].as_object_mut().unwrap().remove("cache_creation");
    answer
}

fn decoded(stream: &[u8], writer: &mut CompletionWriter) {
    let mut decoder = Decoder::new(ToolNames::default());
    let mut splitter = SseSplitter::new(1_000_000);
    splitter.push(stream, |event| decoder.event(&event, writer)).unwrap();
    decoder.end(writer).unwrap();
}

fn some_finish() -> impl Strategy<Value = FinishReason> {
    prop::sample::select(vec![FinishReason::Stop, FinishReason::Length, FinishReason::ContentFilter])
}

proptest! {
    #[test]
    fn any_events_become_a_stream_that_a_strict_client_accepts(events in prop::collection::vec(event(), 0..40), fails in any::<bool>()) {
        let mut encoder = streamed();
        let mut stream = Vec::new();
        let mut failed = fails;
        for event in &events {
            if matches!(event, Event::KeepAlive) {
                encoder.keep_alive();
            }
            let sent = send(&mut encoder, event);
            stream.extend_from_slice(&encoder.take());
            receive(&stream);
            if sent.is_err() {
                failed = true;
                break;
            }
        }
        if failed { encoder.fail(&failure()) } else { encoder.finish() }
        stream.extend_from_slice(&encoder.take());
        let received = receive(&stream);
        prop_assert!(received.is_complete != received.error.is_some());
        prop_assert!(!failed || received.error.is_some());
    }

    #[test]
    fn what_is_written_is_read_as_the_same_answer(blocks in prop::collection::vec(block(), 0..6), finish in some_finish()) {
        let events = events(&blocks, finish, false);
        let expected = collected(|writer| events.iter().for_each(|event| send(writer, event).unwrap()));
        let stream = encoded(&events, AnswerForm::Streamed);
        prop_assert_eq!(&collected(|writer| decoded(&stream, writer)), &expected);
        let whole = encoded(&events, AnswerForm::Whole);
        let whole = std::str::from_utf8(&whole).unwrap();
        prop_assert_eq!(&collected(|writer| Decoder::new(ToolNames::default()).whole(whole, writer).unwrap()), &expected);
    }

    #[test]
    fn a_stream_and_a_whole_answer_are_the_same_message(
        blocks in prop::collection::vec(block(), 0..6), finish in some_finish(), in_turns in any::<bool>(),
    ) {
        let events = events(&blocks, finish, in_turns);
        let received = receive(&encoded(&events, AnswerForm::Streamed));
        prop_assert!(received.is_complete);
        let whole: Value = serde_json::from_slice(&encoded(&events, AnswerForm::Whole)).unwrap();
        prop_assert_eq!(received.message, whole);
    }
}
