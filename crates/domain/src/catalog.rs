use std::{collections::HashMap, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    alias_split::AliasSplit,
    capability::CapabilitySet,
    cascade::Cascade,
    chat_habits::{AddedMembers, ReasoningHistory},
    dialect::{Dialect, Platform},
    effort_budgets::EffortBudgets,
    id::{EndpointId, ModelId, ProviderSlug},
    modality::Modalities,
    money::Usd,
    objective::{Objective, Weights},
    parameter::{ParameterNames, ParameterSet},
    pattern::ModelPattern,
    preference::Preference,
    quality::{QualityFloor, QualityScore, QualityScores, UnknownQuality},
    reasoning_format::ReasoningFormat,
    task_class::Task,
    usage::{CostBreakdown, Pricing, Usage},
};

/// Whether a provider may be called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProviderState {
    /// It may.
    On,
    /// It may not; the sentence says why and what to do.
    Off(String),
}

/// A configured upstream, as the routing and the introspection see it. Address and key stay in the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    /// Short name.
    pub slug: ProviderSlug,
    /// Display name.
    pub name: Arc<str>,
    /// Whether it may be called.
    pub state: ProviderState,
    /// Whether it is simulated by Pointsman.
    pub simulated: bool,
    /// Whether it keeps prompts for its own use.
    pub collects_data: bool,
    /// Whether it has zero data retention.
    pub zero_data_retention: bool,
    /// Links and places for the provider list; each may be absent.
    pub privacy_policy_url: Option<String>,
    /// Terms of service.
    pub terms_of_service_url: Option<String>,
    /// Status page.
    pub status_page_url: Option<String>,
    /// Country code of its seat.
    pub headquarters: Option<String>,
    /// Country codes of its data centres.
    pub datacenters: Vec<String>,
}

impl Provider {
    /// Whether it may be called.
    pub fn is_on(&self) -> bool {
        self.state == ProviderState::On
    }

    /// Whether `name` is its slug or its display name.
    pub fn is_called(&self, name: &str) -> bool {
        name.eq_ignore_ascii_case(self.slug.as_str()) || name.eq_ignore_ascii_case(&self.name)
    }

    /// Whether an entry of a provider list matches its endpoint `variant`: slug, display name, or `slug/variant`.
    pub fn is_named(&self, entry: &str, variant: &str) -> bool {
        let both = |(name, of)| self.is_called(name) && variant.eq_ignore_ascii_case(of);
        self.is_called(entry) || entry.rsplit_once('/').is_some_and(both)
    }
}

/// What a model is made of, for the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Architecture {
    /// Inputs it takes.
    pub input: Modalities,
    /// Outputs it gives.
    pub output: Modalities,
    /// Tokenizer family.
    pub tokenizer: String,
    /// Instruction format.
    pub instruct_type: Option<String>,
}

/// Values the gateway fills in when a client omits a parameter; each may be absent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct DefaultParameters {
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// Top-k sampling.
    pub top_k: Option<f64>,
    /// Frequency penalty.
    pub frequency_penalty: Option<f64>,
    /// Presence penalty.
    pub presence_penalty: Option<f64>,
    /// Repetition penalty.
    pub repetition_penalty: Option<f64>,
}

/// A model, wherever it is served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Catalog id.
    pub id: ModelId,
    /// Permanent name; resolves like the id.
    pub canonical_slug: String,
    /// Display name.
    pub name: String,
    /// Unix time it was added.
    pub created: i64,
    /// What it can do.
    pub description: String,
    /// Inputs, outputs, tokenizer.
    pub architecture: Architecture,
    /// Values for omitted parameters.
    pub default_parameters: Option<DefaultParameters>,
    /// First day on which it is gone, `YYYY-MM-DD`.
    #[serde(with = "super::days::optional")]
    pub expiration_date: Option<chrono::NaiveDate>,
    /// Its page at Hugging Face.
    pub hugging_face_id: Option<String>,
    /// What it knows up to, `YYYY-MM-DD`.
    pub knowledge_cutoff: Option<String>,
    /// Image sizes it makes; empty means that any size is passed on.
    pub image_sizes: Vec<String>,
    /// How good its answers are, where somebody measured it.
    pub quality: QualityScores,
    /// Positions of its endpoints, in configuration order; the first is the preferred one. Never empty.
    pub endpoints: Vec<u32>,
}

