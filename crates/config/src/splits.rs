//! How an alias divides its requests: `ladder`, `sticky`, `[[aliases.rules]]`, `[[aliases.shares]]` and `[aliases.canary]`.

use std::ops::RangeInclusive;

use pointsman_domain::{AliasSplit, Canary, Guardrail, SplitRule, SplitShare, StickyBy};

use super::section::{Item, Section, words};

const MAX_NAMES: usize = 16;
const MAX_RULES: usize = 64;
const MAX_SHARES: usize = 32;
const MAX_TAGS: usize = 16;
/// Shares of requests: a request has one of 65,536 places.
const SHARE: RangeInclusive<f64> = 0.0001..=1.0;
/// Shares of the requests that a canary may get.
pub const SHARE_ON_TRIAL: RangeInclusive<f64> = 0.0001..=0.5;
/// Sums of weights up to this are 1, as three times 0.333…
const WHOLE: f64 = 1.0 + 1e-9;

/// The definition, and the names in it with their locations. `None` where the alias divides nothing.
pub(super) fn read<'t>(alias: &Section<'t>) -> Option<(AliasSplit, Vec<Item<'t>>)> {
    keys! { alias:
        /// What the alias stands for, in the order in which it is tried; its lists of models then do not count. Empty: all
        /// models that its lists allow.
        ladder = texts(MAX_NAMES) [allowed = "model ids and aliases"],
        /// What stays at the same part of the alias when it has shares or a canary. `session`: a conversation, by its
        /// `session_id`, else by its beginning, if that has 1 KiB. `user`: the `user` of requests. `key`: the API key.
        /// `request`: nothing. A request without a `user` counts by its conversation; one without either by itself.
        sticky = choice_or(&words(StickyBy::ALL, StickyBy::as_str), StickyBy::Session),
    }
    let ladder = ladder.unwrap_or_default();
    let rules = alias.sections("rules", MAX_RULES, read_rule);
    let shares = alias.sections("shares", MAX_SHARES, read_share);
    let canary = alias.optional("canary", read_canary);
    let is_divided = !(ladder.is_empty() && rules.is_empty() && shares.is_empty() && canary.is_none());
    if alias.has("sticky") && shares.is_empty() && canary.is_none() {
        alias.warning("sticky", "has no effect without 'shares' or a 'canary'");
    }
    let sum: f64 = shares.iter().map(|(share, _)| share.weight).sum();
    if sum > WHOLE {
        let wrong = format!("have weights that add up to {}", (sum * 1e4).round() / 1e4);
        alias.fault("shares", wrong, "at most 1 together; what is left of it stays with the alias itself");
    }
    let named = |names: &[Item<'t>]| names.iter().map(|item| item.text.to_owned()).collect();
    let split = AliasSplit {
        sticky,
        ladder: named(&ladder),
        rules: rules.iter().map(|(rule, _)| rule.clone()).collect(),
        canary: canary.as_ref().map(|(canary, _)| canary.clone()),
        shares: shares.iter().map(|(share, _)| share.clone()).collect(),
    };
    let of_rules = rules.into_iter().flat_map(|(_, names)| names);
    let of_shares = shares.into_iter().flat_map(|(_, names)| names);
    let of_canary = canary.into_iter().flat_map(|(_, names)| names);
    let names = ladder.into_iter().chain(of_rules).chain(of_shares).chain(of_canary);
    is_divided.then(|| (split, names.collect()))
}

/// `use` of a part: models and aliases in the order in which they are tried.
fn names<'t>(section: &Section<'t>) -> (Vec<String>, Vec<Item<'t>>) {
    const ALLOWED: &str =
        "models and aliases in the order in which they are tried, such as [\"acme/small\", \"bolt/small\"]";
    keys! { section:
        /// Where they go, in the order in which it is tried. The settings of the first alias in it go before those of
        /// this alias.
        items "use" = texts(MAX_NAMES) [absent = "required", allowed = "model ids and aliases"],
    }
    match &items {
        None if !section.has("use") => section.absence("use", "is missing", ALLOWED),
        Some(items) if items.is_empty() => section.fault("use", "is empty", ALLOWED),
        _ => {}
    }
    let items = items.unwrap_or_default();
    (items.iter().map(|item| item.text.to_owned()).collect(), items)
}

