//! The words of a message: without what it quotes, compared with the patterns of the table.

/// Most characters of a message that are compared.
const MOST: usize = 600;

/// A message prepared for comparison.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// In lower case, each quoted part as `''`, the upstream name of the model as `{model}`.
    pub text: String,
    /// What was quoted, but the name of the model.
    pub quoted: Vec<String>,
    /// The upstream name of the model, as [`plain`] gives it.
    pub model: String,
}

/// Words before the name of a model.
const BEFORE_MODELS: &[&str] = &["model", "models", "for", "found:", "id"];
/// What may follow a pattern of a row that closes something: the sentence, or its main part, ends there. What goes on says
/// under which conditions it holds, and those may be conditions of one request.
const ENDS: &[char] = &['.', '!', '?', ';', '<', '。', '；'];
/// The same, if a number follows: the provider's code.
const BEFORE_CODES: &[char] = &['(', '[', '（'];

/// `text` in lower case, with single spaces and plain quotes.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            c if c.is_whitespace() => {
                if !plain.is_empty() && !plain.ends_with(' ') {
                    plain.push(' ');
                }
            }
            '\u{201c}' | '\u{201d}' => plain.push('"'),
            '\u{2018}' | '\u{2019}' => plain.push('\''),
            c => plain.extend(c.to_lowercase()),
        }
    }
    plain.truncate(plain.trim_end().len());
    plain
}

impl Words {
    pub(super) fn new(message: &str, model: &str) -> Words {
        let message: String = plain(message).chars().take(MOST).collect();
        let model = plain(model);
        let named = with_model(&message, &model);
        Words { model, ..without_quotes(&named) }
    }

    /// Whether the text follows a pattern from its beginning. The end is free, unless the pattern ends with `$`.
    pub(super) fn follow(&self, pattern: &str) -> bool {
        follows(pattern, &self.text)
    }

    /// The same, but the sentence must end where the pattern ends, unless that is with `*`.
    pub(super) fn follow_to_the_end(&self, pattern: &str) -> bool {
        let Some(rest) = rest_behind(pattern, &self.text) else { return false };
        let rest = rest.trim_start();
        let is_before_code =
            || rest.strip_prefix(BEFORE_CODES).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        pattern.ends_with('*') || rest.is_empty() || rest.starts_with(ENDS) || is_before_code()
    }

    /// Whether the message is about another model than the upstream one.
    pub(super) fn name_another_model(&self) -> bool {
        if self.text.contains("{model}") {
            return false;
        }
        let mut quoted = self.quoted.iter();
        let mut before = "";
        for word in self.text.split(' ') {
            let quotes = word.matches("''").count();
            let inner = quoted.by_ref().take(quotes).last().map(String::as_str);
            let name = inner.unwrap_or_else(|| word.trim_matches(|c: char| !c.is_alphanumeric()));
            let is_name = match inner {
                Some(name) => !name.is_empty() && !name.contains(' ') && (before == "model" || has_form_of_id(name)),
                None => has_form_of_id(name),
            };
            let is_same = !self.model.is_empty() && name.contains(&self.model);
            let cue = before.trim_end_matches(':');
            if is_name && !is_same && (BEFORE_MODELS.contains(&before) || BEFORE_MODELS.contains(&cue)) {
                return true;
            }
            before = word;
        }
        false
    }
}

/// Replaces the name of the model where it stands as a word of its own, with a path before it or not.
fn with_model(message: &str, model: &str) -> String {
    if model.is_empty() {
        return message.to_owned();
    }
    let mut text = String::with_capacity(message.len());
    let mut rest = message;
    while let Some((before, after)) = rest.split_once(model) {
        text.push_str(before);
        let in_word = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '@');
        let continues = |c: char| in_word(c) || matches!(c, '.' | ':' | '/');
        let mut following = after.chars();
        let goes_on = following.next().is_some_and(|next| {
            in_word(next) || (continues(next) && following.next().is_some_and(char::is_alphanumeric))
        });
        let is_word = !text.ends_with(in_word) && !goes_on;
        text.push_str(if is_word { "{model}" } else { model });
        rest = after;
    }
    text.push_str(rest);
    text
}

