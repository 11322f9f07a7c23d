//! Models with what they can do, their endpoints, how fast and sound these are, and prices; aliases; and the models that are off.

use std::collections::BTreeMap;

use actix_web::{HttpResponse, web};
use chrono::NaiveDate;
use maud::{Markup, html};
use pointsman_base::clock;
use pointsman_dialect::percent;
use pointsman_domain::{Alias, Catalog, Endpoint, Modality, Model, Price, PriceTier, Pricing, ProviderState};
use serde::Deserialize;

use super::{
    answer, format,
    layout::{Nav, api_line, data_table},
    prices,
    visit::Visit,
    words,
};
use crate::{
    api::{
        health::{
            health_view::{EndpointHealthBody, MeasuredBody},
            stats,
        },
        models::{
            listed_model::{ListedKinds, ListedModel},
            measurements::Measurements,
        },
        number::Figure,
    },
    base::error::ApiError,
};

/// Models shown at once.
const MOST_MODELS: usize = 60;
/// Tokens of the sample request without other numbers in the query.
const SAMPLE: (u64, u64) = (1_000, 300);
/// Most tokens of the sample request.
const MOST_TOKENS: u64 = 10_000_000;

#[derive(Deserialize)]
pub(super) struct Question {
    #[serde(default)]
    q: String,
    prompt: Option<u64>,
    completion: Option<u64>,
}

/// The request whose price is shown for each endpoint.
#[derive(Clone, Copy)]
struct Sample {
    prompt: u64,
    completion: u64,
}

/// Shows the models whose id holds the text of the query.
///
/// # Errors
/// 503 when the statistics actor does not answer in time.
pub(super) async fn show(visit: Visit, question: web::Query<Question>) -> Result<HttpResponse, ApiError> {
    let (frame, worker) = (&visit.frame, &visit.worker);
    let catalog = &*worker.setup.catalog;
    let wanted = question.q.trim().to_ascii_lowercase();
    let listed = ListedModel::all(catalog, clock::today(), ListedKinds::Models);
    let (total, mut shown) = (listed.len(), listed);
    shown.retain(|model| model.id.contains(&*wanted));
    let sample = Sample {
        prompt: question.prompt.unwrap_or(SAMPLE.0).min(MOST_TOKENS),
        completion: question.completion.unwrap_or(SAMPLE.1).min(MOST_TOKENS),
    };
    let measurements = Measurements::now(worker).await?;
    let snapshot = worker.setup.published.snapshot();
    let measured = stats::endpoint_bodies(&snapshot, &measurements, None);
    let table = Table { catalog, dates: &worker.setup.config.price_dates, measured: &measured, sample };
    let content = html! {
        h1 { "Models and prices" }
        (form(question.q.trim(), sample))
        @if shown.is_empty() {
            p.empty {
                @if total == 0 { "No model is on. A model is on when one of its providers has a key." }
                @else { "No model has “" (format::name(question.q.trim(), 60)) "” in its id." }
            }
        } @else {
            (table.markup(&shown))
        }
        @if shown.len() > MOST_MODELS { p.muted { "and " (shown.len() - MOST_MODELS) " more: search by a part of the id" } }
        (aliases(&catalog.aliases))
        (switched_off(catalog, &wanted))
        (api_line("/api/v1/models"))
        (api_line("/api/v1/models/stats"))
    };
    Ok(answer::page(frame.page("Models", Some(Nav::Models), content)))
}

fn form(q: &str, sample: Sample) -> Markup {
    html! {
        form.filters method="get" action="" role="search" {
            label { span { "Id has" } input type="search" name="q" value=(q) maxlength="200"; }
            label { span { "Prompt tokens" } input type="number" name="prompt" min="0" max=(MOST_TOKENS) value=(sample.prompt); }
            label { span { "Completion tokens" } input type="number" name="completion" min="0" max=(MOST_TOKENS) value=(sample.completion); }
            button.primary type="submit" { "Show" }
        }
    }
}

/// What the rows are made from.
struct Table<'a> {
    catalog: &'a Catalog,
    dates: &'a BTreeMap<u32, NaiveDate>,
    measured: &'a [EndpointHealthBody<'a>],
    sample: Sample,
}

