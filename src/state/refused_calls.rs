//! The inference calls that were refused last: they have no generation, and so no record.
//!
//! Memory only, of this process, and bounded: a refusal costs a lock and a place in a ring. It holds no body and no prompt.
//! Calls without a valid key have a ring of their own, so that nobody from outside can push out those of keys, not even with
//! a key that is disabled. Times are arguments.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;

use crate::access::keys::Caller;

/// Calls of keys that are kept.
pub const MOST_OF_KEYS: usize = 1_000;
/// Calls without a valid key that are kept.
pub const MOST_OF_OTHERS: usize = 200;
/// Status of a call whose key was refused.
const UNAUTHORIZED: u16 = 401;

/// A refused call.
#[derive(Clone)]
pub struct RefusedCall {
    /// When. Unix milliseconds.
    pub at_ms: i64,
    /// Status of the answer.
    pub status: u16,
    /// Reason of the error.
    pub reason: &'static str,
    /// The caller, also if its key was refused; `None` without a key of this gateway.
    pub caller: Option<Arc<Caller>>,
    /// The team that the caller's account was in.
    pub team: Option<Arc<str>>,
    /// The model that was asked for, cut; `None` if the call was refused before its body was read.
    pub model: Option<Box<str>>,
    /// Id of the request.
    pub request_id: Arc<str>,
}

/// The last of them. One per process.
#[derive(Default)]
pub struct RefusedCalls(Mutex<Rings>);

#[derive(Default)]
struct Rings {
    of_keys: VecDeque<RefusedCall>,
    of_others: VecDeque<RefusedCall>,
}

impl RefusedCalls {
    /// Enters a call in the place of the oldest one.
    pub fn enter(&self, call: RefusedCall) {
        let mut rings = self.0.lock();
        let Rings { of_keys, of_others } = &mut *rings;
        let is_valid = call.caller.is_some() && call.status != UNAUTHORIZED;
        let (ring, most) = if is_valid { (of_keys, MOST_OF_KEYS) } else { (of_others, MOST_OF_OTHERS) };
        let oldest = if ring.len() >= most { ring.pop_front() } else { None };
        ring.push_back(call);
        drop(rings);
        // Freed without the lock.
        drop(oldest);
    }

    /// How many there were since `since_ms`, and whether there were more, which had to make room.
    pub fn count_since(&self, since_ms: i64) -> (usize, bool) {
        let rings = self.0.lock();
        let rings = [(&rings.of_keys, MOST_OF_KEYS), (&rings.of_others, MOST_OF_OTHERS)];
        rings.into_iter().fold((0, false), |(count, is_cut), (ring, most)| {
            let recent = ring.iter().rev().take_while(|call| call.at_ms >= since_ms).count();
            (count + recent, is_cut || recent >= most)
        })
    }

    /// Times and reasons of those since `since_ms`, in no order.
    pub fn reasons_since(&self, since_ms: i64) -> Vec<(i64, &'static str)> {
        let rings = self.0.lock();
        let recent = |ring: &VecDeque<RefusedCall>| {
            let recent = ring.iter().rev().take_while(|call| call.at_ms >= since_ms);
            recent.map(|call| (call.at_ms, call.reason)).collect::<Vec<_>>()
        };
        [&rings.of_keys, &rings.of_others].into_iter().flat_map(recent).collect()
    }

    /// The calls that pass, newest first, at most `most`.
    pub fn newest(&self, most: usize, passes: impl Fn(&RefusedCall) -> bool) -> Vec<RefusedCall> {
        let rings = self.0.lock();
        let mut calls: Vec<RefusedCall> = rings
            .of_others
            .iter()
            .rev()
            .chain(rings.of_keys.iter().rev())
            .filter(|call| passes(call))
            .cloned()
            .collect();
        drop(rings);
        // Both are in order, so that sorting is merging.
        calls.sort_by_key(|call| std::cmp::Reverse(call.at_ms));
        calls.truncate(most);
        calls
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pointsman_config::{Config, Key};

    use super::*;
    use crate::access::registry::Registry;

    fn caller() -> Arc<Caller> {
        pointsman_base::clock::start();
        let environment = Vec::<(String, String)>::new().into_iter().collect();
        let config = Config::parse("", "test", Path::new("."), &environment).unwrap();
        let registry = Registry::new(&config.limits, None, &[]).unwrap();
        Arc::new(registry.configured_caller(&Key::anonymous()))
    }

    fn call(at_ms: i64, caller: Option<&Arc<Caller>>) -> RefusedCall {
        let caller = caller.cloned();
        RefusedCall {
            at_ms,
            status: 429,
            reason: "key_limit",
            caller,
            team: None,
            model: None,
            request_id: "req".into(),
        }
    }

    #[test]
    fn the_newest_calls_are_kept_and_strangers_push_out_nobody() {
        let (calls, caller) = (RefusedCalls::default(), caller());
        for at_ms in 0..2_000 {
            calls.enter(call(at_ms, Some(&caller)));
        }
        for at_ms in 2_000..9_000 {
            // Every other one has a key, which is disabled.
            let caller = (at_ms % 2 == 0).then_some(&caller);
            calls.enter(RefusedCall { status: UNAUTHORIZED, ..call(at_ms, caller) });
        }
        let all = calls.newest(usize::MAX, |_| true);
        assert_eq!(all.len(), MOST_OF_KEYS + MOST_OF_OTHERS);
        assert_eq!((all[0].at_ms, all[all.len() - 1].at_ms), (8_999, 1_000));
        assert_eq!(calls.count_since(8_990), (10, false));
        assert_eq!(calls.reasons_since(8_999), [(8_999, "key_limit")]);
        assert_eq!(calls.count_since(0), (MOST_OF_KEYS + MOST_OF_OTHERS, true));
        let of_keys = calls.newest(2, |call| call.status != UNAUTHORIZED);
        assert_eq!(of_keys.iter().map(|call| call.at_ms).collect::<Vec<_>>(), [1_999, 1_998]);
    }
}
