//! Streamed chat answers: the events, their times and their framing.
//!
//! [`events`] is pure and returns all events of an answer. [`EventStream`] adds time, faults and framing. It is the body of
//! the response, so it ends when the client disconnects.

use std::{io, time::Duration};

use actix_web::{
    HttpResponse,
    http::header::{CACHE_CONTROL, CONTENT_TYPE},
    web::Bytes,
};
use futures_util::{Stream, stream};
use pointsman_domain::FinishReason;
use rand::RngExt;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    answer::{Answer, Choice},
    counters::End,
    json_response,
    load::Outcome,
    provider::ActiveRequest,
    rejection::Rejection,
    words,
};

const SERVER_SENT: &str = "text/event-stream; charset=utf-8";

/// Starts a streamed answer.
pub(super) async fn respond(
    active: ActiveRequest,
    answer: &Answer,
    with_usage: bool,
) -> Result<HttpResponse, Rejection> {
    let events = events(answer, active.settings.tokens_per_chunk, with_usage);
    let envelope = Envelope::new(answer, json_response::unix_seconds(), with_usage);
    send(active, events, envelope).await
}

/// Starts a stream of written events, which are server-sent.
pub(super) async fn respond_with(active: ActiveRequest, events: Vec<Event>) -> Result<HttpResponse, Rejection> {
    respond_framed(active, events, SERVER_SENT).await
}

/// Starts a stream of written events in frames of this type.
pub(super) async fn respond_framed(
    active: ActiveRequest,
    events: Vec<Event>,
    content_type: &'static str,
) -> Result<HttpResponse, Rejection> {
    send(active, events, Envelope { opening: String::new(), with_usage: false, content_type }).await
}

async fn send(active: ActiveRequest, events: Vec<Event>, envelope: Envelope) -> Result<HttpResponse, Rejection> {
    match active.draw.outcome {
        Outcome::Fails => return Err(active.fail().await),
        Outcome::Hangs { after } if after < Outcome::SILENT_HEAD => active.hang().await,
        _ => {}
    }
    active.pass(active.head_and_rest().0).await;
    let mut response = active.accepted();
    response.insert_header((CONTENT_TYPE, envelope.content_type));
    response.insert_header((CACHE_CONTROL, "no-cache"));
    Ok(response.streaming(EventStream::begin(active, events, envelope).writes()))
}

/// One event before serialization.
#[derive(Debug, PartialEq)]
pub(super) struct Event {
    /// Its output tokens.
    pub(super) tokens: u32,
    pub(super) content: EventContent,
}

#[derive(Debug, PartialEq)]
pub(super) enum EventContent {
    Delta {
        choice: usize,
        delta: Value,
        finish: Option<FinishReason>,
    },
    Usage(Value),
    Done,
    /// An event of another dialect.
    Written(Bytes),
    /// The one with the reason for the end.
    WrittenFinish(Bytes),
    /// The last one.
    WrittenEnd(Bytes),
}

/// All events of `answer`. Choices are interleaved, as in real servers.
fn events(answer: &Answer, tokens_per_chunk: u32, with_usage: bool) -> Vec<Event> {
    let mut waiting: Vec<_> = answer.choices.iter().map(|c| deltas(c, tokens_per_chunk).into_iter()).collect();
    let mut events = Vec::new();
    let mut sent = usize::MAX;
    while sent != events.len() {
        sent = events.len();
        for (choice, deltas) in waiting.iter_mut().enumerate() {
            let event =
                |(tokens, delta, finish)| Event { tokens, content: EventContent::Delta { choice, delta, finish } };
            events.extend(deltas.next().map(event));
        }
    }
    events.extend(with_usage.then(|| Event { tokens: 0, content: EventContent::Usage(answer.usage()) }));
    events.push(Event { tokens: 0, content: EventContent::Done });
    events
}

/// The deltas of one choice: role, text, calls with their arguments in fragments, images, finish.
fn deltas(choice: &Choice, tokens_per_chunk: u32) -> Vec<(u32, Value, Option<FinishReason>)> {
    // Without text OpenAI sends null, else an empty string.
    let opening = choice.content.as_ref().map(|_| "");
    let mut deltas = vec![(0, json!({ "role": "assistant", "content": opening, "refusal": null }), None)];
    for piece in words::pieces(choice.content.as_deref().unwrap_or_default(), tokens_per_chunk) {
        deltas.push((words::tokens(piece), json!({ "content": piece }), None));
    }
    for (index, call) in choice.calls.iter().enumerate() {
        let function = json!({ "name": call.name, "arguments": "" });
        let head = json!({ "index": index, "id": call.id, "type": "function", "function": function });
        deltas.push((words::tokens(&call.name), json!({ "tool_calls": [head] }), None));
        for piece in words::pieces(&call.arguments, tokens_per_chunk) {
            let fragment = json!({ "index": index, "function": { "arguments": piece } });
            deltas.push((words::tokens(piece), json!({ "tool_calls": [fragment] }), None));
        }
    }
    if !choice.images.is_empty() {
        let images: Vec<Value> = choice.images.iter().map(|url| json_response::image(url)).collect();
        let tokens = super::images::IMAGE_TOKENS.saturating_mul(images.len() as u32);
        deltas.push((tokens, json!({ "images": images }), None));
    }
    deltas.push((0, json!({}), Some(choice.finish)));
    deltas
}