impl Table<'_> {
    fn markup(&self, models: &[ListedModel<'_>]) -> Markup {
        html! {
            div.scroll tabindex="0" {
                table.models {
                    caption { "Prices in dollars per million tokens; a dash: charged as prompt or completion. Speed and success are of the last five minutes." }
                    thead {
                        tr {
                            th scope="col" { "Model" } th scope="col" { "Provider" } th.r scope="col" { "Context" }
                            th.r scope="col" { "First token" } th.r scope="col" { "Tokens/s" } th.r scope="col" { "Success" }
                            th.r scope="col" { "Prompt" } th.r scope="col" { "Completion" } th.r scope="col" title="Cached prompt tokens: read, and written" { "Cache r / w" }
                            th.r scope="col" title={ (self.sample.prompt) " prompt and " (self.sample.completion) " completion tokens" } { "Sample" }
                            th scope="col" { "Oldest price" }
                        }
                    }
                    tbody {
                        @for model in models.iter().take(MOST_MODELS) {
                            @for (n, endpoint) in model.endpoints.iter().filter_map(|at| self.catalog.endpoint(*at)).enumerate() {
                                (self.row(model, endpoint, n == 0))
                            }
                        }
                    }
                }
            }
        }
    }

    fn row(&self, model: &ListedModel<'_>, endpoint: &Endpoint, is_first: bool) -> Markup {
        let pricing = endpoint.pricing.as_deref();
        let tiers = pricing.map(|pricing| (pricing, &pricing.tiers));
        let provider = self.catalog.provider_of(endpoint);
        let measured = provider.and_then(|provider| {
            let is_it = |body: &&EndpointHealthBody<'_>| {
                body.model == model.id
                    && body.provider_slug == provider.slug.as_str()
                    && body.variant == endpoint.variant
            };
            self.measured.iter().find(is_it).map(|body| &body.measured)
        });
        html! {
            tr data-row {
                th.endpoint scope="row" { @if is_first { (head(model, self.catalog)) } @else { span.visually-hidden { (model.id) } } }
                td {
                    @if let Some(provider) = provider { a.quiet href={ "providers#p-" (provider.slug) } { (format::name(&provider.name, 32)) } }
                    @if !endpoint.variant.is_empty() { " " span.tag { (endpoint.variant) } }
                    @if let Some(measured) = measured { " " span.tag.(words::condition(measured.state)) { (measured.state) } }
                }
                td.r { (format::count(endpoint.limits.context_length)) }
                (speed(measured))
                @match pricing {
                    None => { td colspan="4" { (format::unknown("No price is known: the endpoint is left out where cost decides.")) } }
                    Some(pricing) => {
                        (token_prices(pricing, model.output.contains(Modality::Text)))
                        td.r { (sample_price(pricing, self.sample)) @if !pricing.request.is_zero() { br; span.muted { (format::dollars(pricing.request)) " a request" } } }
                    }
                }
                td.t {
                    @if let Some(date) = self.dates.get(&endpoint.provider) { (date) } @else { (format::none()) }
                    @if let Some(provider) = provider { " " a.ask href=(prices::address(model.id, provider.slug.as_str(), &endpoint.variant)) { "change" span.visually-hidden { " the prices of " (model.id) " at " (provider.name) } } }
                }
            }
            @if let Some((pricing, tiers)) = tiers { @for tier in tiers { (tier_row(model.id, pricing, tier)) } }
        }
    }
}

/// The id of a model and what it can do.
fn head(model: &ListedModel<'_>, catalog: &Catalog) -> Markup {
    html! {
        a.quiet href={ "decisions?model=" (percent::encoded(model.id)) } title="Decisions that it served" { (format::name(model.id, 56)) }
        @if let Some(date) = model.expiration_date { br; span.tag.warn { "retires " (date) } }
        @let abilities = abilities(model, catalog);
        @if !abilities.is_empty() { br; small.muted { (abilities.join(" · ")) } }
    }
}

/// What a model can do beside text.
fn abilities(model: &ListedModel<'_>, catalog: &Catalog) -> Vec<String> {
    let takes = model.input.iter().filter(|kind| *kind != Modality::Text).map(|kind| format!("{kind} in"));
    let makes = model.output.iter().filter(|kind| *kind != Modality::Text).map(|kind| format!("{kind} out"));
    let listed = [("tools", "tools"), ("reasoning", "reasoning"), ("structured_outputs", "JSON schema")];
    let listed = listed.into_iter().filter(|(name, _)| catalog.parameters.lists(model.parameters, name));
    takes.chain(makes).chain(listed.map(|(_, shown)| shown.to_owned())).collect()
}

fn speed(measured: Option<&MeasuredBody>) -> Markup {
    let number = |of: fn(&MeasuredBody) -> Option<Figure>| measured.and_then(of).map(Figure::value);
    html! {
        td.r { (format::millis(number(|measured| measured.ttft_ms.p50))) }
        td.r { (format::figure(number(|measured| measured.throughput_tps.p50), 0)) }
        td.r { (format::share(number(|measured| measured.success_rate))) }
    }
}

