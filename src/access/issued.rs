//! Keys that administrators issue, accounts and teams that they set up, and the changes that the audit log records.
//!
//! Everything here is what the file of changes holds, as JSON.

use std::collections::BTreeMap;

use chrono::DateTime;
use pointsman_config::{HolderLimits, Key, LimitsConfig, Scope, from_hex, spend_amount};
use pointsman_domain::{ModelPattern, Objective, QualityFloor, ResetPeriod, SpendLimit, Task, UnknownQuality};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A spending limit as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredLimit {
    /// Plain decimal dollars.
    pub amount: String,
    /// Name of the period; absent for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<String>,
}

impl StoredLimit {
    /// A limit as JSON.
    pub fn new(limit: SpendLimit) -> StoredLimit {
        StoredLimit { amount: limit.amount.to_string(), reset: limit.reset.map(|reset| reset.as_str().to_owned()) }
    }

    /// The limit; `None` when it cannot be read.
    pub fn limit(&self) -> Option<SpendLimit> {
        let reset = self.reset.as_deref().map(|name| ResetPeriod::parse(name).ok_or(())).transpose().ok()?;
        Some(SpendLimit { amount: spend_amount(&self.amount)?, reset })
    }
}

/// What has limits besides keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HolderKind {
    /// Keys belong to it.
    Account,
    /// Accounts share its budget.
    Team,
}

impl HolderKind {
    /// In sentences.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            HolderKind::Account => "account",
            HolderKind::Team => "team",
        }
    }

    /// In paths, and the table of the configuration.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            HolderKind::Account => "accounts",
            HolderKind::Team => "teams",
        }
    }
}

/// An issued key. It holds no text of the key but its label.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct IssuedKey {
    /// Number; stays when the key is rotated.
    pub id: u64,
    /// Name, for logs and records.
    pub name: String,
    /// First ten and last four characters of the key.
    pub label: String,
    /// SHA-256 of the key, hexadecimal.
    pub sha256: String,
    /// Account that it belongs to.
    pub account: String,
    /// Names of its scopes.
    pub scopes: Vec<String>,
    /// Unix milliseconds.
    pub created_ms: i64,
    /// Unix milliseconds.
    pub updated_ms: i64,
    /// Label of the administrator's key.
    pub created_by: String,
    /// Whether it is refused.
    #[serde(default)]
    pub disabled: bool,
    /// Time of expiry, Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<i64>,
    /// Spending limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spend: Option<StoredLimit>,
    /// Requests per minute; absent for the default of the configuration, 0 for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// Tokens per minute, in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u32>,
    /// Requests in progress, in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Models it may use; empty for any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_models: Vec<String>,
    /// Models it may not use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_models: Vec<String>,
    /// Providers it may use; empty for any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_providers: Vec<String>,
    /// Providers it may not use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_providers: Vec<String>,
    /// Objective of requests that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<String>,
    /// Class of the tasks of requests that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Whether its choices may be drawn at random to learn from; absent for yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explore: Option<bool>,
    /// Least quality: of the mean, or as `{"p10": 0.7}` of the lower tenth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_quality: Option<Value>,
    /// What that does with endpoints of unknown quality.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality_unknown: Option<String>,
    /// Names that mean a model or an alias.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub aliases: BTreeMap<String, String>,
    /// The operator's own name of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_user: Option<String>,
}

impl std::fmt::Debug for IssuedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedKey").field("name", &self.name).field("label", &self.label).finish_non_exhaustive()
    }
}

