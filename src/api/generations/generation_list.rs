//! `GET /generations`: the caller's own generations, newest first, from the durable ledger and, where replicas share their
//! records, from PostgreSQL. The list of all keys is in [`crate::api::admin::generations`].

use std::sync::Arc;

use actix_web::HttpResponse;
use pointsman_domain::Generation;
use pointsman_ledger::{entry::Key, fault::Fault, generations::GenerationStore, page::Query};
use serde::Serialize;

use super::{
    generation_row::GenerationRow,
    ledger_query::{Listed, Selection},
};
use crate::{
    access::keys::Caller,
    api::{answer::uncached, auth::Reader, cursor, models::measurements::rfc_3339},
    base::error::ApiError,
    state::{gateway::Worker, replicas::LookupFault},
};

/// Default number of generations on a page.
const DEFAULT_PAGE: usize = 50;
/// Most generations on a page.
pub(crate) const MAX_PAGE: usize = 200;
/// Blocks that one page may look into. A page of a rare filter may have few rows and a `next`.
const BLOCKS: usize = 64;

/// Lists the caller's generations.
///
/// # Errors
/// 400 for a bad filter or cursor, 404 without a durable ledger.
pub(crate) async fn list(by: Reader) -> Result<HttpResponse, ApiError> {
    let listed = Listed::Own(&by.caller);
    Ok(uncached(&select(&by.worker, &by.caller, listed, by.query()).await?.body(&by.worker, listed)))
}

/// The generations of a page of the list for `caller`.
///
/// # Errors
/// As [`list`].
pub(crate) async fn select(
    worker: &Worker,
    caller: &Caller,
    listed: Listed<'_>,
    query: &str,
) -> Result<SelectedPage, ApiError> {
    let ledger = ledger(worker)?;
    let selection = Selection::parse(query, listed, (DEFAULT_PAGE, MAX_PAGE))?;
    read(worker, caller, &ledger, selection).await
}

/// Generations that a selection shows.
pub(crate) struct SelectedPage {
    pub(crate) generations: Vec<Arc<Generation>>,
    pub(crate) next: Option<Key>,
    aged_out_ms: Option<i64>,
    pub(crate) unreadable: usize,
    pub(crate) damaged_blocks: usize,
    replicas: Option<Coverage>,
}

/// Which replicas' records an answer covers, where replicas share them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Coverage {
    /// The records of all replicas.
    All,
    /// The records of this replica alone, because PostgreSQL is away.
    Own,
}

impl Coverage {
    /// Splits what PostgreSQL answered from whether it did; without PostgreSQL there is neither.
    pub(crate) fn of<T>(answer: Result<Option<T>, LookupFault>) -> (Option<T>, Option<Coverage>) {
        match answer {
            Ok(None) => (None, None),
            Ok(some) => (some, Some(Coverage::All)),
            Err(_) => (None, Some(Coverage::Own)),
        }
    }
}

impl SelectedPage {
    /// The page as it is shown.
    pub(crate) fn body(&self, worker: &Worker, listed: Listed<'_>) -> PageBody<'_> {
        let row =
            |generation| GenerationRow::new(generation, &worker.setup.keys.names_of(generation.owner, generation.key));
        PageBody {
            data: self.generations.iter().map(|generation| row(generation)).collect(),
            next: self.next.map(|key| cursor::write(&key, listed.owner())),
            aged_out_before: self.aged_out_ms.map(|at| rfc_3339(at.saturating_add(1))),
            unreadable_records: self.unreadable,
            damaged_blocks: self.damaged_blocks,
            replicas: self.replicas,
        }
    }
}

/// Reads a page on another thread. Counts as an analysis of the caller, so that lists cannot take the disk from others.
///
/// # Errors
/// 429 and 503 as analyses, 500 when the disk fails.
pub(crate) async fn read(
    worker: &Worker,
    caller: &Caller,
    ledger: &Arc<GenerationStore>,
    selection: Selection,
) -> Result<SelectedPage, ApiError> {
    let (ledger, replicas) = (Arc::clone(ledger), worker.shared.records.replicas.clone());
    let read = move || {
        let Selection { filter, after, limit, .. } = selection.clone();
        let query = Query { filter, after, limit, blocks: BLOCKS };
        let foreign = replicas.map_or(Ok(None), |replicas| replicas.page(&query, &ledger));
        let (foreign, coverage) = Coverage::of(foreign);
        let mut page = ledger.page_with(&query, foreign.unwrap_or_default())?;
        page.generations.retain(|generation| selection.admits(generation));
        Ok(SelectedPage {
            generations: page.generations,
            next: page.next,
            aged_out_ms: page.aged_out_ms,
            unreadable: page.unreadable,
            damaged_blocks: page.damaged_blocks,
            replicas: coverage,
        })
    };
    worker.analyse(caller, read).await?.map_err(unreadable)
}

/// The durable ledger.
///
/// # Errors
/// 404 without one.
pub(crate) fn ledger(worker: &Worker) -> Result<Arc<GenerationStore>, ApiError> {
    worker.shared.records.ledger.clone().ok_or_else(ApiError::no_durable_ledger)
}

/// Says why the ledger cannot be read: to the client if that passes, else to the log.
pub(crate) fn unreadable(fault: Fault) -> ApiError {
    if matches!(fault, Fault::Unavailable) {
        return ApiError::ledger_closed();
    }
    log::error!("the ledger cannot be read: {fault}");
    ApiError::internal()
}

/// The name of the key with these records; `None` if neither it nor another key of its account exists any more.
pub(crate) fn key_name(worker: &Worker, owner: u64, key: u64) -> Option<String> {
    worker.setup.keys.name_of(owner, key).map(|name| name.as_ref().to_owned())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// One page of the list.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(crate) struct PageBody<'a> {
    /// Newest first.
    pub(crate) data: Vec<GenerationRow<'a>>,
    /// `after` of the next page; `null` at the end. A page may be short, even empty, and have a next one.
    pub(crate) next: Option<String>,
    /// Records of calls before this time may have been deleted, because they were too old or too many; `null` if none
    /// has been. RFC 3339, UTC, with milliseconds.
    pub(crate) aged_out_before: Option<String>,
    /// Records of the page that cannot be read and are left out; absent without any.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) unreadable_records: usize,
    /// Damaged groups of up to 32 records each, some of which the page leaves out; absent without any.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) damaged_blocks: usize,
    /// Whose records these are, where replicas share them: those of all, or, while PostgreSQL is away, those of this
    /// replica alone. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<Coverage>,
}
