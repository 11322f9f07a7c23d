//! State of keys, accounts and teams that lasts as long as the process: usage of their limits, spending, calls.
//!
//! It is found by number or name, so it survives a reload, a rotation of a key and a change of its limits. That of one key is
//! in [`crate::access::key_state`].

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use pointsman_config::LimitsConfig;
use pointsman_domain::Usd;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    access::{
        budget::{Budget, Team},
        key_state::{KeyLife, KeyState},
        lease::{LeaseReport, LeaseTerms, Moment},
        leasing::Leasing,
        load::{BufferLimits, KeyBuffer, Load},
        rate_limits::{RateLimits, RequestRate},
    },
    base::error::BudgetHolder,
};

/// State of one account.
pub struct AccountState {
    /// Its limits.
    pub limits: RateLimits,
    /// Its requests to the free pool.
    pub free_pool: RequestRate,
    /// Its spending.
    pub budget: Arc<Budget>,
    /// Its team, if it has one.
    pub team: ArcSwapOption<Team>,
    /// 1: it is disabled. 2: its team is. 0: neither.
    disabled: AtomicU8,
}

impl AccountState {
    /// Which of the account and its team is disabled, so that the keys of the account are refused.
    pub fn disabled(&self) -> Option<BudgetHolder> {
        match self.disabled.load(Ordering::Acquire) {
            1 => Some(BudgetHolder::Account),
            2 => Some(BudgetHolder::Team),
            _ => None,
        }
    }

    /// Refuses the keys of the account because this is disabled, or accepts them.
    pub fn set_disabled(&self, which: Option<BudgetHolder>) {
        let value = match which {
            Some(BudgetHolder::Account) => 1,
            Some(BudgetHolder::Team) => 2,
            _ => 0,
        };
        self.disabled.store(value, Ordering::Release);
    }
}

/// A report of a lease with a name of its budget that is the same on all replicas.
pub type NamedReport = (String, Arc<Budget>, LeaseReport);

/// All of them. One per process.
pub struct Holders {
    load: Arc<Load>,
    keys: Mutex<HashMap<u64, Arc<KeyState>>>,
    accounts: Mutex<HashMap<u64, Arc<AccountState>>>,
    teams: Mutex<HashMap<Arc<str>, Arc<Team>>>,
    /// Whether what was spent before this start is counted.
    is_spending_known: AtomicBool,
    /// With replicas that share spending limits.
    leases: OnceLock<Arc<Leasing>>,
}

impl Holders {
    /// No holders, and the byte limits of `limits`.
    pub fn new(limits: &LimitsConfig) -> Holders {
        Holders {
            load: Load::new(BufferLimits::new(limits)),
            keys: Mutex::default(),
            accounts: Mutex::default(),
            teams: Mutex::default(),
            is_spending_known: AtomicBool::new(true),
            leases: OnceLock::new(),
        }
    }

    /// Load counters of the gateway.
    pub fn load(&self) -> &Arc<Load> {
        &self.load
    }

    /// The key with this number.
    pub fn key(&self, number: u64) -> Arc<KeyState> {
        let new = || {
            Arc::new(KeyState {
                limits: RateLimits::default(),
                budget: self.budget(BudgetHolder::Key),
                buffer: KeyBuffer::new(&self.load),
                life: KeyLife::default(),
            })
        };
        Arc::clone(self.keys.lock().entry(number).or_insert_with(new))
    }

    /// The account with this number.
    pub fn account(&self, number: u64) -> Arc<AccountState> {
        let new = || {
            Arc::new(AccountState {
                limits: RateLimits::default(),
                free_pool: RequestRate::default(),
                budget: self.budget(BudgetHolder::Account),
                team: ArcSwapOption::empty(),
                disabled: AtomicU8::new(0),
            })
        };
        Arc::clone(self.accounts.lock().entry(number).or_insert_with(new))
    }

    /// The team with this name.
    pub fn team(&self, name: &str) -> Arc<Team> {
        let mut teams = self.teams.lock();
        if let Some(team) = teams.get(name) {
            return Arc::clone(team);
        }
        let team = Arc::new(Team { name: name.into(), budget: self.budget(BudgetHolder::Team) });
        teams.insert(Arc::clone(&team.name), Arc::clone(&team));
        team
    }

    /// All teams that were ever named.
    pub fn teams(&self) -> Vec<Arc<Team>> {
        self.teams.lock().values().cloned().collect()
    }

    /// The budgets against which a request of the past counts. `team` is the team that its record names, empty without one.
    pub fn budgets_of(&self, account: u64, key: u64, team: &str) -> Vec<Arc<Budget>> {
        let account = self.account(account);
        let team = (!team.is_empty()).then(|| self.team(team));
        let key = (key != 0).then(|| Arc::clone(&self.key(key).budget));
        let of_team = team.map(|team| Arc::clone(&team.budget));
        [Some(Arc::clone(&account.budget)), key, of_team].into_iter().flatten().collect()
    }

    fn budget(&self, holder: BudgetHolder) -> Arc<Budget> {
        let budget = Budget::new(holder);
        if let Some(leasing) = self.leases.get() {
            budget.lease_by(leasing.terms);
        }
        Arc::new(budget)
    }

