//! The playground: where a request would go, and where it would go under other conditions. On request it is sent.
//!
//! Both decisions come from the code of `POST /route/preview`, and a request is sent through that of `POST /chat/completions`, with
//! the key of the session. The text is kept nowhere.

use actix_web::{
    HttpResponse,
    web::{self, Bytes},
};
use maud::{Markup, html};
use pointsman_config::Scope;
use pointsman_dialect::{ChatPurpose, ChatRequest};
use pointsman_domain::{Catalog, Invalid, InvalidReason};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{answer, decision::candidates::ranking, format, layout::Nav, visit::Visit, visitor::Visitor};
use crate::{
    api::{
        decisions::{
            preview::{self, PreviewAnswer},
            preview_view::DecisionBody,
        },
        inference::{admitted_request::AdmittedRequest, chat},
        number::Figure,
    },
    base::error::ApiError,
};

/// Most bytes of a form.
pub(super) const MOST_BYTES: usize = 1024 * 1024;
/// Most tokens of a prompt that is given by its size.
const MOST_TOKENS: u32 = 1_000_000;
/// Text of about one token.
const ONE_TOKEN: &str = "abc ";
/// Names and values of the objectives.
const OBJECTIVES: [&str; 4] = ["balanced", "cheapest", "fastest", "reliable"];
/// Values of `circuit`.
const CIRCUITS: [&str; 4] = ["closed", "open", "half_open", "cooldown"];

/// The form. Empty fields are left out of the request.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Question {
    token: String,
    model: String,
    objective: String,
    prompt: String,
    prompt_tokens: String,
    max_tokens: String,
    only: String,
    min_quality: String,
    /// Further members of the request, as a JSON object.
    further: String,
    /// The conditions of the second decision.
    if_objective: String,
    if_latency: String,
    if_cost: String,
    if_quality: String,
    if_endpoint: String,
    if_price: String,
    if_ttft_ms: String,
    if_tokens_per_second: String,
    if_failure: String,
    if_known_quality: String,
    if_circuit: String,
}

/// Shows the form with a first preview. What the address holds is filled in, but for the text.
///
/// # Errors
/// Faults of a preview that are not the request's own.
pub(super) async fn show(visit: Visit, question: web::Query<Question>) -> Result<HttpResponse, ApiError> {
    let mut question = question.into_inner();
    if question.model.is_empty() {
        question.model = format!("{}/auto", visit.worker.setup.config.service.alias_prefix);
    }
    if question.prompt_tokens.is_empty() {
        question.prompt = "Say hello.".to_owned();
    }
    page(&visit, question).await
}

/// Shows the form with the preview of what was entered. Not a page of its own address: the text must not stand in one.
///
/// # Errors
/// As [`show`]; 403 for a form of another session.
pub(super) async fn preview(
    visitor: Visitor,
    visit: Visit,
    question: web::Form<Question>,
) -> Result<HttpResponse, ApiError> {
    visitor.check(&question.token)?;
    page(&visit, question.into_inner()).await
}

/// Sends the request, streamed, with the key of the session.
///
/// # Errors
/// 403 for a form of another session and for a key without the scope `inference`; those of `POST /chat/completions`.
pub(super) async fn send(
    visitor: Visitor,
    visit: Visit,
    question: web::Form<Question>,
) -> Result<HttpResponse, ApiError> {
    visitor.check(&question.token)?;
    let call = AdmittedRequest::admit(visit.into_authorized())?;
    let mut body = question.request(false)?;
    body.insert("stream".to_owned(), json!(true));
    set(&mut body, "metadata", "source", json!("console"));
    let chat = ChatRequest::parse(bytes(&body), ChatPurpose::Chat, &call.by.worker.setup.config.limits.request)?;
    chat::answer(chat, call).await
}

