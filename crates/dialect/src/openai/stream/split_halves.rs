//! Halves of characters: a surrogate pair whose escapes stand in two events.
//!
//! A text that ends with `\ud83d` and goes on with `\ude00` in the next event is valid for nobody but clients that join texts
//! before they read them. The first half waits for the second; a half that stays alone becomes U+FFFD. Events without halves,
//! nearly all, never come here.

use std::fmt::Write as _;

use crate::{
    json::Raw,
    neutral::{is_high_surrogate, lone_halves_replaced},
};

/// Most texts that may end with half a character at a time.
const MAX_HELD: usize = 64;
/// Most bytes of what ends a text.
const MAX_LOST_BYTES: usize = 4 * 1024;
/// Length of the escape of one half.
const ESCAPE: usize = 6;

/// The halves that wait for the other half.
#[derive(Debug, Default)]
pub(crate) struct SplitHalves(Vec<Held>);

/// A half that waits.
#[derive(Debug)]
struct Held {
    /// Which text ends with it.
    place: String,
    half: String,
    /// JSON that says U+FFFD in that text.
    lost: String,
}

impl SplitHalves {
    /// Whether no half waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An element of `choices` in which every character is whole.
    pub(crate) fn mended(&mut self, holder: &[u8], choice: Raw<'_>) -> String {
        let mut out = String::with_capacity(choice.written().len() + 16);
        members(choice, &mut out, |name, value, out| {
            if name.as_bytes() != holder || !value.is_object() {
                return out.push_str(&lone_halves_replaced(value.written()));
            }
            members(value, out, |name, value, out| self.value(value, &Place::top(name), out));
            self.end_texts(value, out);
        });
        out
    }

    /// Ends the texts that do not go on although others do. `out` ends with the delta. Calls end with the answer, since the
    /// pieces of several may alternate.
    fn end_texts(&mut self, delta: Raw<'_>, out: &mut String) {
        let goes_on = |name: &str| {
            !delta.is_filled() || name == "tool_calls" || delta.members().any(|(key, _)| key.inner_text() == name)
        };
        let mut last = String::new();
        let has_ended = |held: &mut Held| {
            let name = held.place.split('/').next().unwrap_or_default();
            let ends = !goes_on(name) && name != last;
            if ends {
                name.clone_into(&mut last);
            }
            ends
        };
        for held in self.0.extract_if(.., has_ended) {
            out.truncate(out.len() - 1);
            let _ = write!(out, ",{}}}", held.lost);
        }
    }

    /// What ends the texts whose places are such: for each of them, JSON that says U+FFFD there.
    pub(crate) fn ended(&mut self, has_ended: impl Fn(&str) -> bool) -> Vec<String> {
        self.0.extract_if(.., |held| has_ended(&held.place)).map(|held| held.lost).collect()
    }

    /// Appends a value at this place of the delta.
    fn value(&mut self, value: Raw<'_>, place: &Place, out: &mut String) {
        if value.is_object() {
            return members(value, out, |name, value, out| self.value(value, &place.member(name), out));
        }
        if value.is_array() {
            out.push('[');
            for (count, element) in value.elements().enumerate() {
                if count > 0 {
                    out.push(',');
                }
                self.value(element, &place.element(element, count), out);
            }
            return out.push(']');
        }
        if !value.is_string() {
            return out.push_str(value.written());
        }
        out.push('"');
        self.text(value.inner_text(), &place.path, || place.lost(), out);
        out.push('"');
    }

    /// Appends the escaped text at this place, without the half at its end. `lost`: JSON that says U+FFFD there, in an event of
    /// its own.
    pub(crate) fn text(&mut self, text: &str, place: &str, lost: impl FnOnce() -> String, out: &mut String) {
        let held = self.0.iter().position(|held| held.place == place).filter(|_| !text.is_empty());
        let mut text = held.map_or(String::new(), |held| self.0.swap_remove(held).half) + text;
        let end = text.len().saturating_sub(ESCAPE);
        let backslashes = text.bytes().take(end).rev().take_while(|byte| *byte == b'\\').count();
        let ends_with_half = text.as_bytes().get(end..).is_some_and(is_high_surrogate) && backslashes.is_multiple_of(2);
        if ends_with_half && self.0.len() < MAX_HELD {
            let lost = lost();
            if lost.len() <= MAX_LOST_BYTES {
                self.0.push(Held { place: place.to_owned(), half: text.split_off(end), lost });
            }
        }
        out.push_str(&lone_halves_replaced(&text));
    }
}

/// Where a text stands in a delta.
struct Place {
    /// Its names and indices.
    path: String,
    /// What stands before and behind it in a delta of nothing else.
    before: String,
    behind: String,
}

impl Place {
    fn top(name: &str) -> Place {
        Place { path: name.to_owned(), before: format!("\"{name}\":"), behind: String::new() }
    }

    fn member(&self, name: &str) -> Place {
        // Behind the members that tell which element it is.
        let open = if self.before.ends_with(',') { "" } else { "{" };
        Place {
            path: format!("{}/{name}", self.path),
            before: format!("{}{open}\"{name}\":", self.before),
            behind: format!("}}{}", self.behind),
        }
    }

    fn element(&self, element: Raw<'_>, count: usize) -> Place {
        let [index, kind] = element.pick([b"index", b"type"]);
        let index = index.and_then(Raw::count).unwrap_or(count as u64);
        let mut before = format!("{}[", self.before);
        if element.is_object() {
            let _ = write!(before, "{{\"index\":{index},");
        }
        if let Some(kind) = kind.filter(|kind| kind.is_string()) {
            let _ = write!(before, "\"type\":{},", lone_halves_replaced(kind.written()));
        }
        Place { path: format!("{}/{index}", self.path), before, behind: format!("]{}", self.behind) }
    }

    fn lost(&self) -> String {
        format!("{}\"\u{fffd}\"{}", self.before, self.behind)
    }
}

/// Appends an object whose values `write` writes.
fn members(object: Raw<'_>, out: &mut String, mut write: impl FnMut(&str, Raw<'_>, &mut String)) {
    out.push('{');
    for (count, (key, value)) in object.members().enumerate() {
        let name = lone_halves_replaced(key.inner_text());
        let comma = if count > 0 { "," } else { "" };
        let _ = write!(out, "{comma}\"{name}\":");
        write(&name, value, out);
    }
    out.push('}');
}
