//! The activity as it is read: sums of this replica and of others, their names, and the rows of an answer.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use pointsman_base::clock;
use pointsman_domain::{Invalid, Usd};
use pointsman_ledger::{
    activity::{
        ActivityCounters, ActivityKey, Sums,
        grouping::{Dimension, Grouping},
        slot, slot_start,
    },
    fault::Fault,
    generations::{GenerationStore, owner_label},
};

use super::{
    names::KnownNames,
    query::{ActivityQuery, Asked, GroupBy, Labels},
};
use crate::{
    access::keys::Caller,
    api::generations::{
        generation_list::{Coverage, ledger, unreadable},
        ledger_query::Listed,
    },
    base::error::ApiError,
    state::{gateway::Worker, replicas::Replicas},
};

/// The activity that `caller` asks for, to be shown.
///
/// # Errors
/// 400 for a bad parameter, 404 without a durable ledger, 429 and 503 as analyses.
pub(crate) async fn read(
    worker: &Worker,
    caller: &Caller,
    listed: Listed<'_>,
    query: &str,
) -> Result<Activity, ApiError> {
    let query = ActivityQuery::parse(query, listed.owner(), Asked::Rows, clock::unix_millis())?;
    let read = |asked: &ActivityQuery, mut reading: Reading| {
        let now = reading.sums(&asked.grouping(asked.since_ms, &asked.by, &reading.only))?;
        // Rows of days and hours are not compared one by one: their totals are.
        let compared = if asked.by.length.is_some() { GroupBy::NOTHING } else { asked.by.clone() };
        let before = asked.before_ms.filter(|_| asked.is_grouped).map(|before_ms| {
            let grouping = asked.grouping(before_ms, &compared, &reading.only);
            reading.sums(&grouping)
        });
        let (before, coverage) = (before.transpose()?, reading.coverage);
        Ok((now, before, coverage, reading.names))
    };
    let (now, before, replicas, names) = read_sums(worker, caller, listed, &query, read).await?;
    Ok(Activity::new(query, now, before, replicas, names))
}

/// What `read` makes of the sums for a query.
///
/// # Errors
/// 400 for a filter that names nothing, 404 without a durable ledger, 429 and 503 as analyses.
pub(super) async fn read_sums<T: Send + 'static>(
    worker: &Worker,
    caller: &Caller,
    listed: Listed<'_>,
    query: &ActivityQuery,
    read: impl FnOnce(&ActivityQuery, Reading) -> Result<T, Fault> + Send + 'static,
) -> Result<T, ApiError> {
    let (sources, asked) = (Sources::of(worker, listed)?, query.clone());
    let read = move || match sources.begin(&asked)? {
        Ok(reading) => read(&asked, reading).map(Ok),
        Err(unknown) => Ok(Err(unknown)),
    };
    let read: Result<_, Fault> = worker.analyse(caller, read).await?;
    read.map_err(unreadable)?.map_err(ApiError::invalid)
}

/// What an answer is read from.
struct Sources {
    ledger: Arc<GenerationStore>,
    replicas: Option<Arc<Replicas>>,
    names: KnownNames,
    /// The account whose sums alone may be read.
    owner: Option<u64>,
}

impl Sources {
    fn of(worker: &Worker, listed: Listed<'_>) -> Result<Sources, ApiError> {
        let (ledger, replicas) = (ledger(worker)?, worker.shared.records.replicas.clone());
        Ok(Sources { ledger, replicas, names: KnownNames::of(worker, listed), owner: listed.owner() })
    }

    /// Finds what the filters of a query name. Blocks.
    fn begin(self, query: &ActivityQuery) -> Result<Result<Reading, Invalid>, Fault> {
        let Sources { ledger, replicas, names, owner } = self;
        let mut reading = Reading { ledger, replicas, names, only: Vec::new(), coverage: None };
        let own = owner.map(|owner| (Dimension::Account, vec![owner_label(owner).into()]));
        let slots = slot(query.before_ms.unwrap_or(query.since_ms))..=slot(query.until_ms - 1);
        let names = std::mem::take(&mut reading.names);
        let only = query.resolved(&names, |dimension| {
            // First of the slots in question, with those of other replicas; then of all that are kept.
            let only = own.clone().into_iter().collect();
            let asked = Grouping { slots: slots.clone(), by: vec![dimension], period: None, only };
            let mut sums = reading.sums(&asked)?;
            sums.append(&mut reading.ledger.entries().sums(&Grouping { slots: 0..=*slots.end(), ..asked })?);
            Ok::<_, Fault>(sums.into_keys().map(|(_, key)| key.get(dimension).to_owned()).collect())
        })?;
        reading.names = names;
        Ok(only.map(|only| Reading { only, ..reading }))
    }
}