async fn page(visit: &Visit, question: Question) -> Result<HttpResponse, ApiError> {
    let (frame, worker) = (&visit.frame, &visit.worker);
    let previewed = match question.request(true) {
        Ok(body) => preview::of_chat_body(bytes(&body), visit).await,
        Err(error) => Err(error),
    };
    let may_send = visit.caller.require(Scope::Inference).is_ok();
    let content = html! {
        h1 { "Playground" }
        p.lead { "Where a request would go now, and where it would go under other conditions. Nothing is sent before you press Send." }
        form.playground method="post" action={ (frame.root) "try" } data-live="preview price" data-send={ (frame.root) "try/send" } {
            (frame.token())
            (question.fields(&worker.setup.catalog))
            div.actions {
                button type="submit" { "Preview" }
                @if may_send {
                    button type="submit" formaction={ (frame.root) "try/send" } data-send-button { "Send" }
                    span #price.muted aria-live="polite" { @if let Ok(previewed) = &previewed { (price(&previewed.body().decision_body)) } }
                }
                @else { span.muted { "Sending needs a key that has the scope 'inference' too: log in with one. On loopback the key that the start prints has it." } }
            }
        }
        section #sent aria-live="polite" hidden { h2 { "Answer" } p.muted data-sent-facts {} pre data-sent-text {} }
        div #preview aria-live="polite" {
            @if question.lacks_endpoint() {
                p.alert { "Prices, first token, tokens per second, failures, quality and circuit are those of one endpoint: choose it, or they change nothing." }
            }
            @match &previewed {
                Ok(previewed) => (decisions(previewed)),
                Err(error) => p.verdict.bad { strong { "This request would be refused: " } (error.message()) },
            }
        }
        p.api { "The same as JSON: " code { "POST /api/v1/route/preview" } ", or " code { "pointsman preview" } }
    };
    Ok(answer::page(frame.page("Playground", Some(Nav::Playground), content)))
}

/// The decision, and beside it that under other conditions.
fn decisions(previewed: &PreviewAnswer) -> Markup {
    let body = previewed.body();
    html! {
        ul.notices { @for warning in body.warnings { li.warn { (warning.message) } } }
        @if let Some(what_if) = &body.what_if {
            p.verdict.(if what_if.changed { "warn" } else { "good" }) { (what_if.sentence) }
        }
        div.pair {
            section { h2 { "As asked" } (decision(&body.decision_body)) }
            @if let Some(what_if) = &body.what_if { section { h2 { "What if" } (decision(&what_if.decision_body)) } }
        }
    }
}

/// What sending the request would cost.
fn price(body: &DecisionBody<'_>) -> Markup {
    html! {
        @if let Some(first) = body.candidates.first() {
            "costs about " (format::estimate(first.predicted.cost.map(Figure::value)))
            @if let Some(range) = &first.predicted.cost_range { ", in nine of ten cases at most " (format::estimate(Some(range.high.value()))) }
            ", charged to your key"
        }
    }
}

fn decision(body: &DecisionBody<'_>) -> Markup {
    html! {
        p { strong { (body.summary) } }
        p.muted { (body.decision_reason) }
        p.muted {
            @if body.excluded_total == 0 { "No endpoint is excluded." }
            @else if body.excluded_total == 1 { "1 endpoint is excluded." }
            @else { (body.excluded_total) " endpoints are excluded." }
        }
        (ranking(&body.candidates, body.candidates_total, None, |_| Markup::default()))
    }
}

impl Question {
    /// The body of a chat request; for a preview with the conditions of the second decision.
    fn request(&self, is_preview: bool) -> Result<Map<String, Value>, ApiError> {
        let mut body = self.further()?;
        if let Some(slug) = text(&self.only) {
            set(&mut body, "provider", "only", json!([slug]));
        }
        let mut put = |name: &str, value: Option<Value>| {
            body.extend(value.map(|value| (name.to_owned(), value)));
        };
        put("model", text(&self.model));
        put("objective", text(&self.objective));
        put("max_tokens", number(&self.max_tokens));
        put("min_quality", number(&self.min_quality));
        put("messages", Some(json!([{"role": "user", "content": self.content()?}])));
        if is_preview {
            put("what_if", self.what_if());
        }
        Ok(body)
    }

