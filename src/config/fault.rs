//! What is wrong with a configuration, and where.
//!
//! Every check reports here and carries on, so that one run shows every fault. Nothing here decides
//! what is a fault; a fault's text never holds the value of a secret.

use std::{cell::RefCell, fmt, sync::Arc};

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In a file: line and column count from 1, columns count characters.
    File {
        /// The file as it was named.
        file: Arc<str>,
        /// Line.
        line: u32,
        /// Column.
        column: u32,
    },
    /// In the value of this environment variable.
    Variable(Arc<str>),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Place::Variable(name) => write!(f, "{name}"),
        }
    }
}

/// One thing that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Where it stands.
    pub place: Place,
    /// The key with its path, such as `providers.acme.base_url` or `models[3].endpoints[0].pricing`.
    pub key: String,
    /// What is wrong.
    pub wrong: String,
    /// What is allowed instead.
    pub allowed: String,
    kind: Kind,
}

/// What a fault rests on; decides which ones a broken file makes doubtful.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// The text is not TOML.
    Syntax,
    /// Something that is there is wrong.
    Value,
    /// Something is not there, or refers to what is not there.
    Absence,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}; allowed: {}", self.place, self.key, self.wrong, self.allowed)
    }
}

impl std::error::Error for Fault {}

/// Where checks put what they find. Shared by reference among all of them.
#[derive(Debug, Default)]
pub(super) struct Faults(RefCell<Vec<Fault>>);

impl Faults {
    /// Something that is there is wrong.
    pub(super) fn value(&self, place: &Place, key: &str, wrong: impl Into<String>, allowed: impl Into<String>) {
        self.add(place, key, wrong.into(), allowed.into(), Kind::Value);
    }

    /// Something that should be there is not.
    pub(super) fn absence(&self, place: &Place, key: &str, wrong: impl Into<String>, allowed: impl Into<String>) {
        self.add(place, key, wrong.into(), allowed.into(), Kind::Absence);
    }

    /// The text cannot be read at this place.
    pub(super) fn syntax(&self, place: &Place, key: &str, wrong: impl Into<String>, allowed: impl Into<String>) {
        self.add(place, key, wrong.into(), allowed.into(), Kind::Syntax);
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    fn add(&self, place: &Place, key: &str, wrong: String, allowed: String, kind: Kind) {
        self.0.borrow_mut().push(Fault { place: place.clone(), key: key.to_owned(), wrong, allowed, kind });
    }

    /// Every fault, in the order of the file, those of the environment last.
    ///
    /// A file that is not TOML is still read as far as possible, but what a syntax fault may have
    /// caused itself is left out: other faults on its line, and everything said to be missing.
    pub(super) fn into_sorted(self) -> Vec<Fault> {
        let mut faults = self.0.into_inner();
        let broken: Vec<Place> =
            faults.iter().filter(|fault| fault.kind == Kind::Syntax).map(|fault| fault.place.clone()).collect();
        if !broken.is_empty() {
            let doubtful = |fault: &Fault| match fault.kind {
                Kind::Syntax => false,
                Kind::Value => broken.iter().any(|place| same_line(place, &fault.place)),
                Kind::Absence => true,
            };
            faults.retain(|fault| !doubtful(fault));
        }
        faults.sort();
        faults.dedup();
        faults
    }
}

fn same_line(one: &Place, other: &Place) -> bool {
    match (one, other) {
        (Place::File { line: one, .. }, Place::File { line: other, .. }) => one == other,
        (Place::Variable(one), Place::Variable(other)) => one == other,
        _ => false,
    }
}

/// The one of `known` that `text` was probably meant to be, if any is close enough: a few slips of the
/// finger away, or longer or shorter at its end.
pub(super) fn nearest<'k>(text: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // Longer texts are no slips of the finger, and the comparison is quadratic.
    if text.len() > 64 {
        return None;
    }
    let close_enough = (text.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|candidate| (edit_distance(text, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= close_enough || extends(text, candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn extends(one: &str, other: &str) -> bool {
    let shorter = one.len().min(other.len());
    shorter >= 3 && (one.starts_with(other) || other.starts_with(one))
}

/// "`, did you mean 'x'?`" or nothing.
pub(super) fn hint<'k>(text: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    nearest(text, known).map_or_else(String::new, |meant| format!(", did you mean '{meant}'?"))
}

/// Insertions, deletions, replacements and swaps of neighbours that lead from one text to the other
/// (optimal string alignment).
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    // The two rows above the current one, each with the distance to every beginning of `to`.
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    let mut last = None;
    for (line, letter) in from.chars().enumerate() {
        let mut row = vec![line + 1];
        for (column, other) in to.iter().enumerate() {
            let cost = |row: &[usize], back: usize| row.get((column + 1).wrapping_sub(back)).copied();
            let replaced = cost(&above, 1).map(|distance| distance + usize::from(letter != *other));
            let deleted = cost(&above, 0).map(|distance| distance + 1);
            let inserted = cost(&row, 1).map(|distance| distance + 1);
            let neighbour = column.checked_sub(1).and_then(|left| to.get(left)).copied();
            let swap = neighbour == Some(letter) && last == Some(*other);
            let swapped = swap.then(|| cost(&before, 2)).flatten().map(|distance| distance + 1);
            let best = [replaced, deleted, inserted, swapped].into_iter().flatten().min();
            row.push(best.unwrap_or(usize::MAX));
        }
        last = Some(letter);
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_known_word_is_found_and_far_ones_are_not() {
        let known = ["max_body_bytes", "max_n", "max_tools"];
        assert_eq!(nearest("max_tool", known), Some("max_tools"));
        assert_eq!(nearest("maxn", known), Some("max_n"));
        assert_eq!(nearest("max", known), Some("max_n"));
        assert_eq!(nearest("temperature", known), None);
        assert_eq!(nearest(&"x".repeat(100), known), None);
    }

    #[test]
    fn edit_distance_counts_single_changes() {
        for (from, to, distance) in
            [("", "", 0), ("abc", "", 3), ("", "ab", 2), ("kitten", "sitting", 3), ("bnid", "bind", 1)]
        {
            assert_eq!(edit_distance(from, to), distance, "{from} {to}");
        }
    }
}
