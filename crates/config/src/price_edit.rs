//! Writes the token prices of one endpoint into a configuration. Everything else stays byte for byte.
//!
//! Which of several entries an endpoint takes its prices from is decided by reading, not here: [`candidates`] returns the
//! texts that may be right, the smallest change first, and the caller reads each until the prices are those it wants.

use std::ops::Range;

use chrono::NaiveDate;
use pointsman_domain::{GeographyPrice, PriceTier, Pricing, ServiceTierPrices, Usd};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    TokenClass,
    prices::{day_of, per_token},
    toml_value::quoted,
};

/// Tokens that `usd_per_million` is for.
const MILLION: u64 = 1_000_000;

/// The prices of an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct PriceEdit {
    /// Id of the model.
    pub model: String,
    /// Name of the provider.
    pub provider: String,
    /// Variant of the endpoint, or nothing.
    pub variant: String,
    /// Provider and variant of the endpoints before it, whose order decides between equals.
    pub earlier: Vec<(String, String)>,
    /// All its prices. Those per request, image and search are left as they are.
    pub pricing: Pricing,
    /// Where the prices come from.
    pub source: String,
    /// When they were read.
    pub date: NaiveDate,
}

type Item<'a> = Spanned<DeValue<'a>>;

/// The text with these prices, in each of the ways it can be done. Some of them may have no effect, or be no TOML.
#[must_use]
pub fn candidates(text: &str, edit: &PriceEdit) -> Vec<String> {
    let Ok(root) = DeTable::parse(text) else { return Vec::new() };
    let Some(place) = Place::find(root.get_ref(), edit) else {
        let earlier: String =
            edit.earlier.iter().map(|(provider, variant)| named_endpoint(provider, variant)).collect();
        let model = format!("[[models]]\nid = {}\n{earlier}{}", quoted(&edit.model), endpoint(edit));
        return vec![appended(text, &model)];
    };
    let Some(own) = place.endpoint else { return vec![appended(text, &endpoint(edit))] };
    if let Some(changes) = in_place(text, own, edit) {
        return with(text, changes).into_iter().collect();
    }
    let above = if place.is_alone { in_place(text, place.model, edit) } else { None };
    [above, inserted(text, own, edit)].into_iter().flatten().filter_map(|changes| with(text, changes)).collect()
}

/// The text with a new source and date at the prices of the endpoint; `None` if they have none, or none that is older.
#[must_use]
pub fn redated(text: &str, edit: &PriceEdit) -> Option<String> {
    let root = DeTable::parse(text).ok()?;
    let place = Place::find(root.get_ref(), edit)?;
    let own = place.endpoint?;
    let entry = if sets_prices(own) { own } else { Some(place.model).filter(|_| place.is_alone)? };
    let prices = table(entry.get("usd_per_million")?)?;
    let date = text_of(prices, "date").and_then(day_of)?;
    if date < edit.date { with(text, in_place(text, entry, edit)?) } else { None }
}

/// Where the file speaks of an endpoint.
struct Place<'t, 'a> {
    model: &'t DeTable<'a>,
    endpoint: Option<&'t DeTable<'a>>,
    /// Whether no other endpoint of the file takes its prices from the model.
    is_alone: bool,
}

impl<'t, 'a> Place<'t, 'a> {
    fn find(root: &'t DeTable<'a>, edit: &PriceEdit) -> Option<Place<'t, 'a>> {
        let is_meant = |endpoint: &&DeTable<'_>| {
            let variant = text_of(endpoint, "variant").unwrap_or_default();
            is(endpoint, "provider", &edit.provider) && variant == edit.variant
        };
        let model = list(root, "models").iter().filter_map(table).find(|model| is(model, "id", &edit.model))?;
        let endpoints = || list(model, "endpoints").iter().filter_map(table);
        let is_alone = endpoints().filter(|endpoint| !sets_prices(endpoint)).count() == 1;
        Some(Place { model, endpoint: endpoints().find(is_meant), is_alone })
    }
}

fn sets_prices(entry: &DeTable<'_>) -> bool {
    PRICES.iter().any(|key| entry.get(*key).is_some())
}

/// The keys with prices of tokens.
const PRICES: [&str; 2] = ["usd_per_million", "pricing"];

