use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::objective::{Objective, Weights};

/// All routing constants, as configured under `[routing]`. Units are in the types.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoutingPolicy {
    /// Version of the policy, recorded in every decision.
    pub version: u64,
    /// Version as shown to clients: `system_fingerprint` of answers whose provider sends none.
    pub fingerprint: Arc<str>,
    /// Statistics.
    pub stats: StatsPolicy,
    /// τ: scale of the exploration noise; 0 disables exploration.
    pub exploration: f64,
    /// Extra uncertainty per half-life without an observation.
    pub staleness: f64,
    /// Load factor above which an endpoint counts as saturated.
    pub hot_inflation: f64,
    /// Time lost by a failed attempt before the next one starts.
    pub failure_time: Duration,
    /// Dollars per second that break ties of `cheapest` in favour of speed.
    pub cheapest_time_value: f64,
    /// Share of relative time in `reliable`.
    pub reliable_time_share: f64,
    /// Time above which an answer is too slow for `reliable`.
    pub reliable_slow: Duration,
    /// Default weights of `balanced`.
    pub balanced: Weights,
    /// Whether `cheapest` ranks by the cost of an accepted answer instead of that of an answer.
    pub per_accepted: bool,
    /// Hedging.
    pub hedge: HedgePolicy,
    /// Attempts and retry budget.
    pub retry: RetryPolicy,
    /// Breakers.
    pub breaker: BreakerPolicy,
    /// Whether admission is paced after a 429.
    pub pacing: bool,
    /// Stickiness of conversations to the endpoint with their prompt cache.
    pub sticky: StickyPolicy,
    /// Control of latency targets.
    pub targets: TargetPolicy,
    /// Time-outs of the phases of an attempt.
    pub clocks: PhaseClocks,
}

/// Constants of the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StatsPolicy {
    /// Half-life of an observation's weight.
    pub half_life: Duration,
    /// Highest total weight of past observations, in observations.
    pub max_weight: f64,
    /// First-token time expected of an endpoint that was never measured.
    pub prior_first_token: Duration,
    /// Time per output token expected of an endpoint that was never measured.
    pub prior_per_token: Duration,
}

/// When a second attempt races the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HedgePolicy {
    /// Objectives under which hedging is on.
    pub objectives: Vec<Objective>,
    /// Standard deviations above the expected first token at which the hedge starts.
    pub sigma: f64,
    /// Hedges per request, on average.
    pub budget: f64,
}

/// Attempts of one request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// Attempts per request, the first included.
    pub max_attempts: u32,
    /// Further attempts before a failure is shown to the client, taken from a budget.
    pub last_resort: u32,
    /// Retry budget: attempts per request, on average. Hedges have their own budget.
    pub budget_ratio: f64,
    /// Longest time that a request waits for an endpoint to reopen when all that could serve it rest; zero: not at all.
    pub wait: Duration,
}

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BreakerPolicy {
    /// Failures in a row that open it.
    pub consecutive: u32,
    /// Time of the first opening.
    pub base: Duration,
    /// Growth factor of the open time with each consecutive opening.
    pub factor: f64,
    /// Openings after which the time no longer grows.
    pub max_steps: u32,
    /// After a time-out, the opening counts at least as this consecutive opening.
    pub timeout_step: u32,
}

/// When a conversation stays at the endpoint that served it last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StickyPolicy {
    /// Whether stickiness is on.
    pub enabled: bool,
    /// How long after the last turn the prompt is assumed to be in the provider's cache.
    pub ttl: Duration,
    /// Shortest prompt that is assumed to be cached, estimated tokens.
    pub min_prompt_tokens: u32,
    /// Most conversations remembered; the least recently used ones are evicted first.
    pub max_conversations: u32,
}

/// How the margin of a latency target follows the observed latencies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TargetPolicy {
    /// Logarithmic step of the margin per missed bound.
    pub gain: f64,
    /// Highest margin; 1: never stricter than the bound.
    pub max_margin: f64,
    /// Lowest margin, for `cheapest` alone; 1: never laxer than the bound.
    pub min_margin: f64,
    /// Share of the allowed misses that is left unused.
    pub reserve: f64,
}

impl BreakerPolicy {
    /// Duration of the `opens`th consecutive opening, without jitter.
    pub fn open_for(&self, opens: u32) -> Duration {
        let growth = libm::pow(self.factor, f64::from(opens.saturating_sub(1)));
        Duration::try_from_secs_f64(self.base.as_secs_f64() * growth).unwrap_or(self.base)
    }
}

/// Time-outs of one attempt, one for each phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseClocks {
    /// TCP connection and TLS handshake.
    pub connect: Duration,
    /// Response head of a stream.
    pub first_byte: Duration,
    /// First content event of a stream.
    pub first_content: Duration,
    /// Longest silence between two content events.
    pub idle: Duration,
    /// The whole request, all attempts together.
    pub total: Duration,
}

impl RoutingPolicy {
    /// The same policy with another version number.
    #[must_use]
    pub fn stamped(self, version: u64) -> RoutingPolicy {
        RoutingPolicy { version, fingerprint: fingerprint(version), ..self }
    }
}

fn fingerprint(version: u64) -> Arc<str> {
    format!("fp_{version}").into()
}

impl Default for RoutingPolicy {
    fn default() -> RoutingPolicy {
        RoutingPolicy {
            version: 1,
            fingerprint: fingerprint(1),
            stats: StatsPolicy {
                half_life: Duration::from_secs(60),
                max_weight: 100.0,
                prior_first_token: Duration::from_millis(500),
                prior_per_token: Duration::from_millis(15),
            },
            exploration: 0.5,
            staleness: 0.012,
            hot_inflation: 2.0,
            failure_time: Duration::from_millis(50),
            cheapest_time_value: 0.001,
            reliable_time_share: 0.002,
            reliable_slow: Duration::from_secs(2),
            balanced: Weights::default(),
            per_accepted: false,
            hedge: HedgePolicy { objectives: vec![Objective::Fastest], sigma: 1.9, budget: 0.02 },
            retry: RetryPolicy { max_attempts: 3, last_resort: 2, budget_ratio: 0.2, wait: Duration::from_secs(2) },
            breaker: BreakerPolicy {
                consecutive: 3,
                base: Duration::from_secs(5),
                factor: 2.25,
                max_steps: 5,
                timeout_step: 3,
            },
            pacing: true,
            sticky: StickyPolicy {
                enabled: true,
                ttl: Duration::from_secs(300),
                min_prompt_tokens: 1024,
                max_conversations: 50_000,
            },
            targets: TargetPolicy { gain: 0.1, max_margin: 4.0, min_margin: 0.5, reserve: 0.2 },
            clocks: PhaseClocks {
                connect: Duration::from_secs(2),
                first_byte: Duration::from_secs(15),
                first_content: Duration::from_secs(60),
                idle: Duration::from_secs(30),
                total: Duration::from_secs(600),
            },
        }
    }
}
