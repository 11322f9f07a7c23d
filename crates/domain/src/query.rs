use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    api_type::ApiType,
    capability::CapabilitySet,
    catalog::Target,
    conversation::StickyEndpoint,
    dialect::Dialect,
    id::EndpointId,
    modality::Modalities,
    money::Usd,
    objective::{Objective, Weights},
    parameter::ParameterSet,
    pattern::ModelPattern,
    preference::Preference,
    quality::{QualityFloor, UnknownQuality},
    reasoning_format::ReasoningFormat,
    service_tier::RequestedService,
    taken_split::TakenSplit,
    task_class::TaskClass,
};

crate::named! {
    /// Origin of a routing parameter, in order of precedence, highest first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum Source {
        /// Inside `metadata`.
        Metadata = "metadata",
        /// Inside `extra_body`.
        ExtraBody = "extra_body",
        /// At the top level of the body.
        TopLevel = "top_level",
        /// Inside `provider` or `provider_policy`.
        Provider = "provider",
        /// Inside `plugins`.
        Plugins = "plugins",
        /// In a header.
        Header = "header",
        /// From the requested alias.
        Alias = "alias",
        /// From the configuration of the key.
        Key = "key",
        /// The gateway's own default.
        Default = "default",
    }
}

/// A value with its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// The origin.
    pub source: Source,
}

/// All routing parameters of a request, merged from all origins.
///
/// A scalar is taken from the origin with the highest precedence. Lists of all origins are kept, because each list
/// only restricts further.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RoutingParameters {
    /// The objective asked for.
    pub objective: Option<Sourced<Objective>>,
    /// Weights for `balanced`.
    pub weights: Option<Sourced<Weights>>,
    /// Every allowed list that was given: a model must match each of them. Empty lists are not kept.
    pub allowed: Vec<Vec<ModelPattern>>,
    /// Every blocked pattern: a model must match none.
    pub blocked: Vec<ModelPattern>,
    /// Restrictions on providers.
    pub provider: ProviderPolicy,
    /// Highest price per 1,000 tokens: compared with 1,000 × the dearer of prompt and completion.
    pub max_cost_per_1k_tokens: Option<Sourced<Usd>>,
    /// Highest expected cost of the whole request.
    pub max_cost: Option<Sourced<Usd>>,
    /// Preferred highest time to first token, seconds: candidates above it rank behind the others.
    pub preferred_max_latency: Option<Sourced<Preference>>,
    /// Preferred lowest throughput, tokens per second: candidates below it rank behind the others.
    pub preferred_min_throughput: Option<Sourced<Preference>>,
    /// Least quality for the class of the task: endpoints below it are excluded.
    pub min_quality: Option<Sourced<QualityFloor>>,
    /// What becomes of endpoints of unknown quality then.
    pub quality_unknown: Option<Sourced<UnknownQuality>>,
    /// How many candidates a preview shows.
    pub top_n: Option<u32>,
    /// The decision seed to rank with; preview only.
    pub route_seed: Option<u64>,
    /// Whether the request must not be explored ([`Exploration`]). Not recorded: the share of the decision is 0 then.
    #[serde(skip)]
    pub unexplored: bool,
}

/// Whether providers that keep prompts may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum DataCollection {
    /// Any provider.
    #[default]
    Allow,
    /// Only providers configured as not collecting.
    Deny,
}

/// Ceilings on list prices, each in USD; a candidate above any of them is excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PriceCeiling {
    /// Per prompt token.
    pub prompt: Option<Usd>,
    /// Per completion token.
    pub completion: Option<Usd>,
    /// Per request.
    pub request: Option<Usd>,
    /// Per image.
    pub image: Option<Usd>,
}

/// The `provider` object: which providers may serve and how. Names are compared without case,
/// against slug and display name; `slug/variant` names one endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProviderPolicy {
    /// Providers to try first, in this order.
    pub order: Vec<String>,
    /// When given, every list restricts: a provider must be in each of them.
    pub only: Vec<Vec<String>>,
    /// Providers never to use.
    pub ignore: Vec<String>,
    /// Whether the models of `models[]` compete with each other instead of each waiting for the one before it to fail
    /// (`sort` with `partition: "none"`).
    pub across_models: bool,
    /// Whether a second attempt elsewhere is allowed.
    pub allow_fallbacks: bool,
    /// Whether every given parameter is a hard requirement.
    pub require_parameters: bool,
    /// Data policy.
    pub data_collection: DataCollection,
    /// Only endpoints with zero data retention.
    pub zero_data_retention: bool,
    /// Only these quantizations, lower case.
    pub quantizations: Vec<String>,
    /// Price ceilings.
    pub max_price: PriceCeiling,
}

