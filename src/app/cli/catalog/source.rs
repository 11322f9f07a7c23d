//! Where prices are read from: a file, an address, or one of three lists by name. Their forms are told apart by shape.
//!
//! Prices are read from the digits of the text, never as floats.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use chrono::{DateTime, NaiveDate, Utc};
use pointsman_config::TokenClass;
use pointsman_domain::Price;
use pointsman_transport::{Connection, client_config, read_page};
use serde_json::value::RawValue;

use super::super::{CommandOutput, EXIT_UNREACHABLE, failure};

/// The lists that have names, and where they are.
const NAMED: [(&str, &str); 3] = [
    ("openrouter", "https://openrouter.ai/api/v1/models"),
    ("models.dev", "https://models.dev/api.json"),
    ("litellm", "https://raw.githubusercontent.com/BerriAI/litellm/main/model_prices_and_context_window.json"),
];
/// Timeout of a list.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Servers on one's own machine, which have no price list.
pub(super) const LOCAL: [&str; 3] = ["ollama", "vllm", "llama-cpp"];
/// Names of providers in the lists that differ from those of the built-in catalogue.
const RENAMED: [(&str, &str); 8] = [
    ("gemini", "google"),
    ("together_ai", "together"),
    ("togetherai", "together"),
    ("fireworks_ai", "fireworks"),
    ("fireworks-ai", "fireworks"),
    ("bedrock_converse", "bedrock"),
    ("amazon-bedrock", "bedrock"),
    ("google-vertex", "vertex"),
];

/// A price list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    /// As the configuration names it.
    pub(super) name: &'static str,
    /// Day of the file, or of the call.
    pub(super) day: NaiveDate,
    /// Providers with at least one model.
    pub(super) providers: BTreeSet<String>,
    /// By provider and the provider's own name of the model.
    pub(super) offers: BTreeMap<(String, String), Offer>,
}

/// What a list says about a model at a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Offer {
    /// Dollars per token. An optional price of 0 is none: lists write it where they know nothing.
    pub(super) prices: BTreeMap<TokenClass, Price>,
    /// The same of longer prompts, by the length above which they hold.
    pub(super) tiers: Tiers,
    pub(super) context: Option<u32>,
    pub(super) longest_answer: Option<u32>,
    pub(super) retirement: Option<Retirement>,
}

/// Prices by length of the prompt.
pub(super) type Tiers = BTreeMap<u64, BTreeMap<TokenClass, Price>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retirement {
    On(NaiveDate),
    /// It is announced without a day.
    Announced,
}

/// Reads a list.
pub(super) fn read(from: &str, today: NaiveDate) -> Result<Source, CommandOutput> {
    let named = NAMED.iter().find(|(name, _)| *name == from).map(|(_, address)| *address);
    let address =
        named.or_else(|| Some(from).filter(|from| from.starts_with("http://") || from.starts_with("https://")));
    let (text, day) = match address {
        Some(address) => (fetch(address)?, today),
        None => {
            let unreadable = |error| failure(format!("pointsman: {from} cannot be read: {error}\n"));
            let changed = fs::metadata(from).and_then(|file| file.modified()).map_err(unreadable)?;
            (fs::read_to_string(from).map_err(unreadable)?, DateTime::<Utc>::from(changed).date_naive())
        }
    };
    parse(&text, day).ok_or_else(|| {
        failure(format!(
            "pointsman: {from} is no price list; known are the JSON of OpenRouter's /models, of models.dev's api.json and of \
             LiteLLM's model_prices_and_context_window.json\n"
        ))
    })
}

fn fetch(address: &str) -> Result<String, CommandOutput> {
    let unreachable = |why: String| CommandOutput {
        text: format!("pointsman: {address}: {why}; a saved copy can be named instead: --from FILE\n"),
        code: EXIT_UNREACHABLE,
    };
    let connection = Connection::new(address).map_err(|fault| failure(format!("pointsman: --from {fault}\n")))?;
    let tls = client_config(None).map_err(|fault| failure(format!("pointsman: {fault}\n")))?;
    let called = actix_web::rt::System::new().block_on(read_page(&connection, &tls, "", TIMEOUT));
    match called.map_err(|error| unreachable(error.to_string()))? {
        (200, body) => Ok(String::from_utf8_lossy(&body).into_owned()),
        (status, _) => Err(unreachable(format!("answers {status}"))),
    }
}

