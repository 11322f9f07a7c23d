use std::{sync::Arc, time::Duration};

/// Every constant of the routing, as configured under `[routing]`. Units are in the types.
#[derive(Debug, Clone, PartialEq)]
pub struct RoutingPolicy {
    /// Which configuration this is; stamped into every decision.
    pub version: u64,
    /// The same as clients see it: `system_fingerprint` of answers whose provider gives none.
    pub fingerprint: Arc<str>,
    /// Statistics.
    pub stats: StatsPolicy,
    /// τ: how strongly uncertainty is explored; 0 makes serving equal preview.
    pub exploration: f64,
    /// Extra uncertainty per half-life without an observation.
    pub staleness: f64,
    /// Load factor above which an endpoint counts as saturated.
    pub hot_inflation: f64,
    /// What a failed attempt costs before the next one starts.
    pub failure_time: Duration,
    /// Dollars per second that break ties of `cheapest` in favour of speed.
    pub cheapest_time_value: f64,
    /// Share of relative time in `reliable`.
    pub reliable_time_share: f64,
    /// Beyond this an answer is too slow for `reliable`.
    pub reliable_slow: Duration,
    /// Default weights of `balanced`.
    pub balanced: BalancedPolicy,
    /// Hedging.
    pub hedge: HedgePolicy,
    /// Attempts and the budget for retries.
    pub retry: RetryPolicy,
    /// Breakers.
    pub breaker: BreakerPolicy,
    /// Whether admission is paced after a 429.
    pub pacing: bool,
    /// Staying where a conversation's prompt is cached.
    pub sticky: StickyPolicy,
    /// How latency targets are held.
    pub targets: TargetPolicy,
    /// Clocks of each phase of an attempt.
    pub clocks: PhaseClocks,
}

/// How statistics are kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StatsPolicy {
    /// After this long an observation counts half.
    pub half_life: Duration,
    /// Highest weight of the past, in observations.
    pub max_weight: f64,
    /// First-token time expected of an endpoint that was never measured.
    pub prior_first_token: Duration,
    /// Time per output token expected of an endpoint that was never measured.
    pub prior_per_token: Duration,
}

/// Default weights of `balanced`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BalancedPolicy {
    /// Weight of time.
    pub latency: f64,
    /// Weight of cost.
    pub cost: f64,
}

/// When a second attempt races the first.
#[derive(Debug, Clone, PartialEq)]
pub struct HedgePolicy {
    /// Objectives under which hedging is on.
    pub objectives: Vec<super::objective::Objective>,
    /// Standard deviations above the expected first token at which the hedge starts.
    pub sigma: f64,
    /// Hedges per request, on average.
    pub budget: f64,
}

/// How often one request may be tried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// Attempts per request, the first included.
    pub max_attempts: u32,
    /// Further ones before a caller is shown a failure, out of a budget.
    pub last_resort: u32,
    /// Attempts out of each budget but that of hedges, per request on average.
    pub budget_ratio: f64,
}

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BreakerPolicy {
    /// Failures in a row that open it.
    pub consecutive: u32,
    /// Time of the first opening.
    pub base: Duration,
    /// Growth from opening to opening.
    pub factor: f64,
    /// Openings after which the time no longer grows.
    pub max_steps: u32,
    /// As the how manyth an opening counts at least when the last failure was a time-out.
    pub timeout_step: u32,
}

/// When it is worth knowing where a conversation was served last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StickyPolicy {
    /// Whether it is kept in mind at all.
    pub enabled: bool,
    /// How long after its last turn a provider may still hold its prompt.
    pub ttl: Duration,
    /// Estimated tokens below which no provider caches a prompt.
    pub min_prompt_tokens: u32,
    /// Conversations kept in mind; those that were quiet longest leave first.
    pub max_conversations: u32,
}

/// How the margin of a latency target follows what clients saw.
#[derive(Debug, Clone, Copy, PartialEq)]
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
    /// How long the `opens`th opening in a row lasts, give or take the jitter.
    #[must_use]
    pub fn open_for(&self, opens: u32) -> Duration {
        let growth = libm::pow(self.factor, f64::from(opens.saturating_sub(1)));
        Duration::try_from_secs_f64(self.base.as_secs_f64() * growth).unwrap_or(self.base)
    }
}

/// The clocks of one attempt, each a limit on one phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseClocks {
    /// TCP connection and TLS handshake.
    pub connect: Duration,
    /// Response head of a stream.
    pub first_byte: Duration,
    /// First content event of a stream.
    pub first_content: Duration,
    /// Silence between two content events.
    pub idle: Duration,
    /// The whole request, all attempts together.
    pub total: Duration,
}

impl RoutingPolicy {
    /// The same constants as another version.
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
            staleness: 0.02,
            hot_inflation: 2.0,
            failure_time: Duration::from_millis(50),
            cheapest_time_value: 0.001,
            reliable_time_share: 0.002,
            reliable_slow: Duration::from_secs(2),
            balanced: BalancedPolicy { latency: 0.5, cost: 0.5 },
            hedge: HedgePolicy { objectives: vec![super::objective::Objective::Fastest], sigma: 1.9, budget: 0.02 },
            retry: RetryPolicy { max_attempts: 3, last_resort: 2, budget_ratio: 0.2 },
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