impl IssuedKey {
    /// The key with the default limits of `limits`. `None` when a stored value cannot be read.
    pub fn key(&self, limits: &LimitsConfig) -> Option<Key> {
        let patterns =
            |texts: &[String]| texts.iter().map(|text| text.parse().ok()).collect::<Option<Vec<ModelPattern>>>();
        let most = |own: Option<u32>, default: Option<u32>| own.map_or(default, |own| (own > 0).then_some(own));
        let scopes: Option<Vec<Scope>> = self.scopes.iter().map(|scope| Scope::parse(scope)).collect();
        Some(Key {
            name: self.name.as_str().into(),
            sha256: from_hex(&self.sha256)?,
            scopes: scopes?,
            expires_at: self.expires_ms.map(|ms| DateTime::from_timestamp_millis(ms).ok_or(())).transpose().ok()?,
            disabled: self.disabled,
            allowed_models: patterns(&self.allowed_models)?,
            blocked_models: patterns(&self.blocked_models)?,
            requests_per_minute: most(self.requests_per_minute, limits.key_requests_per_minute),
            concurrency: most(self.concurrency, limits.key_concurrency),
            tokens_per_minute: most(self.tokens_per_minute, limits.key_tokens_per_minute),
            spend: self.spend.as_ref().map(|limit| limit.limit().ok_or(())).transpose().ok()?,
            account: Some(self.account.as_str().into()),
            allowed_providers: self.allowed_providers.clone(),
            blocked_providers: self.blocked_providers.clone(),
            // A class that only a later version knows does not make the key unreadable.
            task: self.task.as_deref().and_then(Task::named),
            min_quality: self.min_quality.as_ref().map(|floor| quality_floor(floor).ok_or(())).transpose().ok()?,
            quality_unknown: self
                .quality_unknown
                .as_deref()
                .map(|name| unknown_quality(name).ok_or(()))
                .transpose()
                .ok()?,
            explore: self.explore.unwrap_or(true),
            objective: self.objective.as_deref().map(|name| name.parse::<Objective>()).transpose().ok()?,
            aliases: self.aliases.iter().map(|(name, target)| (name.clone(), target.clone())).collect(),
        })
    }
}

/// The least quality in a value of JSON: a number from 0 to 1, or one such as `p10` of an object.
pub fn quality_floor(value: &Value) -> Option<QualityFloor> {
    let share = |value: &Value| value.as_f64().filter(|share| (0.0..=1.0).contains(share));
    match value {
        Value::Object(members) if members.len() == 1 => share(members.get("p10")?).map(QualityFloor::Tenth),
        value => share(value).map(QualityFloor::Mean),
    }
}

/// What becomes of endpoints of unknown quality, by its name.
pub fn unknown_quality(name: &str) -> Option<UnknownQuality> {
    UnknownQuality::ALL.into_iter().find(|known| known.as_str() == name)
}

/// An account that an administrator set up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct IssuedAccount {
    /// Name.
    pub name: String,
    /// Team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// Spending limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spend: Option<StoredLimit>,
    /// Requests per minute; absent for the default of the configuration, 0 for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// Tokens per minute, in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u32>,
    /// Requests in progress, in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

impl IssuedAccount {
    /// Its limits, with the defaults of `limits`.
    pub fn limits(&self, limits: &LimitsConfig) -> HolderLimits {
        let most = |own: Option<u32>, default: Option<u32>| own.map_or(default, |own| (own > 0).then_some(own));
        HolderLimits {
            requests_per_minute: most(self.requests_per_minute, limits.account_requests_per_minute),
            tokens_per_minute: most(self.tokens_per_minute, limits.account_tokens_per_minute),
            concurrency: most(self.concurrency, limits.account_concurrency),
            spend: self.spend.as_ref().and_then(StoredLimit::limit),
        }
    }
}

/// A team that an administrator set up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedTeam {
    /// Name.
    pub name: String,
    /// Spending limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spend: Option<StoredLimit>,
}

