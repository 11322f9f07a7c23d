//! Address, credentials and limits of each provider of the catalog.
//!
//! Made once per configuration; each worker builds its clients from it. Besides the transport, only this module holds
//! provider keys.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use pointsman_base::secret::Secret;
use pointsman_config::{Config, KeyHeader, ProviderConfig};
use pointsman_dialect::SILENT_WORK;
use pointsman_domain::{Catalog, Dialect, ProviderSlug};
use pointsman_simulation::ProviderServer;
use rustls::ClientConfig;

use crate::{
    client::{TransportLimits, UpstreamClient},
    connection::Connection,
    redact::Redactor,
    service_account::ServiceAccount,
    signer::Signer,
};

/// Concurrency limit of a simulated provider.
const SIMULATED_CONCURRENCY: usize = 256;
/// Longest wait for a permit of a simulated provider.
const SIMULATED_WAIT: Duration = Duration::from_millis(100);

/// All providers, by position in the catalog.
pub struct Providers {
    providers: Vec<ProviderClient>,
    redactor: Arc<Redactor>,
    limits: TransportLimits,
    tls: TlsConfigs,
}

/// One provider.
pub struct ProviderClient {
    /// Slug of the provider.
    pub slug: ProviderSlug,
    /// `None` if the provider is off.
    connection: Option<(Connection, Arc<ClientConfig>)>,
    /// Concurrency limit.
    pub max_in_flight: usize,
    /// Longest wait for a permit.
    pub permit_wait: Duration,
}

impl Providers {
    /// The providers of `catalog`. Certificates of `before` are reused, unless their file has changed.
    ///
    /// # Errors
    /// A sentence that names the provider and the fault in its address, headers or certificates.
    pub fn new(
        config: &Config,
        catalog: &Catalog,
        simulation: &[&ProviderServer],
        before: Option<&Providers>,
    ) -> Result<Providers, String> {
        let off = catalog.providers.iter().map(|provider| ProviderClient::off(provider.slug.clone()));
        let mut providers: Vec<ProviderClient> = off.collect();
        let mut tls = TlsConfigs {
            before: before.map(|providers| providers.tls.known.clone()).unwrap_or_default(),
            ..TlsConfigs::default()
        };
        for provider in &config.providers {
            if let Some(client) = providers.get_mut(provider.index as usize) {
                client.set_real(provider, &mut tls).map_err(|why| format!("provider {}: {why}", provider.slug))?;
            }
        }
        for ((index, character), running) in config.simulation.providers.iter().zip(simulation) {
            if let Some(client) = providers.get_mut(*index as usize) {
                client
                    .set_simulated(running, character.dialect, &mut tls)
                    .map_err(|why| format!("{}: {why}", character.slug))?;
            }
        }
        let keys = config.providers.iter().filter_map(|provider| provider.key.clone());
        let signers = providers.iter().filter_map(|provider| provider.connection.as_ref()?.0.signer.as_deref());
        // A host may tell who the customer is, such as the name of a resource at Azure. One without a dot may be any word.
        let away = config.providers.iter().filter(|provider| !provider.base_url.is_loopback());
        let hosts = away.map(|provider| provider.base_url.host()).filter(|host| host.contains('.')).map(Secret::from);
        let secrets: Vec<_> = keys.chain(signers.flat_map(Signer::secrets).cloned()).chain(hosts).collect();
        Ok(Providers {
            providers,
            redactor: Arc::new(Redactor::new(secrets)),
            limits: TransportLimits {
                connect: config.timeouts.connect,
                keep_alive: config.timeouts.provider_idle,
                // The reader of a stream has a limit of its own, which is never longer than this.
                idle: config.stream.idle_timeout.max(config.timeouts.first_content).max(SILENT_WORK),
                max_body: config.limits.upstream_body_bytes,
                ..TransportLimits::default()
            },
            tls: TlsConfigs { before: HashMap::new(), ..tls },
        })
    }

    /// All providers, in the order of the catalog.
    pub fn iter(&self) -> impl Iterator<Item = &ProviderClient> {
        self.providers.iter()
    }

    /// Whether one is called by TLS.
    pub fn any_by_tls(&self) -> bool {
        let by_tls = |(connection, _): &(Connection, _)| connection.server_name.is_some();
        self.providers.iter().any(|provider| provider.connection.as_ref().is_some_and(by_tls))
    }

    /// Clients for the calling thread. A client keeps the open connections of its provider in `before`, if the address is the
    /// same.
    pub fn clients(&self, before: Option<(&Providers, &[Option<UpstreamClient>])>) -> Vec<Option<UpstreamClient>> {
        let client = |provider: &ProviderClient| {
            let (connection, tls) = provider.connection.as_ref()?;
            let known = before.and_then(|(providers, clients)| providers.client(&provider.slug, clients));
            Some(UpstreamClient::renewed(known, connection, tls, self.limits, Arc::clone(&self.redactor)))
        };
        self.providers.iter().map(client).collect()
    }

    fn client<'c>(&self, slug: &ProviderSlug, clients: &'c [Option<UpstreamClient>]) -> Option<&'c UpstreamClient> {
        let position = self.providers.iter().position(|provider| provider.slug == *slug)?;
        clients.get(position)?.as_ref()
    }
}

