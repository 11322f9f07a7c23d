//! `/admin/audit`: who did what, when and from where; and the helpers with which other pages write it.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, web};
use serde::Serialize;

use crate::{
    access::{
        issued::{Actor, Change},
        keys::Caller,
        registry::{AuditLine, ChangeFault, ChangedMember, Registry},
    },
    api::{
        answer::{Data, uncached},
        auth::Administrator,
        models::measurements::rfc_3339,
        query_parameters,
    },
    base::{error::ApiError, request_id::RequestId},
    state::gateway::Worker,
};

const DEFAULT_LINES: i64 = 100;
const MAX_LINES: i64 = 1_000;

/// The last actions of administrators, newest first.
///
/// # Errors
/// 400 for a bad parameter.
pub(crate) async fn show(_: Administrator, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let mut limit = DEFAULT_LINES;
    for (_, value) in query_parameters::pairs(request.query_string(), &["limit"])? {
        limit = query_parameters::integer("limit", &value, 1..=MAX_LINES)?;
    }
    let entries = worker.shared.registry.audit(usize::try_from(limit).unwrap_or_default());
    Ok(uncached(&Data { data: entries.iter().map(EntryBody::new).collect::<Vec<_>>() }))
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct EntryBody<'a> {
    /// When. RFC 3339, UTC, with milliseconds.
    at: String,
    /// Name of the administrator's key, `command line`, or `gateway` for alerts.
    by: &'a str,
    /// Address of the client, or the name of the machine's user; empty for the gateway itself.
    from: &'a str,
    /// Id of the request; `null` for the command line and the gateway.
    request_id: Option<&'a str>,
    /// What was done.
    #[cfg_attr(test, schemars(with = "crate::base::words::AuditAction"))]
    action: &'static str,
    /// Name of the key, account or team, or of the receiver of an alert; of `delete_records` the `owner`, and `null` for all. `null` for what concerns
    /// none.
    object: Option<&'a str>,
    /// The members that changed, by name.
    changes: &'a [ChangedMember],
}

impl<'a> EntryBody<'a> {
    fn new(AuditLine { entry, changes }: &'a AuditLine) -> EntryBody<'a> {
        let (action, object) = entry.change.names();
        let Actor { by, from, request_id } = &entry.actor;
        EntryBody { at: rfc_3339(entry.at_ms), by, from, request_id: request_id.as_deref(), action, object, changes }
    }
}

/// The administrator of a request.
pub(crate) fn actor(request: &HttpRequest, caller: &Caller) -> Actor {
    let from = request.peer_addr().map(|address| address.ip().to_string()).unwrap_or_default();
    let request_id = RequestId::of(request).as_str().to_owned();
    Actor { by: caller.key.name.as_ref().to_owned(), from, request_id: Some(request_id) }
}

/// Makes a change that is not one of a key. Runs on a blocking thread.
///
/// # Errors
/// 503 when it cannot be stored.
pub(crate) async fn record(worker: &Worker, actor: Actor, change: Change) -> Result<(), ApiError> {
    store(Arc::clone(&worker.shared.registry), actor, change).await
}

/// As [`record`], where there is no worker.
///
/// # Errors
/// 503 when it cannot be stored.
pub(crate) async fn store(registry: Arc<Registry>, actor: Actor, change: Change) -> Result<(), ApiError> {
    let stored = web::block(move || registry.record(actor, change)).await.map_err(|_| ApiError::internal())?;
    stored.map_err(|fault| refusal(&fault))
}

/// The error answer for a change that was not made.
pub(crate) fn refusal(fault: &ChangeFault) -> ApiError {
    match fault {
        ChangeFault::NotDurable => ApiError::no_durable_keys(),
        ChangeFault::Unknown => ApiError::no_such("key"),
        ChangeFault::NameTaken => ApiError::bad_query("name", "Another key has this name. Names of keys are unique."),
        ChangeFault::TooMany => ApiError::bad_query("name", format!("The key is not issued: {fault}.")),
        ChangeFault::Disk(_) => {
            log::error!("a change of keys or accounts is not stored: {fault}");
            ApiError::unstored_change(false)
        }
        ChangeFault::DisabledUntilRestart(_) => {
            log::error!("a key is refused from now on, but that is not stored: {fault}");
            ApiError::unstored_change(true)
        }
    }
}
