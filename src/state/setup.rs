//! What belongs to one configuration: who may call, how much, whom we call and how, what is known about them.
//!
//! A [`Setup`] never changes. A request works under the one that was in force when it came, to its end; another
//! configuration is another setup, made in two steps. A [`SetupDraft`] holds everything that can go wrong and touches
//! nothing that runs; [`SetupDraft::adopt`] cannot fail any more and takes over from the setup before it what must survive:
//! limiters and calls in progress, places at providers, breakers and statistics, simulated providers.

use std::{fmt, io, sync::Arc};

use pointsman_actors::{
    actors::published::PublishedState,
    domain::{Catalog, RoutingPolicy},
    stats::LiveBoard,
};

use crate::{
    access::{
        admission::Admission,
        body_limits::BodyLimits,
        keys::{Caller, KeyTable},
    },
    base::error::ApiError,
    config::{Config, Key, LoadedConfig, WrittenConfig},
    simulation::{self, Character, Running as SimulatedProvider},
    upstream::{
        concurrency::{ConcurrencyLimits, ProviderConcurrency},
        providers::{ProviderClient, Providers},
    },
};

/// One per configuration; shared by all workers.
pub struct Setup {
    /// Counted up from 1 with every configuration that was taken over.
    pub version: u64,
    /// The configuration itself.
    pub config: Config,
    /// The keys it sets, where that is known.
    pub(crate) written: Option<WrittenConfig>,
    /// The models and who serves them: all positions refer to it.
    pub catalog: Arc<Catalog>,
    /// The constants decisions are made with.
    pub policy: Arc<RoutingPolicy>,
    /// Who may call.
    pub keys: KeyTable,
    /// How much they may call.
    pub admission: Admission,
    /// Addresses, credentials and limits of every provider, by position in the catalog.
    pub providers: Providers,
    /// ConcurrencyLimits per provider, by position in the catalog.
    pub permits: Vec<ConcurrencyLimits>,
    /// What routers read.
    pub published: Arc<PublishedState>,
    simulation: Vec<Simulated>,
}

/// A simulated provider that serves. It stops with the last setup that names it.
struct Simulated {
    running: Arc<SimulatedProvider>,
    character: Character,
}

impl Setup {
    /// The bounds request bodies are read under.
    ///
    /// # Errors
    /// For a caller of another configuration: none.
    pub fn body_limits(&self, caller: &Caller) -> Result<BodyLimits, ApiError> {
        Ok(BodyLimits {
            bytes: self.config.limits.max_body_bytes,
            pace: self.config.timeouts.client_body,
            share: self.admission.share(caller)?,
        })
    }

    /// The simulated providers it plays.
    pub fn simulation(&self) -> impl Iterator<Item = &Arc<SimulatedProvider>> {
        self.simulation.iter().map(|simulated| &simulated.running)
    }
}

/// Why a configuration cannot be put to work.
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

/// A setup that may still turn out to be impossible.
pub struct SetupDraft {
    version: u64,
    /// The configuration.
    pub config: Config,
    written: Option<WrittenConfig>,
    /// The catalog it would bring.
    pub catalog: Arc<Catalog>,
    /// The constants it would bring.
    pub policy: Arc<RoutingPolicy>,
    providers: Providers,
    simulation: Vec<Simulated>,
}

impl SetupDraft {
    /// Prepares what a configuration needs, beside the setup that is in force. Blocks: certificates are read, simulated
    /// providers started.
    ///
    /// # Errors
    /// When a provider's TLS settings or the simulation fail.
    pub fn new(loaded: LoadedConfig, version: u64, before: Option<&Setup>) -> Result<SetupDraft, SetupError> {
        let LoadedConfig { config, written } = loaded;
        let (catalog, policy) = (Arc::new(config.catalog(version)), Arc::new(config.routing_policy(version)));
        let simulation = play(&config, before).map_err(SetupError::Simulation)?;
        let running: Vec<_> = simulation.iter().map(|simulated| &*simulated.running).collect();
        let providers = Providers::new(&config, &catalog, &running, before.map(|setup| &setup.providers));
        let providers = providers.map_err(SetupError::Provider)?;
        Ok(SetupDraft { version, config, written, catalog, policy, providers, simulation })
    }

