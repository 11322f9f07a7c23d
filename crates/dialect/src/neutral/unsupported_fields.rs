//! The fields of a request that an endpoint does not support: dropped, or emulated.

use std::{borrow::Cow, sync::Arc};

use crate::json::Raw;

/// Most names of each kind: they travel in headers, and the client chooses them.
const MAX_NAMES: usize = 64;
/// Longest name, characters.
const MAX_CHARS: usize = 64;

/// Names of fields in the client's spelling, such as `seed` or `messages[].name`; sorted, each once, the first 64.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnsupportedFields {
    dropped: Vec<Arc<str>>,
    emulated: Vec<Arc<str>>,
}

impl UnsupportedFields {
    /// The field was left out: the endpoint cannot honour it.
    pub(crate) fn drop(&mut self, name: &str) {
        insert(&mut self.dropped, name);
    }

    /// The member of the object at `path` was left out. One without a value is not named.
    pub(crate) fn drop_member(&mut self, path: &str, name: &[u8], value: Raw<'_>) {
        let is_void = value.is_null() || (value.is_array() && !value.is_filled());
        if !is_void {
            self.drop_within(path, name);
        }
    }

    /// The member of the object at `path` was left out, whatever its value.
    pub(crate) fn drop_within(&mut self, path: &str, name: &[u8]) {
        // An object may have a million members: no name is written out that would not be kept.
        if self.dropped.len() < MAX_NAMES {
            self.drop(&format!("{path}.{}", String::from_utf8_lossy(name)));
        }
    }

    /// The values of several members of the object at `path`, of which all others were left out.
    pub(crate) fn pick<'a, const N: usize>(
        &mut self,
        path: &str,
        members: impl Iterator<Item = (Raw<'a>, Raw<'a>)>,
        names: [&[u8]; N],
    ) -> [Option<Raw<'a>>; N] {
        let mut found = [None; N];
        for (key, value) in members {
            let key = key.name();
            match names.iter().position(|name| **name == *key) {
                Some(place) => found.iter_mut().skip(place).take(1).for_each(|found| *found = Some(value)),
                None => self.drop_member(path, &key, value),
            }
        }
        found
    }

    /// The meaning of the field was produced by other means, such as a clamp or an instruction.
    pub(crate) fn emulate(&mut self, name: &str) {
        insert(&mut self.emulated, name);
    }

    /// The names of both kinds.
    pub(crate) fn into_parts(self) -> (Vec<Arc<str>>, Vec<Arc<str>>) {
        (self.dropped, self.emulated)
    }

    /// Fields that were left out.
    pub fn dropped(&self) -> &[Arc<str>] {
        &self.dropped
    }

    /// Fields whose meaning was produced by other means.
    pub fn emulated(&self) -> &[Arc<str>] {
        &self.emulated
    }
}

/// A field by another name, if it stands within one of these places of chat: each with the client's name for it.
pub(crate) fn renamed_within<'n>(name: &'n str, places: &[(&str, &str)]) -> Cow<'n, str> {
    let within = |(chat, own): &(&str, &str)| Some(format!("{own}{}", name.strip_prefix(chat)?));
    places.iter().find_map(within).map_or(Cow::Borrowed(name), Cow::Owned)
}

fn insert(names: &mut Vec<Arc<str>>, name: &str) {
    // A body may have a million.
    if names.len() >= MAX_NAMES || names.iter().any(|known| **known == *name) {
        return;
    }
    let fit = |c: char| if c.is_ascii_alphanumeric() || "_-.[]".contains(c) { c } else { '?' };
    let clean: String = name.chars().take(MAX_CHARS).map(fit).collect();
    if let Err(place) = names.binary_search_by(|known| (**known).cmp(&clean)) {
        names.insert(place, clean.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_named_once_and_fit_for_a_header() {
        let mut unsupported = UnsupportedFields::default();
        for name in ["seed", "messages[].name", "seed", "bad\r\nname"] {
            unsupported.drop(name);
        }
        unsupported.emulate("temperature");
        let dropped: Vec<&str> = unsupported.dropped().iter().map(AsRef::as_ref).collect();
        assert_eq!(dropped, ["bad??name", "messages[].name", "seed"]);
        assert_eq!(unsupported.emulated().len(), 1);
    }

    #[test]
    fn the_number_of_names_is_bounded() {
        let mut unsupported = UnsupportedFields::default();
        (0..1_000).for_each(|n| unsupported.drop(&format!("field_{n}")));
        assert_eq!(unsupported.dropped().len(), MAX_NAMES);
        unsupported.drop_within("messages[].content[]", b"one_more");
        assert_eq!(unsupported.dropped().len(), MAX_NAMES);
    }

    #[test]
    fn a_member_is_named_with_its_place() {
        let mut unsupported = UnsupportedFields::default();
        unsupported.drop_within("messages[].content[]", b"odd");
        let dropped: Vec<&str> = unsupported.dropped().iter().map(AsRef::as_ref).collect();
        assert_eq!(dropped, ["messages[].content[].odd"]);
    }
}