/// Members of an object, not yet read.
type Members = BTreeMap<String, Box<RawValue>>;

fn parse(text: &str, day: NaiveDate) -> Option<Source> {
    let root = members(text)?;
    let wrapped = root.get("providers").and_then(|providers| members(providers.get()));
    let (name, offers) = if let Some(data) = root.get("data") {
        ("OpenRouter's model list", openrouter(data)?)
    } else if let Some(offers) = models_dev(wrapped.as_ref().unwrap_or(&root)) {
        ("models.dev", offers)
    } else {
        ("LiteLLM's price map", litellm(&root)?)
    };
    let offers: BTreeMap<_, _> =
        offers.into_iter().filter(|((provider, _), _)| !LOCAL.contains(&provider.as_str())).collect();
    Some(Source { name, day, providers: offers.keys().map(|(provider, _)| provider.clone()).collect(), offers })
}

type Offers = BTreeMap<(String, String), Offer>;

/// `{"data": [{"id", "pricing": {…}, "context_length", "top_provider", "expiration_date"}]}`, in dollars per token.
fn openrouter(data: &RawValue) -> Option<Offers> {
    const PRICES: [(TokenClass, &str); 6] = [
        (TokenClass::Prompt, "prompt"),
        (TokenClass::Completion, "completion"),
        (TokenClass::Reasoning, "internal_reasoning"),
        (TokenClass::CacheRead, "input_cache_read"),
        (TokenClass::CacheWrite, "input_cache_write"),
        (TokenClass::Audio, "audio"),
    ];
    let models: Vec<Members> = serde_json::from_str(data.get()).ok()?;
    let mut offers = Offers::new();
    for model in &models {
        let (Some(id), Some(pricing)) = (text(model, "id"), below(model, "pricing")) else { continue };
        let provider = below(model, "top_provider").unwrap_or_default();
        let offer = Offer {
            prices: prices(&pricing, &PRICES, 0),
            context: tokens(model, "context_length"),
            longest_answer: tokens(&provider, "max_completion_tokens"),
            retirement: day(model, "expiration_date"),
            ..Offer::default()
        };
        offers.insert(("openrouter".to_owned(), id), offer);
    }
    (!offers.is_empty()).then_some(offers)
}

/// `{provider: {"models": {name: {"cost": {…}, "limit": {…}, "status"}}}}`, in dollars per million tokens.
fn models_dev(providers: &Members) -> Option<Offers> {
    const PRICES: [(TokenClass, &str); 7] = [
        (TokenClass::Prompt, "input"),
        (TokenClass::Completion, "output"),
        (TokenClass::Reasoning, "reasoning"),
        (TokenClass::CacheRead, "cache_read"),
        (TokenClass::CacheWrite, "cache_write"),
        (TokenClass::Audio, "input_audio"),
        (TokenClass::AudioOutput, "output_audio"),
    ];
    let mut offers = Offers::new();
    for (provider, entry) in providers {
        let Some(models) = members(entry.get()).and_then(|entry| below(&entry, "models")) else { continue };
        for (name, model) in models {
            let Some(model) = members(model.get()) else { continue };
            let limit = below(&model, "limit").unwrap_or_default();
            let is_deprecated = text(&model, "status").as_deref() == Some("deprecated");
            let cost = below(&model, "cost").unwrap_or_default();
            let tier = |name: &String| {
                let above = thousands(name.strip_prefix("context_over_")?, "k")?;
                Some((above, prices(&below(&cost, name)?, &PRICES, -6)))
            };
            let offer = Offer {
                prices: prices(&cost, &PRICES, -6),
                tiers: cost.keys().filter_map(tier).collect(),
                context: tokens(&limit, "context"),
                longest_answer: tokens(&limit, "output"),
                retirement: is_deprecated.then_some(Retirement::Announced),
            };
            offers.insert((renamed(provider), name), offer);
        }
    }
    (!offers.is_empty()).then_some(offers)
}

