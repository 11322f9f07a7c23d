//! `/admin/keys`: lists all keys with their usage, and disables and enables them by name. A disabled key stays disabled when
//! the process starts again. Keys are issued by [`crate::api::keys::issued_keys`]. No answer contains a key or a digest.

use std::sync::Arc;

use actix_web::{HttpResponse, web};
use pointsman_actors::ledger::{LedgerSize, ReadLedgerSize};
use pointsman_base::clock;
use pointsman_config::AuthMode;
use pointsman_domain::ResetPeriod;
use pointsman_ledger::facts::label;
use serde::Serialize;

use super::audit;
use crate::{
    access::{issued::Change, key_state::KeyState, keys::Caller, registry::Registry},
    api::{
        answer::{Data, uncached},
        auth::{Administrator, Authorized},
        generations::generation_list,
        keys::effective_limit::EffectiveLimitBody,
        models::measurements::rfc_3339,
        number::Dollars,
        path_name::PathName,
    },
    base::error::ApiError,
    state::{ask::ask, gateway::Worker},
};

/// Lists all keys.
///
/// # Errors
/// 503 when the ledger does not answer.
pub(crate) async fn list(_: Administrator, worker: Worker) -> Result<HttpResponse, ApiError> {
    let ledger_size = ledger_size(&worker).await?;
    let callers = callers(&worker);
    let data = callers.iter().map(|caller| KeyBody::read(&worker, caller, &ledger_size)).collect::<Vec<_>>();
    Ok(uncached(&Data { data }))
}

/// Shows one key by name.
///
/// # Errors
/// 404 for an unknown name, 503 when the ledger does not answer.
pub(crate) async fn show(_: Administrator, worker: Worker, name: PathName) -> Result<HttpResponse, ApiError> {
    respond(&worker, &*find(&worker, &name)?).await
}

/// Disables a key. Running calls continue.
///
/// # Errors
/// 404 for an unknown name, 400 for the key of the call itself, 503 when it cannot be stored.
pub(crate) async fn disable(by: Administrator, name: PathName) -> Result<HttpResponse, ApiError> {
    switch(&by, &name, false).await?;
    respond(&by.worker, &*find(&by.worker, &name)?).await
}

/// Enables a key, also one that the configuration disables.
///
/// # Errors
/// 404 for an unknown name, 503 when it cannot be stored.
pub(crate) async fn enable(by: Administrator, name: PathName) -> Result<HttpResponse, ApiError> {
    switch(&by, &name, true).await?;
    respond(&by.worker, &*find(&by.worker, &name)?).await
}

/// Disables or enables a key for good.
///
/// # Errors
/// As [`disable`] and [`enable`].
pub(crate) async fn switch(by: &Authorized, name: &str, on: bool) -> Result<(), ApiError> {
    let key = find(&by.worker, name)?;
    if !on && key.id == by.caller.id {
        return Err(ApiError::bad_query("name", "A key cannot disable itself: use another key with the scope admin."));
    }
    let what = if on { "enables the key" } else { "disables the key" };
    // An enabled key is as configured, unless the configuration disables it.
    let switched = (!on || key.key.disabled).then_some(on);
    let name = Arc::clone(&key.key.name);
    let make = move |registry: &Registry, actor| match key.is_issued {
        true => registry
            .change(actor, key.id, |key| {
                key.disabled = !on;
                if on { Change::EnableKey } else { Change::DisableKey }
            })
            .map(drop),
        false => registry.switch(actor, &key.key.name, switched),
    };
    audit::change(by, (what, &name), make).await
}

/// The configured and issued keys; with `auth.mode = "none"` the anonymous caller too.
pub(crate) fn callers(worker: &Worker) -> Vec<Arc<Caller>> {
    let keys = &worker.setup.keys;
    let without_keys = worker.setup.config.auth.mode == AuthMode::None;
    let mut callers = keys.callers();
    callers.retain(|caller| without_keys || !keys.is_anonymous(caller));
    callers
}

