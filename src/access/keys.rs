//! API keys, and the caller that a request authenticates as.
//!
//! Keys are kept as SHA-256 digests only; a presented key is hashed and looked up. Its text is never
//! stored, logged or compared. Which handler needs which key is in `api::auth`.

use std::{collections::HashMap, sync::Arc};

use actix_web::http::header::{self, HeaderMap, HeaderName};
use arc_swap::ArcSwap;
use pointsman_base::{clock, secret::Secret};
use pointsman_config::{AuthMode, Config, Key, Scope, digest_of};
use sha2::{Digest, Sha256};

use crate::{
    access::{budget::Budgets, holders::AccountState, key_state::KeyState},
    base::error::{ApiError, BudgetHolder, KeyFault},
};

/// All API keys of one configuration, and the issued keys.
pub struct KeyTable {
    mode: AuthMode,
    /// Callers of configured keys by digest.
    keys: HashMap<[u8; 32], Arc<Caller>>,
    /// The same in the order of the configuration.
    ordered: Vec<Arc<Caller>>,
    issued: Arc<IssuedTable>,
    anonymous: Arc<Caller>,
}

/// The issued keys by digest. Replaced as a whole when an administrator changes one.
#[derive(Default)]
pub struct IssuedTable(ArcSwap<HashMap<[u8; 32], Arc<Caller>>>);

impl IssuedTable {
    /// Puts other keys in place of all. Requests that arrive from now on see them.
    pub fn replace(&self, callers: Vec<Caller>) {
        self.0.store(Arc::new(callers.into_iter().map(|caller| (caller.key.sha256, Arc::new(caller))).collect()));
    }
}

/// The holder of an accepted key.
pub struct Caller {
    /// Number of the key; 0 for the anonymous caller.
    pub id: u64,
    /// Number of the account, which owns the records.
    pub owner: u64,
    /// Name of the account.
    pub account_name: Arc<str>,
    /// Whether an administrator issued the key; else the configuration names it.
    pub is_issued: bool,
    /// The key as configured or issued.
    pub key: Key,
    /// State of the key since the process started.
    pub state: Arc<KeyState>,
    /// State of the account since the process started.
    pub account: Arc<AccountState>,
}

/// Names of the key and of the account of a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HolderNames {
    /// Name of the key; `None` if neither it nor another key of its account exists any more.
    pub key: Option<Arc<str>>,
    /// Name of the account; `None` if it has no key any more.
    pub account: Option<Arc<str>>,
}

impl Caller {
    /// Refuses a caller whose key lacks `scope`. The scope `admin` implies `read`, but not `inference`.
    ///
    /// # Errors
    /// 403.
    pub fn require(&self, scope: Scope) -> Result<(), ApiError> {
        let is_implied = match scope {
            Scope::Read => self.is_admin(),
            Scope::Feedback => self.is_admin() || self.key.scopes.contains(&Scope::Inference),
            Scope::Inference | Scope::Admin => false,
        };
        if is_implied || self.key.scopes.contains(&scope) {
            return Ok(());
        }
        Err(ApiError::missing_scope(scope.as_str()))
    }

    /// The budgets of the key, its account and its team.
    pub fn budgets(&self) -> Budgets {
        let team = self.account.team.load_full();
        Budgets::new(Arc::clone(&self.state.budget), Arc::clone(&self.account.budget), team)
    }

    /// Whether the key is disabled, by the configuration or by an administrator.
    pub fn is_disabled(&self) -> bool {
        self.state.life.switched().map_or(self.key.disabled, |on| !on)
    }

    /// The account of the key, or its team, if it is disabled.
    pub fn disabled_holder(&self) -> Option<(BudgetHolder, Arc<str>)> {
        let holder = self.account.disabled()?;
        let team = || self.account.team.load_full().map_or_else(|| "".into(), |team| Arc::clone(&team.name));
        Some((holder, if holder == BudgetHolder::Team { team() } else { Arc::clone(&self.account_name) }))
    }

    /// Whether the key has expired.
    pub fn is_expired(&self) -> bool {
        self.key.expires_at.is_some_and(|end| end.timestamp_millis() <= clock::unix_millis())
    }

    /// Whether the key may read the records of all keys.
    pub fn is_admin(&self) -> bool {
        self.key.scopes.contains(&Scope::Admin)
    }
}

impl KeyTable {
    /// The table of the keys of `config`, and the issued keys. `startup_key` is included while no key of `config` has the
    /// scope `admin`. `caller` makes the caller of a configured key.
    pub fn new(
        config: &Config,
        startup_key: Option<&Key>,
        issued: &Arc<IssuedTable>,
        caller: impl Fn(&Key) -> Caller,
    ) -> KeyTable {
        let keys = config.keys.iter().chain(startup_key.filter(|_| !names_administrator(config)));
        let ordered: Vec<_> = keys.map(|key| Arc::new(caller(key))).collect();
        let keys = ordered.iter().map(|caller| (caller.key.sha256, Arc::clone(caller))).collect();
        let anonymous = Arc::new(caller(&Key::anonymous()));
        KeyTable { mode: config.auth.mode, keys, ordered, issued: Arc::clone(issued), anonymous }
    }

