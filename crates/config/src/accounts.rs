//! Accounts and teams: `[[accounts]]` and `[[teams]]`, and the spending limits of both and of keys.
//!
//! A key without `account` belongs to the account of its own name, so an account needs a table only for limits and a team.

use std::sync::Arc;

use pointsman_domain::{ResetPeriod, SpendLimit, Usd};

use super::{limits::LimitsConfig, section::Section};

/// Longest list of accounts, and of teams.
const MAX_ACCOUNTS: usize = 10_000;
/// Longest name of an account or a team, bytes.
const MAX_NAME: usize = 128;
/// Highest spending limit, dollars.
const MAX_DOLLARS: i128 = 1_000_000_000_000;

const SPEND_LIMIT: &str = "a plain decimal string of US dollars from 0 to 10^12, such as \"25.00\"";

settings! {
    /// Limits of accounts, one `[[accounts]]` each. All keys of an account count together. An account
    /// without an entry has no limits but the defaults of `[limits]`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AccountConfig read(section, limits: &LimitsConfig) {
        /// Name of the account, as in `account` of a key; unique.
        pub name: Arc<str> = with(name),
        /// Name of an entry of `[[teams]]`.
        pub team: Option<Arc<str>> = with(|section, key| section.text(key).map(Arc::from)) [absent = "none"],
        /// Limits of all its keys together.
        pub limits: HolderLimits => HolderLimits::read(section, limits),
    }
}

settings! {
    /// Limits of a key or an account; `None` means no limit.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct HolderLimits read(section, limits: &LimitsConfig) {
        /// 0: no limit.
        pub requests_per_minute: Option<u32> = ceiling_from(limits.account_requests_per_minute)
            [unit = "requests", absent = "`limits.account_requests_per_minute`"],
        /// 0: no limit.
        pub tokens_per_minute: Option<u32> = ceiling_from(limits.account_tokens_per_minute)
            [unit = "tokens", absent = "`limits.account_tokens_per_minute`"],
        /// Calls in progress; 0: no limit.
        pub concurrency: Option<u32> = ceiling_from(limits.account_concurrency)
            [unit = "requests", absent = "`limits.account_concurrency`"],
        /// Spending.
        pub spend: Option<SpendLimit> => spend_limit(section),
    }
}

settings! {
    /// Teams of accounts, one `[[teams]]` each: a budget that several accounts share.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TeamConfig read(section) {
        /// Name of the team; unique.
        pub name: Arc<str> = with(name),
        /// Spending limit of all its accounts together.
        pub spend: Option<SpendLimit> => spend_limit(section),
    }
}

/// Whether `name` may name an account or a team.
pub fn is_account_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && !name.chars().any(char::is_control) && name.trim() == name
}

/// A spending limit in dollars, if `text` is one.
pub fn spend_amount(text: &str) -> Option<Usd> {
    let most = Usd::from_femto(MAX_DOLLARS * 1_000_000_000_000_000);
    text.parse::<Usd>().ok().filter(|amount| (Usd::ZERO..=most).contains(amount))
}

/// `spend_limit` and `spend_reset` of a table.
pub(super) fn spend_limit(section: &Section<'_>) -> Option<SpendLimit> {
    let resets = ResetPeriod::ALL.map(|period| (period.as_str(), Some(period)));
    keys! { section:
        /// Most that may be spent: by the key, by all keys of the account, or by all accounts of the team together. A
        /// request reserves its worst-case cost before it is sent; one that does not fit gets 402.
        amount "spend_limit" = with(dollars)
            [absent = "no limit", kind = "decimal string", allowed = "US dollars such as `\"25.00\"`"],
        /// When the limit starts again, at midnight UTC; weeks start on Monday.
        reset "spend_reset" = choice_or(&[resets[0], resets[1], resets[2], ("never", None)], None),
    }
    if reset.is_some() && !section.has("spend_limit") {
        section.fault("spend_reset", "is set without spend_limit", "spend_limit beside it");
    }
    amount.map(|amount| SpendLimit { amount, reset })
}

/// An amount of money.
pub(super) fn dollars(section: &Section<'_>, key: &'static str) -> Option<Usd> {
    let amount = spend_amount(section.text_of(key, SPEND_LIMIT)?);
    if amount.is_none() {
        section.fault(key, "is not an amount of money", SPEND_LIMIT);
    }
    amount
}

