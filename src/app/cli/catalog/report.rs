//! The differences as text and as JSON.

use std::{collections::BTreeSet, fmt::Write as _};

use pointsman_domain::{Catalog, Price};
use serde_json::{Value, json};

use super::{
    compare::{Comparison, PriceChange, TierChange},
    source::{LOCAL, Source},
};
use crate::app::cli::columns::count;

/// Tokens that a shown price is for.
const MILLION: u64 = 1_000_000;
/// Most names of models that the text shows.
const MOST_NAMED: usize = 20;

pub(super) struct Report<'a> {
    /// Where the table was read from.
    from: &'a str,
    source: &'a Source,
    comparisons: &'a [Comparison],
    /// Providers of the configuration that the table does not have.
    uncovered: Vec<&'a str>,
    /// Models of the table that the configuration does not have: provider and name.
    new: Vec<&'a (String, String)>,
    /// Whether one provider was asked for, so that its new models are named.
    names_new: bool,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        from: &'a str,
        only: Option<&str>,
        source: &'a Source,
        catalog: &'a Catalog,
        comparisons: &'a [Comparison],
    ) -> Report<'a> {
        let wanted = |slug: &str| only.is_none_or(|only| only == slug);
        let used: BTreeSet<&str> = catalog
            .endpoints
            .iter()
            .filter(|endpoint| !endpoint.disabled)
            .filter_map(|endpoint| catalog.provider_of(endpoint))
            .filter(|provider| !provider.simulated && !LOCAL.contains(&provider.slug.as_str()))
            .map(|provider| provider.slug.as_str())
            .collect();
        let uncovered = used.iter().copied().filter(|slug| wanted(slug) && !source.providers.contains(*slug));
        let known: BTreeSet<(&str, &str)> =
            comparisons.iter().map(|one| (one.provider.as_str(), one.upstream_model.as_str())).collect();
        let is_new = |(provider, model): &&(String, String)| {
            used.contains(provider.as_str())
                && wanted(provider)
                && !known.contains(&(provider.as_str(), model.as_str()))
        };
        Report {
            from,
            source,
            comparisons,
            uncovered: uncovered.collect(),
            new: source.offers.keys().filter(is_new).collect(),
            names_new: only.is_some(),
        }
    }

    /// Whether anything differs.
    pub(super) fn is_finding(&self) -> bool {
        self.comparisons.iter().any(Comparison::differs)
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        for one in self.comparisons.iter().filter(|one| one.differs() && !one.is_unlisted) {
            let _ = writeln!(text, "{} ({})", one.name(), one.upstream_model);
            lines(&mut text, one);
            text.push('\n');
        }
        let unlisted: Vec<&Comparison> = self.comparisons.iter().filter(|one| one.is_unlisted).collect();
        if !unlisted.is_empty() {
            text.push_str("Not listed any more, or under another name:\n");
            unlisted.iter().for_each(|one| text.push_str(&format!("  {} ({})\n", one.name(), one.upstream_model)));
            text.push('\n');
        }
        let differing = self.comparisons.iter().filter(|one| one.differs()).count();
        let _ = writeln!(text, "Compared with LiteLLM's price table of {} ({}):", self.source.day, self.from);
        let _ = writeln!(text, "  {} compared, {differing} differ", count(self.comparisons.len(), "endpoint"));
        if !self.uncovered.is_empty() {
            let _ = writeln!(text, "  providers without prices there: {}", self.uncovered.join(", "));
        }
        if !self.new.is_empty() {
            let hint = if self.names_new { "" } else { "; --provider names them" };
            let _ = writeln!(text, "  {} more of these providers{hint}", count(self.new.len(), "model"));
        }
        if self.names_new {
            self.new
                .iter()
                .take(MOST_NAMED)
                .for_each(|(_, model)| text.push_str(&format!("    {}\n", printable(model))));
            if self.new.len() > MOST_NAMED {
                text.push_str("    …, and more with --json\n");
            }
        }
        text
    }

    pub(super) fn json(&self) -> String {
        let million = |price: &Price| price.times(MILLION).to_string();
        let price = |PriceChange { class, old, new }: &PriceChange| {
            json!({
                "key": class.as_str(),
                "old_usd_per_million": old.as_ref().map(million),
                "new_usd_per_million": million(new),
            })
        };
        let endpoint = |one: &Comparison| {
            let prices = one.prices.iter().map(price);
            let tiers = one.tiers.iter().map(|tier| {
                let PriceChange { class, old, new } = &tier.change;
                json!({
                    "above_prompt_tokens": tier.above,
                    "key": class.as_str(),
                    "old_usd_per_million": old.as_ref().map(million),
                    "new_usd_per_million": million(new),
                })
            });
            let pair = |limits: Option<(u32, u32)>| limits.map(|(old, new)| json!({ "old": old, "new": new }));
            json!({
                "model": one.model,
                "provider": one.provider,
                "variant": one.variant,
                "upstream_model": one.upstream_model,
                "listed": !one.is_unlisted,
                "prices": prices.collect::<Vec<Value>>(),
                "tiers": tiers.collect::<Vec<Value>>(),
                "context_length": pair(one.context),
                "max_completion_tokens": pair(one.longest_answer),
                "retirement": one.retirement.map(|day| day.to_string()),
            })
        };
        let differing = self.comparisons.iter().filter(|one| one.differs());
        let new = self.new.iter().map(|(provider, model)| json!({ "provider": provider, "model": model }));
        let page = json!({
            "differs": self.is_finding(),
            "source": { "from": self.from, "date": self.source.day.to_string() },
            "compared": self.comparisons.len(),
            "endpoints": differing.map(endpoint).collect::<Vec<_>>(),
            "not_listed_providers": self.uncovered,
            "new": new.collect::<Vec<_>>(),
        });
        format!("{page:#}\n")
    }
}

/// A line per difference of an endpoint.
fn lines(text: &mut String, one: &Comparison) {
    // Writing to a string cannot fail.
    let mut line = |name: &str, told: String| {
        let _ = writeln!(text, "  {name:<22} {told}");
    };
    for change in &one.prices {
        line(change.class.as_str(), price(change));
    }
    for TierChange { above, change } in &one.tiers {
        let told = format!("{} above {above} tokens", price(change));
        line(change.class.as_str(), told);
    }
    if let Some((old, new)) = one.context {
        line("context_length", format!("{old} -> {new} tokens"));
    }
    if let Some((old, new)) = one.longest_answer {
        line("max_completion_tokens", format!("{old} -> {new} tokens"));
    }
    if let Some(retirement) = one.retirement {
        line("expiration_date", retirement.to_string());
    }
}

fn price(PriceChange { old, new, .. }: &PriceChange) -> String {
    let new_price = new.times(MILLION);
    match old {
        None => format!("unknown -> {new_price} $/M"),
        Some(old) => format!("{} -> {new_price} $/M{}", old.times(MILLION), percent(*old, *new)),
    }
}

/// The change in percent, with one digit behind the point; nothing where there is none to tell.
fn percent(old: Price, new: Price) -> String {
    let (change, old) = ((new - old).femto(), old.femto());
    let tenths = change.unsigned_abs().checked_mul(1_000).and_then(|change| {
        let old = old.unsigned_abs();
        change.checked_add(old / 2)?.checked_div(old)
    });
    let sign = if change < 0 { '-' } else { '+' };
    tenths.map_or_else(String::new, |tenths| format!(" ({sign}{}.{} %)", tenths / 10, tenths % 10))
}

/// Without control characters, which could move the cursor of a terminal.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}
