//! The web console: `[console]`.

use super::section::Section;

/// `[console]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsoleConfig {
    /// Whether the admin listener serves the console.
    pub enabled: bool,
}

impl ConsoleConfig {
    pub(super) fn read(section: &Section<'_>) -> ConsoleConfig {
        ConsoleConfig { enabled: section.flag("enabled").unwrap_or(true) }
    }
}
