//! The keys of callers: `[[keys]]`.
//!
//! Only digests leave this module. Keys given in clear, by the name of an environment variable, are
//! checked for length and placeholders and then forgotten.

use std::{cell::RefCell, fmt, sync::Arc};

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use pointsman_actors::domain::ModelPattern;
use sha2::{Digest, Sha256};

use super::{
    admin::AdminConfig,
    aliases::patterns,
    auth::{AuthConfig, AuthMode, DEVELOPMENT_KEY},
    environment::Environment,
    limits::{LimitsConfig, ceiling},
    section::Section,
    server::ServerConfig,
    tree::Value,
};

/// More keys than this belong into a service, not into a file.
const MOST_KEYS: usize = 10_000;
const SHORTEST_KEY: usize = 16;
const LONGEST_KEY: usize = 512;

/// What a key may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Chat completions, images, route preview.
    Inference,
    /// Explanations, health of providers, metrics.
    Read,
    /// Everything of every key.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Scope; 3] = [Scope::Inference, Scope::Read, Scope::Admin];

    /// The name in configuration and messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Scope::Inference => "inference",
            Scope::Read => "read",
            Scope::Admin => "admin",
        }
    }
}

/// The SHA-256 of a key in clear.
#[must_use]
pub fn digest_of(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// A digest as 64 hexadecimal digits, lower case.
#[must_use]
pub fn to_hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digest that 64 hexadecimal digits stand for.
fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if text.len() != 2 * digest.len() || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    for (index, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(digest)
}

/// One key that may call. Printing it leaves the digest out.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    /// Label, for logs and records.
    pub name: Arc<str>,
    /// What a caller's key must hash to.
    pub sha256: [u8; 32],
    /// What it may be used for.
    pub scopes: Vec<Scope>,
    /// From then on it is refused as expired.
    pub expires_at: Option<DateTime<Utc>>,
    /// Refused as disabled.
    pub disabled: bool,
    /// Models it may use; empty means any.
    pub allowed_models: Vec<ModelPattern>,
    /// Models it may not use.
    pub blocked_models: Vec<ModelPattern>,
    /// Its own rate; `None` means no limit.
    pub requests_per_minute: Option<u32>,
    /// Its own requests in progress; `None` means no limit.
    pub concurrency: Option<u32>,
}

impl Key {
    /// The label of the key that a start makes for its administrator.
    pub const OF_THIS_START: &'static str = "admin-of-this-start";

    /// What every caller holds when no key is asked for: never administration.
    #[must_use]
    pub fn anonymous() -> Key {
        Key {
            name: Arc::from("anonymous"),
            sha256: [0; 32],
            scopes: vec![Scope::Inference, Scope::Read],
            expires_at: None,
            disabled: false,
            allowed_models: Vec::new(),
            blocked_models: Vec::new(),
            requests_per_minute: None,
            concurrency: None,
        }
    }

    /// The key that a start makes for its administrator, where the configuration names none.
    #[must_use]
    pub fn startup_key(sha256: [u8; 32]) -> Key {
        Key { name: Arc::from(Key::OF_THIS_START), sha256, scopes: vec![Scope::Admin], ..Key::anonymous() }
    }

    /// Whether it is accepted: neither disabled nor expired.
    #[must_use]
    pub fn is_in_force(&self, now: DateTime<Utc>) -> bool {
        !self.disabled && self.expires_at.is_none_or(|end| now < end)
    }