/// A change: what to put in place of a part of the text.
type Change = (Range<usize>, String);

/// The text with these changes, which do not overlap.
fn with(text: &str, mut changes: Vec<Change>) -> Option<String> {
    changes.sort_by_key(|(range, _)| range.start);
    let (mut done, mut written) = (0, String::new());
    for (range, new) in changes {
        written.push_str(text.get(done..range.start)?);
        written.push_str(&new);
        done = range.end;
    }
    written.push_str(text.get(done..)?);
    Some(written)
}

fn appended(text: &str, entry: &str) -> String {
    let gap = match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    [text, gap, entry].concat()
}

/// An entry of its own for the endpoint.
fn endpoint(edit: &PriceEdit) -> String {
    format!("{}{}\n", named_endpoint(&edit.provider, &edit.variant), line(edit))
}

/// An entry that says only which endpoint it is about.
fn named_endpoint(provider: &str, variant: &str) -> String {
    let variant = if variant.is_empty() { String::new() } else { format!("variant = {}\n", quoted(variant)) };
    format!("[[models.endpoints]]\nprovider = {}\n{variant}", quoted(provider))
}

/// All prices in one line.
fn line(edit: &PriceEdit) -> String {
    let pricing = &edit.pricing;
    let service =
        |tier: &ServiceTierPrices| format!("{} = {{ {} }}", quoted(tier.name.as_str()), with_tiers(&tier.pricing));
    let services: Vec<String> = pricing.service_tiers.iter().map(service).collect();
    let factor = |geography: &GeographyPrice| {
        let factor = Usd::from_femto(i128::from(geography.per_mille) * 1_000_000_000_000);
        format!("{} = {}", quoted(geography.name.as_str()), quoted(&factor.to_string()))
    };
    let geographies: Vec<String> = pricing.geographies.iter().map(factor).collect();
    let table = |name: &str, members: Vec<String>| match members.is_empty() {
        true => String::new(),
        false => format!("{name} = {{ {} }}, ", members.join(", ")),
    };
    let services = table("service_tiers", services) + &table("inference_geo", geographies);
    let provenance = format!("source = {}, date = {}", quoted(&edit.source), quoted(&edit.date.to_string()));
    format!("usd_per_million = {{ {}, {services}{provenance} }}", with_tiers(pricing))
}

/// The prices of tokens, with those of longer prompts, as members of a table.
fn with_tiers(pricing: &Pricing) -> String {
    let tier = |tier: &PriceTier| {
        let above = format!("above_prompt_tokens = {}", tier.above_prompt_tokens);
        format!("{{ {above}, {} }}", per_million(&tier.pricing(pricing)))
    };
    let tiers: Vec<String> = pricing.tiers.iter().map(tier).collect();
    let tiers = if tiers.is_empty() { String::new() } else { format!(", tiers = [{}]", tiers.join(", ")) };
    format!("{}{tiers}", per_million(pricing))
}

/// The prices of tokens as members of a table.
fn per_million(pricing: &Pricing) -> String {
    let optional_zero = |class: &TokenClass| !class.is_required() && class.of(pricing).is_some_and(|p| p.is_zero());
    let zero = TokenClass::ALL.iter().any(optional_zero).then(|| "explicit_zero = true".to_owned());
    let price = |class: TokenClass| {
        Some(format!("{} = {}", class.as_str(), quoted(&class.of(pricing)?.times(MILLION).to_string())))
    };
    TokenClass::ALL.into_iter().filter_map(price).chain(zero).collect::<Vec<_>>().join(", ")
}

