//! POST /v1/chat/completions, and answers that are told in one piece.

use std::{
    io,
    time::{SystemTime, UNIX_EPOCH},
};

use actix_web::{
    HttpRequest, HttpResponse,
    body::SizedStream,
    http::header::ContentType,
    web::{Bytes, Data},
};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::{
    answer::{Answer, Choice},
    counters::End,
    load::Fate,
    provider::{Provider, Turn},
    refusal::Refusal,
    request::ChatBody,
    stream as chunks,
    tools::ToolCall,
};

/// Answers a chat request, whole or in chunks.
pub(super) async fn create(
    provider: Data<Provider>,
    request: HttpRequest,
    body: Bytes,
) -> Result<HttpResponse, Refusal> {
    provider.saw(&request, &body);
    let body = ChatBody::parse(&body)?;
    let character = provider.character();
    let model = body.check(&character)?;
    let mut turn = provider.admit(&character, &model.id)?;
    let answer = Answer::make_up(&body, model, &character, &mut turn.dice);
    // Choices are generated side by side: several take no longer than one.
    turn.draw.per_token /= body.choices().max(1);
    if body.stream == Some(true) {
        let asked = body.stream_options.and_then(|options| options.include_usage).unwrap_or(false);
        return chunks::tell(turn, &answer, asked && character.reports_usage).await;
    }
    let tokens = answer.completion_tokens();
    tell_whole(turn, tokens, whole(&answer, character.reports_usage).to_string()).await
}

/// Tells a JSON answer of `tokens` tokens in one piece, when its last token would be ready.
pub(super) async fn tell_whole(mut turn: Turn, tokens: u32, body: String) -> Result<HttpResponse, Refusal> {
    match turn.draw.fate {
        Fate::Fails => return Err(turn.fail().await),
        Fate::Hangs { .. } => turn.hang().await,
        Fate::Answers | Fate::IsCut { .. } => {}
    }
    turn.pass(turn.draw.first_token + turn.telling(tokens)).await;
    let mut response = turn.accepted();
    response.insert_header(ContentType::json());
    if let Fate::IsCut { after } = turn.draw.fate {
        return Ok(response.body(cut_body(turn, body.into(), after)));
    }
    turn.ends(End::Completed);
    Ok(response.body(body))
}

/// A body that promises its whole length and breaks off after a share of it.
fn cut_body(
    mut turn: Turn,
    body: Bytes,
    after: f64,
) -> SizedStream<impl futures_util::Stream<Item = io::Result<Bytes>> + 'static> {
    turn.ends(End::Truncated);
    let length = body.len();
    let kept = ((length as f64 * after) as usize).min(length.saturating_sub(1));
    let start = stream::iter([Ok(body.slice(..kept))]);
    let end = stream::once(async move {
        // Suspending once lets the first part leave; the server drops what is unsent when a body fails.
        tokio::task::yield_now().await;
        drop(turn);
        Err(io::Error::other("cut off on purpose"))
    });
    SizedStream::new(length as u64, start.chain(Box::pin(end)))
}

fn whole(answer: &Answer, with_usage: bool) -> Value {
    let choices = answer.choices.iter().enumerate().map(|(index, choice)| {
        json!({
            "index": index,
            "message": message(choice),
            "logprobs": null,
            "finish_reason": choice.finish.as_str(),
        })
    });
    let mut body = json!({
        "id": answer.id,
        "object": "chat.completion",
        "created": unix_seconds(),
        "model": answer.model,
        "choices": choices.collect::<Vec<_>>(),
        "service_tier": "default",
        "system_fingerprint": answer.fingerprint,
    });
    if let Some(body) = body.as_object_mut().filter(|_| with_usage) {
        body.insert("usage".to_owned(), answer.usage());
    }
    body
}

fn message(choice: &Choice) -> Value {
    let mut message = json!({ "role": "assistant", "content": choice.content, "refusal": null, "annotations": [] });
    let Some(fields) = message.as_object_mut() else { return message };
    if !choice.calls.is_empty() {
        fields.insert("tool_calls".to_owned(), choice.calls.iter().map(tool_call).collect());
    }
    if !choice.images.is_empty() {
        fields.insert("images".to_owned(), choice.images.iter().map(|url| image(url)).collect());
    }
    message
}

fn tool_call(call: &ToolCall) -> Value {
    json!({
        "id": call.id,
        "type": "function",
        "function": { "name": call.name, "arguments": call.arguments },
    })
}

/// A picture in an answer, as services that draw in chats send it.
pub(super) fn image(url: &str) -> Value {
    json!({ "type": "image_url", "image_url": { "url": url } })
}

/// The present, as OpenAI's `created` counts it.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs())
}
