//! Entries of a catalog with nothing special about them, for whoever makes one without a configuration: simulators,
//! benchmarks, tests. What is special is changed afterwards. A configuration says everything itself.

use std::sync::Arc;

use super::{
    catalog::{Architecture, Endpoint, EndpointLimits, Model, Provider, ProviderState},
    id::{EndpointId, ModelId, ProviderSlug},
    modality::Modalities,
    parameter::ParameterSet,
};

impl Provider {
    /// One that is on and keeps nothing for its own use, named as its slug.
    #[must_use]
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
    /// One that reads and writes text, named as its id, served at these endpoints.
    #[must_use]
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
            endpoints,
        }
    }
}

impl Endpoint {
    /// One that costs nothing and lists no parameter, with a context of 128,000 tokens, at these positions.
    #[must_use]
    pub fn with_defaults(id: EndpointId, model: u32, provider: u32, upstream_model: &str) -> Endpoint {
        Endpoint {
            id,
            model,
            provider,
            variant: String::new(),
            upstream_model: upstream_model.into(),
            pricing: Arc::default(),
            limits: EndpointLimits { context_length: 128_000, max_completion_tokens: None, max_prompt_tokens: None },
            parameters: ParameterSet::default(),
            quantization: None,
            is_moderated: false,
            disabled: false,
            wants_max_completion_tokens: false,
            knows_developer_role: true,
            forwards_unknown_fields: true,
            images_through_chat: false,
        }
    }
}
