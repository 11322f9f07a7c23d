//! Reloads of the configuration: `[reload]`.

use std::time::Duration;

use super::{
    quantity::{MILLISECOND, MINUTE},
    section::Section,
};

/// `[reload]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReloadConfig {
    /// Whether files are watched.
    pub watch: bool,
    /// Time that files must be unchanged before they are read.
    pub debounce: Duration,
    /// Whether a reload may remove authentication, accept the public key, or drop all keys in force.
    pub allow_widening: bool,
}

impl Default for ReloadConfig {
    fn default() -> ReloadConfig {
        ReloadConfig { watch: true, debounce: Duration::from_millis(250), allow_widening: false }
    }
}

impl ReloadConfig {
    pub(super) fn read(section: &Section<'_>) -> ReloadConfig {
        let default = ReloadConfig::default();
        ReloadConfig {
            watch: section.flag("watch").unwrap_or(default.watch),
            debounce: section.duration("debounce", MILLISECOND..=MINUTE).unwrap_or(default.debounce),
            allow_widening: section.flag("allow_widening").unwrap_or(default.allow_widening),
        }
    }
}
