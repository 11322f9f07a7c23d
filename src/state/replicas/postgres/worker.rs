//! The loop that exchanges records and changes with PostgreSQL.

use std::{sync::Arc, time::Duration};

use pointsman_base::clock;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout},
};
use tokio_postgres::{Client, types::Type};

use super::{
    changes::Changes,
    records::Sender,
    session::{Parameter, PostgresFault, Server, Session},
    sources::Sources,
    sums::{self, Sums},
};
use crate::state::replicas::shared_log::SharedLog;

/// Longest time for one exchange.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest time between two attempts to connect.
const LONGEST_RETRY: Duration = Duration::from_secs(1);
/// Time between two deletions of old records, and most of one statement.
const RETENTION_INTERVAL: Duration = Duration::from_secs(600);
const DELETED_AT_ONCE: i64 = 10_000;
/// Longest time that the end of the process waits for the last records.
const LAST_TIMEOUT: Duration = Duration::from_secs(3);

/// The time to which the ages of what all replicas share are counted, Unix milliseconds: the earlier of the clocks of the server
/// and of this replica, because what is deleted does not come back.
async fn common_time(client: &Client) -> Result<i64, PostgresFault> {
    let servers = "select (extract(epoch from clock_timestamp()) * 1000)::bigint";
    Ok(client.query_typed_one(servers, &[]).await?.get::<_, i64>(0).min(clock::unix_millis()))
}

/// The loop.
pub struct Worker {
    sources: Sources,
    server: Server,
    /// A change waits to be sent.
    wake: Arc<Notify>,
    sender: Sender,
    sums: Sums,
    changes: Changes,
    retention_at: Option<Instant>,
}

impl Worker {
    /// A worker that has not connected yet.
    pub fn new(sources: Sources, server: Server, log: SharedLog, wake: Arc<Notify>) -> Worker {
        let (sender, sums, changes) = (Sender::default(), Sums::default(), Changes::new(log));
        Worker { sources, server, wake, sender, sums, changes, retention_at: None }
    }

    /// Exchanges until `stop`, and once more then.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut session: Option<Session> = None;
        let mut wait = self.sources.every;
        let mut last_by: Option<Instant> = None;
        loop {
            let stopping = *stop.borrow();
            // The gateway was dropped: nobody is left who could stop this loop, and waiting for a stop would not wait.
            if !stopping && stop.has_changed().is_err() {
                return;
            }
            if stopping && (session.is_none() || last_by.is_some_and(|by| by <= Instant::now())) {
                return;
            }
            if stopping {
                last_by.get_or_insert_with(|| {
                    self.sums.hurry();
                    Instant::now() + LAST_TIMEOUT
                });
            }
            let done = timeout(if stopping { LAST_TIMEOUT } else { EXCHANGE_TIMEOUT }, self.step(&mut session));
            let pause = match done.await.unwrap_or(Err(PostgresFault::Timeout)) {
                Ok(more) => {
                    self.sources.status.reached();
                    wait = self.sources.every;
                    if more { Duration::ZERO } else { self.sources.every }
                }
                // The disk of this replica fails: PostgreSQL has no part in it.
                Err(PostgresFault::Ledger(fault)) => {
                    log::debug!("records wait for PostgreSQL: {fault}");
                    self.sources.every
                }
                Err(fault) => {
                    self.sources.status.lost(&fault);
                    session = None;
                    wait = (wait * 2).min(LONGEST_RETRY);
                    wait
                }
            };
            let changes = self.changes.waiting(&self.sources.registry);
            self.sources.status.set_waiting(self.sender.waiting(&self.sources.ledger) + changes);
            if stopping && !pause.is_zero() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.wake.notified() => {}
                _ = stop.changed() => {}
            }
        }
    }

    /// One exchange. Gives whether there is more.
    async fn step(&mut self, session: &mut Option<Session>) -> Result<bool, PostgresFault> {
        let sources = &self.sources;
        let open = match session {
            Some(open) => open,
            None => {
                self.changes.reconnected();
                self.sender.reconnected();
                self.sums.reconnected();
                session.insert(self.server.open().await?)
            }
        };
        // Keys first: a revocation does not wait for records.
        let more = self.changes.exchange(&mut open.client, sources).await?;
        let sent = self.sender.send(&mut open.client, &mut self.sums, sources).await?;
        sources.status.count(sent.records);
        let more = self.sums.send(&open.client, sources).await? || more;
        if self.retention_at.is_none_or(|at| at <= Instant::now()) {
            let age_ms = i64::try_from(sources.max_age.as_millis()).unwrap_or(i64::MAX);
            let now_ms = common_time(&open.client).await?;
            let before_ms = now_ms.saturating_sub(age_ms);
            let delete = "delete from pointsman_records where id in
                          (select id from pointsman_records where created_ms < $1 limit $2)";
            let parameters: [Parameter<'_>; 2] = [(&before_ms, Type::INT8), (&DELETED_AT_ONCE, Type::INT8)];
            let deleted = open.client.execute_typed(delete, &parameters).await?;
            sums::retain(&open.client, now_ms).await?;
            let pause = if deleted < DELETED_AT_ONCE as u64 { RETENTION_INTERVAL } else { sources.every };
            self.retention_at = Some(Instant::now() + pause);
        }
        Ok(more || sent.more)
    }
}