    fn development(limits: &LimitsConfig) -> Key {
        Key {
            name: Arc::from("development"),
            sha256: digest_of(DEVELOPMENT_KEY),
            requests_per_minute: limits.key_requests_per_minute,
            concurrency: limits.key_concurrency,
            ..Key::anonymous()
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("name", &self.name)
            .field("scopes", &self.scopes)
            .field("expires_at", &self.expires_at)
            .field("disabled", &self.disabled)
            .field("allowed_models", &self.allowed_models)
            .field("blocked_models", &self.blocked_models)
            .field("requests_per_minute", &self.requests_per_minute)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

/// All keys, and those that are named but cannot be used.
#[derive(Debug, Default)]
pub(super) struct KeyTable {
    pub(super) entries: Vec<Key>,
    /// Sentences about keys whose variable is not set.
    pub(super) absent: Vec<String>,
}

/// What a key's table is read with.
pub(super) struct KeyContext<'c> {
    pub(super) environment: &'c Environment,
    pub(super) server: &'c ServerConfig,
    pub(super) admin: &'c AdminConfig,
    pub(super) auth: &'c AuthConfig,
    pub(super) limits: &'c LimitsConfig,
}

impl KeyTable {
    pub(super) fn read(root: &Section<'_>, context: &KeyContext<'_>) -> KeyTable {
        let development = context.auth.mode == AuthMode::Keys && context.auth.development_key_enabled;
        let development = development.then(|| Key::development(context.limits));
        let seen = development.iter().map(|key| (key.name.to_string(), key.sha256)).collect();
        let seen = RefCell::new(seen);
        let read = root.sections("keys", MOST_KEYS, |section| {
            let entry = read_key(section, context);
            if let Ok(entry) = &entry {
                refuse_twins(section, entry, &mut seen.borrow_mut());
            }
            entry
        });
        let mut table = KeyTable { entries: development.into_iter().collect(), absent: Vec::new() };
        for entry in read {
            match entry {
                Ok(entry) => table.entries.push(entry),
                Err(Some(sentence)) => table.absent.push(sentence),
                Err(None) => {}
            }
        }
        table
    }
}

/// The key of one `[[keys]]` table; else a sentence about why it cannot be used, if that is no fault.
fn read_key(section: &Section<'_>, context: &KeyContext<'_>) -> Result<Key, Option<String>> {
    let name = section.required("name", "a label for logs and records").unwrap_or("?");
    let digest = digest(section, name, context);
    let entry = Key {
        name: Arc::from(name),
        sha256: [0; 32],
        scopes: scopes(section),
        expires_at: expiry(section),
        disabled: section.flag("disabled").unwrap_or(false),
        allowed_models: patterns(section, "allowed_models"),
        blocked_models: patterns(section, "blocked_models"),
        requests_per_minute: ceiling(section, "requests_per_minute").unwrap_or(context.limits.key_requests_per_minute),
        concurrency: ceiling(section, "concurrency").unwrap_or(context.limits.key_concurrency),
    };
    let administrates = entry.scopes.contains(&Scope::Admin);
    if administrates && digest.as_ref().is_ok_and(|digest| *digest == digest_of(DEVELOPMENT_KEY)) {
        let wrong = "holds admin, but the key is the public development key";
        section.fault(
            "scopes",
            wrong,
            "inference and read; a key of your own for admin ('pointsman keygen' makes one)",
        );
    }
    digest.map(|sha256| Key { sha256, ..entry })
}

fn digest(section: &Section<'_>, name: &str, context: &KeyContext<'_>) -> Result<[u8; 32], Option<String>> {
    const ONE_OF: &str = "either sha256 = \"<64 hexadecimal digits>\" (make one with 'pointsman keygen') or \
                          env = \"NAME_OF_A_VARIABLE\" that holds the key";
    for key in ["key", "secret", "token"] {
        section.refuse(key, "a key must not stand in this file", ONE_OF);
    }
    match (section.text("sha256"), section.text("env")) {
        (Some(hex), None) => {
            let digest = from_hex(hex);
            match digest {
                None => section.fault("sha256", "is not a SHA-256", "64 hexadecimal digits, as keygen prints them"),
                Some(digest) => refuse_development(section, "sha256", digest, context),
            }
            digest.ok_or(None)
        }
        (None, Some(variable)) => digest_of_variable(section, name, variable, context),
        (Some(_), Some(_)) => {
            section.fault("env", "stands beside sha256", ONE_OF);
            Err(None)
        }
        (None, None) if section.has("sha256") || section.has("env") => Err(None),
        (None, None) => {
            section.absence("sha256", "is missing", ONE_OF);
            Err(None)
        }
    }
}

fn digest_of_variable(
    section: &Section<'_>,
    name: &str,
    variable: &str,
    context: &KeyContext<'_>,
) -> Result<[u8; 32], Option<String>> {
    if !is_variable_name(variable) {
        let allowed = "letters, digits and underscores, not beginning with a digit; the key itself never stands here";
        section.fault("env", "is not the name of an environment variable", allowed);
        return Err(None);
    }
    let key = context.environment.get(variable).filter(|key| !key.is_empty());
    let Some(key) = key else {
        if context.environment.is_unreadable(variable) {
            section.fault("env", format!("{variable} is not UTF-8"), "a key of visible ASCII characters");
            return Err(None);
        }
        return Err(Some(format!("Key '{name}' cannot be used: {variable} is not set.")));
    };
    let digest = digest_of(key);
    if key == DEVELOPMENT_KEY {
        refuse_development(section, "env", digest, context);
    } else if let Some(wrong) = weakness(key) {
        let allowed = "16 to 512 visible ASCII characters that nobody can guess; 'pointsman keygen' makes one";
        section.fault("env", format!("the key in {variable} {wrong}"), allowed);
        return Err(None);
    }
    Ok(digest)
}

fn refuse_development(section: &Section<'_>, key: &'static str, digest: [u8; 32], context: &KeyContext<'_>) {
    if digest != digest_of(DEVELOPMENT_KEY) {
        return;
    }
    let server = Some(context.server.bind).filter(|_| !context.server.is_loopback()).map(|bind| ("server.bind", bind));
    let admin = context.admin.bind.filter(|_| !context.admin.is_loopback()).map(|bind| ("admin.bind", bind));
    if let Some((open, bind)) = server.or(admin) {
        let wrong = format!("is the public development key, but {open} is {bind}");
        section.fault(key, wrong, "a key of your own; 'pointsman keygen' makes one");
    }
}

fn refuse_twins(section: &Section<'_>, entry: &Key, seen: &mut Vec<(String, [u8; 32])>) {
    if &*entry.name == Key::OF_THIS_START {
        let wrong = "is the label of the key that a start makes where the configuration names no administrator";
        section.fault("name", wrong, "another name");
    }
    if section.has("name") && seen.iter().any(|(name, _)| **name == *entry.name) {
        section.fault("name", format!("'{}' is used twice", entry.name), "a name of its own for each key");
    }
    if let Some((twin, _)) = seen.iter().find(|(_, digest)| *digest == entry.sha256) {
        let key = if section.has("sha256") { "sha256" } else { "env" };
        section.fault(key, format!("is the same key as '{twin}'"), "a key of its own for each name");
    }
    seen.push((entry.name.to_string(), entry.sha256));
}

/// What is wrong with a key in clear, if anything is.
fn weakness(key: &str) -> Option<&'static str> {
    const PLACEHOLDERS: [&str; 10] =
        ["changeme", "change-me", "change_me", "placeholder", "your-", "your_", "example", "xxxx", "replace", "insert"];
    let lower = key.to_ascii_lowercase();
    let mut distinct: Vec<u8> = key.bytes().collect();
    distinct.sort_unstable();
    distinct.dedup();
    if !key.bytes().all(|b| b.is_ascii_graphic()) {
        Some("holds characters other than visible ASCII")
    } else if key.len() < SHORTEST_KEY {
        Some("is shorter than 16 characters")
    } else if key.len() > LONGEST_KEY {
        Some("is longer than 512 characters")
    } else if distinct.len() < 6 || PLACEHOLDERS.iter().any(|word| lower.contains(word)) {
        Some("looks like a placeholder")
    } else {
        None
    }
}

/// Whether `text` can name an environment variable in any shell.
pub(super) fn is_variable_name(text: &str) -> bool {
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    plain && text.len() <= 128 && !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit())
}

