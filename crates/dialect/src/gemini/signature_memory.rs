//! Signatures of calls for clients that drop whatever reasoning an answer has.
//!
//! The model wants the signature of a call back with the call. A client that keeps nothing but the call still returns its id,
//! by which the signature is found here. It is a help and no promise: what is forgotten is replaced by a stand-in.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use pointsman_domain::Tick;

use crate::neutral::EscapedText;

/// Most bytes of all entries.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Time that an entry is kept.
const LIFETIME: Duration = Duration::from_hours(1);
/// What an entry takes beside its texts, estimated.
const ENTRY_BYTES: usize = 128;

/// The signatures of one process by the ids of their calls. Never written to a disk.
#[derive(Default)]
pub struct SignatureMemory(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    by_id: HashMap<Arc<[u8]>, Entry>,
    /// The ids in the order in which they came, with their times.
    order: VecDeque<(Arc<[u8]>, Tick)>,
    bytes: usize,
}

struct Entry {
    signature: EscapedText<'static>,
    at: Tick,
}

impl fmt::Debug for SignatureMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignatureMemory")
    }
}

/// The memory at the time of a request.
#[derive(Debug, Clone)]
pub struct RememberedSignatures {
    memory: Arc<SignatureMemory>,
    now: Tick,
}

impl RememberedSignatures {
    /// The memory at `now`.
    pub fn at(memory: &Arc<SignatureMemory>, now: Tick) -> RememberedSignatures {
        RememberedSignatures { memory: Arc::clone(memory), now }
    }

    /// Remembers the signature of the call with this id.
    pub(super) fn keep(&self, id: &EscapedText<'_>, signature: &EscapedText<'_>) {
        self.memory.0.lock().keep(id.bytes(), signature, self.now);
    }

    /// The signature of the call with this id, unless it is forgotten.
    pub(super) fn find(&self, id: &EscapedText<'_>) -> Option<EscapedText<'static>> {
        let entries = self.memory.0.lock();
        let entry = entries.by_id.get(id.bytes())?;
        (self.now.since(entry.at) <= LIFETIME).then(|| entry.signature.clone())
    }
}

impl Entries {
    fn keep(&mut self, id: &[u8], signature: &EscapedText<'_>, now: Tick) {
        self.remove(id);
        let id: Arc<[u8]> = id.into();
        self.bytes += size(&id, signature);
        self.order.push_back((Arc::clone(&id), now));
        self.by_id.insert(id, Entry { signature: signature.clone().into_owned(), at: now });
        while let Some((oldest, at)) = self.order.front()
            && (self.bytes > MAX_BYTES || now.since(*at) > LIFETIME || !self.is_current(oldest, *at))
        {
            let (oldest, at) = (Arc::clone(oldest), *at);
            self.order.pop_front();
            if self.is_current(&oldest, at) {
                self.remove(&oldest);
            }
        }
    }

    /// Whether an element of the order is the last of its id.
    fn is_current(&self, id: &[u8], at: Tick) -> bool {
        self.by_id.get(id).is_some_and(|entry| entry.at == at)
    }

    fn remove(&mut self, id: &[u8]) {
        if let Some(entry) = self.by_id.remove(id) {
            self.bytes = self.bytes.saturating_sub(size(id, &entry.signature));
        }
    }
}

fn size(id: &[u8], signature: &EscapedText<'_>) -> usize {
    2 * id.len() + signature.bytes().len() + ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> EscapedText<'_> {
        EscapedText::plain(text)
    }

    #[test]
    fn a_signature_is_found_by_its_call_until_its_time_is_over() {
        let memory = Arc::default();
        let at = |seconds: u64| RememberedSignatures::at(&memory, Tick(seconds * 1_000_000));
        at(0).keep(&text("a"), &text("one"));
        at(9).keep(&text("a"), &text("two"));
        assert_eq!(at(10).find(&text("a")), Some(text("two").into_owned()));
        assert_eq!(at(10).find(&text("b")), None);
        assert_eq!(at(3_609).find(&text("a")), Some(text("two").into_owned()));
        assert_eq!(at(3_610).find(&text("a")), None);
        at(3_610).keep(&text("b"), &text("three"));
        let entries = memory.0.lock();
        assert_eq!((entries.by_id.len(), entries.order.len()), (1, 1), "what is over is not kept either");
    }

    #[test]
    fn the_oldest_make_room_for_the_newest() {
        let memory = Arc::default();
        let long = "s".repeat(60_000);
        let remembered = RememberedSignatures::at(&memory, Tick(1));
        for number in 0..1_000 {
            remembered.keep(&text(&format!("call_{number}")), &text(&long));
        }
        assert!(memory.0.lock().bytes <= MAX_BYTES);
        assert!(remembered.find(&text("call_999")).is_some() && remembered.find(&text("call_0")).is_none());
        // The same call again and again takes no room.
        let bytes = memory.0.lock().bytes;
        (0..1_000).for_each(|_| remembered.keep(&text("call_999"), &text(&long)));
        assert!(memory.0.lock().bytes <= bytes && memory.0.lock().order.len() < 2_000);
    }
}
