//! The differences as text and as JSON.

use std::{collections::BTreeSet, fmt::Write as _, path::Path};

use pointsman_domain::{Catalog, Price};
use serde_json::{Value, json};

use super::{
    super::replaced_file::backup,
    Edited, ListArguments,
    compare::{Comparison, PriceChange, TierChange, WritePermission},
    source::{LOCAL, Retirement, Source},
};

/// Tokens that a shown price is for.
const MILLION: u64 = 1_000_000;
/// Most names of models that the text shows.
const MOST_NAMED: usize = 20;

pub(super) struct Report<'a> {
    sources: Vec<(String, &'a Source)>,
    comparisons: &'a [Comparison],
    /// Providers of the configuration that no list has.
    uncovered: Vec<String>,
    /// Models of a list that the configuration does not have: provider and name.
    new: Vec<&'a (String, String)>,
    /// Whether one provider was asked for, so that its new models are named.
    names_new: bool,
    edited: Option<(String, String, Edited)>,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        lists: &ListArguments,
        sources: &'a [Source],
        catalog: &'a Catalog,
        comparisons: &'a [Comparison],
    ) -> Report<'a> {
        let only = lists.provider.as_deref();
        let wanted = |slug: &str| only.is_none_or(|only| only == slug);
        let used: BTreeSet<&str> = catalog
            .endpoints
            .iter()
            .filter(|endpoint| !endpoint.disabled)
            .filter_map(|endpoint| catalog.provider_of(endpoint))
            .filter(|provider| !provider.simulated && !LOCAL.contains(&provider.slug.as_str()))
            .map(|provider| provider.slug.as_str())
            .collect();
        let is_covered = |slug: &str| sources.iter().any(|source| source.providers.contains(slug));
        let uncovered = used.iter().filter(|slug| wanted(slug) && !is_covered(slug)).map(|slug| (*slug).to_owned());
        let known: BTreeSet<(&str, &str)> =
            comparisons.iter().map(|one| (one.provider.as_str(), one.upstream_model.as_str())).collect();
        let listed: BTreeSet<&(String, String)> = sources.iter().flat_map(|source| source.offers.keys()).collect();
        let is_new = |(provider, model): &&(String, String)| {
            used.contains(provider.as_str())
                && wanted(provider)
                && !known.contains(&(provider.as_str(), model.as_str()))
        };
        Report {
            sources: lists.from.iter().cloned().zip(sources).collect(),
            comparisons,
            uncovered: uncovered.collect(),
            new: listed.into_iter().filter(is_new).collect(),
            names_new: only.is_some(),
            edited: None,
        }
    }

    /// Says what was written.
    pub(super) fn note(&mut self, path: &Path, edited: Edited) {
        self.edited = Some((path.display().to_string(), backup(path).display().to_string(), edited));
    }

    /// Whether anything differs still.
    pub(super) fn is_finding(&self) -> bool {
        let is_left = |(index, one): (usize, &Comparison)| {
            if !self.is_written(index) {
                return one.differs();
            }
            one.differs_beyond_prices()
        };
        self.comparisons.iter().enumerate().any(is_left)
    }

    fn is_written(&self, index: usize) -> bool {
        self.edited.as_ref().is_some_and(|(_, _, edited)| edited.written.contains(&index))
    }

    /// What becomes of the prices of an endpoint, if they differ.
    fn fate(&self, index: usize, one: &Comparison) -> Option<String> {
        let by_hand = self.edited.as_ref().is_some_and(|(_, _, edited)| edited.by_hand.contains(&index));
        Some(match &one.permission {
            WritePermission::Same => return None,
            WritePermission::Write if self.is_written(index) => "written".to_owned(),
            WritePermission::Write if by_hand => {
                "not written: the entry has an unusual form; write it by hand".to_owned()
            }
            WritePermission::Write => "would be written".to_owned(),
            WritePermission::Ask(why) => format!("not written: {why}; if it is right: --accept {}", one.name()),
            WritePermission::Refuse(why) => format!("not written: {why}"),
        })
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        for (index, one) in self.comparisons.iter().enumerate().filter(|(_, one)| one.differs() && !one.is_unlisted) {
            let _ = writeln!(text, "{} ({})", one.name(), one.upstream_model);
            lines(&mut text, one);
            if let Some(fate) = self.fate(index, one) {
                let _ = writeln!(text, "  {fate}");
            }
            text.push('\n');
        }
        let unlisted: Vec<&Comparison> = self.comparisons.iter().filter(|one| one.is_unlisted).collect();
        if !unlisted.is_empty() {
            text.push_str("Not listed any more, or under another name:\n");
            unlisted.iter().for_each(|one| text.push_str(&format!("  {} ({})\n", one.name(), one.upstream_model)));
            text.push('\n');
        }
        let lists: Vec<String> =
            self.sources.iter().map(|(from, source)| format!("{} of {} ({from})", source.name, source.day)).collect();
        let differing = self.comparisons.iter().filter(|one| one.differs()).count();
        let _ = writeln!(text, "Compared with {}:", lists.join(", "));
        let _ = writeln!(text, "  {} compared, {differing} differ", count(self.comparisons.len(), "endpoint"));
        if !self.uncovered.is_empty() {
            let _ = writeln!(text, "  providers without a list: {}", self.uncovered.join(", "));
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
        self.written(&mut text);
        text
    }

    fn written(&self, text: &mut String) {
        let told = match &self.edited {
            Some((file, backup, edited)) => match (edited.written.len(), edited.redated) {
                (0, 0) => format!("{file} is as it was\n"),
                (written, redated) => {
                    let dates = if redated > 0 { format!(", dates of {redated} more") } else { String::new() };
                    format!(
                        "Prices of {}{dates} written to {file}; the old file is {backup}\n",
                        count(written, "endpoint")
                    )
                }
            },
            None if self.comparisons.iter().any(|one| one.permission == WritePermission::Write) => {
                "'pointsman catalog update --write' writes prices into the configuration\n".to_owned()
            }
            None => return,
        };
        text.push_str(&told);
    }

    pub(super) fn json(&self) -> String {
        let sources = self
            .sources
            .iter()
            .map(|(from, source)| json!({ "from": from, "name": source.name, "date": source.day.to_string() }));
        let million = |price: &Price| price.times(MILLION).to_string();
        let price = |PriceChange { class, old, new }: &PriceChange| {
            json!({
                "key": class.as_str(),
                "old_usd_per_million": old.as_ref().map(million),
                "new_usd_per_million": million(new),
            })
        };
        let endpoint = |(index, one): (usize, &Comparison)| {
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
                "retirement": one.retirement.map(retires),
                "written": self.is_written(index),
                "detail": self.fate(index, one),
            })
        };
        let differing = self.comparisons.iter().enumerate().filter(|(_, one)| one.differs());
        let new = self.new.iter().map(|(provider, model)| json!({ "provider": provider, "model": model }));
        let page = json!({
            "differs": self.is_finding(),
            "sources": sources.collect::<Vec<_>>(),
            "compared": self.comparisons.len(),
            "endpoints": differing.map(endpoint).collect::<Vec<_>>(),
            "not_listed_providers": self.uncovered,
            "new": new.collect::<Vec<_>>(),
            "file": self.edited.as_ref().map(|(file, ..)| file),
            "redated": self.edited.as_ref().map(|(_, _, edited)| edited.redated),
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
        let told = format!("{} above {above} tokens; write it into tiers by hand", price(change));
        line(change.class.as_str(), told);
    }
    if let Some((old, new)) = one.context {
        line("context_length", format!("{old} -> {new} tokens"));
    }
    if let Some((old, new)) = one.longest_answer {
        line("max_completion_tokens", format!("{old} -> {new} tokens"));
    }
    if let Some(retirement) = one.retirement {
        line("expiration_date", retires(retirement));
    }
}

fn price(PriceChange { old, new, .. }: &PriceChange) -> String {
    let new_price = new.times(MILLION);
    match old {
        None => format!("unknown -> {new_price} $/M"),
        Some(old) => format!("{} -> {new_price} $/M{}", old.times(MILLION), percent(*old, *new)),
    }
}

fn retires(retirement: Retirement) -> String {
    match retirement {
        Retirement::On(day) => day.to_string(),
        Retirement::Announced => "deprecated, without a day".to_owned(),
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

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Without control characters, which could move the cursor of a terminal.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}