    /// Shares all spending limits with other replicas from now on. Called once.
    pub fn lease_by(&self, terms: LeaseTerms) -> Arc<Leasing> {
        let leasing = Arc::clone(self.leases.get_or_init(|| Arc::new(Leasing::new(terms))));
        self.budgets().iter().for_each(|budget| budget.lease_by(terms));
        leasing
    }

    /// How spending limits are shared, if they are.
    pub fn leasing(&self) -> Option<&Arc<Leasing>> {
        self.leases.get()
    }

    /// All budgets.
    pub fn budgets(&self) -> Vec<Arc<Budget>> {
        let mut all: Vec<_> = self.keys.lock().values().map(|key| Arc::clone(&key.budget)).collect();
        all.extend(self.accounts.lock().values().map(|account| Arc::clone(&account.budget)));
        all.extend(self.teams.lock().values().map(|team| Arc::clone(&team.budget)));
        all
    }

    /// All budgets, each with the words for its holder: `key` or `account` with its number, `team` with its name.
    pub fn named_budgets(&self) -> Vec<(String, Arc<Budget>)> {
        let mut all = Vec::new();
        let mut add = |name: String, budget: &Arc<Budget>| all.push((name, Arc::clone(budget)));
        self.keys.lock().iter().for_each(|(number, key)| add(format!("key {number:016x}"), &key.budget));
        let accounts = self.accounts.lock();
        accounts.iter().for_each(|(number, account)| add(format!("account {number:016x}"), &account.budget));
        drop(accounts);
        self.teams.lock().iter().for_each(|(name, team)| add(format!("team {name}"), &team.budget));
        all
    }

    /// What is to be reported of the leases of all budgets.
    pub fn lease_reports(&self, at: Moment, is_forced: bool) -> Vec<NamedReport> {
        let mut all = Vec::new();
        let mut add = |kind: &str, number: u64, budget: &Arc<Budget>| {
            if let Some(report) = budget.report_lease(at, is_forced) {
                all.push((format!("{kind}:{number:016x}"), Arc::clone(budget), report));
            }
        };
        self.keys.lock().iter().for_each(|(number, key)| add("key", *number, &key.budget));
        self.accounts.lock().iter().for_each(|(number, account)| add("account", *number, &account.budget));
        self.teams.lock().iter().for_each(|(name, team)| add("team", number_of("team", name), &team.budget));
        all
    }

    /// Whether what was spent before this start is counted. Until then no request is admitted under a spending limit.
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
        self.teams.lock().values().for_each(|team| team.budget.forget_spent());
    }

    /// Spending of all accounts, ever.
    pub fn total_spent(&self, now_ms: i64) -> Usd {
        self.accounts.lock().values().map(|account| account.budget.read(now_ms).spent.total).sum()
    }
}

/// What a key or an account used of its rate limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HolderUsage {
    /// Number of the key; absent for an account.
    pub key: Option<u64>,
    /// Number of the account; absent for a key.
    pub account: Option<u64>,
    /// Requests.
    pub requests: u32,
    /// Tokens; negative if more was given back.
    pub tokens: i64,
    /// Requests to the free pool.
    pub free: u32,
}

impl HolderUsage {
    fn is_empty(&self) -> bool {
        (self.requests, self.tokens, self.free) == (0, 0, 0)
    }
}

impl Holders {
    /// What keys and accounts with rate limits used since the last call.
    pub fn take_usage(&self) -> Vec<HolderUsage> {
        let of = |limits: &RateLimits| HolderUsage {
            requests: limits.requests.take_unreported(),
            tokens: limits.tokens.take_unreported(),
            ..HolderUsage::default()
        };
        let keys = self.keys.lock();
        let mut all: Vec<_> =
            keys.iter().map(|(key, state)| HolderUsage { key: Some(*key), ..of(&state.limits) }).collect();
        drop(keys);
        let accounts = self.accounts.lock();
        all.extend(accounts.iter().map(|(account, state)| {
            let free = state.free_pool.take_unreported();
            HolderUsage { account: Some(*account), free, ..of(&state.limits) }
        }));
        drop(accounts);
        all.retain(|usage| !usage.is_empty());
        all
    }

    /// Charges the rate limits of a key or an account with what another replica admitted.
    pub fn charge(&self, usage: &HolderUsage) {
        if let Some(key) = usage.key.and_then(|key| self.keys.lock().get(&key).cloned()) {
            key.limits.requests.charge(usage.requests);
            key.limits.tokens.charge(usage.tokens);
        }
        if let Some(account) = usage.account.and_then(|account| self.accounts.lock().get(&account).cloned()) {
            account.limits.requests.charge(usage.requests);
            account.limits.tokens.charge(usage.tokens);
            account.free_pool.charge(usage.free);
        }
    }
}

/// Number of the account with this name. It has nothing to do with the digests of its keys.
pub fn account_number(name: &str) -> u64 {
    number_of("account", name)
}

/// Number of the configured key with this name.
pub fn key_number(name: &str) -> u64 {
    number_of("key", name)
}

fn number_of(kind: &str, name: &str) -> u64 {
    let digest: [u8; 32] = Sha256::digest(format!("{kind}\n{name}")).into();
    // 0 is the anonymous caller.
    digest.first_chunk::<8>().map_or(1, |head| u64::from_be_bytes(*head).max(1))
}
