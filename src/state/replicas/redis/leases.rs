//! Leases of spending limits in Redis.
//!
//! All reports of one replica go through one connection, one after the other, and each has a greater number than those before, so
//! that a late one has no effect.

use std::sync::Arc;

use pointsman_base::clock;
use redis::{Cmd, Pipeline, aio::MultiplexedConnection};

use super::connection::RedisFault;
use crate::access::{
    holders::{Holders, NamedReport},
    lease::{LeaseAnswer, LeaseReport, Moment},
    leasing::Leasing,
};

/// What Redis runs for each report.
const SCRIPT: &str = include_str!("lease.lua");
/// What Redis runs for the name of the replica.
const CLAIM: &str = include_str!("claim.lua");
/// What Redis runs on a new connection, to see what it refuses.
const RIGHTS: &str = include_str!("rights.lua");
/// Most reports of one round trip.
const BATCH: usize = 500;
/// Time after a start of Redis in which no lease is given, so that all replicas can report theirs. Longer than a replica needs to
/// notice that its connection is dead and to make another.
const SETTLE_MS: u64 = 5_000;

/// What follows the prefix in the name of the set of limits of which Redis knows leases.
const LIMITS: &str = "limits";
/// Time for which a name is claimed.
const NAME_MS: u64 = 3_000;

/// The leases of this replica.
pub struct Leases {
    node: String,
    prefix: String,
    expiry_ms: u64,
    leasing: Arc<Leasing>,
    /// Digest of the script in Redis.
    script: String,
    /// The run of Redis, until the first claim of a connection tells it.
    run: String,
    /// A word of Redis that is another one after it lost leases.
    epoch: String,
    /// Number of the last report.
    seq: i64,
    /// Redis may have lost what was reported.
    is_forced: bool,
}

impl Leases {
    /// Nothing is leased yet.
    pub fn new(node: &str, prefix: &str, expiry: std::time::Duration, leasing: Arc<Leasing>) -> Leases {
        let expiry_ms = u64::try_from(expiry.as_millis()).unwrap_or(u64::MAX);
        let (node, prefix) = (node.to_owned(), prefix.to_owned());
        let (script, run, epoch) = <(String, String, String)>::default();
        Leases { node, prefix, expiry_ms, leasing, script, run, epoch, seq: 0, is_forced: true }
    }

    /// Gives back with the next exchange what is not used: this replica ends.
    pub fn give_back(&mut self, holders: &Holders) {
        self.is_forced = true;
        holders.budgets().iter().for_each(|budget| budget.give_lease_back());
    }

    /// Says that this process has the name of the replica. Two processes of one name would overwrite each other's leases. What
    /// was reported is reported again if Redis lost it.
    ///
    /// # Errors
    /// Redis fails, or another process has the name. That of a killed process is free after [`NAME_MS`].
    pub async fn claim_name(&mut self, connection: &mut MultiplexedConnection, process: u64) -> Result<(), RedisFault> {
        let keys = [self.key(&format!("node:{}", self.node)), self.key("instance"), self.key(LIMITS)];
        let mut command = redis::cmd("EVAL");
        command.arg(CLAIM).arg(keys.len()).arg(&keys).arg(process).arg(NAME_MS).arg(&self.run).arg(SETTLE_MS);
        let (is_ours, epoch): (i64, String) = command.query_async(connection).await?;
        if is_ours != 1 {
            return Err(RedisFault::NameTaken(self.node.clone()));
        }
        self.run.clear();
        self.is_forced |= epoch != self.epoch;
        self.epoch = epoch;
        Ok(())
    }

    /// Leaves the name to the next process. Without an answer it is free after [`NAME_MS`].
    pub async fn leave_name(&self, connection: &mut MultiplexedConnection) {
        let left: Result<i64, _> =
            redis::cmd("DEL").arg(self.key(&format!("node:{}", self.node))).query_async(connection).await;
        if let Err(error) = left {
            log::debug!("the name of this replica is free later: {error}");
        }
    }

    /// Stores the script of reports on a new connection. Redis may be another one, or have lost what it knew.
    ///
    /// # Errors
    /// Redis fails, or refuses a command of the scripts.
    pub async fn arrive(&mut self, connection: &mut MultiplexedConnection) -> Result<(), RedisFault> {
        self.is_forced = true;
        self.script = redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(connection).await?;
        let info: String = redis::cmd("INFO").arg("server").query_async(connection).await?;
        self.run = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap_or_default().trim().to_owned();
        let keys = ["text", "hash", "set"].map(|kind| self.key(&format!("rights:{}:{kind}", self.node)));
        let mut command = redis::cmd("EVAL");
        command.arg(RIGHTS).arg(keys.len()).arg(&keys);
        let (refused, why): (String, String) = command.query_async(connection).await?;
        if !refused.is_empty() {
            return Err(RedisFault::Refused(refused, why));
        }
        Ok(())
    }

    /// Reports what is new, and takes leases. Gives how many were answered.
    ///
    /// # Errors
    /// Redis fails; the next call reports the same again.
    pub async fn exchange(
        &mut self,
        connection: &mut MultiplexedConnection,
        holders: &Holders,
    ) -> Result<usize, RedisFault> {
        // What this replica spent before its start must not be reported as too little.
        if !holders.is_spending_known() {
            return Ok(0);
        }
        let at = Moment { now_ms: clock::unix_millis(), now: clock::now() };
        let reports = holders.lease_reports(at, self.is_forced);
        for batch in reports.chunks(BATCH) {
            self.report(connection, batch, at).await?;
        }
        self.is_forced = false;
        self.leasing.answered(true);
        Ok(reports.len())
    }

    async fn report(
        &mut self,
        connection: &mut MultiplexedConnection,
        batch: &[NamedReport],
        at: Moment,
    ) -> Result<(), RedisFault> {
        let mut pipeline = Pipeline::with_capacity(batch.len());
        for (name, _, report) in batch {
            self.seq = (self.seq + 1).max(at.now_ms);
            pipeline.add_command(self.command(name, report));
        }
        let answers: Vec<Vec<i64>> = pipeline.query_async(connection).await?;
        if answers.len() != batch.len() {
            return Err(RedisFault::Answer);
        }
        for ((_, budget, report), answer) in batch.iter().zip(answers) {
            let [seq, granted, others_spent, others_used, asked_back] = *answer.as_slice() else {
                return Err(RedisFault::Answer);
            };
            // The clock was set back: the next report has a greater number.
            self.seq = self.seq.max(seq);
            if granted >= 0 {
                let is_asked_back = asked_back != 0;
                budget.take_lease(report, LeaseAnswer { granted, others_spent, others_used, is_asked_back }, at);
            }
        }
        Ok(())
    }

    fn command(&self, name: &str, report: &LeaseReport) -> Cmd {
        let LeaseReport { period, granted, used, ceiling, spent, need, want, limit } = *report;
        let period = period.unwrap_or(0);
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.script).arg(2);
        command.arg(self.key(&format!("budget:{name}:{period}"))).arg(self.key(LIMITS));
        command.arg(&self.node).arg(self.seq).arg(granted).arg(used).arg(spent).arg(need).arg(want).arg(limit);
        command.arg(self.expiry_ms).arg(SETTLE_MS).arg(period).arg(ceiling);
        command
    }

    fn key(&self, name: &str) -> String {
        // One slot of a cluster, because a script reads two keys.
        format!("{{{}}}:{name}", self.prefix)
    }
}
