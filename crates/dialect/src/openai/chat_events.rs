//! Events for tests of encoders, written as regular chat answers, streamed or whole.

use std::borrow::Cow;

use pointsman_domain::{ReasoningFormat, ServedService};

use crate::{
    answer::AnswerResult,
    json::{Raw, object},
    neutral::{AnswerEvent, AnswerSink, EscapedText, ReasoningKind, ReportedTokens, ToolKind},
    openai::{answer::utf8, finish::normalise},
};

/// Reads one chunk of a stream, JSON without framing.
///
/// # Errors
/// Only those of the sink.
pub(crate) fn read_chunk(data: &[u8], sink: &mut impl AnswerSink) -> AnswerResult {
    read(data, b"delta", sink)
}

/// Reads a whole answer.
///
/// # Errors
/// Only those of the sink.
pub(crate) fn read_completion(body: &[u8], sink: &mut impl AnswerSink) -> AnswerResult {
    read(body, b"message", sink)
}

fn read(data: &[u8], holder: &[u8], sink: &mut impl AnswerSink) -> AnswerResult {
    let value = object(utf8(data)?)?;
    // Usage first: an encoder may need it at the finish.
    let [usage, choices] = value.pick([b"usage", b"choices"]);
    if let Some(usage) = usage.filter(|usage| usage.is_object()) {
        sink.event(AnswerEvent::Usage(tokens(usage)))?;
    }
    for choice in choices.into_iter().flat_map(Raw::elements) {
        let names: [&[u8]; 7] =
            [b"index", holder, b"logprobs", b"finish_reason", b"native_finish_reason", b"stop_reason", b"matched_stop"];
        let [index, message, logprobs, finish, native, stop_reason, matched_stop] = choice.pick(names);
        let index = count32(index);
        if let Some(message) = message {
            read_message(message, index, sink)?;
        }
        if let Some(logprobs) = logprobs.filter(|value| value.is_object()) {
            sink.event(AnswerEvent::Logprobs { choice: index, value: logprobs })?;
        }
        // The words of vLLM and SGLang; a number is a token.
        if let Some(text) =
            stop_reason.and_then(EscapedText::filled).or_else(|| matched_stop.and_then(EscapedText::filled))
        {
            sink.event(AnswerEvent::StoppedAt { choice: index, text })?;
        }
        if let Some(finish) = finish.and_then(Raw::text) {
            let native = native.and_then(EscapedText::of).unwrap_or(EscapedText::plain(""));
            sink.event(AnswerEvent::Finished { choice: index, finish: normalise(&finish), native })?;
        }
    }
    Ok(())
}

fn read_message(message: Raw<'_>, choice: u32, sink: &mut impl AnswerSink) -> AnswerResult {
    let names: [&[u8]; 10] = [
        b"content",
        b"reasoning_details",
        b"reasoning",
        b"reasoning_content",
        b"thinking",
        b"annotations",
        b"citations",
        b"refusal",
        b"tool_calls",
        b"images",
    ];
    let [content, details, reasoning, reasoning_content, thinking, annotations, citations, refusal, calls, images] =
        message.pick(names);
    match details.filter(|details| details.is_filled()) {
        Some(details) => {
            for (place, detail) in details.elements().enumerate() {
                read_detail(detail, place, choice, sink)?;
            }
        }
        None => {
            if let Some(text) =
                [reasoning, reasoning_content, thinking].into_iter().find_map(|text| text.and_then(EscapedText::filled))
            {
                sink.event(AnswerEvent::Reasoning {
                    choice,
                    index: 0,
                    format: ReasoningFormat::Unknown,
                    kind: ReasoningKind::Text,
                    text: Some(text),
                    sealed: None,
                    id: None,
                })?;
            }
        }
    }
    if let Some(text) = content.and_then(EscapedText::filled) {
        sink.event(AnswerEvent::Text { choice, text })?;
    }
    // Annotations are about the text before them.
    for annotation in annotations.into_iter().flat_map(Raw::elements) {
        sink.event(AnswerEvent::Annotation { choice, json: Cow::Borrowed(annotation.bytes()) })?;
    }
    for citation in citations.into_iter().flat_map(Raw::elements).filter(|citation| citation.is_object()) {
        sink.event(AnswerEvent::DocumentCitation { choice, json: Cow::Borrowed(citation.bytes()) })?;
    }
    if let Some(text) = refusal.and_then(EscapedText::filled) {
        sink.event(AnswerEvent::Refusal { choice, text })?;
    }
    for (place, call) in calls.into_iter().flat_map(Raw::elements).enumerate() {
        read_call(call, place, choice, sink)?;
    }
    for image in images.into_iter().flat_map(Raw::elements) {
        read_image(image, choice, sink)?;
    }
    Ok(())
}

