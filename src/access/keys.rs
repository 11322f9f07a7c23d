//! API keys, and the caller that a request authenticates as.
//!
//! Keys are kept as SHA-256 digests only; a presented key is hashed and looked up. Its text is never
//! stored, logged or compared. Which handler needs which key is in `api::auth`.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering},
    },
};

use actix_web::http::header::{self, HeaderMap};
use sha2::{Digest, Sha256};

use crate::{
    base::{
        clock,
        error::{ApiError, KeyFault},
        secret::Secret,
    },
    config::{AuthMode, Config, Key, Scope, digest_of, to_hex},
};

/// All API keys.
pub struct KeyTable {
    mode: AuthMode,
    keys: HashMap<[u8; 32], Arc<Caller>>,
    anonymous: Arc<Caller>,
}

/// The holder of an accepted key.
#[derive(Debug)]
pub struct Caller {
    /// Position among the configured keys; the anonymous caller comes after the last one.
    pub position: usize,
    /// Owner of the records that the caller may read.
    pub owner: u64,
    /// The key as configured.
    pub key: Key,
    /// State of the key since the process started.
    pub life: Arc<KeyLife>,
}

/// State of a key while the process runs. It survives a reload if the new configuration has the same key.
#[derive(Debug, Default)]
pub struct KeyLife {
    /// 0: as configured; else one of the two below.
    switched: AtomicU8,
    calls: AtomicU64,
    /// Unix milliseconds; 0: never.
    last_call_ms: AtomicI64,
}

const SWITCHED_OFF: u8 = 1;
const SWITCHED_ON: u8 = 2;

impl KeyLife {
    /// Switches the key off or on, whatever the configuration says, until the process ends.
    pub fn switch(&self, on: bool) {
        self.switched.store(if on { SWITCHED_ON } else { SWITCHED_OFF }, Ordering::Relaxed);
    }

    /// How an administrator switched the key, if one did.
    #[must_use]
    pub fn switched(&self) -> Option<bool> {
        match self.switched.load(Ordering::Relaxed) {
            SWITCHED_OFF => Some(false),
            SWITCHED_ON => Some(true),
            _ => None,
        }
    }

    /// Counts an admitted call.
    pub fn called(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.last_call_ms.store(clock::unix_millis(), Ordering::Relaxed);
    }

    /// Number of admitted calls.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Time of the last admitted call, in Unix milliseconds.
    #[must_use]
    pub fn last_call_ms(&self) -> Option<i64> {
        Some(self.last_call_ms.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }
}

impl Caller {
    /// Refuses a caller whose key lacks `scope`. The scope `admin` implies `read`, but not `inference`.
    ///
    /// # Errors
    /// 403.
    pub fn require(&self, scope: Scope) -> Result<(), ApiError> {
        if self.key.scopes.contains(&scope) || (scope == Scope::Read && self.is_admin()) {
            return Ok(());
        }
        Err(ApiError::missing_scope(scope.as_str()))
    }

    /// Whether the key is disabled, by the configuration or by an administrator.
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        self.life.switched().map_or(self.key.disabled, |on| !on)
    }

    /// Whether the key has expired.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.key.expires_at.is_some_and(|end| end.timestamp_millis() <= clock::unix_millis())
    }

    /// Whether the key may read the records of all keys.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.key.scopes.contains(&Scope::Admin)
    }
}

impl KeyTable {
    /// The table of the keys of `config`. Keys that `before` has too keep their state. `startup_key` is included while
    /// no key of `config` has the scope `admin`.
    #[must_use]
    pub fn new(config: &Config, startup_key: Option<&Key>, before: Option<&KeyTable>) -> KeyTable {
        let keys = config.keys.iter().chain(startup_key.filter(|_| !names_administrator(config)));
        let callers = keys.enumerate().map(|(position, key)| {
            let known = before.and_then(|before| before.keys.get(&key.sha256));
            let life = known.map_or_else(Arc::default, |known| Arc::clone(&known.life));
            let caller = Caller { position, owner: owner(&key.sha256), key: key.clone(), life };
            (key.sha256, Arc::new(caller))
        });
        let life = before.map_or_else(Arc::default, |before| Arc::clone(&before.anonymous.life));
        let keys: HashMap<_, _> = callers.collect();
        let anonymous = Caller { position: keys.len(), owner: 0, key: Key::anonymous(), life };
        KeyTable { mode: config.auth.mode, keys, anonymous: Arc::new(anonymous) }
    }

