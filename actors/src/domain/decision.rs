use std::sync::Arc;

use super::{
    detail::ExclusionDetail,
    id::EndpointId,
    objective::{Objective, Weights},
    omitted::OmittedCandidates,
    query::{Query, RoutingParameters, Sourced},
    tick::Tick,
    what_if::Circuit,
};

/// What the routing decided for one request, and everything it decided it with.
///
/// Made by [`crate::decide`], carried to the ledger by value, told as a sentence only when somebody asks.
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
    pub excluded: Vec<Excluded>,
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
    pub yardsticks: [f64; 4],
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

/// The unit of a score. Lower is always better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScoreUnit {
    /// Seconds to the last byte.
    Seconds,
    /// Dollars per successful answer.
    Usd,
    /// Probability of failure.
    Probability,
    /// A ratio to the pool's medians.
    None,
}

impl ScoreUnit {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ScoreUnit::Seconds => "s",
            ScoreUnit::Usd => "usd",
            ScoreUnit::Probability => "probability",
            ScoreUnit::None => "none",
        }
    }
}

/// One addend of a score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreTerm {
    /// What it stands for, such as `expected_cost`.
    pub name: &'static str,
    /// Its share, in the score's unit.
    pub value: f64,
}

/// The addends of one score, at most [`ScoreTerms::MOST`], without a heap allocation. Summed in order they
/// are the score exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreTerms {
    names: &'static [&'static str],
    values: [f64; ScoreTerms::MOST],
}

impl ScoreTerms {
    /// The most terms a score has.
    pub const MOST: usize = 4;

    /// The terms of these names and values, in this order; values beyond the names are 0.
    #[must_use]
    pub const fn new(names: &'static [&'static str], values: [f64; ScoreTerms::MOST]) -> ScoreTerms {
        ScoreTerms { names, values }
    }

    /// The terms, in order.
    pub fn iter(&self) -> impl Iterator<Item = ScoreTerm> {
        self.names.iter().zip(self.values).map(|(name, value)| ScoreTerm { name, value })
    }

    /// The score.
    #[must_use]
    pub fn sum(&self) -> f64 {
        // All of them, and not in a loop: what is not a term is 0.
        self.values.iter().sum()
    }
}

/// What is expected of an endpoint for this request, without noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Median time to the first token, seconds.
    pub first_token_p50: f64,
    /// 95th percentile of it, seconds.
    pub first_token_p95: f64,
    /// Output tokens per second after the first.
    pub tokens_per_second: f64,
    /// Median time to the last byte, seconds.
    pub total_p50: f64,
    /// 95th percentile of it, seconds.
    pub total_p95: f64,
    /// Expected cost, dollars.
    pub cost: f64,
    /// Probability that the attempt fails or runs out of time.
    pub failure: f64,
    /// Whether any of it rests on measurements; otherwise on priors alone.
    pub measured: bool,
}

impl Prediction {
    /// Nothing was predicted: the attempt says nothing about how well predictions hold.
    pub const NONE: Prediction = Prediction {
        first_token_p50: 0.0,
        first_token_p95: 0.0,
        tokens_per_second: 0.0,
        total_p50: 0.0,
        total_p95: 0.0,
        cost: 0.0,
        failure: 0.0,
        measured: false,
    };
}

/// How an endpoint stood at the moment of the decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Health {
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
    pub health: Health,
    /// What its cost would be for other lengths of the answer.
    pub output: OutputSpread,
    /// What the prompt cache of the conversation's last endpoint is worth, if this is it.
    pub saving: Option<Saving>,
    /// Every number its score was made from, for replay.
    pub inputs: Inputs,
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
    pub fn omitted_places(&self) -> impl Iterator<Item = (usize, EndpointId)> + '_ {
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

/// How the lengths of the answer and of the prompt move a candidate's cost. Nothing of it ranks.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OutputSpread {
    /// Dollars of one more output token, of every answer asked for.
    pub usd_per_token: f64,
    /// Most output tokens that each answer can have.
    pub most: u32,
    /// Dollars of the prompt as it is expected.
    pub prompt_usd: f64,
    /// Variance of ln of its tokens around that: it was estimated.
    pub prompt_variance: f64,
}

impl Candidate {
    /// Whether calling it means passing a breaker that is open. An endpoint that is only paced is sound: its own clock
    /// protects it.
    #[must_use]
    pub fn is_past_open_circuit(&self) -> bool {
        self.panic && self.health.circuit != Circuit::Closed
    }

