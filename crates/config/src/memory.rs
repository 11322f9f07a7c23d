//! `[routing.memory]`: the file that stores the routing statistics for the next process.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    quantity::{HOUR, MILLISECOND, SECOND},
    section::Section,
};

settings! {
    /// Statistics of endpoints, saved for the next start: names and figures of endpoints, no prompts and no keys. All
    /// keys need a restart.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct MemoryConfig read(section, parent: &Path) {
        /// The file, such as `state/routing.json`. It is created when it is missing, and only its owner can read it.
        /// Each replica needs its own file. Empty: nothing is saved, and every start has empty statistics. Without a
        /// durable ledger nothing is saved unless a file is named.
        pub path: Option<PathBuf> = with(|section, key| file(section, key, parent))
            [absent = "`routing.json` in `ledger.data_dir`", allowed = "path, relative to this file; `\"\"`: none"],
        /// Whether the configuration names a file, or none with `""`.
        pub(super) is_set: bool => section.has("path"),
        /// Time between two saves while there are new observations; the file is also saved at the end. A crash loses at
        /// most this time.
        pub save_interval: Duration = duration_or(100 * MILLISECOND..=HOUR, 10 * SECOND),
    }
}

/// A relative path is relative to `parent`, the directory of the configuration.
fn file(section: &Section<'_>, key: &'static str, parent: &Path) -> Option<PathBuf> {
    let path = section.text(key).filter(|path| !path.is_empty())?;
    if path.ends_with('/') || path.contains('\0') || path.trim().is_empty() {
        let allowed = "a path such as \"state/routing.json\", or \"\" for none";
        section.fault(key, "is not the path of a file", allowed);
    }
    Some(parent.join(path))
}
