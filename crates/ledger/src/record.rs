//! Records of generations as bytes, and back, every figure bit for bit.
//!
//! A record begins with the number of its format, and is what `postcard` makes of a [`Generation`], followed by its candidates
//! (`candidate`), and by the choices of shadow policies, if there are any. It does not hold the catalog and the policy of its decision, but their hashes: they are stored once per
//! version, each as a [`Version`]. What this module writes still repeats itself from record to record: callers compress many
//! records together.

mod candidate;
#[cfg(test)]
mod dice;
#[cfg(test)]
pub(super) mod tests;

use std::{fmt, sync::Arc};

use pointsman_domain::{
    Alias, Catalog, Endpoint, Generation, Model, ParameterNames, ParameterSet, Provider, RoutingPolicy, ShadowChoice,
};
use postcard::{Deserializer, Serializer, de_flavors::Slice, ser_flavors::Flavor};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

/// The format that is written and read. It rises with every change of what is written.
pub const FORMAT: u8 = 1;

/// The SHA-256 of a version's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub [u8; 32]);

impl ContentHash {
    /// Whether it is the hash of these bytes.
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
    fn of(content: &impl Serialize) -> Version {
        let mut bytes = vec![FORMAT];
        append(content, &mut bytes);
        Version { hash: ContentHash(Sha256::digest(&bytes).into()), bytes }
    }

    /// The version of a catalog.
    pub fn of_catalog(catalog: &Catalog) -> Version {
        let names: Vec<_> = catalog.parameters.names(ParameterSet::of_bits(u128::MAX)).collect();
        let Catalog { version, providers, models, endpoints, aliases, .. } = catalog;
        Version::of(&(version, providers, models, endpoints, aliases, catalog.synonyms(), names))
    }

    /// The version of a policy.
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
    Damaged,
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordFault::Newer { format } => {
                write!(f, "written in format {format} by a newer Pointsman; this one reads format {FORMAT}")
            }
            RecordFault::NoCatalog(hash) => write!(f, "its catalog {hash} is not stored"),
            RecordFault::NoPolicy(hash) => write!(f, "its policy {hash} is not stored"),
            RecordFault::Damaged => f.write_str("damaged"),
        }
    }
}

impl std::error::Error for RecordFault {}

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

impl RecordWriter {
    /// Appends the record of a generation to `bytes`. Gives the versions of its catalog and of its policy where they are new to the
    /// writer: they must be stored no later than the record.
    pub fn append(&mut self, generation: &Generation, bytes: &mut Vec<u8>) -> [Option<Version>; 2] {
        let (catalog_hash, catalog) = self.catalogs.version(&generation.catalog, Version::of_catalog);
        let (policy_hash, policy) = self.policies.version(&generation.policy, Version::of_policy);
        bytes.push(FORMAT);
        bytes.extend_from_slice(&catalog_hash.0);
        bytes.extend_from_slice(&policy_hash.0);
        let mut out = Serializer { output: Bytes(bytes) };
        put(generation, &mut out);
        let decision = &generation.decision;
        for candidates in [&decision.candidates, &decision.rivals, &decision.standby] {
            candidate::put_all(candidates, &generation.catalog, &mut out);
        }
        if !generation.shadows.is_empty() {
            put(&generation.shadows, &mut out);
        }
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

impl<T> Recent<T> {
    /// The hash of a version, and the version itself if it is not among the last.
    fn version(&mut self, content: &Arc<T>, of: impl Fn(&T) -> Version) -> (ContentHash, Option<Version>) {
        let known = self.0.iter().flatten().find(|(known, _)| Arc::ptr_eq(known, content));
        if let Some((_, hash)) = known {
            return (*hash, None);
        }
        let version = of(content);
        let [latest, before] = &mut self.0;
        *before = latest.replace((Arc::clone(content), version.hash));
        (version.hash, Some(version))
    }
}

/// Where records are written to.
struct Bytes<'o>(&'o mut Vec<u8>);

impl Flavor for Bytes<'_> {
    type Output = ();

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        match bytes {
            // Most numbers are so small.
            [byte] => self.0.push(*byte),
            _ => self.0.extend_from_slice(bytes),
        }
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Appends what `postcard` makes of a value.
#[inline]
pub(super) fn append(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
    put(value, &mut Serializer { output: Bytes(out) });
}

#[inline]
fn put(value: &(impl Serialize + ?Sized), out: &mut Serializer<Bytes<'_>>) {
    // Memory takes everything.
    let _ = value.serialize(out);
}

/// Values that are read one after the other.
trait Source {
    /// The next one. `None` if what comes is no such value.
    fn next<T: DeserializeOwned>(&mut self) -> Option<T>;
}

impl<'b> Source for Deserializer<'b, Slice<'b>> {
    #[inline]
    fn next<T: DeserializeOwned>(&mut self) -> Option<T> {
        T::deserialize(self).ok()
    }
}