    /// All callers: those of configured keys in their order, those of issued keys by name, and the anonymous caller.
    pub fn callers(&self) -> Vec<Arc<Caller>> {
        let mut issued: Vec<Arc<Caller>> = self.issued.0.load().values().map(Arc::clone).collect();
        issued.sort_unstable_by(|one, other| one.key.name.cmp(&other.key.name));
        let mut callers = self.ordered.clone();
        callers.append(&mut issued);
        callers.push(Arc::clone(&self.anonymous));
        callers
    }

    /// The caller with this name.
    pub fn named(&self, name: &str) -> Option<Arc<Caller>> {
        self.callers().into_iter().find(|caller| *caller.key.name == *name)
    }

    /// Name of the key with this number; without it, of the first key of the account.
    pub fn name_of(&self, owner: u64, key: u64) -> Option<Arc<str>> {
        self.names_of(owner, key).key
    }

    /// Names of the key with this number, without it of the first key of the account, and of the account with this
    /// number.
    pub fn names_of(&self, owner: u64, key: u64) -> HolderNames {
        let issued = self.issued.0.load();
        let callers = || self.keys.values().chain(issued.values()).chain([&self.anonymous]);
        let by_number = callers().find(|caller| key != 0 && caller.id == key);
        let of_account = callers().filter(|caller| caller.owner == owner).min_by_key(|caller| &caller.key.name);
        HolderNames {
            key: by_number.or(of_account).map(|caller| Arc::clone(&caller.key.name)),
            account: of_account.map(|caller| Arc::clone(&caller.account_name)),
        }
    }

    /// Whether the caller is the anonymous caller, used when no key is required.
    pub fn is_anonymous(&self, caller: &Caller) -> bool {
        caller.id == self.anonymous.id
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

    /// The administrator whose key has this SHA-256.
    ///
    /// # Errors
    /// As [`KeyTable::administrator`].
    pub fn administrator_by_digest(&self, digest: &[u8; 32]) -> Result<Arc<Caller>, ApiError> {
        let caller = self.holder_of(digest)?;
        caller.require(Scope::Admin)?;
        Ok(caller)
    }

    fn holder(&self, headers: &HeaderMap) -> Result<Arc<Caller>, ApiError> {
        self.holder_of(&Sha256::digest(presented_key(headers)?).into())
    }

    /// Whose key a request holds, also if it is refused because it is disabled or has expired.
    pub fn presented(&self, headers: &HeaderMap) -> Option<Arc<Caller>> {
        self.find(&Sha256::digest(presented_key(headers).ok()?).into())
    }

    fn find(&self, digest: &[u8; 32]) -> Option<Arc<Caller>> {
        let configured = self.keys.get(digest).map(Arc::clone);
        configured.or_else(|| self.issued.0.load().get(digest).map(Arc::clone))
    }

    fn holder_of(&self, digest: &[u8; 32]) -> Result<Arc<Caller>, ApiError> {
        let caller = self.find(digest).ok_or_else(|| ApiError::unauthorized(KeyFault::Invalid))?;
        if caller.is_disabled() {
            return Err(ApiError::unauthorized(KeyFault::Disabled));
        }
        if caller.is_expired() {
            return Err(ApiError::unauthorized(KeyFault::Expired));
        }
        if let Some((holder, name)) = caller.disabled_holder() {
            return Err(ApiError::disabled_holder(holder, &name));
        }
        Ok(caller)
    }
}

/// A new administrator's key, valid until the process ends: its text, to be printed once, and the key to be stored. Where
/// only this machine can call models, it may call them too, so that the console can send a request.
pub fn generate_startup_key(config: &Config) -> (Secret, Key) {
    let text = Secret::new(format!("sk-pointsman-v1-{}", hex::encode(rand::random::<[u8; 32]>())));
    let more: &[Scope] = if config.server.is_loopback() { &[Scope::Inference] } else { &[] };
    let key = Key::startup_key(digest_of(text.expose()), more);
    (text, key)
}

/// Whether a key of the configuration has the scope `admin`. Disabled keys count: no key is generated then.
pub fn names_administrator(config: &Config) -> bool {
    config.keys.iter().any(|key| key.scopes.contains(&Scope::Admin))
}

/// Where clients of Messages put their key.
static API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The key in a request: `Authorization: Bearer …` or `X-API-Key: …`, each at most once; both must be equal. A header
/// without a key counts as absent beside the other: clients send both when one of their variables is empty.
fn presented_key(headers: &HeaderMap) -> Result<&[u8], ApiError> {
    let authorization = single(headers, &header::AUTHORIZATION)?;
    let plain = single(headers, &API_KEY)?.filter(|key| !key.is_empty());
    let is_blank = |value: &&[u8]| value.is_empty() || value.eq_ignore_ascii_case(b"bearer");
    let authorization = authorization.filter(|value| plain.is_none() || !is_blank(&value.trim_ascii()));
    let bearer = authorization.map(bearer_token).transpose()?;
    match (bearer, plain) {
        (Some(bearer), Some(plain)) if bearer != plain => Err(ApiError::unauthorized(KeyFault::Invalid)),
        (Some(key), _) | (None, Some(key)) if !key.is_empty() => Ok(key),
        _ => Err(ApiError::unauthorized(KeyFault::Missing)),
    }
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a [u8]>, ApiError> {
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