/// Limits of a model at a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointLimits {
    /// Context window, tokens.
    pub context_length: u32,
    /// Longest answer, tokens.
    pub max_completion_tokens: Option<u32>,
    /// Longest prompt, tokens.
    pub max_prompt_tokens: Option<u32>,
}

impl EndpointLimits {
    /// Longest answer, tokens; the context window when no limit is configured.
    pub fn longest_answer(&self) -> u32 {
        self.max_completion_tokens.unwrap_or(u32::MAX)
    }
}

/// A model at a provider. Statistics, prices and calls refer to endpoints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Stable id.
    pub id: EndpointId,
    /// Position of its model.
    pub model: u32,
    /// Position of its provider.
    pub provider: u32,
    /// Distinguishes several endpoints of one model at one provider; empty when there is only one.
    pub variant: String,
    /// The provider's own name for the model.
    pub upstream_model: Arc<str>,
    /// Prices, snapshotted into each generation at dispatch. `None`: unknown, which is not the same as free.
    pub pricing: Option<Arc<Pricing>>,
    /// Limits.
    pub limits: EndpointLimits,
    /// Wire format of its chats.
    pub dialect: Dialect,
    /// Who serves that format.
    pub platform: Platform,
    /// Supported parameters.
    pub parameters: ParameterSet,
    /// What it refuses, whatever parameters it lists.
    pub lacks: CapabilitySet,
    /// What it refuses unless it is told not to reason, which it is told then.
    pub effort_none_cures: CapabilitySet,
    /// Format of the reasoning that it gives and takes back.
    pub reasoning_state: ReasoningFormat,
    /// Budgets of reasoning, if it takes any.
    pub effort_budgets: EffortBudgets,
    /// Scores that replace those of its model, class by class.
    pub quality: QualityScores,
    /// Number format of the weights, lower case.
    pub quantization: Option<String>,
    /// Whether the provider filters content.
    pub is_moderated: bool,
    /// Switched off in the configuration.
    pub disabled: bool,
    /// Whether it takes the field `max_completion_tokens` (else `max_tokens`).
    pub wants_max_completion_tokens: bool,
    /// Whether it takes the field `reasoning_effort` and knows neither `reasoning` nor `reasoning_details`.
    pub wants_reasoning_effort: bool,
    /// How it takes back readable reasoning of earlier answers.
    pub reasoning_history: ReasoningHistory,
    /// Members that the gateway leaves out although it adds them elsewhere.
    pub omits: AddedMembers,
    /// Whether it knows the role `developer`.
    pub knows_developer_role: bool,
    /// Whether fields the gateway does not know are passed on.
    pub forwards_unknown_fields: bool,
    /// Most inputs of one call for embeddings; `None`: as is known of its API.
    pub inputs_per_call: Option<u32>,
    /// Whether it takes system messages in the middle of a conversation.
    pub takes_instructions: bool,
    /// Whether it makes images through chat instead of the image API.
    pub images_through_chat: bool,
    /// Whether its API counts the tokens of a prompt without an inference.
    pub counts_tokens: bool,
    /// `safetySettings` of the Gemini API, as JSON; `None`: the provider's own.
    pub safety_settings: Option<Arc<str>>,
}

impl Endpoint {
    /// Whether its prices are known to be zero. Unknown prices are not free.
    pub fn is_free(&self) -> bool {
        self.pricing.as_deref().is_some_and(Pricing::is_free)
    }

