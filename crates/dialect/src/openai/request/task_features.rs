//! Features of a request that tell the class of its task, without understanding its words. Only bits remain of the text.
//!
//! White space does not count, neither does the case of letters, so that how a text is typed does not change its class.

use memchr::{memchr, memchr2_iter};
use pointsman_domain::TaskFeatures;
use wide::u8x16;

/// Prompts with more tokens than this are long.
const LONG_PROMPT_TOKENS: u32 = 32_000;
/// Bytes of a message that are looked at: its beginning tells its kind, and a kilobyte costs .3 µs.
const MOST_BYTES: usize = 8 * 1024;
/// A message with fewer characters is short.
const SHORT_CHARACTERS: u32 = 20;
/// Characters of code in a hundred from which a message holds code.
const CODE_SHARE: u32 = 4;
/// Digits and operators in a hundred from which a message holds math.
const MATH_SHARE: u32 = 8;

/// Texts of a message that are looked at, so that they need no memory of their own. Most messages have one.
const MOST_TEXTS: usize = 8;

/// The first texts of one message, in order, as written.
#[derive(Debug, Default)]
pub(super) struct MessageTexts<'a> {
    texts: [&'a [u8]; MOST_TEXTS],
    count: usize,
}

impl<'a> MessageTexts<'a> {
    /// Adds a text as written between the quotes of a JSON string.
    pub(super) fn push(&mut self, text: &'a [u8]) {
        if let Some(place) = self.texts.get_mut(self.count) {
            *place = text;
            self.count += 1;
        }
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    fn get(&self) -> &[&'a [u8]] {
        self.texts.get(..self.count).unwrap_or_default()
    }
}

/// What is known of a request beside the text of its last user message.
pub(super) struct RequestShape {
    pub(super) has_images: bool,
    pub(super) has_schema: bool,
    pub(super) has_tools: bool,
    pub(super) prompt_tokens: u32,
}

/// The features of a request. The texts are looked at only if nothing else tells the class.
pub(super) fn features(shape: &RequestShape, last_user_message: &MessageTexts<'_>) -> TaskFeatures {
    let seen = TaskFeatures::default()
        .with(TaskFeatures::IMAGE, shape.has_images)
        .with(TaskFeatures::SCHEMA, shape.has_schema)
        .with(TaskFeatures::TOOLS, shape.has_tools)
        .with(TaskFeatures::LONG, shape.prompt_tokens > LONG_PROMPT_TOKENS);
    if seen == TaskFeatures::default() { of_texts(last_user_message) } else { seen }
}

fn of_texts(texts: &MessageTexts<'_>) -> TaskFeatures {
    if let [text] = texts.get()
        && is_prose(text.get(..MOST_BYTES).unwrap_or(text))
    {
        return TaskFeatures::default();
    }
    of_counts(texts)
}

/// Whether a text certainly has no feature, as most have not. Sixteen bytes are looked at together, and no escape is resolved:
/// too many bytes are taken for code or math, and too few for characters.
fn is_prose(text: &[u8]) -> bool {
    /// Bytes of an escape that may stand for no character.
    const ESCAPE: u32 = 6;
    const _: () = assert!(CODE_SHARE <= MATH_SHARE);
    let (blocks, rest) = text.as_chunks::<16>();
    let mut last = [b' '; 16];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    let sum = |counts: u8x16| counts.to_array().into_iter().map(u32::from).sum::<u32>();
    let (mut characters, mut loud, mut escapes, mut before) = (0, 0, 0, 0);
    let mut marks = u8x16::splat(0);
    // As many blocks as a byte can count.
    for blocks in blocks.chunks(usize::from(u8::MAX)).chain([std::slice::from_ref(&last)]) {
        let [mut blank, mut odd, mut backslashes] = [u8x16::splat(0); 3];
        for block in blocks {
            let block = u8x16::new(*block);
            let is = |byte| block.simd_eq(u8x16::splat(byte));
            let backslash = is(b'\\');
            let bits = backslash.to_bitmask();
            if bits & (bits << 1 | before) != 0 {
                // An escaped backslash may begin LaTeX.
                return false;
            }
            before = bits >> 15;
            marks = marks | is(b'`') | is(b'$');
            let from = block - u8x16::splat(b'(');
            let between = from.simd_eq(from.min(u8x16::splat(b'>' - b'(')));
            let comma_or_dot = (block & u8x16::splat(!2)).simd_eq(u8x16::splat(b','));
            // Every true comparison is 255, and so takes -1.
            odd -= (between ^ comma_or_dot) | is(b'{') | is(b'}') | is(b'^');
            blank -= is(b' ') | (block & u8x16::splat(0xC0)).simd_eq(u8x16::splat(0x80));
            backslashes -= backslash;
        }
        characters += 16 * blocks.len() as u32 - sum(blank);
        loud += sum(odd);
        escapes += sum(backslashes);
    }
    let characters = characters.saturating_sub(ESCAPE * escapes);
    marks.to_bitmask() == 0 && characters >= SHORT_CHARACTERS && 100 * loud < CODE_SHARE * characters
}

fn of_counts(texts: &MessageTexts<'_>) -> TaskFeatures {
    let (mut counts, mut left) = (Counts::default(), MOST_BYTES);
    for text in texts.get() {
        let text = text.get(..left).unwrap_or(text);
        counts.add_text(text);
        left -= text.len();
    }
    let reaches = |count: u32, share: u32| u64::from(count) * 100 >= u64::from(counts.characters) * u64::from(share);
    let has_code = counts.has_fence || counts.code > 0 && reaches(counts.code, CODE_SHARE);
    let has_math = counts.has_latex || counts.math > 0 && reaches(counts.math, MATH_SHARE);
    TaskFeatures::default()
        .with(TaskFeatures::CODE, has_code)
        .with(TaskFeatures::MATH, has_math)
        .with(TaskFeatures::SHORT, counts.characters < SHORT_CHARACTERS)
}

/// Counts of texts. White space is no character here.
#[derive(Debug, Default)]
struct Counts {
    characters: u32,
    /// Characters of `{}();=<>`.
    code: u32,
    /// Digits and operators.
    math: u32,
    has_fence: bool,
    has_latex: bool,
}

const CODE_AT: u32 = 16;
const MATH_AT: u32 = 32;
const MARK_AT: u32 = 48;
const SUM: u64 = (1 << CODE_AT) - 1;

/// For every byte whether it begins a character, is one of code, one of math, and one that marks a fence or LaTeX. Of all that
/// are looked at, each is summed in sixteen bits.
const WEIGHTS: [u64; 256] = weights();
const _: () = assert!(MOST_BYTES < SUM as usize);

#[expect(clippy::indexing_slicing, reason = "an index out of bounds would be an error of the compiler here")]
const fn weights() -> [u64; 256] {
    let mut weights = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let character = byte as u8;
        let counts = !character.is_ascii_whitespace() && character & 0xC0 != 0x80;
        let code = matches!(character, b'{' | b'}' | b'(' | b')' | b';' | b'=' | b'<' | b'>');
        let math = matches!(character, b'0'..=b'9' | b'+' | b'-' | b'*' | b'/' | b'^' | b'=' | b'<' | b'>');
        let mark = matches!(character, b'`' | b'$');
        weights[byte] = counts as u64 | (code as u64) << CODE_AT | (math as u64) << MATH_AT | (mark as u64) << MARK_AT;
        byte += 1;
    }
    weights
}

