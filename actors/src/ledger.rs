//! Ledger: the actor that keeps one record per generation, bounded in number and age.
//!
//! It is never on the path of a response: workers send batches ([`Records`]), readers ask ([`Lookup`]). Records are
//! kept in a [`LedgerStore`]; [`MemoryStore`] loses them when the process ends.

mod memory_store;
mod queries;
pub mod series;

use std::{sync::Arc, time::Duration};

use actix::{Actor, Context, Handler, Message, MessageResult};
use parking_lot::{Mutex, MutexGuard};
use pointsman_domain::{Generation, GenerationId, GenerationStatus};

use crate::mailbox::{MailboxToken, Undelivered};

pub use memory_store::MemoryStore;
use queries::Ended;
use series::Series;

pub use queries::{CountShed, ReadEnded, ReadSeries, RestoreSeries};

/// Records of generations, running and ended. Sent by a worker's [`crate::event_batches::EventBatcher`].
/// No reply; a record whose id is known replaces the older one.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Records {
    records: Vec<Arc<Generation>>,
    /// Receives the records when no ledger handles them.
    undelivered: Undelivered,
    _waiting: MailboxToken,
}

impl Records {
    /// A batch that counts in the mailbox depth and goes to `undelivered` when its ledger is gone.
    pub fn new(records: Vec<Arc<Generation>>, waiting: MailboxToken, undelivered: &Undelivered) -> Records {
        Records { records, undelivered: undelivered.clone(), _waiting: waiting }
    }

    fn take(&mut self) -> Vec<Arc<Generation>> {
        std::mem::take(&mut self.records)
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        if !self.records.is_empty() {
            self.undelivered.put(std::mem::take(&mut self.records));
        }
    }
}

/// Asks for one record. Answers `None` for an unknown, evicted or expired one.
/// Flush the batches first ([`crate::event_batches::EventBatchers::flush`]) to see generations that just ended.
#[derive(Message)]
#[rtype(result = "Option<Arc<Generation>>")]
pub struct Lookup {
    /// Id of the generation.
    pub id: GenerationId,
    /// The moment that says what is too old, Unix milliseconds.
    pub now_ms: i64,
}

/// Asks for the number of records. Also the liveness check of the ledger.
#[derive(Message)]
#[rtype(result = "usize")]
pub struct CountRecords {
    /// The moment that says what is too old, Unix milliseconds.
    pub now_ms: i64,
}

/// Changes the bounds. Sent when a new configuration becomes active; no reply. Records over the bounds are evicted
/// with the next messages.
#[derive(Message)]
#[rtype(result = "()")]
pub struct SetBounds {
    /// Most records kept.
    pub capacity: usize,
    /// How long each record is kept at most.
    pub max_age: Duration,
}

/// Asks for the size of the ledger, in total and by owner.
#[derive(Message)]
#[rtype(result = "LedgerSize")]
pub struct ReadLedgerSize {
    /// The moment that says what is too old, Unix milliseconds.
    pub now_ms: i64,
}

/// Size and bounds of a ledger.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LedgerSize {
    /// Number of records.
    pub records: usize,
    /// Most records kept.
    pub capacity: usize,
    /// How long each record is kept at most.
    pub max_age: Duration,
    /// When the oldest generation was admitted, Unix milliseconds.
    pub oldest_ms: Option<i64>,
    /// When the newest generation was admitted, Unix milliseconds.
    pub newest_ms: Option<i64>,
    /// Number of records by owner, ordered by owner.
    pub by_owner: Vec<(u64, usize)>,
}

/// Deletes records of ended generations; running ones stay. Answers the number of deleted records. Takes a tenth of a
/// microsecond per record in the ledger.
#[derive(Message)]
#[rtype(result = "usize")]
pub struct DeleteRecords {
    /// Only generations admitted before this time, Unix milliseconds.
    pub before_ms: Option<i64>,
    /// Only generations of this owner.
    pub owner: Option<u64>,
}

