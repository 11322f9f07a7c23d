//! `/keys`: issues, lists, changes, rotates and revokes keys. Needs the scope `admin`.
//!
//! The text of a key is in the answer that issues it and nowhere else. A key is addressed by `hash`, a number that stays
//! when the key is rotated and says nothing about its text.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, http::header, web};
use pointsman_base::{clock, secret::Secret};
use pointsman_config::{Scope, digest_of};
use pointsman_dialect::refuse_repeated;
use pointsman_domain::Catalog;
use serde::Serialize;
use serde_json::{Map, Value};

use super::issued_key::{IssuedKeyBody, set_members, wrong};
use crate::{
    access::{
        issued::{Change, IssuedKey},
        registry::Registry,
    },
    api::{
        admin::audit,
        answer::{Data, uncached},
        auth::{Administrator, Authorized},
        generations::ledger_query,
        models::measurements::rfc_3339,
        path_name::PathName,
        query_parameters,
    },
    base::error::ApiError,
    state::gateway::Worker,
};

/// Keys in one page of the list.
const PAGE: usize = 100;

/// Lists issued keys, oldest first; disabled ones only with `include_disabled`.
///
/// # Errors
/// 400 for a bad parameter.
pub(crate) async fn list(_: Administrator, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let (mut offset, mut disabled) = (0, false);
    for (name, value) in query_parameters::pairs(request.query_string(), &["offset", "include_disabled"])? {
        match name.as_str() {
            "offset" => offset = query_parameters::integer("offset", &value, 0..=query_parameters::LARGEST)?,
            _ => disabled = ledger_query::flag("include_disabled", &value)?,
        }
    }
    let keys = worker.shared.access.registry.keys().into_iter().filter(|key| disabled || !key.disabled);
    let page = keys.skip(usize::try_from(offset).unwrap_or(usize::MAX)).take(PAGE);
    Ok(uncached(&Data { data: page.map(|key| body(&worker, key)).collect::<Vec<_>>() }))
}

/// Shows an issued key.
///
/// # Errors
/// 404.
pub(crate) async fn show(_: Administrator, worker: Worker, hash: PathName) -> Result<HttpResponse, ApiError> {
    let key = worker.shared.access.registry.key(id(&hash)?).ok_or_else(|| ApiError::no_such("key"))?;
    Ok(uncached(&Data { data: body(&worker, key) }))
}

/// Issues a key. The answer holds its text.
///
/// # Errors
/// 400 for a bad member, 404 without a durable ledger, 503 when it cannot be stored.
pub(crate) async fn create(by: Administrator, payload: web::Payload) -> Result<HttpResponse, ApiError> {
    let members = members(&by, payload).await?;
    let (key, text) = issue_key(&by, &members).await?;
    Ok(with_text(HttpResponse::Created(), &by.worker, key, &text))
}

/// Issues a key with these members. Returns it with its text.
///
/// # Errors
/// As [`create`].
pub(crate) async fn issue_key(by: &Authorized, members: &Map<String, Value>) -> Result<(IssuedKey, Secret), ApiError> {
    let (key, text) = new_key(members, &by.caller.key.name, &by.worker.setup.catalog)?;
    let stored = key.clone();
    audit::change(by, ("issues the key", &key.name), |registry, actor| registry.create(actor, stored)).await?;
    Ok((key, text))
}

/// A key that a call with these members issues, and its text.
///
/// # Errors
/// 400 that names the member.
pub(crate) fn new_key(
    members: &Map<String, Value>,
    by: &str,
    catalog: &Catalog,
) -> Result<(IssuedKey, Secret), ApiError> {
    let (text, label, sha256) = new_text();
    let now_ms = clock::unix_millis();
    let mut key = IssuedKey {
        id: rand::random::<u64>().max(1),
        name: String::new(),
        label,
        sha256,
        account: format!("account-{}", hex::encode(rand::random::<[u8; 8]>())),
        scopes: vec!["inference".to_owned(), "read".to_owned()],
        created_ms: now_ms,
        updated_ms: now_ms,
        created_by: by.to_owned(),
        ..IssuedKey::default()
    };
    if !members.contains_key("name") {
        return Err(wrong("name", "a text of 1 to 128 characters").into());
    }
    set_members(&mut key, members, true, catalog)?;
    Ok((key, text))
}

/// Changes an issued key. Members that are left out stay.
///
/// # Errors
/// 400 for a bad member, and for disabling the own key or taking its scope `admin`, 404, 503 when it cannot be stored.
pub(crate) async fn update(by: Administrator, payload: web::Payload, hash: PathName) -> Result<HttpResponse, ApiError> {
    let id = id(&hash)?;
    let members = members(&by, payload).await?;
    let key = change_key(&by, id, members).await?;
    Ok(uncached(&Data { data: body(&by.worker, key) }))
}