impl Counts {
    /// Adds a text as written between the quotes of a JSON string.
    fn add_text(&mut self, mut rest: &[u8]) {
        while let Some(at) = memchr(b'\\', rest) {
            let (plain, escape) = rest.split_at_checked(at).unwrap_or((rest, &[]));
            self.add_plain(plain);
            rest = self.add_escape(escape);
        }
        self.add_plain(rest);
    }

    fn add_plain(&mut self, text: &[u8]) {
        let weight = |byte: &u8| WEIGHTS.get(usize::from(*byte)).copied().unwrap_or_default();
        let sums: u64 = text.iter().map(weight).sum();
        self.characters += (sums & SUM) as u32;
        self.code += (sums >> CODE_AT & SUM) as u32;
        self.math += (sums >> MATH_AT & SUM) as u32;
        if sums >> MARK_AT == 0 {
            return;
        }
        for at in memchr2_iter(b'`', b'$', text) {
            let after = text.get(at..).unwrap_or_default();
            self.has_fence |= after.starts_with(b"```");
            self.has_latex |= after.starts_with(b"$$");
        }
    }

    /// Adds the escape that the text begins with. Gives what follows it.
    fn add_escape<'a>(&mut self, escape: &'a [u8]) -> &'a [u8] {
        let (kind, rest) = match escape {
            [_, kind, rest @ ..] => (*kind, rest),
            _ => return &[],
        };
        match kind {
            b'u' => {
                let (digits, rest) = rest.split_at_checked(4).unwrap_or((rest, &[]));
                let code = str::from_utf8(digits).ok().and_then(|digits| u16::from_str_radix(digits, 16).ok());
                match code.map(u8::try_from) {
                    Some(Ok(ascii)) if ascii.is_ascii() => self.add_plain(&[ascii]),
                    // The second half of a pair.
                    _ if code.is_some_and(|code| (0xDC00..0xE000).contains(&code)) => {}
                    _ => self.characters = self.characters.saturating_add(1),
                }
                return rest;
            }
            b'"' | b'/' => self.add_plain(&[kind]),
            b'\\' => {
                self.characters = self.characters.saturating_add(1);
                self.has_latex |= is_latex(rest);
            }
            // White space.
            _ => {}
        }
        rest
    }
}

