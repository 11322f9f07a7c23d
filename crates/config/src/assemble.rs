//! Builds the catalog from providers, models, endpoints and aliases.
//!
//! This module has the checks that need more than one table: names that are used twice, endpoints at providers that do
//! not exist. Entries with faults that were reported before are left out.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use chrono::NaiveDate;
use pointsman_dialect::{
    EmbeddingSupport, capability_gaps, counts_tokens, embedding_support, makes_images, reasoning_format,
};
use pointsman_domain::simulated::{ProviderSettings, SimulatedModel};
use pointsman_domain::{
    Capability, CapabilitySet, Catalog, Dialect, Endpoint, EndpointId, Modality, Model, ParameterNames, ParameterSet,
    Platform, Pricing, Provider, ProviderSlug, ProviderState, listed_names,
};

use super::{
    aliases::{Aliases, check_led_to},
    credential::Credential,
    endpoint_settings::EndpointSettings,
    fault::hint,
    models::{EndpointTable, ModelTable},
    provider_states::ProviderStates,
    providers::{Disclosure, MAX_PROVIDERS, ProviderConfig, ProviderTable},
    section::{Item, Section},
    simulation::{SimulatedProvider, SimulationConfig, SimulationTable},
};

/// What models refuse that serve functions only while they do not reason.
const TOOLS_WITH_REASONING: CapabilitySet =
    CapabilitySet::NONE.with(Capability::ToolsWithEffort).with(Capability::ToolsByDefault);
/// Limit of endpoints, because each one has its own statistics and live state.
const MAX_ENDPOINTS: usize = 10_000;

/// The tables as read.
pub(super) struct Tables<'t> {
    pub(super) providers: Vec<ProviderTable>,
    pub(super) simulation: SimulationTable<'t>,
    pub(super) models: Vec<ModelTable<'t>>,
    pub(super) aliases: Aliases<'t>,
}

/// The catalog, and the settings that depend on all tables.
pub(super) struct Assembly {
    pub(super) catalog: Catalog,
    pub(super) providers: Vec<ProviderConfig>,
    pub(super) simulation: SimulationConfig,
    pub(super) notes: Vec<String>,
    /// Date of the oldest prices of each provider, by its position.
    pub(super) price_dates: BTreeMap<u32, NaiveDate>,
    /// Enabled real providers that lack the key they need.
    pub(super) without_key: Vec<ProviderSlug>,
}

pub(super) fn assemble(root: &Section<'_>, tables: Tables<'_>) -> Assembly {
    let states = ProviderStates::new(&tables.providers, &tables.simulation);
    check_names(&tables);
    let mut parts = Parts::default();
    let mut connections = Vec::new();
    for (table, state) in tables.providers.into_iter().zip(states.real) {
        connections.extend(parts.add_real(table, state));
    }
    let mut settings = Vec::new();
    for provider in tables.simulation.providers {
        settings.extend(parts.add_simulated(provider, &states.simulated));
    }
    parts.check_size(root);
    for table in tables.models {
        parts.add_model(table);
    }
    if parts.endpoints.len() > MAX_ENDPOINTS {
        let wrong = format!("there are {} endpoints in all", parts.endpoints.len());
        root.fault("models", wrong, format!("at most {MAX_ENDPOINTS}"));
    }
    for (index, settings) in &mut settings {
        settings.models = parts.simulated_models(*index);
    }
    let active = states.simulated == ProviderState::On && !settings.is_empty();
    let price_dates = std::mem::take(&mut parts.price_dates);
    Assembly {
        price_dates,
        catalog: parts.into_catalog(root, tables.aliases),
        providers: connections,
        simulation: SimulationConfig { mode: tables.simulation.mode, active, providers: settings },
        notes: states.notes,
        without_key: states.without_key,
    }
}

