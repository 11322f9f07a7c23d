//! State of keys, accounts and teams that lasts as long as the process: usage of their limits, spending, calls.
//!
//! It is found by number or name, so it survives a reload, a rotation of a key and a change of its limits.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use pointsman_actors::domain::Usd;
use sha2::{Digest as _, Sha256};

use crate::{
    access::{
        budget::Budget,
        gates::{Gates, RequestRate},
        load::{BufferLimits, KeyBuffer, Load},
    },
    base::{clock, error::BudgetHolder},
    config::LimitsConfig,
};

/// State of one key.
pub struct KeyState {
    /// Its limits.
    pub gates: Gates,
    /// Its spending.
    pub budget: Arc<Budget>,
    /// Its buffered bytes.
    pub buffer: Arc<KeyBuffer>,
    /// Its calls, and whether an administrator switched it.
    pub life: KeyLife,
}

/// State of one account.
pub struct AccountState {
    /// Its limits.
    pub gates: Gates,
    /// Its requests to the free pool.
    pub free_pool: RequestRate,
    /// Its spending.
    pub budget: Arc<Budget>,
    /// Spending of its team, if it has one.
    pub team: ArcSwapOption<Budget>,
}

/// Calls of a key since the process started, and whether an administrator switched it.
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
    /// Switches the key off or on, whatever the configuration says; `None` leaves it to the configuration.
    pub fn switch(&self, on: Option<bool>) {
        let state = on.map_or(0, |on| if on { SWITCHED_ON } else { SWITCHED_OFF });
        self.switched.store(state, Ordering::Release);
    }

    /// How an administrator switched the key, if one did.
    #[must_use]
    pub fn switched(&self) -> Option<bool> {
        match self.switched.load(Ordering::Acquire) {
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

/// All of them. One per process.
pub struct Holders {
    load: Arc<Load>,
    keys: Mutex<HashMap<u64, Arc<KeyState>>>,
    accounts: Mutex<HashMap<u64, Arc<AccountState>>>,
    teams: Mutex<HashMap<Arc<str>, Arc<Budget>>>,
    /// Whether what was spent before this start is counted.
    is_spending_known: AtomicBool,
}

impl Holders {
    /// No holders, and the byte limits of `limits`.
    #[must_use]
    pub fn new(limits: &LimitsConfig) -> Holders {
        Holders {
            load: Load::new(BufferLimits::of(limits)),
            keys: Mutex::default(),
            accounts: Mutex::default(),
            teams: Mutex::default(),
            is_spending_known: AtomicBool::new(true),
        }
    }

    /// Load counters of the gateway.
    #[must_use]
    pub fn load(&self) -> &Arc<Load> {
        &self.load
    }

    /// The key with this number.
    #[must_use]
    pub fn key(&self, number: u64) -> Arc<KeyState> {
        let new = || {
            Arc::new(KeyState {
                gates: Gates::default(),
                budget: Arc::new(Budget::new(BudgetHolder::Key)),
                buffer: KeyBuffer::of(&self.load),
                life: KeyLife::default(),
            })
        };
        Arc::clone(self.keys.lock().entry(number).or_insert_with(new))
    }

    /// The account with this number.
    #[must_use]
    pub fn account(&self, number: u64) -> Arc<AccountState> {
        let new = || {
            Arc::new(AccountState {
                gates: Gates::default(),
                free_pool: RequestRate::default(),
                budget: Arc::new(Budget::new(BudgetHolder::Account)),
                team: ArcSwapOption::empty(),
            })
        };
        Arc::clone(self.accounts.lock().entry(number).or_insert_with(new))
    }

    /// The budget of the team with this name.
    #[must_use]
    pub fn team(&self, name: &Arc<str>) -> Arc<Budget> {
        let new = || Arc::new(Budget::new(BudgetHolder::Team));
        Arc::clone(self.teams.lock().entry(Arc::clone(name)).or_insert_with(new))
    }

    /// Whether what was spent before this start is counted. Until then no request is admitted under a spending limit.
    #[must_use]
    pub fn is_spending_known(&self) -> bool {
        self.is_spending_known.load(Ordering::Acquire)
    }

    /// Says whether what was spent before this start is counted.
    pub fn set_spending_known(&self, known: bool) {
        self.is_spending_known.store(known, Ordering::Release);
    }

    /// Forgets what was spent since the start, before it is read from the ledger with what was spent earlier.
    pub fn forget_spent(&self) {
        self.keys.lock().values().for_each(|key| key.budget.forget_spent());
        self.accounts.lock().values().for_each(|account| account.budget.forget_spent());
        self.teams.lock().values().for_each(|team| team.forget_spent());
    }

    /// Spending of all accounts, ever.
    #[must_use]
    pub fn total_spent(&self, now_ms: i64) -> Usd {
        self.accounts.lock().values().map(|account| account.budget.read(now_ms).spent.total).sum()
    }
}

/// Number of the account with this name. It has nothing to do with the digests of its keys.
#[must_use]
pub fn account_number(name: &str) -> u64 {
    number_of("account", name)
}

/// Number of the configured key with this name.
#[must_use]
pub fn key_number(name: &str) -> u64 {
    number_of("key", name)
}

fn number_of(kind: &str, name: &str) -> u64 {
    let digest: [u8; 32] = Sha256::digest(format!("{kind}\n{name}")).into();
    // 0 is the anonymous caller.
    digest.first_chunk::<8>().map_or(1, |head| u64::from_be_bytes(*head).max(1))
}
