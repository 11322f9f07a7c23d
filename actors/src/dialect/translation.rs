//! Chats for endpoints of every dialect: the body that is sent, and how its answer is read.
//!
//! A chat in the endpoint's own dialect is spliced. For another dialect it is read into the neutral form and written
//! anew, and the answer is decoded into neutral events, from which chat chunks are written.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::{
    Answer, AnswerContext, AnswerFault, ChatRequest, anthropic,
    neutral::{AnswerEvent, AnswerSink, FieldFates, TranslatedRequest},
    openai::{
        chunk_writer::push_tokens, completion_writer::CompletionWriter, conversation_reader::read_conversation,
        rewrite_answer, usage_of_failed_answer,
    },
    outgoing::{OutgoingBody, Translation},
};
use crate::domain::{Catalog, Dialect, Endpoint, FailureKind, Usage};

/// Path of chats, relative to the base address of the upstream.
#[must_use]
pub fn chat_path(endpoint: &Endpoint) -> Arc<str> {
    match endpoint.dialect {
        Dialect::OpenAi => "/chat/completions".into(),
        Dialect::Anthropic => "/messages".into(),
    }
}

/// The body of a chat for one endpoint. `most_output` lowers the limit on output tokens. `None` if the body of the request
/// is nested too deeply to be translated.
#[must_use]
pub fn chat_body(
    request: &ChatRequest,
    catalog: &Catalog,
    endpoint: &Endpoint,
    most_output: Option<u32>,
) -> Option<OutgoingBody> {
    // Gateway fields and parameters that the endpoint does not list are removed here, for every dialect.
    let gated = request.limited_body(catalog, endpoint, most_output);
    match endpoint.dialect {
        Dialect::OpenAi => Some(gated),
        dialect => translated(&gated, dialect, endpoint),
    }
}

fn translated(gated: &OutgoingBody, dialect: Dialect, endpoint: &Endpoint) -> Option<OutgoingBody> {
    let conversation = read_conversation(std::str::from_utf8(&gated.bytes).ok()?).ok()?;
    let mut fates = FieldFates::default();
    gated.dropped.iter().for_each(|name| fates.drop(name));
    let (TranslatedRequest { body, names }, headers) = match dialect {
        Dialect::OpenAi => return None,
        Dialect::Anthropic => {
            let betas = anthropic::required_betas(&conversation, endpoint);
            let headers = (!betas.is_empty()).then(|| ("anthropic-beta", betas.join(",")));
            (anthropic::write_request(&conversation, endpoint, &mut fates), headers.into_iter().collect())
        }
    };
    Some(OutgoingBody {
        bytes: body,
        dropped: fates.dropped().to_vec(),
        emulated: fates.emulated().to_vec(),
        headers,
        translation: Some(Translation { dialect, names }),
    })
}

/// The failure that an answer other than a 200 stands for, if its dialect says more than the status. `has_retry_after`: it
/// names a time to wait.
#[must_use]
pub fn kind_of_refusal(dialect: Dialect, status: u16, has_retry_after: bool, body: &[u8]) -> Option<FailureKind> {
    match dialect {
        Dialect::OpenAi => None,
        Dialect::Anthropic => Some(anthropic::kind_of_response(status, has_retry_after, body)),
    }
}

/// Rewrites a plain answer for the client.
///
/// # Errors
/// When the body is not a valid answer.
pub fn rewrite_whole(
    body: &Bytes,
    translation: Option<&Translation>,
    context: &AnswerContext,
) -> Result<Answer, AnswerFault> {
    let Some(translation) = translation else { return rewrite_answer(body, context) };
    let mut completion = CompletionWriter::default();
    translation.decoder().whole(utf8(body)?, &mut completion)?;
    rewrite_answer(&completion.finish()?, context)
}

/// Usage that the upstream reports in a body that is not a valid answer, if any.
#[must_use]
pub fn usage_of_failure(body: &Bytes, translation: Option<&Translation>, context: &AnswerContext) -> Option<Usage> {
    let Some(translation) = translation else { return usage_of_failed_answer(body, context) };
    let mut usage = UsageSink::default();
    // A fault is expected; what was reported before it counts.
    let _ = translation.decoder().whole(utf8(body).ok()?, &mut usage);
    usage.0.and_then(|body| usage_of_failed_answer(&body, context))
}

/// Keeps the last report of usage, as a body with nothing else.
#[derive(Default)]
struct UsageSink(Option<Bytes>);

impl AnswerSink for UsageSink {
    fn event(&mut self, event: AnswerEvent<'_>) -> Result<(), AnswerFault> {
        if let AnswerEvent::Usage(tokens) = event {
            let mut body = BytesMut::from(&b"{\"usage\":"[..]);
            push_tokens(&tokens, &mut body);
            body.extend_from_slice(b"}");
            self.0 = Some(body.freeze());
        }
        Ok(())
    }
}

fn utf8(body: &[u8]) -> Result<&str, AnswerFault> {
    std::str::from_utf8(body).map_err(|_| AnswerFault::malformed("not valid UTF-8"))
}
