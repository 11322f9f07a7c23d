use std::sync::Arc;

use super::{
    circuit::Circuit,
    exclusion::ExcludedEndpoint,
    id::EndpointId,
    objective::{Objective, Weights},
    omitted_candidates::OmittedCandidates,
    prediction::Prediction,
    query::{Query, RoutingParameters, Sourced},
    score_terms::{ScoreTerms, ScoreUnit},
    tick::Tick,
};

/// What the routing decided for one request, and everything it decided it with.
///
/// Made by [`crate::decide`], carried to the ledger by value, rendered as a sentence only on request.
#[derive(Debug, Clone, PartialEq)]
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
    /// In the order in which they will be tried; the first is the choice.
    pub candidates: Vec<Candidate>,
    /// Those that ranked behind the choice and may not be tried, because fallbacks are off; they stand among the
    /// excluded too.
    pub rivals: Vec<Candidate>,
    /// Who is called once the candidates are used up and attempts are left, in this order, although saturated, paced or
    /// behind a shut gate; they stand among the excluded too.
    pub standby: Vec<Candidate>,
    /// Who else is in the plan, but without figures: they stand at the places that `candidates` leaves open.
    pub omitted: OmittedCandidates,
    /// Every endpoint of the pool that is not a candidate, and why.
    pub excluded: Vec<ExcludedEndpoint>,
    /// Estimated prompt tokens.
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
    /// The moment of the decision.
    pub tick: Tick,
    /// The seed of its noise; 0 means without noise.
    pub seed: u64,
    /// Whether noise made the choice: it differs from the choice without.
    pub explored: bool,
    /// How many attempts the request may take.
    pub max_attempts: u32,
    /// The yardsticks of the scores: T̃, C̃, what a failed attempt costs, and the second least time (seconds,
    /// dollars, dollars, seconds). 0 for those that the scores of the objective are made without.
    pub baselines: [f64; 4],
    /// How much stricter than its bounds `preferred_max_latency` was read: a bound of 1 s counted as 1 s by this.
    pub latency_margin: f64,
}

/// Why the choice is the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DecisionCode {
    /// A fixed model at its best endpoint.
    FixedModel,
    /// Nothing else was left.
    OnlyCandidate,
    /// Least expected cost.
    CheapestAvailable,
    /// Least predicted time.
    FastestAvailable,
    /// Least probability of failure.
    MostReliable,
    /// Best of time and cost together.
    BalancedBestMatch,
    /// From the free pool.
    FreePool,
    /// A later entry of `models[]` served.
    ModelFallback,
    /// Another provider of the same model served.
    ProviderFallback,
    /// The conversation stayed where its prompt cache is.
    SessionSticky,
    /// Noise made the choice.
    Exploration,
}

impl DecisionCode {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            DecisionCode::FixedModel => "fixed_model",
            DecisionCode::OnlyCandidate => "only_candidate",
            DecisionCode::CheapestAvailable => "cheapest_available",
            DecisionCode::FastestAvailable => "fastest_available",
            DecisionCode::MostReliable => "most_reliable",
            DecisionCode::BalancedBestMatch => "balanced_best_match",
            DecisionCode::FreePool => "free_pool",
            DecisionCode::ModelFallback => "model_fallback",
            DecisionCode::ProviderFallback => "provider_fallback",
            DecisionCode::SessionSticky => "session_sticky",
            DecisionCode::Exploration => "exploration",
        }
    }
}

/// How an endpoint stood at the moment of the decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EndpointHealth {
    /// Closed, open or half-open.
    pub circuit: Circuit,
    /// Share of successes, `None` before the first answer.
    pub success_rate: Option<f64>,
    /// Answers and failures it rests on, decayed and rounded.
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
    /// Its place in the plan, from 0.
    pub place: u32,
    /// Which of the targets it belongs to.
    pub target: u32,
    /// Whom it ranks with before anything else: its target, or 0 for all where models compete.
    pub group: u32,
    /// Position of its provider in the same catalog version.
    pub provider: u32,
    /// Lower is better.
    pub score: f64,
    /// The unit of score and terms.
    pub unit: ScoreUnit,
    /// Addends of the score.
    pub terms: ScoreTerms,
    /// How often this candidate would be chosen over all seeds, 0 to 1; `None` unless somebody asked
    /// ([`crate::explain::fill_selection_probabilities`]).
    pub selection_probability: Option<f64>,
    /// What is expected of it.
    pub predicted: Prediction,
    /// How it stood.
    pub health: EndpointHealth,
    /// What its cost would be for other lengths of the answer.
    pub output: OutputCostSpread,
    /// What the prompt cache of the conversation's last endpoint is worth, if this is it.
    pub saving: Option<CacheSaving>,
    /// Every number its score was made from, for replay.
    pub inputs: ScoreInputs,
    /// Whether calling it is a half-open breaker's one probe.
    pub probe: bool,
    /// Whether its gate is shut and it is only called because nothing else is left.
    pub panic: bool,
}

