//! `GET /health/memory`: the statistics restored at the start, and the state of the file they are saved to.

use actix_web::HttpResponse;
use prometheus::proto::MetricFamily;
use serde::Serialize;

use crate::{
    api::{
        answer::{Data, uncached},
        auth::Reader,
        models::measurements::rfc_3339,
    },
    base::{error::ApiError, events::Families},
    state::{
        gateway::{GatewayView, Worker},
        routing_memory::{LoadOutcome, RoutingMemoryStatus},
    },
};

view! {
    /// State of the routing memory.
    #[derive(Default)]
    pub(crate) struct RoutingMemoryBody {
        fn new(status: Option<RoutingMemoryStatus>) {
            let Some(status) = status else { return RoutingMemoryBody { state: "off", ..RoutingMemoryBody::default() } };
            let (restored, not_restored) = match status.loaded {
                LoadOutcome::NoFile => (None, None),
                LoadOutcome::Unusable(why) => (None, Some(why)),
                LoadOutcome::Loaded { at_ms, age, restored } => {
                    let restored = RestoredBody {
                        learned_at: rfc_3339(at_ms),
                        age_secs: age.as_secs(),
                        endpoints: restored.endpoints,
                        unknown: restored.unknown,
                        rejected: restored.rejected.len(),
                    };
                    (Some(restored), None)
                }
            };
        }

        /// `off`: statistics are not saved. `failing`: the last attempt to save them failed.
        #[cfg_attr(test, schemars(extend("enum" = ["ok", "failing", "off"])))]
        pub(crate) state: &'static str = if status.write_error.is_some() { "failing" } else { "ok" },
        /// What was restored at the start; `null` if nothing was.
        pub(crate) restored: Option<RestoredBody> = restored,
        /// Why a file could not be read at the start, as a sentence; `null` if it could, or if there was none.
        pub(crate) not_restored: Option<String> = not_restored,
        /// When the statistics were last saved since the start; `null` before that. RFC 3339, UTC, with milliseconds.
        pub(crate) saved_at: Option<String> = status.saved_at_ms.map(rfc_3339),
        /// Size of the file when it was last saved.
        pub(crate) bytes: u64 = status.bytes,
        /// Times that it was saved since the start.
        pub(crate) saves: u64 = status.saves,
        /// Times that saving it failed since the start.
        pub(crate) failures: u64 = status.failures,
        /// Why the last attempt to save it failed; `null` if it succeeded.
        pub(crate) last_error: Option<String> = status.write_error,
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct RestoredBody {
    /// When the restored statistics were saved. RFC 3339, UTC, with milliseconds.
    pub(crate) learned_at: String,
    /// Their age in seconds at the start.
    pub(crate) age_secs: u64,
    /// Endpoints whose statistics were restored.
    pub(crate) endpoints: usize,
    /// Endpoints of the file that are not in the configuration.
    pub(crate) unknown: usize,
    /// Entries of the file that are invalid and were left out.
    pub(crate) rejected: usize,
}

/// Shows the routing memory. `state` is `off` without a file, `failing` while the file cannot be written, `ok` otherwise.
///
/// # Errors
/// 403 without the scope `read`.
pub(crate) async fn show(by: Reader) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&Data { data: RoutingMemoryBody::now(&by.worker) }))
}

impl RoutingMemoryBody {
    /// The state now.
    pub(crate) fn now(worker: &GatewayView) -> RoutingMemoryBody {
        RoutingMemoryBody::new(worker.shared.process.memory.as_ref().map(|memory| memory.status()))
    }
}

/// The state of the routing memory as metrics; none without a file.
pub(crate) fn families(worker: &Worker) -> Vec<MetricFamily> {
    let status = worker.shared.process.memory.as_ref().map(|memory| memory.status());
    status.map(|status| metrics(&status)).unwrap_or_default()
}

fn metrics(status: &RoutingMemoryStatus) -> Vec<MetricFamily> {
    let restored = match &status.loaded {
        LoadOutcome::Loaded { restored, .. } => restored.endpoints,
        LoadOutcome::NoFile | LoadOutcome::Unusable(_) => 0,
    };
    Families::of(|families| {
        let failing = f64::from(u8::from(status.write_error.is_some()));
        families.gauge("routing_memory_failing", "1 while the routing memory cannot be written", failing);
        let help = "Endpoints whose statistics were restored at the start";
        families.gauge("routing_memory_restored_endpoints", help, restored as f64);
        let saved = "Time of the last write of the routing memory, in Unix seconds; 0 before the first";
        let seconds = status.saved_at_ms.unwrap_or(0) / 1000;
        families.gauge("routing_memory_saved_timestamp_seconds", saved, seconds as f64);
        let writes = [(["ok"], status.saves as f64), (["failed"], status.failures as f64)];
        let help = "Attempts to write the routing memory";
        families.counters("routing_memory_writes_total", help, ["outcome"], writes);
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::expect;
    use pointsman_routing::stats::Restored;

    use super::*;

    fn json(status: Option<RoutingMemoryStatus>) -> String {
        serde_json::to_string_pretty(&RoutingMemoryBody::new(status)).unwrap()
    }

    #[test]
    fn a_memory_shows_what_was_restored_and_the_last_error() {
        let restored = Restored { endpoints: 12, unknown: 1, rejected: Vec::new() };
        let status = RoutingMemoryStatus {
            loaded: LoadOutcome::Loaded { at_ms: 1_763_629_500_000, age: Duration::from_millis(35_400), restored },
            saved_at_ms: Some(1_763_629_540_000),
            bytes: 9_216,
            saves: 3,
            failures: 2,
            write_error: Some("No space left on device (os error 28)".to_owned()),
        };
        expect![[r#"
            {
              "state": "failing",
              "restored": {
                "learned_at": "2025-11-20T09:05:00.000Z",
                "age_secs": 35,
                "endpoints": 12,
                "unknown": 1,
                "rejected": 0
              },
              "not_restored": null,
              "saved_at": "2025-11-20T09:05:40.000Z",
              "bytes": 9216,
              "saves": 3,
              "failures": 2,
              "last_error": "No space left on device (os error 28)"
            }"#]]
        .assert_eq(&json(Some(status)));
    }

    #[test]
    fn without_a_file_the_memory_is_off_and_an_unusable_file_shows_the_reason() {
        let off: serde_json::Value = serde_json::from_str(&json(None)).unwrap();
        assert_eq!((&off["state"], &off["restored"]), (&"off".into(), &serde_json::Value::Null));
        let loaded = LoadOutcome::Unusable("it is something else".to_owned());
        let unusable: serde_json::Value =
            serde_json::from_str(&json(Some(RoutingMemoryStatus { loaded, ..RoutingMemoryStatus::default() })))
                .unwrap();
        assert_eq!((&unusable["state"], &unusable["not_restored"]), (&"ok".into(), &"it is something else".into()));
    }
}
