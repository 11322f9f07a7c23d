//! TLS settings for calls to providers.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};

/// Why there is no TLS configuration.
#[derive(Debug)]
pub enum TlsFault {
    /// The file of further root certificates cannot be read or is invalid.
    CaFile(PathBuf, String),
    /// rustls rejected the configuration.
    Rejected(rustls::Error),
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsFault::CaFile(path, why) => write!(f, "{}: {why}", path.display()),
            TlsFault::Rejected(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for TlsFault {}

/// The TLS configuration of all calls: the system's root certificates and those in `ca_file` (PEM), HTTP/1.1 only.
///
/// Reads files, so call it once at the start. Workers that share the result resume each other's sessions.
///
/// # Errors
/// When `ca_file` cannot be read or holds no certificate. A system without root certificates is only logged, because a
/// gateway with local providers needs none.
pub fn client_config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, TlsFault> {
    let mut roots = system_roots().clone();
    if let Some(path) = ca_file {
        add_file(&mut roots, path)?;
    }
    // The provider is explicit, so that no process-wide default has to be installed before.
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(TlsFault::Rejected)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The TLS configuration for calls to the gateway of this machine at its own address, which its certificate need not name. With
/// `certificate` the server must show it; without, any is taken: for calls without a key.
///
/// # Errors
/// As for [`client_config`].
pub fn own_config(certificate: Option<&CertificateDer<'static>>) -> Result<Arc<ClientConfig>, TlsFault> {
    let mut config = (*client_config(None)?).clone();
    let verifier = OwnCertificate { expected: certificate.cloned(), provider: ring::default_provider() };
    config.dangerous().set_certificate_verifier(Arc::new(verifier));
    Ok(Arc::new(config))
}

/// Takes one certificate whatever it names, or any.
#[derive(Debug)]
struct OwnCertificate {
    expected: Option<CertificateDer<'static>>,
    provider: CryptoProvider,
}

impl ServerCertVerifier for OwnCertificate {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.expected.as_ref().is_some_and(|expected| expected != shown) {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, shown, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, shown, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The system's root certificates, read once per process.
fn system_roots() -> &'static RootCertStore {
    static ROOTS: OnceLock<RootCertStore> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        let system = rustls_native_certs::load_native_certs();
        for error in &system.errors {
            log::warn!("system certificates: {error}");
        }
        roots.add_parsable_certificates(system.certs);
        roots
    })
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), TlsFault> {
    let fault = |why: String| TlsFault::CaFile(path.to_owned(), why);
    let pem = std::fs::read(path).map_err(|error| fault(error.to_string()))?;
    let mut found = 0_u32;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| fault(format!("not PEM: {error}")))?;
        roots.add(certificate).map_err(|error| fault(format!("not a certificate authority: {error}")))?;
        found += 1;
    }
    if found == 0 {
        return Err(fault("holds no certificate; it needs at least one PEM block 'CERTIFICATE'".to_owned()));
    }
    Ok(())
}
