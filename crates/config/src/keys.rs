//! API keys of callers: `[[keys]]`.
//!
//! Only digests leave this module. A key in an environment variable is checked for length and placeholders, and hashed.

use std::{cell::RefCell, fmt, sync::Arc};

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use pointsman_domain::{ModelPattern, Objective, QualityFloor, SpendLimit, Task, UnknownQuality};
use sha2::{Digest, Sha256};

use super::{
    accounts::{is_account_name, spend_limit},
    admin::AdminConfig,
    aliases::patterns,
    auth::{AuthConfig, AuthMode, DEVELOPMENT_KEY},
    environment::Environment,
    limits::LimitsConfig,
    quality,
    section::{Section, words},
    server::ServerConfig,
};

/// Longest list of keys.
const MAX_KEYS: usize = 10_000;
/// Longest list of providers of a key.
const MAX_PROVIDERS: usize = 250;
/// Most aliases of a key.
const MAX_ALIASES: usize = 250;
const MIN_KEY_LENGTH: usize = 16;
const MAX_KEY_LENGTH: usize = 512;

pointsman_domain::named! {
    /// Permission of a key.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Scope {
        /// Chat completions, images, route preview.
        Inference = "inference",
        /// Explanations, health of providers, metrics.
        Read = "read",
        /// Administration, and the records of all keys.
        Admin = "admin",
        /// Ratings of answers; part of `inference`.
        Feedback = "feedback",
    }
}

impl Scope {
    /// The scope with this name.
    pub fn parse(name: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| scope.as_str() == name)
    }
}

/// The SHA-256 digest of a key.
pub fn digest_of(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// Parses a digest of 64 hexadecimal digits.
pub fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    hex::decode_to_slice(text, &mut digest).ok()?;
    Some(digest)
}

settings! {
    /// API keys of callers, one `[[keys]]` each. `pointsman keygen` generates a key and prints the lines for this
    /// file. The file never contains the key itself.
    #[derive(Clone, PartialEq)]
    pub struct Key read(section, name: &str, limits: &LimitsConfig) {
        /// Label, for logs and records.
        pub name: Arc<str> => name.into(),
        /// SHA-256 digest of the key.
        pub sha256: [u8; 32] => [0; 32],
        /// `read`: explanations and health; `admin`: `[admin]` and all records, implies `read`; `feedback`: ratings of answers, part of
        /// `inference`.
        pub scopes: Vec<Scope> = with(scopes)
            [default = "[\"inference\", \"read\"]", allowed = "`inference`, `read`, `admin`, `feedback`"],
        /// Time from which the key is refused.
        pub expires_at: Option<DateTime<Utc>> = with(expiry) [absent = "never", kind = "date or time"],
        /// Whether the key is refused. Its records are kept.
        pub disabled: bool = flag_or(false),
        /// Models that the key may use; empty: all. Requests cannot add models.
        pub allowed_models: Vec<ModelPattern> = with(patterns) [allowed = "ids, and prefixes such as `acme/*`"],
        /// Models that the key may not use.
        pub blocked_models: Vec<ModelPattern> = with(patterns) [allowed = "ids, and prefixes such as `acme/*`"],
        /// 0: no limit.
        pub requests_per_minute: Option<u32> = ceiling_from(limits.key_requests_per_minute)
            [unit = "requests", absent = "`limits.key_requests_per_minute`"],
        /// Calls in progress; 0: no limit.
        pub concurrency: Option<u32> = ceiling_from(limits.key_concurrency)
            [unit = "requests", absent = "`limits.key_concurrency`"],
        /// Prompt and answer together: estimated when a request is admitted, corrected when it ends. 0: no limit.
        pub tokens_per_minute: Option<u32> = ceiling_from(limits.key_tokens_per_minute)
            [unit = "tokens", absent = "`limits.key_tokens_per_minute`"],
        /// Limit of spending; `None` means no limit.
        pub spend: Option<SpendLimit> => spend_limit(section),
        /// Account of the key: keys of one account share its records and limits. The name need not have an entry in
        /// `[[accounts]]`.
        pub account: Option<Arc<str>> = with(account) [absent = "the account of the key's own name"],
        /// Providers that the key may use; empty: all.
        pub allowed_providers: Vec<String> = with(providers) [allowed = "slugs, `slug/variant`, display names"],
        /// Providers that the key may not use.
        pub blocked_providers: Vec<String> = with(providers) [allowed = "slugs, `slug/variant`, display names"],
        /// Objective of requests that name none.
        pub objective: Option<Objective> = choice(&words(Objective::ALL, Objective::as_str)) [absent = "that of the alias, else `routing.objective`"],
        /// Class of the tasks, whose quality counts. `metadata.task` of a request goes before it.
        pub task: Option<Task> = choice(&words(Task::ALL, Task::as_str)) [absent = "that of the alias, else found from the request"],
        /// Least quality of requests whose alias names none: the mean, or with `{ p10 = 0.7 }` the lower tenth.
        pub min_quality: Option<QualityFloor> = with(quality::floor)
            [absent = "none", kind = "number or table", allowed = "0 to 1, or `p10`"],
        /// What `min_quality` does with endpoints without a score and ratings.
        pub quality_unknown: Option<UnknownQuality> = choice(&words(UnknownQuality::ALL, UnknownQuality::as_str)) [absent = "`exclude`"],
        /// Whether choices of this key may be drawn at random to learn from (`[routing.explore]`).
        pub explore: bool = flag_or(true),
        /// Names that mean a model or an alias in requests of this key, such as `{ fast = "acme/small" }`. They go
        /// before models, aliases and names of providers, at every door.
        pub aliases: Vec<(String, String)> = with(aliases)
            [absent = "none", kind = "table", allowed = "name = model id or alias"],
    }
}