/// What an administrator did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Change {
    /// Issued a key.
    CreateKey(Box<IssuedKey>),
    /// Changed an issued key.
    UpdateKey(Box<IssuedKey>),
    /// Gave an issued key a new text.
    RotateKey(Box<IssuedKey>),
    /// Disabled an issued key.
    DisableKey(Box<IssuedKey>),
    /// Enabled an issued key.
    EnableKey(Box<IssuedKey>),
    /// Removed an issued key for good.
    RevokeKey {
        /// Number of the key.
        id: u64,
        /// Its name.
        name: String,
    },
    /// Disabled or enabled a configured key, or left it to the configuration again.
    SwitchKey {
        /// Name of the key.
        name: String,
        /// `None`: as configured.
        on: Option<bool>,
    },
    /// Set up or changed an account.
    PutAccount(IssuedAccount),
    /// Removed the settings of an account.
    RemoveAccount {
        /// Name of the account.
        name: String,
    },
    /// Set up or changed a team.
    PutTeam(IssuedTeam),
    /// Removed a team.
    RemoveTeam {
        /// Name of the team.
        name: String,
    },
    /// Disabled an account or a team, wherever it is set up, or enabled it again.
    SwitchHolder {
        /// Account or team.
        kind: HolderKind,
        /// Its name.
        name: String,
        /// Whether its keys are accepted.
        on: bool,
    },
    /// Read the configuration again.
    Reload {
        /// What came of it.
        result: String,
        /// Names of the settings that changed, without values.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        settings: Vec<String>,
    },
    /// Was told that a shadow may be tried on a share of the requests.
    PromoteShadow {
        /// Its name.
        shadow: String,
        /// Its fingerprint.
        fingerprint: String,
        /// The alias whose requests they are.
        alias: String,
        /// The share.
        share: String,
        /// The checks that were not met.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        overridden: Vec<String>,
        /// Why it may be tried all the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Sent an alert, or gave it up.
    SendAlert {
        /// Name of the receiver.
        receiver: String,
        /// The event.
        event: String,
        /// `sent`, or why it was not.
        result: String,
    },
    /// Deleted records.
    DeleteRecords {
        /// Only those admitted before this time, Unix milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before_ms: Option<i64>,
        /// Only those of this account, sixteen hexadecimal digits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<String>,
    },
}

impl Change {
    /// Removes the settings of an account, or a team.
    pub fn remove(kind: HolderKind, name: &str) -> Change {
        let name = name.to_owned();
        match kind {
            HolderKind::Account => Change::RemoveAccount { name },
            HolderKind::Team => Change::RemoveTeam { name },
        }
    }

    /// Names of all actions.
    pub const ACTIONS: [&'static str; 18] = [
        "create_key",
        "update_key",
        "rotate_key",
        "disable_key",
        "enable_key",
        "revoke_key",
        "put_account",
        "remove_account",
        "disable_account",
        "enable_account",
        "put_team",
        "remove_team",
        "disable_team",
        "enable_team",
        "reload",
        "promote_shadow",
        "send_alert",
        "delete_records",
    ];

    const fn switch_action(kind: HolderKind, on: bool) -> &'static str {
        match (kind, on) {
            (HolderKind::Account, false) => "disable_account",
            (HolderKind::Account, true) => "enable_account",
            (HolderKind::Team, false) => "disable_team",
            (HolderKind::Team, true) => "enable_team",
        }
    }

    /// Name of the action, and of its object.
    pub fn names(&self) -> (&'static str, Option<&str>) {
        match self {
            Change::CreateKey(key) => ("create_key", Some(&key.name)),
            Change::UpdateKey(key) => ("update_key", Some(&key.name)),
            Change::RotateKey(key) => ("rotate_key", Some(&key.name)),
            Change::DisableKey(key) => ("disable_key", Some(&key.name)),
            Change::EnableKey(key) => ("enable_key", Some(&key.name)),
            Change::RevokeKey { name, .. } => ("revoke_key", Some(name)),
            Change::SwitchKey { name, on: Some(false) } => ("disable_key", Some(name)),
            Change::SwitchKey { name, .. } => ("enable_key", Some(name)),
            Change::PutAccount(account) => ("put_account", Some(&account.name)),
            Change::RemoveAccount { name } => ("remove_account", Some(name)),
            Change::PutTeam(team) => ("put_team", Some(&team.name)),
            Change::RemoveTeam { name } => ("remove_team", Some(name)),
            Change::SwitchHolder { kind, name, on } => (Change::switch_action(*kind, *on), Some(name)),
            Change::Reload { .. } => ("reload", None),
            Change::PromoteShadow { shadow, .. } => ("promote_shadow", Some(shadow)),
            Change::SendAlert { receiver, .. } => ("send_alert", Some(receiver)),
            Change::DeleteRecords { owner, .. } => ("delete_records", owner.as_deref()),
        }
    }
}

/// Who made a change, and from where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// Name of the administrator's key, or `command line`.
    pub by: String,
    /// Address of the client, or the name of the machine's user.
    pub from: String,
    /// Id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// One line of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Unix milliseconds.
    pub at_ms: i64,
    /// Who, and from where.
    #[serde(flatten)]
    pub actor: Actor,
    /// What.
    pub change: Change,
}
