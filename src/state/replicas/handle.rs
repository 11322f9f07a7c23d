//! What the rest of the gateway may ask of the replicas: the handle of their thread.
#![cfg_attr(
    not(all(feature = "postgres", feature = "redis")),
    allow(unused_imports, unused_mut, unused_variables, reason = "a build without a store begins fewer tasks")
)]

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        mpsc::{SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use parking_lot::Mutex;
use pointsman_config::SharedConfig;
use pointsman_domain::{Generation, GenerationId};
use pointsman_ledger::{
    activity::{Sums, grouping::Grouping},
    fault::Fault,
    generations::{GenerationStore, entry_id, owner_of},
    other_replicas::ForeignPage,
    page::Query,
};
use tokio::sync::watch;

use super::{
    shared_log::{Merged, SharedLog},
    status::{StoreReading, StoreStatus},
};
use crate::access::registry::Registry;

/// Longest wait for the answer to one question.
#[cfg(feature = "postgres")]
const LOOKUP_TIMEOUT: Duration = Duration::from_millis(1_200);

/// Why a record was not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupFault {
    /// PostgreSQL is away.
    Away,
    /// A later version wrote the record.
    Newer,
}

/// A record that another replica wrote.
pub type FoundRecord = Option<Arc<Generation>>;

/// What a start hands over.
pub struct Start {
    /// `[shared]`.
    pub config: SharedConfig,
    /// Name of this replica.
    pub node: String,
    /// Keys and accounts.
    pub registry: Arc<Registry>,
    /// Records; PostgreSQL needs them.
    pub ledger: Option<Arc<GenerationStore>>,
    /// Age at which records are deleted.
    pub max_age: Duration,
    /// The file of changes with a place, and what it gave at the start.
    pub changes: Option<(SharedLog, Merged)>,
    /// Called when an administrator of any replica deleted records: before this time, of this account.
    pub deleted: Box<dyn Fn(i64, Option<u64>) + Send + Sync>,
}

/// The breakers of this replica, for advice to and from others.
pub struct HealthPort {
    /// Numbers of the endpoints whose breakers are open.
    pub open: Box<dyn Fn() -> Vec<u64> + Send + Sync>,
    /// Takes the advice that the breaker of this endpoint was open so long ago. Gives whether it is believed.
    pub advise: Box<dyn Fn(u64, Duration) -> bool + Send + Sync>,
}

