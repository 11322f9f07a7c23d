//! `/admin/audit`: who did what, when and from where; and the helpers with which other pages write it.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, web};
use pointsman_dialect::shown;
use pointsman_domain::Invalid;
use serde::Serialize;

use crate::{
    access::{
        issued::{Actor, AuditEntry, Change},
        registry::{AuditLine, ChangeFault, ChangedMember, Registry},
    },
    api::{
        answer::uncached,
        auth::{Administrator, Authorized},
        generations::ledger_query,
        models::measurements::rfc_3339,
        query_parameters,
    },
    base::{error::ApiError, events, request_id::RequestId},
    state::gateway::Worker,
};

const DEFAULT_LINES: i64 = 100;
const MAX_LINES: i64 = 1_000;

/// The last actions of administrators, newest first.
///
/// # Errors
/// 400 for a bad parameter.
pub(crate) async fn show(_: Administrator, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let (lines, total) = AuditQuery::parse(request.query_string(), DEFAULT_LINES)?.read(&worker.shared.access.registry);
    Ok(uncached(&PageBody { data: lines.iter().map(EntryBody::new).collect(), total }))
}

/// Which lines of the audit log are shown.
#[derive(Debug, Default)]
pub(crate) struct AuditQuery {
    by: Option<String>,
    action: Option<String>,
    object: Option<String>,
    since_ms: Option<i64>,
    until_ms: Option<i64>,
    pub(crate) offset: usize,
    pub(crate) limit: usize,
}

impl AuditQuery {
    /// The parameters of the query string. `limit` is `default` without one.
    ///
    /// # Errors
    /// 400 that names the parameter.
    pub(crate) fn parse(query: &str, default: i64) -> Result<AuditQuery, ApiError> {
        let known = ["limit", "offset", "by", "action", "object", "since", "until"];
        let mut read = AuditQuery { limit: usize::try_from(default).unwrap_or_default(), ..AuditQuery::default() };
        let count = |name: &str, value: &str, range| {
            query_parameters::integer(name, value, range).map(|number| usize::try_from(number).unwrap_or_default())
        };
        for (name, value) in query_parameters::pairs(query, &known)? {
            match name.as_str() {
                "limit" => read.limit = count(&name, &value, 1..=MAX_LINES)?,
                "offset" => read.offset = count(&name, &value, 0..=i64::from(u32::MAX))?,
                "since" => read.since_ms = Some(ledger_query::time(&name, &value)?),
                "until" => read.until_ms = Some(ledger_query::time(&name, &value)?),
                "by" => read.by = Some(value),
                "object" => read.object = Some(value),
                _ if Change::ACTIONS.contains(&value.as_str()) => read.action = Some(value),
                _ => return Err(ApiError::invalid(Invalid::none_of(&name, &shown(&value), &Change::ACTIONS))),
            }
        }
        Ok(read)
    }

    /// The lines, and how many pass the filters.
    pub(crate) fn read(&self, registry: &Registry) -> (Vec<AuditLine>, usize) {
        registry.audit_of(|entry| self.admits(entry), self.offset, self.limit)
    }