impl ProviderClient {
    fn off(slug: ProviderSlug) -> ProviderClient {
        ProviderClient { slug, connection: None, max_in_flight: 0, permit_wait: Duration::ZERO }
    }

    fn set_real(&mut self, provider: &ProviderConfig, tls: &mut TlsConfigs) -> Result<(), String> {
        let mut connection = connection_to(provider)?;
        connection.forwards_traceparent = provider.forward_traceparent;
        self.connection = Some((connection, tls.get(provider.ca_file.as_ref())?));
        self.max_in_flight = provider.max_in_flight;
        self.permit_wait = provider.permit_wait;
        Ok(())
    }

    fn set_simulated(
        &mut self,
        running: &ProviderServer,
        dialect: Dialect,
        tls: &mut TlsConfigs,
    ) -> Result<(), String> {
        let mut connection = Connection::new(&running.base_url()).map_err(|fault| fault.to_string())?;
        // Simulated providers of these dialects ask for a key, whichever it is.
        let key: &[_] = match dialect {
            Dialect::Anthropic => &[("x-api-key", "simulated")],
            Dialect::Gemini => &[("x-goog-api-key", "simulated")],
            Dialect::Converse => &[("authorization", "Bearer simulated")],
            _ => &[],
        };
        for (name, value) in standard_headers(dialect).iter().chain(key) {
            connection = connection.with_header(name, value).map_err(|fault| fault.to_string())?;
        }
        // Plain HTTP on loopback: no certificate is used.
        self.connection = Some((connection, tls.get(None)?));
        self.max_in_flight = SIMULATED_CONCURRENCY;
        self.permit_wait = SIMULATED_WAIT;
        Ok(())
    }
}

/// Address, credentials and headers of a provider.
///
/// # Errors
/// A sentence about the fault in its address, key or headers.
pub fn connection_to(provider: &ProviderConfig) -> Result<Connection, String> {
    let mut connection = Connection::new(&provider.base_url.to_string()).map_err(|fault| fault.to_string())?;
    if let Some(key) = &provider.key {
        let header = |connection: Connection, header, scheme| {
            connection.with_secret(header, scheme, key.clone()).map_err(|fault| fault.to_string())
        };
        connection = match provider.auth {
            KeyHeader::Bearer => header(connection, "authorization", "Bearer")?,
            KeyHeader::ApiKey => header(connection, "api-key", "")?,
            KeyHeader::XApiKey => header(connection, "x-api-key", "")?,
            KeyHeader::XGoogApiKey => header(connection, "x-goog-api-key", "")?,
            KeyHeader::ServiceAccount => connection.with_service_account(Arc::new(ServiceAccount::parse(key)?)),
            KeyHeader::SigV4 => {
                let signer = Signer::new(key, &connection.host, provider.region.as_deref().unwrap_or_default())?;
                connection.with_signer(signer)
            }
        };
    }
    for (name, value) in standard_headers(provider.dialect) {
        if !provider.headers.iter().any(|(configured, _)| configured == name) {
            connection = connection.with_header(name, value).map_err(|fault| fault.to_string())?;
        }
    }
    for (name, value) in &provider.headers {
        connection = connection.with_header(name, value).map_err(|fault| fault.to_string())?;
    }
    Ok(connection.with_image_hosts(provider.image_hosts.clone()).with_routes(provider.routes))
}

/// Headers that every call in a dialect needs, unless the configuration sets them.
const fn standard_headers(dialect: Dialect) -> &'static [(&'static str, &'static str)] {
    match dialect {
        Dialect::OpenAi | Dialect::Gemini | Dialect::Responses | Dialect::Converse => &[],
        Dialect::Anthropic => &[("anthropic-version", "2023-06-01")],
    }
}

/// TLS configurations by certificate file. Providers with the same file share one, and so its session cache.
#[derive(Default)]
struct TlsConfigs {
    known: HashMap<Option<PathBuf>, TrustAnchors>,
    /// The trust anchors of the previous configuration, reused if their file is unchanged.
    before: HashMap<Option<PathBuf>, TrustAnchors>,
}

/// A TLS configuration and the file it was made from.
#[derive(Clone)]
struct TrustAnchors {
    /// Content of the file; empty without one.
    pem: Vec<u8>,
    config: Arc<ClientConfig>,
}

impl TlsConfigs {
    /// The configuration for `ca_file`, or that of the system's certificates.
    fn get(&mut self, ca_file: Option<&PathBuf>) -> Result<Arc<ClientConfig>, String> {
        let key = ca_file.cloned();
        if let Some(known) = self.known.get(&key) {
            return Ok(Arc::clone(&known.config));
        }
        // `client_config` reports a file that cannot be read.
        let pem = ca_file.map(std::fs::read).and_then(Result::ok).unwrap_or_default();
        let unchanged = self.before.remove(&key).filter(|anchors| ca_file.is_none() || anchors.pem == pem);
        let anchors = match unchanged {
            Some(anchors) => anchors,
            None => {
                let config = crate::client_config(ca_file.map(PathBuf::as_path));
                TrustAnchors { pem, config: config.map_err(|fault| fault.to_string())? }
            }
        };
        let config = Arc::clone(&anchors.config);
        self.known.insert(key, anchors);
        Ok(config)
    }
}
