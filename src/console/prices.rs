//! The lines of the configuration that would change the prices of an endpoint: the console edits no file.

use actix_web::HttpResponse;
use maud::{Markup, html};
use pointsman_base::clock;
use pointsman_dialect::percent;
use pointsman_domain::{Endpoint, Price, Pricing};
use toml::{Table, Value};

use super::{
    answer,
    form::{Entered, Field, Fields, Kind, to_copy},
    format, in_file,
    layout::Nav,
    visit::Visit,
};
use crate::base::error::ApiError;

const MILLION: i128 = 1_000_000;

/// The prices of a million tokens that the form has, and which of the endpoint's each is.
const FIELDS: [Field; 5] = [
    ("prompt", Kind::Text),
    ("completion", Kind::Text),
    ("input_cache_read", Kind::Text),
    ("input_cache_write", Kind::Text),
    ("internal_reasoning", Kind::Text),
];

/// The address of the page for an endpoint, relative to `/console/`.
pub(super) fn address(model: &str, provider: &str, variant: &str) -> String {
    let variant = if variant.is_empty() { String::new() } else { format!("&variant={}", percent::encoded(variant)) };
    format!("prices?model={}&provider={}{variant}", percent::encoded(model), percent::encoded(provider))
}

/// Shows the prices of an endpoint as a form, and the lines for what was entered.
///
/// # Errors
/// 404 for an unknown endpoint. What is wrong with a price stands beside its field.
pub(super) async fn show(visit: Visit) -> Result<HttpResponse, ApiError> {
    let (frame, worker) = (&visit.frame, &visit.worker);
    let mut entered = Entered::of_query(visit.query());
    let place = Place {
        model: entered.get("model").to_owned(),
        provider: entered.get("provider").to_owned(),
        variant: entered.get("variant").to_owned(),
    };
    let catalog = &*worker.setup.catalog;
    let is_it = |endpoint: &&Endpoint| {
        let names = catalog.model_of(endpoint).zip(catalog.provider_of(endpoint));
        names.is_some_and(|(model, provider)| {
            model.id.as_str() == place.model
                && provider.slug.as_str() == place.provider
                && *endpoint.variant == *place.variant
        })
    };
    let endpoint = catalog.endpoints.iter().find(is_it).ok_or_else(|| ApiError::no_such("endpoint"))?;
    let before = endpoint.pricing.as_deref();
    let is_asked = !entered.get("prompt").is_empty() || !entered.get("completion").is_empty();
    if !is_asked {
        before.into_iter().for_each(|pricing| fill_in(&mut entered, pricing));
    }
    let after = is_asked.then(|| changed(before, &entered));
    let error = after.as_ref().and_then(|after| after.as_ref().err());
    let written = in_file::place(worker, "models", &place.model);
    let fields = Fields { entered: &entered, error };
    let content = html! {
        p.crumbs { a href="models" { "Models" } " / " (format::name(&place.model, 56)) " / prices" }
        h1 { "Prices of " (format::name(&place.model, 56)) " at " (format::name(&place.provider, 32)) @if !place.variant.is_empty() { " (" (format::name(&place.variant, 32)) ")" } }
        (in_file::note(written.as_deref()))
        form.edit method="get" action="prices" {
            @for (name, value) in [("model", &place.model), ("provider", &place.provider), ("variant", &place.variant)] {
                @if !value.is_empty() { input type="hidden" name=(name) value=(value); }
            }
            fieldset {
                legend { "US dollars for a million tokens" }
                (fields.general(&FIELDS))
                (fields.text("prompt", "Prompt", "Such as 0.15; 0: they cost nothing."))
                (fields.text("completion", "Completion", "Tokens of the answer."))
            }
            fieldset {
                legend { "Where they differ" }
                (fields.text("input_cache_read", "Read from the provider's cache", "Empty: as the prompt."))
                (fields.text("input_cache_write", "Written to the provider's cache", "Empty: as the prompt."))
                (fields.text("internal_reasoning", "Reasoning", "Empty: as the completion."))
            }
            div.act { button.primary type="submit" { "Show the lines" } a.button href="models" { "Cancel" } }
        }
        @if let Some(Ok(after)) = &after { (lines_for_the_file(before, after, &place)) }
    };
    let page = frame.page("Prices", Some(Nav::Models), content);
    Ok(match error {
        Some(error) => answer::refused(error, page),
        None => answer::page(page),
    })
}

