//! Events for tests of encoders, written as regular chat answers, streamed or whole.

use std::borrow::Cow;

use pointsman_domain::ServedService;

use crate::{
    answer::AnswerResult,
    frame::StreamEvent,
    json::{Raw, object},
    neutral::{AnswerEvent, AnswerSink, ChatFact, ReportedTokens},
    openai::{answer::utf8, decode::Decoder},
};

/// Reads one chunk of a stream, JSON without framing.
///
/// # Errors
/// Only those of the sink.
pub(crate) fn read_chunk(data: &[u8], sink: &mut impl AnswerSink) -> AnswerResult {
    read_usage(data, sink)?;
    Decoder::default().event(&StreamEvent { data: Cow::Borrowed(data), is_error: false }, &mut Unmetered(sink))
}

/// Reads a whole answer.
///
/// # Errors
/// Only those of the sink.
pub(crate) fn read_completion(body: &[u8], sink: &mut impl AnswerSink) -> AnswerResult {
    read_usage(body, sink)?;
    Decoder::default().whole(utf8(body)?, &mut Unmetered(sink))
}

/// The usage comes first: an encoder may need it at the finish.
fn read_usage(data: &[u8], sink: &mut impl AnswerSink) -> AnswerResult {
    match object(utf8(data)?)?.member(b"usage").filter(|usage| usage.is_object()) {
        Some(usage) => sink.event(AnswerEvent::Usage(tokens(usage))),
        None => Ok(()),
    }
}

/// Hands calls on as the meter does that stands between decoder and encoder.
struct Unmetered<'s, S>(&'s mut S);

impl<S: AnswerSink> AnswerSink for Unmetered<'_, S> {
    fn event(&mut self, event: AnswerEvent<'_>) -> AnswerResult {
        let (choice, piece) = match event {
            AnswerEvent::Chat(ChatFact::ToolCallPiece { choice, piece }) => (choice, piece),
            AnswerEvent::Chat(_) => return Ok(()),
            event => return self.0.event(event),
        };
        let call = piece.index.and_then(|index| u32::try_from(index).ok()).unwrap_or(0);
        if let (Some(id), Some(name)) = (piece.id, piece.name) {
            self.0.event(AnswerEvent::ToolCallStarted { choice, call, id, name, kind: piece.kind })?;
        }
        if piece.arguments.is_empty() {
            return Ok(());
        }
        self.0.event(AnswerEvent::ToolCallArguments { choice, call, text: piece.arguments })
    }
}

/// The tokens in a `usage` of this API, such as the gateway's own.
pub(super) fn tokens(usage: Raw<'_>) -> ReportedTokens {
    let [prompt, prompt_parts, completion, completion_parts, writes, tools, sources] = usage.pick(byte_names![
        prompt_tokens prompt_tokens_details completion_tokens completion_tokens_details cache_creation
        server_tool_use num_sources_used
    ]);
    let [prompt, completion, sources] = [prompt, completion, sources].map(|count| count.and_then(Raw::count));
    let [cached, cache_write, prompt_write_1h, audio_prompt] =
        counts(prompt_parts, [b"cached_tokens", b"cache_write_tokens", b"cache_write_1h_tokens", b"audio_tokens"]);
    let [reasoning, audio_completion] = counts(completion_parts, [b"reasoning_tokens", b"audio_tokens"]);
    let [cache_write_5m, cache_write_1h] = counts(writes, [b"ephemeral_5m_input_tokens", b"ephemeral_1h_input_tokens"]);
    let [web_searches] = counts(tools, [b"web_search_requests"]);
    ReportedTokens {
        prompt: prompt.unwrap_or(0),
        cached,
        cache_write,
        cache_write_5m,
        cache_write_1h: cache_write_1h.or(prompt_write_1h),
        audio_prompt,
        completion: completion.unwrap_or(0),
        reasoning,
        audio_completion,
        // xAI counts the sources of its live search, and charges for each.
        web_searches: web_searches.or(sources),
        service: ServedService::default(),
    }
}

/// Counts among the members of an object.
fn counts<const N: usize>(object: Option<Raw<'_>>, names: [&[u8]; N]) -> [Option<u64>; N] {
    object.map_or([None; N], |object| object.pick(names)).map(|count| count.and_then(Raw::count))
}
