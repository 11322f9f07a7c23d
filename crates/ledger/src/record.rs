//! Records of generations as bytes, and back, every figure bit for bit.
//!
//! A record begins with the number of its format. It does not hold the catalog and the policy of its decision, but their
//! hashes: they are stored once per version, each as a [`Version`]. What this module writes is small already, and
//! still repeats itself from record to record: callers compress many records together.

#[cfg(test)]
mod any;
mod bytes;
mod candidate;
mod decision;
#[cfg(test)]
mod dice;
mod generation;
#[cfg(test)]
mod tests;
mod values;
mod versions;

use std::{fmt, sync::Arc};

use pointsman_domain::{Catalog, Generation, RoutingPolicy};
use sha2::{Digest, Sha256};

pub use self::bytes::Unreadable;
use self::bytes::{Reader, Stored};

/// The format that is written and read. It rises with every change of what is written.
pub const FORMAT: u8 = 1;

/// The SHA-256 of a version's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub [u8; 32]);

impl ContentHash {
    /// Whether it is the hash of these bytes.
    #[must_use]
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        self.0 == *Sha256::digest(bytes)
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// A catalog or a policy, stored once and named by many records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Names it.
    pub hash: ContentHash,
    /// What is stored; not compressed.
    pub bytes: Vec<u8>,
}

impl Version {
    fn of(content: &impl Stored) -> Version {
        let mut bytes = vec![FORMAT];
        content.put(&mut bytes);
        Version { hash: ContentHash(Sha256::digest(&bytes).into()), bytes }
    }

    /// The version of a catalog.
    #[must_use]
    pub fn of_catalog(catalog: &Catalog) -> Version {
        Version::of(catalog)
    }

    /// The version of a policy.
    #[must_use]
    pub fn of_policy(policy: &RoutingPolicy) -> Version {
        Version::of(policy)
    }
}

/// Why a record or version cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordFault {
    /// It is of a later format: a newer Pointsman wrote it and can read it.
    Newer {
        /// Its format.
        format: u8,
    },
    /// It names a catalog that is not there.
    NoCatalog(ContentHash),
    /// It names a policy that is not there.
    NoPolicy(ContentHash),
    /// Its bytes are not what was written.
    Damaged(Unreadable),
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordFault::Newer { format } => {
                write!(f, "written in format {format} by a newer Pointsman; this one reads format {FORMAT}")
            }
            RecordFault::NoCatalog(hash) => write!(f, "its catalog {hash} is not stored"),
            RecordFault::NoPolicy(hash) => write!(f, "its policy {hash} is not stored"),
            RecordFault::Damaged(fault) => write!(f, "damaged at {fault}"),
        }
    }
}

impl std::error::Error for RecordFault {}

impl From<Unreadable> for RecordFault {
    fn from(fault: Unreadable) -> RecordFault {
        RecordFault::Damaged(fault)
    }
}

/// The stored catalogs and policies, by their hashes.
pub trait Versions {
    /// The catalog of this hash.
    fn catalog(&self, hash: ContentHash) -> Option<Arc<Catalog>>;

    /// The policy of this hash.
    fn policy(&self, hash: ContentHash) -> Option<Arc<RoutingPolicy>>;
}

/// Writes records. It remembers the catalogs and policies of late, so that none is hashed for each record.
#[derive(Debug, Default)]
pub struct RecordWriter {
    catalogs: Recent<Catalog>,
    policies: Recent<RoutingPolicy>,
}

/// A record, with the versions it names if no earlier record of the same writer did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenRecord {
    /// The record.
    pub bytes: Vec<u8>,
    /// The version of its catalog, if it is new to the writer: it must be stored no later than the record.
    pub catalog: Option<Version>,
    /// The same of its policy.
    pub policy: Option<Version>,
}

impl RecordWriter {
    /// The record of a generation.
    pub fn write(&mut self, generation: &Generation) -> WrittenRecord {
        let mut bytes = Vec::new();
        let [catalog, policy] = self.append(generation, &mut bytes);
        WrittenRecord { bytes, catalog, policy }
    }

    /// Appends the record of a generation to `bytes`. Gives what [`WrittenRecord`] holds beside: catalog and policy.
    pub fn append(&mut self, generation: &Generation, bytes: &mut Vec<u8>) -> [Option<Version>; 2] {
        let (catalog_hash, catalog) = self.catalogs.version(&generation.catalog);
        let (policy_hash, policy) = self.policies.version(&generation.policy);
        bytes.push(FORMAT);
        bytes.extend_from_slice(&catalog_hash.0);
        bytes.extend_from_slice(&policy_hash.0);
        generation::put(generation, bytes);
        [catalog, policy]
    }
}

/// The last versions in use: one, and during a reload that before.
#[derive(Debug)]
struct Recent<T>([Option<(Arc<T>, ContentHash)>; 2]);

impl<T> Default for Recent<T> {
    fn default() -> Recent<T> {
        Recent([None, None])
    }
}

impl<T: Stored> Recent<T> {
    /// The hash of a version, and the version itself if it is not among the last.
    fn version(&mut self, content: &Arc<T>) -> (ContentHash, Option<Version>) {
        let known = self.0.iter().flatten().find(|(known, _)| Arc::ptr_eq(known, content));
        if let Some((_, hash)) = known {
            return (*hash, None);
        }
        let version = Version::of(&**content);
        let [latest, before] = &mut self.0;
        *before = latest.replace((Arc::clone(content), version.hash));
        (version.hash, Some(version))
    }
}

/// Reads a record.
///
/// # Errors
/// When it is of a later format or damaged, or its catalog or policy is not there. No bytes make it panic.
pub fn read(bytes: &[u8], versions: &impl Versions) -> Result<Generation, RecordFault> {
    let mut from = opened(bytes)?;
    let (catalog, policy) = (ContentHash(from.array()?), ContentHash(from.array()?));
    let catalog = versions.catalog(catalog).ok_or(RecordFault::NoCatalog(catalog))?;
    let policy = versions.policy(policy).ok_or(RecordFault::NoPolicy(policy))?;
    let generation = generation::take(&mut from, catalog, policy)?;
    from.end()?;
    Ok(generation)
}

/// The hashes of the catalog and of the policy that a record names. `None` if these are not the bytes of a record.
#[must_use]
pub fn versions_of(bytes: &[u8]) -> Option<[ContentHash; 2]> {
    let mut from = opened(bytes).ok()?;
    Some([ContentHash(from.array().ok()?), ContentHash(from.array().ok()?)])
}

/// Reads the bytes of a catalog's version.
///
/// # Errors
/// When they are of a later format or damaged.
pub fn read_catalog(bytes: &[u8]) -> Result<Catalog, RecordFault> {
    read_version(bytes)
}

/// Reads the bytes of a policy's version.
///
/// # Errors
/// When they are of a later format or damaged.
pub fn read_policy(bytes: &[u8]) -> Result<RoutingPolicy, RecordFault> {
    read_version(bytes)
}

fn read_version<T: Stored>(bytes: &[u8]) -> Result<T, RecordFault> {
    let mut from = opened(bytes)?;
    let content = T::take(&mut from)?;
    from.end()?;
    Ok(content)
}

/// What follows the number of the format.
fn opened(bytes: &[u8]) -> Result<Reader<'_>, RecordFault> {
    let mut from = Reader::new(bytes);
    let [format] = from.array()?;
    match format {
        FORMAT => Ok(from),
        _ if format > FORMAT => Err(RecordFault::Newer { format }),
        _ => Err(from.fault("an unknown format").into()),
    }
}