/// Which endpoint.
struct Place {
    model: String,
    provider: String,
    variant: String,
}

fn lines_for_the_file(before: Option<&Pricing>, after: &Pricing, place: &Place) -> Markup {
    html! {
        section #lines {
            h2 { "Lines for the file" }
            @if before == Some(after) {
                p.muted { "Nothing differs from what is in force." }
            } @else {
                p {
                    "If the file has an entry of this model, or of this provider in it, set these keys there; else add the lines. They hold all prices of the endpoint. "
                    "The file is read again within seconds if it is watched, or with " code { "pointsman reload" } "."
                }
                (to_copy(&lines(after, place, &clock::today().to_string())))
            }
        }
    }
}

fn fill_in(entered: &mut Entered, pricing: &Pricing) {
    for (name, _) in FIELDS {
        entered.add_some(name, price(pricing, name).map(per_million));
    }
}

/// The price that a field of the form shows.
fn price(pricing: &Pricing, name: &str) -> Option<Price> {
    match name {
        "prompt" => Some(pricing.prompt),
        "completion" => Some(pricing.completion),
        "input_cache_read" => pricing.input_cache_read,
        "input_cache_write" => pricing.input_cache_write,
        _ => pricing.internal_reasoning,
    }
}

/// The prices with what was entered.
fn changed(before: Option<&Pricing>, entered: &Entered) -> Result<Pricing, ApiError> {
    let optional = |name| match entered.get(name) {
        "" => Ok(None),
        text => per_token(name, text).map(Some),
    };
    let required = |name| per_token(name, entered.get(name));
    Ok(Pricing {
        prompt: required("prompt")?,
        completion: required("completion")?,
        input_cache_read: optional("input_cache_read")?,
        input_cache_write: optional("input_cache_write")?,
        internal_reasoning: optional("internal_reasoning")?,
        ..before.cloned().unwrap_or_default()
    })
}

/// The price of one token from that of a million.
fn per_token(name: &str, text: &str) -> Result<Price, ApiError> {
    let amount = text.parse::<Price>().ok().map(|amount| amount.femto());
    let price =
        amount.filter(|femto| *femto >= 0 && femto % MILLION == 0).map(|femto| Price::from_femto(femto / MILLION));
    price.ok_or_else(|| {
        ApiError::bad_query(name, "It must be an amount such as 0.15, with up to 9 digits after the point.")
    })
}

fn per_million(price: Price) -> String {
    (price * 1_000_000).to_string()
}

/// The prices as an entry of the configuration.
fn lines(pricing: &Pricing, place: &Place, today: &str) -> String {
    let mut tokens = with_tiers(pricing);
    tokens.insert("date".to_owned(), today.into());
    let services = pricing.service_tiers.iter();
    let services: Table = services.map(|tier| (tier.name.to_string(), with_tiers(&tier.pricing).into())).collect();
    let factor = |per_mille: u64| Price::from_femto(i128::from(per_mille) * 1_000_000_000_000).to_string();
    let geographies = pricing.geographies.iter();
    let geographies: Table =
        geographies.map(|geography| (geography.name.to_string(), factor(geography.per_mille).into())).collect();
    let each = [("request", pricing.request), ("image", pricing.image), ("web_search", pricing.web_search)];
    let each = each.into_iter().filter(|(_, price)| !price.is_zero());
    let each: Table = each.map(|(name, price)| (name.to_owned(), price.to_string().into())).collect();
    for (name, table) in [("service_tiers", services), ("inference_geo", geographies)] {
        if !table.is_empty() {
            tokens.insert(name.to_owned(), table.into());
        }
    }
    let mut endpoint = Table::from_iter([
        ("provider".to_owned(), Value::from(&*place.provider)),
        ("usd_per_million".to_owned(), tokens.into()),
    ]);
    if !place.variant.is_empty() {
        endpoint.insert("variant".to_owned(), Value::from(&*place.variant));
    }
    if !each.is_empty() {
        endpoint.insert("usd_each".to_owned(), each.into());
    }
    let model = Table::from_iter([
        ("id".to_owned(), Value::from(&*place.model)),
        ("endpoints".to_owned(), Value::Array(vec![endpoint.into()])),
    ]);
    toml::to_string(&Table::from_iter([("models".to_owned(), Value::Array(vec![model.into()]))])).unwrap_or_default()
}