/// Storage of generation records.
pub trait LedgerStore: Send + Unpin + 'static {
    /// Stores `record`, replacing an older one with the same id, of which it gives the status, and evicts records over the
    /// bounds.
    fn put(&mut self, record: Arc<Generation>) -> Option<GenerationStatus>;
    /// Evicts records over the bounds at the time `now_ms`, Unix milliseconds: a bounded number per call, the rest with
    /// the next calls.
    fn evict(&mut self, now_ms: i64);
    /// Size and bounds.
    fn size(&self) -> LedgerSize;
    /// Deletes every record for which `unwanted` is true. Returns their number.
    fn delete(&mut self, unwanted: &dyn Fn(&Generation) -> bool) -> usize;
    /// Changes the bounds.
    fn set_bounds(&mut self, capacity: usize, max_age: Duration);
    /// The record with this id, if it is stored and not expired at `now_ms`.
    fn get(&self, id: GenerationId, now_ms: i64) -> Option<Arc<Generation>>;
    /// Number of records.
    fn len(&self) -> usize;
    /// Whether there are no records.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Gets every record of an ended generation, once, before it is stored. Runs on the ledger's thread, so it must not wait.
pub trait RecordFollower: Send + Sync {
    /// A generation has ended.
    fn ended(&self, record: &Arc<Generation>);
}

/// State of a ledger. It outlives the actor: a restarted actor continues with it.
pub struct LedgerState<S> {
    held: Mutex<Held<S>>,
    undelivered: Undelivered,
    follower: Option<Arc<dyn RecordFollower>>,
}

/// What the lock protects.
struct Held<S> {
    store: S,
    series: Series,
    ended: Ended,
}

impl<S: LedgerStore> Held<S> {
    /// Stores a record, and counts it in the series when it has ended.
    fn put(&mut self, record: Arc<Generation>) {
        let before = self.store.put(Arc::clone(&record));
        if before.is_none_or(|before| before == GenerationStatus::Running) {
            self.series.count(&record);
            self.ended.put(&record);
        }
    }
}

impl<S: LedgerStore> LedgerState<S> {
    /// State that keeps its records in `store` and also enters `undelivered` records.
    pub fn new(store: S, undelivered: Undelivered) -> LedgerState<S> {
        let held = Held { store, series: Series::default(), ended: Ended::default() };
        LedgerState { held: Mutex::new(held), undelivered, follower: None }
    }

    /// The same, showing every record of an ended generation to `follower`, if there is one.
    #[must_use]
    pub fn followed_by(self, follower: Option<Arc<dyn RecordFollower>>) -> LedgerState<S> {
        LedgerState { follower, ..self }
    }

    /// Locks the state, after entering undelivered records. Only the actor locks it, so the lock is never contended.
    fn lock(&self) -> MutexGuard<'_, Held<S>> {
        let mut held = self.held.lock();
        self.put(&mut held, self.undelivered.take());
        held
    }

    fn put(&self, held: &mut Held<S>, records: Vec<Arc<Generation>>) {
        for record in records {
            if let Some(follower) = self.follower.as_ref().filter(|_| record.status != GenerationStatus::Running) {
                follower.ended(&record);
            }
            held.put(record);
        }
    }
}

/// The actor. Runs on the control arbiter.
pub struct Ledger<S> {
    state: Arc<LedgerState<S>>,
}

impl<S: LedgerStore> Ledger<S> {
    /// A new ledger that keeps its records in `store`.
    pub fn new(store: S) -> Ledger<S> {
        Ledger::of(Arc::new(LedgerState::new(store, Undelivered::default())))
    }

    /// A ledger that continues with the state of an earlier one.
    pub fn of(state: Arc<LedgerState<S>>) -> Ledger<S> {
        Ledger { state }
    }
}

impl<S: LedgerStore> Actor for Ledger<S> {
    type Context = Context<Self>;
}

impl<S: LedgerStore> Handler<Records> for Ledger<S> {
    type Result = ();

    fn handle(&mut self, mut records: Records, _: &mut Context<Self>) {
        let mut held = self.state.lock();
        self.state.put(&mut held, records.take());
    }
}

impl<S: LedgerStore> Handler<Lookup> for Ledger<S> {
    type Result = MessageResult<Lookup>;

    fn handle(&mut self, Lookup { id, now_ms }: Lookup, _: &mut Context<Self>) -> Self::Result {
        let store = &mut self.state.lock().store;
        store.evict(now_ms);
        MessageResult(store.get(id, now_ms))
    }
}

impl<S: LedgerStore> Handler<CountRecords> for Ledger<S> {
    type Result = usize;

    fn handle(&mut self, CountRecords { now_ms }: CountRecords, _: &mut Context<Self>) -> usize {
        let store = &mut self.state.lock().store;
        store.evict(now_ms);
        store.len()
    }
}

impl<S: LedgerStore> Handler<SetBounds> for Ledger<S> {
    type Result = ();