    /// The 10th and the 90th percentile of its cost, dollars: lengths of answers are taken to be log-normal around
    /// their expected mean, and never beyond what the request and the endpoint allow; those of prompts, too, and
    /// neither to tell of the other.
    #[must_use]
    pub fn cost_range(&self) -> [f64; 2] {
        /// Standard deviations at which a tenth lies beyond.
        const TENTH: f64 = 1.2816;
        let OutputSpread { usd_per_token, most, prompt_usd, prompt_variance } = self.output;
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

/// What is saved where the conversation was served last, whose cache may still hold its prompt. Already taken off
/// cost and first token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Saving {
    /// Prompt tokens expected to be read from the cache.
    pub cached_tokens: u32,
    /// Dollars saved; 0 where cached input has no price of its own.
    pub usd: f64,
    /// Seconds saved on the first token.
    pub seconds: f64,
}

/// The numbers a score was made from: enough to recompute it bit for bit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Inputs {
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

/// An endpoint of the pool that may not serve the request.
#[derive(Debug, Clone, PartialEq)]
pub struct Excluded {
    /// Its position among the endpoints of the catalog version of the decision.
    pub index: u32,
    /// Its stable id.
    pub endpoint: EndpointId,
    /// Why.
    pub reason: ExclusionReason,
    /// The figure or pattern that decided; its `Display` is for a human.
    pub detail: ExclusionDetail,
}

/// Why an endpoint may not serve. The vocabulary of preview, explain and errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExclusionReason {
    /// No allowed list names the model.
    NotAllowedModel,
    /// A blocked list names the model.
    BlockedModel,
    /// `provider.only` does not name the provider.
    ProviderNotAllowed,
    /// `provider.ignore` names the provider.
    ProviderIgnored,
    /// The free pool was asked for and the model costs something.
    NotFree,
    /// A required parameter is not supported.
    UnsupportedParameter,
    /// An input kind is not taken.
    InputModality,
    /// An output kind is not given.
    OutputModality,
    /// Prompt and output do not fit.
    ContextLength,
    /// Above `provider.max_price` or `max_cost`.
    MaxPrice,
    /// Above `max_cost_per_1k_tokens`.
    MaxCostPer1kTokens,
    /// The provider's data policy.
    DataPolicy,
    /// Another quantization.
    Quantization,
    /// The key may not use it.
    KeyPolicy,
    /// Retired.
    ModelExpired,
    /// Switched off in the configuration.
    Disabled,
    /// Its provider is off.
    ProviderOff,
    /// Our account or model name at the provider is wrong.
    ConfigFault,
    /// Its breaker is open.
    CircuitOpen,
    /// Its one probe is out.
    ProbeInFlight,
    /// Cooling after a 429.
    RateLimited,
    /// Admission is paced after 429s.
    Paced,
    /// More in flight than it serves well.
    Saturated,
    /// The model belongs to another endpoint of the API.
    WrongEndpoint,
    /// The gateway is shutting down.
    Draining,
}

impl ExclusionReason {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ExclusionReason::NotAllowedModel => "not_allowed_model",
            ExclusionReason::BlockedModel => "blocked_model",
            ExclusionReason::ProviderNotAllowed => "provider_not_allowed",
            ExclusionReason::ProviderIgnored => "provider_ignored",
            ExclusionReason::NotFree => "not_free",
            ExclusionReason::UnsupportedParameter => "unsupported_parameter",
            ExclusionReason::InputModality => "input_modality",
            ExclusionReason::OutputModality => "output_modality",
            ExclusionReason::ContextLength => "context_length",
            ExclusionReason::MaxPrice => "max_price",
            ExclusionReason::MaxCostPer1kTokens => "max_cost_per_1k_tokens",
            ExclusionReason::DataPolicy => "data_policy",
            ExclusionReason::Quantization => "quantization",
            ExclusionReason::KeyPolicy => "key_policy",
            ExclusionReason::ModelExpired => "model_expired",
            ExclusionReason::Disabled => "disabled",
            ExclusionReason::ProviderOff => "provider_off",
            ExclusionReason::ConfigFault => "config_fault",
            ExclusionReason::CircuitOpen => "circuit_open",
            ExclusionReason::ProbeInFlight => "probe_in_flight",
            ExclusionReason::RateLimited => "rate_limited",
            ExclusionReason::Paced => "paced",
            ExclusionReason::Saturated => "saturated",
            ExclusionReason::WrongEndpoint => "wrong_endpoint",
            ExclusionReason::Draining => "draining",
        }
    }

    /// Whether time alone may lift it.
    #[must_use]
    pub const fn is_passing(self) -> bool {
        use ExclusionReason::{CircuitOpen, ConfigFault, Paced, ProbeInFlight, RateLimited, Saturated};
        matches!(self, CircuitOpen | ConfigFault | Paced | ProbeInFlight | RateLimited | Saturated)
    }
}

/// Why there is no decision: no candidate is left. Everything the answer needs is in it.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteError {
    /// What was asked.
    pub query: Box<Query>,
    /// Every endpoint of the pool with its reason.
    pub excluded: Vec<Excluded>,
    /// When the earliest shut gate opens, if waiting helps: time alone excluded at least one endpoint.
    pub opens: Option<Tick>,
}
