//! The model list and the stored data: `[catalog]`, `[ledger]` and `[images]`. The models are in [`super::models`].

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    quantity::{DAY, MILLISECOND, WEEK},
    section::Section,
};

const MIB: usize = 1024 * 1024;

/// Shape of the model list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Envelope {
    /// Paged for requests with page parameters and for client libraries that require it, else bare.
    #[default]
    Auto,
    /// Always only `data`.
    Bare,
    /// Always with `total_count` and `links`.
    Paged,
}

/// `[catalog]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CatalogConfig {
    /// Whether the built-in catalogue is used; `None` means when the configuration defines no provider.
    pub builtin: Option<bool>,
    /// Shape of the model list.
    pub envelope: Envelope,
    /// Whether aliases are listed among the models.
    pub list_aliases: bool,
}

impl CatalogConfig {
    pub(super) fn read(section: &Section<'_>) -> CatalogConfig {
        let envelopes = [("auto", Envelope::Auto), ("bare", Envelope::Bare), ("paged", Envelope::Paged)];
        CatalogConfig {
            builtin: section.flag("builtin"),
            envelope: section.choice_or("envelope", &envelopes, Envelope::Auto),
            list_aliases: section.flag_or("list_aliases", false),
        }
    }
}

/// `[ledger]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerConfig {
    /// Directory of the durable ledger; `None` for a configuration that was passed as text and names none.
    pub data_dir: Option<PathBuf>,
    /// When a record is safe on disk.
    pub durability: Durability,
    /// Whether calls are refused while their records could be lost.
    pub required: bool,
    /// Maximum number of records in memory without a durable ledger; the oldest are removed first.
    pub capacity: usize,
    /// Maximum age of a record.
    pub max_age: Duration,
    /// Size of the stored records, bytes, above which the oldest are deleted.
    pub max_bytes: u64,
}

/// When the record of a generation is safe on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Handed to the operating system before the last byte of the answer is sent, and synced at most 200 ms later.
    Group,
    /// As `Group`, and on the disk before the last byte of the answer is sent.
    Sync,
    /// In memory only.
    Off,
}

impl LedgerConfig {
    /// Directory of the durable ledger; `None` if records are kept in memory only.
    #[must_use]
    pub fn durable_directory(&self) -> Option<&Path> {
        self.data_dir.as_deref().filter(|_| self.durability != Durability::Off)
    }

    /// A relative directory is relative to `directory`, that of the configuration.
    pub(super) fn read(section: &Section<'_>, directory: &Path) -> LedgerConfig {
        let durabilities = [("group", Durability::Group), ("sync", Durability::Sync), ("off", Durability::Off)];
        let data_dir = section.text("data_dir");
        if data_dir.is_some_and(|path| path.contains('\0') || path.trim().is_empty()) {
            section.fault("data_dir", "is not the path of a directory", "a path such as \"data\"");
        }
        let durability = section.choice_or("durability", &durabilities, Durability::Group);
        let required = section.flag_or("required", false);
        if required && durability == Durability::Off {
            section.fault("required", "needs a ledger on disk", "durability = \"group\" or \"sync\"");
        }
        LedgerConfig {
            required,
            data_dir: data_dir.map(|path| directory.join(path)),
            durability,
            max_bytes: section.bytes_or("max_size", 16 * MIB..=1024 * 1024 * MIB, 4096 * MIB) as u64,
            capacity: section.integer_or("capacity", 1..=10_000_000, 10_000),
            max_age: section.duration_or("max_age", Duration::from_secs(1)..=3650 * DAY, 30 * DAY),
        }
    }
}

/// `[images]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagesConfig {
    /// Time until a link to an image expires.
    pub url_ttl: Duration,
    /// Memory for images; the least recently used are removed first.
    pub max_bytes: usize,
    /// Maximum size of an image that is fetched from a provider.
    pub max_image_bytes: usize,
}

impl ImagesConfig {
    pub(super) fn read(section: &Section<'_>) -> ImagesConfig {
        ImagesConfig {
            url_ttl: section.duration_or("url_ttl", MILLISECOND..=WEEK, Duration::from_secs(3600)),
            max_bytes: section.bytes_or("capacity", 0..=64 * 1024 * MIB, 64 * MIB),
            max_image_bytes: section.bytes_or("max_image", 1024..=1024 * MIB, 32 * MIB),
        }
    }
}
