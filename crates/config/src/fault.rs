//! Faults of a configuration, with their source locations.
//!
//! Every check reports its faults here and continues, so that one run shows all faults. The text of a fault never
//! contains a secret.

use std::{cell::RefCell, fmt, sync::Arc};

use pointsman_domain::{Catalog, closest_name, listed_names};

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceLocation {
    /// In a file.
    File {
        /// File name.
        file: Arc<str>,
        /// Line, from 1.
        line: u32,
        /// Column in characters, from 1.
        column: u32,
    },
    /// In this environment variable.
    Variable(Arc<str>),
    /// Not set: the default.
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

/// One fault of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Where it was found.
    pub location: SourceLocation,
    /// The key with its path, such as `providers.acme.base_url` or `models[3].endpoints[0].pricing`.
    pub key: String,
    /// What is wrong.
    pub wrong: String,
    /// What is allowed instead.
    pub allowed: String,
    kind: Kind,
}

/// Kind of a fault. Decides which faults a syntax fault may have caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// The text is not TOML.
    Syntax,
    /// A value is wrong.
    Value,
    /// A value is missing, or refers to something that does not exist.
    Absence,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}; allowed: {}", self.location, self.key, self.wrong, self.allowed)
    }
}

impl std::error::Error for Fault {}

/// A key that works, and what the operator should know about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning {
    /// Where it was found.
    pub location: SourceLocation,
    /// The key with its path, as the operator wrote it.
    pub key: String,
    /// The warning.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.location, self.key, self.text)
    }
}

/// A text that should name a model or an alias. It is looked up once the catalog is complete.
#[derive(Debug)]
pub(super) struct ModelName {
    pub(super) location: SourceLocation,
    pub(super) key: String,
    pub(super) name: String,
    pub(super) meant: Named,
}

/// What a text should name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    Model,
    ModelOrAlias,
    /// Other names are faults: nothing works without the alias.
    Alias,
}

/// Collects faults and warnings. Shared by reference among all checks.
#[derive(Debug, Default)]
pub(super) struct Faults {
    found: RefCell<Vec<Fault>>,
    warnings: RefCell<Vec<Warning>>,
    model_names: RefCell<Vec<ModelName>>,
}

impl Faults {
    /// Reports a key that works, and what the operator should know about it.
    pub(super) fn warning(&self, location: &SourceLocation, key: &str, text: impl Into<String>) {
        let warning = Warning { location: location.clone(), key: key.to_owned(), text: text.into() };
        self.warnings.borrow_mut().push(warning);
    }

    /// Remembers a name for [`Faults::look_up_names`].
    pub(super) fn model_name(&self, name: ModelName) {
        self.model_names.borrow_mut().push(name);
    }

    /// Reports each remembered name that the catalog does not know.
    pub(super) fn look_up_names(&self, catalog: &Catalog) {
        for ModelName { location, key, name, meant } in self.model_names.take() {
            let (models, aliases) = (catalog.models.iter(), catalog.aliases.iter());
            let models = models.filter(|_| meant != Named::Alias).map(|model| model.id.as_str());
            let aliases = aliases.filter(|_| meant != Named::Model).map(|alias| alias.id.as_str());
            let known = models.chain(aliases);
            match meant {
                // Without a catalog, whose faults are reported, nothing can be said.
                Named::Alias if catalog.alias_called(&name).is_none() && !catalog.aliases.is_empty() => {
                    let wrong = format!("'{name}' is no alias{}", hint(&name, known.clone()));
                    self.absence(&location, &key, wrong, listed_names(&name, known));
                }
                Named::Alias => {}
                Named::Model | Named::ModelOrAlias if catalog.knows(&name, meant == Named::ModelOrAlias) => {}
                Named::Model => self.warning(&location, &key, unknown(&name, "no model", known)),
                Named::ModelOrAlias => {
                    self.warning(&location, &key, unknown(&name, "neither a model nor an alias", known));
                }
            }
        }
    }

    /// Removes and returns all warnings, in the order of the file.
    pub(super) fn take_warnings(&self) -> Vec<Warning> {
        let mut warnings = self.warnings.take();
        warnings.sort();
        warnings.dedup();
        warnings
    }

    /// Reports a wrong value.
    pub(super) fn value(&self, at: &SourceLocation, key: &str, wrong: impl Into<String>, allowed: impl Into<String>) {
        self.add(at, key, wrong.into(), allowed.into(), Kind::Value);
    }

    /// Reports a missing value, or a reference to something that does not exist.
    pub(super) fn absence(&self, at: &SourceLocation, key: &str, wrong: impl Into<String>, allowed: impl Into<String>) {
        self.add(at, key, wrong.into(), allowed.into(), Kind::Absence);
    }

    /// Reports text that is not valid TOML.
    pub(super) fn syntax(&self, at: &SourceLocation, key: &str, wrong: impl Into<String>, allowed: impl Into<String>) {
        self.add(at, key, wrong.into(), allowed.into(), Kind::Syntax);
    }

    /// Reports what was found elsewhere.
    pub(super) fn extend(&self, faults: Vec<Fault>) {
        self.found.borrow_mut().extend(faults);
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    fn add(&self, location: &SourceLocation, key: &str, wrong: String, allowed: String, kind: Kind) {
        self.found.borrow_mut().push(Fault { location: location.clone(), key: key.to_owned(), wrong, allowed, kind });
    }

    /// All faults in the order of the file; those of the environment last.
    ///
    /// A file with syntax faults is still read as far as possible. Faults that may follow from a syntax fault are left
    /// out: other faults on its line, and all missing values.
    pub(super) fn into_sorted(self) -> Vec<Fault> {
        let mut faults = self.found.into_inner();
        let broken: Vec<SourceLocation> =
            faults.iter().filter(|fault| fault.kind == Kind::Syntax).map(|fault| fault.location.clone()).collect();
        if !broken.is_empty() {
            let may_follow = |fault: &Fault| match fault.kind {
                Kind::Syntax => false,
                Kind::Value => broken.iter().any(|location| same_line(location, &fault.location)),
                Kind::Absence => true,
            };
            faults.retain(|fault| !may_follow(fault));
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

fn unknown<'k>(name: &str, kinds: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    format!("'{name}' is {kinds} of this catalog{}", hint(name, known))
}

/// `, did you mean 'x'?` with the most similar known name, or an empty string.
pub(super) fn hint<'k>(text: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    closest_name(text, known).map_or_else(String::new, |meant| format!(", did you mean '{meant}'?"))
}
