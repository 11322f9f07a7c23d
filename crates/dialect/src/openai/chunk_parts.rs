//! Parts of the chunks of every stream to clients of chat, spliced or translated: what they begin with, and the last ones.

use bytes::{BufMut as _, BytesMut};

use super::{
    answer::push_head,
    meter::AnswerMeter,
    stream_options::{StreamOptions, UsageChunk},
    usage::push_usage,
};
use crate::{
    answer::AnswerContext,
    json::{push_member, push_string_member},
    stream_error::StreamError,
};

/// The last event of a stream.
pub(super) const DONE: &[u8] = b"data: [DONE]\n\n";
pub(super) const END_OF_EVENT: &[u8] = b"}\n\n";

/// The beginning of every event: `data: ` and the members that name the generation.
pub(super) fn chunk_head(context: &AnswerContext, fingerprint: &str) -> BytesMut {
    let mut head = BytesMut::from(&b"data: "[..]);
    push_head(&mut head, "chat.completion.chunk", context);
    push_string_member(&mut head, b"system_fingerprint", fingerprint);
    head
}

/// Appends the chunk with the usage, unless the client does not want it.
pub(super) fn push_usage_chunk(head: &[u8], answer: &AnswerMeter, chunk: UsageChunk, out: &mut BytesMut) {
    let choices: &[u8] = match chunk {
        UsageChunk::Omitted => return,
        UsageChunk::WithoutChoices => b"[]",
        UsageChunk::WithEmptyDelta => {
            b"[{\"index\":0,\"delta\":{},\"finish_reason\":null,\"native_finish_reason\":null,\"logprobs\":null}]"
        }
    };
    push!(out; head, br#","choices":"#, choices);
    push_usage_member(answer, out);
    out.put_slice(END_OF_EVENT);
}

/// Appends the chunk with an error, and the end of the stream.
pub(super) fn push_error_end(
    head: &[u8],
    error: &StreamError,
    answer: &AnswerMeter,
    options: StreamOptions,
    out: &mut BytesMut,
) {
    out.put_slice(head);
    error.push(out);
    let delta: &[u8] =
        if options.error_compat { b"{\"content\":\"\",\"annotations\":{}}" } else { b"{\"content\":\"\"}" };
    push!(out; br#","choices":[{"index":0,"delta":"#, delta,
        br#","finish_reason":"error","native_finish_reason":null}]"#);
    if answer.reported.is_some() && options.usage_chunk != UsageChunk::Omitted {
        push_usage_member(answer, out);
    }
    push!(out; END_OF_EVENT, DONE);
}

/// Appends the usage so far.
pub(super) fn push_usage_member(answer: &AnswerMeter, out: &mut BytesMut) {
    let usage = answer.usage();
    let cost = answer.context.cost(&usage);
    push_member(out, b"usage", b"");
    push_usage(out, &usage, cost.as_ref(), answer.reported.as_ref());
}
