//! Detects stopped control actors and replaces them.
//!
//! An actor that panicked is not restarted by actix, so the watchdog sends a message to each actor at regular intervals.
//! A stopped actor is replaced and keeps its data. An actor that runs but does not answer cannot be replaced: it is
//! reported by readiness and in the log. Routers are checked by the [`crate::state::gateway::WorkerHandle`] of their
//! own thread, because an actor can only be started on the thread it runs on.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use actix::{Actor, Addr, Handler, MailboxError, Message, dev::ToEnvelope};
use actix_rt::task::JoinHandle;
use pointsman_actors::{
    catalog::CurrentCatalog,
    ledger::{CountRecords, CountShed},
    provider_health::Ping,
};
use pointsman_base::clock;

use crate::{
    base::service_manager,
    state::{
        control::{CHECK_INTERVAL, HealthRestart},
        gateway::Shared,
    },
};

/// Longest wait for an answer. An actor that takes longer is stuck: its slowest message takes milliseconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// After this many stops of the health actor within [`STOP_WINDOW`] its statistics are assumed to be the cause.
const MAX_STOPS: usize = 3;
const STOP_WINDOW: Duration = Duration::from_secs(60);

/// Watches the control actors until the task is aborted or the gateway is dropped.
pub(crate) fn start(shared: &Arc<Shared>) -> JoinHandle<()> {
    actix_rt::spawn(watch(Arc::downgrade(shared)))
}

async fn watch(shared: Weak<Shared>) {
    let (mut stops, mut shed_before) = (VecDeque::new(), 0);
    loop {
        actix_rt::time::sleep(CHECK_INTERVAL).await;
        let Some(shared) = shared.upgrade() else { return };
        count_shed(&shared, &mut shed_before);
        check_all(&shared, &mut stops).await;
        service_manager::alive();
    }
}

/// Tells the ledger how many calls were refused since the last time; it counts them in the series.
fn count_shed(shared: &Shared, before: &mut u64) {
    let shed = shared.access.registry.holders.load().read().shed.iter().map(|(_, count)| count).sum();
    let calls = u32::try_from(u64::saturating_sub(shed, *before)).unwrap_or(u32::MAX);
    *before = shed;
    if calls > 0 {
        shared.actors.control.ledger().do_send(CountShed { calls, now_ms: clock::unix_millis() });
    }
}

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Responsive,
    Silent,
    Stopped,
}

async fn check_all(shared: &Shared, stops: &mut VecDeque<Instant>) {
    let control = &shared.actors.control;
    let (catalog, health, ledger) = (control.catalog(), control.health(), control.ledger());
    let now_ms = clock::unix_millis();
    let (catalog, health, ledger) = futures_util::join!(
        condition(&catalog, CurrentCatalog),
        condition(&health, Ping),
        condition(&ledger, CountRecords { now_ms }),
    );
    for (actor, condition) in [("catalog", catalog), ("health", health), ("ledger", ledger)] {
        match condition {
            Condition::Responsive => {}
            Condition::Silent => shared.process.metrics.actor_silent(actor, ANSWER_TIMEOUT),
            Condition::Stopped => {
                replace(shared, actor, stops).await;
                shared.process.metrics.actor_replaced(actor);
            }
        }
    }
}

async fn condition<A, M>(actor: &Addr<A>, message: M) -> Condition
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    match actor.send(message).timeout(ANSWER_TIMEOUT).await {
        Ok(_) => Condition::Responsive,
        Err(MailboxError::Timeout) => Condition::Silent,
        Err(MailboxError::Closed) => Condition::Stopped,
    }
}

async fn replace(shared: &Shared, actor: &str, stops: &mut VecDeque<Instant>) {
    // No reload may run meanwhile: it replaces the catalogs of all actors together.
    let _guard = shared.process.reloads.lock().await;
    let setup = shared.setup.load_full();
    match actor {
        "catalog" => shared.actors.control.replace_catalog(&setup),
        "health" => {
            let mode = restart_mode(stops, Instant::now());
            shared.actors.control.replace_health(&setup, mode, &shared.actors.event_batchers);
            shared.records.feedback.publish_again();
        }
        _ => shared.actors.control.replace_ledger(&setup, &shared.actors.event_batchers),
    }
}

/// Records a stop of the health actor at `now`, and decides which statistics its successor starts with.
fn restart_mode(stops: &mut VecDeque<Instant>, now: Instant) -> HealthRestart {
    stops.push_back(now);
    while stops.front().is_some_and(|stop| now.duration_since(*stop) > STOP_WINDOW) {
        stops.pop_front();
    }
    if stops.len() < MAX_STOPS {
        return HealthRestart::KeepStatistics;
    }
    stops.clear();
    HealthRestart::ResetStatistics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statistics_are_reset_at_the_third_stop_within_a_minute() {
        let start = Instant::now();
        let mut stops = VecDeque::new();
        let mut at = |seconds| restart_mode(&mut stops, start + Duration::from_secs(seconds));
        assert_eq!([at(0), at(50), at(100)], [HealthRestart::KeepStatistics; 3], "never three within a minute");
        assert_eq!(at(105), HealthRestart::ResetStatistics);
        assert_eq!(at(106), HealthRestart::KeepStatistics, "the count starts again");
    }
}
