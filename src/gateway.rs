//! What the parts of a running gateway share, and what each worker has for itself.
//!
//! [`Shared`] is one per process and behind an `Arc`; [`Worker`] is one per thread and behind an `Rc`,
//! because HTTP clients stay on the thread that made them.

use std::{sync::Arc, time::Duration};

use actix::Addr;
use arc_swap::ArcSwap;
use pointsman_actors::{
    catalog::CatalogActor,
    ledger::{Ledger, MemoryStore},
    news::{News, NewsRoom, Timer},
    provider_health::ProviderHealth,
    router::{Router, Routers},
    stats::{LiveBoard, Snapshot},
};
use tokio::sync::Semaphore;

use crate::{
    admission::Admission, auth::KeyTable, body::BodyLimits, config::Config, drain::Drain, events::Metrics,
    images::ImageFiles, providers::Providers, upstream::UpstreamClient,
};

/// One per process.
pub struct Shared {
    /// The configuration in force.
    pub config: Config,
    /// The published catalog and statistics.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
    /// The fast cells of every endpoint.
    pub live: Arc<LiveBoard>,
    /// Who may call.
    pub keys: KeyTable,
    /// How much they may call.
    pub admission: Admission,
    /// Addresses, credentials and limits of every provider, by position in the catalog.
    pub providers: Providers,
    /// Permits per provider, by position in the catalog.
    pub permits: Vec<Permits>,
    /// The control actors.
    pub control: Control,
    /// The trays of all workers.
    pub news_room: NewsRoom,
    /// The routers of all workers.
    pub routers: Routers,
    /// Counters and histograms.
    pub metrics: Metrics,
    /// Images served by link.
    pub images: ImageFiles,
    /// When the process leaves.
    pub drain: Drain,
}

impl Shared {
    /// The bounds request bodies are read under.
    #[must_use]
    pub fn body_limits(&self) -> BodyLimits {
        BodyLimits {
            bytes: self.config.limits.max_body_bytes,
            pace: self.config.timeouts.client_body,
            load: Arc::clone(self.admission.load()),
        }
    }

    /// Whether the process was asked to stop.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.drain.has_begun()
    }
}

/// How many calls a provider gets at a time, and how long a further one waits for its turn.
pub struct Permits {
    /// Free places.
    pub places: Arc<Semaphore>,
    /// Longest wait.
    pub wait: Duration,
}

/// The addresses of the control actors. They live on an arbiter of their own.
pub struct Control {
    /// Owns model metadata.
    pub catalog: Addr<CatalogActor>,
    /// Owns the statistics.
    pub health: Addr<ProviderHealth>,
    /// Owns the records.
    pub ledger: Addr<Ledger<MemoryStore>>,
}

/// One per worker thread.
pub struct Worker {
    /// What all workers share.
    pub shared: Arc<Shared>,
    /// This worker's router.
    pub router: Arc<Addr<Router>>,
    /// One client per provider that is on, by position in the catalog.
    pub clients: Vec<Option<UpstreamClient>>,
    /// This worker's tray.
    pub news: Arc<News>,
}

impl Worker {
    /// Sees to it that fresh news leave within [`News::PATIENCE`].
    pub fn post(&self, timer: Timer) {
        if timer == Timer::Needed {
            let news = Arc::clone(&self.news);
            actix_rt::spawn(async move {
                actix_rt::time::sleep(News::PATIENCE).await;
                news.flush();
            });
        }
    }
}
