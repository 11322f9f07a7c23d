//! What stands on the overview before the first call: how to call, and, where all providers are simulated, a button that sends
//! some sample calls.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, body::to_bytes, rt, web};
use maud::{Markup, html};
use pointsman_config::{AuthMode, DEVELOPMENT_KEY, Scope};
use pointsman_dialect::{ChatPurpose, ChatRequest};
use serde::Deserialize;
use serde_json::json;

use super::{answer, form, layout::Frame, visitor::Visitor};
use crate::{
    access::keys::Caller,
    api::{
        auth::Authorized,
        inference::{admitted_request::AdmittedRequest, chat},
    },
    base::error::ApiError,
    state::gateway::Worker,
};

/// Sample calls of one press.
const SAMPLES: usize = 20;
/// What the sample calls ask, in turn.
const OBJECTIVES: [&str; 4] = ["balanced", "cheapest", "fastest", "reliable"];

#[derive(Deserialize)]
pub(super) struct Sent {
    #[serde(default)]
    token: String,
}

/// The card.
pub(super) fn show(frame: &Frame, visitor: &Visitor, worker: &Worker) -> Markup {
    let config = &worker.setup.config;
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let base = format!("{scheme}://{}/api/v1", config.server.bind);
    let (key, environment) = match config.auth.mode {
        AuthMode::Keys if !config.auth.development_key_enabled => ("$POINTSMAN_API_KEY", true),
        _ => (DEVELOPMENT_KEY, false),
    };
    let model = model(worker);
    let curl = format!(
        "curl {base}/chat/completions \\\n  -H \"Authorization: Bearer {key}\" \\\n  -H 'Content-Type: application/json' \\\n  \
         -d '{{\"model\": \"{model}\",\n       \"messages\": [{{\"role\": \"user\", \"content\": \"Which way?\"}}]}}'"
    );
    let python_key = if environment { "os.environ[\"POINTSMAN_API_KEY\"]".to_owned() } else { format!("\"{key}\"") };
    let python = format!(
        "{}from openai import OpenAI\n\nclient = OpenAI(\n    base_url=\"{base}\",\n    api_key={python_key},\n)\n\
         answer = client.chat.completions.create(\n    model=\"{model}\",\n    messages=[{{\"role\": \"user\", \
         \"content\": \"Which way?\"}}],\n)\nprint(answer.choices[0].message.content)",
        if environment { "import os\n" } else { "" }
    );
    html! {
        section.card.first-steps {
            h2 { "The first call" }
            p.muted { "No call ended in the last day. Any client of the OpenAI API can call; agents are set up with " code { "pointsman connect claude" } " (or codex, opencode, aider)." }
            div.columns {
                div { h3 { "curl" } (form::to_copy(&curl)) }
                div { h3 { "Python" } (form::to_copy(&python)) }
            }
            @if may_send(&visitor.caller, worker) {
                form.inline method="post" action={ (frame.root) "samples" } {
                    (frame.token())
                    button.primary type="submit" { "Send " (SAMPLES) " sample calls" }
                    span.muted { "They go the way of all calls, to the simulated providers, and cost nothing real." }
                }
            }
            p { "Or look first where a call would go: " a href={ (frame.root) "try" } { "Playground" } "." }
        }
    }
}

/// Sends the sample calls, with the key of the session. They go on after the answer.
///
/// # Errors
/// 403 for a form of another session and for a key without the scope `inference`; 404 where a real provider is on.
pub(super) async fn send(
    visitor: Visitor,
    worker: Worker,
    request: HttpRequest,
    sent: web::Form<Sent>,
) -> Result<HttpResponse, ApiError> {
    visitor.check(&sent.token)?;
    visitor.caller.require(Scope::Inference)?;
    if !may_send(&visitor.caller, &worker) {
        return Err(ApiError::no_such("page"));
    }
    rt::spawn(async move {
        for objective in OBJECTIVES.into_iter().cycle().take(SAMPLES) {
            // What failed is in the records, as of every call.
            if let Err(error) = call(&visitor.caller, &worker, &request, objective).await {
                log::debug!("a sample call was not answered: {}", error.message());
            }
        }
    });
    Ok(answer::redirect("./?done=samples"))
}

async fn call(caller: &Arc<Caller>, worker: &Worker, request: &HttpRequest, objective: &str) -> Result<(), ApiError> {
    let by = Authorized { caller: Arc::clone(caller), worker: worker.clone(), request: request.clone() };
    let call = AdmittedRequest::admit(by)?;
    let body = json!({
        "model": model(worker),
        "max_tokens": 60,
        "messages": [{ "role": "user", "content": "Which way?" }],
        "metadata": { "objective": objective, "source": "console" },
    });
    let limits = &call.by.worker.setup.config.limits.request;
    let chat = ChatRequest::parse(body.to_string().into(), ChatPurpose::Chat, limits)?;
    // Read to its end, as a client does.
    let _ = to_bytes(chat::answer(chat, call).await?.into_body()).await;
    Ok(())
}

/// Whether all providers that are on are simulated, and the key may call.
fn may_send(caller: &Caller, worker: &Worker) -> bool {
    let mut on = worker.setup.catalog.providers.iter().filter(|provider| provider.is_on()).peekable();
    on.peek().is_some() && on.all(|provider| provider.simulated) && caller.require(Scope::Inference).is_ok()
}

fn model(worker: &Worker) -> String {
    format!("{}/auto", worker.setup.config.service.alias_prefix)
}
