//! A recorded decision as JSON, with everything that a replay needs. Every number survives bit for bit.
//!
//! The page `/route/replay` writes a record and `pointsman replay` reads it, on any machine. The record omits what a replay
//! does not use: parameters, exclusions and figures for display. [`pointsman_routing::explain::replay`] makes the decision
//! again.

mod candidate;
mod exact;
mod policy;
mod result;
mod split;

use std::sync::Arc;

use pointsman_domain::{
    Candidate, Catalog, Decision, DecisionCode, EndpointId, Objective, QualityBaseline, RequestFacts, RoutingPolicy,
    Source, Sourced, Tick, Weights,
};
use pointsman_routing::decide::ALGORITHM;
use serde::{Deserialize, Serialize};

pub use self::result::{ReplayDifference, ReplayResult, ReplayedOutcome};
use self::{
    candidate::RecordedCandidate,
    exact::{Digits, Exact},
    policy::RecordedPolicy,
    split::RecordedSplit,
};

/// A decision with the policy it was made under.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// What the choice optimises.
    #[cfg_attr(test, schemars(with = "crate::base::words::Objective"))]
    objective: String,
    weights: RecordedWeights,
    /// Whether the answer was to be streamed.
    streamed: bool,
    /// When it was decided, in microseconds on a clock of the process.
    tick_us: u64,
    /// Seed of the exploration noise, 64 bits; `0`: without noise.
    seed: Digits,
    /// Whether chance made the choice: exploration noise or a draw (`routing.explore`).
    explored: bool,
    /// Most attempts that the request might take.
    max_attempts: u32,
    /// What the bounds of `preferred_max_latency` were divided by.
    latency_margin: Exact,
    estimate: Estimate,
    /// Figures of all candidates together that scores are measured against; 0 where the objective does not use one.
    #[serde(rename = "yardsticks")]
    baselines: RecordedBaselines,
    /// The same for quality; absent where it did not count in the scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    quality: Option<RecordedQuality>,
    /// What the decision read, counted since the start of its process.
    versions: Versions,
    /// The routing settings that scores depend on.
    policy: RecordedPolicy,
    /// The candidates that the record keeps with their figures.
    candidates: Vec<RecordedCandidate>,
    /// Candidates that ranked behind the choice and might not be tried, because fallbacks were off.
    rivals: Vec<RecordedCandidate>,
    /// Numbers of further candidates, whose figures are not kept, in their order.
    omitted: Vec<Digits>,
    /// The part of a divided alias that the request fell to; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    split: Option<RecordedSplit>,
    /// From what a choice at random could be drawn; absent where none could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exploration: Option<RecordedExploration>,
}

/// The draw of a choice at random.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(deny_unknown_fields)]
struct RecordedExploration {
    /// Its probability.
    share: Exact,
    /// Number of endpoints from which it is drawn.
    endpoints: u32,
    /// Places among them of the recorded candidates and then the rivals; `null` for those that cannot be drawn.
    places: Vec<Option<u32>>,
}

impl RecordedExploration {
    fn new(decision: &Decision) -> Option<RecordedExploration> {
        let place = |candidate: &Candidate| {
            let found = decision.safe_set.iter().position(|index| *index == candidate.index);
            found.and_then(|place| u32::try_from(place).ok())
        };
        (decision.exploration_share > 0.0).then(|| RecordedExploration {
            share: Exact(decision.exploration_share),
            endpoints: u32::try_from(decision.safe_set.len()).unwrap_or(u32::MAX),
            places: decision.candidates.iter().chain(&decision.rivals).map(place).collect(),
        })
    }