/// The changes of the prices that `entry` sets itself; `None` if it sets none.
fn in_place(text: &str, entry: &DeTable<'_>, edit: &PriceEdit) -> Option<Vec<Change>> {
    let (key, value) = PRICES.iter().find_map(|key| entry.get_key_value(*key))?;
    let DeValue::Table(prices) = value.get_ref() else {
        // "unknown"
        return Some(vec![(key.span().start..value.span().end, line(edit))]);
    };
    let per_million = key.get_ref() == "usd_per_million";
    let mut wanted = Vec::new();
    for class in TokenClass::ALL {
        let Some(price) = class.of(&edit.pricing) else { continue };
        let unit = if per_million { price.times(MILLION) } else { price };
        let old = text_of(prices, class.as_str());
        let old = old.map(|old| if per_million { per_token(old) } else { old.to_owned() });
        // "2.50" is not written anew as "2.5".
        if old.and_then(|old| old.parse().ok()) != Some(price) {
            wanted.push((class.as_str(), unit.to_string()));
        }
    }
    if per_million {
        wanted.push(("source", edit.source.clone()));
        wanted.push(("date", edit.date.to_string()));
    }
    let last = prices.values().map(|value| value.span().end).max()?;
    let is_inline = text.get(value.span())?.starts_with('{');
    let end_of_line = || text.get(last..).and_then(|rest| rest.find('\n')).map_or(text.len(), |end| last + end);
    let change = |(key, value): (&str, String)| match prices.get(key) {
        Some(old) => (old.span(), quoted(&value)),
        None if is_inline => (last..last, format!(", {key} = {}", quoted(&value))),
        None => (end_of_line()..end_of_line(), format!("\n{key} = {}", quoted(&value))),
    };
    Some(wanted.into_iter().map(change).collect())
}

/// A line with the prices above the provider's name.
fn inserted(text: &str, endpoint: &DeTable<'_>, edit: &PriceEdit) -> Option<Vec<Change>> {
    let (key, _) = endpoint.get_key_value("provider")?;
    let start = key.span().start;
    let indent = text.get(..start)?.rsplit('\n').next()?;
    let is_own_line = indent.trim().is_empty();
    let gap = if is_own_line { format!("\n{indent}") } else { ", ".to_owned() };
    Some(vec![(start..start, line(edit) + &gap)])
}

fn list<'t, 'a>(table: &'t DeTable<'a>, key: &str) -> &'t [Item<'a>] {
    match table.get(key).map(Spanned::get_ref) {
        Some(DeValue::Array(items)) => items,
        _ => &[],
    }
}

