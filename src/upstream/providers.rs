//! How each provider of the catalog is called: its address, its credentials, its limits.
//!
//! Made once per configuration; every worker builds its own clients from it. The only place, beside the transport
//! itself, that holds provider keys.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use pointsman_actors::domain::{Catalog, ProviderSlug};
use rustls::ClientConfig;

use crate::{
    config::{Config, ProviderConfig},
    simulation::Running,
    upstream::{
        self,
        client::{TransportLimits, UpstreamClient},
        connection::Connection,
        redact::Redactor,
    },
};

/// Calls a simulated provider gets at a time.
const SIMULATED_PLACES: usize = 256;
/// How long a further one waits.
const SIMULATED_WAIT: Duration = Duration::from_millis(100);

/// All of them, by position in the catalog.
pub struct Providers {
    callable: Vec<ProviderClient>,
    redactor: Arc<Redactor>,
    limits: TransportLimits,
    trust: TlsConfigs,
}

/// One provider.
pub struct ProviderClient {
    /// Its short name.
    pub slug: ProviderSlug,
    connection: Option<(Connection, Arc<ClientConfig>)>,
    /// Calls at a time.
    pub max_in_flight: usize,
    /// Longest wait for a place.
    pub permit_wait: Duration,
}

impl Providers {
    /// The providers of `catalog`; those that are off cannot be called. What `before` trusts is not read again, unless
    /// a file has changed.
    ///
    /// # Errors
    /// One sentence: which provider, and what is wrong with its address, headers or certificates.
    pub fn new(
        config: &Config,
        catalog: &Catalog,
        simulation: &[&Running],
        before: Option<&Providers>,
    ) -> Result<Providers, String> {
        let off = catalog.providers.iter().map(|provider| ProviderClient::off(provider.slug.clone()));
        let mut callable: Vec<ProviderClient> = off.collect();
        let mut trust =
            TlsConfigs { before: before.map(|it| it.trust.known.clone()).unwrap_or_default(), ..TlsConfigs::default() };
        for provider in &config.providers {
            if let Some(place) = callable.get_mut(provider.index as usize) {
                place.become_real(provider, &mut trust).map_err(|why| format!("provider {}: {why}", provider.slug))?;
            }
        }
        for ((index, character), running) in config.simulation.providers.iter().zip(simulation) {
            if let Some(place) = callable.get_mut(*index as usize) {
                place.become_simulated(running, &mut trust).map_err(|why| format!("{}: {why}", character.slug))?;
            }
        }
        let secrets = config.providers.iter().filter_map(|provider| provider.key.clone());
        Ok(Providers {
            callable,
            redactor: Arc::new(Redactor::new(secrets)),
            limits: TransportLimits {
                connect: config.timeouts.connect,
                keep_alive: config.timeouts.provider_idle,
                idle: config.stream.idle_timeout.max(config.timeouts.first_content),
                max_body: config.limits.upstream_body_bytes,
                ..TransportLimits::default()
            },
            trust: TlsConfigs { before: HashMap::new(), ..trust },
        })
    }

    /// Each of them, in the catalog's order.
    pub fn iter(&self) -> impl Iterator<Item = &ProviderClient> {
        self.callable.iter()
    }

    /// Clients for the calling thread. Those of a provider that `before` had clients for keep its open connections,
    /// where they lead to the same place.
    #[must_use]
    pub fn clients(&self, before: Option<(&Providers, &[Option<UpstreamClient>])>) -> Vec<Option<UpstreamClient>> {
        let client = |callable: &ProviderClient| {
            let (connection, tls) = callable.connection.as_ref()?;
            let known = before.and_then(|(providers, clients)| providers.client(&callable.slug, clients));
            Some(UpstreamClient::renewed(known, connection, tls, self.limits, Arc::clone(&self.redactor)))
        };
        self.callable.iter().map(client).collect()
    }

    fn client<'c>(&self, slug: &ProviderSlug, clients: &'c [Option<UpstreamClient>]) -> Option<&'c UpstreamClient> {
        let position = self.callable.iter().position(|callable| callable.slug == *slug)?;
        clients.get(position)?.as_ref()
    }
}

impl ProviderClient {
    fn off(slug: ProviderSlug) -> ProviderClient {
        ProviderClient { slug, connection: None, max_in_flight: 0, permit_wait: Duration::ZERO }
    }

    fn become_real(&mut self, provider: &ProviderConfig, trust: &mut TlsConfigs) -> Result<(), String> {
        let mut connection = Connection::new(&provider.base_url.to_string()).map_err(|fault| fault.to_string())?;
        if let Some(key) = &provider.key {
            connection = connection.with_bearer(key.clone()).map_err(|fault| fault.to_string())?;
        }
        for (name, value) in &provider.headers {
            connection = connection.with_header(name, value).map_err(|fault| fault.to_string())?;
        }
        connection = connection.with_image_hosts(provider.image_hosts.clone());
        self.connection = Some((connection, trust.anchors(provider.ca_file.as_ref())?));
        self.max_in_flight = provider.max_in_flight;
        self.permit_wait = provider.permit_wait;
        Ok(())
    }

    fn become_simulated(&mut self, running: &Running, trust: &mut TlsConfigs) -> Result<(), String> {
        let connection = Connection::new(&running.base_url()).map_err(|fault| fault.to_string())?;
        self.connection = Some((connection, trust.nobody()?));
        self.max_in_flight = SIMULATED_PLACES;
        self.permit_wait = SIMULATED_WAIT;
        Ok(())
    }
}

/// TLS settings, shared by all providers that trust the same certificates, and so their session caches.
#[derive(Default)]
struct TlsConfigs {
    known: HashMap<Option<PathBuf>, TrustAnchors>,
    /// Those of the configuration before: kept as they are where their file is.
    before: HashMap<Option<PathBuf>, TrustAnchors>,
}

/// Trusted certificates.
#[derive(Clone)]
struct TrustAnchors {
    /// What the file held; the system's own certificates are read once per process.
    pem: Vec<u8>,
    config: Arc<ClientConfig>,
}

impl TlsConfigs {
    fn anchors(&mut self, ca_file: Option<&PathBuf>) -> Result<Arc<ClientConfig>, String> {
        let key = ca_file.cloned();
        if let Some(known) = self.known.get(&key) {
            return Ok(Arc::clone(&known.config));
        }
        // A file that cannot be read is reported by whoever needs what it holds.
        let pem = ca_file.map(std::fs::read).and_then(Result::ok).unwrap_or_default();
        let unchanged = self.before.remove(&key).filter(|anchors| ca_file.is_none() || anchors.pem == pem);
        let anchors = match unchanged {
            Some(anchors) => anchors,
            None => {
                let made = upstream::client_config(ca_file.map(PathBuf::as_path));
                TrustAnchors { pem, config: made.map_err(|fault| fault.to_string())? }
            }
        };
        let config = Arc::clone(&anchors.config);
        self.known.insert(key, anchors);
        Ok(config)
    }

    /// For plain HTTP on loopback, where no certificate is ever looked at.
    fn nobody(&mut self) -> Result<Arc<ClientConfig>, String> {
        self.anchors(None)
    }
}
