//! `error.availability`: models and providers that could serve the request, and the reasons that excluded them.

use std::{borrow::Cow, time::Duration};

use serde::Serialize;

/// Help for the client of a request that no endpoint could serve, or could serve now.
#[derive(Debug, Clone, Serialize)]
pub struct Availability {
    /// `model_not_found`, `model_deprecated`, `constraint_filtered` or `no_endpoints`.
    pub code: &'static str,
    /// Whether a later retry may succeed.
    pub retryable: bool,
    /// Seconds to wait before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// The models in the request.
    pub requested_models: Vec<String>,
    /// Slugs of the providers that were excluded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub affected_providers: Vec<String>,
    /// Reasons of exclusion, the most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excluded_by: Vec<&'static str>,
    /// Alternative models.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallback_models: Vec<String>,
    /// A restriction that matches nothing, or the only constraint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraint: Option<Constraint>,
    /// The smallest set of constraints to drop so that an endpoint is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest_relaxation: Option<NearestRelaxation>,
}

/// The endpoint that the fewest constraints exclude, and these constraints.
#[derive(Debug, Clone, Serialize)]
pub struct NearestRelaxation {
    /// Its model.
    pub model: String,
    /// Its provider.
    pub provider_name: String,
    /// All constraints that exclude it.
    pub without: Vec<Constraint>,
    /// The constraints as a sentence.
    pub sentence: String,
}

/// A constraint of the request and its deciding value.
#[derive(Debug, Clone, Serialize)]
pub struct Constraint {
    /// Its path in the request, such as `provider.only[0]`; its reason code if the path is not known.
    pub field: Cow<'static, str>,
    /// Its reason code, if `field` is a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The value, the pattern, or the fault of the entry.
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
    #[must_use]
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
