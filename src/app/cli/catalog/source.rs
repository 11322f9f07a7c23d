//! LiteLLM's price table, from a file, an address, or where LiteLLM has it.
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

use super::super::{CommandOutput, EXIT_UNREACHABLE, refused};

/// The name of the table where LiteLLM has it, and that place.
const NAME: &str = "litellm";
const ADDRESS: &str = "https://raw.githubusercontent.com/BerriAI/litellm/main/model_prices_and_context_window.json";
/// Timeout of a list.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Servers on one's own machine, which have no price list.
pub(super) const LOCAL: [&str; 3] = ["ollama", "vllm", "llama-cpp"];
/// Names of providers in the table that differ from those of the built-in catalogue.
const RENAMED: [(&str, &str); 4] =
    [("gemini", "google"), ("together_ai", "together"), ("fireworks_ai", "fireworks"), ("bedrock_converse", "bedrock")];

/// A price table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    /// Day of the file, or of the call.
    pub(super) day: NaiveDate,
    /// Providers with at least one model.
    pub(super) providers: BTreeSet<String>,
    /// By provider and the provider's own name of the model.
    pub(super) offers: BTreeMap<(String, String), Offer>,
}

/// What the table says about a model at a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Offer {
    /// Dollars per token. An optional price of 0 is none: the table has it where nothing is known.
    pub(super) prices: BTreeMap<TokenClass, Price>,
    /// The same of longer prompts, by the length above which they hold.
    pub(super) tiers: Tiers,
    pub(super) context: Option<u32>,
    pub(super) longest_answer: Option<u32>,
    pub(super) retirement: Option<NaiveDate>,
}

/// Prices by length of the prompt.
pub(super) type Tiers = BTreeMap<u64, BTreeMap<TokenClass, Price>>;

/// Reads the table.
pub(super) fn read(from: &str, today: NaiveDate) -> Result<Source, CommandOutput> {
    let address = if from == NAME { ADDRESS } else { from };
    let address = Some(address).filter(|one| one.starts_with("http://") || one.starts_with("https://"));
    let (text, day) = match address {
        Some(address) => (fetch(address)?, today),
        None => {
            let unreadable = |error| refused(format!("{from} cannot be read: {error}"));
            let changed = fs::metadata(from).and_then(|file| file.modified()).map_err(unreadable)?;
            (fs::read_to_string(from).map_err(unreadable)?, DateTime::<Utc>::from(changed).date_naive())
        }
    };
    parse(&text, day).ok_or_else(|| {
        refused(format!("{from} is no price list; known is the JSON of LiteLLM's model_prices_and_context_window.json"))
    })
}

fn fetch(address: &str) -> Result<String, CommandOutput> {
    let unreachable = |why: String| CommandOutput {
        code: EXIT_UNREACHABLE,
        ..refused(format!("{address}: {why}; a saved copy can be named instead: --from FILE"))
    };
    let connection = Connection::new(address).map_err(|fault| refused(format!("--from {fault}")))?;
    let tls = client_config(None).map_err(refused)?;
    let called = actix_web::rt::System::new().block_on(read_page(&connection, &tls, "", TIMEOUT));
    match called.map_err(|error| unreachable(error.to_string()))? {
        (200, body) => Ok(String::from_utf8_lossy(&body).into_owned()),
        (status, _) => Err(unreachable(format!("answers {status}"))),
    }
}

/// Members of an object, not yet read.
type Members = BTreeMap<String, Box<RawValue>>;

type Offers = BTreeMap<(String, String), Offer>;

fn parse(text: &str, day: NaiveDate) -> Option<Source> {
    let mut offers = litellm(&members(text)?)?;
    offers.retain(|(provider, _), _| !LOCAL.contains(&provider.as_str()));
    Some(Source { day, providers: offers.keys().map(|(provider, _)| provider.clone()).collect(), offers })
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
            prices: prices(&entry, &PRICES),
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

fn text(of: &Members, key: &str) -> Option<String> {
    serde_json::from_str(of.get(key)?.get()).ok()
}

fn tokens(of: &Members, key: &str) -> Option<u32> {
    of.get(key)?.get().trim_matches('"').parse().ok().filter(|tokens| *tokens > 0)
}

fn day(of: &Members, key: &str) -> Option<NaiveDate> {
    text(of, key)?.get(..10)?.parse().ok()
}

/// The prices under these keys.
fn prices(of: &Members, keys: &[(TokenClass, &str)]) -> BTreeMap<TokenClass, Price> {
    let read = |(class, key): &(TokenClass, &str)| {
        let price = dollars(of.get(*key)?.get().trim_matches('"'))?;
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
        let price = dollars(value.get().trim_matches('"'));
        if let Some(((class, price), above)) = class.zip(price).zip(thousands(length))
            && (class.is_required() || !price.is_zero())
        {
            tiers.entry(above).or_default().insert(class, price);
        }
    }
    tiers
}

/// `200k_tokens` as their number.
fn thousands(text: &str) -> Option<u64> {
    text.strip_suffix("k_tokens")?.parse::<u64>().ok()?.checked_mul(1_000)
}

/// An amount as others write it, exponents included. A negative one stands for "varies".
pub(in crate::app::cli) fn dollars(text: &str) -> Option<Price> {
    Price::from_number(text).filter(|price| *price >= Price::ZERO)
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
    fn the_table_is_read_and_what_is_none_is_told() {
        let litellm = r#"{"sample_spec": {"litellm_provider": "one of …", "max_input_tokens": "LEGACY"},
            "gpt": {"litellm_provider": "openai", "input_cost_per_token": 3e-07, "output_cost_per_token": 1.2E-06, "max_input_tokens": 1000,
                    "input_cost_per_token_above_272k_tokens": 6e-07, "cache_creation_input_token_cost_above_1hr": 1e-06,
                    "deprecation_date": "2027-01-31"},
            "gemini/g": {"litellm_provider": "gemini", "input_cost_per_token": 1.5000000000000002e-07, "max_output_tokens": "50"},
            "g": {"litellm_provider": "gemini", "input_cost_per_token": 9}, "x": {"litellm_provider": "ollama"}}"#;
        expect_test::expect![[r#"
            google g: prompt 0.00000015; None Some(50) None
            openai gpt: prompt 0.0000003, completion 0.0000012, input_cache_write_1h 0.000001; Some(1000) None Some(2027-01-31); above 272000 prompt 0.0000006
        "#]]
        .assert_eq(&shown(&source(litellm).unwrap()));
        for other in ["", "[]", "{}", r#"{"data": [{"id": "a"}]}"#, r#"{"a": {"b": 1}}"#] {
            assert_eq!(source(other), None, "{other}");
        }
    }

    #[test]
    fn prices_survive_as_exact_decimals_however_they_are_written() {
        for index in 1..=1_000_i128 {
            // Up to nine digits after the point of a price per million.
            let femto = index * 7_919 * 104_729 % 1_000_000_000_000;
            let price = Price::from_femto(femto);
            assert_eq!(dollars(&price.to_string()), Some(price));
            assert_eq!(dollars(&format!("{femto}e-15")), Some(price));
            assert_eq!(dollars(&format!("{}.{:03}E-12", femto / 1_000, femto % 1_000)), Some(price));
        }
        assert_eq!(dollars("3e-07"), "0.0000003".parse().ok());
        assert_eq!((dollars("-1"), dollars("null"), dollars("1e99999999999")), (None, None, None));
    }
}