/// Takes quoted parts out. A quote begins where a word may begin and ends where one may end, so that `isn't` holds none.
fn without_quotes(message: &str) -> Words {
    let mut words = Words::default();
    let mut rest = message;
    while let Some(character) = rest.chars().next() {
        let after = rest.get(character.len_utf8()..).unwrap_or_default();
        let begins = matches!(character, '\'' | '"' | '`') && !words.text.ends_with(char::is_alphanumeric);
        let end = if begins { end_of_quote(after, character) } else { None };
        match end.and_then(|end| after.split_at_checked(end)) {
            Some((quoted, tail)) => {
                let is_model = quoted.ends_with("{model}") && !quoted.contains(' ');
                if is_model {
                    words.text.push_str("{model}");
                } else {
                    words.text.push_str("''");
                    words.quoted.push(quoted.to_owned());
                }
                rest = tail.get(1..).unwrap_or_default();
            }
            None => {
                words.text.push(character);
                rest = after;
            }
        }
    }
    words
}

/// A text as [`plain`] gives it, without what it quotes.
pub(super) fn unquoted(text: &str) -> String {
    without_quotes(text).text
}

/// Where the quote ends that has begun before `text`.
fn end_of_quote(text: &str, quote: char) -> Option<usize> {
    let ends = |at: &usize| !text.get(at + 1..).is_some_and(|after| after.starts_with(char::is_alphanumeric));
    text.match_indices(quote).map(|(at, _)| at).find(ends)
}

/// Whether a word looks like the name of a model: letters, a figure, and a sign between.
fn has_form_of_id(word: &str) -> bool {
    let has = |test: fn(char) -> bool| word.chars().any(test);
    has(char::is_alphabetic) && has(|c| c.is_ascii_digit()) && has(|c| matches!(c, '-' | '/' | ':' | '.' | '_'))
}

/// Whether `text` follows `pattern` from its beginning.
pub(super) fn follows(pattern: &str, text: &str) -> bool {
    rest_behind(pattern, text).is_some()
}

/// What stands in `text` behind what follows `pattern`. `None` if it does not follow it.
fn rest_behind<'t>(pattern: &str, text: &'t str) -> Option<&'t str> {
    let (pattern, is_whole) = pattern.strip_suffix('$').map_or((pattern, false), |pattern| (pattern, true));
    let mut parts = pattern.split('*');
    let mut rest = parts.next().and_then(|first| text.strip_prefix(first))?;
    for part in parts {
        rest = rest.split_once(part)?.1;
    }
    (!is_whole || rest.trim_end_matches(['.', '!']).is_empty()).then_some(rest)
}

/// Whether a code is that of the table, where `*` stands for any text.
pub(super) fn is_code(pattern: &str, code: &str) -> bool {
    if !pattern.contains('*') {
        return pattern == code;
    }
    let whole = !pattern.ends_with('*');
    follows(pattern, code) && (!whole || pattern.rsplit('*').next().is_some_and(|last| code.ends_with(last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_parts_of_a_message_are_taken_out() {
        let check = |message: &str, text: &str| assert_eq!(Words::new(message, "acme-1").text, text, "{message}");
        check("Unknown parameter: 'invalid_api_key'.", "unknown parameter: ''.");
        check("The model `acme-1` isn't  here", "the model {model} isn't here");
        check("models/acme-1 is not found", "models/{model} is not found");
        check("\"publishers/google/models/acme-1\" was not found", "{model} was not found");
        check(
            "acme-10 and acme-1-mini and acme-1.5 and my-acme-1",
            "acme-10 and acme-1-mini and acme-1.5 and my-acme-1",
        );
        check("The model 'the model acme-1 does not exist' x", "the model '' x");
        check("‘a’ “b” `c` 'd", "'' '' '' 'd");
        check("User's 'it's' value", "user's '' value");
    }

    #[test]
    fn patterns_are_anchored_at_the_beginning() {
        assert!(follows("a b", "a b c") && !follows("a b", "x a b"));
        assert!(follows("*a b*", "x a b c") && follows("a * c", "a b b c d") && !follows("a * c", "a b"));
        assert!(follows("done$", "done.") && !follows("done$", "done with it"));
        assert!(
            is_code("*limit*", "rate_limit_error")
                && is_code("billing*", "billing_error")
                && !is_code("billing", "billing_error")
        );
    }
}
