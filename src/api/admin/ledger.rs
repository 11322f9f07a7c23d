//! `/admin/ledger`: size of the ledger per key, and deletion of records.

use std::sync::Arc;

use actix_web::{HttpResponse, web};
use pointsman_actors::ledger::{DeleteRecords, LedgerSize};
use pointsman_base::clock;
use pointsman_ledger::generations::GenerationStore;
use serde::Serialize;

use super::{
    audit,
    keys::{self, owner_id},
};
use crate::{
    access::issued::Change,
    api::{
        answer::{Data, uncached},
        auth::Administrator,
        generations::generation_list,
        health::ledger_verification::VerificationBody,
        models::measurements::rfc_3339,
        query_parameters::{self, QueryParameters},
    },
    base::{background, error::ApiError, events},
    state::{ask::ask, gateway::Worker, spending_check},
};

/// Shows the size of the ledger.
///
/// # Errors
/// 503 when the ledger does not answer.
pub(crate) async fn show(_: Administrator, worker: Worker) -> Result<HttpResponse, ApiError> {
    let size = keys::ledger_size(&worker).await?;
    Ok(uncached(&Data { data: LedgerBody::new(&worker, &size) }))
}

/// Reads every stored record, compares the sums with them, and what spending limits count with the sums. Takes about a minute per
/// GB, longer beside many calls, which go before it.
///
/// # Errors
/// 404 without a durable ledger, 500 when the disk fails.
pub(crate) async fn verify(_: Administrator, worker: Worker) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&Data { data: verification(&worker).await? }))
}

/// What a verification finds.
///
/// # Errors
/// As [`verify`].
pub(crate) async fn verification(worker: &Worker) -> Result<VerificationBody, ApiError> {
    let ledger = generation_list::ledger(worker)?;
    let read = Arc::clone(&ledger);
    let found = background::run("verification", move || read.verify(|_| ())).await.ok_or_else(ApiError::internal)?;
    let found = found.map_err(generation_list::unreadable)?;
    // Short, and looks at counters that calls wait for.
    let shared = Arc::clone(&worker.shared);
    let spending = web::block(move || spending_check::check(&shared.access.registry, &ledger)).await;
    let spending = spending.map_err(|_| ApiError::internal())?.map_err(generation_list::unreadable)?;
    Ok(VerificationBody::with_spending(&found, spending))
}

/// Deletes records of ended generations: older than an age, of one key, or both. Spending stays counted.
///
/// # Errors
/// 400 without a selection, 404 for an unknown key, 503 when the ledger does not answer.
pub(crate) async fn delete(by: Administrator) -> Result<HttpResponse, ApiError> {
    let usage =
        "Select records by 'older_than_secs' (0 for all), 'key' (a key's name) or 'owner' (as in GET /admin/ledger).";
    let misused = |parameter: &str| ApiError::bad_query(parameter, usage);
    query_parameters::refuse_empty(by.query())?;
    let query = QueryParameters::read(by.query(), &["older_than_secs", "key", "owner"])?;
    let older_than_secs = query.get("older_than_secs").map(|secs| secs.parse().map_err(|_| misused("older_than_secs")));
    let older_than_secs: Option<u32> = older_than_secs.transpose()?;
    let owner: Option<u64> = match (query.get("key"), query.get("owner")) {
        (Some(name), None) => Some(keys::find(&by.worker, name)?.owner),
        (None, Some(id)) => Some(u64::from_str_radix(id, 16).map_err(|_| misused("owner"))?),
        (None, None) if older_than_secs.is_some() => None,
        _ => return Err(misused("older_than_secs")),
    };
    let now_ms = clock::unix_millis();
    let before = |secs: u32| now_ms.saturating_sub(i64::from(secs).saturating_mul(1000)).saturating_add(1);
    let before_ms = older_than_secs.map(before);
    by.worker.shared.actors.event_batchers.flush();
    let change = Change::DeleteRecords { before_ms, owner: owner.map(owner_id) };
    audit::record(&by, change).await?;
    let recent = ask(&by.worker.shared.actors.control.ledger(), DeleteRecords { before_ms, owner }).await?;
    let deleted = match by.worker.shared.records.ledger.clone() {
        Some(ledger) => {
            let deleted = delete_stored(ledger, before_ms, owner).await?;
            by.worker.shared.records.feedback.forget();
            deleted
        }
        None => recent,
    };
    events::administered(&by.caller.key.name, "deletes records:", Some(&deleted.to_string()));
    Ok(uncached(&DeletedBody { deleted }))
}

/// Deletes records on disk, where all but the running ones are.
async fn delete_stored(
    ledger: Arc<GenerationStore>,
    before_ms: Option<i64>,
    owner: Option<u64>,
) -> Result<usize, ApiError> {
    let deleted = web::block(move || ledger.delete(before_ms, owner)).await.map_err(|_| ApiError::internal())?;
    let deleted = deleted.map_err(generation_list::unreadable)?;
    Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct DeletedBody {
    /// Records that were deleted.
    deleted: usize,
}

view! {
    pub(crate) struct LedgerBody {
        pub(crate) fn new(worker: &Worker, size: &LedgerSize) {
            let on_disk = worker.shared.records.ledger.as_ref();
            let owner_body = |&(owner, records): &(u64, usize)| OwnerBody {
                key: worker.setup.keys.name_of(owner, 0).map(|name| name.as_ref().to_owned()),
                owner: owner_id(owner),
                records,
            };
        }

        /// Stored records; with a durable ledger those on disk.
        pub(crate) records: usize = size.records,
        /// Most records that are kept in memory; absent with a durable ledger.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) capacity: Option<usize> = on_disk.is_none().then_some(size.capacity),
        /// Bytes of the records on disk; absent if records are kept in memory only.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) bytes: Option<u64> = on_disk.and_then(|ledger| Some(ledger.entries().size().ok()?.bytes)),
        /// Bytes from which on the oldest records are dropped (`ledger.max_bytes`); absent if records are kept in memory only.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) max_bytes: Option<u64> = on_disk.map(|_| worker.setup.config.ledger.max_bytes),
        /// Age in seconds from which on records are dropped (`ledger.max_age`).
        pub(crate) max_age_secs: u64 = size.max_age.as_secs(),
        /// When the oldest generation was admitted; `null` without records. RFC 3339, UTC, with milliseconds.
        pub(crate) oldest_at: Option<String> = size.oldest_ms.map(rfc_3339),
        /// When the newest one was admitted; `null` without records. RFC 3339, UTC, with milliseconds.
        pub(crate) newest_at: Option<String> = size.newest_ms.map(rfc_3339),
        /// Records by account; a key without an account of that name has one of its own.
        pub(crate) by_key: Vec<OwnerBody> = size.by_owner.iter().map(owner_body).collect(),
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct OwnerBody {
    /// Name of a key of the account; `null` if it has none any more.
    pub(crate) key: Option<String>,
    /// Number of the account, as 16 hexadecimal digits. It identifies the records of the account, also after its keys
    /// were removed.
    pub(crate) owner: String,
    /// Stored records of the account.
    pub(crate) records: usize,
}