/// The prices with both words for a service of which OpenAI's answers may tell either.
fn in_words_of(dialect: Dialect, pricing: Pricing) -> Pricing {
    match dialect {
        Dialect::OpenAi | Dialect::Responses => pricing.with_other_words(),
        Dialect::Anthropic | Dialect::Gemini | Dialect::Converse => pricing,
    }
}

/// Reports every name that is used twice.
fn check_names(tables: &Tables<'_>) {
    let built_in = tables.aliases.built_in.iter();
    let mut owners: HashMap<&str, String> =
        built_in.map(|name| (name.as_str(), "a built-in alias".to_owned())).collect();
    let twice = |owner: &str| format!("is used twice, here and by {owner}");
    const ALLOWED: &str = "a name of its own for each model and alias (see also routing.alias_synonyms)";
    for (index, model) in tables.models.iter().enumerate() {
        for item in &model.named {
            let owner = owners.entry(item.text).or_insert_with(|| format!("models[{index}]"));
            // Id and canonical slug of one model may be the same.
            if *owner != format!("models[{index}]") {
                item.fault(twice(owner), ALLOWED);
            }
        }
    }
    for (name, item) in &tables.aliases.named {
        if let Some(owner) = owners.get(name.as_str()) {
            item.fault(twice(owner), ALLOWED);
        }
        owners.insert(name, "another alias".to_owned());
    }
}

/// Parts of the catalog while it is built.
#[derive(Default)]
struct Parts {
    providers: Vec<Provider>,
    models: Vec<Model>,
    endpoints: Vec<Endpoint>,
    parameters: Option<ParameterNames>,
    price_dates: BTreeMap<u32, NaiveDate>,
}

impl Parts {
    /// Adds a real provider. Returns its connection settings when it is on.
    fn add_real(&mut self, table: ProviderTable, state: ProviderState) -> Option<ProviderConfig> {
        let slug = table.slug?;
        let on = state == ProviderState::On;
        let index = self.add_provider(&slug, &table.name, state, table.disclosure, Kind::Real);
        let connection = table.connection.filter(|_| on)?;
        let (key, key_from) = match table.credential {
            Credential::Found { secret, from } => (Some(secret), Some(from)),
            Credential::None | Credential::Missing { .. } => (None, None),
        };
        Some(ProviderConfig { index, key, key_from, ..connection })
    }

    fn add_simulated(
        &mut self,
        provider: SimulatedProvider<'_>,
        state: &ProviderState,
    ) -> Option<(u32, ProviderSettings)> {
        let slug = provider.slug?;
        if self.provider_index(slug.as_str()).is_some() {
            provider.named.fault("is a real provider's name too", "a name of its own for each provider");
        }
        let name: Arc<str> = provider.settings.name.as_str().into();
        let index = self.add_provider(&slug, &name, state.clone(), provider.disclosure, Kind::Simulated);
        Some((index, provider.settings))
    }

    fn add_provider(
        &mut self,
        slug: &ProviderSlug,
        name: &Arc<str>,
        state: ProviderState,
        disclosure: Disclosure,
        kind: Kind,
    ) -> u32 {
        self.providers.push(Provider {
            slug: slug.clone(),
            name: name.clone(),
            state,
            simulated: kind == Kind::Simulated,
            collects_data: disclosure.collects_data,
            zero_data_retention: disclosure.zero_data_retention,
            privacy_policy_url: disclosure.privacy_policy_url,
            terms_of_service_url: disclosure.terms_of_service_url,
            status_page_url: disclosure.status_page_url,
            headquarters: disclosure.headquarters,
            datacenters: disclosure.datacenters,
        });
        position(self.providers.len() - 1)
    }

    fn check_size(&self, root: &Section<'_>) {
        if self.providers.len() > MAX_PROVIDERS {
            let wrong = format!("there are {} providers, simulated ones included", self.providers.len());
            root.fault("providers", wrong, format!("at most {MAX_PROVIDERS}"));
        }
    }