impl Key {
    /// Name of the administrator's key that is generated at start.
    pub const STARTUP_KEY_NAME: &'static str = "admin-of-this-start";

    /// The key of all callers when no key is required. It never has the scope `admin`.
    pub fn anonymous() -> Key {
        Section::absent(|section| Key::read(section, "anonymous", &LimitsConfig::default()))
    }

    /// The administrator's key that is generated at start when the configuration has none, with what else it may do.
    pub fn startup_key(sha256: [u8; 32], more: &[Scope]) -> Key {
        let scopes = [&[Scope::Admin], more].concat();
        Key { name: Arc::from(Key::STARTUP_KEY_NAME), sha256, scopes, ..Key::anonymous() }
    }

    /// Name of the account that it belongs to.
    pub fn account_name(&self) -> Arc<str> {
        Arc::clone(self.account.as_ref().unwrap_or(&self.name))
    }

    /// The target of the alias with this name, else the name itself.
    pub fn meant<'n>(&'n self, name: &'n str) -> &'n str {
        self.aliases.iter().find(|(alias, _)| alias == name).map_or(name, |(_, target)| target)
    }

    /// Whether no other key may have this name: those of the startup key and of callers without a key.
    pub fn is_reserved(name: &str) -> bool {
        [Key::STARTUP_KEY_NAME, "anonymous"].contains(&name)
    }

    /// Whether it is accepted: neither disabled nor expired.
    pub fn is_in_force(&self, now: DateTime<Utc>) -> bool {
        !self.disabled && self.expires_at.is_none_or(|end| now < end)
    }

    fn development(limits: &LimitsConfig) -> Key {
        Key {
            name: Arc::from("development"),
            sha256: digest_of(DEVELOPMENT_KEY),
            requests_per_minute: limits.key_requests_per_minute,
            concurrency: limits.key_concurrency,
            tokens_per_minute: limits.key_tokens_per_minute,
            ..Key::anonymous()
        }
    }
}

/// Leaves the digest out.
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
            .field("tokens_per_minute", &self.tokens_per_minute)
            .field("spend", &self.spend)
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}

/// All keys, and notes about keys that cannot be used.
#[derive(Debug, Default)]
pub(super) struct KeyTable {
    pub(super) entries: Vec<Key>,
    /// Sentences about keys whose variable is not set.
    pub(super) absent: Vec<String>,
}

