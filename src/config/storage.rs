//! The model list and the stored data: `[catalog]`, `[ledger]` and `[images]`. The models are in [`super::models`].

use std::time::Duration;

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
        let default = CatalogConfig::default();
        let envelopes = [("auto", Envelope::Auto), ("bare", Envelope::Bare), ("paged", Envelope::Paged)];
        CatalogConfig {
            builtin: section.flag("builtin"),
            envelope: section.choice("envelope", &envelopes).unwrap_or(default.envelope),
            list_aliases: section.flag("list_aliases").unwrap_or(default.list_aliases),
        }
    }
}

/// `[ledger]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerConfig {
    /// Maximum number of records; the oldest are removed first.
    pub capacity: usize,
    /// Maximum age of a record.
    pub max_age: Duration,
}

impl Default for LedgerConfig {
    fn default() -> LedgerConfig {
        LedgerConfig { capacity: 10_000, max_age: Duration::from_secs(86_400) }
    }
}

impl LedgerConfig {
    pub(super) fn read(section: &Section<'_>) -> LedgerConfig {
        let default = LedgerConfig::default();
        LedgerConfig {
            capacity: section.integer("capacity", 1..=10_000_000).unwrap_or(default.capacity),
            max_age: section.duration("max_age", Duration::from_secs(1)..=3650 * DAY).unwrap_or(default.max_age),
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

impl Default for ImagesConfig {
    fn default() -> ImagesConfig {
        ImagesConfig { url_ttl: Duration::from_secs(3600), max_bytes: 64 * MIB, max_image_bytes: 32 * MIB }
    }
}

impl ImagesConfig {
    pub(super) fn read(section: &Section<'_>) -> ImagesConfig {
        let default = ImagesConfig::default();
        ImagesConfig {
            url_ttl: section.duration("url_ttl", MILLISECOND..=WEEK).unwrap_or(default.url_ttl),
            max_bytes: section.bytes("capacity", 0..=64 * 1024 * MIB).unwrap_or(default.max_bytes),
            max_image_bytes: section.bytes("max_image", 1024..=1024 * MIB).unwrap_or(default.max_image_bytes),
        }
    }
}