    fn add_model(&mut self, table: ModelTable<'_>) {
        let Some(mut model) = table.model else { return };
        let first = self.endpoints.len();
        for endpoint in table.endpoints {
            self.add_endpoint(endpoint, &model, first);
        }
        model.endpoints = (position(first)..position(self.endpoints.len())).collect();
        self.models.push(model);
    }

    /// Adds an endpoint of the model that is added next. `first` is the position of its first one.
    fn add_endpoint(&mut self, table: EndpointTable<'_>, model: &Model, first: usize) {
        let Some(named) = table.provider else { return };
        let Some(provider) = self.provider_index(named.text) else {
            let known = self.providers.iter().map(|provider| provider.slug.as_str());
            let allowed = match listed_names(named.text, known.clone()) {
                names if names.is_empty() => "a provider of this configuration, which has none".to_owned(),
                names => names,
            };
            named.dangling(format!("there is no provider '{}'{}", named.text, hint(named.text, known)), allowed);
            return;
        };
        let id = EndpointId::new(model.id.as_str(), named.text, &table.variant);
        if self.endpoints.get(first..).is_some_and(|others| others.iter().any(|other| other.id == id)) {
            named.fault("the model is listed twice at this provider", "a 'variant' that tells the two apart");
        }
        let parameters = self.intern(&table.parameters).unwrap_or_else(|| {
            let wrong = format!("the models name more than {} different parameters", ParameterNames::CAPACITY);
            named.fault(wrong, "fewer names in supported_parameters");
            ParameterSet::default()
        });
        if let Some(date) = table.price_date.filter(|_| !table.disabled) {
            let oldest = self.price_dates.entry(provider).or_insert(date);
            *oldest = date.min(*oldest);
        }
        let outputs = model.architecture.output;
        let EndpointSettings { dialect, platform, .. } = table.settings;
        let lacks = table.settings.lacks;
        let mut lacks = lacks.unwrap_or_else(|| capability_gaps(dialect, &table.upstream_model));
        if !table.settings.legacy_completions || dialect != Dialect::OpenAi {
            lacks = lacks.with(Capability::LegacyCompletions);
        }
        if dialect != Dialect::Responses || !table.settings.allow_state {
            lacks = lacks.with(Capability::KeptResponses);
        }
        let is_cured = dialect == Dialect::OpenAi && table.settings.tools_force_effort_none;
        let effort_none_cures = if is_cured { lacks.common(TOOLS_WITH_REASONING) } else { CapabilitySet::NONE };
        if outputs.contains(Modality::Embeddings) {
            lacks = lacks.union(embedding_gaps(&named, dialect, platform, &table.upstream_model));
        }
        let only_images = outputs.contains(Modality::Image) && !outputs.contains(Modality::Text);
        if only_images && !makes_images(dialect, &table.upstream_model, table.images_through_chat) {
            let wrong = format!("makes no images in the dialect '{}' as '{}'", dialect.as_str(), table.upstream_model);
            let allowed = "at Amazon Bedrock a name with nova-canvas, titan-image or stability., or images_through_chat; \
                           else the dialect openai or gemini";
            named.fault(wrong, allowed);
        }
        self.endpoints.push(Endpoint {
            id,
            model: position(self.models.len()),
            provider,
            variant: table.variant,
            pricing: table.pricing.map(|pricing| Arc::new(in_words_of(dialect, pricing))),
            limits: table.limits,
            dialect,
            platform,
            lacks: lacks.minus(effort_none_cures),
            effort_none_cures,
            reasoning_state: table.reasoning_state.unwrap_or_else(|| reasoning_format(dialect, &table.upstream_model)),
            effort_budgets: table.settings.effort_budgets,
            counts_tokens: table
                .settings
                .counts_tokens
                .unwrap_or_else(|| counts_tokens(dialect, &table.upstream_model)),
            safety_settings: table.settings.safety_settings,
            upstream_model: table.upstream_model.into(),
            parameters,
            quantization: table.quantization,
            quality: table.quality,
            is_moderated: table.is_moderated,
            disabled: table.disabled,
            wants_max_completion_tokens: table.settings.wants_max_completion_tokens,
            wants_reasoning_effort: table.settings.wants_reasoning_effort,
            reasoning_history: table.settings.reasoning_history,
            omits: table.settings.omits,
            knows_developer_role: table.settings.knows_developer_role,
            forwards_unknown_fields: table.settings.forwards_unknown_fields,
            takes_instructions: table.settings.mid_conversation_system,
            inputs_per_call: table.inputs_per_call,
            images_through_chat: table.images_through_chat,
        });
    }

