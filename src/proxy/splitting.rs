//! By what a request falls to a part of a divided alias: its conversation, user or key, and its tags.

use std::time::Duration;

use pointsman_dialect::ChatRequest;
use pointsman_domain::{Alias, AliasSplit, Generation, SessionOpening, StickyBy};
use pointsman_routing::split::{Drawn, guard::Ended, likeliest_place, matching_rule, place};

use crate::{
    access::keys::Caller,
    base::events,
    state::{canaries::Canaries, gateway::Worker},
};

/// Counts a request of a divided alias that ended. What is refused for a fault of the request or a limit of its key has no
/// record, and so counts for no part.
pub(crate) fn count_ended(worker: &Worker, record: &Generation) {
    let Some(taken) = &record.decision.split else { return };
    #[expect(clippy::disallowed_methods, reason = "means of spending are compared, nothing is billed")]
    let spend = record.known_spending().to_f64();
    let ended =
        Ended { failed: record.status.is_failure(), spend, first_token: record.latency_ms.map(Duration::from_millis) };
    if let Some((alias, breach)) = worker.shared.records.canaries.ended(&record.catalog, taken, ended) {
        events::CanaryFellBack { alias: &alias, breach }.emit();
    }
}

/// Who asks, as far as the parts of a divided alias depend on it.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// The session that the request names.
    pub session: Option<&'a str>,
    /// The beginning of its conversation.
    pub opening: Option<SessionOpening>,
    /// Its `user`.
    pub user: Option<&'a str>,
    /// Its tags.
    pub tags: &'a [(String, String)],
    /// Which canaries have fallen back.
    pub canaries: &'a Canaries,
    /// Whether the request is to be served, so that a place is drawn where nothing tells one. A preview takes the most probable
    /// part.
    pub is_served: bool,
}

impl<'a> Asker<'a> {
    /// The asker of a chat that is not served.
    pub(crate) fn of_preview(chat: &'a ChatRequest, session: Option<&'a str>, worker: &'a Worker) -> Asker<'a> {
        Asker {
            session,
            opening: chat.opening,
            user: chat.user.as_deref(),
            tags: &chat.tags,
            canaries: &worker.shared.records.canaries,
            is_served: false,
        }
    }

    /// What decides about the part of `alias`.
    pub(crate) fn drawn(&self, caller: &Caller, alias: &Alias, split: &AliasSplit) -> Drawn {
        let canary = split.canary.as_ref();
        let canary_stopped = canary.is_some_and(|canary| self.canaries.has_stopped(&alias.id, canary));
        let at = |key: &[u8]| place(&alias.id, caller.owner, key);
        let (sticky, place) = match self.key(split.sticky, caller) {
            Some((sticky, key)) => (sticky, at(&key)),
            None if self.is_served => (StickyBy::Request, self.canaries.draw()),
            None => (StickyBy::Request, likeliest_place(split, canary_stopped)),
        };
        Drawn { sticky, place, rule: matching_rule(split, self.tags), canary_stopped }
    }

    /// What the request has of what is to stay together.
    fn key(&self, sticky: StickyBy, caller: &Caller) -> Option<(StickyBy, Vec<u8>)> {
        let text = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(|text| text.as_bytes().to_vec());
        let session = || {
            let opening = || Some(self.opening?.conversation.to_le_bytes().to_vec());
            Some((StickyBy::Session, text(self.session).or_else(opening)?))
        };
        match sticky {
            StickyBy::Request => None,
            StickyBy::Key => Some((StickyBy::Key, caller.id.to_le_bytes().to_vec())),
            StickyBy::Session => session(),
            StickyBy::User => text(self.user).map(|user| (StickyBy::User, user)).or_else(session),
        }
    }
}
