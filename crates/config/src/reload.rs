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

impl ReloadConfig {
    pub(super) fn read(section: &Section<'_>) -> ReloadConfig {
        ReloadConfig {
            watch: section.flag_or("watch", true),
            debounce: section.duration_or("debounce", MILLISECOND..=MINUTE, Duration::from_millis(250)),
            allow_widening: section.flag_or("allow_widening", false),
        }
    }
}