    fn intern(&mut self, names: &[String]) -> Option<ParameterSet> {
        let registry = self.parameters.get_or_insert_with(ParameterNames::published);
        let sets = names.iter().map(|name| registry.intern(name).ok());
        sets.into_iter().try_fold(ParameterSet::default(), |all, one| Some(all.union(one?)))
    }

    fn provider_index(&self, slug: &str) -> Option<u32> {
        self.providers.iter().position(|provider| provider.slug.as_str() == slug).map(position)
    }

    /// The models that a simulated provider serves.
    fn simulated_models(&self, provider: u32) -> Vec<SimulatedModel> {
        let tools = self.parameters.as_ref().and_then(|names| names.gate("tools")).unwrap_or_default();
        let mut models: Vec<SimulatedModel> = Vec::new();
        for endpoint in self.endpoints.iter().filter(|endpoint| endpoint.provider == provider) {
            let Some(model) = self.models.get(endpoint.model as usize) else { continue };
            let known = models.iter().any(|known| *known.id == *endpoint.upstream_model);
            if !known {
                models.push(SimulatedModel {
                    id: endpoint.upstream_model.to_string(),
                    inputs: model.architecture.input,
                    outputs: model.architecture.output,
                    tools: endpoint.parameters.covers(tools) && !tools.is_empty(),
                    context_length: Some(endpoint.limits.context_length),
                    max_output_tokens: endpoint.limits.max_completion_tokens,
                });
            }
        }
        models
    }

    fn into_catalog(self, root: &Section<'_>, aliases: Aliases<'_>) -> Catalog {
        let parameters = self.parameters.unwrap_or_else(ParameterNames::published);
        let Aliases { aliases, synonyms, led_to, .. } = aliases;
        let catalog = Catalog::new(1, self.providers, self.models, self.endpoints, aliases, &synonyms, parameters);
        let catalog = catalog.unwrap_or_else(|fault| {
            // Duplicate names were reported before, with their locations.
            if root.is_clean() {
                root.fault("models", fault.to_string(), "a name of its own for each model, endpoint and alias");
            }
            Catalog::default()
        });
        if !catalog.models.is_empty() {
            check_led_to(&led_to, &catalog);
        }
        catalog
    }
}

/// What an endpoint with embeddings refuses. Reports a name from which it does not follow how the model is called.
fn embedding_gaps(named: &Item<'_>, dialect: Dialect, platform: Platform, upstream_model: &str) -> CapabilitySet {
    match embedding_support(dialect, platform, upstream_model) {
        EmbeddingSupport::TextsAndTokens => return CapabilitySet::NONE,
        EmbeddingSupport::Texts => {}
        EmbeddingSupport::None => {
            let wrong = format!("makes no embeddings with a model that it calls '{upstream_model}'");
            let allowed = "at Amazon Bedrock a name with titan-embed, cohere.embed or amazon.nova";
            named.fault(wrong, allowed);
        }
    }
    CapabilitySet::NONE.with(Capability::TokenIds)
}

/// Whether a provider is simulated by this process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Real,
    Simulated,
}

/// A catalog position. The limits of all tables are far below 32 bits.
fn position(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
