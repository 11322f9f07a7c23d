//! State of one configuration: keys, limits, providers, catalog and published statistics.
//!
//! A [`Setup`] never changes. A request uses the setup that was in force when it arrived, until it ends. A new
//! configuration becomes a setup in two steps. [`SetupDraft::new`] may fail and changes nothing that is in use.
//! [`SetupDraft::adopt`] cannot fail and takes over the state of the previous setup: rate limiters and calls in
//! progress, provider permits, breakers and statistics, simulated providers.

use std::{fmt, io, sync::Arc};

use pointsman_actors::published::PublishedState;
use pointsman_config::{Config, Key, LoadedConfig, ProviderConfig, WrittenConfig};
use pointsman_domain::{Catalog, Endpoint, RoutingPolicy};
use pointsman_routing::{explain::diff::Shadow, stats::LiveBoard};
use pointsman_simulation::{ProviderServer, ProviderSettings};
use pointsman_transport::{
    concurrency::{ConcurrencyLimits, ProviderConcurrency},
    habits::ProviderHabits,
    providers::{ProviderClient, Providers},
};

use crate::{
    access::{
        admission::Admission,
        body_limits::BodyLimits,
        keys::{Caller, KeyTable},
        registry::Registry,
    },
    state::shadows,
};

/// State of one configuration. Shared by all workers.
pub struct Setup {
    /// 1 at the start; one more with every configuration that came into force.
    pub version: u64,
    /// The configuration itself.
    pub config: Config,
    /// The keys that the file sets; `None` when the configuration was not read from text.
    pub(crate) written: Option<Arc<WrittenConfig>>,
    /// Models, providers and endpoints. All positions refer to it.
    pub catalog: Arc<Catalog>,
    /// Whether any endpoint counts the tokens of prompts.
    pub counts_tokens: bool,
    /// The constants of routing decisions.
    pub policy: Arc<RoutingPolicy>,
    /// The API keys.
    pub keys: KeyTable,
    /// The rate and concurrency limits of the keys.
    pub admission: Admission,
    /// Addresses, credentials and limits of every provider, by position in the catalog.
    pub providers: Providers,
    /// Concurrency limits of every provider, by position in the catalog.
    pub permits: Vec<ConcurrencyLimits>,
    /// What every provider was found to want, by position in the catalog.
    pub habits: Vec<ProviderHabits>,
    /// The state that routers read.
    pub published: Arc<PublishedState>,
    /// The shadow policies, in the order of the configuration; `None` without any.
    pub shadows: Option<Arc<[Shadow]>>,
    simulation: Vec<Simulated>,
}

/// A running simulated provider. It stops when the last setup that has it is dropped.
struct Simulated {
    running: Arc<ProviderServer>,
    settings: ProviderSettings,
}

impl Setup {
    /// The limits for reading the caller's request bodies.
    pub fn body_limits(&self, caller: &Caller) -> BodyLimits {
        BodyLimits {
            bytes: self.config.limits.max_body_bytes,
            pace: self.config.timeouts.client_body,
            buffer: self.admission.buffer(caller),
        }
    }

    /// The running simulated providers.
    pub fn simulation(&self) -> impl Iterator<Item = &Arc<ProviderServer>> {
        self.simulation.iter().map(|simulated| &simulated.running)
    }
}

/// Why a configuration cannot become a setup.
#[derive(Debug)]
pub enum SetupError {
    /// A provider cannot be called as configured.
    Provider(String),
    /// A simulated provider did not start.
    Simulation(io::Error),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupError::Provider(what) => f.write_str(what),
            SetupError::Simulation(error) => write!(f, "cannot start the simulated providers: {error}"),
        }
    }
}

impl std::error::Error for SetupError {}

/// A setup that is prepared and not yet in force.
pub struct SetupDraft {
    version: u64,
    /// The configuration.
    pub config: Config,
    written: Option<WrittenConfig>,
    /// The catalog of the new setup.
    pub catalog: Arc<Catalog>,
    /// The routing constants of the new setup.
    pub policy: Arc<RoutingPolicy>,
    providers: Providers,
    simulation: Vec<Simulated>,
}

impl SetupDraft {
    /// Prepares a setup without touching the one in force. Blocks: it reads certificates and starts simulated providers.
    ///
    /// # Errors
    /// When a provider's TLS settings or the simulation fail.
    pub fn new(loaded: LoadedConfig, version: u64, before: Option<&Setup>) -> Result<SetupDraft, SetupError> {
        let LoadedConfig { config, written } = loaded;
        let (catalog, policy) = (Arc::new(config.catalog(version)), Arc::new(config.routing_policy(version)));
        let simulation = start_simulation(&config, before).map_err(SetupError::Simulation)?;
        let running: Vec<_> = simulation.iter().map(|simulated| &*simulated.running).collect();
        let providers = Providers::new(&config, &catalog, &running, before.map(|setup| &setup.providers));
        let providers = providers.map_err(SetupError::Provider)?;
        Ok(SetupDraft { version, config, written, catalog, policy, providers, simulation })
    }

    /// The live state for the new catalog, with the state of endpoints that `before` has too.
    pub fn live(&self, before: &Setup) -> LiveBoard {
        before.published.live.carried(&self.catalog)
    }

