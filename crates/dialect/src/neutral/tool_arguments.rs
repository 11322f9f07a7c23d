//! The text of a call's arguments, which must become one JSON object.
//!
//! Some providers send `{}` or `null` before the real arguments, or the same object twice. Such texts are no JSON, so only one
//! object is passed on, with the white space around it. A second object that differs in more than white space is passed on as
//! it came: nothing that says something is left out.

use std::hash::{DefaultHasher, Hasher as _};

use bytes::{BufMut as _, BytesMut};

/// Most bytes that are held before an object begins.
const MAX_BEFORE: usize = 256;
/// Most bytes of a second object that are held until it is known whether it repeats the first.
const MAX_REPETITION: usize = 64 * 1024;

/// Passes on the arguments of one call, piece by piece. All texts are escaped, as inside a JSON string.
#[derive(Debug)]
pub(crate) struct ToolArguments {
    stage: Stage,
    /// What is not passed on yet.
    held: BytesMut,
    /// Of the object that was passed on, without white space between its tokens.
    object: DefaultHasher,
}

#[derive(Debug)]
enum Stage {
    /// Nothing was passed on: white space, empty objects and null at most.
    Before,
    Object(ObjectScan),
    /// The object was passed on. What follows is held until it is known what it is.
    Behind {
        scan: ObjectScan,
        repetition: DefaultHasher,
    },
    /// Everything is passed on.
    Open,
}

impl ToolArguments {
    /// Arguments of a function.
    pub(crate) fn object() -> ToolArguments {
        ToolArguments { stage: Stage::Before, held: BytesMut::new(), object: DefaultHasher::new() }
    }

    /// The input of a custom tool, which is free text.
    pub(crate) fn free_text() -> ToolArguments {
        ToolArguments { stage: Stage::Open, ..ToolArguments::object() }
    }

    /// Appends what may be passed on of a piece.
    pub(crate) fn piece(&mut self, piece: &[u8], out: &mut BytesMut) {
        let held;
        let text = match self.stage {
            Stage::Before | Stage::Behind { scan: ObjectScan::Before, .. } if !self.held.is_empty() => {
                self.held.put_slice(piece);
                held = self.held.split();
                &held
            }
            _ => piece,
        };
        match self.stage {
            Stage::Before => self.before(text, out),
            Stage::Object(_) => self.within(text, out),
            Stage::Behind { .. } => self.behind(text, out),
            Stage::Open => out.put_slice(text),
        }
    }

    /// Bytes that are held.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// Whether something is held that follows the object and may say something.
    pub(crate) fn has_begun_another(&self) -> bool {
        matches!(self.stage, Stage::Behind { .. })
            && !matches!(Opening::read(&self.held), Opening::Undecided { is_empty: true, .. })
    }

    /// Appends what is to be passed on at the end. A call without arguments gets an empty object, if it is `whole`.
    pub(crate) fn end(&mut self, whole: bool, out: &mut BytesMut) {
        let held = self.held.split();
        match (std::mem::replace(&mut self.stage, Stage::Open), Opening::read(&held)) {
            (Stage::Before, Opening::Undecided { is_empty: true, .. }) if !is_one_object(&held) => {
                if whole || !held.is_empty() {
                    out.put_slice(b"{}");
                }
            }
            (Stage::Behind { .. }, Opening::Undecided { is_empty: true, .. }) => {}
            _ => out.put_slice(&held),
        }
    }

    fn before(&mut self, text: &[u8], out: &mut BytesMut) {
        match Opening::read(text) {
            Opening::Object(start) => {
                self.stage = Stage::Object(ObjectScan::Before);
                let is_after_space = without_space(text).len() == text.len() - start;
                self.within(if is_after_space { text } else { text.get(start..).unwrap_or_default() }, out);
            }
            Opening::Undecided { from, .. } if text.len() - from <= MAX_BEFORE => {
                self.held.put_slice(text.get(from..).unwrap_or_default());
            }
            Opening::Undecided { .. } | Opening::Other => {
                self.stage = Stage::Open;
                out.put_slice(text);
            }
        }
    }