impl Decision {
    /// Everybody who may be called, in order: the candidates, then those on standby.
    pub fn plan(&self) -> impl Iterator<Item = &Candidate> + Clone {
        self.candidates.iter().chain(&self.standby)
    }

    /// Who is in the plan without figures, each with its place, from 0.
    pub fn omitted_ranks(&self) -> impl Iterator<Item = (usize, EndpointId)> + '_ {
        let is_open = |place: &usize| self.candidates.iter().all(|candidate| candidate.place as usize != *place);
        (0..).filter(is_open).zip(self.omitted.in_order())
    }

    /// Who is called at this place of the plan, counted from 0.
    #[must_use]
    pub fn at(&self, place: usize) -> Option<&Candidate> {
        let beyond = || self.standby.get(place.checked_sub(self.candidates.len())?);
        self.candidates.get(place).or_else(beyond)
    }
}

/// How the length of the answer moves a candidate's cost. Nothing of it ranks.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OutputCostSpread {
    /// Dollars of one more output token, of every answer asked for.
    pub usd_per_token: f64,
    /// Most output tokens that each answer can have.
    pub most: u32,
}

impl Candidate {
    /// Whether calling it means passing a breaker that is open. An endpoint that is only paced is sound: its own clock
    /// protects it.
    #[must_use]
    pub fn is_past_open_circuit(&self) -> bool {
        self.panic && self.health.circuit != Circuit::Closed
    }

    /// The 10th and the 90th percentile of its cost, dollars: lengths of answers are taken to be log-normal around
    /// their expected mean, and never beyond what the request and the endpoint allow.
    #[must_use]
    pub fn cost_range(&self) -> [f64; 2] {
        /// Standard deviations at which a tenth lies beyond.
        const TENTH: f64 = 1.2816;
        let OutputCostSpread { usd_per_token, most } = self.output;
        let (expected, sigma) = (self.inputs.output_tokens, self.inputs.output_variance.sqrt());
        let tokens_at = |z: f64| {
            let tokens = expected * libm::exp(z * sigma - sigma * sigma / 2.0);
            tokens.min(f64::from(most)).max(f64::from(most).min(1.0))
        };
        let at = |z: f64| (self.inputs.cost + (tokens_at(z) - expected) * usd_per_token).max(0.0);
        [at(-TENTH).min(self.inputs.cost), at(TENTH).max(self.inputs.cost)]
    }
}

/// What is saved where the conversation was served last, whose cache may still hold its prompt. Already taken off
/// cost and first token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheSaving {
    /// Prompt tokens expected to be read from the cache.
    pub cached_tokens: u32,
    /// Dollars saved; 0 where cached input has no price of its own.
    pub usd: f64,
    /// Seconds saved on the first token.
    pub seconds: f64,
}

/// The numbers a score was made from: enough to recompute it bit for bit.
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
    /// Estimated prompt tokens.
    pub prompt_tokens: u32,
    /// Those of them that the endpoint may hold in its cache.
    pub cached_tokens: u32,
    /// Decayed weight of the fit.
    pub weight: f64,
    /// Mean ln seconds per output token.
    pub per_token: f64,
    /// Variance of that from answer to answer.
    pub pace_variance: f64,
    /// Observations it rests on.
    pub pace_weight: f64,
    /// Decayed failures at reading.
    pub failures: f64,
    /// Decayed successes at reading.
    pub successes: f64,
    /// The failure probability that is usual among its siblings.
    pub usual_failure: f64,
    /// Seconds since the last observation; infinite when there was none.
    pub age: f64,
    /// Requests in flight.
    pub in_flight: u32,
    /// Surprise among unanswered requests, ln.
    pub late: f64,
    /// Expected output tokens.
    pub output_tokens: f64,
    /// Variance of ln of them.
    pub output_variance: f64,
    /// Ranking cost, dollars; what the cache saves is taken off.
    pub cost: f64,
    /// Lower bound on p_bad: from the breaker, or because nothing comes from it any more.
    pub floor: f64,
    /// Seconds until a sign of life is expected: the first token of a stream, the whole of a plain answer.
    /// What an unanswered request is compared with.
    pub expected: f64,
    /// Standard deviation of ln of that.
    pub spread: f64,
    /// Rank given by the caller's wishes before any score counts: place in `provider.order`, then whether a
    /// preferred latency or throughput is missed. Lower goes first.
    pub tier: u32,
    /// When its shut gate opens or opened, or when a paced endpoint takes the next request; zero when neither
    /// stood in the way.
    pub until: Tick,
}

/// Why there is no decision: no candidate is left. Everything the answer needs is in it.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteError {
    /// What was asked.
    pub query: Box<Query>,
    /// Every endpoint of the pool with its reason.
    pub excluded: Vec<ExcludedEndpoint>,
    /// When the earliest shut gate opens, if waiting helps: time alone excluded at least one endpoint.
    pub opens: Option<Tick>,
}
