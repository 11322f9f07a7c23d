//! How an alias divides its requests among models and other aliases.
//!
//! Plain data. `pointsman_routing::split` says which part a request belongs to, and with which probability.

use serde::{Deserialize, Serialize};

/// How an alias divides its requests. Lists of names are models and aliases, tried in their order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AliasSplit {
    /// What stays together.
    pub sticky: StickyBy,
    /// What the alias itself stands for; empty: the models that its lists allow.
    pub ladder: Vec<String>,
    /// Requests that are led elsewhere by their tags; the first match counts.
    pub rules: Vec<SplitRule>,
    /// A part of the requests on trial.
    pub canary: Option<Canary>,
    /// Parts of the requests that no rule matches; the rest is for the alias itself.
    pub shares: Vec<SplitShare>,
}

/// Where requests with certain tags go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SplitRule {
    /// Tags that a request must have, all of them, as (name, value).
    pub tags: Vec<(String, String)>,
    /// Where they go.
    pub names: Vec<String>,
}

/// A part of an alias.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SplitShare {
    /// Its share of the requests, 0 to 1.
    pub weight: f64,
    /// Where they go.
    pub names: Vec<String>,
}

/// A part of an alias on trial: an equal share of each other part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Canary {
    /// Its share of the requests, 0 to 1.
    pub share: f64,
    /// Where they go.
    pub names: Vec<String>,
    /// What ends the trial.
    pub guardrail: Guardrail,
}

/// By how much a canary may be worse than the other requests of its alias. At least one limit is set.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Guardrail {
    /// Mean cost of a request, as a share of that of the others: 0.1 is 10 % more.
    pub spend: Option<f64>,
    /// Share of failed requests, as a difference: 0.005 is half a percentage point more.
    pub failures: Option<f64>,
    /// 95th percentile of the time to the first content, as a share of that of the others.
    pub first_token: Option<f64>,
}

crate::named! {
    /// What falls to the same part of an alias.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum StickyBy {
        /// A conversation.
        Session = "session",
        /// The client's `user`.
        User = "user",
        /// The API key.
        Key = "key",
        /// Nothing: each request by itself.
        Request = "request",
    }
}

/// A part of an alias. Positions are those of its lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SplitPart {
    /// The alias itself.
    Own,
    /// What a rule leads elsewhere.
    Rule(u32),
    /// What is on trial.
    Canary,
    /// A share.
    Share(u32),
}

impl SplitPart {
    /// The name on the wire: `own`, `canary`, `rule 1`, `share 2`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            SplitPart::Own => "own".to_owned(),
            SplitPart::Canary => "canary".to_owned(),
            SplitPart::Rule(at) => format!("rule {}", at.saturating_add(1)),
            SplitPart::Share(at) => format!("share {}", at.saturating_add(1)),
        }
    }

    /// The part with this name on the wire.
    pub fn named(name: &str) -> Option<SplitPart> {
        let at = |number: &str| number.parse::<u32>().ok()?.checked_sub(1);
        match name.split_once(' ') {
            None if name == "own" => Some(SplitPart::Own),
            None if name == "canary" => Some(SplitPart::Canary),
            Some(("rule", number)) => at(number).map(SplitPart::Rule),
            Some(("share", number)) => at(number).map(SplitPart::Share),
            _ => None,
        }
    }
}

impl AliasSplit {
    /// Where a part leads; empty for the alias itself without a ladder.
    pub fn names(&self, part: SplitPart) -> &[String] {
        let names = match part {
            SplitPart::Own => Some(&self.ladder),
            SplitPart::Rule(at) => self.rules.get(at as usize).map(|rule| &rule.names),
            SplitPart::Canary => self.canary.as_ref().map(|canary| &canary.names),
            SplitPart::Share(at) => self.shares.get(at as usize).map(|share| &share.names),
        };
        names.map_or(&[], Vec::as_slice)
    }
}