/// What replicas share. Lives as long as the gateway.
pub struct Replicas {
    node: String,
    postgres: Option<Arc<StoreStatus>>,
    redis: Option<Arc<StoreStatus>>,
    health: Arc<OnceLock<HealthPort>>,
    #[cfg(feature = "postgres")]
    questions: Option<Questions>,
    stop: watch::Sender<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Asks for records of other replicas.
#[cfg(feature = "postgres")]
struct Questions {
    sender: tokio::sync::mpsc::Sender<super::postgres::Question>,
    /// Time in which a record of another replica has come to PostgreSQL.
    delay: Duration,
}

/// Something that runs on the thread.
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Replicas {
    /// Begins to exchange, on a thread of its own. Waits for no store.
    ///
    /// # Errors
    /// No thread can be made, or an address or a certificate cannot be read.
    pub fn start(start: Start) -> io::Result<Arc<Replicas>> {
        let (stop, stopped) = watch::channel(false);
        let (node, config) = (start.node.clone(), start.config.clone());
        let postgres = config.postgres.as_ref().map(|_| StoreStatus::new("PostgreSQL"));
        let redis = config.redis.as_ref().map(|_| StoreStatus::new("Redis"));
        let health = Arc::<OnceLock<HealthPort>>::default();
        // `lasting` runs until the stop, `others` as long as the thread.
        let (mut lasting, mut others): (Vec<Task>, Vec<Task>) = (Vec::new(), Vec::new());
        #[cfg(feature = "redis")]
        if let (Some(address), Some(status)) = (&config.redis, &redis) {
            begin_redis(&start, address, (status, &health), &stopped, &mut lasting, &mut others)?;
        }
        #[cfg(feature = "postgres")]
        let questions = match (&config.postgres, &postgres) {
            (Some(address), Some(status)) => {
                begin_postgres(start, address, status, &stopped, &mut lasting, &mut others)?
            }
            _ => None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().name("replicas".to_owned()).spawn(move || {
            runtime.block_on(async {
                others.drain(..).for_each(|task| drop(tokio::spawn(task)));
                futures_util::future::join_all(lasting).await;
            });
            // A name that is being looked up must not hold the end up.
            runtime.shutdown_background();
        })?;
        log::info!("this replica is \"{node}\"");
        Ok(Arc::new(Replicas {
            node,
            postgres,
            redis,
            health,
            #[cfg(feature = "postgres")]
            questions,
            stop,
            thread: Mutex::new(Some(thread)),
        }))
    }

    /// Name of this replica.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Gives advice about endpoints from now on, and takes it. Called once.
    pub fn connect_health(&self, port: HealthPort) {
        let _ = self.health.set(port);
    }

    /// State of PostgreSQL; `None` if it is not configured.
    pub fn postgres(&self) -> Option<StoreReading> {
        self.postgres.as_ref().map(|status| status.read())
    }

    /// State of Redis; `None` if it is not configured.
    pub fn redis(&self) -> Option<StoreReading> {
        self.redis.as_ref().map(|status| status.read())
    }

    /// The record with this id, if another replica wrote it and its owner passes.
    ///
    /// # Errors
    /// PostgreSQL is away, or a later version wrote the record.
    #[cfg(feature = "postgres")]
    pub async fn find(
        &self,
        id: GenerationId,
        ledger: &GenerationStore,
        is_readable: impl Fn(u64) -> bool,
    ) -> Result<FoundRecord, LookupFault> {
        let Some(questions) = &self.questions else { return Ok(None) };
        let id = entry_id(id);
        let mut found = questions.ask(id).await?;
        if found.is_none() {
            tokio::time::sleep(questions.delay).await;
            found = questions.ask(id).await?;
        }
        // A record of another owner is not read, so that its faults are not told.
        let Some((entry, versions)) = found.filter(|(entry, _)| is_readable(owner_of(entry))) else { return Ok(None) };
        match ledger.read_foreign(&entry, &versions) {
            Ok(generation) => Ok(Some(Arc::new(generation))),
            Err(Fault::NewerRecord) => Err(LookupFault::Newer),
            Err(fault) => {
                log::warn!("a record of another replica cannot be read: {fault}");
                Ok(None)
            }
        }
    }

    /// A page of the records of all replicas, as far as they are in PostgreSQL. `None` without PostgreSQL. Blocks.
    ///
    /// # Errors
    /// PostgreSQL is away.
    #[cfg(feature = "postgres")]
    pub fn page(&self, query: &Query, ledger: &GenerationStore) -> Result<Option<ForeignPage>, LookupFault> {
        let Some(questions) = &self.questions else { return Ok(None) };
        let known = ledger.known_versions();
        self.wait_for(questions, |answer| super::postgres::Question::Page(query.clone(), known, answer)).map(Some)
    }

    /// The answer to a question of a list. While PostgreSQL is known to be away nobody waits for it.
    #[cfg(feature = "postgres")]
    fn wait_for<T>(
        &self,
        questions: &Questions,
        question: impl FnOnce(SyncSender<T>) -> super::postgres::Question,
    ) -> Result<T, LookupFault> {
        if self.postgres.as_ref().is_none_or(|status| !status.is_there()) {
            return Err(LookupFault::Away);
        }
        let (answer, answered) = sync_channel(1);
        questions.sender.try_send(question(answer)).map_err(|_| LookupFault::Away)?;
        answered.recv_timeout(LOOKUP_TIMEOUT).map_err(|_| LookupFault::Away)
    }

    /// The sums of the other replicas. `None` without PostgreSQL. Blocks.
    ///
    /// # Errors
    /// PostgreSQL is away.
    #[cfg(feature = "postgres")]
    pub fn sums(&self, grouping: &Grouping, ledger: &GenerationStore) -> Result<Option<Sums>, LookupFault> {
        let Some(questions) = &self.questions else { return Ok(None) };
        let own = ledger.entries().identity().map_err(|_| LookupFault::Away)?;
        let grouping = grouping.clone();
        self.wait_for(questions, |answer| super::postgres::Question::Sums(grouping, own, answer)).map(Some)
    }

    /// Without PostgreSQL there is none.
    ///
    /// # Errors
    /// None.
    #[cfg(not(feature = "postgres"))]
    pub fn page(&self, _: &Query, _: &GenerationStore) -> Result<Option<ForeignPage>, LookupFault> {
        Ok(None)
    }

    /// Without PostgreSQL there is none.
    ///
    /// # Errors
    /// None.
    #[cfg(not(feature = "postgres"))]
    pub fn sums(&self, _: &Grouping, _: &GenerationStore) -> Result<Option<Sums>, LookupFault> {
        Ok(None)
    }

    /// Without PostgreSQL there is none.
    ///
    /// # Errors
    /// None.
    #[cfg(not(feature = "postgres"))]
    pub async fn find(
        &self,
        _: GenerationId,
        _: &GenerationStore,
        _: impl Fn(u64) -> bool,
    ) -> Result<FoundRecord, LookupFault> {
        Ok(None)
    }

    /// Sends what waits, for a few seconds at most, and ends. Blocks.
    pub fn stop(&self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

#[cfg(feature = "postgres")]
impl Questions {
    async fn ask(&self, id: pointsman_ledger::entry::Id) -> Result<Option<super::postgres::FoundEntry>, LookupFault> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let question = super::postgres::Question::Record(id, answer);
        self.sender.try_send(question).map_err(|_| LookupFault::Away)?;
        let answered = tokio::time::timeout(LOOKUP_TIMEOUT, answered).await;
        answered.map_err(|_| LookupFault::Away)?.map_err(|_| LookupFault::Away)
    }
}

#[cfg(feature = "postgres")]
fn begin_postgres(
    start: Start,
    address: &pointsman_config::StoreAddress,
    status: &Arc<StoreStatus>,
    stopped: &watch::Receiver<bool>,
    lasting: &mut Vec<Task>,
    others: &mut Vec<Task>,
) -> io::Result<Option<Questions>> {
    use super::postgres;
    let Start { config, node, registry, ledger, max_age, changes, deleted } = start;
    let (Some(ledger), Some((log, merged))) = (ledger, changes) else { return Ok(None) };
    let server = postgres::Server::new(address).map_err(|fault| io::Error::other(fault.to_string()))?;
    let wake = Arc::new(tokio::sync::Notify::new());
    let waker = Arc::clone(&wake);
    registry.share(merged.own, merged.unsent, Box::new(move || waker.notify_one()));
    let deleted = Box::new(move |deletion: postgres::Deletion| deleted(deletion.before_ms, deletion.owner));
    let every = config.sync_every;
    let (sender, lookups) = postgres::questions(server.clone(), node.clone());
    let status = Arc::clone(status);
    let sources = postgres::Sources { node, registry, ledger, deleted, max_age, every, status };
    let worker = postgres::Worker::new(sources, server, log, wake);
    lasting.push(Box::pin(worker.run(stopped.clone())));
    others.push(Box::pin(lookups.run()));
    Ok(Some(Questions { sender, delay: every * 2 + Duration::from_millis(50) }))
}

#[cfg(feature = "redis")]
fn begin_redis(
    start: &Start,
    address: &pointsman_config::StoreAddress,
    (status, health): (&Arc<StoreStatus>, &Arc<OnceLock<HealthPort>>),
    stopped: &watch::Receiver<bool>,
    lasting: &mut Vec<Task>,
    others: &mut Vec<Task>,
) -> io::Result<()> {
    use super::redis;
    let server = redis::Server::new(address).map_err(|fault| io::Error::other(fault.to_string()))?;
    let (channel, run) = (format!("{{{}}}:usage", start.config.prefix), rand::random());
    let (registry, status) = (Arc::clone(&start.registry), (Arc::clone(status), Arc::clone(health)));
    let listener = redis::Listener::new(server.clone(), channel.clone(), run, Arc::clone(&registry), status.clone());
    let worker = redis::Worker::new(server, &start.config, &start.node, (channel, run), registry, status);
    lasting.push(Box::pin(worker.run(stopped.clone())));
    others.push(Box::pin(listener.run()));
    Ok(())
}