fn read_rule<'t>(section: &Section<'t>) -> (SplitRule, Vec<Item<'t>>) {
    section.about(
        "Requests that are led elsewhere by their tags, one `[[aliases.rules]]` each: the first whose tags all match counts, \
         and shares and canary do not. [POLICY.md](POLICY.md#shares-and-canaries) has examples.",
    );
    let tags = section.section("when", |when| {
        keys! { when:
            //! What a request must have.
            /// Tags of the request (`metadata`, `tags`), such as `{ tag.plan = "pro" }`; all of them must be there.
            tags "tag" = pairs(MAX_TAGS) [absent = "required", kind = "table of strings", allowed = "name = value"],
        }
        tags
    });
    if tags.is_empty() {
        let allowed = "a tag of the request's metadata and its value, such as { tag.plan = \"pro\" }";
        section.absence("when", "names no tag", allowed);
    }
    let tags = tags.into_iter().map(|(name, value)| (name.to_owned(), value.text.to_owned())).collect();
    let (names, items) = names(section);
    (SplitRule { tags, names }, items)
}

fn read_share<'t>(section: &Section<'t>) -> (SplitShare, Vec<Item<'t>>) {
    keys! { section:
        //! Parts of an alias, one `[[aliases.shares]]` each. What the weights leave of 1 stays with the alias itself.
        /// Share of the requests. All weights of an alias add up to at most 1.
        weight = with(share_of_requests) [absent = "required"],
    }
    let (names, items) = names(section);
    (SplitShare { weight, names }, items)
}

fn read_canary<'t>(section: &Section<'t>) -> (Canary, Vec<Item<'t>>) {
    keys! { section:
        //! A part of an alias on trial: the same share of each other part. It falls back by itself once it is surely worse
        //! than a guardrail allows, and stays so until this table changes; it is never promoted by itself. At least one
        //! guardrail is required.
        /// Share of the requests, such as 0.01, 0.05, 0.25.
        share = with(share_on_trial) [absent = "required", allowed = "0.0001 to 0.5"],
        /// By which share its mean cost of a request may exceed that of the other requests.
        spend "max_spend" = number(0.0..=100.0) [absent = "not judged"],
        /// By how much its share of failed requests may exceed that of the others; 0.005 is half a percentage point.
        failures "max_failures" = number(0.0..=1.0) [absent = "not judged"],
        /// By which share its 95th percentile of the time to the first content may exceed that of the others. Answers that
        /// are not streamed count with their whole time.
        first_token "max_ttft" = number(0.0..=100.0) [absent = "not judged"],
    }
    let (names, items) = names(section);
    let guardrail = Guardrail { spend, failures, first_token };
    if ["max_spend", "max_failures", "max_ttft"].iter().all(|key| !section.has(key)) {
        let allowed = "by how much it may be worse before it falls back: 'max_failures = 0.005' (half a percentage point), \
                       'max_spend = 0.1' (10 % per request) or 'max_ttft = 0.2' (20 % at p95), or several of them";
        section.absence("max_failures", "is missing, and so is every other guardrail", allowed);
    }
    (Canary { share, names, guardrail }, items)
}

/// The share of a canary, which is compared with what it leaves.
fn share_on_trial(section: &Section<'_>, key: &'static str) -> f64 {
    let share = share_of_requests(section, key);
    if share > *SHARE_ON_TRIAL.end() {
        let allowed = "from 0.0001 to 0.5; to give it more, make what is on trial the 'ladder' of the alias and the old one the canary";
        section.fault(key, format!("{share} is more than half of the requests"), allowed);
    }
    share
}

/// A share of the requests; 0 after a fault.
fn share_of_requests(section: &Section<'_>, key: &'static str) -> f64 {
    if !section.has(key) {
        section.absence(key, "is missing", "a share of the requests from 0.0001 to 1, such as 0.05 for 5 %");
    }
    section.number(key, SHARE).unwrap_or_default()
}