    fn admits(&self, entry: &AuditEntry) -> bool {
        let (action, object) = entry.change.names();
        self.by.as_ref().is_none_or(|by| *by == entry.actor.by)
            && self.action.as_deref().is_none_or(|wanted| wanted == action)
            && self.object.as_deref().is_none_or(|wanted| Some(wanted) == object)
            && self.since_ms.is_none_or(|since| entry.at_ms >= since)
            && self.until_ms.is_none_or(|until| entry.at_ms < until)
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(crate) struct PageBody<'a> {
    /// Newest first.
    pub(crate) data: Vec<EntryBody<'a>>,
    /// Lines that pass the filters, of the last 10,000.
    pub(crate) total: usize,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct EntryBody<'a> {
    /// When. RFC 3339, UTC, with milliseconds.
    pub(crate) at: String,
    /// Name of the administrator's key, `command line`, or `gateway` for alerts.
    pub(crate) by: &'a str,
    /// Address of the client, or the name of the machine's user; empty for the gateway itself.
    pub(crate) from: &'a str,
    /// Id of the request; `null` for the command line and the gateway.
    pub(crate) request_id: Option<&'a str>,
    /// What was done.
    #[cfg_attr(test, schemars(extend("enum" = Change::ACTIONS)))]
    pub(crate) action: &'static str,
    /// Name of the key, account, team or shadow, or of the receiver of an alert; of `delete_records` the `owner`, and `null` for all. `null` for what concerns
    /// none.
    pub(crate) object: Option<&'a str>,
    /// The members that changed, by name.
    pub(crate) changes: &'a [ChangedMember],
}

impl<'a> EntryBody<'a> {
    pub(crate) fn new(AuditLine { entry, changes }: &'a AuditLine) -> EntryBody<'a> {
        let (action, object) = entry.change.names();
        let Actor { by, from, request_id } = &entry.actor;
        EntryBody { at: rfc_3339(entry.at_ms), by, from, request_id: request_id.as_deref(), action, object, changes }
    }
}

/// The administrator of a request.
pub(crate) fn actor(by: &Authorized) -> Actor {
    let from = by.request.peer_addr().map(|address| address.ip().to_string()).unwrap_or_default();
    let request_id = RequestId::of(&by.request).as_str().to_owned();
    Actor { by: by.caller.key.name.as_ref().to_owned(), from, request_id: Some(request_id) }
}

/// Makes a change on a blocking thread. First it logs the administrator's name, the action `what`, which begins with a verb, and the
/// object of the action, `whom`.
///
/// # Errors
/// As the change is refused; 503 when it cannot be stored.
pub(crate) async fn change<T: Send + 'static>(
    by: &Authorized,
    (what, whom): (&str, &str),
    make: impl FnOnce(&Registry, Actor) -> Result<T, ChangeFault> + Send + 'static,
) -> Result<T, ApiError> {
    events::administered(&by.caller.key.name, what, Some(whom));
    store(Arc::clone(&by.worker.shared.access.registry), actor(by), make).await
}

/// Makes a change that is not announced. Runs on a blocking thread.
///
/// # Errors
/// 503 when it cannot be stored.
pub(crate) async fn record(by: &Authorized, change: Change) -> Result<(), ApiError> {
    let registry = Arc::clone(&by.worker.shared.access.registry);
    store(registry, actor(by), |registry, actor| registry.record(actor, change)).await
}

/// Makes a change on a blocking thread.
///
/// # Errors
/// As [`change`].
pub(crate) async fn store<T: Send + 'static>(
    registry: Arc<Registry>,
    actor: Actor,
    make: impl FnOnce(&Registry, Actor) -> Result<T, ChangeFault> + Send + 'static,
) -> Result<T, ApiError> {
    let stored = web::block(move || make(&registry, actor)).await.map_err(|_| ApiError::internal())?;
    stored.map_err(|fault| refusal(&fault))
}

/// The error answer for a change that was not made.
fn refusal(fault: &ChangeFault) -> ApiError {
    match fault {
        ChangeFault::NotDurable => ApiError::no_durable_keys(),
        ChangeFault::Unknown => ApiError::no_such("key"),
        ChangeFault::NameTaken => ApiError::bad_query("name", "Another key has this name. Names of keys are unique."),
        ChangeFault::TooMany => ApiError::bad_query("name", format!("The key is not issued: {fault}.")),
        ChangeFault::TeamDisabled(_) => ApiError::bad_query("name", format!("The account is not removed: {fault}.")),
        ChangeFault::Disk(_) => {
            log::error!("a change of keys or accounts is not stored: {fault}");
            ApiError::unstored_change(false)
        }
        ChangeFault::DisabledUntilRestart(_) => {
            log::error!("what was disabled is refused from now on, but that is not stored: {fault}");
            ApiError::unstored_change(true)
        }
    }
}
