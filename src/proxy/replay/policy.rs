//! The policy constants that scores depend on.

use std::time::Duration;

use pointsman_domain::{PhaseClocks, RoutingPolicy, StatsPolicy};
use serde::{Deserialize, Serialize};

use super::exact::Exact;

/// Every policy constant that a score depends on. Times are whole nanoseconds.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedPolicy {
    /// Number of the routing settings.
    version: u64,
    /// Time in nanoseconds after which an observation counts half.
    half_life_ns: u64,
    /// Strength of the exploration noise.
    exploration: Exact,
    /// How fast estimates without new observations become uncertain.
    staleness: Exact,
    /// How much more uncertain estimates are under load.
    hot_inflation: Exact,
    /// Time in nanoseconds that a failure is taken to cost.
    t_fail_ns: u64,
    /// What a second is worth to `cheapest`, as a share of the median cost.
    cheapest_time_value: Exact,
    /// What the median time adds to a score of `reliable`.
    reliable_time_share: Exact,
    /// Time in nanoseconds from which on `reliable` takes an answer for slow.
    reliable_slow_ns: u64,
    /// Longest wait in nanoseconds for the first content.
    first_content_clock_ns: u64,
    /// Longest time in nanoseconds of an attempt.
    total_clock_ns: u64,
    /// Whether `cheapest` counts the cost of an accepted answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    per_accepted: bool,
}

impl RecordedPolicy {
    pub(super) fn new(policy: &RoutingPolicy) -> RecordedPolicy {
        // Exhaustive pattern: a new constant does not compile until it is listed here.
        let RoutingPolicy {
            version,
            fingerprint: _,
            stats,
            exploration,
            staleness,
            hot_inflation,
            failure_time,
            cheapest_time_value,
            reliable_time_share,
            reliable_slow,
            balanced: _,
            per_accepted,
            hedge: _,
            retry: _,
            breaker: _,
            pacing: _,
            sticky: _,
            targets: _,
            clocks,
        } = policy;
        RecordedPolicy {
            version: *version,
            half_life_ns: nanos(stats.half_life),
            exploration: Exact(*exploration),
            staleness: Exact(*staleness),
            hot_inflation: Exact(*hot_inflation),
            t_fail_ns: nanos(*failure_time),
            cheapest_time_value: Exact(*cheapest_time_value),
            reliable_time_share: Exact(*reliable_time_share),
            reliable_slow_ns: nanos(*reliable_slow),
            first_content_clock_ns: nanos(clocks.first_content),
            total_clock_ns: nanos(clocks.total),
            per_accepted: *per_accepted,
        }
    }

    /// The policy. Constants that no score depends on have their defaults.
    pub(super) fn policy(&self) -> RoutingPolicy {
        let default = RoutingPolicy::default();
        RoutingPolicy {
            version: self.version,
            stats: StatsPolicy { half_life: Duration::from_nanos(self.half_life_ns), ..default.stats },
            exploration: self.exploration.0,
            staleness: self.staleness.0,
            hot_inflation: self.hot_inflation.0,
            failure_time: Duration::from_nanos(self.t_fail_ns),
            cheapest_time_value: self.cheapest_time_value.0,
            reliable_time_share: self.reliable_time_share.0,
            per_accepted: self.per_accepted,
            reliable_slow: Duration::from_nanos(self.reliable_slow_ns),
            clocks: PhaseClocks {
                first_content: Duration::from_nanos(self.first_content_clock_ns),
                total: Duration::from_nanos(self.total_clock_ns),
                ..default.clocks
            },
            ..default
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
