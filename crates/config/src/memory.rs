//! `[routing.memory]`: the file that stores the routing statistics for the next process.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{quantity::HOUR, section::Section};

/// `[routing.memory]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryConfig {
    /// The file; `None` means that statistics are not saved.
    pub path: Option<PathBuf>,
    /// Whether the configuration names a file, or none with `""`.
    pub(super) is_set: bool,
    /// Time between two saves while there are new observations.
    pub save_interval: Duration,
}

impl MemoryConfig {
    /// A relative path is relative to `directory`, the directory of the configuration.
    pub(super) fn read(section: &Section<'_>, directory: &Path) -> MemoryConfig {
        let written = section.text("path");
        let path = written.filter(|path| !path.is_empty());
        if path.is_some_and(|path| path.ends_with('/') || path.contains('\0') || path.trim().is_empty()) {
            section.fault(
                "path",
                "is not the path of a file",
                "a path such as \"state/routing.json\", or \"\" for none",
            );
        }
        MemoryConfig {
            path: path.map(|path| directory.join(path)),
            is_set: written.is_some(),
            save_interval: section.duration_or(
                "save_interval",
                Duration::from_millis(100)..=HOUR,
                Duration::from_secs(10),
            ),
        }
    }
}