    fn within(&mut self, text: &[u8], out: &mut BytesMut) {
        let Stage::Object(scan) = &mut self.stage else { return };
        let end = scan.pass_tokens(text, |tokens| self.object.write(tokens));
        let (object, behind) = text.split_at_checked(end).unwrap_or((text, &[]));
        let is_complete = scan.is_complete();
        out.put_slice(object);
        if is_complete {
            self.stage = Stage::Behind { scan: ObjectScan::Before, repetition: DefaultHasher::new() };
            self.behind(behind, out);
        }
    }

    fn behind(&mut self, mut text: &[u8], out: &mut BytesMut) {
        while let Stage::Behind { scan, repetition } = &mut self.stage {
            if *scan == ObjectScan::Before {
                let rest = without_space(text);
                out.put_slice(text.get(..text.len() - rest.len()).unwrap_or_default());
                text = rest;
                match Opening::read(text) {
                    Opening::Object(start) => text = text.get(start..).unwrap_or_default(),
                    Opening::Undecided { from, .. } if text.len() - from <= MAX_BEFORE => {
                        self.held.put_slice(text.get(from..).unwrap_or_default());
                        return;
                    }
                    Opening::Undecided { .. } | Opening::Other => {
                        self.stage = Stage::Open;
                        out.put_slice(text);
                        return;
                    }
                }
            }
            let end = scan.pass_tokens(text, |tokens| repetition.write(tokens));
            let (more, rest) = text.split_at_checked(end).unwrap_or((text, &[]));
            self.held.put_slice(more);
            match scan {
                ObjectScan::Inside { .. } if self.held.len() <= MAX_REPETITION => return,
                ObjectScan::Complete if repetition.finish() == self.object.finish() => {
                    self.held.clear();
                    self.stage = Stage::Behind { scan: ObjectScan::Before, repetition: DefaultHasher::new() };
                }
                _ => {
                    self.stage = Stage::Open;
                    push!(out; &self.held.split(), rest);
                }
            }
            text = rest;
        }
    }
}

/// The arguments of a whole call, if they are not what they should be: one object.
pub(crate) fn settled_arguments(text: &[u8]) -> Option<BytesMut> {
    if is_one_object(text) {
        return None;
    }
    let (mut arguments, mut out) = (ToolArguments::object(), BytesMut::with_capacity(text.len()));
    arguments.piece(text, &mut out);
    arguments.end(true, &mut out);
    (*out != *text).then_some(out)
}

/// Whether a text is one object, with white space around it or without.
fn is_one_object(text: &[u8]) -> bool {
    let mut scan = ObjectScan::Before;
    let end = scan.pass(text);
    scan.is_complete() && without_space(text.get(end..).unwrap_or_default()).is_empty()
}

/// How arguments begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// An object with members begins here; what stands before it says nothing.
    Object(usize),
    /// Nothing that says something so far. From `from` on it matters for what follows. `is_empty`: the text is complete.
    Undecided { from: usize, is_empty: bool },
    /// Anything else.
    Other,
}

impl Opening {
    fn read(text: &[u8]) -> Opening {
        let (mut rest, mut from) = (without_space(text), 0);
        let first = text.len() - rest.len();
        loop {
            let at = text.len() - rest.len();
            // With the white space before it, if nothing else stands there.
            let here = if at == first { 0 } else { at };
            let inside = match rest {
                [] => return Opening::Undecided { from, is_empty: true },
                [b'{', inside @ ..] => without_space(inside),
                _ => match rest.strip_prefix(b"null") {
                    Some(behind) => {
                        (rest, from) = (without_space(behind), here);
                        continue;
                    }
                    None if b"null".starts_with(rest) => return Opening::Undecided { from, is_empty: false },
                    None => return Opening::Other,
                },
            };
            match inside {
                [] => return Opening::Undecided { from, is_empty: false },
                [b'}', behind @ ..] => (rest, from) = (without_space(behind), here),
                _ if character(inside).0 == b'"' => return Opening::Object(at),
                _ => return Opening::Other,
            }
        }
    }
}

