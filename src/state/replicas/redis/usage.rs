//! Usage of rate limits, as replicas tell it to each other.
//!
//! Every replica has the whole limit in memory and is charged with what the others admitted. So the limit holds for all of them
//! together, but for what is admitted within one exchange. While Redis is away, each has the limit for itself.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    access::holders::{HolderUsage, Holders},
    state::replicas::HealthPort,
};

/// Most holders of one message.
const BATCH: usize = 2_000;

/// The breakers of a replica that are open, as advice to the others.
#[derive(Debug, Serialize, Deserialize, PartialEq)]
pub struct HintMessage {
    /// The process that says it.
    pub run: u64,
    /// When, Unix milliseconds.
    pub at_ms: i64,
    /// Numbers of the endpoints.
    pub open: Vec<u64>,
}

/// What one replica admitted since its last message.
#[derive(Debug, Serialize, Deserialize, PartialEq)]
pub struct UsageMessage {
    /// The process that admitted it.
    pub run: u64,
    /// By key and account.
    pub holders: Vec<HolderUsage>,
}

/// What this replica admitted since the last call, as messages.
pub fn messages(run: u64, holders: &Holders) -> Vec<String> {
    let usage = holders.take_usage();
    let message = |holders: &[HolderUsage]| {
        serde_json::to_string(&UsageMessage { run, holders: holders.to_vec() }).unwrap_or_default()
    };
    usage.chunks(BATCH).map(message).collect()
}

/// The open breakers of this replica as a message, if there are some.
pub fn hint(run: u64, at_ms: i64, health: &HealthPort) -> Option<String> {
    let open = (health.open)();
    (!open.is_empty()).then(|| serde_json::to_string(&HintMessage { run, at_ms, open }).ok()).flatten()
}

/// Hands advice on, with its age. Gives for each endpoint whether it is believed.
pub fn advise(run: u64, now_ms: i64, message: &str, health: &HealthPort) -> Vec<bool> {
    let message = serde_json::from_str::<HintMessage>(message).ok().filter(|message| message.run != run);
    let Some(message) = message else { return Vec::new() };
    // Clocks differ: what seems to come from the future is new.
    let age = Duration::from_millis(u64::try_from(now_ms.saturating_sub(message.at_ms)).unwrap_or(0));
    message.open.iter().map(|endpoint| (health.advise)(*endpoint, age)).collect()
}

/// Charges the limits with what another replica admitted.
pub fn charge(run: u64, message: &str, holders: &Holders) {
    // A message of a later version that cannot be read is left out.
    let Ok(message) = serde_json::from_str::<UsageMessage>(message) else { return };
    if message.run != run {
        message.holders.iter().for_each(|usage| holders.charge(usage));
    }
}