fn scopes(section: &Section<'_>) -> Vec<Scope> {
    let Some(items) = section.texts("scopes", 8) else { return vec![Scope::Inference, Scope::Read] };
    if items.is_empty() {
        section.fault("scopes", "is empty", "at least one of inference, read, admin");
    }
    let parsed = items.iter().filter_map(|item| {
        let scope = Scope::ALL.into_iter().find(|scope| scope.as_str() == item.text);
        if scope.is_none() {
            item.fault("is not a scope", "inference, read, admin");
        }
        scope
    });
    parsed.collect()
}

fn expiry(section: &Section<'_>) -> Option<DateTime<Utc>> {
    let text = match section.any("expires_at")? {
        Value::Date(date) => date.to_string(),
        Value::Text(text) => text.clone(),
        _ => String::new(),
    };
    let moment = DateTime::parse_from_rfc3339(&text).map(|moment| moment.to_utc()).ok();
    let midnight = |date: NaiveDate| date.and_time(NaiveTime::MIN).and_utc();
    let moment = moment.or_else(|| text.parse().ok().map(midnight));
    if moment.is_none() {
        let allowed = "a date such as 2027-01-31, or a moment with its offset such as 2027-01-31T12:00:00Z";
        section.fault("expires_at", "is not a moment", allowed);
    }
    moment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_round_trip_through_hexadecimal() {
        let digest = digest_of("abc");
        assert_eq!(to_hex(&digest), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(from_hex(&to_hex(&digest)), Some(digest));
        assert_eq!(from_hex("ba78"), None);
    }

    #[test]
    fn keys_in_clear_must_be_long_visible_and_no_placeholder() {
        let strong = "sk-team-v1-0f3a9c7be2";
        for (key, weak) in [
            (strong, false),
            ("short", true),
            ("sk-your-key-goes-here", true),
            ("aaaaaaaaaaaaaaaaaaaaaaaa", true),
            ("0123456789 0123456789", true),
            ("CHANGEME-CHANGEME-CHANGEME", true),
        ] {
            assert_eq!(weakness(key).is_some(), weak, "{key}");
        }
    }
}