/// Without the white space at the beginning of escaped text.
fn without_space(mut text: &[u8]) -> &[u8] {
    while !text.is_empty()
        && let (b' ' | b'\n' | b'\r' | b'\t', rest) = character(text)
    {
        text = rest;
    }
    text
}

/// The first character of escaped text, a letter for one that is not ASCII, and what follows it.
fn character(text: &[u8]) -> (u8, &[u8]) {
    match text {
        [b'\\', b'u', digits @ ..] if digits.len() >= 4 => {
            let (code, tail) = digits.split_at_checked(4).unwrap_or((digits, &[]));
            (ascii(code), tail)
        }
        [b'\\', b'n' | b'r' | b't', tail @ ..] => (b' ', tail),
        [b'\\', byte, tail @ ..] | [byte, tail @ ..] => (*byte, tail),
        [] => (b'u', &[]),
    }
}

/// The character of an escape with this number, or a letter for one that is not ASCII.
fn ascii(code: &[u8]) -> u8 {
    let code = std::str::from_utf8(code).ok().and_then(|code| u8::from_str_radix(code, 16).ok());
    code.filter(u8::is_ascii).unwrap_or(b'u')
}

/// How far a JSON object in a text has come. Only brackets and strings are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectScan {
    /// Nothing but white space so far.
    Before,
    /// `depth` open brackets.
    Inside { depth: u32, in_string: bool, is_escaped: bool },
    /// The object has ended.
    Complete,
    /// The text does not begin like an object.
    Other,
}

impl ObjectScan {
    /// Whether the text begins like an object.
    pub(crate) fn is_object(self) -> bool {
        matches!(self, ObjectScan::Inside { .. } | ObjectScan::Complete)
    }

    /// Whether the object has ended.
    pub(crate) fn is_complete(self) -> bool {
        self == ObjectScan::Complete
    }

    /// Passes escaped text up to the end of the object. Returns how many bytes that were.
    pub(crate) fn pass(&mut self, text: &[u8]) -> usize {
        self.pass_tokens(text, |_| {})
    }

    /// The same. `visit` gets what is passed in pieces, without the white space outside of strings.
    #[inline]
    fn pass_tokens(&mut self, text: &[u8], mut visit: impl FnMut(&[u8])) -> usize {
        let (mut rest, mut tokens) = (text, text);
        while *self != ObjectScan::Complete && *self != ObjectScan::Other {
            if let ObjectScan::Inside { in_string: true, is_escaped: false, .. } = self {
                // Quotes and backslashes are escaped, everything else within a string is passed over.
                let plain = memchr::memchr(b'\\', rest).unwrap_or(rest.len());
                rest = rest.get(plain..).unwrap_or_default();
            }
            if rest.is_empty() {
                break;
            }
            let (byte, tail) = character(rest);
            if byte.is_ascii_whitespace() && !matches!(self, ObjectScan::Inside { in_string: true, .. }) {
                visit(tokens.get(..tokens.len() - rest.len()).unwrap_or_default());
                tokens = tail;
            }
            *self = self.after(byte);
            rest = tail;
        }
        if *self == ObjectScan::Other {
            rest = &[];
        }
        visit(tokens.get(..tokens.len() - rest.len()).unwrap_or_default());
        text.len() - rest.len()
    }