/// Whether what follows a backslash makes it LaTeX: `\(`, `\[`, or a command with an argument such as `\frac{`.
fn is_latex(after: &[u8]) -> bool {
    let letters = after.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    match after.get(letters) {
        Some(b'(' | b'[') => letters == 0,
        Some(b'{') => letters > 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::Cursor;

    fn of(texts: &[&str]) -> Vec<&'static str> {
        let written: Vec<String> = texts.iter().map(|text| serde_json::to_string(text).unwrap()).collect();
        of_written(&written)
    }

    fn of_written(written: &[String]) -> Vec<&'static str> {
        let mut message = MessageTexts::default();
        written.iter().for_each(|text| message.push(Cursor::new(text).value().unwrap().inner()));
        let features = of_texts(&message);
        assert_eq!(features, of_counts(&message), "{written:?}");
        features.names().collect()
    }

    proptest! {
        #[test]
        fn prose_is_found_where_counting_finds_nothing(
            prose in "[a-zé –,.\"\n]{0,300}",
            inserted in prop::collection::vec((any::<prop::sample::Index>(), r"[0-9{};=^/`$\\(]|```|\$\$"), 0..8),
            ascii in any::<bool>(),
        ) {
            let mut text: Vec<char> = prose.chars().collect();
            for (at, piece) in inserted {
                let at = at.index(text.len() + 1);
                text.splice(at..at, piece.chars());
            }
            let text: String = text.into_iter().collect();
            let escape =
                |c: char| c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
            let written = |c: char| if c.is_ascii_lowercase() { c.to_string() } else { escape(c) };
            of_written(&[match ascii {
                true => format!("\"{}\"", text.chars().map(written).collect::<String>()),
                false => serde_json::to_string(&text).unwrap(),
            }]);
        }
    }

    const PROSE: &str = "Which of the two roads through the mountains is open in winter, and since when?";

    #[test]
    fn code_is_a_fence_or_a_share_of_its_characters() {
        assert_eq!(of(&[PROSE]), [""; 0]);
        assert_eq!(of(&["What is wrong with this program?\n```\nprint hello\n```"]), ["code"]);
        assert_eq!(of(&["Explain: fn main() { let a = f(b); }"]), ["code"]);
        assert_eq!(
            of(&[PROSE, PROSE, "and (by the way) what of the third of these roads that lead to the north?"]),
            [""; 0]
        );
        let share = |of_code: usize| format!("{}{}", "{".repeat(of_code), "a".repeat(100 - of_code));
        assert_eq!((of(&[&share(3)]), of(&[&share(4)])), (vec![], vec!["code"]));
    }

    #[test]
    fn math_is_latex_or_a_share_of_digits_and_operators() {
        for latex in [
            r"Show that \frac{a}{b} is rational here.",
            r"Let \(x\) be a real number, please.",
            "Why is $$e$$ so?  Tell me more.",
        ] {
            assert!(of(&[latex]).contains(&"math"), "{latex}");
        }
        assert_eq!(of(&["How much is 17 * 23 + 4711 of these?"]), ["math"]);
        assert_eq!(of(&["Look into the file C:\\new\\texts and tell me what it is about."]), [""; 0]);
        let share = |digits: usize| format!("{}{}", "7".repeat(digits), "a".repeat(100 - digits));
        assert_eq!((of(&[&share(7)]), of(&[&share(8)])), (vec![], vec!["math"]));
        assert_eq!(of(&["if (a < 10) { b = a + 1; } else { b = 0; }"]), ["code", "math"]);
    }

    #[test]
    fn a_long_message_is_known_by_its_beginning() {
        let (prose, code) = ("word ".repeat(2_000), "f(x); ".repeat(2_000));
        assert_eq!(of(&[&format!("{prose}{code}")]), [""; 0]);
        assert_eq!(of(&[&format!("{code}{prose}")]), ["code"]);
        assert_eq!(of(&[&prose, &code]), [""; 0]);
        assert_eq!(of(&["Explain this:", &code]), ["code"]);
        let [eight, nine] = [7, 8].map(|before| [vec![PROSE; before], vec!["f(x); g(x); h(x);"; 1]].concat());
        assert_eq!((of(&eight[5..]), of(&nine)), (vec!["code"], of(&[PROSE])), "by its first eight parts");
    }

    #[test]
    fn nineteen_characters_are_a_short_message_and_twenty_are_not() {
        assert_eq!((of(&[&"a".repeat(19)]), of(&[&"ä".repeat(19)])), (vec!["short_message"], vec!["short_message"]));
        assert_eq!((of(&[&"a".repeat(20)]), of(&[&"ä".repeat(20)])), (vec![], vec![]));
        assert_eq!(of(&[&"\u{1f600}".repeat(19)]), ["short_message"]);
        assert_eq!(of(&[]), ["short_message"]);
        assert_eq!(of(&["1 + 1"]), ["math", "short_message"]);
    }

    #[test]
    fn escapes_count_as_what_they_mean() {
        let escaped = |text: &str| {
            let written: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            of_written(&[format!("\"{written}\"")])
        };
        for text in [PROSE, "Explain: fn main() { let a = f(b); }", "How much is 17 * 23 + 4711 of these?"] {
            assert_eq!(escaped(text), of(&[text]), "{text}");
        }
        assert_eq!(escaped(&"\u{1f600}".repeat(19)), ["short_message"]);
        assert_eq!(of(&[&"\n\t\r\"".repeat(19)]), ["short_message"]);
        assert_eq!(of(&[&"\n\t\r\"".repeat(20)]), [""; 0]);
    }

    #[test]
    fn case_and_white_space_change_nothing() {
        let texts = [
            PROSE,
            "Explain: fn main() { let a = f(b); }",
            "17 * 23 + 4711 = what, in words?",
            r"Is \SQRT{2} rational?",
        ];
        for text in texts {
            let expected = of(&[text]);
            for typed in [text.to_uppercase(), text.to_lowercase(), text.replace(' ', "  "), text.replace(' ', "\n\t")]
            {
                assert_eq!(of(&[&typed]), expected, "{typed}");
            }
        }
    }

    #[test]
    fn case_spaces_and_typos_change_what_is_seen_in_fewer_than_one_of_a_hundred_messages() {
        const KINDS: [&[&str]; 3] = [
            &[
                "the",
                "road",
                "winter",
                "through",
                "mountains",
                "is",
                "open",
                "please",
                "explain",
                "with",
                "care",
                "which",
            ],
            &["let", "value", "=", "read(name);", "if", "(count", ">", "limit)", "{", "return;", "}", "loop"],
            &["add", "17", "+", "4711", "and", "23", "*", "99", "then", "divide", "by", "1024"],
        ];
        let mut state = 7_u64;
        let mut below = |most: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % most
        };
        let mut changed = 0;
        for _ in 0..10_000 {
            let words = KINDS[below(KINDS.len())];
            let text: Vec<&str> = (0..15 + below(60)).map(|_| words[below(words.len())]).collect();
            let text = text.join(" ");
            let mut typed = String::new();
            for letter in text.chars() {
                match (letter.is_alphabetic(), below(20)) {
                    (true, 0) => typed.push_str(["e", "", "tt"][below(3)]),
                    (true, 1..8) => typed.extend(letter.to_uppercase()),
                    (false, 0) if letter == ' ' => typed.push_str("  "),
                    _ => typed.push(letter),
                }
            }
            changed += usize::from(of(&[&text]) != of(&[&typed]));
        }
        assert!(changed < 100, "{changed} of 10,000");
    }

    #[test]
    fn the_text_is_looked_at_only_where_nothing_else_tells_the_class() {
        let shape = RequestShape { has_images: false, has_schema: false, has_tools: true, prompt_tokens: 32_001 };
        let names = |shape: &RequestShape| features(shape, &MessageTexts::default()).names().collect::<Vec<_>>();
        assert_eq!(names(&shape), ["tools", "long_prompt"]);
        let shape = RequestShape { has_images: true, has_schema: true, has_tools: false, prompt_tokens: 32_000 };
        assert_eq!(names(&shape), ["image", "schema"]);
        assert_eq!(names(&RequestShape { has_images: false, has_schema: false, ..shape }), ["short_message"]);
    }
}
