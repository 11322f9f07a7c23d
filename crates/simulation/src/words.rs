//! Counts, splits and generates text.
//!
//! A token has four characters. This is the rule of thumb for English, makes usage exact, and splits words as real
//! tokenizers do. Generated text says that it is simulated.

use rand::RngExt;

use super::Rng;

/// Characters in one token.
const TOKEN_CHARS: usize = 4;

/// Characters of the question that an answer repeats.
const HINT_CHARS: usize = 80;

/// Characters of a tool's result that an answer repeats.
const QUOTE_CHARS: usize = 400;

/// Sentences of answers. Some contain characters of two, three and four bytes, as test data.
const SENTENCES: [&str; 16] = [
    "Every word of it comes from a small text generator.",
    "Its pace, its faults and its prices are set in the configuration.",
    "The request itself travelled the whole path over real sockets.",
    "A real model would have said something useful here.",
    "Ask the gateway to explain this route, and it will name every candidate.",
    "The quick brown fox jumps over the lazy dog.",
    "Somewhere a signal turns from red to green, and a train changes tracks.",
    "Time to first token and throughput are measured as this text arrives.",
    "The pointsman's café serves crème brûlée after the night shift.",
    "Naïve façades hide coöperating gears → smooth journeys.",
    "東京 to 大阪 takes two and a half hours by the fast line.",
    "All aboard 🚂, mind the gap 🚃🚃.",
    "Σ of all fares is greater than zero, ∀ journeys.",
    "Nothing you write here leaves this machine.",
    "The price of this answer is exact, although nobody will pay it.",
    "A real provider needs no more than its key in the environment.",
];

/// Tokens in `text`.
pub(super) fn tokens(text: &str) -> u32 {
    u32::try_from(text.chars().count().div_ceil(TOKEN_CHARS)).unwrap_or(u32::MAX)
}

/// `text` in pieces of `count` tokens; the last may be shorter.
pub(super) fn pieces(text: &str, count: u32) -> Vec<&str> {
    let size = TOKEN_CHARS.saturating_mul(count.max(1) as usize);
    let starts = text.char_indices().map(|(at, _)| at).step_by(size);
    let ends = starts.clone().skip(1).chain([text.len()]);
    starts.zip(ends).filter_map(|(start, end)| text.get(start..end)).collect()
}

/// The first `count` tokens of `text`.
pub(super) fn first_tokens(text: &str, count: u32) -> &str {
    first_chars(text, TOKEN_CHARS.saturating_mul(count as usize))
}

/// `text` up to the first of the `stops` in it.
pub(super) fn before_stop<'a>(text: &'a str, stops: &[String]) -> &'a str {
    let found = stops.iter().filter(|stop| !stop.is_empty()).filter_map(|stop| text.find(stop.as_str())).min();
    found.and_then(|at| text.get(..at)).unwrap_or(text)
}

/// `text` on one line, shortened, to repeat a question.
pub(super) fn hint(text: &str) -> String {
    shortened(&text.split_whitespace().collect::<Vec<_>>().join(" "), HINT_CHARS)
}

/// Content of a text answer.
pub(super) struct TextAnswer<'a> {
    pub(super) model: &'a str,
    pub(super) provider: &'a str,
    /// The last message of the user.
    pub(super) question: &'a str,
    /// Images in the messages.
    pub(super) images: u32,
    /// Names and results of tools after the last assistant message.
    pub(super) results: &'a [(String, String)],
}

impl TextAnswer<'_> {
    /// The text of the answer.
    pub(super) fn compose(&self, rng: &mut Rng) -> String {
        let mut text = format!("I am a simulated model, {} at {}. ", self.model, self.provider);
        for (name, result) in self.results {
            text += &format!("The tool {name} answered: {}. ", shortened(result.trim(), QUOTE_CHARS));
        }
        match self.images {
            0 => {}
            1 => text += "You sent 1 image, which I cannot really see. ",
            many => text += &format!("You sent {many} images, which I cannot really see. "),
        }
        if self.results.is_empty() && !self.question.trim().is_empty() {
            text += &format!("You wrote: “{}”. ", hint(self.question));
        }
        fill(&mut text, rng);
        text
    }
}

/// Adds two to five sentences.
fn fill(text: &mut String, rng: &mut Rng) {
    let sentences = rng.random_range(2..=5_usize);
    // An odd step visits all sixteen sentences before it repeats one.
    let (mut at, step) = (rng.random_range(0..SENTENCES.len()), 2 * rng.random_range(0..SENTENCES.len() / 2) + 1);
    for _ in 0..sentences {
        at = (at + step) % SENTENCES.len();
        text.push_str(SENTENCES.get(at).copied().unwrap_or_default());
        text.push(' ');
    }
    text.truncate(text.trim_end().len());
}

fn shortened(text: &str, chars: usize) -> String {
    let short = first_chars(text, chars);
    if short.len() < text.len() { format!("{}…", short.trim_end()) } else { short.to_owned() }
}

fn first_chars(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn speak(question: &str, seed: u64) -> String {
        let speech = TextAnswer { model: "hare-1", provider: "Hare", question, images: 0, results: &[] };
        speech.compose(&mut Rng::seed_from_u64(seed))
    }

    #[test]
    fn pieces_join_to_the_whole_and_count_as_its_tokens() {
        for text in ["", "a", "abcd", "abcde", "crème brûlée → 東京 🚂!", SENTENCES[10]] {
            for count in [0, 1, 3] {
                let pieces = pieces(text, count);
                assert_eq!(pieces.concat(), text);
                assert_eq!(pieces.iter().map(|piece| tokens(piece)).sum::<u32>(), tokens(text));
            }
            assert_eq!(first_tokens(text, tokens(text)), text);
        }
        assert_eq!(first_tokens("abcdefghij", 2), "abcdefgh");
    }

    #[test]
    fn text_ends_before_the_earliest_stop() {
        let stops = ["zebra", "three", "two"].map(str::to_owned);
        assert_eq!(before_stop("one two three", &stops), "one ");
        assert_eq!(before_stop("one two three", &["four".to_owned(), String::new()]), "one two three");
    }

    #[test]
    fn an_answer_says_that_it_is_simulated_and_repeats_the_question() {
        let text = speak("Why is\n the sky   blue?", 7);
        assert!(
            text.starts_with("I am a simulated model, hare-1 at Hare. You wrote: “Why is the sky blue?”. "),
            "{text}"
        );
        assert_eq!(text, speak("Why is\n the sky   blue?", 7));
        assert_ne!(text, speak("Why is\n the sky   blue?", 8));
    }

    #[test]
    fn no_sentence_is_repeated_in_a_short_answer() {
        for seed in 0..50 {
            let text = speak("", seed);
            assert!(SENTENCES.iter().all(|sentence| text.matches(sentence).count() <= 1), "{text}");
        }
    }

    #[test]
    fn a_long_question_is_shortened_between_characters() {
        let hint = hint(&"東".repeat(200));
        assert_eq!(hint.chars().count(), HINT_CHARS + 1);
        assert!(hint.ends_with('…'));
    }

    #[test]
    fn the_result_of_a_tool_is_quoted() {
        let results = [("get_weather".to_owned(), "{\"celsius\": 21}".to_owned())];
        let speech = TextAnswer { model: "m", provider: "P", question: "weather?", images: 2, results: &results };
        let text = speech.compose(&mut Rng::seed_from_u64(1));
        assert!(text.contains("The tool get_weather answered: {\"celsius\": 21}."), "{text}");
        assert!(text.contains("You sent 2 images"), "{text}");
    }
}