/// Sets these members of the issued key with the number `id`.
///
/// # Errors
/// As [`update`].
pub(crate) async fn change_key(by: &Authorized, id: u64, members: Map<String, Value>) -> Result<IssuedKey, ApiError> {
    let Authorized { worker, caller, .. } = by;
    let before = worker.shared.access.registry.key(id).ok_or_else(|| ApiError::no_such("key"))?;
    // Checked here; applied to the key as it is when the change is made.
    let mut after = before.clone();
    set_members(&mut after, &members, false, &worker.setup.catalog)?;
    if id == caller.id {
        stays_administrator(&after)?;
    }
    let catalog = Arc::clone(&worker.setup.catalog);
    let make = move |registry: &Registry, actor| {
        registry.change(actor, id, |key| {
            let was_disabled = key.disabled;
            let _ = set_members(key, &members, false, &catalog);
            match (was_disabled, key.disabled) {
                (false, true) => Change::DisableKey,
                (true, false) => Change::EnableKey,
                _ => Change::UpdateKey,
            }
        })
    };
    audit::change(by, ("changes the key", &before.name), make).await
}

/// Refuses a change with which a key would lock itself out.
fn stays_administrator(key: &IssuedKey) -> Result<(), ApiError> {
    if key.disabled {
        return Err(wrong("disabled", "set by another key: a key cannot disable itself").into());
    }
    if !key.scopes.iter().any(|scope| scope == Scope::Admin.as_str()) {
        let allowed = "changed by another key: a key cannot take the scope admin from itself";
        return Err(wrong("scopes", allowed).into());
    }
    Ok(())
}

/// Gives an issued key a new text. The old one is refused from now on; records, budget and limits stay.
///
/// # Errors
/// 404, 503 when it cannot be stored.
pub(crate) async fn rotate(by: Administrator, hash: PathName) -> Result<HttpResponse, ApiError> {
    let (key, text) = rotate_key(&by, id(&hash)?).await?;
    Ok(with_text(HttpResponse::Ok(), &by.worker, key, &text))
}

/// Gives the issued key with the number `id` a new text. Returns both.
///
/// # Errors
/// As [`rotate`].
pub(crate) async fn rotate_key(by: &Authorized, id: u64) -> Result<(IssuedKey, Secret), ApiError> {
    let name = by.worker.shared.access.registry.key(id).ok_or_else(|| ApiError::no_such("key"))?.name;
    let (text, label, sha256) = new_text();
    let make = move |registry: &Registry, actor| {
        registry.change(actor, id, |key| {
            (key.label, key.sha256) = (label, sha256);
            Change::RotateKey
        })
    };
    Ok((audit::change(by, ("rotates the key", &name), make).await?, text))
}

/// Revokes an issued key for good. Its records and its account stay.
///
/// # Errors
/// 404, 400 for the key of the call itself, 503 when it cannot be stored.
pub(crate) async fn revoke(by: Administrator, hash: PathName) -> Result<HttpResponse, ApiError> {
    revoke_key(&by, id(&hash)?).await?;
    Ok(uncached(&Deleted { deleted: true }))
}

/// Revokes the issued key with the number `id`.
///
/// # Errors
/// As [`revoke`].
pub(crate) async fn revoke_key(by: &Authorized, id: u64) -> Result<(), ApiError> {
    let Authorized { worker, caller, .. } = by;
    let name = worker.shared.access.registry.key(id).ok_or_else(|| ApiError::no_such("key"))?.name;
    if id == caller.id {
        return Err(ApiError::bad_query("hash", "A key cannot revoke itself: use another key with the scope admin."));
    }
    audit::change(by, ("revokes the key", &name), move |registry, actor| registry.revoke(actor, id)).await
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct Deleted {
    /// Always `true`: the key is revoked.
    deleted: bool,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct Issued<'a> {
    data: IssuedKeyBody,
    /// The text of the key, which is in this answer and nowhere else.
    key: &'a str,
}

/// A time in Unix milliseconds as text.
pub(crate) fn time(ms: i64) -> String {
    rfc_3339(ms)
}

/// A new text of a key, its label, and its SHA-256.
pub(crate) fn new_text() -> (Secret, String, String) {
    let text = format!("sk-pointsman-v1-{}", hex::encode(rand::random::<[u8; 32]>()));
    let label = format!("{}...{}", text.get(..10).unwrap_or_default(), text.get(text.len() - 4..).unwrap_or_default());
    let sha256 = hex::encode(digest_of(&text));
    (Secret::new(text), label, sha256)
}

fn with_text(mut response: HttpResponseBuilder, worker: &Worker, key: IssuedKey, text: &Secret) -> HttpResponse {
    let issued = Issued { data: body(worker, key), key: text.expose() };
    response.insert_header((header::CACHE_CONTROL, "no-store")).json(issued)
}

fn body(worker: &Worker, key: IssuedKey) -> IssuedKeyBody {
    let state = worker.shared.access.registry.holders.key(key.id);
    IssuedKeyBody::new(key, &state)
}

/// The number in a path.
fn id(hash: &str) -> Result<u64, ApiError> {
    let digits = Some(hash).filter(|hash| hash.len() == 16);
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or_else(|| ApiError::no_such("key"))
}

/// The members of a body, which must be an object that names each of them once.
pub(crate) async fn members(by: &Authorized, payload: web::Payload) -> Result<Map<String, Value>, ApiError> {
    let body = by.read_json(payload).await?;
    refuse_repeated(&body)?;
    serde_json::from_slice(&body).map_err(|_| ApiError::not_an_object())
}
