//! Changes that a reload refuses without confirmation: removing authentication, and dropping all keys in force.
//!
//! A truncated configuration file, for example on a full disk, has exactly these effects. A start accepts such a file,
//! because an operator watches it.

use chrono::{DateTime, Utc};

use super::{
    Config,
    auth::{AuthMode, DEVELOPMENT_KEY},
    keys::{Key, digest_of},
};

/// Longest list of key names in a message.
const MAX_NAMED: usize = 5;
/// How to confirm the change.
const CONFIRM_HINT: &str = "set reload.allow_widening = true beside it if that is meant";

impl Config {
    /// The changes against `running` that a reload refuses, one sentence each. Empty when the configuration confirms them
    /// with `reload.allow_widening`.
    pub(super) fn widening_since(&self, running: &Config, now: DateTime<Utc>) -> Vec<String> {
        if self.reload.allow_widening {
            return Vec::new();
        }
        let refused =
            [self.removes_authentication(running), self.adds_public_key(running, now), self.drops_keys(running, now)];
        refused.into_iter().flatten().collect()
    }

    fn removes_authentication(&self, running: &Config) -> Option<String> {
        let opens = self.auth.mode == AuthMode::None && running.auth.mode != AuthMode::None;
        opens.then(|| format!("auth.mode: callers would no longer need a key; keep \"keys\", or {CONFIRM_HINT}"))
    }

    /// While no key is required, accepting the public key widens nothing.
    fn adds_public_key(&self, running: &Config, now: DateTime<Utc>) -> Option<String> {
        let is_open = |config: &Config| config.auth.mode == AuthMode::None || config.accepts_public_key(now);
        (self.accepts_public_key(now) && !is_open(running)).then(|| {
            format!(
                "auth.development_key_enabled: the public development key would be accepted, which it is not now; set it \
                 to false (true is its default) and leave that key out of [[keys]], or {CONFIRM_HINT}"
            )
        })
    }

    fn drops_keys(&self, running: &Config, now: DateTime<Utc>) -> Option<String> {
        let before: Vec<&Key> = running.own_keys(now).collect();
        let stays = |key: &&Key| before.iter().any(|known| known.sha256 == key.sha256);
        if before.is_empty() || self.own_keys(now).any(|key| stays(&key)) {
            return None;
        }
        let mut names: Vec<&str> = before.iter().take(MAX_NAMED).map(|key| &*key.name).collect();
        names.extend((before.len() > MAX_NAMED).then_some("…"));
        let names = names.join(", ");
        Some(format!(
            "keys: none of the keys in force ({names}) would stay in force; keep one until its callers have another, or \
             {CONFIRM_HINT}"
        ))
    }

    /// Whether the public development key is accepted.
    pub(super) fn accepts_public_key(&self, now: DateTime<Utc>) -> bool {
        let public = digest_of(DEVELOPMENT_KEY);
        self.auth.mode == AuthMode::Keys && self.keys.iter().any(|key| key.sha256 == public && key.is_in_force(now))
    }

    /// The keys in force without the public development key.
    fn own_keys(&self, now: DateTime<Utc>) -> impl Iterator<Item = &Key> {
        let public = digest_of(DEVELOPMENT_KEY);
        self.keys.iter().filter(move |key| key.sha256 != public && key.is_in_force(now))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::environment::Environment;

    const CLOSED: &str = "[auth]\ndevelopment_key_enabled = false\n";
    const NONE: &str = "[auth]\nmode = \"none\"\n";

    fn key(name: &str, more: &str) -> String {
        format!("[[keys]]\nname = \"{name}\"\nsha256 = \"{}\"\n{more}\n", hex::encode(digest_of(name)))
    }

    fn config(toml: &str) -> Config {
        let text = format!("{toml}\n[simulation]\nmode = \"off\"\n");
        Config::parse(&text, "test", Path::new("."), &Environment::default()).unwrap()
    }

    /// Checks which keys the sentences begin with.
    #[track_caller]
    fn check(before: &str, after: &str, refused: &[&str]) {
        let sentences = config(after).widening_since(&config(before), Utc::now());
        let keys: Vec<&str> = sentences.iter().map(|sentence| sentence.split(':').next().unwrap()).collect();
        assert_eq!(keys, refused, "{before} -> {after}: {sentences:?}");
        let allowed = format!("{after}\n[reload]\nallow_widening = true");
        assert!(config(&allowed).widening_since(&config(before), Utc::now()).is_empty(), "{before} -> {after}");
    }

    #[test]
    fn a_truncated_file_is_refused_wherever_it_ends() {
        let whole = format!("{CLOSED}{}{}", key("one", ""), key("two", ""));
        check(&whole, "[limits]\nmax_n = 3", &["auth.development_key_enabled", "keys"]);
        check(&whole, CLOSED, &["keys"]);
        check(&whole, &key("one", ""), &["auth.development_key_enabled"]);
        check(&key("one", ""), "[limits]\nmax_n = 3", &["keys"]);
    }

    #[test]
    fn changes_of_keys_and_scopes_and_disabling_the_development_key_are_allowed() {
        let one = key("one", "");
        check(&format!("{CLOSED}{one}"), &format!("{CLOSED}{one}{}", key("two", "scopes = [\"admin\"]")), &[]);
        check(&format!("{CLOSED}{one}"), &format!("{CLOSED}{}", key("one", "scopes = [\"admin\", \"read\"]")), &[]);
        check(&format!("{CLOSED}{one}{}", key("two", "")), &format!("{CLOSED}{one}"), &[]);
        check("", &format!("{CLOSED}{one}"), &[]);
        check("", CLOSED, &[]);
        check("", "[limits]\nmax_n = 3", &[]);
    }

    #[test]
    fn a_reload_may_add_authentication_and_not_remove_it() {
        let one = key("one", "");
        check(&one, &format!("{NONE}{one}"), &["auth.mode"]);
        check("", NONE, &["auth.mode"]);
        check(&format!("{CLOSED}{one}"), NONE, &["auth.mode", "keys"]);
        check(&format!("{NONE}{one}"), &one, &[]);
        check(NONE, "", &[]);
    }

    #[test]
    fn disabled_and_expired_keys_count_neither_as_kept_nor_as_dropped() {
        let off = key("off", "disabled = true");
        let over = key("over", "expires_at = 2020-01-01");
        check(&format!("{CLOSED}{off}{over}"), CLOSED, &[]);
        let one = key("one", "");
        check(
            &format!("{CLOSED}{one}{off}"),
            &format!("{CLOSED}{}{off}{over}", key("one", "disabled = true")),
            &["keys"],
        );
        check(&format!("{CLOSED}{one}"), &format!("{CLOSED}{}", key("two", "")), &["keys"]);
    }

    #[test]
    fn the_development_key_under_another_name_is_the_development_key() {
        let sly = format!("[[keys]]\nname = \"sly\"\nsha256 = \"{}\"\n", hex::encode(digest_of(DEVELOPMENT_KEY)));
        let one = key("one", "");
        check(&format!("{CLOSED}{one}"), &format!("{CLOSED}{one}{sly}"), &["auth.development_key_enabled"]);
        check(&format!("{CLOSED}{one}{sly}"), &format!("{CLOSED}{sly}"), &["keys"]);
    }
}