/// Settings that a key's table is checked against.
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
        let read = root.sections("keys", MAX_KEYS, |section| {
            let entry = read_key(section, context);
            if let Ok(entry) = &entry {
                refuse_duplicates(section, entry, &mut seen.borrow_mut());
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

/// Reads one `[[keys]]` table.
///
/// # Errors
/// A sentence when the variable of the key is not set, which is no fault; `None` when a fault was reported.
fn read_key(section: &Section<'_>, context: &KeyContext<'_>) -> Result<Key, Option<String>> {
    keys! { section:
        /// Name in logs and records; unique.
        name = required("a label for logs and records"),
        /// The SHA-256 of the key.
        sha256 = text() [absent = "this or `env`", allowed = "64 hexadecimal digits"],
        /// The variable that holds the key: 16 to 512 visible ASCII characters; text that looks like a placeholder is
        /// refused.
        env = text() [absent = "this or `sha256`", allowed = "name of a variable"],
    }
    let name = name.unwrap_or("?");
    let digest = digest(section, (sha256, env), name, context);
    let entry = Key::read(section, name, context.limits);
    let is_admin = entry.scopes.contains(&Scope::Admin);
    if is_admin && digest.as_ref().is_ok_and(|digest| *digest == digest_of(DEVELOPMENT_KEY)) {
        let wrong = "has admin, but the key is the public development key";
        section.fault(
            "scopes",
            wrong,
            "inference and read; a key of your own for admin ('pointsman keygen' makes one)",
        );
    }
    digest.map(|sha256| Key { sha256, ..entry })
}

fn digest(
    section: &Section<'_>,
    sources: (Option<&str>, Option<&str>),
    name: &str,
    context: &KeyContext<'_>,
) -> Result<[u8; 32], Option<String>> {
    const ONE_OF: &str = "either sha256 = \"<64 hexadecimal digits>\" (make one with 'pointsman keygen') or \
                          env = \"NAME_OF_A_VARIABLE\" that holds the key";
    for key in ["key", "secret", "token"] {
        section.refuse(key, "a key must not be in this file", ONE_OF);
    }
    match sources {
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
            section.fault("env", "is set together with sha256", ONE_OF);
            Err(None)
        }
        (None, None) if ["sha256", "env", "key", "secret", "token"].iter().any(|key| section.has(key)) => Err(None),
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
        let allowed = "letters, digits and underscores, not beginning with a digit; never the key itself";
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
        let allowed = "16 to 512 visible ASCII characters that cannot be guessed; 'pointsman keygen' makes one";
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

fn refuse_duplicates(section: &Section<'_>, entry: &Key, seen: &mut Vec<(String, [u8; 32])>) {
    if &*entry.name == Key::STARTUP_KEY_NAME {
        let wrong = "is reserved for the administrator's key that is generated at start";
        section.fault("name", wrong, "another name");
    }
    if section.has("name") && seen.iter().any(|(name, _)| **name == *entry.name) {
        section.fault("name", format!("'{}' is used twice", entry.name), "a name of its own for each key");
    }
    if let Some((other, _)) = seen.iter().find(|(_, digest)| *digest == entry.sha256) {
        let key = if section.has("sha256") { "sha256" } else { "env" };
        section.fault(key, format!("is the same key as '{other}'"), "a key of its own for each name");
    }
    seen.push((entry.name.to_string(), entry.sha256));
}

/// Why a key is too weak, if it is.
fn weakness(key: &str) -> Option<&'static str> {
    const PLACEHOLDERS: [&str; 10] =
        ["changeme", "change-me", "change_me", "placeholder", "your-", "your_", "example", "xxxx", "replace", "insert"];
    let lower = key.to_ascii_lowercase();
    let mut distinct: Vec<u8> = key.bytes().collect();
    distinct.sort_unstable();
    distinct.dedup();
    if key.trim().len() < key.len() && key.trim().bytes().all(|b| b.is_ascii_graphic()) {
        Some("begins or ends with a blank or a line break")
    } else if !key.bytes().all(|b| b.is_ascii_graphic()) {
        Some("has characters other than visible ASCII")
    } else if key.len() < MIN_KEY_LENGTH {
        Some("is shorter than 16 characters")
    } else if key.len() > MAX_KEY_LENGTH {
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

fn account(section: &Section<'_>, key: &'static str) -> Option<Arc<str>> {
    let account = section.text(key);
    if account.is_some_and(|account| !is_account_name(account)) {
        section.fault(key, "is not a name", "1 to 128 visible characters");
    }
    account.map(Arc::from)
}

fn providers(section: &Section<'_>, key: &'static str) -> Vec<String> {
    section.texts(key, MAX_PROVIDERS).unwrap_or_default().iter().map(|item| item.text.to_owned()).collect()
}

/// Whether a text can be the name or the target of an alias of a key.
pub fn is_alias_text(text: &str) -> bool {
    !text.trim().is_empty() && text.chars().count() <= 256 && !text.chars().any(char::is_control)
}

fn aliases(section: &Section<'_>, key: &'static str) -> Vec<(String, String)> {
    let pairs = section.pairs(key, MAX_ALIASES).into_iter();
    let read = pairs.map(|(name, item)| {
        match is_alias_text(name) && is_alias_text(item.text) {
            true => item.names_model(true),
            false => item.fault(
                "is not a name and what it means",
                "1 to 256 characters each, not only spaces, such as fast = \"acme/small\"",
            ),
        }
        (name.to_owned(), item.text.to_owned())
    });
    read.collect()
}

fn scopes(section: &Section<'_>, key: &'static str) -> Vec<Scope> {
    let Some(items) = section.texts(key, 8) else { return vec![Scope::Inference, Scope::Read] };
    if items.is_empty() {
        section.fault(key, "is empty", "at least one of inference, read, admin, feedback");
    }
    items.iter().filter_map(|item| item.named("not a scope", Scope::ALL, Scope::as_str)).collect()
}

pub(super) fn expiry(section: &Section<'_>, key: &'static str) -> Option<DateTime<Utc>> {
    let text = section.time_text(key)?;
    let time = DateTime::parse_from_rfc3339(&text).map(|time| time.to_utc()).ok();
    let midnight = |date: NaiveDate| date.and_time(NaiveTime::MIN).and_utc();
    let time = time.or_else(|| text.parse().ok().map(midnight));
    if time.is_none() {
        let allowed = "a date such as 2027-01-31, or a time with its offset such as 2027-01-31T12:00:00Z";
        section.fault(key, "is not a date or time", allowed);
    }
    time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_round_trip_through_hexadecimal() {
        let digest = digest_of("abc");
        assert_eq!(hex::encode(digest), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(from_hex(&hex::encode(digest)), Some(digest));
        assert_eq!(from_hex("ba78"), None);
    }

    #[test]
    fn keys_in_variables_must_be_long_visible_and_no_placeholder() {
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
