//! Makes a provider's text safe to show: without secrets and control characters, cut to a maximum length.
//!
//! Ids, names and error texts of a provider may hold anything, including the key that it was called with. All text of a
//! provider passes through here before it is shown or logged.

use pointsman_base::secret::Secret;

/// Replaces a secret.
const MASK: &str = "***";

/// Shortest secret to search for, in bytes. A shorter one could occur in ordinary text.
const MIN_SECRET_LENGTH: usize = 4;

/// Prefixes of keys of popular providers, each with the least number of characters that follow in a key.
const KEY_PREFIXES: [(&str, usize); 9] = [
    ("sk-", 4),
    ("sk_", 12),
    ("gsk_", 12),
    ("xai-", 12),
    ("hf_", 12),
    ("pplx-", 12),
    ("fw_", 12),
    ("AIza", 24),
    ("ya29.", 12),
];

/// Least number of characters after `Bearer` in a token; fewer are an ordinary word.
const MIN_TOKEN_LENGTH: usize = 8;

/// Removes the configured secrets, and text that looks like a key.
#[derive(Debug, Default)]
pub struct Redactor {
    /// Longest first, so that a secret that starts with another one is masked completely.
    secrets: Vec<Secret>,
}

impl Redactor {
    /// Removes these secrets, also as escaped in JSON strings.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Redactor {
        let mut known: Vec<Secret> = Vec::new();
        for secret in secrets.into_iter().filter(|secret| secret.expose().len() >= MIN_SECRET_LENGTH) {
            known.extend(escaped(&secret));
            known.push(secret);
        }
        known.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        Redactor { secrets: known }
    }

    /// `text` without control characters and secrets, cut to at most `limit` bytes.
    ///
    /// Line breaks and tabs become spaces, so that JSON stays JSON.
    pub fn clean(&self, text: &str, limit: usize) -> String {
        // Control characters are removed first, because one inside a secret would hide it.
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

/// `secret` as escaped in a JSON string; `None` if that is the same.
fn escaped(secret: &Secret) -> Option<Secret> {
    let quoted = serde_json::to_string(secret.expose()).ok()?;
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    (inner != secret.expose()).then(|| Secret::from(inner))
}

fn printable(character: char) -> Option<char> {
    match character {
        '\n' | '\r' | '\t' => Some(' '),
        // Characters that reorder or hide the text around them.
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => None,
        character => (!character.is_control()).then_some(character),
    }
}

/// Masks everything that looks like a key or a bearer token.
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

/// If a key begins at the start of `text`: how many bytes of it may be shown, and its length.
fn key_at(text: &str) -> Option<(usize, usize)> {
    for (prefix, shortest) in KEY_PREFIXES {
        let Some(tail) = text.strip_prefix(prefix) else { continue };
        let length = token_length(tail);
        if length >= shortest {
            return Some((0, prefix.len() + length));
        }
    }
    // Providers show some characters of a key around a mask of their own.
    let length = token_length(text);
    if text.get(..length).is_some_and(|run| run.contains("**")) || is_shortened_key(text, length) {
        let ellipsis = text.get(length..).is_some_and(|rest| rest.starts_with('…'));
        let tail = text
            .get(length + '…'.len_utf8()..)
            .filter(|_| ellipsis)
            .map_or(0, |rest| '…'.len_utf8() + token_length(rest));
        return Some((0, length + tail));
    }
    let scheme = "bearer ".len();
    let begins = text.get(..scheme).is_some_and(|word| word.eq_ignore_ascii_case("bearer "));
    let length = token_length(text.get(scheme..).filter(|_| begins)?);
    (length >= MIN_TOKEN_LENGTH).then_some((scheme, scheme + length))
}

/// Whether a key begins here that is shortened with dots: `sk-...abcd`.
fn is_shortened_key(text: &str, length: usize) -> bool {
    let (run, rest) = text.split_at_checked(length).unwrap_or((text, ""));
    let is_key = KEY_PREFIXES.iter().any(|(prefix, _)| run.starts_with(prefix));
    let dots = run.split_once("...").is_some_and(|(_, tail)| tail.starts_with(|c: char| c.is_ascii_alphanumeric()));
    is_key && (dots || rest.starts_with('…'))
}

/// Number of bytes at the start that can belong to a token.
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
    fn configured_secrets_are_masked_everywhere() {
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
        check("Incorrect API key provided: sk***gA. You can", "Incorrect API key provided: *** You can");
        check("key xai-***, sk-…abcd, sk-...abcd and ****1a2b are wrong", "key ***, ***, *** and *** are wrong");
        check("wait... what?", "wait... what?");
    }

    #[test]
    fn words_that_only_resemble_keys_stay() {
        check("risk-averse desk-top task-force", "risk-averse desk-top task-force");
        check("the bearer of this letter", "the bearer of this letter");
        check("sk- sk", "sk- sk");
    }

    #[test]
    fn control_and_invisible_characters_are_removed() {
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
