//! Halves of characters: a surrogate pair whose escapes stand in two deltas.
//!
//! A text that ends with `\ud83d` and goes on with `\ude00` in the next delta is valid for nobody but clients that join texts
//! before they read them. The first half waits for the second; a half that stays alone becomes U+FFFD. Deltas without halves,
//! nearly all, never come here.

use std::fmt::Write as _;

use crate::{
    json::Raw,
    neutral::{is_high_surrogate, lone_halves_replaced},
};

/// Most texts of one choice that may end with half a character.
const MAX_HELD: usize = 64;
/// Length of the escape of one half.
const ESCAPE: usize = 6;

/// The halves that wait for the other half, each with the place of its text in the delta.
#[derive(Debug, Default)]
pub(super) struct SplitHalves(Vec<(String, String)>);

impl SplitHalves {
    /// Whether no half waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An element of `choices` in which every character is whole.
    pub(super) fn mended(&mut self, choice: Raw<'_>) -> String {
        let mut out = String::with_capacity(choice.written().len() + 16);
        let write = |halves: &mut SplitHalves, key: Raw<'_>, value: Raw<'_>, out: &mut String| {
            if *key.name() == *b"delta" && value.is_object() {
                halves.members(value, |halves, key, value, out| halves.value(value, key.inner_text(), out), out);
                halves.end_texts(value, out);
            } else {
                out.push_str(&lone_halves_replaced(value.written()));
            }
        };
        self.members(choice, write, &mut out);
        out
    }

    /// Ends the texts that do not go on although others do. `out` ends with the delta.
    fn end_texts(&mut self, delta: Raw<'_>, out: &mut String) {
        let has_ended = |(place, _): &mut (String, String)| {
            delta.is_filled() && !place.contains('/') && delta.member(place.as_bytes()).is_none()
        };
        for (name, _) in self.0.extract_if(.., has_ended) {
            out.truncate(out.len() - 1);
            let _ = write!(out, ",\"{name}\":\"\u{fffd}\"}}");
        }
    }

    /// The members of the delta whose texts have ended with half a character.
    pub(super) fn rest(&mut self) -> Vec<String> {
        let places = std::mem::take(&mut self.0).into_iter().map(|(place, _)| place);
        places.filter(|place| !place.contains('/')).collect()
    }

    fn members(
        &mut self,
        object: Raw<'_>,
        mut write: impl FnMut(&mut SplitHalves, Raw<'_>, Raw<'_>, &mut String),
        out: &mut String,
    ) {
        out.push('{');
        for (count, (key, value)) in object.members().enumerate() {
            if count > 0 {
                out.push(',');
            }
            out.push_str(&lone_halves_replaced(key.written()));
            out.push(':');
            write(self, key, value, out);
        }
        out.push('}');
    }

    /// Appends a value at this place of the delta.
    fn value(&mut self, value: Raw<'_>, place: &str, out: &mut String) {
        if value.is_object() {
            return self.members(
                value,
                |halves, key, value, out| halves.value(value, &format!("{place}/{}", key.inner_text()), out),
                out,
            );
        }
        if value.is_array() {
            out.push('[');
            for (count, element) in value.elements().enumerate() {
                if count > 0 {
                    out.push(',');
                }
                let index = element.member(b"index").and_then(Raw::count).unwrap_or(count as u64);
                let mut place = place.to_owned();
                let _ = write!(place, "/{index}");
                self.value(element, &place, out);
            }
            return out.push(']');
        }
        if value.is_string() { self.text(value.inner_text(), place, out) } else { out.push_str(value.written()) }
    }

    fn text(&mut self, text: &str, place: &str, out: &mut String) {
        let held = self.0.iter().position(|(of, _)| of == place).filter(|_| !text.is_empty());
        let mut text = held.map_or(String::new(), |held| self.0.swap_remove(held).1) + text;
        let end = text.len().saturating_sub(ESCAPE);
        let backslashes = text.bytes().take(end).rev().take_while(|byte| *byte == b'\\').count();
        let ends_with_half = text.as_bytes().get(end..).is_some_and(is_high_surrogate) && backslashes.is_multiple_of(2);
        if ends_with_half && self.0.len() < MAX_HELD {
            self.0.push((place.to_owned(), text.split_off(end)));
        }
        out.push('"');
        out.push_str(&lone_halves_replaced(&text));
        out.push('"');
    }
}
