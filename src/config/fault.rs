//! What is wrong with a configuration, and where.
//!
//! Every check reports here and carries on, so that one run shows every fault. Nothing here decides
//! what is a fault; a fault's text never holds the value of a secret.

use std::{cell::RefCell, fmt, sync::Arc};

use pointsman_actors::domain::closest_name;

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

/// "`, did you mean 'x'?`" or nothing.
pub(super) fn hint<'k>(text: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    closest_name(text, known).map_or_else(String::new, |meant| format!(", did you mean '{meant}'?"))
}
