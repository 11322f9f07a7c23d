//! TLS of the listeners: versions, protocol and certificate.
//!
//! HTTP/1.1 only: an HTTP/2 connection carries many requests, and the limits of a connection (idle, header, write stall)
//! would apply to all of them together.

use std::{fmt, sync::Arc};

use rustls::{
    ServerConfig,
    crypto::ring,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};

use crate::state::gateway::Shared;

/// TLS 1.2 and 1.3. Each handshake uses the certificate of the current configuration; open connections keep theirs.
///
/// # Errors
/// None with these versions; the result of the library's check is passed on.
pub(crate) fn server_config(shared: &Arc<Shared>) -> Result<ServerConfig, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(&[&TLS13, &TLS12])?.with_no_client_auth();
    let mut config = builder.with_cert_resolver(Arc::new(CurrentCertificate(Arc::clone(shared))));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Resolves the certificate of the current setup.
struct CurrentCertificate(Arc<Shared>);

impl fmt::Debug for CurrentCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CurrentCertificate")
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let setup = self.0.setup.load();
        setup.config.tls.as_ref().map(|tls| Arc::clone(&tls.identity.certified))
    }
}