    /// The exact cost of `usage`; `None` where the prices are unknown.
    pub fn cost(&self, usage: &Usage) -> Option<CostBreakdown> {
        self.pricing.as_deref().map(|pricing| pricing.cost(usage))
    }
}

/// A name for a choice among models: `<prefix>/auto`, `<prefix>/free` and those of the operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alias {
    /// Canonical name, as explanations show it.
    pub id: String,
    /// Only models that cost nothing.
    pub free_only: bool,
    /// Objective when the request names none.
    pub objective: Option<Objective>,
    /// Class of the tasks, unless the request or the key names another.
    pub task: Option<Task>,
    /// Weights of `balanced` when the request names none.
    pub weights: Option<Weights>,
    /// Latency target when the request names none: time to first token, seconds.
    pub preferred_max_latency: Option<Preference>,
    /// Preferred lowest throughput when the request names none, tokens per second.
    pub preferred_min_throughput: Option<Preference>,
    /// Least quality when the request names none.
    pub min_quality: Option<QualityFloor>,
    /// What becomes of endpoints of unknown quality then.
    pub quality_unknown: Option<UnknownQuality>,
    /// What a thousand calls are to cost at most, on average.
    pub spend_pace: Option<Usd>,
    /// A model must match one of these; empty means any.
    pub allowed: Vec<ModelPattern>,
    /// A model must match none of these.
    pub blocked: Vec<ModelPattern>,
    /// How it divides its requests; `None`: not at all.
    pub split: Option<Arc<AliasSplit>>,
    /// Target of the cascade, which answers in the place of a broken answer; `None`: there is none. No decision depends on it.
    pub cascade: Option<Arc<Cascade>>,
    /// Description for the start-up log and the catalog.
    pub description: String,
}

impl Alias {
    /// Whether its lists let the model in.
    pub fn lists(&self, model: &Model) -> bool {
        let is_in = |list: &[ModelPattern]| {
            list.iter().any(|pattern| pattern.matches(model.id.as_str(), &model.canonical_slug))
        };
        (self.allowed.is_empty() || is_in(&self.allowed)) && !is_in(&self.blocked)
    }
}

/// What a `model` name refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// Position of a model.
    Model(u32),
    /// Position of an alias.
    Alias(u32),
}

/// Result of the look-up of a `model` name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolved {
    /// The name refers to this target.
    Found(Target),
    /// The model expired on this day.
    Retired(chrono::NaiveDate),
    /// The name is unknown.
    Unknown,
}

/// All models, endpoints, providers and aliases of one configuration. Immutable; swapped whole.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Catalog {
    /// Version, incremented by each reload.
    pub version: u64,
    /// In configuration order.
    pub providers: Vec<Provider>,
    /// In configuration order.
    pub models: Vec<Model>,
    /// In configuration order, model by model.
    pub endpoints: Vec<Endpoint>,
    /// Built-in first, then the operator's.
    pub aliases: Vec<Alias>,
    /// The gated parameter names.
    pub parameters: ParameterNames,
    names: HashMap<String, Target>,
}

/// Why a catalog cannot be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogFault {
    /// Two models or aliases have this name.
    DuplicateName(String),
    /// Two endpoints have the same model, provider and variant.
    DuplicateEndpoint(String),
}

impl fmt::Display for CatalogFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CatalogFault::DuplicateName(name) => write!(f, "the name '{name}' is used twice"),
            CatalogFault::DuplicateEndpoint(name) => {
                write!(f, "the endpoint '{name}' is listed twice; give one of them a 'variant'")
            }
        }
    }
}

impl Catalog {
    /// Puts the parts together and indexes every name. `synonyms` are further spellings of aliases:
    /// (spelling, canonical alias id); those of unknown aliases are ignored.
    ///
    /// # Errors
    /// When two models or aliases have the same name, or two endpoints are the same.
    pub fn new(
        version: u64,
        providers: Vec<Provider>,
        models: Vec<Model>,
        endpoints: Vec<Endpoint>,
        aliases: Vec<Alias>,
        synonyms: &[(String, String)],
        parameters: ParameterNames,
    ) -> Result<Catalog, CatalogFault> {
        let mut catalog = Catalog { version, providers, models, endpoints, aliases, parameters, names: HashMap::new() };
        catalog.index_names(synonyms)?;
        catalog.check_endpoints()?;
        Ok(catalog)
    }