/// The accounts and teams.
#[derive(Debug, Default)]
pub(super) struct AccountTable {
    pub(super) accounts: Vec<AccountConfig>,
    pub(super) teams: Vec<TeamConfig>,
}

impl AccountTable {
    pub(super) fn read(root: &Section<'_>, limits: &LimitsConfig) -> AccountTable {
        let teams = root.sections("teams", MAX_ACCOUNTS, TeamConfig::read);
        let is_known = |team: &Arc<str>| teams.iter().any(|known| known.name == *team);
        let accounts = root.sections("accounts", MAX_ACCOUNTS, |section| {
            let account = AccountConfig::read(section, limits);
            if account.team.as_ref().is_some_and(|team| !is_known(team)) {
                section.fault("team", "names no entry of [[teams]]", "the name of an entry of [[teams]]");
            }
            account
        });
        refuse_duplicates(root, "accounts", accounts.iter().map(|account| &account.name));
        refuse_duplicates(root, "teams", teams.iter().map(|team| &team.name));
        AccountTable { accounts, teams }
    }
}

fn name(section: &Section<'_>, key: &'static str) -> Arc<str> {
    let name = section.required(key, "a unique name").unwrap_or("?");
    if !is_account_name(name) {
        section.fault(key, "is not a name", "1 to 128 visible characters");
    }
    name.into()
}

/// Reports a name that two entries of the list `key` have.
pub(super) fn refuse_duplicates<'n>(root: &Section<'_>, key: &'static str, names: impl Iterator<Item = &'n Arc<str>>) {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair.first() == pair.last()).and_then(<[_]>::first) {
        root.fault(key, format!("'{twice}' is used twice"), "a name of its own for each entry");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Config, environment::Environment};

    fn read(text: &str) -> Result<Config, String> {
        let text = format!("[simulation]\nmode = \"off\"\n{text}\n");
        let read = Config::parse(&text, "f", Path::new("."), &Environment::default());
        read.map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn accounts_and_teams_have_limits_in_exact_money() {
        let config = read(
            "[[teams]]\nname = \"lab\"\nspend_limit = \"100\"\nspend_reset = \"monthly\"\n\
             [[accounts]]\nname = \"blue\"\nteam = \"lab\"\nspend_limit = \"0.000000000000001\"\nconcurrency = 3",
        );
        let config = config.unwrap();
        assert_eq!(config.teams[0].spend.unwrap().reset, Some(ResetPeriod::Monthly));
        let HolderLimits { spend, concurrency, requests_per_minute, .. } = config.accounts[0].limits;
        assert_eq!(spend, Some(SpendLimit { amount: Usd::from_femto(1), reset: None }));
        assert_eq!((concurrency, requests_per_minute), (Some(3), None));
    }

    #[test]
    fn impossible_limits_and_names_are_refused_with_the_key_and_what_is_allowed() {
        for (text, fault) in [
            ("[[accounts]]\nname = \"a\"\nspend_limit = \"-1\"", "accounts[0].spend_limit: is not an amount of money"),
            ("[[accounts]]\nname = \"a\"\nspend_limit = \"1e9\"", "accounts[0].spend_limit: is not an amount of money"),
            ("[[accounts]]\nname = \"a\"\nspend_limit = \"1000000000001\"", "is not an amount of money"),
            ("[[accounts]]\nname = \"a\"\nspend_limit = 5", "accounts[0].spend_limit"),
            ("[[accounts]]\nname = \"a\"\nspend_limit = \"1\"\nspend_reset = \"hourly\"", "'hourly' is unknown"),
            ("[[accounts]]\nname = \"a\"\nspend_reset = \"daily\"", "is set without spend_limit"),
            ("[[accounts]]\nname = \"a\"\nteam = \"b\"", "names no entry of [[teams]]"),
            ("[[accounts]]\nname = \"a\"\n[[accounts]]\nname = \"a\"", "accounts: 'a' is used twice"),
            ("[[teams]]\nname = \" a\"", "is not a name"),
            ("[[accounts]]\nname = \"a\"\nrequests_per_minute = -1", "-1 is out of range"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(fault), "{text}: {found}");
        }
    }
}