    /// Gives the decision its draw: endpoints are numbered by their places.
    fn apply(&self, decision: &mut Decision) {
        decision.exploration_share = self.share.0;
        // Longer sets than any catalogue are nobody's.
        decision.safe_set = (0..self.endpoints.min(u32::from(u16::MAX))).collect();
        let candidates = decision.candidates.iter_mut().chain(&mut decision.rivals);
        candidates.zip(&self.places).for_each(|(candidate, place)| candidate.index = place.unwrap_or(u32::MAX));
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(deny_unknown_fields)]
struct RecordedWeights {
    /// Weight of time.
    latency: Exact,
    /// Weight of cost.
    cost: Exact,
    /// Weight of quality; absent if it is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    quality: Option<Exact>,
}

/// What quality was compared with.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(deny_unknown_fields)]
struct RecordedQuality {
    /// Median of the probabilities that an answer is not acceptable.
    median_loss: Exact,
    /// Quality that counted for candidates of unknown quality: the lowest known one.
    lowest: Exact,
    /// Quality that a dollar had to buy, by the spend pace of the alias; absent if it is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    per_dollar: Option<Exact>,
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(deny_unknown_fields)]
struct Estimate {
    /// Tokens of the prompt, estimated for the choice.
    prompt_tokens: u32,
    /// Output tokens expected of the choice.
    completion_tokens: u32,
}

/// Baselines for times and costs; 0 where the objective uses none.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(deny_unknown_fields)]
struct RecordedBaselines {
    /// Median of the predicted seconds to the last byte.
    median_time_s: Exact,
    /// Median of the expected costs in US dollars.
    median_cost_usd: Exact,
    /// What a failed attempt is taken to cost in US dollars, because another endpoint must then serve.
    failed_cost_usd: Exact,
    /// Second least of the predicted times in seconds: what another attempt is taken to need.
    second_time_s: Exact,
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(deny_unknown_fields)]
struct Versions {
    /// Number of the statistics.
    snapshot: u64,
    /// Number of the catalog.
    catalog: u64,
    /// Number of the routing settings.
    policy: u64,
}

impl Recorded {
    /// The record of a decision. Names come from `catalog`, as far as it still knows the endpoints.
    pub fn new(decision: &Decision, policy: &RoutingPolicy, catalog: &Catalog) -> Recorded {
        let [time, cost, failed, second] = decision.baselines;
        let candidate = |candidate| RecordedCandidate::new(candidate, catalog);
        Recorded {
            objective: decision.objective.value.as_str().to_owned(),
            weights: RecordedWeights {
                latency: Exact(decision.weights.latency),
                cost: Exact(decision.weights.cost),
                quality: (decision.weights.quality != 0.0).then_some(Exact(decision.weights.quality)),
            },
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
            quality: decision.quality.map(|QualityBaseline { median_loss, lowest, per_dollar }| RecordedQuality {
                median_loss: Exact(median_loss),
                lowest: Exact(lowest),
                per_dollar: (per_dollar != 0.0).then_some(Exact(per_dollar)),
            }),
            versions: Versions {
                snapshot: decision.snapshot_version,
                catalog: decision.catalog_version,
                policy: decision.policy_version,
            },
            policy: RecordedPolicy::new(policy),
            candidates: decision.candidates.iter().map(candidate).collect(),
            rivals: decision.rivals.iter().map(candidate).collect(),
            omitted: decision.omitted.iter().map(|id| Digits(id.0)).collect(),
            split: decision.split.as_deref().map(RecordedSplit::new),
            exploration: RecordedExploration::new(decision),
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
        let mut decision = Decision {
            router: None,
            objective: Sourced { value: objective, source: Source::Default },
            weights: Weights {
                latency: self.weights.latency.0,
                cost: self.weights.cost.0,
                quality: self.weights.quality.map_or(0.0, |weight| weight.0),
            },
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
            split: self.split.as_ref().map(RecordedSplit::taken).transpose()?,
            baselines: [
                self.baselines.median_time_s.0,
                self.baselines.median_cost_usd.0,
                self.baselines.failed_cost_usd.0,
                self.baselines.second_time_s.0,
            ],
            quality: self.quality.as_ref().map(|quality| QualityBaseline {
                median_loss: quality.median_loss.0,
                lowest: quality.lowest.0,
                per_dollar: quality.per_dollar.as_ref().map_or(0.0, |rate| rate.0),
            }),
        };
        if let Some(exploration) = &self.exploration {
            exploration.apply(&mut decision);
        }
        Ok((decision, self.policy.policy()))
    }

    /// The name of a candidate, such as `acme/small at acme`. Its id if the name is unknown.
    pub fn name(&self, endpoint: u64) -> String {
        let known = self.candidates.iter().chain(&self.rivals).find(|candidate| candidate.id() == endpoint);
        known.and_then(RecordedCandidate::name).unwrap_or_else(|| endpoint.to_string())
    }

    /// The decision in one line.
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
