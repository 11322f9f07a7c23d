//! A running gateway, asked through its admin listener.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use pointsman_config::Environment;
use pointsman_domain::FailureKind;
use pointsman_transport::{Connection, client_config, read_page};
use rustls::ClientConfig;

use super::{
    super::gateway::{self, ErrorPage},
    Failed, LedgerPlace,
};

/// Pause before a page is asked for again that the gateway had no time for.
const PAUSE: Duration = Duration::from_secs(1);
/// How often a page is asked for.
const TRIES: u32 = 30;

/// The gateway.
pub(super) struct Remote {
    url: String,
    connection: Connection,
    tls: Arc<ClientConfig>,
}

impl Remote {
    pub(super) fn new(url: &str, place: &LedgerPlace, environment: &Environment) -> Result<Remote, Failed> {
        let url = gateway::root(url);
        let connection = Connection::new(url).map_err(|fault| Failed::Refused(format!("--url {fault}")))?;
        let key = gateway::key(place.key_env.as_deref(), url, environment).map_err(Failed::Refused)?;
        let connection = connection.with_bearer(key).map_err(|fault| Failed::Refused(format!("the key {fault}")))?;
        let tls = client_config(None).map_err(|fault| Failed::Refused(fault.to_string()))?;
        Ok(Remote { url: url.to_owned(), connection, tls })
    }

    /// The page of the admin interface at `path`. Waits while the gateway is busy.
    pub(super) async fn page(&self, path: &str, timeout: Duration) -> Result<Bytes, Failed> {
        let path = format!("/api/v1/admin/{path}");
        let mut tries = 0;
        loop {
            let read = read_page(&self.connection, &self.tls, &path, timeout).await;
            let (status, body) = read.map_err(|error| {
                let hint =
                    if error.failure.kind == FailureKind::Connect { "; is this its admin listener?" } else { "" };
                Failed::Unreachable(format!("{}: {error}{hint}", self.url))
            })?;
            tries += 1;
            match status {
                200 => return Ok(body),
                429 | 503 if tries < TRIES => actix_web::rt::time::sleep(PAUSE).await,
                _ => return Err(self.refused(status, &body)),
            }
        }
    }

    fn refused(&self, status: u16, body: &[u8]) -> Failed {
        let message = serde_json::from_slice(body).map(|ErrorPage { error }| error.message);
        let hint = match status {
            401 | 403 => " It needs a key with the scope 'admin', in POINTSMAN_API_KEY or the variable of --key-env.",
            404 => " The address must be that of the admin listener (admin.bind).",
            _ => "",
        };
        let message = message.as_deref().unwrap_or("no readable error message.");
        Failed::Refused(format!("{} answers {status}: {message}{hint}", self.url))
    }
}
