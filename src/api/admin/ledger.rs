//! `/admin/ledger`: how many records are held, of whom, and deleting them.

use actix_web::{HttpResponse, web::Query};
use pointsman_actors::actors::ledger::{DeleteRecords, LedgerSize};
use serde::{Deserialize, Serialize};

use super::keys::{self, owner_id};
use crate::{
    api::{
        answer::{Data, uncached},
        auth::Administrator,
        readings::rfc_3339,
    },
    base::{clock, error::ApiError, events},
    state::{ask::ask, gateway::Worker},
};

/// Shows what is held.
///
/// # Errors
/// 503 when the ledger does not answer.
pub(crate) async fn show(_: Administrator, worker: Worker) -> Result<HttpResponse, ApiError> {
    let holdings = keys::holdings(&worker).await?;
    Ok(uncached(&Data { data: LedgerBody::new(&worker, &holdings) }))
}

/// Deletes records that have ended: older than a time, of a key, or both. What was spent stays counted.
///
/// # Errors
/// 400 when it is not said which, 404 for an unknown key, 503 when the ledger does not answer.
pub(crate) async fn delete(
    Administrator(caller): Administrator,
    worker: Worker,
    query: Result<Query<Which>, actix_web::Error>,
) -> Result<HttpResponse, ApiError> {
    let shape = "Say which records: 'older_than_secs' (0 for all), 'key' (a key's name) or 'owner' (as the ledger page shows it).";
    let Query(which) = query.map_err(|_| ApiError::bad_query("older_than_secs", shape))?;
    let owner = match (&which.key, &which.owner) {
        (Some(name), None) => Some(keys::find(&worker, name)?.owner),
        (None, Some(id)) => Some(u64::from_str_radix(id, 16).map_err(|_| ApiError::bad_query("owner", shape))?),
        (None, None) if which.older_than_secs.is_some() => None,
        _ => return Err(ApiError::bad_query("older_than_secs", shape)),
    };
    let now_ms = clock::unix_millis();
    let before = |secs: u32| now_ms.saturating_sub(i64::from(secs).saturating_mul(1000)).saturating_add(1);
    let question = DeleteRecords { before_ms: which.older_than_secs.map(before), owner };
    worker.shared.event_batchers.flush();
    let deleted = ask(&worker.shared.control.ledger(), question).await?;
    events::Administered { by: &caller.key.name, what: "deletes records:", whom: Some(&deleted.to_string()) }.emit();
    Ok(uncached(&DeletedBody { deleted }))
}

/// Which records.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    older_than_secs: Option<u32>,
    key: Option<String>,
    owner: Option<String>,
}

#[derive(Serialize)]
struct DeletedBody {
    deleted: usize,
}

#[derive(Serialize)]
struct LedgerBody<'a> {
    records: usize,
    capacity: usize,
    max_age_secs: u64,
    oldest_at: Option<String>,
    newest_at: Option<String>,
    by_key: Vec<OwnerBody<'a>>,
}

#[derive(Serialize)]
struct OwnerBody<'a> {
    /// `null` for a key that has left the configuration.
    key: Option<&'a str>,
    owner: String,
    records: usize,
}

impl<'a> LedgerBody<'a> {
    fn new(worker: &'a Worker, holdings: &LedgerSize) -> LedgerBody<'a> {
        let owner = |&(owner, records): &(u64, usize)| OwnerBody {
            key: worker.setup.keys.callers().find(|caller| caller.owner == owner).map(|caller| &*caller.key.name),
            owner: owner_id(owner),
            records,
        };
        LedgerBody {
            records: holdings.records,
            capacity: holdings.capacity,
            max_age_secs: holdings.max_age.as_secs(),
            oldest_at: holdings.oldest_ms.map(rfc_3339),
            newest_at: holdings.newest_ms.map(rfc_3339),
            by_key: holdings.by_owner.iter().map(owner).collect(),
        }
    }
}
