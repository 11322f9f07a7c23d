//! The worker's outgoing tray: news for the control actors, sent in batches.
//!
//! A message to another thread costs a wake-up of several microseconds, a push into this tray a tenth
//! of one. A tray is emptied when it is full, when it is [`EventBatcher::PATIENCE`] old, when a gate moved, and whenever
//! somebody looks a generation up: [`EventBatchers::flush`] empties the trays of every worker, so a record is readable
//! as soon as it was pushed.
//!
//! Who hears it: [`crate::actors::provider_health::ProviderHealth`] and [`crate::actors::ledger::Ledger`].

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use actix::Recipient;
use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::{
    actors::{
        ledger::Records,
        mailbox::{MailboxDepth, Undelivered},
        provider_health::Observations,
    },
    domain::{EndpointEvent, Generation},
};

/// One worker's tray. Cheap to share. Pushing waits for nobody's work: its lock is held for a push, or for the two
/// sends that empty it, by its own worker or by whoever looks a generation up.
pub struct EventBatcher {
    batch: Mutex<PendingBatch>,
    addresses: Arc<Addresses>,
    depths: MailboxDepths,
}

/// Where trays are emptied into. An actor that is gone is followed by another one at another address.
struct Addresses {
    health: ArcSwap<Recipient<Observations>>,
    ledger: ArcSwap<Recipient<Records>>,
    undelivered: Undelivered,
    /// Events that found a tray full.
    dropped: AtomicU64,
    /// Records that found a tray full.
    dropped_records: AtomicU64,
}

/// Batches that wait in the mailboxes of the control actors. Cloning shares the counts.
#[derive(Debug, Clone, Default)]
pub struct MailboxDepths {
    /// Of the health actor.
    pub health: MailboxDepth,
    /// Of the ledger.
    pub ledger: MailboxDepth,
}

#[derive(Default)]
struct PendingBatch {
    events: Vec<EndpointEvent>,
    records: Vec<Arc<Generation>>,
    timer_armed: bool,
}

/// Whether the caller should see to it that the tray is flushed after [`EventBatcher::PATIENCE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum FlushTimer {
    /// Nothing to do: the tray is empty, or a timer runs.
    Armed,
    /// Something waits in the tray: start the timer, and call [`EventBatcher::flush_when_due`] when it is over.
    Needed,
}

impl EventBatcher {
    /// EventBatcher that are sent as one message at most.
    const BATCH_SIZE: usize = 128;
    /// Events and records kept in a tray, each, while their actor is gone or has too many to handle; beyond it the newest
    /// are dropped and counted.
    const MAX_PENDING: usize = 4096;
    /// Events in the health actor's mailbox beyond which trays send no more: ten seconds of a busy gateway, ten megabytes.
    const MAX_EVENTS_IN_MAILBOX: usize = 65_536;
    /// Records in the ledger's mailbox beyond which trays send no more. Each holds a decision: some kilobytes.
    const MAX_RECORDS_IN_MAILBOX: usize = 16_384;
    /// How old news may get before they are sent.
    pub const PATIENCE: Duration = Duration::from_millis(20);

    /// Tells the health actor what happened to an endpoint.
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

    /// Hands a generation's record to the ledger: readable from now on.
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

    /// Sends what is in the tray.
    pub fn flush(&self) {
        self.send(&mut self.batch.lock());
    }

    /// The same, by whoever waited for [`EventBatcher::PATIENCE`] as told by [`FlushTimer::Needed`]. What could not be sent needs
    /// another timer.
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

    /// Runs under the lock: a look-up that finds the tray empty may rely on the records being in the mailbox. What an
    /// actor has no room for stays in the tray.
    fn send(&self, batch: &mut PendingBatch) {
        let Addresses { health, ledger, undelivered, .. } = &*self.addresses;
        let MailboxDepths { health: events_sent, ledger: records_sent } = &self.depths;
        if !batch.events.is_empty() && events_sent.items() < EventBatcher::MAX_EVENTS_IN_MAILBOX {
            let health = health.load();
            if health.connected() {
                let events = std::mem::take(&mut batch.events);
                let counted = events_sent.enter(events.len());
                health.do_send(Observations(events, counted));
            }
        }
        if !batch.records.is_empty() && records_sent.items() < EventBatcher::MAX_RECORDS_IN_MAILBOX {
            let records = std::mem::take(&mut batch.records);
            let counted = records_sent.enter(records.len());
            ledger.load().do_send(Records::new(records, counted, undelivered));
        }
    }
}

impl PendingBatch {
    /// Whether somebody has to start a timer for what is in the tray. There is one at a time.
    fn timer(&mut self) -> FlushTimer {
        let is_empty = self.events.is_empty() && self.records.is_empty();
        if is_empty || std::mem::replace(&mut self.timer_armed, true) { FlushTimer::Armed } else { FlushTimer::Needed }
    }
}

impl Drop for EventBatcher {
    /// A worker that goes leaves nothing behind.
    fn drop(&mut self) {
        self.flush();
    }
}

/// The trays of all workers.
pub struct EventBatchers {
    /// Each as long as its worker has it.
    trays: Mutex<Vec<Weak<EventBatcher>>>,
    addresses: Arc<Addresses>,
    /// What waits in the mailboxes that the trays empty into.
    pub depths: MailboxDepths,
}

impl EventBatchers {
    /// A room whose trays empty into these mailboxes; records that do not arrive there are `undelivered`.
    #[must_use]
    pub fn new(health: Recipient<Observations>, ledger: Recipient<Records>, undelivered: Undelivered) -> EventBatchers {
        let addresses = Addresses {
            health: ArcSwap::from_pointee(health),
            ledger: ArcSwap::from_pointee(ledger),
            undelivered,
            dropped: AtomicU64::new(0),
            dropped_records: AtomicU64::new(0),
        };
        EventBatchers { trays: Mutex::default(), addresses: Arc::new(addresses), depths: MailboxDepths::default() }
    }

    /// A further worker's tray, empty.
    #[must_use]
    pub fn join(&self) -> Arc<EventBatcher> {
        let tray = Arc::new(EventBatcher {
            batch: Mutex::default(),
            addresses: Arc::clone(&self.addresses),
            depths: self.depths.clone(),
        });
        let mut trays = self.trays.lock();
        trays.retain(|tray| tray.strong_count() > 0);
        trays.push(Arc::downgrade(&tray));
        tray
    }

    /// Has events sent to another actor from now on.
    pub fn redirect_events(&self, health: Recipient<Observations>) {
        self.addresses.health.store(Arc::new(health));
    }

    /// Has records sent to another actor from now on.
    pub fn redirect_records(&self, ledger: Recipient<Records>) {
        self.addresses.ledger.store(Arc::new(ledger));
    }

    /// Empties every tray.
    pub fn flush(&self) {
        for tray in self.trays.lock().iter().filter_map(Weak::upgrade) {
            tray.flush();
        }
    }

    /// Events dropped by all trays since the start.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.addresses.dropped.load(Ordering::Relaxed)
    }

    /// Records dropped by all trays since the start.
    #[must_use]
    pub fn dropped_records(&self) -> u64 {
        self.addresses.dropped_records.load(Ordering::Relaxed)
    }
}
