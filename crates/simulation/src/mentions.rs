//! Finds numbers, places, quoted words, dates and addresses in a user's text, for the arguments of tool calls.
//!
//! A simple heuristic: places are capitalised words after prepositions, other values are recognised by their format.

/// Values found in a text, each kind in the order of the text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Mentions {
    /// The text itself, on one line.
    pub(super) text: String,
    pub(super) numbers: Vec<f64>,
    pub(super) quoted: Vec<String>,
    pub(super) places: Vec<String>,
    pub(super) dates: Vec<String>,
    pub(super) emails: Vec<String>,
    pub(super) urls: Vec<String>,
}

/// Prepositions before places.
const PREPOSITIONS: [&str; 8] = ["in", "at", "near", "from", "to", "for", "of", "between"];

/// Prepositions before places in small letters ("in paris").
const STRONG_PREPOSITIONS: [&str; 2] = ["in", "near"];

/// Words after a preposition that are not places.
const NOT_PLACES: [&str; 20] = [
    "a", "an", "the", "my", "your", "our", "his", "her", "their", "this", "that", "these", "those", "it", "general",
    "english", "json", "order", "which", "what",
];

impl Mentions {
    /// Reads `text`.
    pub(super) fn of(text: &str) -> Mentions {
        let words: Vec<&str> = text.split_whitespace().collect();
        let trimmed = || words.iter().map(|word| word.trim_matches(is_punctuation));
        let owned = |wanted: fn(&str) -> bool| trimmed().filter(|word| wanted(word)).map(str::to_owned).collect();
        Mentions {
            text: words.join(" "),
            numbers: trimmed().filter_map(number).collect(),
            quoted: quoted(text),
            places: places(&words),
            dates: owned(is_date),
            emails: owned(is_email),
            urls: owned(is_url),
        }
    }

    /// Whether the text has `phrase` as whole words, in any case.
    pub(super) fn names(&self, phrase: &str) -> bool {
        let text = self.text.to_lowercase();
        let phrase = phrase.to_lowercase();
        !phrase.is_empty()
            && text.match_indices(&phrase).any(|(start, _)| {
                let before = text.get(..start).and_then(|head| head.chars().next_back());
                let after = text.get(start + phrase.len()..).and_then(|tail| tail.chars().next());
                ![before, after].into_iter().flatten().any(char::is_alphanumeric)
            })
    }
}

fn is_punctuation(c: char) -> bool {
    matches!(
        c,
        '.' | ',' | ';' | ':' | '!' | '?' | '(' | ')' | '[' | ']' | '"' | '\'' | '“' | '”' | '`' | '$' | '€' | '%'
    )
}

fn number(word: &str) -> Option<f64> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    digits.starts_with(|c: char| c.is_ascii_digit()).then(|| word.parse().ok())?
}

