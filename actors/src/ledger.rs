//! Ledger: the actor that keeps one record per generation, bounded in number and age.
//!
//! It never sits on the path of a token: workers hand it batches ([`Records`]), readers ask ([`Lookup`]).
//! Where records live is behind [`LedgerStore`]; [`MemoryStore`] forgets them with the process.

mod spending;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use actix::{Actor, Context, Handler, Message, MessageResult};

use crate::{
    domain::{Generation, GenerationId, GenerationStatus},
    mailbox::InMailbox,
};

use spending::Account;
pub use spending::Spent;

/// Records of generations, running and ended. Sent by a worker's [`crate::news::News`].
/// No reply; a record whose id is known replaces the older one.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Records(pub Vec<Generation>, pub InMailbox);

/// Asks for one record. Answers `None` for an unknown or forgotten id.
/// Flush the trays first ([`crate::news::NewsRoom::flush`]) to see what just ended.
#[derive(Message)]
#[rtype(result = "Option<Arc<Generation>>")]
pub struct Lookup(pub GenerationId);

/// Asks how many records are held; also the ledger's sign of life.
#[derive(Message)]
#[rtype(result = "usize")]
pub struct CountRecords;

/// Asks what was spent by generations that ended since the process started.
/// Flush the trays first to see what just ended.
#[derive(Message)]
#[rtype(result = "Spent")]
pub struct ReadSpending {
    /// Whose; `None` for everybody's together.
    pub owner: Option<u64>,
    /// The moment that says which day, week and month it is, Unix milliseconds.
    pub now_ms: i64,
}

/// Where records live.
pub trait LedgerStore: Unpin + 'static {
    /// Keeps `record`, replacing an older one of the same id, and forgets what is over the bounds.
    fn put(&mut self, record: Generation);
    /// The record of that id, if it is still held.
    fn get(&self, id: GenerationId) -> Option<Arc<Generation>>;
    /// Records held.
    fn len(&self) -> usize;
    /// Whether none is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The actor. Runs on the control arbiter.
pub struct Ledger<S> {
    store: S,
    /// By owner; there are no more owners than configured keys.
    accounts: HashMap<u64, Account>,
}

impl<S: LedgerStore> Ledger<S> {
    /// A ledger that keeps its records in `store`.
    pub fn new(store: S) -> Ledger<S> {
        Ledger { store, accounts: HashMap::new() }
    }

    /// Enters the cost of a generation the first time it is seen ended.
    fn settle(&mut self, record: &Generation) {
        let running = |status| status == GenerationStatus::Running;
        let settled = self.store.get(record.id).is_some_and(|known| !running(known.status));
        if !settled && !running(record.status) {
            self.accounts.entry(record.owner).or_default().add(record.cost.total(), record.created_ms);
        }
    }
}

impl<S: LedgerStore> Actor for Ledger<S> {
    type Context = Context<Self>;
}

impl<S: LedgerStore> Handler<Records> for Ledger<S> {
    type Result = ();

    fn handle(&mut self, Records(records, _handled): Records, _: &mut Context<Self>) {
        for record in records {
            self.settle(&record);
            self.store.put(record);
        }
    }
}

impl<S: LedgerStore> Handler<Lookup> for Ledger<S> {
    type Result = MessageResult<Lookup>;

    fn handle(&mut self, Lookup(id): Lookup, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.store.get(id))
    }
}

impl<S: LedgerStore> Handler<CountRecords> for Ledger<S> {
    type Result = usize;

    fn handle(&mut self, _: CountRecords, _: &mut Context<Self>) -> usize {
        self.store.len()
    }
}

impl<S: LedgerStore> Handler<ReadSpending> for Ledger<S> {
    type Result = MessageResult<ReadSpending>;

    fn handle(&mut self, ReadSpending { owner, now_ms }: ReadSpending, _: &mut Context<Self>) -> Self::Result {
        let asked = self.accounts.iter().filter(|(known, _)| owner.is_none_or(|owner| owner == **known));
        let spent = asked.map(|(_, account)| account.read(now_ms));
        MessageResult(spent.reduce(std::ops::Add::add).unwrap_or_default())
    }
}

/// Records in memory: the newest `capacity`, none older than `max_age`.
pub struct MemoryStore {
    capacity: usize,
    max_age: Duration,
    records: HashMap<GenerationId, Arc<Generation>>,
    /// Ids in the order they arrived; the front is the next to be forgotten.
    order: VecDeque<GenerationId>,
}

impl MemoryStore {
    /// An empty store with these bounds.
    #[must_use]
    pub fn new(capacity: usize, max_age: Duration) -> MemoryStore {
        MemoryStore { capacity: capacity.max(1), max_age, records: HashMap::new(), order: VecDeque::new() }
    }

    /// Forgets from the front whatever is over the bounds, seen from a record made at `now_ms`.
    fn forget(&mut self, now_ms: i64) {
        let max_age_ms = i64::try_from(self.max_age.as_millis()).unwrap_or(i64::MAX);
        while let Some(oldest) = self.order.front() {
            let too_old = |record: &Arc<Generation>| now_ms.saturating_sub(record.created_ms) > max_age_ms;
            let aged = self.records.get(oldest).is_none_or(too_old);
            if self.order.len() <= self.capacity && !aged {
                return;
            }
            self.records.remove(oldest);
            self.order.pop_front();
        }
    }
}

impl LedgerStore for MemoryStore {
    fn put(&mut self, record: Generation) {
        let (id, created_ms) = (record.id, record.created_ms);
        if let Some(known) = self.records.get_mut(&id) {
            // Batches of two threads may cross: an ended generation never runs again.
            if record.status != GenerationStatus::Running || known.status == GenerationStatus::Running {
                *known = Arc::new(record);
            }
            return;
        }
        self.records.insert(id, Arc::new(record));
        self.order.push_back(id);
        self.forget(created_ms);
    }

    fn get(&self, id: GenerationId) -> Option<Arc<Generation>> {
        self.records.get(&id).cloned()
    }

    fn len(&self) -> usize {
        self.records.len()
    }
}
