//! A recorded decision as JSON, with everything that a replay needs. Every number survives bit for bit.
//!
//! The page `/route/replay` writes a record and `pointsman replay` reads it, on any machine. The record omits what a replay
//! does not use: parameters, exclusions and figures for display. [`pointsman_routing::explain::replay`] makes the decision
//! again.

mod candidate;
mod exact;
mod policy;
mod result;

use std::sync::Arc;

use pointsman_domain::{
    Catalog, Decision, DecisionCode, EndpointId, Objective, RequestFacts, RoutingPolicy, Source, Sourced, Tick, Weights,
};
use pointsman_routing::decide::ALGORITHM;
use serde::{Deserialize, Serialize};

pub use self::result::{ReplayDifference, ReplayResult, ReplayedOutcome};
use self::{
    candidate::RecordedCandidate,
    exact::{Digits, Exact},
    policy::RecordedPolicy,
};

/// A decision with the policy it was made under.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    objective: String,
    weights: RecordedWeights,
    streamed: bool,
    /// Microseconds on the clock of the process that decided.
    tick_us: u64,
    /// 0 means no exploration noise.
    seed: Digits,
    explored: bool,
    max_attempts: u32,
    /// The bounds of `preferred_max_latency` were divided by this.
    latency_margin: Exact,
    estimate: Estimate,
    #[serde(rename = "yardsticks")]
    baselines: RecordedBaselines,
    versions: Versions,
    policy: RecordedPolicy,
    candidates: Vec<RecordedCandidate>,
    /// Candidates that ranked behind the choice and could not be tried.
    rivals: Vec<RecordedCandidate>,
    /// Candidates that ranked behind all others; their figures were not kept.
    omitted: Vec<Digits>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedWeights {
    latency: Exact,
    cost: Exact,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Estimate {
    prompt_tokens: u32,
    completion_tokens: u32,
}

/// Baselines for times and costs; 0 where the objective uses none.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedBaselines {
    median_time_s: Exact,
    median_cost_usd: Exact,
    failed_cost_usd: Exact,
    second_time_s: Exact,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Versions {
    snapshot: u64,
    catalog: u64,
    policy: u64,
}

impl Recorded {
    /// The record of a decision. Names come from `catalog`, as far as it still knows the endpoints.
    #[must_use]
    pub fn new(decision: &Decision, policy: &RoutingPolicy, catalog: &Catalog) -> Recorded {
        let [time, cost, failed, second] = decision.baselines;
        let candidate = |candidate| RecordedCandidate::new(candidate, catalog);
        Recorded {
            objective: decision.objective.value.as_str().to_owned(),
            weights: RecordedWeights { latency: Exact(decision.weights.latency), cost: Exact(decision.weights.cost) },
            streamed: decision.streamed,
            tick_us: decision.tick.0,
            seed: Digits(decision.seed),
            explored: decision.explored,
            max_attempts: decision.max_attempts,
            latency_margin: Exact(decision.latency_margin),
            estimate: Estimate { prompt_tokens: decision.prompt_tokens, completion_tokens: decision.completion_tokens },
            baselines: RecordedBaselines {
                median_time_s: Exact(time),
                median_cost_usd: Exact(cost),
                failed_cost_usd: Exact(failed),
                second_time_s: Exact(second),
            },
            versions: Versions {
                snapshot: decision.snapshot_version,
                catalog: decision.catalog_version,
                policy: decision.policy_version,
            },
            policy: RecordedPolicy::new(policy),
            candidates: decision.candidates.iter().map(candidate).collect(),
            rivals: decision.rivals.iter().map(candidate).collect(),
            omitted: decision.omitted.iter().map(|id| Digits(id.0)).collect(),
        }
    }

    /// The parts of the decision that a replay uses, and its policy.
    ///
    /// # Errors
    /// When this version does not know the objective.
    pub fn decision(&self) -> Result<(Decision, RoutingPolicy), String> {
        let objective: Objective =
            self.objective.parse().map_err(|()| format!("the objective '{}' is not known here", self.objective))?;
        let candidate = |candidate: &RecordedCandidate| candidate.candidate(objective);
        let decision = Decision {
            router: None,
            objective: Sourced { value: objective, source: Source::Default },
            weights: Weights { latency: self.weights.latency.0, cost: self.weights.cost.0 },
            parameters: Arc::default(),
            code: DecisionCode::OnlyCandidate,
            candidates: self.candidates.iter().map(candidate).collect(),
            rivals: self.rivals.iter().map(candidate).collect(),
            standby: Vec::new(),
            omitted: self.omitted.iter().map(|id| EndpointId(id.0)).collect(),
            excluded: Vec::new(),
            prompt_tokens: self.estimate.prompt_tokens,
            streamed: self.streamed,
            completion_tokens: self.estimate.completion_tokens,
            snapshot_version: self.versions.snapshot,
            catalog_version: self.versions.catalog,
            policy_version: self.versions.policy,
            tick: Tick(self.tick_us),
            seed: self.seed.0,
            explored: self.explored,
            max_attempts: self.max_attempts,
            latency_margin: self.latency_margin.0,
            // Filters, gates and classes are not worked out again.
            request: RequestFacts::default(),
            gates: Vec::new(),
            algorithm: ALGORITHM,
            exploration_share: 0.0,
            safe_set: Vec::new(),
            task_class: None,
            baselines: [
                self.baselines.median_time_s.0,
                self.baselines.median_cost_usd.0,
                self.baselines.failed_cost_usd.0,
                self.baselines.second_time_s.0,
            ],
        };
        Ok((decision, self.policy.policy()))
    }

    /// The name of a candidate, such as `acme/small at acme`. Its id if the name is unknown.
    #[must_use]
    pub fn name(&self, endpoint: u64) -> String {
        let known = self.candidates.iter().chain(&self.rivals).find(|candidate| candidate.id() == endpoint);
        known.and_then(RecordedCandidate::name).unwrap_or_else(|| endpoint.to_string())
    }

    /// The decision in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let candidates = self.candidates.len() + self.rivals.len();
        let omitted = match self.omitted.len() {
            0 => String::new(),
            count => format!(" and {count} not kept"),
        };
        let plural = if candidates == 1 { "" } else { "s" };
        format!("{}, {candidates} candidate{plural}{omitted}, seed {}", self.objective, self.seed.0)
    }
}
