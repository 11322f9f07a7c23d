use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    cascade::Cascade,
    catalog::{Catalog, Target},
    circuit::Circuit,
    exclusion::ExcludedEndpoint,
    id::EndpointId,
    objective::{Objective, Weights},
    prediction::Prediction,
    quality::Quality,
    query::{Exploration, Query, RoutingParameters, Sourced},
    recorded_gate::RecordedGate,
    reopens::Reopens,
    request_facts::RequestFacts,
    score_terms::{ScoreTerms, ScoreUnit},
    taken_split::TakenSplit,
    task_class::TaskClass,
    tick::Tick,
};

/// The routing decision for one request, with all inputs of the decision.
///
/// Made by `pointsman_routing::decide`, carried to the ledger by value, rendered as a sentence only on request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The alias that was asked for, or `None` for a fixed model.
    pub router: Option<String>,
    /// The objective and where it came from.
    pub objective: Sourced<Objective>,
    /// The weights of `balanced`.
    pub weights: Weights,
    /// The routing parameters as merged.
    pub parameters: Arc<RoutingParameters>,
    /// Why the first candidate is the first.
    pub code: DecisionCode,
    /// In the order in which they will be tried; the first is the choice. Empty if no endpoint could take the request.
    #[serde(skip)]
    pub candidates: Vec<Candidate>,
    /// Candidates that ranked behind the choice and may not be tried because fallbacks are off. They are also in
    /// `excluded`.
    #[serde(skip)]
    pub rivals: Vec<Candidate>,
    /// Endpoints on standby, in order: those that are saturated, paced or behind an open breaker, tried only when all
    /// candidates failed and attempts are left. They are also in `excluded`.
    #[serde(skip)]
    pub standby: Vec<Candidate>,
    /// Further candidates in the order of the plan, recorded without figures. They have the ranks that `candidates` leaves
    /// out.
    pub omitted: Vec<EndpointId>,
    /// Every endpoint of the pool that is not a candidate, and why.
    pub excluded: Vec<ExcludedEndpoint>,
    /// Prompt tokens of the first candidate: estimated, and corrected by what its model counted before.
    pub prompt_tokens: u32,
    /// Whether the answer is streamed.
    pub streamed: bool,
    /// Expected output tokens of the first candidate.
    pub completion_tokens: u32,
    /// Which statistics were used.
    pub snapshot_version: u64,
    /// Which catalog was used.
    pub catalog_version: u64,
    /// Which policy was used.
    pub policy_version: u64,
    /// Time of the decision.
    pub tick: Tick,
    /// The seed of its noise and its draw; 0 means without either.
    pub seed: u64,
    /// Whether noise or a draw from `safe_set` made the choice: it differs from the choice without them.
    pub explored: bool,
    /// How many attempts the request may take.
    pub max_attempts: u32,
    /// Baselines of the scores: T̃, C̃, the cost of a failed attempt, and the second least time (seconds, dollars,
    /// dollars, seconds). 0 where the objective does not use the baseline.
    pub baselines: [f64; 4],
    /// What quality was compared with; `None` where it did not count in the scores.
    pub quality: Option<QualityBaseline>,
    /// Margin of `preferred_max_latency`: its bounds were divided by this.
    pub latency_margin: f64,
    /// What else of the request decided.
    pub request: RequestFacts,
    /// Gates of endpoints of the pool that did not let every request pass.
    pub gates: Vec<RecordedGate>,
    /// Number of the algorithm that decided (`pointsman_routing::decide::ALGORITHM`).
    pub algorithm: u16,
    /// Probability with which the choice was to be drawn at random from `safe_set`, whatever the scores; noise does not count.
    pub exploration_share: f64,
    /// Positions in the catalog of the endpoints from which such a draw could choose without harm: no other ranks before them
    /// by target or preference, they keep every bound, are open, and are hardly likelier to fail than the best of them.
    pub safe_set: Vec<u32>,
    /// Class of the task of a chat. `None` for other calls.
    pub task_class: Option<TaskClass>,
    /// The part of a divided alias that the request fell to; `None` if no requested alias divides its requests.
    pub split: Option<Arc<TakenSplit>>,
}

crate::named! {
    /// Why the first candidate was chosen.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum DecisionCode {
        /// A fixed model at its best endpoint.
        FixedModel = "fixed_model",
        /// The only candidate left.
        OnlyCandidate = "only_candidate",
        /// Least expected cost.
        CheapestAvailable = "cheapest_available",
        /// Least predicted time.
        FastestAvailable = "fastest_available",
        /// Least probability of failure.
        MostReliable = "most_reliable",
        /// Best of time and cost together.
        BalancedBestMatch = "balanced_best_match",
        /// Chosen from the free models.
        FreePool = "free_pool",
        /// A later entry of `models[]` served.
        ModelFallback = "model_fallback",
        /// Another provider of the same model served.
        ProviderFallback = "provider_fallback",
        /// The conversation stays at the endpoint with its prompt cache.
        SessionSticky = "session_sticky",
        /// Exploration noise, or a draw to learn from, changed the choice.
        Exploration = "exploration",
        /// No endpoint could take the request, so none was called.
        NoCandidates = "no_candidates",
        /// The first answer was broken, and that of another model took its place.
        Cascade = "cascade",
    }
}