fn read_detail(detail: Raw<'_>, place: usize, choice: u32, sink: &mut impl AnswerSink) -> AnswerResult {
    let text = |name: &[u8]| detail.member(name).and_then(EscapedText::of);
    let (kind, shown, sealed) = match detail.kind().as_deref() {
        Some("reasoning.summary") => {
            (ReasoningKind::Summary, text(b"summary").or_else(|| text(b"text")), text(b"signature"))
        }
        Some("reasoning.encrypted") => (ReasoningKind::Encrypted, None, text(b"data")),
        _ => (ReasoningKind::Text, text(b"text"), text(b"signature")),
    };
    let format = detail.member(b"format").and_then(Raw::text);
    let format = format.map_or(ReasoningFormat::Unknown, |name| ReasoningFormat::named(&name));
    let index = detail.member(b"index").and_then(Raw::count).and_then(|index| u32::try_from(index).ok());
    let index = index.unwrap_or(place as u32);
    sink.event(AnswerEvent::Reasoning { choice, index, format, kind, text: shown, sealed, id: text(b"id") })
}

fn read_call(call: Raw<'_>, place: usize, choice: u32, sink: &mut impl AnswerSink) -> AnswerResult {
    let [index, id, custom, function] = call.pick([b"index", b"id", b"custom", b"function"]);
    let index = index.and_then(Raw::count).and_then(|index| u32::try_from(index).ok());
    let index = index.unwrap_or(place as u32);
    let (kind, [name, text]) = match custom.filter(|custom| custom.is_object()) {
        Some(custom) => (ToolKind::Custom, custom.pick([b"name", b"input"])),
        None => (ToolKind::Function, function.map_or([None; 2], |function| function.pick([b"name", b"arguments"]))),
    };
    if let (Some(id), Some(name)) = (id.and_then(EscapedText::filled), name.and_then(EscapedText::filled)) {
        sink.event(AnswerEvent::ToolCallStarted { choice, call: index, id, name, kind })?;
    }
    match text.and_then(EscapedText::filled) {
        Some(text) => sink.event(AnswerEvent::ToolCallArguments { choice, call: index, text }),
        None => Ok(()),
    }
}

fn read_image(image: Raw<'_>, choice: u32, sink: &mut impl AnswerSink) -> AnswerResult {
    let url = image.member(b"image_url").and_then(|holder| holder.member(b"url")).and_then(Raw::text);
    let Some((head, data)) = url.as_deref().and_then(|url| url.strip_prefix("data:")?.split_once(";base64,")) else {
        return Ok(());
    };
    let (media_type, data) = (EscapedText::escaping(head), EscapedText::escaping(data));
    sink.event(AnswerEvent::Image { choice, media_type, data })
}

fn count32(value: Option<Raw<'_>>) -> u32 {
    value.and_then(Raw::count).and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
}

/// The tokens in a `usage` of this API, such as the gateway's own.
pub(super) fn tokens(usage: Raw<'_>) -> ReportedTokens {
    let [prompt, prompt_parts, completion, completion_parts, writes, tools, sources] = usage.pick([
        b"prompt_tokens",
        b"prompt_tokens_details",
        b"completion_tokens",
        b"completion_tokens_details",
        b"cache_creation",
        b"server_tool_use",
        b"num_sources_used",
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