fn is_date(word: &str) -> bool {
    let shape = |(position, byte): (usize, u8)| match position {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    word.len() == 10 && word.bytes().enumerate().all(shape)
}

fn is_email(word: &str) -> bool {
    word.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.'))
}

fn is_url(word: &str) -> bool {
    word.starts_with("https://") || word.starts_with("http://")
}

/// Texts between quotation marks. An apostrophe inside a word is not a quotation mark.
fn quoted(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<(char, String)> = None;
    let mut previous = ' ';
    for c in text.chars() {
        match &mut open {
            Some((close, inside)) if c == *close => {
                found.push(std::mem::take(inside));
                open = None;
            }
            Some((_, inside)) => inside.push(c),
            None if previous.is_alphanumeric() => {}
            None => open = closing(c).map(|close| (close, String::new())),
        }
        previous = c;
    }
    found.retain(|inside| !inside.trim().is_empty());
    found
}

fn closing(opening: char) -> Option<char> {
    match opening {
        '"' | '\'' | '`' => Some(opening),
        '“' => Some('”'),
        '«' => Some('»'),
        _ => None,
    }
}

/// Runs of capitalised words after a preposition. "and" and commas separate places.
fn places(words: &[&str]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut rest = words;
    while let [word, after @ ..] = rest {
        rest = after;
        if PREPOSITIONS.contains(&word.to_lowercase().as_str()) {
            let (run, length) = place_run(after);
            if run.is_empty() {
                found.extend(small_place(word, after));
            }
            found.extend(run);
            rest = after.get(length..).unwrap_or_default();
        }
    }
    found
}

/// The places at the start of `words`, and the number of their words.
fn place_run(words: &[&str]) -> (Vec<String>, usize) {
    let mut found: Vec<String> = Vec::new();
    let mut place: Vec<&str> = Vec::new();
    let mut used = 0;
    for (position, word) in words.iter().enumerate() {
        let bare = word.trim_matches(is_punctuation);
        let joins = used > 0 && matches!(bare, "and" | "or" | "&" | "to");
        if !joins && !is_name(bare) {
            break;
        }
        if joins {
            found.extend(finished(&mut place));
            continue;
        }
        // "San Francisco, CA": two capitals after a comma belong to the name before them.
        let region = bare.len() == 2 && bare.bytes().all(|b| b.is_ascii_uppercase());
        match found.last_mut() {
            Some(last) if region && place.is_empty() => *last = format!("{last}, {bare}"),
            _ => place.push(bare),
        }
        used = position + 1;
        if word.ends_with(is_punctuation) {
            found.extend(finished(&mut place));
            if !word.ends_with(',') {
                break;
            }
        }
    }
    found.extend(finished(&mut place));
    (found, used)
}

fn finished(place: &mut Vec<&str>) -> Option<String> {
    let name = std::mem::take(place).join(" ");
    (!name.is_empty()).then_some(name)
}

fn is_name(word: &str) -> bool {
    let known = NOT_PLACES.contains(&word.to_lowercase().as_str()) || word == "I";
    !known && word.starts_with(|c: char| c.is_alphabetic() && !c.is_lowercase())
}

/// A place of one word in small letters, only after a strong preposition.
fn small_place(preposition: &str, after: &[&str]) -> Option<String> {
    let word = after.first()?.trim_matches(is_punctuation);
    let likely = STRONG_PREPOSITIONS.contains(&preposition.to_lowercase().as_str());
    let wordlike = word.chars().count() > 2 && word.chars().all(|c| c.is_alphabetic() || c == '-');
    (likely && wordlike && !NOT_PLACES.contains(&word)).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_prepositions() {
        let check = |text: &str, expected: &[&str]| assert_eq!(Mentions::of(text).places, expected, "{text}");
        check("What's the weather like in Boston today?", &["Boston"]);
        check("weather in paris", &["paris"]);
        check("Is it colder in San Francisco, CA or in New York?", &["San Francisco, CA", "New York"]);
        check("Compare the weather in Paris, Tokyo and Rio de Janeiro.", &["Paris", "Tokyo", "Rio"]);
        check("a train from Oslo to Bergen", &["Oslo", "Bergen"]);
        check("天気 in 東京", &["東京"]);
        check("Put it in the box, in general.", &[]);
        check("", &[]);
    }

    #[test]
    fn values_are_known_by_their_shape() {
        let text =
            "On 2026-03-01 add 2 and -3.5 ($1200), don't say 'hi there' to ada@example.org, see https://a.example/x.";
        let mentions = Mentions::of(text);
        assert_eq!(mentions.numbers, [2.0, -3.5, 1200.0]);
        assert_eq!(mentions.dates, ["2026-03-01"]);
        assert_eq!(mentions.quoted, ["hi there"]);
        assert_eq!(mentions.emails, ["ada@example.org"]);
        assert_eq!(mentions.urls, ["https://a.example/x"]);
    }

    #[test]
    fn a_phrase_counts_only_as_whole_words() {
        let mentions = Mentions::of("Tell me in Celsius, please");
        assert!(mentions.names("celsius"));
        assert!(!mentions.names("cel"));
        assert!(!mentions.names(""));
    }
}
