//! Ledger: the actor that keeps one record per generation, bounded in number and age.
//!
//! It never sits on the path of a token: workers hand it batches ([`Records`]), readers ask ([`Lookup`]).
//! Where records live is behind [`LedgerStore`]; [`MemoryStore`] forgets them with the process.

mod memory;
mod spending;

use std::{collections::HashMap, sync::Arc, time::Duration};

use actix::{Actor, Context, Handler, Message, MessageResult};
use parking_lot::{Mutex, MutexGuard};

use crate::{
    actors::mailbox::{MailboxToken, Undelivered},
    domain::{Generation, GenerationId, GenerationStatus},
};

pub use memory::MemoryStore;
use spending::SpendingAccount;
pub use spending::Spent;

/// Records of generations, running and ended. Sent by a worker's [`crate::actors::event_batches::EventBatcher`].
/// No reply; a record whose id is known replaces the older one.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Records {
    records: Vec<Arc<Generation>>,
    /// Where they go when nobody handles them.
    otherwise: Undelivered,
    _waiting: MailboxToken,
}

impl Records {
    /// A batch that counts as waiting, and goes back to `otherwise` when its ledger is gone.
    #[must_use]
    pub fn new(records: Vec<Arc<Generation>>, waiting: MailboxToken, otherwise: &Undelivered) -> Records {
        Records { records, otherwise: otherwise.clone(), _waiting: waiting }
    }

    fn take(&mut self) -> Vec<Arc<Generation>> {
        std::mem::take(&mut self.records)
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        if !self.records.is_empty() {
            self.otherwise.put(std::mem::take(&mut self.records));
        }
    }
}

/// Asks for one record. Answers `None` for an unknown, forgotten or too old one.
/// Flush the trays first ([`crate::actors::event_batches::EventBatchers::flush`]) to see what just ended.
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

/// Sets other bounds. Sent when a new configuration was taken over; no reply. What is over them leaves with the next
/// messages.
#[derive(Message)]
#[rtype(result = "()")]
pub struct SetBounds {
    /// Records kept.
    pub capacity: usize,
    /// How long each is kept at most.
    pub max_age: Duration,
}

/// Asks what is held, by whom.
#[derive(Message)]
#[rtype(result = "LedgerSize")]
pub struct ReadLedgerSize {
    /// The moment that says what is too old, Unix milliseconds.
    pub now_ms: i64,
}

/// What a ledger holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LedgerSize {
    /// Records.
    pub records: usize,
    /// Most records it keeps.
    pub capacity: usize,
    /// How long it keeps one at most.
    pub max_age: Duration,
    /// When the oldest was admitted, Unix milliseconds.
    pub oldest_ms: Option<i64>,
    /// When the newest was admitted, Unix milliseconds.
    pub newest_ms: Option<i64>,
    /// Records by owner, in the order of their numbers.
    pub by_owner: Vec<(u64, usize)>,
}

/// Deletes records of ended generations; those that still run stay. Answers how many there were. Takes a tenth of a
/// microsecond per record held. What was spent stays spent.
#[derive(Message)]
#[rtype(result = "usize")]
pub struct DeleteRecords {
    /// Only those admitted before that moment, Unix milliseconds.
    pub before_ms: Option<i64>,
    /// Only those of that owner.
    pub owner: Option<u64>,
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
pub trait LedgerStore: Send + Unpin + 'static {
    /// Keeps `record`, replacing an older one of the same id, and forgets what is over the bounds.
    fn put(&mut self, record: Arc<Generation>);
    /// Forgets what is over the bounds at that moment, in Unix milliseconds; a bounded number at a time, the rest
    /// with the next calls.
    fn forget(&mut self, now_ms: i64);
    /// What is held.
    fn holdings(&self) -> LedgerSize;
    /// Deletes every record that `unwanted` says so of; how many there were.
    fn delete(&mut self, unwanted: &dyn Fn(&Generation) -> bool) -> usize;
    /// Sets other bounds.
    fn rebound(&mut self, capacity: usize, max_age: Duration);
    /// The record of that id, if it is still held and at that moment not too old.
    fn get(&self, id: GenerationId, now_ms: i64) -> Option<Arc<Generation>>;
    /// Records held.
    fn len(&self) -> usize;
    /// Whether none is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Everything a ledger knows. It outlives the actor: another one goes on from it.
pub struct LedgerState<S> {
    open: Mutex<LockedState<S>>,
    undelivered: Undelivered,
}

struct LockedState<S> {
    store: S,
    /// By owner; there are no more owners than configured keys.
    accounts: HashMap<u64, SpendingAccount>,
}

impl<S: LedgerStore> LedgerState<S> {
    /// LedgerState that keep their records in `store`, and in which what is `undelivered` is entered too.
    pub fn new(store: S, undelivered: Undelivered) -> LedgerState<S> {
        LedgerState { open: Mutex::new(LockedState { store, accounts: HashMap::new() }), undelivered }
    }

