//! The loop that reports to Redis.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use pointsman_base::clock;
use pointsman_config::SharedConfig;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use super::{
    connection::{RedisFault, Server, Session},
    leases::Leases,
    usage,
};
use crate::{
    access::{lease::LeaseTerms, leasing::Leasing, registry::Registry},
    state::replicas::{HealthPort, status::StoreStatus},
};

/// Longest time for one exchange.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest time between two attempts to connect.
const LONGEST_RETRY: Duration = Duration::from_millis(500);

/// Least time between two exchanges, however many requests wait for a lease.
const LEAST_PAUSE: Duration = Duration::from_millis(10);
/// Time between two messages about open breakers.
const HINT_INTERVAL: Duration = Duration::from_secs(1);

/// The loop.
pub struct Worker {
    server: Server,
    status: Arc<StoreStatus>,
    registry: Arc<Registry>,
    leasing: Arc<Leasing>,
    leases: Leases,
    channel: String,
    run: u64,
    every: Duration,
    health: Arc<OnceLock<HealthPort>>,
    hinted_at: Option<Instant>,
}

impl Worker {
    /// A worker that has not connected yet. All spending limits are leased from now on.
    pub fn new(
        server: Server,
        config: &SharedConfig,
        node: &str,
        (channel, run): (String, u64),
        registry: Arc<Registry>,
        (status, health): (Arc<StoreStatus>, Arc<OnceLock<HealthPort>>),
    ) -> Worker {
        let block_ppm = (config.budget_block * 1_000_000.0) as u32;
        let leasing = registry.holders.lease_by(LeaseTerms { block_ppm, usable: config.lease_expiry / 2 });
        let leases = Leases::new(node, &config.prefix, config.lease_expiry, Arc::clone(&leasing));
        Worker {
            server,
            status,
            registry,
            leasing,
            leases,
            channel,
            run,
            every: config.sync_every,
            health,
            hinted_at: None,
        }
    }

    /// Reports until `stop`, and once more then.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut session: Option<Session> = None;
        let mut reported_at = Instant::now();
        loop {
            let stopping = *stop.borrow();
            // The gateway was dropped: nobody is left who could stop this loop, and waiting for a stop would not wait.
            if !stopping && stop.has_changed().is_err() {
                return;
            }
            if stopping {
                self.leases.give_back(&self.registry.holders);
            }
            // A new connection begins with the claim of the name.
            let is_time = stopping || session.is_none() || reported_at <= Instant::now();
            if is_time {
                reported_at = Instant::now() + self.every;
            }
            let done = timeout(EXCHANGE_TIMEOUT, self.step(&mut session, is_time)).await;
            match done.unwrap_or(Err(RedisFault::Timeout)) {
                Ok(leases) => {
                    self.status.reached();
                    self.status.count(leases);
                }
                Err(fault) => {
                    self.status.lost(&fault);
                    session = None;
                    self.registry.holders.budgets().iter().for_each(|budget| budget.cut_off_lease());
                    self.leasing.answered(false);
                }
            }
            if stopping {
                if let Some(open) = &mut session {
                    self.leases.leave_name(&mut open.connection).await;
                }
                return;
            }
            let pause = if session.is_some() { self.every } else { self.every.min(LONGEST_RETRY) };
            tokio::time::sleep(LEAST_PAUSE).await;
            tokio::select! {
                () = tokio::time::sleep(pause.saturating_sub(LEAST_PAUSE)) => {}
                () = self.leasing.wanted(), if session.is_some() => {}
                _ = stop.changed() => {}
            }
        }
    }

    /// Advice to other replicas, about once a second.
    fn hint(&mut self) -> Option<String> {
        if self.hinted_at.is_some_and(|at| at.elapsed() < HINT_INTERVAL) {
            return None;
        }
        self.hinted_at = Some(Instant::now());
        usage::hint(self.run, clock::unix_millis(), self.health.get()?)
    }

    async fn step(&mut self, session: &mut Option<Session>, tells: bool) -> Result<usize, RedisFault> {
        let open = match session {
            Some(open) => open,
            None => {
                let mut open = self.server.open().await?;
                self.leases.arrive(&mut open.connection).await?;
                // What was admitted meanwhile is an old story: the limits were those of each replica alone.
                let _ = self.registry.holders.take_usage();
                // Nobody reads it: it shows whether messages are taken.
                self.publish(&mut open, "{}".to_owned()).await?;
                session.insert(open)
            }
        };
        if tells {
            self.leases.claim_name(&mut open.connection, self.run).await?;
        }
        let leases = self.leases.exchange(&mut open.connection, &self.registry.holders).await?;
        if tells {
            for message in usage::messages(self.run, &self.registry.holders).into_iter().chain(self.hint()) {
                self.publish(open, message).await?;
            }
        }
        Ok(leases)
    }

    /// Tells the other replicas. Leases go on where Redis refuses that.
    async fn publish(&self, open: &mut Session, message: String) -> Result<(), RedisFault> {
        let mut publish = redis::cmd("PUBLISH");
        let published: Result<i64, _> = publish.arg(&self.channel).arg(message).query_async(&mut open.connection).await;
        match published.map_err(RedisFault::from) {
            Err(fault) if fault.is_refusal() => {
                self.status.refuses_command(
                    "publish",
                    "rate limits and hints of health of this replica reach no other",
                    &fault,
                );
            }
            published => {
                published?;
                self.status.takes_command("publish");
            }
        }
        Ok(())
    }
}