    /// The fast cells over its catalog; those that `before` knows are carried over.
    #[must_use]
    pub fn live(&self, before: &Setup) -> LiveBoard {
        before.published.live.carried(&self.catalog)
    }

    /// Puts it together with what was published for it.
    #[must_use]
    ///
    /// `of_this_start` is the administrator's key that the start made, if it made one.
    pub fn adopt(self, published: Arc<PublishedState>, of_this_start: Option<&Key>, before: Option<&Setup>) -> Setup {
        for simulated in &self.simulation {
            let changed = before.and_then(|setup| setup.simulated(&simulated.character.slug));
            if changed.is_some_and(|known| known.character != simulated.character) {
                simulated.running.become_like(simulated.character.clone());
            }
        }
        let SetupDraft { version, config, written, catalog, policy, providers, simulation } = self;
        let keys = KeyTable::new(&config, of_this_start, before.map(|setup| &setup.keys));
        Setup {
            admission: Admission::new(&config.limits, keys.callers(), before.map(|setup| &setup.admission)),
            keys,
            permits: permits(&providers, before),
            version,
            config,
            written,
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
        self.simulation.iter().find(|simulated| simulated.character.slug == slug)
    }

    /// Every provider that is on: its slug, the places taken there, and all of them.
    pub fn places_standing(&self) -> impl Iterator<Item = (&str, usize, usize)> {
        let on = self.catalog.providers.iter().zip(&self.permits).filter(|(provider, _)| provider.is_on());
        on.map(|(provider, permits)| {
            let (taken, most) = permits.permits.usage();
            (provider.slug.as_str(), taken, most)
        })
    }

    fn places(&self, slug: &str) -> Option<&Arc<ProviderConcurrency>> {
        let position = self.catalog.providers.iter().position(|provider| provider.slug.as_str() == slug)?;
        self.permits.get(position).map(|permits| &permits.permits)
    }
}

/// The permits of every provider; places that are taken stay taken.
fn permits(providers: &Providers, before: Option<&Setup>) -> Vec<ConcurrencyLimits> {
    let of = |provider: &ProviderClient| {
        let most = provider.max_in_flight;
        let places = match before.and_then(|setup| setup.places(provider.slug.as_str())) {
            Some(places) => {
                places.resize(most);
                Arc::clone(places)
            }
            None => ProviderConcurrency::new(most),
        };
        ConcurrencyLimits { permits: places, wait: provider.permit_wait }
    };
    providers.iter().map(of).collect()
}

/// The simulated providers that are to serve: those that run already, and new ones for the rest.
fn play(config: &Config, before: Option<&Setup>) -> io::Result<Vec<Simulated>> {
    let wanted = config.simulation.providers.iter().filter(|_| config.simulation.active);
    let wanted: Vec<&Character> = wanted.map(|(_, character)| character).collect();
    let known = |character: &Character| before.and_then(|setup| setup.simulated(&character.slug));
    let strangers: Vec<_> = wanted.iter().filter(|it| known(it).is_none()).map(|it| (*it).clone()).collect();
    let mut started = if strangers.is_empty() { Vec::new() } else { simulation::start(strangers)? }.into_iter();
    let running = |character: &&Character| match known(character) {
        Some(simulated) => Some(Arc::clone(&simulated.running)),
        None => started.next().map(Arc::new),
    };
    let running: Vec<_> = wanted.iter().filter_map(running).collect();
    let both = running.into_iter().zip(wanted);
    Ok(both.map(|(running, character)| Simulated { running, character: character.clone() }).collect())
}