impl Default for ProviderPolicy {
    fn default() -> ProviderPolicy {
        ProviderPolicy {
            order: Vec::new(),
            only: Vec::new(),
            ignore: Vec::new(),
            across_models: false,
            allow_fallbacks: true,
            require_parameters: false,
            data_collection: DataCollection::Allow,
            zero_data_retention: false,
            quantizations: Vec::new(),
            max_price: PriceCeiling::default(),
        }
    }
}

/// What a model or endpoint must support to serve a request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Needs {
    /// Input modalities other than text that the model must accept.
    pub input: Modalities,
    /// Output modalities that the model must produce.
    pub output: Modalities,
    /// Parameters the endpoint must support, all of them.
    pub parameters: ParameterSet,
    /// Parameters of which the endpoint must support at least one (a JSON schema may be honoured under
    /// `structured_outputs` or `response_format`); empty means no requirement.
    pub any_parameter: ParameterSet,
    /// What the endpoint must not refuse.
    pub capabilities: CapabilitySet,
    /// A feature that only endpoints of one wire format have.
    pub native: Option<NativeFeature>,
    /// Endpoints that would not get a parameter, though the request requires all of its parameters, or this one.
    pub lost: Vec<LostParameter>,
    /// The fields that change its price.
    pub service: RequestedService,
}

/// A feature that only one wire format has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeFeature {
    /// The wire format.
    pub dialect: Dialect,
    /// Where the request has it, in the client's words.
    pub field: Arc<str>,
}

/// A parameter of the request that an endpoint would not get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostParameter {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// The client's name of the parameter.
    pub name: Arc<str>,
}

/// How far choices are drawn at random to learn from, whatever the scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exploration {
    /// Share of requests.
    pub share: f64,
    /// Most that this may cost, as a share of spending. 0: only what costs no more than the choice is drawn.
    pub max_extra_cost: f64,
    /// Most seconds that the first token of such a choice may be expected later than that of the quickest one.
    pub max_extra_first_token: f64,
}

impl Exploration {
    /// None, where the configuration explores nothing: without a share, and without limits.
    pub const NONE: Exploration =
        Exploration { share: 0.0, max_extra_cost: f64::INFINITY, max_extra_first_token: f64::INFINITY };
}

/// One request as input of the decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Chat or images: a model without the matching output is excluded as `wrong_endpoint`.
    pub api: ApiType,
    /// Current day, UTC, for the expiration of models.
    pub today: chrono::NaiveDate,
    /// Requested models and aliases, in order: `model`, then `models[]`. Never empty. The lists of an alias apply only
    /// to its own models and are not repeated in `routing`.
    pub targets: Vec<Target>,
    /// The requested alias, for explanations; `None` for a fixed model.
    pub router: Option<String>,
    /// The resolved objective.
    pub objective: Sourced<Objective>,
    /// The resolved weights of `balanced`.
    pub weights: Weights,
    /// What an endpoint must support.
    pub needs: Needs,
    /// Merged routing parameters of request, alias and key.
    pub routing: Arc<RoutingParameters>,
    /// Models the key may use, all when empty. Others are excluded as `key_policy`.
    pub key_allowed: Vec<ModelPattern>,
    /// Models the key may never use.
    pub key_blocked: Vec<ModelPattern>,
    /// Estimated prompt tokens.
    pub prompt_tokens: u32,
    /// Billed images: those in the prompt of a chat, or those requested from an image call.
    pub images: u32,
    /// The request's own limit on output tokens, of each answer.
    pub max_tokens: Option<u32>,
    /// Number of requested answers (`n`). Each is billed for its own output tokens; all are generated at the same time.
    pub answers: u32,
    /// Whether the answer is streamed.
    pub streamed: bool,
    /// Endpoint that served the conversation last.
    pub sticky: Option<StickyEndpoint>,
    /// Format of the reasoning before calls whose results this turn brings; `Unknown` if there is none.
    pub pending_reasoning: ReasoningFormat,
    /// Class of the task of a chat, for its quality.
    pub task_class: Option<TaskClass>,
    /// The part of a divided alias that `targets` are; `None` if no requested alias divides its requests.
    pub split: Option<Arc<TakenSplit>>,
    /// How far the choice may be drawn at random to learn from; a preview draws nothing.
    pub exploration: Exploration,
    /// Margin of `preferred_max_latency`: its bounds are divided by this. 1 at first, above 1 after too many missed
    /// bounds, slightly below 1 while much of the error budget is left.
    pub latency_margin: f64,
    /// Quality that a dollar has to buy, by the spend pace of the alias; 0: it has none, or money is left.
    pub quality_per_dollar: f64,
}

impl Query {
    /// Mutable access to the routing parameters.
    pub fn routing_mut(&mut self) -> &mut RoutingParameters {
        Arc::make_mut(&mut self.routing)
    }
}
