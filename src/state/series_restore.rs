//! Fills the series of the last hour and day from the stored records of earlier processes, so that charts do not begin
//! empty with every start. Newest first, on a blocking thread, and at most `MOST_RECORDS`.
//!
//! Not with replicas: the ledger then holds the calls of all of them, and the series only count this one's.

use std::sync::{Arc, Weak};

use actix::{Addr, Arbiter};
use actix_web::web;
use pointsman_actors::ledger::{Ledger, MemoryStore, RestoreSeries};
use pointsman_base::clock;
use pointsman_ledger::{entry::Filter, generations::GenerationStore, page::Query};

/// How far the longest series reach back.
const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Most records that are read, so that a start on a large ledger keeps no thread busy for long.
const MOST_RECORDS: usize = 20_000;
/// Records of one page: so many are in memory at once.
const PAGE: usize = 50;
/// Blocks that one page may look into.
const BLOCKS: usize = 64;

/// Begins to read, page after page. Ends by itself, and when the ledger is closed.
pub fn start(store: &Arc<GenerationStore>, ledger: Arc<Addr<Ledger<MemoryStore>>>, arbiter: &Arbiter) {
    arbiter.spawn(restore(Arc::downgrade(store), ledger, clock::unix_millis()));
}

async fn restore(store: Weak<GenerationStore>, ledger: Arc<Addr<Ledger<MemoryStore>>>, started_ms: i64) {
    // Only what was admitted before this process: what it admits itself is counted when it ends.
    let filter = Filter { since_ms: Some(started_ms - DAY_MS), until_ms: Some(started_ms - 1), ..Filter::default() };
    let (mut after, mut restored) = (None, 0);
    while restored < MOST_RECORDS {
        let query = Query { filter: filter.clone(), after, limit: PAGE, blocks: BLOCKS };
        // Held for one page only, so that closing the ledger waits for no more.
        let Some(held) = store.upgrade() else { return };
        let Ok(page) = web::block(move || held.page(&query)).await else { return };
        let Ok(page) = page.inspect_err(|fault| log::warn!("charts begin empty: {fault}")) else { return };
        restored += page.generations.len();
        // Waits until the page is counted: otherwise all of them would be in memory at once.
        if ledger.send(RestoreSeries { generations: page.generations, now_ms: started_ms }).await.is_err() {
            return;
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    log::debug!("{restored} earlier records are in the series");
}
