//! State of the stores that replicas share, for `/health` and `/metrics`.

use prometheus::proto::MetricFamily;
use serde::Serialize;

use crate::{
    api::models::measurements::rfc_3339,
    base::events::Families,
    state::{
        gateway::Worker,
        replicas::{Replicas, status::StoreReading},
    },
};

view! {
    /// What replicas share.
    pub(in crate::api) struct StoresBody {
        fn new(replicas: &Replicas) {
            let (postgres, redis) = (replicas.postgres().map(StoreBody::new), replicas.redis().map(StoreBody::new));
        }

        /// Name of this replica.
        node: String = replicas.node().to_owned(),
        /// State of PostgreSQL; absent where the replicas do not share it. The reason of an outage is in the log only.
        #[serde(skip_serializing_if = "Option::is_none")]
        postgres: Option<StoreBody> = postgres,
        /// State of Redis; absent where the replicas do not share it. The reason of an outage is in the log only.
        #[serde(skip_serializing_if = "Option::is_none")]
        redis: Option<StoreBody> = redis,
    }
}

view! {
    /// State of a store. The reason of an outage is in the log only, because it may name machines.
    struct StoreBody {
        fn new(reading: StoreReading) {}

        /// `away` while exchanges with the store fail; `degraded` while it refuses commands without which a part is
        /// missing.
        #[cfg_attr(test, schemars(extend("enum" = ["ok", "degraded", "away"])))]
        state: &'static str = match reading.away_since_ms {
            Some(_) => "away",
            None if reading.refused_commands.is_empty() => "ok",
            None => "degraded",
        },
        /// Beginning of the outage; absent without one.
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<String> = reading.away_since_ms.map(rfc_3339),
        /// The last exchange that succeeded; `null` without one since the start. RFC 3339, UTC, with milliseconds.
        last_exchange: Option<String> = reading.last_ms.map(rfc_3339),
        /// Records and changes in memory that wait for the store; older ones wait in the ledger on disk.
        waiting: u64 = reading.waiting,
        /// Rows that it refused since the start because of a value in them, and that this replica alone keeps; absent
        /// without any.
        #[serde(skip_serializing_if = "is_zero")]
        refused_rows: u64 = reading.refused_rows,
        /// Commands that it refuses; absent without any. The log says what is missing without them.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[cfg_attr(test, schemars(with = "Vec<crate::base::words::RedisCommand>"))]
        refused_commands: Vec<&'static str> = reading.refused_commands,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl StoresBody {
    pub(in crate::api) fn now(worker: &Worker) -> Option<StoresBody> {
        worker.shared.records.replicas.as_ref().map(|replicas| StoresBody::new(replicas))
    }
}

/// The state of the stores as metrics; none for a gateway alone.
pub(crate) fn families(worker: &Worker) -> Vec<MetricFamily> {
    let Some(replicas) = &worker.shared.records.replicas else { return Vec::new() };
    let readings = [("postgres", replicas.postgres()), ("redis", replicas.redis())];
    metrics(&readings.into_iter().filter_map(|(name, reading)| Some((name, reading?))).collect::<Vec<_>>())
}

fn metrics(readings: &[(&str, StoreReading)]) -> Vec<MetricFamily> {
    let by_store = |of: fn(&StoreReading) -> u64| readings.iter().map(move |(name, it)| ([*name], of(it) as f64));
    Families::of(|families| {
        let away = by_store(|reading| u64::from(reading.away_since_ms.is_some()));
        families.gauges("shared_store_away", "1 while a store that replicas share is away", ["store"], away);
        let waiting = "Records and changes in memory that wait for the store";
        families.gauges("shared_store_waiting", waiting, ["store"], by_store(|reading| reading.waiting));
        let refused = "Commands that the store refuses, so that a part of what replicas share is missing";
        let commands = by_store(|reading| reading.refused_commands.len() as u64);
        families.gauges("shared_store_refused_commands", refused, ["store"], commands);
        let rows = "Rows that the store refused because of a value in them, and that one replica alone keeps";
        families.counters("shared_store_refused_rows_total", rows, ["store"], by_store(|it| it.refused_rows));
        let outages = "Times that the store went away";
        families.counters("shared_store_outages_total", outages, ["store"], by_store(|reading| reading.outages));
        let done = "Records sent to PostgreSQL, or leases reported to Redis";
        families.counters("shared_store_exchanged_total", done, ["store"], by_store(|reading| reading.done));
        let hints = "Open breakers that other replicas told of; unused: what is measured here says more";
        let told = |at: usize| readings.iter().filter_map(|(_, it)| it.hints.get(at)).sum::<u64>() as f64;
        let told = [(["believed"], told(0)), (["unused"], told(1))];
        families.counters("shared_health_hints_total", hints, ["result"], told);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_away_says_since_when_in_health_and_metrics() {
        let reading = StoreReading {
            away_since_ms: Some(1_763_629_540_000),
            last_ms: None,
            outages: 2,
            done: 7,
            waiting: 3,
            refused_rows: 0,
            refused_commands: Vec::new(),
            hints: [1, 0],
        };
        let text = serde_json::to_string(&StoreBody::new(reading.clone())).unwrap();
        assert_eq!(text, r#"{"state":"away","since":"2025-11-20T09:05:40.000Z","last_exchange":null,"waiting":3}"#);
        let part = StoreReading { away_since_ms: None, refused_commands: vec!["subscribe"], ..reading.clone() };
        let text = serde_json::to_string(&StoreBody::new(part)).unwrap();
        assert!(
            text.contains(r#""state":"degraded""#) && text.contains(r#""refused_commands":["subscribe"]"#),
            "{text}"
        );
        let families = metrics(&[("redis", reading)]);
        let names: Vec<&str> = families.iter().map(MetricFamily::name).collect();
        assert_eq!(
            names,
            [
                "pointsman_shared_health_hints_total",
                "pointsman_shared_store_away",
                "pointsman_shared_store_exchanged_total",
                "pointsman_shared_store_outages_total",
                "pointsman_shared_store_refused_commands",
                "pointsman_shared_store_refused_rows_total",
                "pointsman_shared_store_waiting"
            ]
        );
    }
}