/// An answer that is being read.
pub(super) struct Reading {
    pub(super) ledger: Arc<GenerationStore>,
    replicas: Option<Arc<Replicas>>,
    names: KnownNames,
    pub(super) only: Labels,
    pub(super) coverage: Option<Coverage>,
}

impl Reading {
    /// Sums of this replica and of those that share their sums with it. Blocks.
    pub(super) fn sums(&mut self, grouping: &Grouping) -> Result<Sums, Fault> {
        let replicas = self.replicas.as_ref();
        let foreign = replicas.map_or(Ok(None), |replicas| replicas.sums(grouping, &self.ledger));
        let (foreign, coverage) = Coverage::of(foreign);
        if self.coverage != Some(Coverage::Own) {
            self.coverage = coverage;
        }
        let mut sums = self.ledger.entries().sums(grouping)?;
        for (place, counters) in foreign.unwrap_or_default() {
            sums.entry(place).or_default().add(&counters);
        }
        Ok(sums)
    }
}

/// The activity of a time range.
pub(crate) struct Activity {
    pub(super) query: ActivityQuery,
    /// As they are shown: latest first, and of one time the dearest first if rows were asked for by `group_by`.
    pub(super) rows: Vec<Row>,
    pub(super) total: ActivityCounters,
    /// Of the period before.
    pub(super) before: Option<ActivityCounters>,
    pub(super) names: KnownNames,
    pub(super) replicas: Option<Coverage>,
}

/// What one row is about.
type Place = (i64, ActivityKey);

/// One row of the answer.
pub(super) struct Row {
    /// Beginning of the day or hour.
    pub(super) start_ms: i64,
    pub(super) key: ActivityKey,
    pub(super) counted: Counted,
    /// Cost in the period before; `None` where rows are not compared.
    pub(super) before: Option<Usd>,
}

/// What was counted, with what it has in common beside what it is told apart by.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) counters: ActivityCounters,
    pub(super) accounts: BTreeSet<String>,
    pub(super) teams: BTreeSet<String>,
}

impl Activity {
    fn new(
        query: ActivityQuery,
        now: Sums,
        before: Option<Sums>,
        replicas: Option<Coverage>,
        names: KnownNames,
    ) -> Activity {
        let add = |mut sum: ActivityCounters, counters: &ActivityCounters| {
            sum.add(counters);
            sum
        };
        let sum = |sums: &Sums| sums.values().fold(ActivityCounters::default(), add);
        let (total, before_total) = (sum(&now), before.as_ref().map(sum));
        let mut counted = query.counted(now);
        let mut compared: Option<BTreeMap<Place, Counted>> = None;
        if let Some(before) = before.filter(|_| query.by.length.is_none()) {
            let before = query.counted(before);
            // What cost something before and nothing now has a row too.
            for (place, was) in &before {
                let row = counted.entry((slot(query.since_ms), place.1.clone())).or_default();
                row.accounts.extend(was.accounts.iter().cloned());
                row.teams.extend(was.teams.iter().cloned());
            }
            compared = Some(before);
        }
        let cost_before = |key: &ActivityKey| {
            let compared = compared.as_ref()?;
            let of = compared.get(&(slot(query.before_ms?), key.clone()));
            Some(of.map_or(Usd::ZERO, |counted| counted.counters.cost))
        };
        let row = |((start, key), counted): (Place, Counted)| {
            let before = cost_before(&key);
            Row { start_ms: slot_start(start), key, counted, before }
        };
        let mut rows: Vec<Row> = counted.into_iter().map(row).collect();
        let is_grouped = query.is_grouped;
        rows.sort_by_cached_key(|row| {
            let cost = if is_grouped { row.counted.counters.cost } else { Usd::ZERO };
            let names = [Dimension::Model, Dimension::Provider, Dimension::Account, Dimension::Key];
            (Reverse(row.start_ms), Reverse(cost), names.map(|dimension| row.key.get(dimension).to_owned()))
        });
        Activity { query, rows, total, before: before_total, names, replicas }
    }
}

impl ActivityQuery {
    /// Sums as rows tell them apart.
    fn counted(&self, sums: Sums) -> BTreeMap<Place, Counted> {
        let mut rows: BTreeMap<Place, Counted> = BTreeMap::new();
        for ((start, key), counters) in sums {
            let label = |dimension| key.get(dimension).to_owned();
            let (account, team) = (label(Dimension::Account), label(Dimension::Team));
            let row = rows.entry((start, key.only(|dimension| self.by.has(dimension)))).or_default();
            row.counters.add(&counters);
            row.accounts.insert(account);
            row.teams.insert(team);
        }
        rows
    }
}