/// `{name: {"litellm_provider", "input_cost_per_token", "max_input_tokens", "deprecation_date", …}}`, in dollars per token.
fn litellm(entries: &Members) -> Option<Offers> {
    const PRICES: [(TokenClass, &str); 8] = [
        (TokenClass::Prompt, "input_cost_per_token"),
        (TokenClass::Completion, "output_cost_per_token"),
        (TokenClass::Reasoning, "output_cost_per_reasoning_token"),
        (TokenClass::CacheRead, "cache_read_input_token_cost"),
        (TokenClass::CacheWrite, "cache_creation_input_token_cost"),
        (TokenClass::CacheWriteHour, "cache_creation_input_token_cost_above_1hr"),
        (TokenClass::Audio, "input_cost_per_audio_token"),
        (TokenClass::AudioOutput, "output_cost_per_audio_token"),
    ];
    let mut offers = Offers::new();
    for (name, entry) in entries.iter().filter(|(name, _)| *name != "sample_spec") {
        let Some(entry) = members(entry.get()) else { continue };
        let Some(provider) = text(&entry, "litellm_provider") else { continue };
        let offer = Offer {
            prices: prices(&entry, &PRICES, 0),
            tiers: named_tiers(&entry, &PRICES),
            context: tokens(&entry, "max_input_tokens"),
            longest_answer: tokens(&entry, "max_output_tokens"),
            retirement: day(&entry, "deprecation_date"),
        };
        let own_name = name.strip_prefix(&provider).and_then(|name| name.strip_prefix('/'));
        let key = (renamed(&provider), own_name.unwrap_or(name).to_owned());
        // Some models are listed twice. The name with the provider says which one is meant.
        if own_name.is_some() || !offers.contains_key(&key) {
            offers.insert(key, offer);
        }
    }
    (!offers.is_empty()).then_some(offers)
}

fn renamed(provider: &str) -> String {
    if provider.starts_with("vertex_ai") {
        return "vertex".to_owned();
    }
    RENAMED.iter().find(|(theirs, _)| *theirs == provider).map_or(provider, |(_, ours)| ours).to_owned()
}

fn members(json: &str) -> Option<Members> {
    serde_json::from_str(json).ok()
}

fn below(of: &Members, key: &str) -> Option<Members> {
    members(of.get(key)?.get())
}

fn text(of: &Members, key: &str) -> Option<String> {
    serde_json::from_str(of.get(key)?.get()).ok()
}

fn tokens(of: &Members, key: &str) -> Option<u32> {
    of.get(key)?.get().trim_matches('"').parse().ok().filter(|tokens| *tokens > 0)
}

fn day(of: &Members, key: &str) -> Option<Retirement> {
    text(of, key)?.get(..10)?.parse().ok().map(Retirement::On)
}

/// The prices under these keys, times a power of ten.
fn prices(of: &Members, keys: &[(TokenClass, &str)], power: i32) -> BTreeMap<TokenClass, Price> {
    let read = |(class, key): &(TokenClass, &str)| {
        let price = dollars(of.get(*key)?.get().trim_matches('"'), power)?;
        (class.is_required() || !price.is_zero()).then_some((*class, price))
    };
    keys.iter().filter_map(read).collect()
}

/// Prices whose key names the length: `input_cost_per_token_above_200k_tokens`.
fn named_tiers(of: &Members, keys: &[(TokenClass, &str)]) -> Tiers {
    let mut tiers = Tiers::new();
    for (name, value) in of {
        let Some((key, length)) = name.rsplit_once("_above_") else { continue };
        let class = keys.iter().find(|(_, known)| *known == key).map(|(class, _)| *class);
        let price = dollars(value.get().trim_matches('"'), 0);
        if let Some(((class, price), above)) = class.zip(price).zip(thousands(length, "k_tokens"))
            && (class.is_required() || !price.is_zero())
        {
            tiers.entry(above).or_default().insert(class, price);
        }
    }
    tiers
}

/// `200k` as tokens.
fn thousands(text: &str, end: &str) -> Option<u64> {
    text.strip_suffix(end)?.parse::<u64>().ok()?.checked_mul(1_000)
}

