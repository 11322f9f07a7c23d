//! `/admin/keys`: lists keys with their usage, and disables and enables them until the process ends. Keys are added and
//! removed in the configuration. No answer contains a key or a digest.

use actix_web::{HttpResponse, web};
use pointsman_actors::actors::ledger::{LedgerSize, ReadLedgerSize, ReadSpending, Spent};
use serde::Serialize;

use crate::{
    access::keys::Caller,
    api::{
        answer::{Data, uncached},
        auth::Administrator,
        number::Dollars,
        path_name::PathName,
        readings::rfc_3339,
    },
    base::{clock, error::ApiError, events},
    config::AuthMode,
    state::{ask::ask, gateway::Worker},
};

/// Lists all keys.
///
/// # Errors
/// 503 when the ledger does not answer.
pub(crate) async fn list(_: Administrator, worker: Worker) -> Result<HttpResponse, ApiError> {
    let ledger_size = ledger_size(&worker).await?;
    let mut data = Vec::new();
    for caller in callers(&worker) {
        data.push(KeyBody::read(&worker, caller, &ledger_size).await?);
    }
    Ok(uncached(&Data { data }))
}

/// Shows one key by name.
///
/// # Errors
/// 404 for an unknown name, 503 when the ledger does not answer.
pub(crate) async fn show(_: Administrator, worker: Worker, name: PathName) -> Result<HttpResponse, ApiError> {
    respond(&worker, find(&worker, &name)?).await
}

/// Disables a key. Running calls continue.
///
/// # Errors
/// 404 for an unknown name, 400 for the key of the call itself.
pub(crate) async fn disable(
    Administrator(caller): Administrator,
    worker: Worker,
    name: PathName,
) -> Result<HttpResponse, ApiError> {
    let key = find(&worker, &name)?;
    if key.position == caller.position {
        return Err(ApiError::bad_query("name", "A key cannot disable itself: use another key with the scope admin."));
    }
    events::Administered { by: &caller.key.name, what: "disables the key", whom: Some(&key.key.name) }.emit();
    key.life.switch(false);
    respond(&worker, key).await
}

/// Enables a key, also one that the configuration disables.
///
/// # Errors
/// 404 for an unknown name.
pub(crate) async fn enable(
    Administrator(caller): Administrator,
    worker: Worker,
    name: PathName,
) -> Result<HttpResponse, ApiError> {
    let key = find(&worker, &name)?;
    events::Administered { by: &caller.key.name, what: "enables the key", whom: Some(&key.key.name) }.emit();
    key.life.switch(true);
    respond(&worker, key).await
}

/// The configured keys; with `auth.mode = "none"` the anonymous caller too.
fn callers(worker: &Worker) -> impl Iterator<Item = &Caller> {
    let keys = &worker.setup.keys;
    let without_keys = worker.setup.config.auth.mode == AuthMode::None;
    keys.callers().filter(move |caller| without_keys || !keys.is_anonymous(caller))
}

pub(super) fn find<'w>(worker: &'w Worker, name: &str) -> Result<&'w Caller, ApiError> {
    callers(worker).find(|caller| *caller.key.name == *name).ok_or_else(|| ApiError::no_such("key"))
}

async fn respond(worker: &Worker, caller: &Caller) -> Result<HttpResponse, ApiError> {
    let ledger_size = ledger_size(worker).await?;
    Ok(uncached(&Data { data: KeyBody::read(worker, caller, &ledger_size).await? }))
}

/// Size of the ledger, including records that have just ended.
pub(super) async fn ledger_size(worker: &Worker) -> Result<LedgerSize, ApiError> {
    worker.shared.event_batchers.flush();
    let recent = ask(&worker.shared.control.ledger(), ReadLedgerSize { now_ms: clock::unix_millis() }).await?;
    let Some(ledger) = worker.shared.ledger.clone() else { return Ok(recent) };
    let summary = web::block(move || ledger.summary()).await.map_err(|_| ApiError::internal())?;
    let summary = summary.map_err(|fault| {
        log::error!("the ledger cannot be read: {fault}");
        ApiError::internal()
    })?;
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let owners = summary.by_label.iter();
    let by_owner = owners.filter_map(|(label, n)| Some((u64::from_str_radix(label, 16).ok()?, count(*n)))).collect();
    Ok(LedgerSize {
        records: count(summary.entries),
        oldest_ms: summary.range_ms.map(|(oldest, _)| oldest),
        newest_ms: summary.range_ms.map(|(_, newest)| newest),
        by_owner,
        capacity: 0,
        max_age: worker.setup.config.ledger.max_age,
    })
}

/// One key.
#[derive(Serialize)]
struct KeyBody<'a> {
    name: &'a str,
    /// Identifies the key's records in the ledger, also after the key was removed from the configuration.
    owner: String,
    state: &'static str,
    disabled: bool,
    /// Whether an administrator set `disabled`, rather than the configuration.
    switched: bool,
    scopes: Vec<&'static str>,
    expires_at: Option<String>,
    allowed_models: Vec<String>,
    blocked_models: Vec<String>,
    requests_per_minute: Option<u32>,
    concurrency: Option<u32>,
    in_flight: u32,
    calls: u64,
    last_call_at: Option<String>,
    records: usize,
    usage: UsageBody,
}

/// Spending since the process started, in dollars.
#[derive(Serialize)]
struct UsageBody {
    total: Dollars,
    daily: Dollars,
    weekly: Dollars,
    monthly: Dollars,
}

impl<'a> KeyBody<'a> {
    async fn read(worker: &Worker, caller: &'a Caller, ledger_size: &LedgerSize) -> Result<KeyBody<'a>, ApiError> {
        let question = ReadSpending { owner: Some(caller.owner), now_ms: clock::unix_millis() };
        let spent = ask(&worker.shared.control.ledger(), question).await?;
        let records =
            ledger_size.by_owner.iter().find(|(owner, _)| *owner == caller.owner).map_or(0, |(_, count)| *count);
        Ok(KeyBody::new(caller, spent, records, worker.setup.admission.in_flight_of(caller)))
    }

    fn new(caller: &'a Caller, spent: Spent, records: usize, in_flight: u32) -> KeyBody<'a> {
        let Caller { key, life, .. } = caller;
        let state = match (caller.is_disabled(), caller.is_expired()) {
            (true, _) => "disabled",
            (false, true) => "expired",
            (false, false) => "active",
        };
        KeyBody {
            name: &key.name,
            owner: owner_id(caller.owner),
            state,
            disabled: caller.is_disabled(),
            switched: life.switched().is_some(),
            scopes: key.scopes.iter().map(|scope| scope.as_str()).collect(),
            expires_at: key.expires_at.map(|end| rfc_3339(end.timestamp_millis())),
            allowed_models: key.allowed_models.iter().map(ToString::to_string).collect(),
            blocked_models: key.blocked_models.iter().map(ToString::to_string).collect(),
            requests_per_minute: key.requests_per_minute,
            concurrency: key.concurrency,
            in_flight,
            calls: life.calls(),
            last_call_at: life.last_call_ms().map(rfc_3339),
            records,
            usage: UsageBody {
                total: Dollars(spent.total),
                daily: Dollars(spent.day),
                weekly: Dollars(spent.week),
                monthly: Dollars(spent.month),
            },
        }
    }
}

/// An owner's number as hexadecimal text.
pub(super) fn owner_id(owner: u64) -> String {
    format!("{owner:016x}")
}
