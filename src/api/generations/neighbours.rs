//! The generations next to one in the order of the ledger.

use pointsman_domain::{Generation, GenerationId};
use pointsman_ledger::{
    entry::{Filter, Key},
    fault::Fault,
    generations::{GenerationStore, entry_id},
    page::Query,
};

use crate::{access::keys::Caller, state::gateway::Worker};

/// Blocks that one reading looks into.
const BLOCKS: usize = 8;
/// Records of one reading when the next later one is looked for: pages go backwards in time.
const PAGE: usize = 64;
/// Readings in the span of time that holds the next later one.
const PAGES: usize = 8;
/// The longest span of time after a generation in which a later one is looked for, as a power of two of milliseconds:
/// 49 days.
const LONGEST: u32 = 32;

/// The generations of all keys that began just before and just after one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Neighbours {
    pub(crate) earlier: Option<GenerationId>,
    pub(crate) later: Option<GenerationId>,
}

impl Neighbours {
    /// The neighbours of a generation in the durable ledger. None without a ledger, and when it cannot be read now: they
    /// are a convenience.
    pub(crate) async fn of(worker: &Worker, caller: &Caller, generation: &Generation) -> Neighbours {
        let Some(ledger) = worker.shared.records.ledger.clone() else { return Neighbours::default() };
        let key = key_of(generation);
        let read = move || find(&ledger, key);
        let found = worker.analyse(caller, read).await;
        found.ok().and_then(Result::ok).unwrap_or_default()
    }
}

fn find(ledger: &GenerationStore, key: Key) -> Result<Neighbours, Fault> {
    let earlier = ledger.page(&Query { after: Some(key), limit: 1, blocks: BLOCKS, ..Query::default() })?;
    let newest = ledger.page(&Query { limit: 1, blocks: BLOCKS, ..Query::default() })?;
    let mut neighbours = Neighbours { earlier: earlier.generations.first().map(|it| it.id), later: None };
    let is_last = newest.generations.first().is_none_or(|newest| key_of(newest) <= key);
    // Each span is twice as long as the one before, so the one that holds a record holds few.
    let mut spans = (0..LONGEST).map(|power| 1_i64 << power).take_while(|_| !is_last);
    while let Some(span) = spans.next().filter(|_| neighbours.later.is_none()) {
        neighbours.later = first_after(ledger, key, key.created_ms.saturating_add(span))?;
    }
    Ok(neighbours)
}

/// The first record after `key` that began before `until_ms` or at it.
fn first_after(ledger: &GenerationStore, key: Key, until_ms: i64) -> Result<Option<GenerationId>, Fault> {
    let filter = Filter { since_ms: Some(key.created_ms), until_ms: Some(until_ms), ..Filter::default() };
    let mut query = Query { filter, after: None, limit: PAGE, blocks: BLOCKS };
    let mut found = None;
    for _ in 0..PAGES {
        let page = ledger.page(&query)?;
        found = page.generations.iter().rfind(|it| key_of(it) > key).map(|it| it.id).or(found);
        query.after = page.next.filter(|next| *next > key);
        if query.after.is_none() {
            break;
        }
    }
    Ok(found)
}

fn key_of(generation: &Generation) -> Key {
    Key { created_ms: generation.created_ms, id: entry_id(generation.id) }
}