    /// All callers, in the order of their positions.
    pub fn callers(&self) -> impl Iterator<Item = &Caller> {
        let mut callers: Vec<&Caller> = self.keys.values().map(Arc::as_ref).collect();
        callers.sort_unstable_by_key(|caller| caller.position);
        callers.into_iter().chain([&*self.anonymous])
    }

    /// Whether the caller is the anonymous caller, used when no key is required.
    #[must_use]
    pub fn is_anonymous(&self, caller: &Caller) -> bool {
        caller.position == self.anonymous.position
    }

    /// Authenticates a request by its headers.
    ///
    /// # Errors
    /// 401, with the reason.
    pub fn caller(&self, headers: &HeaderMap) -> Result<Arc<Caller>, ApiError> {
        if self.mode == AuthMode::None {
            return Ok(Arc::clone(&self.anonymous));
        }
        self.holder(headers)
    }

    /// Authenticates a request on the admin listener, which always requires a key.
    ///
    /// # Errors
    /// 401, with the reason; 403 without the scope `admin`.
    pub fn administrator(&self, headers: &HeaderMap) -> Result<Arc<Caller>, ApiError> {
        let caller = self.holder(headers)?;
        caller.require(Scope::Admin)?;
        Ok(caller)
    }

    fn holder(&self, headers: &HeaderMap) -> Result<Arc<Caller>, ApiError> {
        let presented = presented_key(headers)?;
        let digest: [u8; 32] = Sha256::digest(presented).into();
        let caller = self.keys.get(&digest).ok_or(ApiError::unauthorized(KeyFault::Invalid))?;
        if caller.is_disabled() {
            return Err(ApiError::unauthorized(KeyFault::Disabled));
        }
        if caller.is_expired() {
            return Err(ApiError::unauthorized(KeyFault::Expired));
        }
        Ok(Arc::clone(caller))
    }
}

/// A new administrator's key, valid until the process ends: its text, to be printed once, and the key to be stored.
#[must_use]
pub fn generate_startup_key() -> (Secret, Key) {
    let text = Secret::new(format!("sk-pointsman-v1-{}", to_hex(&rand::random::<[u8; 32]>())));
    let key = Key::startup_key(digest_of(text.expose()));
    (text, key)
}

/// Whether a key of the configuration has the scope `admin`. Disabled keys count: no key is generated then.
#[must_use]
pub fn names_administrator(config: &Config) -> bool {
    config.keys.iter().any(|key| key.scopes.contains(&Scope::Admin))
}

/// An id for the owner's records that does not reveal the digest.
fn owner(digest: &[u8; 32]) -> u64 {
    digest.first_chunk::<8>().map_or(0, |head| u64::from_be_bytes(*head))
}

/// The key in a request: `Authorization: Bearer …` or `X-API-Key: …`, each at most once; both must be equal.
fn presented_key(headers: &HeaderMap) -> Result<&[u8], ApiError> {
    let bearer = single(headers, header::AUTHORIZATION.as_str())?.map(bearer_token).transpose()?;
    let plain = single(headers, "x-api-key")?;
    match (bearer, plain) {
        (Some(bearer), Some(plain)) if bearer != plain => Err(ApiError::unauthorized(KeyFault::Invalid)),
        (Some(key), _) | (None, Some(key)) if !key.is_empty() => Ok(key),
        _ => Err(ApiError::unauthorized(KeyFault::Missing)),
    }
}

fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a [u8]>, ApiError> {
    let mut values = headers.get_all(name);
    let first = values.next().map(|value| value.as_bytes());
    if values.next().is_some() {
        return Err(ApiError::unauthorized(KeyFault::Invalid));
    }
    Ok(first)
}

fn bearer_token(value: &[u8]) -> Result<&[u8], ApiError> {
    let malformed = || ApiError::unauthorized(KeyFault::Invalid);
    let (scheme, token) = value.split_at_checked(7).ok_or_else(malformed)?;
    if !scheme.eq_ignore_ascii_case(b"bearer ") {
        return Err(malformed());
    }
    Ok(token.trim_ascii())
}