    fn after(self, byte: u8) -> ObjectScan {
        match self {
            ObjectScan::Before if byte.is_ascii_whitespace() => self,
            ObjectScan::Before if byte == b'{' => ObjectScan::Inside { depth: 1, in_string: false, is_escaped: false },
            ObjectScan::Before => ObjectScan::Other,
            ObjectScan::Inside { depth, in_string: true, is_escaped } => match byte {
                _ if is_escaped => ObjectScan::Inside { depth, in_string: true, is_escaped: false },
                b'\\' => ObjectScan::Inside { depth, in_string: true, is_escaped: true },
                b'"' => ObjectScan::Inside { depth, in_string: false, is_escaped: false },
                _ => self,
            },
            ObjectScan::Inside { depth, .. } => match byte {
                b'"' => ObjectScan::Inside { depth, in_string: true, is_escaped: false },
                b'{' | b'[' => {
                    ObjectScan::Inside { depth: depth.saturating_add(1), in_string: false, is_escaped: false }
                }
                b'}' | b']' if depth == 1 => ObjectScan::Complete,
                b'}' | b']' => ObjectScan::Inside { depth: depth - 1, in_string: false, is_escaped: false },
                _ => self,
            },
            ObjectScan::Complete | ObjectScan::Other => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::neutral::EscapedText;

    /// What is passed on of these pieces, unescaped: all of it, and after which piece.
    fn passed(pieces: &[&str]) -> (String, Vec<usize>) {
        let (mut arguments, mut out) = (ToolArguments::object(), BytesMut::new());
        let mut after = Vec::new();
        for piece in pieces {
            arguments.piece(EscapedText::escaping(piece).bytes(), &mut out);
            after.push(out.len());
        }
        arguments.end(true, &mut out);
        (EscapedText::plain(std::str::from_utf8(&out).unwrap()).unescaped().into_owned(), after)
    }

    #[test]
    fn of_what_says_nothing_and_of_repetitions_only_the_object_is_passed_on() {
        let object = r#"{"city":"Oslo"}"#;
        for pieces in [
            &["{}", r#"{"city":"#, r#""Oslo"}"#][..],
            &["{", "}", r#"{"city":"Oslo"}"#],
            &["{}{}", " {} ", r#"{"city":"Oslo"}"#],
            &[r#"{}{"city":"Oslo"}"#],
            &[r#"null{"city":"Oslo"}"#],
            &["nu", "ll", r#"{"city":"Oslo"}"#],
            &["\n", "{ ", " }\n", r#"{"city":"Oslo"}"#],
            &[r#"{"city":"Oslo"}{"city":"Oslo"}"#],
            &[r#"{"city":"#, r#""Oslo"}{"#, r#""city":"Osl"#, r#"o"}"#],
            &[r#"{"city":"Oslo"}"#, "\n", r#"{"city":"Oslo"}"#, r#"{"city":"Oslo"}"#],
            &[r#"{"city":"Oslo"}{ "city": "Oslo" }"#],
            &[
                r#"{"city":"Oslo"}"#,
                "\n{\n",
                "\t\"city\"",
                " :",
                "\r\n",
                "\"Oslo\"",
                "\n}\n",
                "{\"city\":\"Os",
                "lo\" }",
            ],
            &[r#"{"city":"Oslo"}"#, "{}"],
            &[r#"{"city":"Oslo"}null"#],
            &[r#"{"city":"Oslo"}"#, "nu", "ll"],
            &[r#"{"city":"Oslo"}"#, "{", "}", "n", "ull"],
            &[r#"{"city":"Oslo"}null{"city":"Oslo"}"#],
            &[r#"{"city":"Oslo"}"#, "null", " {", r#""city":"Oslo"}"#],
        ] {
            assert_eq!(passed(pieces).0.trim_end(), object, "{pieces:?}");
            let whole = settled_arguments(EscapedText::escaping(&pieces.concat()).bytes()).unwrap_or_default();
            let whole = EscapedText::plain(std::str::from_utf8(&whole).unwrap()).unescaped().into_owned();
            assert_eq!(whole.trim_end(), object, "{pieces:?}");
        }
    }

    #[test]
    fn a_repetition_is_one_however_the_white_space_of_either_stands() {
        for first in [r#"{"a":[1,"x y"]}"#, r#"{ "a" : [ 1 , "x y" ] }"#, "{\n\t\"a\": [1, \"x y\"]\n}"] {
            for second in [r#"{"a":[1,"x y"]}"#, r#"{"a": [1, "x y"]}"#, "{\r\n\"a\":\t[1,\"x y\"]}"] {
                assert_eq!(passed(&[first, second]).0, first);
                let text = format!("{first}{second}");
                let each: Vec<&str> = text.split_inclusive(|_| true).collect();
                assert_eq!(passed(&each).0, first, "one character at a time");
            }
        }
    }

    #[test]
    fn a_call_without_arguments_gets_an_empty_object() {
        for pieces in [&[][..], &[""], &[" ", "\n"], &["{}"], &["null"], &["{}{}"]] {
            assert_eq!(passed(pieces).0, "{}", "{pieces:?}");
        }
        assert_eq!(settled_arguments(b"").as_deref(), Some(&b"{}"[..]));
        assert_eq!(settled_arguments(b"{}"), None);
        let mut out = BytesMut::new();
        ToolArguments::object().end(false, &mut out);
        assert!(out.is_empty(), "nothing is made up for a call that was cut off");
    }

    #[test]
    fn ordinary_arguments_are_passed_on_as_they_come() {
        for pieces in [
            &["{\"", "a\":", "1}"][..],
            &["{\"a\"", ":{}", ",\"b\":[{},{}]", "}"],
            &[r#"{"code":"f{}{}\"}{"}"#],
            &["[1]", "{}"],
            &["plain", "{}"],
            &["{'a':1}", "{}"],
            &[" \r\n{\"a\"", ":1 } ", "\n\t", " "],
        ] {
            let (all, after) = passed(pieces);
            assert_eq!(all, pieces.concat(), "{pieces:?}");
            assert!(after.windows(2).all(|pair| pair[0] < pair[1]) && after[0] > 0, "nothing waits: {pieces:?}");
        }
    }

    #[test]
    fn white_space_around_an_object_is_no_fault() {
        for text in ["{\"a\":1}\n", " {\"a\":1}", "\r\n\t{ \"a\" : 1 }  \n", "{}\n", " { }"] {
            let each: Vec<&str> = text.split_inclusive(|_| true).collect();
            assert_eq!((passed(&[text]).0.as_str(), passed(&each).0.as_str()), (text, text));
            assert_eq!(settled_arguments(EscapedText::escaping(text).bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn what_differs_or_is_cut_off_is_not_left_out() {
        for pieces in [
            &[r#"{"a":1}{"b":2}"#][..],
            &[r#"{"a":1}"#, r#"{"b":"#, "2}"],
            &[r#"{"a":1}"#, "x"],
            &[r#"{"a":"x y"}{"a":"xy"}"#],
            &[r#"{"a":"x"}{"a":" x"}"#],
            &[r#"{"a":"\" b"}{"a":"\"b"}"#],
            &[r#"{"a":1}{"a""#],
            &["nullable"],
            &[r#"{"a":1}"#, "null", "able"],
            &[r#"{"a":1}nu"#],
            &["{"],
        ] {
            assert_eq!(passed(pieces).0, pieces.concat(), "{pieces:?}");
            assert_eq!(settled_arguments(EscapedText::escaping(&pieces.concat()).bytes()), None, "{pieces:?}");
        }
        let long = " ".repeat(MAX_BEFORE + 1);
        assert_eq!(passed(&[&long, "{\"a\":1}"]).0, format!("{long}{{\"a\":1}}"), "what is held is bounded");
    }

    proptest! {
        #[test]
        fn how_arguments_are_split_changes_nothing(
            text in r#"(\{\}|null| ){0,2}(\{"a":"[a}{\\"]{0,6}"\})?(\{"a":"[ab]?"\}|null| ){0,2}"#, at in 0_usize..40,
        ) {
            let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            let (first, second) = text.split_at(at);
            prop_assert_eq!(passed(&[first, second]).0, passed(&[&text]).0);
        }
    }
}
