//! What all threads of a gateway share, made at its start: from the disk, from other replicas, and empty.

use std::{path::Path, sync::Arc};

use actix::Arbiter;
use arc_swap::ArcSwap;
use pointsman_actors::{
    ledger::{DeleteRecords, MemoryStore, RecordFollower},
    persistence::StatsStore,
    published::PublishedState,
    router::{RouterSeeds, Routers},
};
use pointsman_base::clock;
use pointsman_config::{Config, Durability, Key, LedgerConfig, MemoryConfig};
use pointsman_domain::EndpointId;
use pointsman_ledger::{
    accounts::AccountLog,
    directory::Directory,
    disk::Disk,
    generations::{GenerationStore, LedgerBounds},
    settings::Settings,
};
use pointsman_routing::stats::{LiveBoard, Statistics, seeded_hash};

use super::StartError;
use crate::{
    access::{analysis::Analyses, cascade_budgets::CascadeBudgets, registry::Registry},
    base::events::Metrics,
    state::{
        accounts,
        alerts::Alerts,
        breaker_history::BreakerHistory,
        canaries::Canaries,
        control::{Control, StatsPersistence},
        diff_job::DiffJobs,
        drain::Drain,
        feedback::Feedback,
        gateway::{Shared, SharedAccess, SharedActors, SharedProcess, SharedRecords},
        images::ImageFiles,
        live::LiveFeed,
        reasoning_seal_key,
        refused_calls::RefusedCalls,
        reload_status::Reloads,
        replicas::{
            self, HealthPort, Replicas,
            shared_log::{Merged, SharedLog},
        },
        request_history::RequestHistory,
        retry_budget::RetryBudget,
        routing_memory::RoutingMemory,
        running::RunningRequests,
        setup::{Setup, SetupDraft},
        shadows::Shadows,
        traces::Traces,
    },
};

/// Records of ended generations that stay in memory beside a durable ledger: few, so that the memory of the oldest is still
/// in a processor's cache when the next record takes its place.
const RECENT_RECORDS: usize = 200;

/// What the disk held at the start.
pub(super) struct Opened {
    pub(super) ledger: Option<Arc<GenerationStore>>,
    pub(super) registry: Arc<Registry>,
    /// Changes of other replicas.
    pub(super) changes: Option<(SharedLog, Merged)>,
    pub(super) disk: Option<Arc<dyn Disk>>,
}

/// Opens the durable ledger, if the configuration has one, and the keys and accounts beside it. Blocks on reading what an
/// earlier process left.
pub(super) fn open_ledger(config: &Config) -> Result<Opened, StartError> {
    let LedgerConfig { max_age, max_bytes, durability, .. } = config.ledger;
    let path = config.ledger.durable_directory();
    let at = |fault| StartError::Ledger(path.unwrap_or(Path::new("")).to_owned(), fault);
    let Some(path) = path else {
        let registry = accounts::registry(&config.limits, None).map_err(at)?;
        return Ok(Opened { ledger: None, registry, changes: None, disk: None });
    };
    let directory = Directory::open(path).map_err(at)?;
    let disk = directory.disk();
    let (log, mut stored) = AccountLog::open(Arc::clone(&disk)).map_err(at)?;
    let shared_log = SharedLog::open(Arc::clone(&disk)).map_err(at)?;
    let mut merged = shared_log.merge(stored.changes);
    stored.changes = std::mem::take(&mut merged.lines);
    let registry = accounts::registry(&config.limits, Some((log, stored))).map_err(at)?;
    let (sync, queue) = (durability == Durability::Sync, Settings::default().queue);
    let bounds = LedgerBounds { max_age, max_bytes, sync, queue };
    let store = GenerationStore::open_in(directory, bounds).map_err(at)?;
    log::info!("ledger in {}", path.display());
    let (ledger, changes, disk) = (Some(Arc::new(store)), Some((shared_log, merged)), Some(disk));
    Ok(Opened { ledger, registry, changes, disk })
}

/// Begins to share with other replicas, if the configuration names a store.
fn start_replicas(
    setup: &Setup,
    opened: Opened,
    node: String,
    control: &Control,
    feedback: &Arc<Feedback>,
) -> Option<Arc<Replicas>> {
    let config = setup.config.shared.clone();
    if !config.is_on() {
        return None;
    }
    let (recent, feedback) = (control.ledger(), Arc::clone(feedback));
    let deleted = move |before_ms, owner| {
        recent.do_send(DeleteRecords { before_ms: Some(before_ms), owner });
        feedback.forget();
    };
    let Opened { ledger, registry, changes, .. } = opened;
    let max_age = setup.config.ledger.max_age;
    let start = replicas::Start { config, node, registry, ledger, max_age, changes, deleted: Box::new(deleted) };
    let started = Replicas::start(start);
    started.inspect_err(|error| log::error!("nothing is shared with other replicas: {error}")).ok()
}

