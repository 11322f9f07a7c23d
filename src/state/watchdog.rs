//! Noticing that a control actor is gone, and having it replaced.
//!
//! An actor that panicked does not come back by itself, whatever supervises it. So each is asked for a sign of life
//! again and again; one that is gone is replaced, with what it knew. One that is there and silent cannot be helped from
//! here: readiness says so, and so does the log. Routers are looked after by the [`crate::state::gateway::WorkerHandle`] of their own
//! thread, because nobody else can start an actor there.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use actix::{Actor, Addr, Handler, MailboxError, Message, dev::ToEnvelope};
use actix_rt::task::JoinHandle;
use pointsman_actors::actors::{catalog::CurrentCatalog, ledger::CountRecords, provider_health::Ping};

use crate::{
    base::{
        clock,
        events::{ActorReplaced, ActorSilent},
    },
    state::{
        control::{Forget, ROUND},
        gateway::Shared,
    },
};

/// An actor that takes longer to answer is stuck: the slowest of its messages takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// An owner of the statistics that died this often within [`HABIT_WINDOW`] dies of what it knows.
const HABIT: usize = 3;
const HABIT_WINDOW: Duration = Duration::from_secs(60);

/// Watches the control actors until aborted or the gateway is gone.
pub(crate) fn start(shared: &Arc<Shared>) -> JoinHandle<()> {
    actix_rt::spawn(watch(Arc::downgrade(shared)))
}

async fn watch(shared: Weak<Shared>) {
    let mut deaths = VecDeque::new();
    loop {
        actix_rt::time::sleep(ROUND).await;
        let Some(shared) = shared.upgrade() else { return };
        look_after_all(&shared, &mut deaths).await;
    }
}

/// How an actor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Well,
    Silent,
    Gone,
}

async fn look_after_all(shared: &Shared, deaths: &mut VecDeque<Instant>) {
    let control = &shared.control;
    let (catalog, health, ledger) = (control.catalog(), control.health(), control.ledger());
    let now_ms = clock::unix_millis();
    let (catalog, health, ledger) = futures_util::join!(
        condition(&catalog, CurrentCatalog),
        condition(&health, Ping),
        condition(&ledger, CountRecords { now_ms }),
    );
    for (actor, condition) in [("catalog", catalog), ("health", health), ("ledger", ledger)] {
        match condition {
            Condition::Well => {}
            Condition::Silent => ActorSilent { actor, patience: PATIENCE }.emit(&shared.metrics),
            Condition::Gone => {
                replace(shared, actor, deaths).await;
                ActorReplaced { actor }.emit(&shared.metrics);
            }
        }
    }
}

async fn condition<A, Q>(actor: &Addr<A>, question: Q) -> Condition
where
    A: Actor + Handler<Q>,
    A::Context: ToEnvelope<A, Q>,
    Q: Message + Send + 'static,
    Q::Result: Send,
{
    match actor.send(question).timeout(PATIENCE).await {
        Ok(_) => Condition::Well,
        Err(MailboxError::Timeout) => Condition::Silent,
        Err(MailboxError::Closed) => Condition::Gone,
    }
}

async fn replace(shared: &Shared, actor: &str, deaths: &mut VecDeque<Instant>) {
    // Not while another configuration is taken over: catalog and statistics change sides together.
    let _alone = shared.reloads.alone().await;
    let setup = shared.setup.load_full();
    match actor {
        "catalog" => shared.control.replace_catalog(&setup),
        "health" => shared.control.replace_health(&setup, habit(deaths, Instant::now()), &shared.news_room),
        _ => shared.control.replace_ledger(&setup, &shared.news_room),
    }
}

/// Enters a death at `now`; whether the next one had better begin from nothing.
fn habit(deaths: &mut VecDeque<Instant>, now: Instant) -> Forget {
    deaths.push_back(now);
    while deaths.front().is_some_and(|death| now.duration_since(*death) > HABIT_WINDOW) {
        deaths.pop_front();
    }
    if deaths.len() < HABIT {
        return Forget::Nothing;
    }
    deaths.clear();
    Forget::Everything
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_given_up_at_the_third_death_within_a_minute() {
        let start = Instant::now();
        let mut deaths = VecDeque::new();
        let mut at = |seconds| habit(&mut deaths, start + Duration::from_secs(seconds));
        assert_eq!([at(0), at(50), at(100)], [Forget::Nothing; 3], "never three within a minute");
        assert_eq!(at(105), Forget::Everything);
        assert_eq!(at(106), Forget::Nothing, "counted anew");
    }
}
