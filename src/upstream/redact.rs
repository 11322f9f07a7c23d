//! Makes a provider's text safe to show: no secrets, no control characters, no more than so many bytes.
//!
//! Ids, names and error texts of a provider are data that may hold anything, our own key included. Whatever is shown
//! or logged of them passes through here first.

use crate::base::secret::Secret;

/// What stands where a secret stood.
const MASK: &str = "***";

/// A secret shorter than this is not searched for: it would be found in every other word.
const SHORTEST_SECRET: usize = 4;

/// How keys begin that popular providers issue, and how many further characters make it one.
const KEY_PREFIXES: [(&str, usize); 8] =
    [("sk-", 4), ("sk_", 12), ("gsk_", 12), ("xai-", 12), ("hf_", 12), ("pplx-", 12), ("fw_", 12), ("AIza", 24)];

/// Fewest characters after `Bearer` that look like a token and not like the next word.
const SHORTEST_TOKEN: usize = 8;

/// Knows every configured secret, and what keys in general look like.
#[derive(Debug, Default)]
pub struct Redactor {
    /// Longest first, so that a secret that begins like another one goes whole.
    secrets: Vec<Secret>,
}

impl Redactor {
    /// Knows these secrets, and how they look inside JSON strings.
    #[must_use]
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Redactor {
        let mut known: Vec<Secret> = Vec::new();
        for secret in secrets.into_iter().filter(|secret| secret.expose().len() >= SHORTEST_SECRET) {
            known.extend(escaped(&secret));
            known.push(secret);
        }
        known.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        Redactor { secrets: known }
    }

    /// `text` without control characters and secrets, cut to at most `limit` bytes.
    ///
    /// Line breaks and tabs become spaces, so that JSON stays JSON.
    #[must_use]
    pub fn clean(&self, text: &str, limit: usize) -> String {
        // Control characters go first: a secret must not hide behind one that stands in its middle.
        let mut text: String = text.chars().filter_map(printable).collect();
        for secret in &self.secrets {
            if text.contains(secret.expose()) {
                text = text.replace(secret.expose(), MASK);
            }
        }
        let mut text = mask_keys(&text);
        text.truncate(text.floor_char_boundary(limit));
        text
    }
}

/// How `secret` reads inside a JSON string, where that differs.
fn escaped(secret: &Secret) -> Option<Secret> {
    let quoted = serde_json::to_string(secret.expose()).ok()?;
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    (inner != secret.expose()).then(|| Secret::from(inner))
}

fn printable(character: char) -> Option<char> {
    match character {
        '\n' | '\r' | '\t' => Some(' '),
        // Marks that reorder or hide the text around them are as harmful in a log as control characters.
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => None,
        character => (!character.is_control()).then_some(character),
    }
}

/// `text` with everything masked that looks like a key or a bearer token.
fn mask_keys(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    let mut within_word = false;
    while let Some(character) = rest.chars().next() {
        let key = if within_word { None } else { key_at(rest) };
        let (kept, taken) = key.unwrap_or((character.len_utf8(), character.len_utf8()));
        clean.push_str(rest.get(..kept).unwrap_or_default());
        if key.is_some() {
            clean.push_str(MASK);
        }
        within_word = key.is_some() || character.is_alphanumeric();
        rest = rest.get(taken..).unwrap_or_default();
    }
    clean
}

/// Whether a key begins here: how many bytes of it may be shown, and how long it is.
fn key_at(text: &str) -> Option<(usize, usize)> {
    for (prefix, shortest) in KEY_PREFIXES {
        let Some(tail) = text.strip_prefix(prefix) else { continue };
        let length = token_length(tail);
        if length >= shortest {
            return Some((0, prefix.len() + length));
        }
    }
    let scheme = "bearer ".len();
    let begins = text.get(..scheme).is_some_and(|word| word.eq_ignore_ascii_case("bearer "));
    let length = token_length(text.get(scheme..).filter(|_| begins)?);
    (length >= SHORTEST_TOKEN).then_some((scheme, scheme + length))
}

/// How many bytes from the start could belong to a token.
fn token_length(text: &str) -> usize {
    let part_of_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=*".contains(byte);
    text.bytes().take_while(part_of_token).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let redactor = Redactor::new([Secret::from("hunter2!/x\"y"), Secret::from("hunter2!"), Secret::from("x")]);
        assert_eq!(redactor.clean(text, 200), expected);
    }

    #[test]
    fn configured_secrets_are_masked_wherever_they_stand() {
        check("key hunter2! is wrong: hunter2!!", "key *** is wrong: ***!");
        check("the longer hunter2!/x\"y goes whole", "the longer *** goes whole");
        check(r#"{"key":"hunter2!/x\"y"}"#, r#"{"key":"***"}"#);
        check("a secret of one letter, such as x, is left alone", "a secret of one letter, such as x, is left alone");
    }

    #[test]
    fn what_looks_like_a_key_is_masked() {
        check("Incorrect API key provided: sk-proj-abc_def*****wxyz.", "Incorrect API key provided: ***");
        check("Authorization: Bearer eyJhbGciOi.J9 was refused", "Authorization: Bearer *** was refused");
        check("(gsk_0123456789abcdef)", "(***)");
        check("\"sk-abcdef0123\",\"next\"", "\"***\",\"next\"");
    }

    #[test]
    fn words_that_only_resemble_keys_stay() {
        check("risk-averse desk-top task-force", "risk-averse desk-top task-force");
        check("the bearer of this letter", "the bearer of this letter");
        check("sk- sk", "sk- sk");
    }

    #[test]
    fn control_characters_and_hidden_marks_go() {
        check("a\u{0}b\u{1b}[31mc\u{202e}d\r\ne\tf", "ab[31mcd  e f");
        check("hunt\u{0}er2!", "***");
        check("sk-abc\u{200b}def", "***");
    }

    #[test]
    fn the_cut_never_splits_a_character() {
        assert_eq!(Redactor::default().clean("aéé", 4), "aé");
        assert_eq!(Redactor::default().clean("", 4), "");
    }
}
