//! The model list and the stored data: `[catalog]`, `[ledger]` and `[images]`. The models are in [`super::models`].

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    quantity::{DAY, GIB, HOUR, KIB, MIB, MILLISECOND, SECOND, WEEK},
    section::Section,
};

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

settings! {
    /// The built-in catalogue, and the model list.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CatalogConfig read(section) {
        /// Whether the built-in providers, models and prices are used: see above.
        pub builtin: Option<bool> = flag() [absent = "true where no provider is defined"],
        /// Shape of the model list. `bare`: `{"data"}`; `paged`: with `total_count` and links; `auto`: paged for
        /// requests with page parameters and for client libraries that require it.
        pub envelope: Envelope = choice_or(
            &[("auto", Envelope::Auto), ("bare", Envelope::Bare), ("paged", Envelope::Paged)],
            Envelope::Auto
        ),
        /// Whether aliases are listed among the models.
        pub list_aliases: bool = flag_or(false),
    }
}

settings! {
    /// Records of generations, for explanations and queries. Prompts and answers are not stored.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LedgerConfig read(section, parent: &Path) {
        /// Directory of the durable ledger, one per process. It is created with mode 0700. Without a configuration file
        /// it is in the working directory. Needs a restart.
        pub data_dir: Option<PathBuf> = with(|section, key| data_dir(section, key, parent))
            [absent = "`data` beside this file", allowed = "path, relative to this file"],
        /// When a record is safe on disk. `group`: handed to the operating system before the last byte of the answer is
        /// sent, synced at most 200 ms later: a killed process loses nothing, a power failure at most that window.
        /// `sync`: on the disk before the last byte of the answer is sent; tokens of a stream flow, its end waits, and
        /// answers that end together share one sync. `off`: in memory only. Needs a restart.
        pub durability: Durability = choice_or(
            &[("group", Durability::Group), ("sync", Durability::Sync), ("off", Durability::Off)],
            Durability::Group
        ),
        /// Whether chat completions and images are refused with 503 (`ledger_unavailable`) while the disk fails and
        /// memory has no room for further records. Otherwise they are answered, and the oldest records in memory are
        /// lost and counted.
        pub required: bool = flag_or(false),
        /// Maximum age of a record.
        pub max_age: Duration = duration_or(SECOND..=3650 * DAY, 30 * DAY),
        /// Size of the stored records above which the oldest are deleted. Columns and sums are not counted: about a
        /// tenth more. Needs a restart.
        pub max_bytes "max_size": u64 =
            with(|section, key| section.bytes_or(key, 16 * MIB..=1024 * GIB, 4 * GIB) as u64),
        /// Maximum number of records in memory with `durability = "off"`; the oldest are removed first.
        pub capacity: usize = integer_or(1..=10_000_000, 10_000) [unit = "generations"],
    }
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
    pub fn durable_directory(&self) -> Option<&Path> {
        self.data_dir.as_deref().filter(|_| self.durability != Durability::Off)
    }

    pub(super) fn checked(self, section: &Section<'_>) -> LedgerConfig {
        if self.required && self.durability == Durability::Off {
            section.fault("required", "needs a ledger on disk", "durability = \"group\" or \"sync\"");
        }
        self
    }
}

/// A relative directory is relative to `parent`, the directory of the configuration.
fn data_dir(section: &Section<'_>, key: &'static str, parent: &Path) -> Option<PathBuf> {
    let path = section.text(key)?;
    if path.contains('\0') || path.trim().is_empty() {
        section.fault(key, "is not the path of a directory", "a path such as \"data\"");
    }
    Some(parent.join(path))
}

settings! {
    /// Generated images that are served by link.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ImagesConfig read(section) {
        /// Time until a link expires. Needs a restart.
        pub url_ttl: Duration = duration_or(MILLISECOND..=WEEK, HOUR),
        /// Memory for images; the least recently used are removed first. Needs a restart.
        pub max_bytes "capacity": usize = bytes_or(0..=64 * GIB, 64 * MIB),
        /// Maximum size of an image that is fetched from a provider that returned a link instead of bytes; all images
        /// of one answer together are limited by `limits.upstream_body`.
        pub max_image_bytes "max_image": usize = bytes_or(KIB..=GIB, 32 * MIB),
    }
}
