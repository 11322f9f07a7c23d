//! A text of the configuration that is checked after it was read.

use pointsman_domain::listed_names;

use super::fault::{Faults, ModelName, Named, SourceLocation, hint};

/// Most characters of a wrong text in a message.
const SHOWN: usize = 64;

/// A string with its location, such as an item of a list.
#[derive(Clone)]
pub(super) struct Item<'t> {
    pub(super) text: &'t str,
    pub(super) location: &'t SourceLocation,
    pub(super) path: String,
    pub(super) faults: &'t Faults,
}

impl Item<'_> {
    /// Reports that this text is wrong.
    pub(super) fn fault(&self, wrong: impl Into<String>, allowed: impl Into<String>) {
        self.faults.value(self.location, &self.path, wrong, allowed);
    }

    /// Reports that this text is none of the words that are known. `what`: what each of them is, with its article.
    pub(super) fn unknown<'k>(&self, what: &str, known: impl IntoIterator<Item = &'k str>) {
        let known: Vec<&str> = known.into_iter().collect();
        let wrong = format!("'{}' is {what}{}", beginning(self.text), hint(self.text, known.iter().copied()));
        self.fault(wrong, listed_names(self.text, known));
    }

    /// The value of `all` that this text names. Reports a text that names none. `what`: what it is not, with its article.
    pub(super) fn named<T: Copy, const N: usize>(
        &self,
        what: &str,
        all: [T; N],
        name: fn(T) -> &'static str,
    ) -> Option<T> {
        let named = all.into_iter().find(|value| name(*value) == self.text);
        if named.is_none() {
            self.unknown(what, all.map(name));
        }
        named
    }

    /// Reports that this text may be meant otherwise.
    pub(super) fn warning(&self, text: impl Into<String>) {
        self.faults.warning(self.location, &self.path, text);
    }

    /// Reports that this text names something that does not exist.
    pub(super) fn dangling(&self, wrong: impl Into<String>, allowed: impl Into<String>) {
        self.faults.absence(self.location, &self.path, wrong, allowed);
    }

    /// Reports, once the catalog is complete, if this text names no model, or with `may_be_alias` no alias either.
    pub(super) fn names_model(&self, may_be_alias: bool) {
        self.names(if may_be_alias { Named::ModelOrAlias } else { Named::Model });
    }

    /// Reports, once the catalog is complete, if this text names no alias: that is a fault.
    pub(super) fn names_alias(&self) {
        self.names(Named::Alias);
    }

    fn names(&self, meant: Named) {
        let (location, key, name) = (self.location.clone(), self.path.clone(), self.text.to_owned());
        self.faults.model_name(ModelName { location, key, name, meant });
    }
}

/// As much of a wrong text as a message shows.
pub(super) fn beginning(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}
