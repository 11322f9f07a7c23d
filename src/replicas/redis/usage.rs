//! Usage of rate limits, as replicas tell it to each other.
//!
//! Every replica has the whole limit in memory and is charged with what the others admitted. So the limit holds for all of them
//! together, but for what is admitted within one exchange. While Redis is away, each has the limit for itself.

use serde::{Deserialize, Serialize};

use crate::access::holders::{HolderUsage, Holders};

/// Most holders of one message.
const BATCH: usize = 2_000;

/// What one replica admitted since its last message.
#[derive(Debug, Serialize, Deserialize, PartialEq)]
pub struct UsageMessage {
    /// The process that admitted it.
    pub run: u64,
    /// By key and account.
    pub holders: Vec<HolderUsage>,
}

/// What this replica admitted since the last call, as messages.
#[must_use]
pub fn messages(run: u64, holders: &Holders) -> Vec<String> {
    let usage = holders.take_usage();
    let message = |holders: &[HolderUsage]| {
        serde_json::to_string(&UsageMessage { run, holders: holders.to_vec() }).unwrap_or_default()
    };
    usage.chunks(BATCH).map(message).collect()
}

/// Charges the limits with what another replica admitted.
pub fn charge(run: u64, message: &str, holders: &Holders) {
    // A message of a later version that cannot be read is left out.
    let Ok(message) = serde_json::from_str::<UsageMessage>(message) else { return };
    if message.run != run {
        message.holders.iter().for_each(|usage| holders.charge(usage));
    }
}
