//! The server's certificate: `[server.tls]`.
//!
//! Read and matched here, so that a wrong path, a broken file or a key that belongs to another certificate is a fault
//! like any other: at start, in `pointsman check`, and when the files change while the server runs.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use chrono::{DateTime, TimeDelta, Utc};
use rustls::{
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::CertifiedKey,
};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::{credential::open_to_others, files::Files, section::Section, validity};

/// A larger file is neither a certificate nor a key.
const LARGEST_FILE: u64 = 1024 * 1024;
/// A certificate that ends before then should have been renewed.
const SOON: TimeDelta = TimeDelta::days(7);
const SHAPE: &str = "a PEM file: the server's certificate first, then those between it and its authority";
const KEY_SHAPE: &str = "a PEM file with the private key of the certificate, readable by its owner only";

/// `[server.tls]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// Where the certificates are.
    pub certificate: PathBuf,
    /// Where the private key is.
    pub key: PathBuf,
    /// What they hold.
    pub identity: Identity,
    /// Whether others than its owner may use the key's file.
    pub key_mode: Option<u32>,
    /// When the first of the certificates ends, if they say so.
    pub ends: Option<DateTime<Utc>>,
}

/// Certificates with their key, ready to be shown to clients. Printing it shows nothing of them.
#[derive(Clone)]
pub struct Identity {
    /// For the handshake.
    pub certified: Arc<CertifiedKey>,
    /// Of both files.
    digest: [u8; 32],
}

impl PartialEq for Identity {
    fn eq(&self, other: &Identity) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Identity {}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

impl TlsConfig {
    /// The section, if it is there. Relative paths are relative to the configuration's own directory.
    pub(super) fn read(section: &Section<'_>, directory: &Path, files: &Files) -> Option<TlsConfig> {
        let (certificate, key) = (section.required("certificate", SHAPE), section.required("key", KEY_SHAPE));
        let (certificate, key) = (directory.join(certificate?), directory.join(key?));
        files.name(&certificate);
        files.name(&key);
        let chain = read_file(&certificate).map_err(|wrong| section.fault("certificate", wrong, SHAPE));
        let secret = read_file(&key).map_err(|wrong| section.fault("key", wrong, KEY_SHAPE));
        let identity = identity(section, &chain.ok()?, &secret.ok()?)?;
        let key_mode = fs::metadata(&key).ok().and_then(|metadata| open_to_others(&metadata));
        let ends = identity.certified.cert.iter().filter_map(|certificate| validity::end(certificate)).min();
        Some(TlsConfig { certificate, key, identity, key_mode, ends })
    }

    /// What is wrong with it, or soon will be, at `now`.
    pub(super) fn notes(&self, now: DateTime<Utc>) -> Vec<String> {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        let ended = self.ends.filter(|end| *end < now + SOON).map(|end| {
            let day = end.format("%Y-%m-%d %H:%M UTC");
            let consequence = if end < now { "ended on" } else { "ends on" };
            format!("server.tls.certificate: {certificate} {consequence} {day}; clients refuse it from then on.")
        });
        let lax = self.key_mode.map(|mode| format!("server.tls.key: {key} has mode {mode:04o}: others may read it."));
        ended.into_iter().chain(lax).collect()
    }
}

fn read_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    let shown = path.display();
    let read = || {
        let metadata = fs::metadata(path)?;
        if !metadata.is_file() || metadata.len() > LARGEST_FILE {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file of at most 1 MiB"));
        }
        fs::read(path)
    };
    read().map(Zeroizing::new).map_err(|error| format!("{shown} cannot be read: {error}"))
}

fn identity(section: &Section<'_>, chain: &[u8], secret: &[u8]) -> Option<Identity> {
    let certificates: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(chain).collect::<Result<_, _>>().unwrap_or_default();
    if certificates.is_empty() {
        section.fault("certificate", "holds no certificate, or a broken one", SHAPE);
    }
    let key = PrivateKeyDer::from_pem_slice(secret).ok();
    let key = key.and_then(|key| ring::default_provider().key_provider.load_private_key(key).ok());
    if key.is_none() {
        section.fault("key", "holds no private key, or a broken one", KEY_SHAPE);
    }
    let certified = CertifiedKey::new(certificates, key?);
    if certified.cert.is_empty() {
        return None;
    }
    match certified.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
        Err(rustls::Error::InconsistentKeys(_)) => {
            section.fault("key", "belongs to another certificate", KEY_SHAPE);
            return None;
        }
        Err(_) => {
            section.fault("certificate", "holds a broken certificate", SHAPE);
            return None;
        }
    }
    let digest = Sha256::new().chain_update(Sha256::digest(chain)).chain_update(Sha256::digest(secret)).finalize();
    Some(Identity { certified: Arc::new(certified), digest: digest.into() })
}
