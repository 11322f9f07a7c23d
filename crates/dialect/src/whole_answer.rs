//! Answers that do not stream. One in the client's dialect is spliced; every other is decoded, metered and encoded as a stream is.

use std::borrow::Cow;

use bytes::Bytes;
use pointsman_domain::{Dialect, Endpoint, Usage};

use super::{
    Answer, AnswerContext, AnswerFault,
    answer::AnswerResult,
    anthropic,
    client_encoder::ClientEncoder,
    client_request::{ClientRequest, ClientShape},
    converse, gemini,
    neutral::{AnswerForm, AnswerSink, ToolNames, lone_halves_replaced},
    openai::{
        EventMeter, Metered, Progress, StreamOptions, completion_writer::CompletionWriter, rewrite_answer,
        text_completion, usage_of_failed_answer, utf8,
    },
    outgoing::{OutgoingBody, Translation},
    responses,
    upstream_decoder::UpstreamDecoder,
};

/// Bytes of an answer that may always wait for other content.
const MIN_HELD_BYTES: usize = 64 * 1024;

/// Rewrites a plain response for the client.
///
/// # Errors
/// When the body is not a valid response.
pub fn rewrite_whole(
    body: &Bytes,
    outgoing: &OutgoingBody,
    client: Option<&ClientRequest>,
    context: &AnswerContext,
) -> Result<Answer, AnswerFault> {
    if client.is_none() && outgoing.translation.is_none() {
        return rewrite_answer(body, context);
    }
    let text = lone_halves_replaced(utf8(body)?);
    let mut meter =
        EventMeter::from_translation(outgoing.translation.as_ref(), outgoing.names.clone(), context.clone());
    if let Some(client) = client.filter(|_| outgoing.is_clients_own) {
        decode(&text, outgoing.translation.as_ref(), &mut meter, None::<&mut ClientEncoder>)?;
        let outcome = meter.outcome();
        let id = context.generation.as_str();
        let body = match &client.shape {
            ClientShape::Messages { .. } => anthropic::splice::splice_answer(&text, id, &context.model, &outcome)?,
            ClientShape::Responses(echo) => {
                let identity = responses::splice::ResponseIdentity::new(context, outgoing.state, echo);
                responses::splice::splice_answer(&text, &identity, || outcome.usage)?
            }
            ClientShape::Completion { .. } => text_completion::splice::splice_answer(&text, id, &context.model)?,
        };
        return Ok(Answer { body, outcome });
    }
    // Arguments that come as an object are at most twice as long as a string.
    let most = body.len().saturating_mul(2).max(MIN_HELD_BYTES);
    let mut encoder = ClientEncoder::new(client, context, StreamOptions::default(), AnswerForm::Whole, most);
    decode(&text, outgoing.translation.as_ref(), &mut meter, Some(&mut encoder))?;
    Ok(Answer { body: encoder.whole(meter.answer())?, outcome: meter.outcome() })
}

/// Reads a whole answer to its end.
pub(super) fn decode<S: AnswerSink>(
    text: &str,
    translation: Option<&Translation>,
    meter: &mut EventMeter,
    mut encoder: Option<&mut S>,
) -> AnswerResult {
    let (decoder, mut progress) = (UpstreamDecoder::new(translation), Progress::default());
    let forgets_finishes = decoder.forgets_finishes();
    let sink = encoder.as_deref_mut();
    decoder.whole(text, &mut Metered { meter: &mut *meter, progress: &mut progress, sink })?;
    meter.end(forgets_finishes, &mut encoder)
}

/// A response with images as one of the OpenAI API: of chats, or of its image interface.
///
/// # Errors
/// When the body is not a valid response.
pub fn images_of<'b>(
    body: &'b Bytes,
    outgoing: &OutgoingBody,
    endpoint: &Endpoint,
) -> Result<Cow<'b, Bytes>, AnswerFault> {
    match endpoint.dialect {
        Dialect::Gemini if !endpoint.images_through_chat => gemini::images_of(utf8(body)?).map(Cow::Owned),
        Dialect::Converse if !endpoint.images_through_chat => converse::images_of(utf8(body)?).map(Cow::Owned),
        _ => completion_of(body, outgoing),
    }
}

/// A response as a chat completion, without what the gateway adds.
///
/// # Errors
/// When the body is not a valid response.
pub fn completion_of<'b>(body: &'b Bytes, outgoing: &OutgoingBody) -> Result<Cow<'b, Bytes>, AnswerFault> {
    let Some(translation) = &outgoing.translation else { return Ok(Cow::Borrowed(body)) };
    let mut completion = CompletionWriter::default();
    UpstreamDecoder::new(Some(translation)).whole(&lone_halves_replaced(utf8(body)?), &mut completion)?;
    Ok(Cow::Owned(completion.finish()?))
}

/// Usage that the upstream reports in a body that is not a valid response, if any.
pub fn usage_of_failure(body: &Bytes, translation: Option<&Translation>, context: &AnswerContext) -> Option<Usage> {
    let Some(translation) = translation else { return usage_of_failed_answer(body, context) };
    let mut meter = EventMeter::from_translation(Some(translation), ToolNames::default(), context.clone());
    // A fault is expected; what was reported before it counts.
    let _ = decode(utf8(body).ok()?, Some(translation), &mut meter, None::<&mut ClientEncoder>);
    meter.answer().reported_usage()
}
