//! `error.availability`: models and providers that could serve the request, and the reasons that excluded them.

use std::{borrow::Cow, time::Duration};

use serde::Serialize;

/// What could serve instead, and what excluded it; absent where that would not help.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Availability"))]
pub struct Availability {
    /// `model_not_found`: no such model. `model_deprecated`: it was retired. `constraint_filtered`: the constraints of
    /// the request exclude all endpoints. `no_endpoints`: none can serve at the moment.
    #[cfg_attr(test, schemars(with = "crate::base::words::AvailabilityCode"))]
    pub code: &'static str,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// Seconds to wait before that; absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// The models that the request names.
    pub requested_models: Vec<String>,
    /// Slugs of the providers that were excluded; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub affected_providers: Vec<String>,
    /// Reasons of the exclusions, as in `excluded` of a preview, the most frequent first; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excluded_by: Vec<&'static str>,
    /// Other models that may be meant; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallback_models: Vec<String>,
    /// A restriction that matches nothing, or the only constraint; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraint: Option<Constraint>,
    /// The fewest constraints without which an endpoint could serve; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest_relaxation: Option<NearestRelaxation>,
}

/// Where no endpoint is left: the one that the fewest constraints exclude.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "NearestRelaxation"))]
pub struct NearestRelaxation {
    /// Id of the model, such as `meadow/small`.
    pub model: String,
    /// Display name of the provider.
    pub provider_name: String,
    /// All constraints that exclude it: without them it could serve.
    pub without: Vec<Constraint>,
    /// The same as a sentence.
    pub sentence: String,
}

/// A constraint of the request.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Constraint"))]
pub struct Constraint {
    /// Its path in the request, such as `provider.only[0]`; its `reason` if the path is not known.
    pub field: Cow<'static, str>,
    /// Why the endpoint is excluded, as in `excluded`; absent if `field` says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The value, the pattern, or what is wrong with the entry.
    pub detail: String,
}

impl Availability {
    /// For one model that does not exist.
    pub(super) fn model(code: &'static str, asked: &str, fallback_models: Vec<String>) -> Availability {
        Availability {
            code,
            retryable: false,
            retry_after: None,
            requested_models: vec![asked.to_owned()],
            affected_providers: Vec::new(),
            excluded_by: Vec::new(),
            fallback_models,
            constraint: None,
            nearest_relaxation: None,
        }
    }

    /// For providers that may serve the request later; `excluded_by` excludes them now.
    pub fn capacity(
        requested_models: Vec<String>,
        affected_providers: Vec<String>,
        excluded_by: Vec<&'static str>,
    ) -> Availability {
        Availability {
            code: "no_endpoints",
            retryable: false,
            retry_after: None,
            requested_models,
            affected_providers,
            excluded_by,
            fallback_models: Vec::new(),
            constraint: None,
            nearest_relaxation: None,
        }
    }

    /// The same with a retry after `wait`.
    #[must_use]
    pub fn retryable_after(mut self, wait: Duration) -> Availability {
        self.retryable = true;
        self.retry_after = Some(super::whole_seconds(wait));
        self
    }
}