/// The caller with the key of this name.
///
/// # Errors
/// 404.
pub(crate) fn find(worker: &Worker, name: &str) -> Result<Arc<Caller>, ApiError> {
    callers(worker).into_iter().find(|caller| *caller.key.name == *name).ok_or_else(|| ApiError::no_such("key"))
}

async fn respond(worker: &Worker, caller: &Caller) -> Result<HttpResponse, ApiError> {
    let ledger_size = ledger_size(worker).await?;
    Ok(uncached(&Data { data: KeyBody::read(worker, caller, &ledger_size) }))
}

/// Size of the ledger, including records that have just ended.
pub(crate) async fn ledger_size(worker: &Worker) -> Result<LedgerSize, ApiError> {
    worker.shared.actors.event_batchers.flush();
    let recent = ask(&worker.shared.actors.control.ledger(), ReadLedgerSize { now_ms: clock::unix_millis() }).await?;
    let Some(ledger) = worker.shared.records.ledger.clone() else { return Ok(recent) };
    let summary = web::block(move || ledger.entries().summary(label::OWNER)).await.map_err(|_| ApiError::internal())?;
    let summary = summary.map_err(generation_list::unreadable)?;
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

view! {
    /// A key as an administrator sees it.
    pub(crate) struct KeyBody<'a> as "AdminKeyEntry" {
        /// The key of a caller.
        pub(crate) fn read(worker: &Worker, caller: &'a Caller, ledger_size: &LedgerSize) {
            let records =
                ledger_size.by_owner.iter().filter(|(owner, _)| *owner == caller.owner).map(|(_, count)| count).sum();
            let now_ms = clock::unix_millis();
            let reading = caller.state.budget.read(now_ms);
            let (key, KeyState { life, .. }) = (&caller.key, &*caller.state);
            let state = match (caller.is_disabled(), caller.is_expired()) {
                (true, _) => "disabled",
                (false, true) => "expired",
                (false, false) => caller.disabled_holder().map_or("active", |(holder, _)| holder.disabled()),
            };
            let limit = reading.limit;
        }

        /// Name of the key.
        pub(crate) name: &'a str = &key.name,
        /// Number of the key, as 16 hexadecimal digits. It stays when the key is rotated.
        pub(crate) id: String = owner_id(caller.id),
        /// Whether the key was issued while the gateway ran; otherwise it is in the configuration.
        pub(crate) issued: bool = caller.is_issued,
        /// Name of the account that its calls are charged to.
        pub(crate) account: &'a str = &caller.account_name,
        /// Number of the account, as 16 hexadecimal digits. It identifies the records of the account, also after its keys
        /// were removed.
        pub(crate) owner: String = owner_id(caller.owner),
        /// Whether calls with the key are accepted, and why not.
        #[cfg_attr(test, schemars(extend("enum" = ["active", "disabled", "expired", "disabled_account", "disabled_team"])))]
        pub(crate) state: &'static str = state,
        /// Whether the key is refused because it was disabled, by the configuration or by an administrator.
        pub(crate) disabled: bool = caller.is_disabled(),
        /// Whether an administrator has disabled or enabled the key, which then counts instead of the configuration.
        pub(crate) switched: bool = life.switched().is_some(),
        /// What the key may do: call models, read records and figures, administer, rate answers.
        #[cfg_attr(test, schemars(with = "Vec<crate::base::words::Scope>"))]
        pub(crate) scopes: Vec<&'static str> = key.scopes.iter().map(|scope| scope.as_str()).collect(),
        /// When the key ends; `null` if it does not. RFC 3339, UTC, with milliseconds.
        pub(crate) expires_at: Option<String> = key.expires_at.map(|end| rfc_3339(end.timestamp_millis())),
        /// Patterns of models that the key may call; empty: all.
        pub(crate) allowed_models: Vec<String> = key.allowed_models.iter().map(ToString::to_string).collect(),
        /// Patterns of models that the key may not call.
        pub(crate) blocked_models: Vec<String> = key.blocked_models.iter().map(ToString::to_string).collect(),
        /// Most requests per minute that hold for the key, defaults of the configuration included; `null`: no limit.
        pub(crate) requests_per_minute: Option<u32> = key.requests_per_minute,
        /// Most tokens per minute that hold for the key, defaults of the configuration included; `null`: no limit.
        pub(crate) tokens_per_minute: Option<u32> = key.tokens_per_minute,
        /// Most requests in progress at once that hold for the key, defaults of the configuration included; `null`: no
        /// limit.
        pub(crate) concurrency: Option<u32> = key.concurrency,
        /// Spending limit in US dollars; `null` without one.
        pub(crate) limit: Option<Dollars> = limit.map(|limit| Dollars(limit.amount)),
        /// What is left of the limit in US dollars, never below 0: amounts reserved for running requests are not. `null`
        /// without a limit.
        pub(crate) limit_remaining: Option<Dollars> = reading.available.map(Dollars),
        /// How often the limit starts again, at midnight UTC: every day, every Monday, or on the first of the month. `null`
        /// if never.
        #[cfg_attr(test, schemars(with = "Option<crate::base::words::ResetPeriod>"))]
        pub(crate) limit_reset: Option<&'static str> = limit.and_then(|limit| limit.reset).map(ResetPeriod::as_str),
        /// The limit on spending that the key meets first: its own, or that of its account or its team; `null` without any.
        pub(crate) effective_limit: Option<EffectiveLimitBody> = EffectiveLimitBody::tightest(caller, now_ms),
        /// US dollars reserved for running requests: the highest possible cost of each.
        pub(crate) reserved: Dollars = Dollars(reading.reserved),
        /// Calls of the key in progress.
        pub(crate) in_flight: u32 = worker.setup.admission.in_flight_of(caller),
        /// Calls of the key that were admitted since the gateway started.
        pub(crate) calls: u64 = life.calls(),
        /// How often calls with the key were answered with an error since the process started, by status; empty without
        /// one. Refused calls and pages count, too; a stream that breaks after its head does not.
        pub(crate) errors: Vec<ErrorCountBody> =
            life.errors().map(|(status, count)| ErrorCountBody { status, count }).collect(),
        /// When the last of them was admitted; `null` without one. RFC 3339, UTC, with milliseconds.
        pub(crate) last_call_at: Option<String> = life.last_call_ms().map(rfc_3339),
        /// Records of the account of the key in the ledger: keys of one account share them.
        pub(crate) records: usize = records,
        /// Spending of the key.
        pub(crate) usage: UsageBody = UsageBody {
            total: Dollars(reading.spent.total),
            daily: Dollars(reading.spent.day),
            weekly: Dollars(reading.spent.week),
            monthly: Dollars(reading.spent.month),
        },
    }
}

/// How many calls of the key were answered with an error of this status since the process started.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct ErrorCountBody {
    /// Status of the answer; `null`: rare statuses, together.
    pub(crate) status: Option<u16>,
    /// Number of answers.
    pub(crate) count: u64,
}

/// Spending of the key, in dollars.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct UsageBody {
    /// US dollars spent, ever; of attempts whose price is known.
    pub(crate) total: Dollars,
    /// US dollars spent since midnight UTC; of attempts whose price is known.
    pub(crate) daily: Dollars,
    /// US dollars spent since Monday, midnight UTC; of attempts whose price is known.
    pub(crate) weekly: Dollars,
    /// US dollars spent since the first of the month, midnight UTC; of attempts whose price is known.
    pub(crate) monthly: Dollars,
}

/// An owner's number as hexadecimal text.
pub(super) fn owner_id(owner: u64) -> String {
    format!("{owner:016x}")
}
