//! TLS towards clients: which versions, which protocol, and always the certificate in force.
//!
//! HTTP/1.1 only: over HTTP/2 one connection carries many requests, and the bounds on a connection (idle, header,
//! write stall) would hit or spare all of them together.

use std::{fmt, sync::Arc};

use rustls::{
    ServerConfig,
    crypto::ring,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};

use crate::state::gateway::Shared;

/// TLS 1.2 and 1.3 with the certificate of whatever configuration is in force when a client says hello: connections
/// that are open stay as they are.
///
/// # Errors
/// Never with the versions above; the library's own check is passed on.
pub(crate) fn server_config(shared: &Arc<Shared>) -> Result<ServerConfig, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(&[&TLS13, &TLS12])?.with_no_client_auth();
    let mut config = builder.with_cert_resolver(Arc::new(InForce(Arc::clone(shared))));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Reads the certificate from the setup in force.
struct InForce(Arc<Shared>);

impl fmt::Debug for InForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InForce")
    }
}

impl ResolvesServerCert for InForce {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let setup = self.0.setup.load();
        setup.config.tls.as_ref().map(|tls| Arc::clone(&tls.identity.certified))
    }
}