/// Reads a record.
///
/// # Errors
/// When it is of a later format or damaged, or its catalog or policy is not there. No bytes make it panic.
pub fn read(bytes: &[u8], versions: &impl Versions) -> Result<Generation, RecordFault> {
    let ([catalog, policy], rest) = opened(bytes).and_then(hashes)?;
    let catalog = versions.catalog(catalog).ok_or(RecordFault::NoCatalog(catalog))?;
    let policy = versions.policy(policy).ok_or(RecordFault::NoPolicy(policy))?;
    let mut from = Deserializer::from_bytes(rest);
    let mut read = generation(&mut from, catalog, policy).ok_or(RecordFault::Damaged)?;
    // Only records with choices of shadows go on.
    let rest = from.finalize().map_err(|_| RecordFault::Damaged)?;
    if !rest.is_empty() {
        let shadows: Vec<ShadowChoice> = whole(rest, Source::next)?;
        read.shadows = Some(shadows).filter(|shadows| !shadows.is_empty()).ok_or(RecordFault::Damaged)?;
    }
    Ok(read)
}

/// The hashes of the catalog and of the policy that a record names. `None` if these are not the bytes of a record.
pub fn versions_of(bytes: &[u8]) -> Option<[ContentHash; 2]> {
    opened(bytes).and_then(hashes).ok().map(|(hashes, _)| hashes)
}

/// Reads the bytes of a catalog's version.
///
/// # Errors
/// When they are of a later format or damaged.
pub fn read_catalog(bytes: &[u8]) -> Result<Catalog, RecordFault> {
    whole(opened(bytes)?, catalog)
}

/// Reads the bytes of a policy's version.
///
/// # Errors
/// When they are of a later format or damaged.
pub fn read_policy(bytes: &[u8]) -> Result<RoutingPolicy, RecordFault> {
    whole(opened(bytes)?, Source::next)
}

/// What follows the number of the format.
fn opened(bytes: &[u8]) -> Result<&[u8], RecordFault> {
    match bytes.split_first() {
        Some((&FORMAT, rest)) => Ok(rest),
        Some((&format, _)) if format > FORMAT => Err(RecordFault::Newer { format }),
        _ => Err(RecordFault::Damaged),
    }
}

fn hashes(bytes: &[u8]) -> Result<([ContentHash; 2], &[u8]), RecordFault> {
    let (catalog, rest) = bytes.split_first_chunk().ok_or(RecordFault::Damaged)?;
    let (policy, rest) = rest.split_first_chunk().ok_or(RecordFault::Damaged)?;
    Ok(([ContentHash(*catalog), ContentHash(*policy)], rest))
}

/// Reads a value that nothing follows.
fn whole<'b, T>(
    bytes: &'b [u8],
    read: impl FnOnce(&mut Deserializer<'b, Slice<'b>>) -> Option<T>,
) -> Result<T, RecordFault> {
    let mut from = Deserializer::from_bytes(bytes);
    let value = read(&mut from);
    let is_end = from.finalize().is_ok_and(<[u8]>::is_empty);
    value.filter(|_| is_end).ok_or(RecordFault::Damaged)
}

fn generation(from: &mut impl Source, catalog: Arc<Catalog>, policy: Arc<RoutingPolicy>) -> Option<Generation> {
    let mut generation: Generation = from.next()?;
    let decision = Arc::get_mut(&mut generation.decision)?;
    for candidates in [&mut decision.candidates, &mut decision.rivals, &mut decision.standby] {
        *candidates = candidate::take_all(from, &catalog)?;
    }
    Some(Generation { catalog, policy, ..generation })
}

/// A catalog. The names by which models and aliases are found are worked out again.
fn catalog(from: &mut impl Source) -> Option<Catalog> {
    type Parts = (Vec<Provider>, Vec<Model>, Vec<Endpoint>, Vec<Alias>, Vec<(String, String)>);
    let (version, (providers, models, endpoints, aliases, synonyms)) = (from.next()?, from.next::<Parts>()?);
    let mut parameters = ParameterNames::default();
    from.next::<Vec<String>>()?.iter().try_for_each(|name| parameters.intern(name).map(drop)).ok()?;
    Catalog::new(version, providers, models, endpoints, aliases, &synonyms, parameters).ok()
}
