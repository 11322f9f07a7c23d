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

/// Asks for one record. Answers `None` for an unknown, forgotten or too old one.
/// Flush the trays first ([`crate::news::NewsRoom::flush`]) to see what just ended.
#[derive(Message)]
#[rtype(result = "Option<Arc<Generation>>")]
pub struct Lookup {
    /// Which.
    pub id: GenerationId,
    /// The moment that says what is too old, Unix milliseconds.
    pub now_ms: i64,
}

/// Asks how many records are held; also the ledger's sign of life.
#[derive(Message)]
#[rtype(result = "usize")]
pub struct CountRecords {
    /// The moment that says what is too old, Unix milliseconds.
    pub now_ms: i64,
}

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
    /// Forgets what is over the bounds at that moment, in Unix milliseconds; a bounded number at a time, the rest
    /// with the next calls.
    fn forget(&mut self, now_ms: i64);
    /// The record of that id, if it is still held and at that moment not too old.
    fn get(&self, id: GenerationId, now_ms: i64) -> Option<Arc<Generation>>;
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
        let settled = self.store.get(record.id, record.created_ms).is_some_and(|known| !running(known.status));
        if !settled && !running(record.status) {
            self.accounts.entry(record.owner).or_default().add(record.spent(), record.created_ms);
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

    fn handle(&mut self, Lookup { id, now_ms }: Lookup, _: &mut Context<Self>) -> Self::Result {
        self.store.forget(now_ms);
        MessageResult(self.store.get(id, now_ms))
    }
}

impl<S: LedgerStore> Handler<CountRecords> for Ledger<S> {
    type Result = usize;

    fn handle(&mut self, CountRecords { now_ms }: CountRecords, _: &mut Context<Self>) -> usize {
        self.store.forget(now_ms);
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
    /// Records forgotten by one call at most: a thousand take well under a millisecond, and no message waits longer
    /// behind a look-up after a quiet night.
    const FORGOTTEN_AT_ONCE: usize = 1000;

    /// An empty store with these bounds.
    #[must_use]
    pub fn new(capacity: usize, max_age: Duration) -> MemoryStore {
        MemoryStore { capacity: capacity.max(1), max_age, records: HashMap::new(), order: VecDeque::new() }
    }

    fn is_too_old(&self, record: &Generation, now_ms: i64) -> bool {
        let max_age_ms = i64::try_from(self.max_age.as_millis()).unwrap_or(i64::MAX);
        now_ms.saturating_sub(record.created_ms) > max_age_ms
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

    fn forget(&mut self, now_ms: i64) {
        for _ in 0..MemoryStore::FORGOTTEN_AT_ONCE {
            let Some(oldest) = self.order.front() else { return };
            let aged = self.records.get(oldest).is_none_or(|record| self.is_too_old(record, now_ms));
            if self.order.len() <= self.capacity && !aged {
                return;
            }
            self.records.remove(oldest);
            self.order.pop_front();
        }
    }

    fn get(&self, id: GenerationId, now_ms: i64) -> Option<Arc<Generation>> {
        self.records.get(&id).filter(|record| !self.is_too_old(record, now_ms)).cloned()
    }

    fn len(&self) -> usize {
        self.records.len()
    }
}

#[cfg(test)]
mod tests {
    use actix::Addr;

    use super::*;
    use crate::{
        domain::{
            ApiType, CostBreakdown, Decision, DecisionCode, Objective, RoutingParameters, Source, Sourced, Tick, Usage,
            Weights,
        },
        mailbox::MailboxDepth,
    };

    const HOUR_MS: i64 = 3_600_000;

    fn decision() -> Decision {
        Decision {
            router: None,
            objective: Sourced { value: Objective::Balanced, source: Source::Default },
            weights: Weights::default(),
            parameters: RoutingParameters::default(),
            code: DecisionCode::FixedModel,
            candidates: Vec::new(),
            excluded: Vec::new(),
            prompt_tokens: 0,
            streamed: false,
            completion_tokens: 0,
            snapshot_version: 1,
            catalog_version: 1,
            policy_version: 1,
            tick: Tick(0),
            seed: 0,
            explored: false,
            max_attempts: 1,
            yardsticks: [0.0; 3],
        }
    }

    /// A generation that was admitted so many hours after the first.
    fn admitted(hours: i64) -> Generation {
        Generation {
            id: GenerationId::new(hours as u64 * 3600, [hours as u64; 3]),
            owner: 1,
            api_type: ApiType::Completions,
            request_id: "req-1".into(),
            created_ms: hours * HOUR_MS,
            status: GenerationStatus::Completed,
            requested_model: "acme/small".into(),
            streamed: false,
            decision: Arc::new(decision()),
            attempts: Vec::new(),
            model: None,
            provider_name: None,
            provider_slug: None,
            upstream_id: None,
            latency_ms: None,
            generation_time_ms: None,
            usage: Usage::default(),
            cost: CostBreakdown::default(),
            finish: None,
            native_finish_reason: None,
            dropped_parameters: Vec::new(),
            external_user: None,
            session_id: None,
            tags: Vec::new(),
            trace: None,
            user_agent: None,
            http_referer: None,
            origin: None,
            media_prompt: 0,
            media_completion: 0,
        }
    }

    async fn holding(records: Vec<Generation>) -> Addr<Ledger<MemoryStore>> {
        let ledger = Ledger::new(MemoryStore::new(10_000, Duration::from_secs(3600))).start();
        ledger.send(Records(records, MailboxDepth::default().enter())).await.unwrap();
        ledger
    }

    #[actix::test]
    async fn a_record_that_is_too_old_is_not_shown_even_if_none_came_after_it() {
        let record = admitted(5);
        let (id, created) = (record.id, record.created_ms);
        let ledger = holding(vec![record]).await;
        let seen = async |now_ms| ledger.send(Lookup { id, now_ms }).await.unwrap().is_some();
        assert!(seen(created + HOUR_MS).await);
        assert!(!seen(created + HOUR_MS + 1).await);
        assert_eq!(ledger.send(CountRecords { now_ms: created }).await.unwrap(), 0, "forgotten, not hidden");
    }

    #[actix::test]
    async fn a_question_forgets_a_bounded_number_of_records() {
        let night = MemoryStore::FORGOTTEN_AT_ONCE + 10;
        let same_time = |n| Generation { id: GenerationId::new(0, [n as u64; 3]), ..admitted(0) };
        let ledger = holding((0..night).map(same_time).collect()).await;
        let count = async || ledger.send(CountRecords { now_ms: 2 * HOUR_MS }).await.unwrap();
        assert_eq!([count().await, count().await], [10, 0]);
    }
}