/// The prices of tokens with those of longer prompts.
fn with_tiers(pricing: &Pricing) -> Table {
    let mut tokens = of_tokens(pricing);
    let tier = |above: u64, prices: &Pricing| {
        let mut tier = of_tokens(prices);
        tier.insert("above_prompt_tokens".to_owned(), i64::try_from(above).unwrap_or(i64::MAX).into());
        Value::Table(tier)
    };
    let tiers = pricing.tiers.iter();
    let tiers: Vec<Value> = tiers.map(|it| tier(it.above_prompt_tokens, &it.pricing(pricing))).collect();
    if !tiers.is_empty() {
        tokens.insert("tiers".to_owned(), tiers.into());
    }
    tokens
}

fn of_tokens(pricing: &Pricing) -> Table {
    let optional = [
        ("internal_reasoning", pricing.internal_reasoning),
        ("input_cache_read", pricing.input_cache_read),
        ("input_cache_write", pricing.input_cache_write),
        ("input_cache_write_1h", pricing.input_cache_write_1h),
        ("audio", pricing.audio),
        ("audio_output", pricing.audio_output),
    ];
    let set = optional.into_iter().filter_map(|(name, price)| Some((name, price?)));
    let all = [("prompt", pricing.prompt), ("completion", pricing.completion)].into_iter().chain(set.clone());
    let mut table: Table = all.map(|(name, price)| (name.to_owned(), per_million(price).into())).collect();
    // Without it a price of 0 of these means that it is not known.
    if set.clone().any(|(_, price)| price.is_zero()) {
        table.insert("explicit_zero".to_owned(), true.into());
    }
    table
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pointsman_config::{Config, Environment};

    use super::*;

    fn config(text: &str) -> Config {
        let faults = |faults| panic!("{text}: {faults:?}");
        Config::parse(text, "test", Path::new("."), &Environment::default()).unwrap_or_else(faults)
    }

    /// The order of services and geographies means nothing.
    fn sorted(pricing: &Pricing) -> Pricing {
        let mut pricing = pricing.clone();
        pricing.service_tiers.sort_by_key(|tier| tier.name.to_string());
        pricing.geographies.sort_by_key(|geography| geography.name.to_string());
        pricing
    }

    #[test]
    fn the_lines_of_every_endpoint_of_the_catalogue_give_it_its_prices_again() {
        let catalog = config("").catalog(1);
        for endpoint in &catalog.endpoints {
            let (model, provider) = (catalog.model_of(endpoint).unwrap(), catalog.provider_of(endpoint).unwrap());
            let place = Place {
                model: model.id.to_string(),
                provider: provider.slug.to_string(),
                variant: endpoint.variant.to_string(),
            };
            let Some(pricing) = endpoint.pricing.as_deref() else { continue };
            let text = lines(pricing, &place, "2026-11-28");
            let again = config(&text).catalog(1);
            let same = again.endpoints.iter().find(|other| other.id == endpoint.id).unwrap();
            assert_eq!(sorted(same.pricing.as_deref().unwrap()), sorted(pricing), "{text}");
        }
    }

    #[test]
    fn what_was_entered_replaces_its_price_and_keeps_the_others() {
        let before = Pricing { audio: "0.001".parse().ok(), ..Pricing::default() };
        let entered = |query: &str| changed(Some(&before), &Entered::of_query(query));
        let after = entered("prompt=0.15&completion=0.6&input_cache_read=0").unwrap();
        assert_eq!(
            (after.prompt.to_string(), per_million(after.completion)),
            ("0.00000015".to_owned(), "0.6".to_owned())
        );
        assert_eq!(
            (after.input_cache_read, after.input_cache_write, after.audio),
            (Some(Price::ZERO), None, before.audio)
        );
        let place = Place { model: "a/b".to_owned(), provider: "acme".to_owned(), variant: String::new() };
        let text = lines(&after, &place, "2026-11-28");
        assert!(text.contains("[models.endpoints.usd_per_million]") && text.contains("explicit_zero = true"), "{text}");
        for wrong in [
            "prompt=-1&completion=1",
            "prompt=1&completion=",
            "prompt=1&completion=0.0000000001",
            "prompt=x&completion=1",
        ] {
            assert!(entered(wrong).is_err(), "{wrong}");
        }
    }
}