    /// Resolves `name` on the day `today`: a model id, a canonical slug, or any spelling of an alias.
    pub fn resolve(&self, name: &str, today: chrono::NaiveDate) -> Resolved {
        let Some(target) = self.names.get(name).copied() else { return Resolved::Unknown };
        if let Target::Model(index) = target
            && let Some(gone) = self.model(index).and_then(|model| model.expiration_date)
            && gone <= today
        {
            return Resolved::Retired(gone);
        }
        Resolved::Found(target)
    }

    /// Whether this is the name of a model, retired or not, or with `or_alias` a spelling of an alias.
    pub fn knows(&self, name: &str, or_alias: bool) -> bool {
        self.names.get(name).is_some_and(|target| or_alias || matches!(target, Target::Model(_)))
    }

    /// The alias with this spelling.
    pub fn alias_called(&self, name: &str) -> Option<&Alias> {
        match self.names.get(name) {
            Some(Target::Alias(position)) => self.alias(*position),
            _ => None,
        }
    }

    /// Whether `name` is a spelling of an alias, in any case.
    pub fn names_alias(&self, name: &str) -> bool {
        let is_it = |(known, target): (&String, &Target)| {
            matches!(target, Target::Alias(_)) && known.eq_ignore_ascii_case(name)
        };
        self.names.iter().any(is_it)
    }

    /// Further spellings of aliases, each with the alias id, sorted: as [`Catalog::new`] takes them.
    pub fn synonyms(&self) -> Vec<(String, String)> {
        let of_alias = |(spelling, target): (&String, &Target)| {
            let Target::Alias(position) = target else { return None };
            let alias = self.alias(*position).filter(|alias| alias.id != *spelling)?;
            Some((spelling.clone(), alias.id.clone()))
        };
        let mut synonyms: Vec<_> = self.names.iter().filter_map(of_alias).collect();
        synonyms.sort_unstable();
        synonyms
    }

    /// The model at a position.
    pub fn model(&self, index: u32) -> Option<&Model> {
        self.models.get(index as usize)
    }

    /// The endpoint at a position.
    pub fn endpoint(&self, index: u32) -> Option<&Endpoint> {
        self.endpoints.get(index as usize)
    }

    /// The endpoint with this id. `index` is its position in another catalog version and is checked first.
    pub fn find(&self, index: u32, id: EndpointId) -> Option<&Endpoint> {
        let there = self.endpoint(index).filter(|endpoint| endpoint.id == id);
        there.or_else(|| self.endpoints.iter().find(|endpoint| endpoint.id == id))
    }

    /// The alias at a position.
    pub fn alias(&self, index: u32) -> Option<&Alias> {
        self.aliases.get(index as usize)
    }