    /// The further members.
    fn further(&self) -> Result<Map<String, Value>, ApiError> {
        if self.further.trim().is_empty() {
            return Ok(Map::new());
        }
        serde_json::from_str(&self.further).map_err(|error| {
            let message = format!("'Further members' must be a JSON object, such as {{\"max_cost\": 0.01}}: {error}.");
            ApiError::invalid(Invalid::body(InvalidReason::InvalidJson, message))
        })
    }

    /// The text, or as much text as the given number of tokens.
    fn content(&self) -> Result<String, ApiError> {
        match self.prompt_tokens.trim().parse::<u32>() {
            Ok(tokens) if self.prompt.trim().is_empty() => Ok(ONE_TOKEN.repeat(tokens.min(MOST_TOKENS) as usize)),
            _ if self.prompt.len() > MOST_BYTES => Err(ApiError::body_too_large(MOST_BYTES)),
            _ => Ok(self.prompt.clone()),
        }
    }

    /// Conditions of an endpoint that is not named.
    fn lacks_endpoint(&self) -> bool {
        self.if_endpoint.is_empty() && !self.of_endpoint().is_empty()
    }

    fn of_endpoint(&self) -> Map<String, Value> {
        let mut endpoint = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            endpoint.extend(value.map(|value| (name.to_owned(), value)));
        };
        put("price", number(&self.if_price).map(|factor| json!({"factor": factor})));
        put("ttft_ms", number(&self.if_ttft_ms));
        put("tokens_per_second", number(&self.if_tokens_per_second));
        put("failure_probability", number(&self.if_failure));
        put("quality", number(&self.if_known_quality));
        put("circuit", text(&self.if_circuit));
        endpoint
    }

    fn what_if(&self) -> Option<Value> {
        let mut conditions = Map::new();
        conditions.extend(text(&self.if_objective).map(|objective| ("objective".to_owned(), objective)));
        let weights = [("latency", &self.if_latency), ("cost", &self.if_cost), ("quality", &self.if_quality)]
            .map(|(name, entered)| number(entered).map(|weight| (name.to_owned(), weight)));
        let weights: Map<String, Value> = weights.into_iter().flatten().collect();
        if !weights.is_empty() {
            conditions.insert("weights".to_owned(), Value::Object(weights));
        }
        let mut endpoint = self.of_endpoint();
        if let Some((model, provider)) = self.if_endpoint.rsplit_once('@').filter(|_| !endpoint.is_empty()) {
            endpoint.insert("model".to_owned(), json!(model));
            endpoint.insert("provider".to_owned(), json!(provider));
            conditions.insert("endpoints".to_owned(), json!([endpoint]));
        }
        (!conditions.is_empty()).then_some(Value::Object(conditions))
    }

    fn fields(&self, catalog: &Catalog) -> Markup {
        let endpoints = catalog.endpoints.iter().filter_map(|endpoint| {
            let (model, provider) = (catalog.model_of(endpoint)?, catalog.provider_of(endpoint)?);
            provider.is_on().then(|| format!("{}@{}", model.id, provider.slug))
        });
        let endpoints: Vec<String> = endpoints.collect();
        let providers: Vec<&str> =
            catalog.providers.iter().filter(|it| it.is_on()).map(|it| it.slug.as_str()).collect();
        html! {
            fieldset {
                legend { "Request" }
                label { "Model or alias" input name="model" value=(self.model) list="models" autocomplete="off" data-filter; }
                datalist #models {
                    @for alias in &catalog.aliases { option value=(alias.id) {} }
                    @for model in &catalog.models { option value=(model.id) {} }
                }
                label { "Objective" (select("objective", "the default", &self.objective, OBJECTIVES)) }
                label { "Only this provider" (select("only", "any", &self.only, providers)) }
                label { "Most output tokens" input name="max_tokens" value=(self.max_tokens) inputmode="numeric" placeholder="the model's"; }
                label { "Least quality, 0 to 1" input name="min_quality" value=(self.min_quality) inputmode="decimal" placeholder="any"; }
                label { "Prompt tokens, if no text" input name="prompt_tokens" value=(self.prompt_tokens) inputmode="numeric"; }
                label.wide { "Further members of the request, as JSON" textarea name="further" rows="2" spellcheck="false" placeholder="{\"max_cost\": 0.01}" { (self.further) } }
                label.wide { "Text" textarea name="prompt" rows="4" { (self.prompt) } }
            }
            fieldset {
                legend { "What if" }
                p.wide.muted { "Decides a second time under these conditions and shows both. An empty field changes nothing; a weight alone is a share, and the others keep their ratio." }
                label { "Objective" (select("if_objective", "the same", &self.if_objective, OBJECTIVES)) }
                (slider("Weight of time, 0 to 1", "if_latency", &self.if_latency, "0.5", "0 1 0.05"))
                (slider("Weight of cost, 0 to 1", "if_cost", &self.if_cost, "0.5", "0 1 0.05"))
                (slider("Weight of quality, 0 to 1", "if_quality", &self.if_quality, "0.3", "0 1 0.05"))
                label.wide { "One endpoint, with the values below" (select("if_endpoint", "none", &self.if_endpoint, endpoints.iter().map(String::as_str))) }
                (slider("Prices, times", "if_price", &self.if_price, "0.5", "0 4 0.1"))
                (slider("First token, ms", "if_ttft_ms", &self.if_ttft_ms, "300", "0 5000 50"))
                (slider("Tokens per second", "if_tokens_per_second", &self.if_tokens_per_second, "80", "5 400 5"))
                (slider("Failures, 0 to 1", "if_failure", &self.if_failure, "0.1", "0 1 0.01"))
                (slider("Quality, 0 to 1", "if_known_quality", &self.if_known_quality, "0.8", "0 1 0.01"))
                label { "Circuit" (select("if_circuit", "as it is", &self.if_circuit, CIRCUITS)) }
            }
        }
    }
}