/// Health of an endpoint at the time of the decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EndpointHealth {
    /// Closed, open or half-open.
    pub circuit: Circuit,
    /// Share of successes, `None` before the first answer.
    pub success_rate: Option<f64>,
    /// Number of answers and failures behind the rate, decayed and rounded.
    pub samples: u64,
    /// Requests in flight.
    pub in_flight: u32,
}

/// One endpoint that may serve the request.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Its position among the endpoints of the catalog version of the decision.
    pub index: u32,
    /// Its stable id.
    pub endpoint: EndpointId,
    /// Rank in the plan, from 0.
    pub place: u32,
    /// Which of the targets it belongs to.
    pub target: u32,
    /// Ranking group, compared first: the target, or 0 for all where models compete.
    pub group: u32,
    /// Position of its provider in the same catalog version.
    pub provider: u32,
    /// Lower is better.
    pub score: f64,
    /// The unit of score and terms.
    pub unit: ScoreUnit,
    /// Addends of the score.
    pub terms: ScoreTerms,
    /// Share of seeds for which this candidate would be chosen, 0 to 1. `None` unless it was requested
    /// (`pointsman_routing::explain::fill_selection_probabilities`).
    pub selection_probability: Option<f64>,
    /// Prediction for this request.
    pub predicted: Prediction,
    /// Health at the time of the decision.
    pub health: EndpointHealth,
    /// How its cost depends on the length of the answer.
    pub output: OutputCostSpread,
    /// Saving by the prompt cache, if the conversation was served here last.
    pub saving: Option<CacheSaving>,
    /// All inputs of the score, for replay.
    pub inputs: ScoreInputs,
    /// Whether the request is the probe of a half-open breaker.
    pub probe: bool,
    /// Whether its breaker is open or it is paced, and it is called only because nothing else is left.
    pub panic: bool,
}

impl Decision {
    /// The cascade of the alias to which a candidate belongs, with the name of the alias. A model that the request names itself has
    /// none, and neither has a request that allows no fallbacks.
    pub fn cascade_of<'c>(&self, candidate: &Candidate, catalog: &'c Catalog) -> Option<(&'c str, &'c Cascade)> {
        let target = *self.request.targets.get(candidate.target as usize)?;
        let of_alias = |target| match target {
            Target::Alias(position) => {
                let alias = catalog.alias(position)?;
                Some((alias.id.as_str(), alias.cascade.as_deref()?))
            }
            Target::Model(_) => None,
        };
        let of_divided = || {
            let taken = self.split.as_deref().filter(|taken| !taken.requested.contains(&target))?;
            of_alias(Target::Alias(taken.alias))
        };
        of_alias(target).or_else(of_divided).filter(|_| self.parameters.provider.allow_fallbacks)
    }

    /// The query that was decided.
    pub fn query(&self) -> Query {
        let request = self.request.clone();
        Query {
            api: request.api,
            today: request.today,
            targets: request.targets,
            router: self.router.clone(),
            objective: self.objective,
            weights: self.weights,
            needs: request.needs,
            routing: Arc::clone(&self.parameters),
            key_allowed: request.key_allowed,
            key_blocked: request.key_blocked,
            prompt_tokens: request.prompt_tokens,
            images: request.images,
            max_tokens: request.max_tokens,
            answers: request.answers,
            streamed: self.streamed,
            sticky: request.sticky,
            pending_reasoning: request.pending_reasoning,
            task_class: self.task_class,
            split: self.split.clone(),
            exploration: Exploration { share: self.exploration_share, ..Exploration::NONE },
            latency_margin: self.latency_margin,
            quality_per_dollar: self.quality.map_or(0.0, |quality| quality.per_dollar),
        }
    }

    /// All endpoints that may be called, in order: candidates, then those on standby.
    pub fn plan(&self) -> impl Iterator<Item = &Candidate> + Clone {
        self.candidates.iter().chain(&self.standby)
    }

    /// The omitted candidates with their ranks, from 0.
    pub fn omitted_ranks(&self) -> impl Iterator<Item = (usize, EndpointId)> + '_ {
        let is_open = |place: &usize| self.candidates.iter().all(|candidate| candidate.place as usize != *place);
        (0..).filter(is_open).zip(self.omitted.iter().copied())
    }

    /// The endpoint at this rank of the plan, from 0.
    pub fn at(&self, place: usize) -> Option<&Candidate> {
        let beyond = || self.standby.get(place.checked_sub(self.candidates.len())?);
        self.candidates.get(place).or_else(beyond)
    }
}

/// How the lengths of the answer and of the prompt move a candidate's cost. Nothing of it ranks.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OutputCostSpread {
    /// Dollars per output token, for all requested answers together.
    pub usd_per_token: f64,
    /// Most output tokens of each answer.
    pub most: u32,
    /// Dollars of the prompt as it is expected.
    pub prompt_usd: f64,
    /// Variance of ln of its tokens around that: it was estimated.
    pub prompt_variance: f64,
}

