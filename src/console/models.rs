//! Models with their endpoints and prices, and aliases.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use chrono::NaiveDate;
use maud::{Markup, html};
use pointsman_base::clock;
use pointsman_domain::{Alias, Catalog, Endpoint, Price, PriceTier, Pricing};
use serde::Deserialize;

use super::{
    answer, format,
    layout::{Frame, Nav, api_line},
    visitor::Visitor,
};
use crate::{
    api::models::listed_model::{ListedKinds, ListedModel},
    base::error::ApiError,
    state::gateway::Worker,
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
/// None.
pub(super) async fn show(
    _: Visitor,
    worker: Worker,
    request: HttpRequest,
    question: web::Query<Question>,
) -> Result<HttpResponse, ApiError> {
    let frame = Frame::of(&request);
    let catalog = &*worker.setup.catalog;
    let wanted = question.q.trim().to_ascii_lowercase();
    let listed = ListedModel::all(catalog, clock::today(), ListedKinds::Models);
    let (total, mut shown) = (listed.len(), listed);
    shown.retain(|model| model.id.contains(&*wanted));
    let sample = Sample {
        prompt: question.prompt.unwrap_or(SAMPLE.0).min(MOST_TOKENS),
        completion: question.completion.unwrap_or(SAMPLE.1).min(MOST_TOKENS),
    };
    let dates = &worker.setup.config.price_dates;
    let content = html! {
        h1 { "Models and prices" }
        (form(question.q.trim(), sample))
        @if shown.is_empty() {
            p.empty {
                @if total == 0 { "No model is on. A model is on when one of its providers has a key." }
                @else { "No model has “" (format::name(question.q.trim(), 60)) "” in its id." }
            }
        } @else {
            (table(&shown, catalog, dates, sample))
        }
        @if shown.len() > MOST_MODELS { p.muted { "and " (shown.len() - MOST_MODELS) " more: search by a part of the id" } }
        (aliases(&catalog.aliases))
        (api_line("/api/v1/models"))
    };
    Ok(answer::page(frame.page("Models", Some(Nav::Models), content)))
}

fn form(q: &str, sample: Sample) -> Markup {
    html! {
        form.filters method="get" action="" role="search" {
            label { span { "Id has" } input type="search" name="q" value=(q) maxlength="200" data-filter; }
            label { span { "Prompt tokens" } input type="number" name="prompt" min="0" max=(MOST_TOKENS) value=(sample.prompt); }
            label { span { "Completion tokens" } input type="number" name="completion" min="0" max=(MOST_TOKENS) value=(sample.completion); }
            button.primary type="submit" { "Show" }
        }
    }
}

fn table(models: &[ListedModel<'_>], catalog: &Catalog, dates: &BTreeMap<u32, NaiveDate>, sample: Sample) -> Markup {
    html! {
        div.scroll tabindex="0" {
            table {
                caption { "Prices in dollars per million tokens. A dash: charged as the class before it." }
                thead {
                    tr {
                        th scope="col" { "Model" } th scope="col" { "Provider" } th.r scope="col" { "Context" }
                        th.r scope="col" { "Prompt" } th.r scope="col" { "Cache read" } th.r scope="col" { "Cache write" }
                        th.r scope="col" { "Completion" } th.r scope="col" { "Reasoning" } th.r scope="col" { "Per request" }
                        th.r scope="col" title={ (sample.prompt) " prompt and " (sample.completion) " completion tokens" } { "Sample" }
                        th scope="col" { "Oldest price" }
                    }
                }
                tbody {
                    @for model in models.iter().take(MOST_MODELS) {
                        @for (n, endpoint) in model.endpoints.iter().filter_map(|at| catalog.endpoint(*at)).enumerate() {
                            (row(model, endpoint, n == 0, catalog, dates, sample))
                        }
                    }
                }
            }
        }
    }
}

fn row(
    model: &ListedModel<'_>,
    endpoint: &Endpoint,
    is_first: bool,
    catalog: &Catalog,
    dates: &BTreeMap<u32, NaiveDate>,
    sample: Sample,
) -> Markup {
    let pricing = endpoint.pricing.as_deref();
    let retires = model.expiration_date.filter(|_| is_first);
    let tiers = pricing.map(|pricing| (pricing, &pricing.tiers));
    html! {
        tr data-row {
            th.endpoint scope="row" {
                @if is_first { (format::name(model.id, 56)) } @else { span.visually-hidden { (model.id) } }
                @if let Some(date) = retires { br; span.tag.warn { "retires " (date) } }
            }
            td.t {
                @if let Some(provider) = catalog.provider_of(endpoint) { (format::name(&provider.name, 32)) }
                @if !endpoint.variant.is_empty() { " " span.tag { (endpoint.variant) } }
            }
            td.r { (format::count(endpoint.limits.context_length)) }
            @match pricing {
                None => { td colspan="7" { (format::unknown("No price is known: the endpoint is left out where cost decides.")) } }
                Some(pricing) => {
                    (token_prices(pricing))
                    td.r { @if pricing.request.is_zero() { (format::none()) } @else { (format::money(Some(pricing.request))) } }
                    td.r { (sample_price(pricing, sample)) }
                }
            }
            td.t { @if let Some(date) = dates.get(&endpoint.provider) { (date) } @else { (format::none()) } }
        }
        @if let Some((pricing, tiers)) = tiers { @for tier in tiers { (tier_row(model.id, pricing, tier)) } }
    }
}

/// The prices of prompts beyond a length, below those of shorter ones.
fn tier_row(model: &str, pricing: &Pricing, tier: &PriceTier) -> Markup {
    html! {
        tr {
            th.endpoint scope="row" { span.visually-hidden { (model) } }
            td colspan="2" { span.muted { "prompts above " (format::count(tier.above_prompt_tokens)) " tokens" } }
            (token_prices(&tier.pricing(pricing)))
            td {} td {} td {}
        }
    }
}

fn token_prices(pricing: &Pricing) -> Markup {
    html! {
        td.r { (per_million(Some(pricing.prompt))) }
        td.r { (per_million(pricing.input_cache_read)) }
        td.r { (per_million(pricing.input_cache_write)) }
        td.r { (per_million(Some(pricing.completion))) }
        td.r { (per_million(pricing.internal_reasoning)) }
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
            div.scroll.hide-caption tabindex="0" {
                table {
                    caption { "Aliases: names for a choice among models" }
                    thead { tr { th scope="col" { "Alias" } th scope="col" { "Objective" } th scope="col" { "Chooses among" } th scope="col" { "Never" } } }
                    tbody {
                        @for alias in aliases {
                            tr data-row {
                                th scope="row" { (format::name(&alias.id, 56)) }
                                td { @if let Some(objective) = alias.objective { (objective.as_str()) } @else { span.muted { "the default" } } }
                                td {
                                    @if alias.free_only { "models that cost nothing" } @else if alias.allowed.is_empty() { "all models" }
                                    @for (n, pattern) in alias.allowed.iter().enumerate() { @if n > 0 { ", " } code { (pattern) } }
                                }
                                td { @for (n, pattern) in alias.blocked.iter().enumerate() { @if n > 0 { ", " } code { (pattern) } } }
                            }
                        }
                    }
                }
            }
        }
    }
}
