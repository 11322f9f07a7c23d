//! POST /v1/chat/completions, streamed or not.

use actix_web::{
    HttpRequest, HttpResponse,
    web::{Bytes, Data},
};
use pointsman_domain::Dialect;
use serde_json::{Value, json};

use super::{
    answer::{Answer, Choice},
    json_response::{image, send_json, unix_seconds},
    provider::Provider,
    rejection::Rejection,
    request::ChatBody,
    stream,
    tools::ToolCall,
};

/// Answers a chat request, streamed or not.
pub(super) async fn create(
    provider: Data<Provider>,
    request: HttpRequest,
    body: Bytes,
) -> Result<HttpResponse, Rejection> {
    provider.record_request();
    let settings = provider.settings();
    if settings.dialect != Dialect::OpenAi {
        return Err(Rejection::UnknownPath { method: request.method().to_string(), path: request.path().to_owned() });
    }
    let body = ChatBody::parse(&body)?;
    let model = body.check(&settings)?;
    let mut active = provider.admit(&settings, &model.id)?;
    let answer = Answer::generate(&body, model, &settings, &mut active.rng).with_cache(&body, provider.prompts());
    // Choices are generated in parallel: several take no longer than one.
    active.draw.per_token /= body.choices().max(1);
    if body.stream == Some(true) {
        let asked = body.stream_options.and_then(|options| options.include_usage).unwrap_or(false);
        return stream::respond(active, &answer, asked && settings.reports_usage).await;
    }
    let tokens = answer.completion_tokens();
    send_json(active, tokens, whole(&answer, settings.reports_usage).to_string()).await
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
