//! The JSON body of an error, the same for every status.

use serde::Serialize;
use serde_json::value::RawValue;

use super::{PreviousError, Problem, availability::Availability, budget::BudgetBody};

#[derive(Serialize)]
pub(super) struct ErrorBody<'a> {
    error: ErrorObject<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    openrouter_metadata: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct ErrorObject<'a> {
    code: u16,
    message: &'a str,
    r#type: &'static str,
    param: Option<&'a str>,
    metadata: Metadata<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    availability: Option<&'a Availability>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    error_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    previous_errors: &'a [PreviousError],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    allowed_values: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    faults: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<&'a BudgetBody>,
}

impl Serialize for PreviousError {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shape<'a> {
            provider: &'a str,
            model: &'a str,
            status: Option<u16>,
            code: &'static str,
        }
        Shape { provider: &self.provider, model: &self.model, status: self.status, code: self.code }
            .serialize(serializer)
    }
}

/// `error.metadata` alone, as JSON.
pub(super) fn metadata(problem: &Problem) -> String {
    serde_json::to_string(&Metadata::of(problem)).unwrap_or_else(|_| "{}".to_owned())
}

impl<'a> Metadata<'a> {
    fn of(problem: &'a Problem) -> Metadata<'a> {
        let upstream = problem.upstream.as_ref();
        Metadata {
            error_type: problem.error_type,
            reason: problem.reason,
            request_id: problem.request_id.as_deref(),
            generation_id: problem.generation.as_ref().map(|id| id.as_str()),
            provider_name: upstream.map(|detail| detail.provider_name.as_str()),
            upstream_status: upstream.and_then(|detail| detail.status),
            provider_code: upstream.and_then(|detail| detail.code.as_deref()),
            raw: upstream.and_then(|detail| detail.raw.as_deref()),
            previous_errors: &problem.previous,
            allowed_values: &problem.allowed_values,
            faults: &problem.faults,
            budget: problem.budget.as_deref(),
        }
    }
}

impl<'a> ErrorBody<'a> {
    pub(super) fn new(problem: &'a Problem) -> ErrorBody<'a> {
        ErrorBody {
            error: ErrorObject {
                code: problem.status.as_u16(),
                message: &problem.message,
                r#type: problem.kind.as_str(),
                param: problem.param.as_deref(),
                metadata: Metadata::of(problem),
                availability: problem.availability.as_ref(),
            },
            openrouter_metadata: problem.route.as_deref(),
        }
    }
}
