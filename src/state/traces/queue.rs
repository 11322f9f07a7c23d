//! The queue between the ledger and the thread that sends spans.

use std::{
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use pointsman_actors::ledger::RecordFollower;
use pointsman_config::TracesConfig;
use pointsman_domain::Generation;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{NamesOf, exporter::Exporter, sampler::Sampler, spans};
use crate::base::events::{SpanCounts, SpanLoss};

/// Name of the thread.
const THREAD: &str = "traces";

/// Follows the ended generations and sends the spans of those that are kept.
pub struct Traces {
    sampler: Sampler,
    queue: mpsc::Sender<Arc<Generation>>,
    counts: SpanCounts,
    names: Arc<OnceLock<NamesOf>>,
    stop: Mutex<Option<Stop>>,
}

/// Ends the thread.
struct Stop {
    /// Takes the time that is left for sending what waits.
    ask: oneshot::Sender<Duration>,
    /// Becomes ready, with an error, when the thread has ended.
    ended: oneshot::Receiver<()>,
}

impl Traces {
    /// Starts the thread, if a collector is configured. `instance` distinguishes this process from its replicas. A gateway
    /// that cannot send spans serves all the same, so that a failure is only logged.
    pub fn start(config: &TracesConfig, counts: SpanCounts, instance: u64) -> Option<Arc<Traces>> {
        let collector = config.collector.as_ref()?;
        let (queue, records) = mpsc::channel(config.batches.queue);
        let (ask, asked) = oneshot::channel();
        let (ending, ended) = oneshot::channel();
        let names: Arc<OnceLock<NamesOf>> = Arc::default();
        let started = pointsman_transport::client_config(config.ca_file.as_deref()).map_err(|fault| fault.to_string());
        let started = started.and_then(|tls| {
            let names = Arc::clone(&names);
            let exporter = Exporter { config: config.clone(), tls, counts: counts.clone(), names, instance };
            let run = move || {
                exporter.run(records, asked);
                drop::<oneshot::Sender<()>>(ending);
            };
            thread::Builder::new().name(THREAD.to_owned()).spawn(run).map_err(|error| error.to_string())
        });
        if let Err(why) = started {
            log::error!(event = "traces"; "no traces are sent to {collector}: {why}");
            return None;
        }
        let (share, slow) = (config.sample_ratio * 100.0, config.slow);
        log::info!(
            event = "traces";
            "traces go to {collector}: {share} % of the generations, and what failed, fell back, was hedged or took {slow:?}"
        );
        let sampler = Sampler::new(config);
        Some(Arc::new(Traces { sampler, queue, counts, names, stop: Mutex::new(Some(Stop { ask, ended })) }))
    }

    /// Says who knows the names of keys and accounts. Spans before that have none.
    pub fn name_by(&self, names: NamesOf) {
        // Only the first call counts.
        let _ = self.names.set(names);
    }

    /// Which generations have spans.
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// Sends what waits, for `limit` at most, and ends the thread.
    pub async fn close(&self, limit: Duration) {
        let Some(Stop { ask, ended }) = self.stop.lock().take() else { return };
        if ask.send(limit).is_ok() {
            // A thread that hangs ends with the process.
            let _ = timeout(limit + Duration::from_millis(500), ended).await;
        }
    }
}

impl RecordFollower for Traces {
    fn ended(&self, record: &Arc<Generation>) {
        if self.sampler.keeps(record) && self.queue.try_send(Arc::clone(record)).is_err() {
            self.counts.dropped(spans::count(record), SpanLoss::QueueFull);
        }
    }
}