    fn handle(&mut self, SetBounds { capacity, max_age }: SetBounds, _: &mut Context<Self>) {
        self.state.lock().store.set_bounds(capacity, max_age);
    }
}

impl<S: LedgerStore> Handler<ReadLedgerSize> for Ledger<S> {
    type Result = MessageResult<ReadLedgerSize>;

    fn handle(&mut self, ReadLedgerSize { now_ms }: ReadLedgerSize, _: &mut Context<Self>) -> Self::Result {
        let store = &mut self.state.lock().store;
        store.evict(now_ms);
        MessageResult(store.size())
    }
}

impl<S: LedgerStore> Handler<DeleteRecords> for Ledger<S> {
    type Result = usize;

    fn handle(&mut self, DeleteRecords { before_ms, owner }: DeleteRecords, _: &mut Context<Self>) -> usize {
        self.state.lock().store.delete(&|record| {
            record.status != GenerationStatus::Running
                && before_ms.is_none_or(|before| record.created_ms < before)
                && owner.is_none_or(|owner| record.owner == owner)
        })
    }
}

#[cfg(test)]
mod tests {
    use actix::Addr;

    use super::*;
    use crate::mailbox::MailboxDepth;
    use pointsman_domain::{Decision, DecisionCode, Objective, RequestFacts, Source, Sourced, Tick, Weights};

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
            omitted: Vec::new(),
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
            quality: None,
            latency_margin: 1.0,
            request: RequestFacts::default(),
            gates: Vec::new(),
            algorithm: 1,
            exploration_share: 0.0,
            safe_set: Vec::new(),
            task_class: None,
            split: None,
        }
    }

    /// A generation admitted `hours` after the first.
    pub(super) fn admitted(hours: i64) -> Generation {
        let id = GenerationId::new(hours as u64 * 3600, [hours as u64; 3]);
        Generation {
            owner: 1,
            request_id: "req-1".into(),
            status: GenerationStatus::Completed,
            requested_model: "acme/small".into(),
            ..Generation::admitted(id, hours * HOUR_MS, Arc::new(decision()), Arc::default(), Arc::default())
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

    /// For each id, whether the ledger still returns its record at `now_ms`.
    async fn visible(ledger: &Addr<Ledger<MemoryStore>>, ids: &[GenerationId], now_ms: i64) -> Vec<bool> {
        let mut visible = Vec::new();
        for id in ids {
            visible.push(ledger.send(Lookup { id: *id, now_ms }).await.unwrap().is_some());
        }
        visible
    }

    #[actix::test]
    async fn a_wall_clock_set_back_by_an_hour_loses_no_record_and_keeps_none_for_ever() {
        // The second was admitted after the first, when the clock showed an hour less.
        let records = vec![admitted(5), admitted(4)];
        let ids: Vec<_> = records.iter().map(|record| record.id).collect();
        let ledger = holding(records).await;
        assert_eq!(visible(&ledger, &ids, 4 * HOUR_MS).await, [true, true]);
        assert_eq!(visible(&ledger, &ids, 5 * HOUR_MS).await, [true, true]);
        assert_eq!(
            visible(&ledger, &ids, 5 * HOUR_MS + 1).await,
            [true, false],
            "by its own hour, not by that of another"
        );
        assert_eq!(visible(&ledger, &ids, 6 * HOUR_MS + 1).await, [false, false]);
        assert_eq!(ledger.send(CountRecords { now_ms: 6 * HOUR_MS + 1 }).await.unwrap(), 0);
    }

    #[actix::test]
    async fn a_record_admitted_while_the_wall_clock_was_a_day_ahead_harms_no_other() {
        let records = vec![admitted(24), admitted(0)];
        let ids: Vec<_> = records.iter().map(|record| record.id).collect();
        let ledger = holding(records).await;
        assert_eq!(visible(&ledger, &ids, HOUR_MS).await, [true, true]);
        assert_eq!(visible(&ledger, &ids, HOUR_MS + 1).await, [true, false]);
    }

    #[actix::test]
    async fn a_question_forgets_a_bounded_number_of_records() {
        let night = memory_store::MAX_EVICTED_PER_CALL + 10;
        let same_time = |n| Generation { id: GenerationId::new(0, [n as u64; 3]), ..admitted(0) };
        let ledger = holding((0..night).map(same_time).collect()).await;
        let count = async || ledger.send(CountRecords { now_ms: 2 * HOUR_MS }).await.unwrap();
        assert_eq!([count().await, count().await], [10, 0]);
    }
}
