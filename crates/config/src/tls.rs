//! The server's certificate: `[server.tls]`.
//!
//! The files are read and checked with the configuration, so that a wrong path, a broken file or a key of another
//! certificate is a fault: at start, in `pointsman check`, and at a reload.

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

/// Largest accepted certificate or key file, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Remaining validity below which a certificate causes a warning.
const RENEWAL_WARNING: TimeDelta = TimeDelta::days(7);
const SHAPE: &str = "a PEM file: the server's certificate first, then those between it and its authority";
const KEY_SHAPE: &str = "a PEM file with the private key of the certificate, readable by its owner only";

/// `[server.tls]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// File of the certificates.
    pub certificate: PathBuf,
    /// File of the private key.
    pub key: PathBuf,
    /// The certificates and the key.
    pub identity: Identity,
    /// Mode of the key file, if it gives permissions to its group or others.
    pub key_mode: Option<u32>,
    /// When the first of the certificates expires, if known.
    pub ends: Option<DateTime<Utc>>,
}

/// Certificates with their private key. `Debug` shows neither.
#[derive(Clone)]
pub struct Identity {
    /// The certificates and key for the handshake.
    pub certified: Arc<CertifiedKey>,
    /// Digest of both files.
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
    /// Reads the section; `None` after a fault. Relative paths are relative to `directory`.
    pub(super) fn read(section: &Section<'_>, directory: &Path, files: &Files) -> Option<TlsConfig> {
        keys! { section:
            //! HTTPS instead of HTTP (TLS 1.2 and 1.3, HTTP/1.1); without this section, plain HTTP. Both files are read
            //! again when they change: new connections use the new certificate, open connections stay, and faulty files
            //! change nothing. The admin listener uses it too when it is not on loopback.
            /// PEM: the certificate of the server first, then the intermediate certificates.
            certificate = required(SHAPE) [allowed = "path, relative to this file"],
            /// PEM: the private key, mode 0600.
            key = required(KEY_SHAPE) [allowed = "path, relative to this file"],
        }
        let (certificate, key) = (directory.join(certificate?), directory.join(key?));
        files.add(&certificate);
        files.add(&key);
        let chain = read_file(&certificate).map_err(|wrong| section.fault("certificate", wrong, SHAPE));
        let secret = read_file(&key).map_err(|wrong| section.fault("key", wrong, KEY_SHAPE));
        let identity = identity(section, &chain.ok()?, &secret.ok()?)?;
        let key_mode = fs::metadata(&key).ok().and_then(|metadata| open_to_others(&metadata));
        let ends = identity.certified.cert.iter().filter_map(|certificate| validity::end(certificate)).min();
        Some(TlsConfig { certificate, key, identity, key_mode, ends })
    }

    /// Warnings at `now`: an expired or soon expiring certificate, and a key file with too many permissions.
    pub(super) fn notes(&self, now: DateTime<Utc>) -> Vec<String> {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        let ended = self.ends.filter(|end| *end < now + RENEWAL_WARNING).map(|end| {
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
        if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
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
        section.fault("certificate", "has no certificate, or a broken one", SHAPE);
    }
    let key = PrivateKeyDer::from_pem_slice(secret).ok();
    let key = key.and_then(|key| ring::default_provider().key_provider.load_private_key(key).ok());
    if key.is_none() {
        section.fault("key", "has no private key, or a broken one", KEY_SHAPE);
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
            section.fault("certificate", "has a broken certificate", SHAPE);
            return None;
        }
    }
    let digest = Sha256::new().chain_update(Sha256::digest(chain)).chain_update(Sha256::digest(secret)).finalize();
    Some(Identity { certified: Arc::new(certified), digest: digest.into() })
}