fn table<'t, 'a>(item: &'t Item<'a>) -> Option<&'t DeTable<'a>> {
    match item.get_ref() {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

fn text_of<'t>(table: &'t DeTable<'_>, key: &str) -> Option<&'t str> {
    table.get(key)?.get_ref().as_str()
}

fn is(table: &DeTable<'_>, key: &str, text: &str) -> bool {
    text_of(table, key) == Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(prices: &[(TokenClass, &str)]) -> PriceEdit {
        let mut pricing = Pricing::default();
        prices.iter().for_each(|(class, price)| class.set(&mut pricing, per_token(price).parse().unwrap()));
        let (model, provider) = ("a/b".to_owned(), "p".to_owned());
        let date = NaiveDate::from_ymd_opt(2026, 11, 24).unwrap();
        PriceEdit {
            model,
            provider,
            variant: String::new(),
            earlier: Vec::new(),
            pricing,
            source: "list".to_owned(),
            date,
        }
    }

    const NEW: [(TokenClass, &str); 3] =
        [(TokenClass::Prompt, "2.5"), (TokenClass::Completion, "10"), (TokenClass::CacheRead, "0.25")];

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let written = candidates(text, &edit(&NEW));
        assert_eq!(written, expected);
        for text in written {
            let again = candidates(&text, &edit(&NEW));
            assert_eq!(again.first(), Some(&text), "a second time changes nothing");
        }
    }

    #[test]
    fn prices_are_changed_where_they_stand() {
        check(
            "[[models]] # m\nid = \"a/b\"\n[[models.endpoints]]\nprovider='p'\nusd_per_million = {prompt=\"2.50\",  completion = \"9\", source=\"x\"} # y\n",
            &[
                "[[models]] # m\nid = \"a/b\"\n[[models.endpoints]]\nprovider='p'\nusd_per_million = {prompt=\"2.50\",  completion = \"10\", source=\"list\", input_cache_read = \"0.25\", date = \"2026-11-24\"} # y\n",
            ],
        );
        check(
            "[[models]]\nid = \"a/b\"\nendpoints = [{ provider = \"q\" }, { provider = \"p\", pricing = { prompt = \"1\", completion = \"2\" } }]",
            &[
                "[[models]]\nid = \"a/b\"\nendpoints = [{ provider = \"q\" }, { provider = \"p\", pricing = { prompt = \"0.0000025\", completion = \"0.00001\", input_cache_read = \"0.00000025\" } }]",
            ],
        );
        check(
            "[[models]]\nid = \"a/b\"\n[[models.endpoints]]\nprovider = \"p\"\n[models.endpoints.usd_per_million]\nprompt = \"1\"\ncompletion = \"2\" # two\n\n[log]\n",
            &[
                "[[models]]\nid = \"a/b\"\n[[models.endpoints]]\nprovider = \"p\"\n[models.endpoints.usd_per_million]\nprompt = \"2.5\"\ncompletion = \"10\" # two\ninput_cache_read = \"0.25\"\nsource = \"list\"\ndate = \"2026-11-24\"\n\n[log]\n",
            ],
        );
    }

    #[test]
    fn an_unknown_price_becomes_a_known_one() {
        check(
            "[[models]]\nid = \"a/b\"\n[[models.endpoints]]\nprovider = \"p\"\npricing = \"unknown\" # yet\n",
            &[
                "[[models]]\nid = \"a/b\"\n[[models.endpoints]]\nprovider = \"p\"\nusd_per_million = { prompt = \"2.5\", completion = \"10\", input_cache_read = \"0.25\", source = \"list\", date = \"2026-11-24\" } # yet\n",
            ],
        );
    }

    #[test]
    fn prices_of_the_model_are_changed_if_they_hold_for_this_endpoint_alone() {
        let price = "usd_per_million = { prompt = \"2.5\", completion = \"10\", input_cache_read = \"0.25\", source = \"list\", date = \"2026-11-24\" }";
        let text = "[[models]]\nid = \"a/b\"\nusd_per_million = { prompt = \"1\", completion = \"2\" }\n[[models.endpoints]]\n  provider = \"p\"\n";
        assert_eq!(
            candidates(text, &edit(&NEW)),
            [
                text.replace("usd_per_million = { prompt = \"1\", completion = \"2\" }", price),
                text.replace("  provider", &format!("  {price}\n  provider")),
            ]
        );
        let two = format!("{text}[[models.endpoints]]\nprovider = \"q\"\n");
        assert_eq!(candidates(&two, &edit(&NEW)), [two.replace("  provider", &format!("  {price}\n  provider"))]);
    }

    #[test]
    fn a_price_that_is_as_it_was_gets_a_newer_date_only() {
        let text = |source, date| {
            format!(
                "[[models]]\nid = \"a/b\"\n[[models.endpoints]]\nprovider = \"p\"\nusd_per_million = {{ prompt = \"2.50\", completion = \"10\", input_cache_read = \"0.25\", source = \"{source}\", date = \"{date}\" }}\n"
            )
        };
        assert_eq!(redated(&text("hand", "2026-11"), &edit(&NEW)), Some(text("list", "2026-11-24")));
        assert_eq!(redated(&text("hand", "2026-11-24"), &edit(&NEW)), None);
        assert_eq!(redated("", &edit(&NEW)), None);
    }

    #[test]
    fn what_the_file_does_not_have_is_added_at_its_end() {
        let price = "usd_per_million = { prompt = \"2.5\", completion = \"10\", input_cache_read = \"0.25\", source = \"list\", date = \"2026-11-24\" }";
        let entry = format!("[[models.endpoints]]\nprovider = \"p\"\n{price}\n");
        assert_eq!(candidates("[log]", &edit(&NEW)), [format!("[log]\n\n[[models]]\nid = \"a/b\"\n{entry}")]);
        let second = PriceEdit { earlier: vec![("q".to_owned(), "x".to_owned())], ..edit(&NEW) };
        let first = "[[models.endpoints]]\nprovider = \"q\"\nvariant = \"x\"\n";
        assert_eq!(candidates("", &second), [format!("[[models]]\nid = \"a/b\"\n{first}{entry}")], "the order is kept");
        let other = "[[models]]\nid = \"a/b\"\n";
        assert_eq!(candidates(other, &edit(&NEW)), [format!("{other}\n{entry}")]);
        assert_eq!(candidates("[log", &edit(&NEW)), [""; 0]);
    }
}