    /// Positions of the providers whose key or address differs from `before`, and of the endpoints whose upstream name of the
    /// model does: what was refused before may be accepted now.
    pub fn corrected(config: &Config, catalog: &Catalog, before: &Setup) -> (Vec<u32>, Vec<u32>) {
        let is_new_access = |new: &&ProviderConfig| {
            let old = before.config.providers.iter().find(|old| old.slug == new.slug);
            old.is_some_and(|old| access(old) != access(new))
        };
        let providers = config.providers.iter().filter(is_new_access).map(|provider| provider.index).collect();
        let is_renamed = |(_, new): &(u32, &Endpoint)| {
            let old = before.catalog.endpoints.iter().find(|old| old.id == new.id);
            old.is_some_and(|old| (&old.upstream_model, old.dialect) != (&new.upstream_model, new.dialect))
        };
        let renamed = (0_u32..).zip(&catalog.endpoints).filter(is_renamed).map(|(index, _)| index);
        (providers, renamed.collect())
    }

    /// The finished setup. `startup_key` is the administrator's key generated at the start, if there is one.
    #[must_use]
    pub fn adopt(
        self,
        published: Arc<PublishedState>,
        startup_key: Option<&Key>,
        registry: &Registry,
        before: Option<&Setup>,
    ) -> Setup {
        for simulated in &self.simulation {
            let changed = before.and_then(|setup| setup.simulated(&simulated.settings.slug));
            if changed.is_some_and(|known| known.settings != simulated.settings) {
                simulated.running.set_settings(simulated.settings.clone());
            }
        }
        let SetupDraft { version, config, written, catalog, policy, providers, simulation } = self;
        registry.adopt(&config);
        let caller = |key: &Key| registry.configured_caller(key);
        let keys = KeyTable::new(&config, startup_key, registry.issued_table(), caller);
        Setup {
            admission: Admission::new(&config.limits, registry.holders.load(), before.map(|setup| &setup.admission)),
            keys,
            permits: permits(&providers, before),
            habits: providers.iter().map(|_| ProviderHabits::default()).collect(),
            version,
            shadows: shadows::of(&config, &catalog, &policy),
            config,
            written: written.map(Arc::new),
            counts_tokens: catalog.endpoints.iter().any(|endpoint| endpoint.counts_tokens),
            catalog,
            policy,
            providers,
            published,
            simulation,
        }
    }
}

impl Setup {
    fn simulated(&self, slug: &str) -> Option<&Simulated> {
        self.simulation.iter().find(|simulated| simulated.settings.slug == slug)
    }

    /// Slug, permits in use and concurrency limit of every enabled provider.
    pub fn provider_concurrency(&self) -> impl Iterator<Item = (&str, usize, usize)> {
        let enabled = self.catalog.providers.iter().zip(&self.permits).filter(|(provider, _)| provider.is_on());
        enabled.map(|(provider, permits)| {
            let (in_use, limit) = permits.permits.usage();
            (provider.slug.as_str(), in_use, limit)
        })
    }

    fn permits_of(&self, slug: &str) -> Option<&Arc<ProviderConcurrency>> {
        let position = self.catalog.providers.iter().position(|provider| provider.slug.as_str() == slug)?;
        self.permits.get(position).map(|permits| &permits.permits)
    }
}

/// What a provider is called with.
fn access(provider: &ProviderConfig) -> impl PartialEq + '_ {
    let ProviderConfig { base_url, key, headers, auth, region, routes, dialect, .. } = provider;
    (base_url, key, headers, auth, region, routes, dialect)
}

/// The concurrency limits of every provider. Permits in use under `before` stay in use.
fn permits(providers: &Providers, before: Option<&Setup>) -> Vec<ConcurrencyLimits> {
    let of = |provider: &ProviderClient| {
        let limit = provider.max_in_flight;
        let permits = match before.and_then(|setup| setup.permits_of(provider.slug.as_str())) {
            Some(permits) => {
                permits.resize(limit);
                Arc::clone(permits)
            }
            None => ProviderConcurrency::new(limit),
        };
        ConcurrencyLimits { permits, wait: provider.permit_wait }
    };
    providers.iter().map(of).collect()
}

/// The configured simulated providers: those that `before` runs already, and newly started ones for the rest.
fn start_simulation(config: &Config, before: Option<&Setup>) -> io::Result<Vec<Simulated>> {
    let wanted = config.simulation.providers.iter().filter(|_| config.simulation.active);
    let wanted: Vec<&ProviderSettings> = wanted.map(|(_, settings)| settings).collect();
    let known = |settings: &ProviderSettings| before.and_then(|setup| setup.simulated(&settings.slug));
    let new: Vec<_> = wanted.iter().filter(|it| known(it).is_none()).map(|it| (*it).clone()).collect();
    let mut started = if new.is_empty() { Vec::new() } else { pointsman_simulation::start(new)? }.into_iter();
    let running = |settings: &&ProviderSettings| match known(settings) {
        Some(simulated) => Some(Arc::clone(&simulated.running)),
        None => started.next().map(Arc::new),
    };
    let running: Vec<_> = wanted.iter().filter_map(running).collect();
    let both = running.into_iter().zip(wanted);
    Ok(both.map(|(running, settings)| Simulated { running, settings: settings.clone() }).collect())
}
