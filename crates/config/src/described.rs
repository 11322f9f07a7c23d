//! What the declarations of keys say, recorded by [`super::section`] for [`super::reference`].

use super::{
    fault::SourceLocation,
    toml_value,
    tree::{self, Value},
};

/// Prices and scores of endpoints are described at their models.
const PRICED: &str = "models[].endpoints[].";

/// What the reader of a key does not know of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Words {
    /// Unit of a plain number.
    pub(super) unit: &'static str,
    /// Meaning of an absent key, where that is no value.
    pub(super) absent: &'static str,
    /// Replaces the range of the reader.
    pub(super) allowed: &'static str,
    /// Replaces the type of the reader.
    pub(super) kind: &'static str,
    /// Value of an absent key as TOML, where the reader has none; a test checks that it is the one in force.
    pub(super) default: &'static str,
}

impl Words {
    pub(super) const NONE: Words = Words { unit: "", absent: "", allowed: "", kind: "", default: "" };
}

/// All sections, in the order in which they are read.
#[derive(Debug, Default)]
pub(super) struct Reference {
    pub(super) sections: Vec<Described>,
}

/// One section of the configuration.
#[derive(Debug, Default)]
pub(super) struct Described {
    /// Its path; `*` stands for a name chosen by the operator, `[]` for each entry of a list.
    pub(super) path: String,
    /// Empty for a table that is described as one key of the section around it.
    pub(super) about: String,
    pub(super) keys: Vec<Key>,
}

/// One key of a section.
#[derive(Debug, Default)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) absent: String,
    /// Type that the reader asks for; `None` if no reader reads it.
    pub(super) requested: Option<&'static str>,
    /// Range that the reader checks.
    pub(super) range: String,
    default: Option<Value>,
    pub(super) words: Words,
}

/// The element with this name, which is added if there is none.
fn named<'l, T: Default>(list: &'l mut Vec<T>, name: &str, name_of: fn(&mut T) -> &mut String) -> Option<&'l mut T> {
    let position = list.iter_mut().position(|element| name_of(element) == name).unwrap_or_else(|| {
        let mut element = T::default();
        name.clone_into(name_of(&mut element));
        list.push(element);
        list.len() - 1
    });
    list.get_mut(position)
}

impl Reference {
    /// The described section at a path.
    pub(super) fn at(&self, path: &str) -> Option<&Described> {
        self.sections.iter().find(|section| section.path == path)
    }

    /// Changes a section that is recorded.
    pub(super) fn section(&mut self, path: &str) -> Option<&mut Described> {
        match path.strip_prefix(PRICED) {
            Some(prices) => named(&mut self.sections, &format!("models[].{prices}"), |section| &mut section.path),
            None => named(&mut self.sections, path, |section| &mut section.path),
        }
    }

    /// Changes a key that is recorded.
    pub(super) fn key(&mut self, path: &str, name: &str) -> Option<&mut Key> {
        named(&mut self.section(path)?.keys, name, |key| &mut key.name)
    }
}

impl Key {
    /// What its declaration says. Of a key that is inherited from another section only the first sentence is repeated.
    pub(super) fn describe(&mut self, about: &str, words: Words, inherited: Option<&str>) {
        let about = about.trim();
        match inherited {
            Some(from) => {
                self.about = first_sentence(about);
                from.clone_into(&mut self.absent);
                self.words =
                    Words { allowed: if words.allowed.is_empty() { "" } else { "as for a provider" }, ..words };
            }
            None => {
                about.clone_into(&mut self.about);
                words.absent.clone_into(&mut self.absent);
                self.words = words;
            }
        }
    }

    /// What its reader asks for. A key may be read as a string before it is read with its type.
    pub(super) fn request(&mut self, kind: &'static str, range: String) {
        if self.requested.is_none_or(str::is_empty) || (self.requested == Some("string") && !kind.is_empty()) {
            self.requested = Some(kind);
            self.range = range;
        }
    }

    pub(super) fn set_default(&mut self, default: Value) {
        self.default = Some(default);
    }

    /// Type that is shown.
    pub(super) fn kind(&self) -> &'static str {
        if self.words.kind.is_empty() { self.requested.unwrap_or_default() } else { self.words.kind }
    }

    /// The value that an absent key has; `None` when `absent` describes what it means.
    pub(super) fn default(&self) -> Option<Value> {
        if !self.absent.is_empty() {
            return None;
        }
        let written = tree::read_value(self.words.default, &SourceLocation::Default);
        written.or_else(|| self.default.clone())
    }

    pub(super) fn shown_default(&self) -> String {
        self.default().map_or_else(|| self.absent.clone(), |value| format!("`{}`", toml_value::value(&value)))
    }

    pub(super) fn shown_range(&self) -> String {
        match self.requested {
            _ if !self.words.allowed.is_empty() => self.words.allowed.to_owned(),
            Some("word") => format!("`{}`", self.range.replace("\", \"", "`, `").replace('"', "")),
            _ => self.range.clone(),
        }
    }
}

pub(super) fn first_sentence(text: &str) -> String {
    let first = text.split_once(". ").map_or(text, |(first, _)| first).trim_end_matches('.');
    format!("{first}.")
}
