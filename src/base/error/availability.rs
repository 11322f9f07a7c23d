//! `error.availability`: what could have served, and what stood in the way.

use std::{borrow::Cow, time::Duration};

use serde::Serialize;

/// What a client can do about a request that nothing could serve, or nothing could serve now.
#[derive(Debug, Clone, Serialize)]
pub struct Availability {
    /// `model_not_found`, `model_deprecated`, `constraint_filtered` or `no_endpoints`.
    pub code: &'static str,
    /// Whether waiting helps.
    pub retryable: bool,
    /// Seconds until it may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// What was asked for.
    pub requested_models: Vec<String>,
    /// Slugs of the providers that would have served otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub affected_providers: Vec<String>,
    /// Every reason that excluded something, the most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excluded_by: Vec<&'static str>,
    /// Models that exist and could be asked for instead.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallback_models: Vec<String>,
    /// The entry of a restriction that names nobody, or else the one constraint there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraint: Option<Constraint>,
    /// What would have to give for something to be left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest_relaxation: Option<NearestRelaxation>,
}

/// The endpoint that the fewest constraints of the request stand against, and all of these.
#[derive(Debug, Clone, Serialize)]
pub struct NearestRelaxation {
    /// Its model.
    pub model: String,
    /// Its provider.
    pub provider_name: String,
    /// Everything against it.
    pub without: Vec<Constraint>,
    /// The same as a sentence.
    pub sentence: String,
}

/// A constraint and the figure that decided.
#[derive(Debug, Clone, Serialize)]
pub struct Constraint {
    /// Where it stands in the request, such as `provider.only[0]`; its reason code where that is not known.
    pub field: Cow<'static, str>,
    /// Its reason code, where `field` is a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The figure, the pattern, or what is wrong with the entry.
    pub detail: String,
}

impl Availability {
    /// About one model that is not there.
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

    /// About what could serve later: `excluded_by` keeps it from serving now.
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

    /// The same, worth a retry after `wait`.
    #[must_use]
    pub fn retryable_after(mut self, wait: Duration) -> Availability {
        self.retryable = true;
        self.retry_after = Some(super::whole_seconds(wait));
        self
    }
}
