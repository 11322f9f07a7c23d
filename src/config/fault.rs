//! What is wrong with a configuration, and where.
//!
//! Every check reports here and carries on, so that one run shows every fault. Nothing here decides
//! what is a fault; a fault's text never holds the value of a secret.

use std::{cell::RefCell, fmt, sync::Arc};

use pointsman_actors::domain::closest_name;

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceLocation {
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
    /// Nowhere: it is what holds where nothing is said.
    Default,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceLocation::File { file, line, column } => write!(f, "{file}:{line}:{column}"),
            SourceLocation::Variable(name) => write!(f, "{name}"),
            SourceLocation::Default => f.write_str("default"),
        }
    }
}

/// One thing that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Where it stands.
    pub place: SourceLocation,
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

/// Something in a configuration that still works and should be written otherwise.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning {
    /// Where it stands.
    pub place: SourceLocation,
    /// The key with its path, as it is written.
    pub key: String,
    /// What to know about it.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.key, self.text)
    }
}

/// A key that a reading asked for, and what it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    /// The path of its section, with the names and positions of the configuration that was read.
    pub(super) section: String,
    pub(super) key: &'static str,
    pub(super) kind: &'static str,
    pub(super) allowed: String,
}

/// Where checks put what they find. Shared by reference among all of them.
#[derive(Debug, Default)]
pub(super) struct Faults {
    found: RefCell<Vec<Fault>>,
    warnings: RefCell<Vec<Warning>>,
    /// `None`: nobody wants to know what was asked for.
    asked: Option<RefCell<Vec<Asked>>>,
}

impl Faults {
    /// One that also notes every key that is asked for.
    pub(super) fn recording() -> Faults {
        Faults { asked: Some(RefCell::default()), ..Faults::default() }
    }

    /// A key was asked for.
    pub(super) fn asked(&self, asked: impl FnOnce() -> Asked) {
        if let Some(all) = &self.asked {
            all.borrow_mut().push(asked());
        }
    }

    /// Every key that was asked for, in that order.
    pub(super) fn into_asked(self) -> Vec<Asked> {
        self.asked.map(RefCell::into_inner).unwrap_or_default()
    }

    /// Something that works, and should be written otherwise.
    pub(super) fn warning(&self, place: &SourceLocation, key: &str, text: impl Into<String>) {
        let warning = Warning { place: place.clone(), key: key.to_owned(), text: text.into() };
        self.warnings.borrow_mut().push(warning);
    }

    /// Every warning so far, in the order of the file.
    pub(super) fn take_warnings(&self) -> Vec<Warning> {
        let mut warnings = self.warnings.take();
        warnings.sort();
        warnings.dedup();
        warnings
    }

    /// Something that is there is wrong.
    pub(super) fn value(
        &self,
        place: &SourceLocation,
        key: &str,
        wrong: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        self.add(place, key, wrong.into(), allowed.into(), Kind::Value);
    }

    /// Something that should be there is not.
    pub(super) fn absence(
        &self,
        place: &SourceLocation,
        key: &str,
        wrong: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        self.add(place, key, wrong.into(), allowed.into(), Kind::Absence);
    }

    /// The text cannot be read at this place.
    pub(super) fn syntax(
        &self,
        place: &SourceLocation,
        key: &str,
        wrong: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        self.add(place, key, wrong.into(), allowed.into(), Kind::Syntax);
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    fn add(&self, place: &SourceLocation, key: &str, wrong: String, allowed: String, kind: Kind) {
        self.found.borrow_mut().push(Fault { place: place.clone(), key: key.to_owned(), wrong, allowed, kind });
    }

    /// Every fault, in the order of the file, those of the environment last.
    ///
    /// A file that is not TOML is still read as far as possible, but what a syntax fault may have
    /// caused itself is left out: other faults on its line, and everything said to be missing.
    pub(super) fn into_sorted(self) -> Vec<Fault> {
        let mut faults = self.found.into_inner();
        let broken: Vec<SourceLocation> =
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

fn same_line(one: &SourceLocation, other: &SourceLocation) -> bool {
    match (one, other) {
        (SourceLocation::File { line: one, .. }, SourceLocation::File { line: other, .. }) => one == other,
        (SourceLocation::Variable(one), SourceLocation::Variable(other)) => one == other,
        _ => false,
    }
}

/// "`, did you mean 'x'?`" or nothing.
pub(super) fn hint<'k>(text: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    closest_name(text, known).map_or_else(String::new, |meant| format!(", did you mean '{meant}'?"))
}
