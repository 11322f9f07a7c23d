//! State of the durable ledger, for `/health` and `/metrics`.

use pointsman_ledger::handle::Status;
use prometheus::proto::MetricFamily;
use serde::Serialize;

use crate::{
    api::models::measurements::rfc_3339,
    base::events::Families,
    state::gateway::{GatewayView, Worker},
};

view! {
    /// State of the ledger. The reason of a failure is in the log only, because it may name files.
    pub(crate) struct LedgerHealthBody {
        fn new(status: Option<Status>) {
            let Some(status) = status else {
                return LedgerHealthBody { state: "memory", since: None, queued: 0, dropped: 0, set_aside: false };
            };
        }

        /// `memory` if records are kept in memory only, `degraded` while the disk of the ledger fails, else `ok`.
        #[cfg_attr(test, schemars(extend("enum" = ["ok", "degraded", "memory"])))]
        pub(crate) state: &'static str = if status.trouble.is_some() { "degraded" } else { "ok" },
        /// Since when it is `degraded`; absent otherwise. RFC 3339, UTC, with milliseconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) since: Option<String> = status.trouble.as_ref().map(|trouble| rfc_3339(trouble.since_ms)),
        /// Records in memory that are not in the database yet; 0 with `memory`.
        pub(crate) queued: usize = status.queued,
        /// Records lost since the start because neither disk nor memory had room.
        pub(crate) dropped: u64 = status.dropped,
        /// Only `true`: an earlier ledger was moved to a folder of its own since the start, so what it knows counts against
        /// no spending limit.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub(crate) set_aside: bool = status.is_set_aside,
    }
}

impl LedgerHealthBody {
    pub(crate) fn now(worker: &GatewayView) -> LedgerHealthBody {
        LedgerHealthBody::new(worker.shared.records.ledger.as_ref().map(|ledger| ledger.entries().status()))
    }
}

/// The state of the ledger as metrics; none without a durable ledger.
pub(crate) fn families(worker: &Worker) -> Vec<MetricFamily> {
    let status = worker.shared.records.ledger.as_ref().map(|ledger| ledger.entries().status());
    status.map(|status| metrics(&status, sizes(worker))).unwrap_or_default()
}

/// Bytes of stored records, and most of them.
fn sizes(worker: &Worker) -> Option<(u64, u64)> {
    let size = worker.shared.records.ledger.as_ref()?.entries().size().ok()?;
    Some((size.bytes, worker.setup.config.ledger.max_bytes))
}

fn metrics(status: &Status, sizes: Option<(u64, u64)>) -> Vec<MetricFamily> {
    Families::of(|families| {
        let failing = f64::from(u8::from(status.trouble.is_some()));
        families.gauge("ledger_failing", "1 while the durable ledger cannot write to its disk", failing);
        let queued = "Records in memory that are not in the database yet";
        families.gauge("ledger_queued_records", queued, status.queued as f64);
        let log = "Bytes of the write-ahead log of the ledger's database, which grows while a program holds a \
                   transaction open";
        families.gauge("ledger_wal_bytes", log, status.wal_bytes as f64);
        if let Some((bytes, most)) = sizes {
            families.gauge("ledger_size_bytes", "Bytes of records on disk", bytes as f64);
            let help = "Bytes of records on disk from which on the oldest are dropped";
            families.gauge("ledger_max_size_bytes", help, most as f64);
        }
        let lost = "Records lost because neither disk nor memory had room";
        families.counter("ledger_lost_records_total", lost, status.dropped as f64);
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use pointsman_ledger::{journal::Trouble, recovery::Recovery};

    #[test]
    fn a_failing_disk_shows_since_when_and_what_it_cost_but_not_its_reason() {
        let trouble = Trouble { since_ms: 1_763_629_540_000, reason: "/secret/place: disk full".to_owned() };
        let status = Status {
            trouble: Some(Arc::new(trouble)),
            queued: 7,
            unjournaled: 7,
            dropped: 2,
            recovery: Recovery::default(),
            is_set_aside: false,
            wal_bytes: 0,
        };
        let text = serde_json::to_string(&LedgerHealthBody::new(Some(status.clone()))).unwrap();
        assert_eq!(text, r#"{"state":"degraded","since":"2025-11-20T09:05:40.000Z","queued":7,"dropped":2}"#);
        let families = metrics(&status, None);
        let names: Vec<&str> = families.iter().map(MetricFamily::name).collect();
        assert_eq!(
            names,
            [
                "pointsman_ledger_failing",
                "pointsman_ledger_lost_records_total",
                "pointsman_ledger_queued_records",
                "pointsman_ledger_wal_bytes"
            ]
        );
        assert_eq!(
            serde_json::to_string(&LedgerHealthBody::new(None)).unwrap(),
            r#"{"state":"memory","queued":0,"dropped":0}"#
        );
    }
}
