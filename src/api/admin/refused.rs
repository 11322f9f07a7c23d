//! `GET /admin/refused`: the inference calls that were refused last, and how often each reason occurred.

use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;

use super::status::RefusedBody;
use crate::{
    api::{answer::uncached, auth::Administrator, models::measurements::rfc_3339, query_parameters},
    base::error::ApiError,
    state::{
        gateway::{GatewayView, Worker},
        refused_calls::{MOST_OF_KEYS, MOST_OF_OTHERS, RefusedCall},
    },
};

const DEFAULT_CALLS: usize = 100;
/// Most calls in one answer: as many as are kept.
const MAX_CALLS: i64 = (MOST_OF_KEYS + MOST_OF_OTHERS) as i64;

/// Which of the kept calls are asked for.
#[derive(Default)]
pub(crate) struct RefusedFilter {
    pub(crate) reason: Option<String>,
    pub(crate) key: Option<String>,
    limit: Option<usize>,
}

impl RefusedFilter {
    /// The filter of a query string.
    ///
    /// # Errors
    /// 400 for a bad parameter.
    pub(crate) fn parse(query: &str) -> Result<RefusedFilter, ApiError> {
        let mut filter = RefusedFilter::default();
        for (name, value) in query_parameters::pairs(query, &["reason", "key", "limit"])? {
            match name.as_str() {
                "reason" => filter.reason = Some(value),
                "key" => filter.key = Some(value),
                _ => {
                    let limit = query_parameters::integer("limit", &value, 1..=MAX_CALLS)?;
                    filter.limit = usize::try_from(limit).ok();
                }
            }
        }
        Ok(filter)
    }

    fn passes(&self, call: &RefusedCall) -> bool {
        let is_key = |name: &String| call.caller.as_ref().is_some_and(|caller| *caller.key.name == **name);
        self.reason.as_ref().is_none_or(|reason| call.reason == reason) && self.key.as_ref().is_none_or(is_key)
    }
}

/// Shows the calls that the parameters `reason` and `key` let pass, newest first: `limit` of them, 100 without it.
///
/// # Errors
/// 400 for a bad parameter.
pub(crate) async fn show(_: Administrator, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let filter = RefusedFilter::parse(request.query_string())?;
    Ok(uncached(&RefusedCallsBody::new(&worker, &filter)))
}

view! {
    /// Refused calls.
    #[cfg_attr(test, schemars(description = ""))]
    pub(crate) struct RefusedCallsBody {
        /// The calls that pass.
        pub(crate) fn new(view: &GatewayView, filter: &RefusedFilter) {
            let most = filter.limit.unwrap_or(DEFAULT_CALLS);
            let calls = view.shared.records.refused_calls.newest(most, |call| filter.passes(call));
        }

        /// The calls, newest first. Of this process, the last 1,000 of keys and the last 200 without a valid key are kept, in
        /// memory.
        pub(crate) data: Vec<RefusedCallBody> = calls.iter().map(RefusedCallBody::new).collect(),
        /// How often each reason occurred since the start, the most frequent first, whatever the parameters.
        pub(crate) reasons: Vec<RefusedBody> = RefusedBody::all(view),
    }
}

view! {
    /// A call that was refused before there was a generation.
    pub(crate) struct RefusedCallBody {
        fn new(call: &RefusedCall) {
            let caller = call.caller.as_ref();
        }

        /// When. RFC 3339, UTC, with milliseconds.
        pub(crate) at: String = rfc_3339(call.at_ms),
        /// Status of the answer.
        pub(crate) status: u16 = call.status,
        /// Reason of the error, as `error.metadata.reason` has it.
        pub(crate) reason: &'static str = call.reason,
        /// Name of the key; `null` if it is none of this gateway.
        pub(crate) key: Option<String> = caller.map(|caller| caller.key.name.to_string()),
        /// Name of its account.
        pub(crate) account: Option<String> = caller.map(|caller| caller.account_name.to_string()),
        /// Name of the team that the account was in; `null` without one.
        pub(crate) team: Option<String> = call.team.as_deref().map(str::to_owned),
        /// The model that was asked for, at most 64 characters; `null` if the call was refused before its body was read.
        pub(crate) model: Option<String> = call.model.as_deref().map(str::to_owned),
        /// Id of the request, as in the header `x-request-id` and in the log.
        pub(crate) request_id: String = call.request_id.to_string(),
    }
}
