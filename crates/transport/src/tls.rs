//! TLS settings for calls to providers.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
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
/// The system's are read at the first handshake, unless [`read_system_roots`] did so before. Workers that share the result
/// resume each other's sessions.
///
/// # Errors
/// When `ca_file` cannot be read or holds no certificate. A system without root certificates is only logged, because a
/// gateway with local providers needs none.
pub fn client_config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, TlsFault> {
    let further = ca_file.map(roots_in).transpose()?.unwrap_or_else(RootCertStore::empty);
    config(Trust::Roots { further, verifier: OnceLock::new() })
}

/// The TLS configuration for calls to the gateway of this machine at its own address, which its certificate need not name. With
/// `certificate` the server must show it; without, any is taken: for calls without a key.
///
/// # Errors
/// If rustls rejects it.
pub fn own_config(certificate: Option<&CertificateDer<'static>>) -> Result<Arc<ClientConfig>, TlsFault> {
    config(Trust::Own { expected: certificate.cloned() })
}

fn config(trust: Trust) -> Result<Arc<ClientConfig>, TlsFault> {
    // The provider is explicit, so that no process-wide default has to be installed before.
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(TlsFault::Rejected)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { trust, provider }))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Checks the certificates of servers.
#[derive(Debug)]
struct Verifier {
    trust: Trust,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug)]
enum Trust {
    /// Certificates that one of the system's roots or of `further` vouches for. The verifier is made at the first handshake: to
    /// read the system's roots takes longer than all else at the start. `None`: there are no roots.
    Roots { further: RootCertStore, verifier: OnceLock<Option<Arc<WebPkiServerVerifier>>> },
    /// One certificate whatever it names, or any.
    Own { expected: Option<CertificateDer<'static>> },
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let expected = match &self.trust {
            Trust::Own { expected } => expected,
            Trust::Roots { further, verifier } => {
                let verifier = verifier.get_or_init(|| {
                    let mut roots = system_roots().clone();
                    roots.extend(further.roots.iter().cloned());
                    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider))
                        .build()
                        .ok()
                });
                let verifier = verifier.as_ref().ok_or(CertificateError::UnknownIssuer)?;
                return verifier.verify_server_cert(shown, between, name, ocsp, now);
            }
        };
        if expected.as_ref().is_some_and(|expected| expected != shown) {
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

/// Reads the system's root certificates, so that the first handshake need not.
pub fn read_system_roots() {
    system_roots();
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

fn roots_in(path: &Path) -> Result<RootCertStore, TlsFault> {
    let fault = |why: String| TlsFault::CaFile(path.to_owned(), why);
    let pem = std::fs::read(path).map_err(|error| fault(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| fault(format!("not PEM: {error}")))?;
        roots.add(certificate).map_err(|error| fault(format!("not a certificate authority: {error}")))?;
    }
    if roots.is_empty() {
        return Err(fault("holds no certificate; it needs at least one PEM block 'CERTIFICATE'".to_owned()));
    }
    Ok(roots)
}