/// The members that all chunks of a stream have.
#[derive(Debug)]
struct Envelope {
    opening: String,
    /// Whether chunks have `"usage":null`, as OpenAI's have when usage was requested.
    with_usage: bool,
    content_type: &'static str,
}

impl Envelope {
    fn new(answer: &Answer, created: u64, with_usage: bool) -> Envelope {
        let (id, model, fingerprint) = (json!(answer.id), json!(answer.model), json!(answer.fingerprint));
        let opening = format!(
            "data: {{\"id\":{id},\"object\":\"chat.completion.chunk\",\"created\":{created},\"model\":{model},\
             \"service_tier\":\"default\",\"system_fingerprint\":{fingerprint},\"choices\":["
        );
        Envelope { opening, with_usage, content_type: SERVER_SENT }
    }

    /// Serializes an event.
    fn write(&self, content: &EventContent) -> Bytes {
        let text = match content {
            EventContent::Delta { choice, delta, finish } => {
                let finish = json!(finish.map(FinishReason::as_str));
                let usage = if self.with_usage { ",\"usage\":null" } else { "" };
                format!(
                    "{}{{\"index\":{choice},\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{finish}}}]{usage}}}\n\n",
                    self.opening
                )
            }
            EventContent::Usage(usage) => format!("{}],\"usage\":{usage}}}\n\n", self.opening),
            EventContent::Done => "data: [DONE]\n\n".to_owned(),
            EventContent::Written(bytes) | EventContent::WrittenFinish(bytes) | EventContent::WrittenEnd(bytes) => {
                return bytes.clone();
            }
        };
        text.into()
    }
}

/// State of a stream.
struct EventStream {
    active: ActiveRequest,
    envelope: Envelope,
    events: std::vec::IntoIter<Event>,
    /// Events until the stream hangs or breaks, if it does.
    stops_in: Option<usize>,
    /// When the next event is due.
    due: Instant,
    /// Time until the first token; zero after it was sent.
    before_first: Duration,
    /// The second part of an event that was split.
    rest: Option<Bytes>,
}

impl EventStream {
    fn begin(active: ActiveRequest, events: Vec<Event>, envelope: Envelope) -> EventStream {
        let stops_in = match active.draw.outcome {
            Outcome::Truncated { after } | Outcome::Hangs { after } => Some(stop(&events, after)),
            Outcome::Completes | Outcome::Fails => None,
        };
        EventStream {
            envelope,
            events: events.into_iter(),
            stops_in,
            due: Instant::now(),
            before_first: active.head_and_rest().1,
            rest: None,
            active,
        }
    }

    /// The writes, one by one.
    fn writes(self) -> impl Stream<Item = io::Result<Bytes>> {
        stream::unfold(self, |mut stream_state| async move {
            let write = stream_state.next_write().await?;
            Some((write, stream_state))
        })
    }

    /// The next write: an event, two events, or a part of an event.
    async fn next_write(&mut self) -> Option<io::Result<Bytes>> {
        if let Some(rest) = self.rest.take() {
            // Yielding makes the server send the first part in its own write.
            tokio::task::yield_now().await;
            return Some(Ok(rest));
        }
        let mut bytes = match self.next_event().await? {
            Ok(bytes) => bytes,
            Err(fault) => return Some(Err(fault)),
        };
        if !self.is_odd() {
            return Some(Ok(bytes));
        }
        if self.active.rng.random::<bool>() && self.stops_in != Some(0) {
            if let Some(Ok(second)) = self.next_event().await {
                bytes = [bytes, second].concat().into();
            }
            return Some(Ok(bytes));
        }
        let at = self.active.rng.random_range(1..bytes.len().max(2));
        self.rest = Some(bytes.split_off(at.min(bytes.len())));
        Some(Ok(bytes))
    }

    /// The next event, when it is due. An error breaks the connection.
    async fn next_event(&mut self) -> Option<io::Result<Bytes>> {
        if self.stops_in == Some(0) {
            return Some(Err(self.break_off().await));
        }
        self.stops_in = self.stops_in.map(|events| events - 1);
        let event = self.events.next()?;
        self.wait_for(event.tokens).await;
        if matches!(event.content, EventContent::Done | EventContent::WrittenEnd(_)) {
            self.active.ends(End::Completed);
        }
        Some(Ok(self.envelope.write(&event.content)))
    }

    /// Waits until `tokens` more tokens are due. Times are added up from the start, so that late timers do not slow the
    /// stream down.
    async fn wait_for(&mut self, tokens: u32) {
        if tokens == 0 {
            return;
        }
        let first = std::mem::take(&mut self.before_first);
        let ready = if first.is_zero() {
            self.active.draw.per_token * tokens
        } else {
            first + self.active.generation_time(tokens)
        };
        self.due += self.active.loaded(ready);
        if self.due > Instant::now() {
            tokio::time::sleep_until(self.due).await;
        }
    }