/// Lets replicas advise each other about endpoints that fail.
pub(super) fn connect_health(shared: &Arc<Shared>) {
    let Some(replicas) = &shared.records.replicas else { return };
    let (asked, advised) = (Arc::downgrade(shared), Arc::downgrade(shared));
    let open = move || {
        let endpoints = asked.upgrade().map(|shared| shared.setup.load().published.live.open_endpoints(clock::now()));
        endpoints.unwrap_or_default().into_iter().map(|endpoint| endpoint.0).collect()
    };
    let advise = move |endpoint, age| {
        let advise =
            |shared: Arc<Shared>| shared.setup.load().published.live.advise(EndpointId(endpoint), clock::now(), age);
        advised.upgrade().is_some_and(advise)
    };
    replicas.connect_health(HealthPort { open: Box::new(open), advise: Box::new(advise) });
}

/// Creates the shared state, and starts the control actors on `arbiter`.
pub(super) fn shared(
    draft: SetupDraft,
    generated_key: Option<Key>,
    metrics: Metrics,
    seeds: RouterSeeds,
    (opened, node): (Opened, String),
    arbiter: &Arbiter,
) -> Shared {
    let (durable, registry) = (opened.ledger.clone(), Arc::clone(&opened.registry));
    let mut statistics = Statistics::new(Arc::clone(&draft.catalog), Arc::clone(&draft.policy));
    let MemoryConfig { save_interval: interval, .. } = draft.config.routing.memory;
    let paces = Arc::default();
    let memory = RoutingMemory::load(&draft.config.routing.memory, &draft.catalog, &mut statistics, &paces);
    // Replicas with the same seed must not probe at the same times.
    let live = LiveBoard::new(&draft.catalog, seeded_hash(seeds.seed, seeds.instance));
    let published = Arc::new(PublishedState::new(statistics.snapshot(1), live));
    let state_key = reasoning_seal_key::open(draft.config.ledger.durable_directory());
    let alerts = Alerts::open(draft.config.ledger.durable_directory());
    let setup = draft.adopt(Arc::clone(&published), generated_key.as_ref(), &registry, None);
    if let Some(ledger) = durable.as_deref() {
        accounts::restore_spending(&registry, ledger);
    }
    let feedback = Arc::new(Feedback::open(durable.as_deref()));
    let (ledger, images) = (&setup.config.ledger, &setup.config.images);
    let capacity = if durable.is_some() { RECENT_RECORDS } else { ledger.capacity };
    let store = MemoryStore::new(capacity, ledger.max_age);
    let place = memory.clone().map(|memory| memory as Arc<dyn StatsStore>);
    let persistence = place.map(|store| StatsPersistence { store, interval });
    let traces = Traces::start(&setup.config.traces, metrics.spans.clone(), seeds.instance);
    let follower = traces.clone().map(|traces| traces as Arc<dyn RecordFollower>);
    let control = Control::start(arbiter, statistics, &published, (store, follower), persistence);
    let replicas = start_replicas(&setup, opened, node, &control, &feedback);
    let event_batchers = control.event_batchers();
    Shared {
        actors: SharedActors { control, event_batchers, routers: Routers::default() },
        records: SharedRecords {
            ledger: durable,
            replicas,
            history: RequestHistory::new(rand::random(), paces),
            running: RunningRequests::default(),
            refused_calls: RefusedCalls::default(),
            breaker_history: BreakerHistory::default(),
            live: LiveFeed::default(),
            traces,
            alerts,
            canaries: Canaries::open(seeds.seed ^ seeds.instance, ledger.durable_directory()),
            shadows: Shadows::default(),
            feedback,
        },
        access: SharedAccess {
            registry,
            startup_key: generated_key,
            analyses: Analyses::default(),
            cascade_budgets: CascadeBudgets::default(),
            retry_budget: RetryBudget::default(),
            waiting: Arc::default(),
        },
        process: SharedProcess {
            reloads: Reloads::default(),
            memory,
            drain: Drain::default(),
            metrics,
            images: ImageFiles::new(images.url_ttl, images.max_bytes),
            diffs: DiffJobs::default(),
            state_key,
            call_signatures: Arc::default(),
        },
        // Moved last: what it holds is read above.
        setup: ArcSwap::from_pointee(setup),
    }
}
