//! The files a configuration names: what they held when it was read, and where to look for changes.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

/// Collects files while a configuration is read. Shared by reference among all readers.
#[derive(Debug, Default)]
pub(super) struct Files(RefCell<NamedFiles>);

/// Every file that a configuration names, with the digest of what it held where nothing else of the configuration tells.
pub(super) type NamedFiles = BTreeMap<PathBuf, Option<[u8; 32]>>;

impl Files {
    /// A file whose content is part of the configuration anyway.
    pub(super) fn name(&self, path: &Path) {
        self.0.borrow_mut().entry(path.to_owned()).or_insert(None);
    }

    /// A file of which only the path stays in the configuration.
    pub(super) fn hold(&self, path: &Path, content: &[u8]) {
        self.0.borrow_mut().insert(path.to_owned(), Some(Sha256::digest(content).into()));
    }

    pub(super) fn into_named(self) -> NamedFiles {
        self.0.into_inner()
    }
}