/// Sets a member of an object within the body; an object that is none stays what it is, and is refused by name.
fn set(body: &mut Map<String, Value>, object: &str, member: &str, value: Value) {
    let object = body.entry(object).or_insert_with(|| json!({}));
    if let Some(object) = object.as_object_mut() {
        object.insert(member.to_owned(), value);
    }
}

fn bytes(body: &Map<String, Value>) -> Bytes {
    // Maps with text keys are always written.
    Bytes::from(serde_json::to_vec(body).unwrap_or_default())
}

fn text(entered: &str) -> Option<Value> {
    let entered = entered.trim();
    (!entered.is_empty()).then(|| json!(entered))
}

/// A number; other text stays text, which the parser of requests refuses by name.
fn number(entered: &str) -> Option<Value> {
    text(entered).map(|text| {
        match text.as_str().and_then(|text| serde_json::from_str::<serde_json::Number>(text).ok()) {
            Some(number) => Value::Number(number),
            None => text,
        }
    })
}

/// A field for a number; the script adds a slider from the least to the greatest value in steps, as `range` has them.
fn slider(label: &str, name: &str, value: &str, hint: &str, range: &str) -> Markup {
    html! { label { (label) input name=(name) value=(value) inputmode="decimal" placeholder=(hint) data-slider=(range); } }
}

fn select<'a>(name: &str, without: &str, chosen: &str, values: impl IntoIterator<Item = &'a str>) -> Markup {
    html! {
        select name=(name) {
            option value="" { (without) }
            @for value in values { option value=(value) selected[value == chosen] { (format::plain_name(value, 80)) } }
        }
    }
}