    /// Opens them; what has not arrived is entered first. Only the actor does that: nobody waits.
    fn open(&self) -> MutexGuard<'_, LockedState<S>> {
        let mut open = self.open.lock();
        self.undelivered.take().into_iter().for_each(|record| open.enter(record));
        open
    }
}

impl<S: LedgerStore> LockedState<S> {
    fn enter(&mut self, record: Arc<Generation>) {
        self.settle(&record);
        self.store.put(record);
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

/// The actor. Runs on the control arbiter.
pub struct Ledger<S> {
    books: Arc<LedgerState<S>>,
}

impl<S: LedgerStore> Ledger<S> {
    /// A ledger that begins with nothing and keeps its records in `store`.
    pub fn new(store: S) -> Ledger<S> {
        Ledger::of(Arc::new(LedgerState::new(store, Undelivered::default())))
    }

    /// A ledger that goes on where another one ended.
    #[must_use]
    pub fn of(books: Arc<LedgerState<S>>) -> Ledger<S> {
        Ledger { books }
    }
}

impl<S: LedgerStore> Actor for Ledger<S> {
    type Context = Context<Self>;
}

impl<S: LedgerStore> Handler<Records> for Ledger<S> {
    type Result = ();

    fn handle(&mut self, mut records: Records, _: &mut Context<Self>) {
        let mut books = self.books.open();
        records.take().into_iter().for_each(|record| books.enter(record));
    }
}

impl<S: LedgerStore> Handler<Lookup> for Ledger<S> {
    type Result = MessageResult<Lookup>;

    fn handle(&mut self, Lookup { id, now_ms }: Lookup, _: &mut Context<Self>) -> Self::Result {
        let mut books = self.books.open();
        books.store.forget(now_ms);
        MessageResult(books.store.get(id, now_ms))
    }
}

impl<S: LedgerStore> Handler<CountRecords> for Ledger<S> {
    type Result = usize;

    fn handle(&mut self, CountRecords { now_ms }: CountRecords, _: &mut Context<Self>) -> usize {
        let mut books = self.books.open();
        books.store.forget(now_ms);
        books.store.len()
    }
}

impl<S: LedgerStore> Handler<SetBounds> for Ledger<S> {
    type Result = ();

    fn handle(&mut self, SetBounds { capacity, max_age }: SetBounds, _: &mut Context<Self>) {
        self.books.open().store.rebound(capacity, max_age);
    }
}

impl<S: LedgerStore> Handler<ReadLedgerSize> for Ledger<S> {
    type Result = MessageResult<ReadLedgerSize>;

    fn handle(&mut self, ReadLedgerSize { now_ms }: ReadLedgerSize, _: &mut Context<Self>) -> Self::Result {
        let mut books = self.books.open();
        books.store.forget(now_ms);
        MessageResult(books.store.holdings())
    }
}

impl<S: LedgerStore> Handler<DeleteRecords> for Ledger<S> {
    type Result = usize;

    fn handle(&mut self, DeleteRecords { before_ms, owner }: DeleteRecords, _: &mut Context<Self>) -> usize {
        self.books.open().store.delete(&|record| {
            record.status != GenerationStatus::Running
                && before_ms.is_none_or(|before| record.created_ms < before)
                && owner.is_none_or(|owner| record.owner == owner)
        })
    }
}

impl<S: LedgerStore> Handler<ReadSpending> for Ledger<S> {
    type Result = MessageResult<ReadSpending>;

    fn handle(&mut self, ReadSpending { owner, now_ms }: ReadSpending, _: &mut Context<Self>) -> Self::Result {
        let books = self.books.open();
        let asked = books.accounts.iter().filter(|(known, _)| owner.is_none_or(|owner| owner == **known));
        let spent = asked.map(|(_, account)| account.read(now_ms));
        MessageResult(spent.reduce(std::ops::Add::add).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use actix::Addr;

    use super::*;
    use crate::{
        actors::mailbox::MailboxDepth,
        domain::{
            ApiType, CostBreakdown, Decision, DecisionCode, Objective, OmittedCandidates, Source, Sourced, Tick, Usage,
            Weights,
        },
    };

    const HOUR_MS: i64 = 3_600_000;

    fn decision() -> Decision {
        Decision {
            router: None,
            objective: Sourced { value: Objective::Balanced, source: Source::Default },
            weights: Weights::default(),
            parameters: Arc::default(),
            code: DecisionCode::FixedModel,
            candidates: Vec::new(),
            rivals: Vec::new(),
            standby: Vec::new(),
            omitted: OmittedCandidates::default(),
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
            baselines: [0.0; 4],
            latency_margin: 1.0,
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
            policy: Arc::default(),
            catalog: Arc::default(),
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
        ledger
            .send(Records::new(
                records.into_iter().map(Arc::new).collect(),
                MailboxDepth::default().enter(1),
                &Undelivered::default(),
            ))
            .await
            .unwrap();
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

    /// Of which of these records the ledger still tells at that moment.
    async fn told(ledger: &Addr<Ledger<MemoryStore>>, ids: &[GenerationId], now_ms: i64) -> Vec<bool> {
        let mut told = Vec::new();
        for id in ids {
            told.push(ledger.send(Lookup { id: *id, now_ms }).await.unwrap().is_some());
        }
        told
    }

    #[actix::test]
    async fn a_wall_clock_set_back_by_an_hour_loses_no_record_and_keeps_none_for_ever() {
        // The second was admitted after the first, when the clock showed an hour less.
        let records = vec![admitted(5), admitted(4)];
        let ids: Vec<_> = records.iter().map(|record| record.id).collect();
        let ledger = holding(records).await;
        assert_eq!(told(&ledger, &ids, 4 * HOUR_MS).await, [true, true]);
        assert_eq!(told(&ledger, &ids, 5 * HOUR_MS).await, [true, true]);
        assert_eq!(
            told(&ledger, &ids, 5 * HOUR_MS + 1).await,
            [true, false],
            "by its own hour, not by that of another"
        );
        assert_eq!(told(&ledger, &ids, 6 * HOUR_MS + 1).await, [false, false]);
        assert_eq!(ledger.send(CountRecords { now_ms: 6 * HOUR_MS + 1 }).await.unwrap(), 0);
    }

    #[actix::test]
    async fn a_record_admitted_while_the_wall_clock_was_a_day_ahead_harms_no_other() {
        let records = vec![admitted(24), admitted(0)];
        let ids: Vec<_> = records.iter().map(|record| record.id).collect();
        let ledger = holding(records).await;
        assert_eq!(told(&ledger, &ids, HOUR_MS).await, [true, true]);
        assert_eq!(told(&ledger, &ids, HOUR_MS + 1).await, [true, false]);
    }

    #[actix::test]
    async fn a_question_forgets_a_bounded_number_of_records() {
        let night = memory::FORGOTTEN_AT_ONCE + 10;
        let same_time = |n| Generation { id: GenerationId::new(0, [n as u64; 3]), ..admitted(0) };
        let ledger = holding((0..night).map(same_time).collect()).await;
        let count = async || ledger.send(CountRecords { now_ms: 2 * HOUR_MS }).await.unwrap();
        assert_eq!([count().await, count().await], [10, 0]);
    }
}
