//! State of a key that lasts as long as the process: usage of its limits, spending, calls, and how it was switched.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering},
};

use crate::{
    access::{budget::Budget, load::KeyBuffer, rate_limits::RateLimits},
    base::clock,
};

/// State of one key.
pub struct KeyState {
    /// Its limits.
    pub limits: RateLimits,
    /// Its spending.
    pub budget: Arc<Budget>,
    /// Its buffered bytes.
    pub buffer: Arc<KeyBuffer>,
    /// Its calls, and whether an administrator switched it.
    pub life: KeyLife,
}

/// Calls of a key since the process started, and whether an administrator switched it.
#[derive(Debug, Default)]
pub struct KeyLife {
    /// A [`KeySwitch`].
    switch: AtomicU8,
    calls: AtomicU64,
    /// Unix milliseconds; 0: never.
    last_call_ms: AtomicI64,
}

/// How an administrator switched a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum KeySwitch {
    /// Not at all.
    AsConfigured,
    Off,
    On,
    /// Off, and that may not be stored.
    RefusedUnstored,
}

impl KeySwitch {
    fn of(on: Option<bool>) -> KeySwitch {
        match on {
            None => KeySwitch::AsConfigured,
            Some(false) => KeySwitch::Off,
            Some(true) => KeySwitch::On,
        }
    }

    const fn is_on(self) -> Option<bool> {
        match self {
            KeySwitch::AsConfigured => None,
            KeySwitch::Off | KeySwitch::RefusedUnstored => Some(false),
            KeySwitch::On => Some(true),
        }
    }
}

impl KeyLife {
    /// Switches the key off or on, whatever the configuration says; `None` leaves it to the configuration. A refused key
    /// stays refused.
    pub fn switch(&self, on: Option<bool>) {
        let to = |before: u8| (before != KeySwitch::RefusedUnstored as u8).then_some(KeySwitch::of(on) as u8);
        let _ = self.switch.fetch_update(Ordering::AcqRel, Ordering::Acquire, to);
    }

    /// Refuses the key until [`KeyLife::settle`]: an administrator wants that, and it may not be stored.
    pub fn refuse(&self) {
        self.switch.store(KeySwitch::RefusedUnstored as u8, Ordering::Release);
    }

    /// Switches the key as [`KeyLife::switch`] does, also if it is refused: what an administrator wants is stored.
    pub fn settle(&self, on: Option<bool>) {
        self.switch.store(KeySwitch::of(on) as u8, Ordering::Release);
    }

    /// How an administrator switched the key, if one did.
    #[must_use]
    pub fn switched(&self) -> Option<bool> {
        let now = self.switch.load(Ordering::Acquire);
        let switches = [KeySwitch::Off, KeySwitch::On, KeySwitch::RefusedUnstored];
        switches.into_iter().find(|switch| *switch as u8 == now).and_then(KeySwitch::is_on)
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
