//! The files that a configuration names, with digests of their content.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

/// Collects files while a configuration is read.
#[derive(Debug, Default)]
pub(super) struct Files(RefCell<NamedFiles>);

/// Every file that a configuration names. The digest is set when the configuration does not hold the file's content, so
/// that a changed file makes the configuration unequal.
pub(super) type NamedFiles = BTreeMap<PathBuf, Option<[u8; 32]>>;

impl Files {
    /// Adds a file whose content is part of the configuration.
    pub(super) fn add(&self, path: &Path) {
        self.0.borrow_mut().entry(path.to_owned()).or_insert(None);
    }

    /// Adds a file of which the configuration holds only the path.
    pub(super) fn add_with_digest(&self, path: &Path, content: &[u8]) {
        self.0.borrow_mut().insert(path.to_owned(), Some(Sha256::digest(content).into()));
    }

    pub(super) fn into_named(self) -> NamedFiles {
        self.0.into_inner()
    }
}
