//! Batches of endpoint events and generation records that a worker sends to the control actors.
//!
//! A message to another thread costs a wake-up of several microseconds; a push into a batch costs a tenth of a
//! microsecond. A batch is sent when it is full, when it is [`EventBatcher::MAX_AGE`] old, when a breaker changed
//! state, and before a generation is looked up: [`EventBatchers::flush`] sends the batches of all workers, so a
//! record is readable as soon as it was pushed.
//!
//! Receivers: [`crate::provider_health::ProviderHealth`] and [`crate::ledger::Ledger`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use actix::Recipient;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use pointsman_domain::{EndpointEvent, Generation};

use crate::{
    ledger::Records,
    mailbox::{MailboxDepth, Undelivered},
    provider_health::Observations,
};

/// The batch of one worker. Cheap to share. The lock is held only for a push or for the two sends of a flush, by the
/// worker itself or by a look-up.
pub struct EventBatcher {
    batch: Arc<Mutex<PendingBatch>>,
    addresses: Arc<Addresses>,
    depths: MailboxDepths,
}

/// Addresses of the receiving actors. A restarted actor has a new address.
struct Addresses {
    health: ArcSwap<Recipient<Observations>>,
    ledger: ArcSwap<Recipient<Records>>,
    undelivered: Undelivered,
    /// Events dropped because the batch was full.
    dropped: AtomicU64,
    /// Records dropped because the batch was full.
    dropped_records: AtomicU64,
}

/// Number of batches in the mailboxes of the control actors. Cloning shares the counts.
#[derive(Debug, Clone, Default)]
pub struct MailboxDepths {
    /// Mailbox of the health actor.
    pub health: MailboxDepth,
    /// Mailbox of the ledger.
    pub ledger: MailboxDepth,
}

#[derive(Default)]
struct PendingBatch {
    events: Vec<EndpointEvent>,
    records: Vec<Arc<Generation>>,
    timer_armed: bool,
}

/// Whether the caller must start a timer that flushes the batch after [`EventBatcher::MAX_AGE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum FlushTimer {
    /// Nothing to do: the batch is empty, or a timer is running.
    Armed,
    /// The batch is not empty: start the timer and call [`EventBatcher::flush_when_due`] when it expires.
    Needed,
}

impl EventBatcher {
    /// Number of events and records at which the batch is sent.
    const BATCH_SIZE: usize = 128;
    /// Most events, and most records, kept while their actor is gone or its mailbox is full. Further ones are dropped
    /// and counted.
    const MAX_PENDING: usize = 4096;
    /// Most events in the health actor's mailbox: ten seconds of a busy gateway, about 10 MB.
    const MAX_EVENTS_IN_MAILBOX: usize = 65_536;
    /// Most records in the ledger's mailbox. Each holds a decision of some kilobytes.
    const MAX_RECORDS_IN_MAILBOX: usize = 16_384;
    /// How long an event or a record waits at most before it is sent: half the pause between two snapshots, so that every other
    /// batch is published on arrival, without another timer.
    pub const MAX_AGE: Duration = Duration::from_millis(25);

    /// Adds an endpoint event for the health actor.
    pub fn event(&self, event: EndpointEvent) -> FlushTimer {
        let mut batch = self.batch.lock();
        if batch.events.len() >= EventBatcher::MAX_PENDING {
            self.addresses.dropped.fetch_add(1, Ordering::Relaxed);
            self.send(&mut batch);
            return batch.timer();
        }
        batch.events.push(event);
        if event.is_urgent() {
            self.send(&mut batch);
        }
        self.settle(&mut batch)
    }

    /// Adds the record of a generation for the ledger. The record is readable from now on.
    pub fn record(&self, record: Arc<Generation>) -> FlushTimer {
        let mut batch = self.batch.lock();
        if batch.records.len() >= EventBatcher::MAX_PENDING {
            self.addresses.dropped_records.fetch_add(1, Ordering::Relaxed);
            self.send(&mut batch);
            return batch.timer();
        }
        batch.records.push(record);
        self.settle(&mut batch)
    }

    /// Sends the batch.
    pub fn flush(&self) {
        self.send(&mut self.batch.lock());
    }

    fn send(&self, batch: &mut PendingBatch) {
        self.addresses.send(&self.depths, batch);
    }

    /// Sends the batch when the timer of [`FlushTimer::Needed`] expired. Items that could not be sent need another
    /// timer.
    pub fn flush_when_due(&self) -> FlushTimer {
        let mut batch = self.batch.lock();
        batch.timer_armed = false;
        self.send(&mut batch);
        batch.timer()
    }