    /// The aliases among these targets, in their order.
    pub fn aliases_among<'c>(&'c self, targets: &[Target]) -> impl Iterator<Item = &'c Alias> {
        targets.iter().filter_map(|target| match target {
            Target::Alias(index) => self.alias(*index),
            Target::Model(_) => None,
        })
    }

    /// The id of a target.
    pub fn target_id(&self, target: Target) -> Option<&str> {
        match target {
            Target::Model(index) => Some(self.model(index)?.id.as_str()),
            Target::Alias(index) => Some(self.alias(index)?.id.as_str()),
        }
    }

    /// The model of an endpoint.
    pub fn model_of(&self, endpoint: &Endpoint) -> Option<&Model> {
        self.model(endpoint.model)
    }

    /// The provider of an endpoint.
    pub fn provider_of(&self, endpoint: &Endpoint) -> Option<&Provider> {
        self.providers.get(endpoint.provider as usize)
    }

    /// The name of an endpoint, the same across reloads and restarts: `model@provider`, or `model@provider/variant`.
    pub fn name_of(&self, endpoint: &Endpoint) -> Option<String> {
        let (model, provider) = (self.model_of(endpoint)?, self.provider_of(endpoint)?);
        let name = format!("{}@{}", model.id, provider.slug);
        Some(if endpoint.variant.is_empty() { name } else { format!("{name}/{}", endpoint.variant) })
    }

    /// The score of an endpoint for a class of task: its own, else that of its model.
    pub fn quality_score<'a>(&'a self, endpoint: &'a Endpoint, task: Task) -> Option<&'a QualityScore> {
        endpoint.quality.get(task).or_else(|| self.model_of(endpoint)?.quality.get(task))
    }

    /// The endpoints of a model with their positions, in configuration order.
    pub fn endpoints_of<'a>(&'a self, model: &'a Model) -> impl Iterator<Item = (u32, &'a Endpoint)> {
        model.endpoints.iter().filter_map(|&index| Some((index, self.endpoint(index)?)))
    }

    /// Whether the model can be called: it has not expired by `today`, and one of its endpoints is enabled at a provider
    /// that is on.
    pub fn is_served(&self, model: &Model, today: chrono::NaiveDate) -> bool {
        let mut endpoints = self.endpoints_of(model);
        model.expiration_date.is_none_or(|gone| gone > today)
            && endpoints
                .any(|(_, endpoint)| !endpoint.disabled && self.provider_of(endpoint).is_some_and(Provider::is_on))
    }

    /// Whether an entry of a provider list matches any provider: a slug, a display name, or `slug/variant`.
    pub fn names_provider(&self, entry: &str) -> bool {
        let names =
            |endpoint| self.provider_of(endpoint).is_some_and(|provider| provider.is_named(entry, &endpoint.variant));
        self.providers.iter().any(|provider| provider.is_called(entry)) || self.endpoints.iter().any(names)
    }

    /// Whether an entry of a model list matches any model.
    pub fn names_model(&self, entry: &ModelPattern) -> bool {
        self.models.iter().any(|model| entry.matches(model.id.as_str(), &model.canonical_slug))
    }

    /// Whether the lists of an alias exclude every model.
    pub fn is_emptied_by_lists_of(&self, alias: &Alias) -> bool {
        !self.models.is_empty() && !self.models.iter().any(|model| alias.lists(model))
    }

    fn index_names(&mut self, synonyms: &[(String, String)]) -> Result<(), CatalogFault> {
        let mut names = HashMap::new();
        let mut claim = |name: &str, target: Target| match names.insert(name.to_owned(), target) {
            Some(other) if other != target => Err(CatalogFault::DuplicateName(name.to_owned())),
            _ => Ok(()),
        };
        for (index, model) in (0_u32..).zip(&self.models) {
            claim(model.id.as_str(), Target::Model(index))?;
            claim(&model.canonical_slug, Target::Model(index))?;
        }
        for (index, alias) in (0_u32..).zip(&self.aliases) {
            claim(&alias.id, Target::Alias(index))?;
            for (spelling, _) in synonyms.iter().filter(|(_, canonical)| *canonical == alias.id) {
                claim(spelling, Target::Alias(index))?;
            }
        }
        self.names = names;
        Ok(())
    }

    fn check_endpoints(&self) -> Result<(), CatalogFault> {
        let mut seen = HashMap::new();
        for endpoint in &self.endpoints {
            if seen.insert(endpoint.id, ()).is_some() {
                let model = self.model_of(endpoint).map_or("?", |model| model.id.as_str());
                let provider = self.provider_of(endpoint).map_or("?", |provider| provider.slug.as_str());
                return Err(CatalogFault::DuplicateEndpoint(format!("{model} at {provider}")));
            }
        }
        Ok(())
    }
}