/// The prices of prompts beyond a length, below those of shorter ones.
fn tier_row(model: &str, pricing: &Pricing, tier: &PriceTier) -> Markup {
    html! {
        tr {
            th.endpoint scope="row" { span.visually-hidden { (model) } }
            td colspan="5" { span.muted { "prompts above " (format::count(tier.above_prompt_tokens)) " tokens" } }
            (token_prices(&tier.pricing(pricing), true))
            td {} td {}
        }
    }
}

/// Prices of tokens. Where no text comes out, a price of nothing for it says nothing.
fn token_prices(pricing: &Pricing, is_text: bool) -> Markup {
    html! {
        td.r { (per_million(Some(pricing.prompt))) }
        td.r {
            (per_million(Some(pricing.completion).filter(|price| is_text || !price.is_zero())))
            @if let Some(reasoning) = pricing.internal_reasoning.filter(|price| *price != pricing.completion) { br; span.muted { "reasoning " (per_million(Some(reasoning))) } }
        }
        td.r { (per_million(pricing.input_cache_read)) " / " (per_million(pricing.input_cache_write)) }
    }
}

fn per_million(price: Option<Price>) -> Markup {
    html! {
        @match price {
            None => (format::none()),
            Some(price) if price.is_zero() => span.good { "free" },
            Some(price) => (format::money(Some(price * 1_000_000))),
        }
    }
}

fn sample_price(pricing: &Pricing, sample: Sample) -> Markup {
    let Sample { prompt, completion } = sample;
    let pricing = pricing.at(prompt);
    format::money(Some(pricing.prompt * prompt + pricing.completion * completion + pricing.request))
}

fn aliases(aliases: &[Alias]) -> Markup {
    html! {
        @if !aliases.is_empty() {
            h2 { "Aliases " span.muted { (aliases.len()) } }
            (data_table("Aliases: names for a choice among models",
                html! { th scope="col" { "Alias" } th scope="col" { "Objective" } th scope="col" { "Chooses among" } th scope="col" { "Never" } },
                html! {
                    @for alias in aliases {
                        tr data-row {
                            th scope="row" {
                                a.quiet href={ "decisions?alias=" (percent::encoded(&alias.id)) } title="Decisions that asked for it" { (format::name(&alias.id, 56)) }
                                " " a.ask href={ "try?model=" (percent::encoded(&alias.id)) } { "try" }
                            }
                            td { @if let Some(objective) = alias.objective { (objective.as_str()) } @else { span.muted { "the default" } } }
                            td {
                                @if alias.free_only { "models that cost nothing" } @else if alias.split.is_some() { "what its parts name" } @else if alias.allowed.is_empty() { "all models" }
                                @for (n, pattern) in alias.allowed.iter().enumerate() { @if n > 0 { ", " } code { (pattern) } }
                            }
                            td { @for (n, pattern) in alias.blocked.iter().enumerate() { @if n > 0 { ", " } code { (pattern) } } }
                        }
                    }
                }))
        }
    }
}

/// Models that cannot be called now, with what would change that.
fn switched_off(catalog: &Catalog, wanted: &str) -> Markup {
    let today = clock::today();
    let off: Vec<&Model> = catalog
        .models
        .iter()
        .filter(|model| !catalog.is_served(model, today) && model.id.as_str().contains(wanted))
        .collect();
    html! {
        @if !off.is_empty() {
            h2 { "Off " span.muted { (off.len()) } }
            details open[!wanted.is_empty()] {
                summary { "Models that cannot be called, and what would switch them on" }
                (data_table("Models that are off",
                    html! { th scope="col" { "Model" } th scope="col" { "What would switch it on" } },
                    html! { @for model in off.iter().take(MOST_MODELS) { tr data-row { th scope="row" { (format::name(model.id.as_str(), 56)) } td { (remedy(model, catalog)) } } } }))
                @if off.len() > MOST_MODELS { p.muted { "and " (off.len() - MOST_MODELS) " more: search by a part of the id" } }
            }
        }
    }
}

fn remedy(model: &Model, catalog: &Catalog) -> Markup {
    let why = |endpoint: &Endpoint| {
        let provider = catalog.provider_of(endpoint)?;
        let why = match &provider.state {
            ProviderState::Off(why) => why.clone(),
            ProviderState::On => "the endpoint is switched off in the configuration".to_owned(),
        };
        Some((provider.name.as_ref().to_owned(), why))
    };
    html! {
        @if let Some(date) = model.expiration_date.filter(|date| *date <= clock::today()) { "Nothing: it was retired on " (date) "." }
        @else {
            ul.plain { @for (provider, why) in catalog.endpoints_of(model).filter_map(|(_, endpoint)| why(endpoint)) { li { (format::name(&provider, 32)) ": " (why) } } }
        }
    }
}