    fn settle(&self, batch: &mut PendingBatch) -> FlushTimer {
        if batch.events.len() + batch.records.len() >= EventBatcher::BATCH_SIZE {
            self.send(batch);
        }
        batch.timer()
    }
}

impl Addresses {
    /// Runs under the lock, so a look-up that finds the batch empty can rely on the records being in the mailbox. Items
    /// for a full mailbox stay in the batch.
    fn send(&self, depths: &MailboxDepths, batch: &mut PendingBatch) {
        let Addresses { health, ledger, undelivered, .. } = self;
        let MailboxDepths { health: events_sent, ledger: records_sent } = depths;
        if !batch.events.is_empty() && events_sent.items() < EventBatcher::MAX_EVENTS_IN_MAILBOX {
            let health = health.load();
            if health.connected() {
                let events = taken(&mut batch.events);
                let counted = events_sent.enter(events.len());
                health.do_send(Observations(events, counted));
            }
        }
        if !batch.records.is_empty() && records_sent.items() < EventBatcher::MAX_RECORDS_IN_MAILBOX {
            let records = taken(&mut batch.records);
            let counted = records_sent.enter(records.len());
            ledger.load().do_send(Records::new(records, counted, undelivered));
        }
    }
}

/// The items of a batch. The next one gets room for as many.
fn taken<T>(items: &mut Vec<T>) -> Vec<T> {
    let next = Vec::with_capacity(items.len());
    std::mem::replace(items, next)
}

impl PendingBatch {
    /// Whether the caller must start a timer for the items in the batch. At most one timer runs at a time.
    fn timer(&mut self) -> FlushTimer {
        let is_empty = self.events.is_empty() && self.records.is_empty();
        if is_empty || std::mem::replace(&mut self.timer_armed, true) { FlushTimer::Armed } else { FlushTimer::Needed }
    }
}

impl Drop for EventBatcher {
    /// A stopping worker sends its last batch.
    fn drop(&mut self) {
        self.flush();
    }
}

/// The batches of all workers.
pub struct EventBatchers {
    /// Held here too, so that a flush while a worker ends finds its batch.
    batches: Mutex<Vec<Arc<Mutex<PendingBatch>>>>,
    addresses: Arc<Addresses>,
    /// Number of batches in the mailboxes of the receivers.
    pub depths: MailboxDepths,
}

impl EventBatchers {
    /// Batches that are sent to these addresses. Records that do not arrive are kept in `undelivered`.
    pub fn new(health: Recipient<Observations>, ledger: Recipient<Records>, undelivered: Undelivered) -> EventBatchers {
        let addresses = Addresses {
            health: ArcSwap::from_pointee(health),
            ledger: ArcSwap::from_pointee(ledger),
            undelivered,
            dropped: AtomicU64::new(0),
            dropped_records: AtomicU64::new(0),
        };
        EventBatchers { batches: Mutex::default(), addresses: Arc::new(addresses), depths: MailboxDepths::default() }
    }

    /// Adds an empty batch for one more worker.
    pub fn join(&self) -> Arc<EventBatcher> {
        let batcher = Arc::new(EventBatcher {
            batch: Arc::default(),
            addresses: Arc::clone(&self.addresses),
            depths: self.depths.clone(),
        });
        let mut batches = self.batches.lock();
        batches.retain(|batch| Arc::strong_count(batch) > 1);
        batches.push(Arc::clone(&batcher.batch));
        batcher
    }

    /// Sends events to another actor from now on.
    pub fn redirect_events(&self, health: Recipient<Observations>) {
        self.addresses.health.store(Arc::new(health));
    }

    /// Sends records to another actor from now on.
    pub fn redirect_records(&self, ledger: Recipient<Records>) {
        self.addresses.ledger.store(Arc::new(ledger));
    }

    /// Sends the batches of all workers.
    pub fn flush(&self) {
        for batch in &*self.batches.lock() {
            self.addresses.send(&self.depths, &mut batch.lock());
        }
    }

    /// Events dropped by all workers since the start.
    pub fn dropped(&self) -> u64 {
        self.addresses.dropped.load(Ordering::Relaxed)
    }

    /// Records dropped by all workers since the start.
    pub fn dropped_records(&self) -> u64 {
        self.addresses.dropped_records.load(Ordering::Relaxed)
    }
}
