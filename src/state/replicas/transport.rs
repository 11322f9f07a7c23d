//! TLS for connections to the stores: the roots of the system and those of `ca_file`.

use std::{path::Path, sync::Arc};

use pointsman_transport::{TlsFault, client_config};
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

/// Makes TLS connections.
#[derive(Clone)]
pub struct Tls(TlsConnector);

impl Tls {
    /// Reads the certificates.
    ///
    /// # Errors
    /// `ca_file` cannot be read or holds no certificate.
    pub fn new(ca_file: Option<&Path>) -> Result<Tls, TlsFault> {
        let mut config = (*client_config(ca_file)?).clone();
        config.alpn_protocols.clear();
        Ok(Tls(TlsConnector::from(Arc::new(config))))
    }

    /// The connector, and the name that the certificate must have.
    ///
    /// # Errors
    /// `host` is neither a name nor an address.
    pub fn to(&self, host: &str) -> std::io::Result<(TlsConnector, ServerName<'static>)> {
        let name = ServerName::try_from(host.to_owned()).map_err(std::io::Error::other)?;
        Ok((self.0.clone(), name))
    }
}