impl Candidate {
    /// Whether the call passes an open breaker. An endpoint that is only paced is healthy.
    pub fn is_past_open_circuit(&self) -> bool {
        self.panic && self.health.circuit != Circuit::Closed
    }

    /// The 10th and the 90th percentile of its cost, dollars: lengths of answers are taken to be log-normal around
    /// their expected mean, and never beyond what the request and the endpoint allow; those of prompts, too, and
    /// neither to tell of the other.
    pub fn cost_range(&self) -> [f64; 2] {
        /// The 90th percentile of the normal distribution, in standard deviations.
        const TENTH: f64 = 1.2816;
        let OutputCostSpread { usd_per_token, most, prompt_usd, prompt_variance } = self.output;
        let (expected, sigma) = (self.inputs.output_tokens, self.inputs.output_variance.sqrt());
        let tokens_at = |z: f64| {
            let tokens = expected * libm::exp(z * sigma - sigma * sigma / 2.0);
            tokens.min(f64::from(most)).max(f64::from(most).min(1.0))
        };
        let at = |z: f64| {
            let answer = (tokens_at(z) - expected) * usd_per_token;
            let prompt = prompt_usd * (libm::exp(z * prompt_variance.sqrt()) - 1.0);
            let answer = if z < 0.0 { answer.min(0.0) } else { answer.max(0.0) };
            (self.inputs.cost + libm::hypot(answer, prompt).copysign(z)).max(0.0)
        };
        [at(-TENTH).min(self.inputs.cost), at(TENTH).max(self.inputs.cost)]
    }
}

/// Saving at the endpoint that served the conversation last and may still have its prompt in the cache. Already
/// subtracted from cost and first token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CacheSaving {
    /// Prompt tokens expected to be read from the cache.
    pub cached_tokens: u32,
    /// Dollars saved; 0 where cached input has no price of its own.
    pub usd: f64,
    /// Seconds saved on the first token.
    pub seconds: f64,
}

/// The inputs of a score, sufficient to recompute it bit for bit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ScoreInputs {
    /// Intercept of the first-token fit, ln seconds.
    pub intercept: f64,
    /// Load exponent.
    pub load_exponent: f64,
    /// Learned knee, requests in flight.
    pub knee: f64,
    /// Residual variance.
    pub variance: f64,
    /// Seconds that each prompt token adds to the first token at low load.
    pub prompt_slope: f64,
    /// Prompt tokens: estimated, and corrected by what its model counted before.
    pub prompt_tokens: u32,
    /// Prompt tokens that the endpoint may have in its cache.
    pub cached_tokens: u32,
    /// Decayed weight of the fit.
    pub weight: f64,
    /// Mean ln seconds per output token.
    pub per_token: f64,
    /// Variance of ln seconds per output token from answer to answer.
    pub pace_variance: f64,
    /// Number of observations behind the pace.
    pub pace_weight: f64,
    /// Share of output tokens that answers show.
    pub shown: f64,
    /// Decayed failures at the time of the decision.
    pub failures: f64,
    /// Decayed successes at the time of the decision.
    pub successes: f64,
    /// Prior failure probability, from its sibling endpoints.
    pub usual_failure: f64,
    /// Seconds since the last observation; infinite when there was none.
    pub age: f64,
    /// Requests in flight.
    pub in_flight: u32,
    /// Expected output tokens.
    pub output_tokens: f64,
    /// Variance of ln output tokens.
    pub output_variance: f64,
    /// Cost used for ranking, dollars, after the saving by the cache.
    pub cost: f64,
    /// Lower bound of the failure probability, from the breaker or because the endpoint has gone silent.
    pub floor: f64,
    /// Expected seconds to the first token of a stream, or to the complete plain answer. Unanswered requests are
    /// compared with it.
    pub expected: f64,
    /// Standard deviation of ln of the expected seconds.
    pub spread: f64,
    /// Preference tier, compared before the score: position in `provider.order`, then whether a preferred latency or
    /// throughput is missed. Lower goes first.
    pub tier: u32,
    /// When its breaker admits or admitted a probe, or when a paced endpoint admits the next request.
    pub reopens: Reopens,
    /// How good its answers are for the class of the task; `None`: unknown, or no request with a class.
    pub quality: Option<Quality>,
}

/// What quality is compared with in the scores of one decision.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct QualityBaseline {
    /// Median of the probability that an answer is not acceptable.
    pub median_loss: f64,
    /// The lowest known quality: candidates of unknown quality count with it.
    pub lowest: f64,
    /// Quality that a dollar had to buy, by the spend pace of the alias; 0: money had no part in it.
    pub per_dollar: f64,
}

/// No candidate is left. Holds everything that the error response needs.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteError {
    /// The query.
    pub query: Box<Query>,
    /// Every endpoint of the pool with the reason of its exclusion.
    pub excluded: Vec<ExcludedEndpoint>,
    /// When the earliest exclusion ends by itself; `None` when waiting does not help.
    pub opens: Option<Tick>,
    /// Gates of endpoints of the pool that did not let every request pass.
    pub gates: Vec<RecordedGate>,
}
