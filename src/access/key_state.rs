//! State of a key that lasts as long as the process: usage of its limits, spending, calls, and how it was switched.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering},
};

use crate::access::{budget::Budget, load::KeyBuffer, rate_limits::RateLimits};

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

/// Statuses of errors that are counted one by one.
const ERROR_STATUSES: [u16; 15] = [400, 402, 403, 404, 405, 408, 409, 413, 415, 422, 429, 500, 502, 503, 504];

/// Calls of a key since the process started, and whether an administrator switched it.
#[derive(Debug, Default)]
pub struct KeyLife {
    /// A [`KeySwitch`].
    switch: AtomicU8,
    calls: AtomicU64,
    /// Answers with each of [`ERROR_STATUSES`], and last with any other status of an error.
    errors: [AtomicU64; ERROR_STATUSES.len() + 1],
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
    pub fn switched(&self) -> Option<bool> {
        let now = self.switch.load(Ordering::Acquire);
        let switches = [KeySwitch::Off, KeySwitch::On, KeySwitch::RefusedUnstored];
        switches.into_iter().find(|switch| *switch as u8 == now).and_then(KeySwitch::is_on)
    }

    /// Counts a call that was admitted at this time, Unix milliseconds.
    pub fn called(&self, now_ms: i64) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.last_call_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Counts an answer, if it is an error.
    pub fn answered(&self, status: u16) {
        if status >= 400 {
            let place = ERROR_STATUSES.iter().position(|known| *known == status).unwrap_or(ERROR_STATUSES.len());
            if let Some(count) = self.errors.get(place) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The statuses of errors that the key was answered with, and how often; other statuses than the common ones together,
    /// without a status.
    pub fn errors(&self) -> impl Iterator<Item = (Option<u16>, u64)> + '_ {
        let statuses = ERROR_STATUSES.into_iter().map(Some).chain([None]);
        let counts = self.errors.iter().map(|count| count.load(Ordering::Relaxed));
        statuses.zip(counts).filter(|(_, count)| *count > 0)
    }

    /// Number of admitted calls.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Time of the last admitted call, in Unix milliseconds.
    pub fn last_call_ms(&self) -> Option<i64> {
        Some(self.last_call_ms.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_their_status_and_rare_ones_together() {
        let life = KeyLife::default();
        for status in [200, 429, 304, 503, 429, 418, 431] {
            life.answered(status);
        }
        assert_eq!(life.errors().collect::<Vec<_>>(), [(Some(429), 2), (Some(503), 1), (None, 2)]);
    }
}
