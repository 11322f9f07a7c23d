//! How each provider of the catalog is called: its address, its credentials, its limits.
//!
//! Made once at start; every worker builds its own clients from it. The only place, beside the transport
//! itself, that holds provider keys.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use pointsman_actors::domain::Catalog;
use rustls::ClientConfig;

use crate::{
    config::{Config, ProviderConfig},
    simulation::Running,
    upstream::{self, Connection, Redactor, TransportLimits, UpstreamClient},
};

/// Calls a simulated provider gets at a time.
const SIMULATED_PLACES: usize = 256;
/// How long a further one waits.
const SIMULATED_WAIT: Duration = Duration::from_millis(100);

/// All of them, by position in the catalog.
pub struct Providers {
    callable: Vec<Callable>,
    redactor: Arc<Redactor>,
    limits: TransportLimits,
}

/// One provider.
pub struct Callable {
    connection: Option<(Connection, Arc<ClientConfig>)>,
    /// Calls at a time.
    pub max_in_flight: usize,
    /// Longest wait for a place.
    pub permit_wait: Duration,
}

impl Providers {
    /// The providers of `catalog`; those that are off cannot be called.
    ///
    /// # Errors
    /// One sentence: which provider, and what is wrong with its address, headers or certificates.
    pub fn new(config: &Config, catalog: &Catalog, simulation: &[Running]) -> Result<Providers, String> {
        let mut callable: Vec<Callable> = catalog.providers.iter().map(|_| Callable::off()).collect();
        let mut trust = Trust::default();
        for provider in &config.providers {
            let made =
                Callable::real(provider, &mut trust).map_err(|why| format!("provider {}: {why}", provider.slug))?;
            if let Some(place) = callable.get_mut(provider.index as usize) {
                *place = made;
            }
        }
        for ((index, character), running) in config.simulation.providers.iter().zip(simulation) {
            let made = Callable::simulated(running, &mut trust).map_err(|why| format!("{}: {why}", character.slug))?;
            if let Some(place) = callable.get_mut(*index as usize) {
                *place = made;
            }
        }
        let secrets = config.providers.iter().filter_map(|provider| provider.key.clone());
        Ok(Providers {
            callable,
            redactor: Arc::new(Redactor::new(secrets)),
            limits: TransportLimits {
                connect: config.timeouts.connect,
                idle: config.stream.idle_timeout.max(config.timeouts.first_content),
                max_body: config.limits.upstream_body_bytes,
                ..TransportLimits::default()
            },
        })
    }

    /// Each of them, in the catalog's order.
    pub fn iter(&self) -> impl Iterator<Item = &Callable> {
        self.callable.iter()
    }

    /// New clients for the calling thread.
    #[must_use]
    pub fn clients(&self) -> Vec<Option<UpstreamClient>> {
        let client = |(connection, tls): &(Connection, Arc<ClientConfig>)| {
            UpstreamClient::new(connection, tls, self.limits, Arc::clone(&self.redactor))
        };
        self.callable.iter().map(|callable| callable.connection.as_ref().map(client)).collect()
    }
}

impl Callable {
    fn off() -> Callable {
        Callable { connection: None, max_in_flight: 0, permit_wait: Duration::ZERO }
    }

    fn real(provider: &ProviderConfig, trust: &mut Trust) -> Result<Callable, String> {
        let mut connection = Connection::new(&provider.base_url.to_string()).map_err(|fault| fault.to_string())?;
        if let Some(key) = &provider.key {
            connection = connection.with_bearer(key.clone()).map_err(|fault| fault.to_string())?;
        }
        for (name, value) in &provider.headers {
            connection = connection.with_header(name, value).map_err(|fault| fault.to_string())?;
        }
        connection = connection.with_image_hosts(provider.image_hosts.clone());
        Ok(Callable {
            connection: Some((connection, trust.anchors(provider.ca_file.as_ref())?)),
            max_in_flight: provider.max_in_flight,
            permit_wait: provider.permit_wait,
        })
    }

    fn simulated(running: &Running, trust: &mut Trust) -> Result<Callable, String> {
        let connection = Connection::new(&running.base_url()).map_err(|fault| fault.to_string())?;
        Ok(Callable {
            connection: Some((connection, trust.nobody()?)),
            max_in_flight: SIMULATED_PLACES,
            permit_wait: SIMULATED_WAIT,
        })
    }
}

/// TLS settings, shared by all providers that trust the same certificates, and so their session caches.
#[derive(Default)]
struct Trust {
    known: HashMap<Option<PathBuf>, Arc<ClientConfig>>,
}

impl Trust {
    fn anchors(&mut self, ca_file: Option<&PathBuf>) -> Result<Arc<ClientConfig>, String> {
        if let Some(known) = self.known.get(&ca_file.cloned()) {
            return Ok(Arc::clone(known));
        }
        let made = upstream::client_config(ca_file.map(PathBuf::as_path)).map_err(|fault| fault.to_string())?;
        self.known.insert(ca_file.cloned(), Arc::clone(&made));
        Ok(made)
    }

    /// For plain HTTP on loopback, where no certificate is ever looked at.
    fn nobody(&mut self) -> Result<Arc<ClientConfig>, String> {
        self.anchors(None)
    }
}
