//! Catalog entries with default values, for simulators, benchmarks and tests that build a catalog without a
//! configuration. Callers change single fields afterwards. Configured catalogs do not use these defaults.

use std::sync::Arc;

use super::{
    capability::CapabilitySet,
    catalog::{Architecture, Endpoint, EndpointLimits, Model, Provider, ProviderState},
    chat_habits::{AddedMembers, ReasoningHistory},
    dialect::{Dialect, Platform},
    effort_budgets::EffortBudgets,
    id::{EndpointId, ModelId, ProviderSlug},
    modality::Modalities,
    parameter::ParameterSet,
    quality::QualityScores,
    reasoning_format::ReasoningFormat,
};

impl Provider {
    /// A provider that is on and does not collect data. Its name is its slug.
    pub fn with_defaults(slug: ProviderSlug) -> Provider {
        Provider {
            name: slug.as_str().into(),
            slug,
            state: ProviderState::On,
            simulated: false,
            collects_data: false,
            zero_data_retention: false,
            privacy_policy_url: None,
            terms_of_service_url: None,
            status_page_url: None,
            headquarters: None,
            datacenters: Vec::new(),
        }
    }
}

impl Model {
    /// A text model, named after its id, with these endpoints.
    pub fn with_defaults(id: ModelId, endpoints: Vec<u32>) -> Model {
        Model {
            canonical_slug: id.to_string(),
            name: id.to_string(),
            id,
            created: 0,
            description: String::new(),
            architecture: Architecture {
                input: Modalities::TEXT,
                output: Modalities::TEXT,
                tokenizer: "Other".to_owned(),
                instruct_type: None,
            },
            default_parameters: None,
            expiration_date: None,
            hugging_face_id: None,
            knowledge_cutoff: None,
            image_sizes: Vec::new(),
            quality: QualityScores::default(),
            endpoints,
        }
    }
}

impl Endpoint {
    /// A free endpoint without optional parameters and with a context window of 128,000 tokens. `model` and `provider`
    /// are positions in the catalog.
    pub fn with_defaults(id: EndpointId, model: u32, provider: u32, upstream_model: &str) -> Endpoint {
        Endpoint {
            id,
            model,
            provider,
            variant: String::new(),
            upstream_model: upstream_model.into(),
            pricing: Some(Arc::default()),
            limits: EndpointLimits { context_length: 128_000, max_completion_tokens: None, max_prompt_tokens: None },
            dialect: Dialect::default(),
            platform: Platform::default(),
            parameters: ParameterSet::default(),
            lacks: CapabilitySet::NONE,
            effort_none_cures: CapabilitySet::NONE,
            reasoning_state: ReasoningFormat::Unknown,
            effort_budgets: EffortBudgets::default(),
            quality: QualityScores::default(),
            quantization: None,
            is_moderated: false,
            disabled: false,
            wants_max_completion_tokens: false,
            wants_reasoning_effort: false,
            reasoning_history: ReasoningHistory::Unknown,
            omits: AddedMembers::default(),
            knows_developer_role: true,
            forwards_unknown_fields: true,
            inputs_per_call: None,
            takes_instructions: false,
            images_through_chat: false,
            counts_tokens: false,
            safety_settings: None,
        }
    }
}