/// An amount as others write it, exponents included, times a power of ten. A negative one stands for "varies".
pub(in crate::app::cli) fn dollars(text: &str, power: i32) -> Option<Price> {
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent = exponent.parse::<i32>().ok()?.checked_add(power)?;
    Price::from_number(&format!("{digits}e{exponent}")).filter(|price| *price >= Price::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Option<Source> {
        parse(text, NaiveDate::from_ymd_opt(2026, 11, 24).unwrap())
    }

    fn shown(source: &Source) -> String {
        let show = |((provider, model), offer): (&(String, String), &Offer)| {
            let prices: Vec<_> =
                offer.prices.iter().map(|(class, price)| format!("{} {price}", class.as_str())).collect();
            let Offer { context, longest_answer, retirement, tiers, .. } = offer;
            let tiers: String = tiers
                .iter()
                .flat_map(|(above, prices)| prices.iter().map(move |(class, price)| (above, class.as_str(), price)))
                .map(|(above, class, price)| format!("; above {above} {class} {price}"))
                .collect();
            format!("{provider} {model}: {}; {context:?} {longest_answer:?} {retirement:?}{tiers}\n", prices.join(", "))
        };
        source.offers.iter().map(show).collect()
    }

    #[test]
    fn the_three_lists_are_told_apart_and_read() {
        let router = r#"{"data": [
            {"id": "openai/one", "context_length": 1000, "pricing": {"prompt": "0.0000025", "completion": "0.00001", "input_cache_read": "0", "image": "0.1"},
             "top_provider": {"max_completion_tokens": 50}, "expiration_date": "2027-01-31"},
            {"id": "openrouter/auto", "pricing": {"prompt": "-1", "completion": "-1"}}]}"#;
        let dev = r#"{"togetherai": {"id": "togetherai", "models": {"Qwen/q": {"id": "Qwen/q", "status": "deprecated",
            "cost": {"input": 0.15, "output": 1.2, "cache_read": 0.075, "context_over_200k": {"input": 0.3, "output": 2.4}}, "limit": {"context": 1000, "output": 50}}}},
            "ollama": {"models": {"x": {}}}}"#;
        let litellm = r#"{"sample_spec": {"litellm_provider": "one of …", "max_input_tokens": "LEGACY"},
            "gpt": {"litellm_provider": "openai", "input_cost_per_token": 3e-07, "output_cost_per_token": 1.2E-06, "max_input_tokens": 1000,
                    "input_cost_per_token_above_272k_tokens": 6e-07, "cache_creation_input_token_cost_above_1hr": 1e-06,
                    "deprecation_date": "2027-01-31"},
            "gemini/g": {"litellm_provider": "gemini", "input_cost_per_token": 1.5000000000000002e-07, "max_output_tokens": "50"},
            "g": {"litellm_provider": "gemini", "input_cost_per_token": 9}}"#;
        let (router, dev, litellm) = (source(router).unwrap(), source(dev).unwrap(), source(litellm).unwrap());
        assert_eq!(
            (router.name, dev.name, litellm.name),
            ("OpenRouter's model list", "models.dev", "LiteLLM's price map")
        );
        expect_test::expect![[r#"
            openrouter openai/one: prompt 0.0000025, completion 0.00001; Some(1000) Some(50) Some(On(2027-01-31))
            openrouter openrouter/auto: ; None None None
        "#]]
        .assert_eq(&shown(&router));
        expect_test::expect![[r#"
            together Qwen/q: prompt 0.00000015, completion 0.0000012, input_cache_read 0.000000075; Some(1000) Some(50) Some(Announced); above 200000 prompt 0.0000003; above 200000 completion 0.0000024
        "#]]
        .assert_eq(&shown(&dev));
        expect_test::expect![[r#"
            google g: prompt 0.00000015; None Some(50) None
            openai gpt: prompt 0.0000003, completion 0.0000012, input_cache_write_1h 0.000001; Some(1000) None Some(On(2027-01-31)); above 272000 prompt 0.0000006
        "#]]
        .assert_eq(&shown(&litellm));
        for other in ["", "[]", "{}", r#"{"data": []}"#, r#"{"data": [{"id": "a"}]}"#, r#"{"a": {"b": 1}}"#] {
            assert_eq!(source(other), None, "{other}");
        }
    }

    #[test]
    fn prices_survive_as_exact_decimals_however_they_are_written() {
        for index in 1..=1_000_i128 {
            // Up to nine digits after the point of a price per million.
            let femto = index * 7_919 * 104_729 % 1_000_000_000_000;
            let price = Price::from_femto(femto);
            assert_eq!(dollars(&price.to_string(), 0), Some(price));
            assert_eq!(dollars(&format!("{femto}e-15"), 0), Some(price));
            assert_eq!(dollars(&format!("{}.{:03}E-12", femto / 1_000, femto % 1_000), 0), Some(price));
            assert_eq!(dollars(&price.times(1_000_000).to_string(), -6), Some(price));
        }
        assert_eq!(dollars("3e-07", 0), "0.0000003".parse().ok());
        assert_eq!((dollars("-1", 0), dollars("null", 0), dollars("1e99999999999", -6)), (None, None, None));
    }
}