    /// Ends the stream early, as its outcome requires: hangs, or returns an error.
    async fn break_off(&mut self) -> io::Error {
        if matches!(self.active.draw.outcome, Outcome::Hangs { .. }) {
            self.active.hang().await;
        }
        // Yielding lets the server send the previous events first.
        tokio::task::yield_now().await;
        self.active.ends(End::Truncated);
        io::Error::other("cut off on purpose")
    }

    fn is_odd(&mut self) -> bool {
        self.active.rng.random::<f64>() < self.active.settings.odd_framing_rate
    }
}

/// Number of events of a stream that stops after a share of its content. It has some content, and never the finish.
fn stop(events: &[Event], after: f64) -> usize {
    let finish = |event: &Event| {
        matches!(
            event.content,
            EventContent::Delta { finish: Some(_), .. } | EventContent::WrittenFinish(_) | EventContent::WrittenEnd(_)
        )
    };
    let before_finish = events.iter().position(finish).unwrap_or(events.len());
    let with_content = events.iter().position(|event| event.tokens > 0).map_or(before_finish, |first| first + 1);
    ((before_finish as f64 * after) as usize).clamp(with_content.min(before_finish), before_finish)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::ToolCall;

    fn answer(choices: Vec<Choice>) -> Answer {
        let (id, model) = ("chatcmpl-1".to_owned(), "hare-1".to_owned());
        Answer { id, model, fingerprint: "fp_1".to_owned(), prompt_tokens: 3, cached_tokens: 0, choices }
    }

    fn said(text: &str) -> Choice {
        Choice { content: Some(text.to_owned()), calls: Vec::new(), images: Vec::new(), finish: FinishReason::Stop }
    }

    fn written(answer: &Answer, with_usage: bool) -> String {
        let envelope = Envelope::new(answer, 1_763_629_500, with_usage);
        let events = events(answer, 2, with_usage);
        let text = |event: &Event| String::from_utf8(envelope.write(&event.content).to_vec()).unwrap();
        let short = |event: &Event| text(event).replace(&envelope.opening, "…");
        events.iter().map(short).collect()
    }

    #[test]
    fn text_comes_after_the_role_and_before_finish_usage_and_done() {
        expect_test::expect![[r#"
            …{"index":0,"delta":{"content":"","refusal":null,"role":"assistant"},"logprobs":null,"finish_reason":null}],"usage":null}

            …{"index":0,"delta":{"content":"Hello 東京"},"logprobs":null,"finish_reason":null}],"usage":null}

            …{"index":0,"delta":{"content":"!"},"logprobs":null,"finish_reason":null}],"usage":null}

            …{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}

            …],"usage":{"completion_tokens":3,"completion_tokens_details":{"reasoning_tokens":0},"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":0},"total_tokens":6}}

            data: [DONE]

        "#]]
        .assert_eq(&written(&answer(vec![said("Hello 東京!")]), true));
    }

    #[test]
    fn a_call_comes_with_its_name_first_and_its_arguments_in_fragments() {
        let call =
            ToolCall { id: "call_1".to_owned(), name: "add".to_owned(), arguments: r#"{"a":1,"b":2}"#.to_owned() };
        let choice = Choice { content: None, calls: vec![call], images: Vec::new(), finish: FinishReason::ToolCalls };
        expect_test::expect![[r#"
            …{"index":0,"delta":{"content":null,"refusal":null,"role":"assistant"},"logprobs":null,"finish_reason":null}]}

            …{"index":0,"delta":{"tool_calls":[{"function":{"arguments":"","name":"add"},"id":"call_1","index":0,"type":"function"}]},"logprobs":null,"finish_reason":null}]}

            …{"index":0,"delta":{"tool_calls":[{"function":{"arguments":"{\"a\":1,\""},"index":0}]},"logprobs":null,"finish_reason":null}]}

            …{"index":0,"delta":{"tool_calls":[{"function":{"arguments":"b\":2}"},"index":0}]},"logprobs":null,"finish_reason":null}]}

            …{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}]}

            data: [DONE]

        "#]]
        .assert_eq(&written(&answer(vec![choice]), false));
    }

    #[test]
    fn choices_are_interleaved() {
        let events = events(&answer(vec![said("abcdefgh"), said("abcd")]), 1, false);
        let order: Vec<usize> = events
            .iter()
            .filter_map(|event| match &event.content {
                EventContent::Delta { choice, .. } => Some(*choice),
                _ => None,
            })
            .collect();
        assert_eq!(order, [0, 1, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn the_tokens_of_all_events_are_those_of_the_answer() {
        let answer = answer(vec![said("Naïve façades hide gears."), said("abc")]);
        let sent: u32 = events(&answer, 3, true).iter().map(|event| event.tokens).sum();
        assert_eq!(sent, answer.completion_tokens());
    }

    #[test]
    fn a_stream_that_stops_has_content_and_no_finish() {
        let many = events(&answer(vec![said(&"abcd".repeat(10))]), 1, true);
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|after| stop(&many, after)), [2, 5, 10, 11]);
        let few = events(&answer(vec![said("")]), 1, false);
        assert_eq!(stop(&few, 0.5), 1);
    }
}
