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
use pointsman_domain::{
    Capability, CapabilitySet, Catalog, Dialect, Endpoint, EndpointId, Modalities, Modality, Model, ParameterNames,
    ParameterSet, Platform, Pricing, Provider, ProviderSlug, ProviderState, listed_names,
};
use pointsman_simulation::{ProviderSettings, SimulatedModel};

use super::{
    aliases::{Aliases, check_led_to},
    credential::Credential,
    fault::hint,
    models::{EndpointTable, ModelTable},
    provider_states::ProviderStates,
    providers::{Disclosure, EndpointDefaults, MAX_PROVIDERS, ProviderConfig, ProviderTable},
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
    let mut endpoint_defaults: Vec<EndpointDefaults> =
        tables.providers.iter().map(|provider| provider.endpoint_defaults.clone()).collect();
    let mut parts = Parts::default();
    let mut connections = Vec::new();
    for (table, state) in tables.providers.into_iter().zip(states.real) {
        connections.extend(parts.add_real(table, state));
    }
    let mut settings = Vec::new();
    for provider in tables.simulation.providers {
        let dialect = provider.settings.dialect;
        if let Some((index, character)) = parts.add_simulated(provider, &states.simulated) {
            endpoint_defaults.resize(index as usize, EndpointDefaults::STANDARD);
            endpoint_defaults.push(EndpointDefaults { dialect, ..EndpointDefaults::STANDARD });
            settings.push((index, character));
        }
    }
    parts.check_size(root);
    for table in tables.models {
        parts.add_model(table, &endpoint_defaults);
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
        let auth = table.key_header();
        let slug = table.slug?;
        let on = state == ProviderState::On;
        let name: Arc<str> = table.name.into();
        let index = self.add_provider(&slug, &name, state, table.disclosure, Kind::Real);
        let base_url = table.base_url.filter(|_| on)?;
        let (key, key_from) = match table.credential {
            Credential::Found { secret, from } => (Some(secret), Some(from)),
            Credential::None | Credential::Missing { .. } => (None, None),
        };
        Some(ProviderConfig {
            index,
            slug,
            name,
            base_url,
            key,
            key_from,
            auth,
            region: table.region,
            routes: table.routes,
            headers: table.headers,
            ca_file: table.ca_file,
            dialect: table.endpoint_defaults.dialect,
            max_in_flight: table.max_in_flight,
            permit_wait: table.permit_wait,
            forward_traceparent: table.forward_traceparent,
            image_hosts: table.image_hosts,
        })
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

    fn add_model(&mut self, table: ModelTable<'_>, endpoint_defaults: &[EndpointDefaults]) {
        let Some(id) = table.id else { return };
        let model = position(self.models.len());
        let first = self.endpoints.len();
        for endpoint in table.endpoints {
            self.add_endpoint(endpoint, model, (id.as_str(), table.architecture.output), first, endpoint_defaults);
        }
        self.models.push(Model {
            id,
            canonical_slug: table.canonical_slug,
            name: table.name,
            created: table.created,
            description: table.description,
            architecture: table.architecture,
            default_parameters: table.default_parameters,
            expiration_date: table.expiration_date,
            hugging_face_id: table.hugging_face_id,
            knowledge_cutoff: table.knowledge_cutoff,
            image_sizes: table.image_sizes,
            endpoints: (position(first)..position(self.endpoints.len())).collect(),
        });
    }

    fn add_endpoint(
        &mut self,
        table: EndpointTable<'_>,
        model: u32,
        (id, outputs): (&str, Modalities),
        first: usize,
        endpoint_defaults: &[EndpointDefaults],
    ) {
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
        let id = EndpointId::new(id, named.text, &table.variant);
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
        let endpoint_defaults = endpoint_defaults.get(provider as usize).unwrap_or(&EndpointDefaults::STANDARD);
        let (dialect, platform) = (table.dialect.unwrap_or(endpoint_defaults.dialect), endpoint_defaults.platform);
        let switches = [
            (table.tools_force_effort_none, Dialect::OpenAi, "tools_force_effort_none"),
            (table.allow_state, Dialect::Responses, "allow_state"),
            (table.mid_conversation_system, Dialect::Anthropic, "mid_conversation_system"),
        ];
        for (_, needed, key) in switches.iter().filter(|(on, needed, _)| *on == Some(true) && dialect != *needed) {
            let wrong = format!("'{key}' of this endpoint does nothing in the dialect '{}'", dialect.as_str());
            named.fault(wrong, format!("dialect = \"{}\" at the endpoint, or no '{key}'", needed.as_str()));
        }
        let lacks = table.lacks.or(endpoint_defaults.lacks);
        let mut lacks = lacks.unwrap_or_else(|| capability_gaps(dialect, &table.upstream_model));
        let has_legacy = table.legacy_completions.unwrap_or(endpoint_defaults.legacy_completions);
        let keeps_responses = table.allow_state.unwrap_or(endpoint_defaults.allow_state);
        if !has_legacy || dialect != Dialect::OpenAi {
            lacks = lacks.with(Capability::LegacyCompletions);
        }
        if dialect != Dialect::Responses || !keeps_responses {
            lacks = lacks.with(Capability::KeptResponses);
        }
        let forces_none = table.tools_force_effort_none.unwrap_or(endpoint_defaults.tools_force_effort_none);
        let is_cured = dialect == Dialect::OpenAi && forces_none;
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
            model,
            provider,
            variant: table.variant,
            pricing: table.pricing.map(|pricing| Arc::new(in_words_of(dialect, pricing))),
            limits: table.limits,
            dialect,
            platform,
            lacks: lacks.minus(effort_none_cures),
            effort_none_cures,
            reasoning_state: table.reasoning_state.unwrap_or_else(|| reasoning_format(dialect, &table.upstream_model)),
            effort_budgets: endpoint_defaults.effort_budgets,
            counts_tokens: table
                .counts_tokens
                .or(endpoint_defaults.counts_tokens)
                .unwrap_or_else(|| counts_tokens(dialect, &table.upstream_model)),
            safety_settings: table.safety_settings.or_else(|| endpoint_defaults.safety_settings.clone()),
            upstream_model: table.upstream_model.into(),
            parameters,
            quantization: table.quantization,
            is_moderated: table.is_moderated,
            disabled: table.disabled,
            wants_max_completion_tokens: table
                .wants_max_completion_tokens
                .unwrap_or(endpoint_defaults.wants_max_completion_tokens),
            wants_reasoning_effort: table.wants_reasoning_effort.unwrap_or(endpoint_defaults.wants_reasoning_effort),
            reasoning_history: table.reasoning_history.unwrap_or(endpoint_defaults.reasoning_history),
            omits: table.omits.unwrap_or(endpoint_defaults.omits),
            knows_developer_role: table.knows_developer_role.unwrap_or(endpoint_defaults.knows_developer_role),
            forwards_unknown_fields: table.forwards_unknown_fields.unwrap_or(endpoint_defaults.forwards_unknown_fields),
            takes_instructions: table.mid_conversation_system.unwrap_or(endpoint_defaults.mid_conversation_system),
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
