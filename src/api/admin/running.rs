//! `GET /admin/running`: calls in progress, oldest first.

use actix_web::HttpResponse;
use pointsman_base::clock;
use pointsman_domain::Catalog;
use serde::Serialize;

use crate::{
    api::{
        answer::uncached, auth::Administrator, generations::generation_list::key_name, models::measurements::rfc_3339,
    },
    base::error::ApiError,
    state::{
        gateway::Worker,
        running::{AttemptInProgress, RoutedRequest, RunningRequestState},
    },
};

/// Most calls in one answer.
const MOST: usize = 200;

/// Shows the calls that run now, streamed or not.
///
/// # Errors
/// None of its own.
pub(crate) async fn show(_: Administrator, worker: Worker) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&RunningBody::now(&worker)))
}

view! {
    /// Calls in progress.
    #[cfg_attr(test, schemars(description = ""))]
    pub(crate) struct RunningBody {
        /// The calls that run now.
        pub(crate) fn now(worker: &Worker) {
            let running = worker.shared.records.running.oldest(MOST);
        }

        /// The calls for generations in progress, oldest first; at most 200.
        pub(crate) data: Vec<RunningRequestBody> =
            running.oldest.iter().map(|call| RunningRequestBody::new(call, worker)).collect(),
        /// All calls for a generation, those included that are not listed.
        pub(crate) total: usize = running.total,
        /// All calls in flight: also previews and counts of tokens.
        pub(crate) in_flight: u32 = worker.setup.admission.in_flight(),
    }
}

view! {
    /// One call in progress.
    pub(crate) struct RunningRequestBody {
        fn new(call: &RunningRequestState, worker: &Worker) {
            let (routed, first_token) = (call.routed(), call.first_token());
            let attempt = |attempt| RunningAttemptBody::new(attempt, routed.map(|routed| &*routed.catalog));
            let attempts: Vec<_> = call.attempts().into_iter().map(attempt).collect();
            let streamed = routed.map(|routed| routed.streamed);
        }

        /// Id of the generation, for `/generation` and `/route/explain`.
        pub(crate) id: String = call.id.as_str().to_owned(),
        /// When the request was admitted. RFC 3339, UTC, with milliseconds.
        pub(crate) created_at: String = rfc_3339(call.created_ms),
        /// Milliseconds since then.
        pub(crate) age_ms: u64 = (clock::now().0.saturating_sub(call.accepted.0)) / 1000,
        /// `reading` until the request is routed, `waiting` until the first output; then `streaming`, or `answering` for an
        /// answer that is not streamed.
        #[cfg_attr(test, schemars(extend("enum" = ["reading", "waiting", "streaming", "answering"])))]
        pub(crate) phase: &'static str = match (streamed, first_token) {
            (None, _) => "reading",
            (Some(_), None) => "waiting",
            (Some(true), Some(_)) => "streaming",
            (Some(false), Some(_)) => "answering",
        },
        /// Name of the model or alias as the client wrote it. `null` while the request is read.
        pub(crate) requested_model: Option<String> =
            routed.map(|routed: &RoutedRequest| routed.requested_model.as_ref().to_owned()),
        /// Whether the answer is streamed; `null` while the request is read.
        pub(crate) streamed: Option<bool> = streamed,
        /// Id of the model of the attempt in progress, of the earlier one if two race; `null` while there is none.
        pub(crate) model: Option<String> = attempts.first().and_then(|attempt| attempt.model.clone()),
        /// Slug of its provider; `null` while there is none.
        pub(crate) provider_slug: Option<String> = attempts.first().and_then(|attempt| attempt.provider_slug.clone()),
        /// The attempts in progress: two when they race.
        pub(crate) attempts: Vec<RunningAttemptBody> = attempts,
        /// Attempts that have failed so far.
        pub(crate) failed_attempts: u32 = call.failed_attempts(),
        /// Name of the key that called; `null` if neither it nor another key of its account exists any more.
        pub(crate) key: Option<String> = key_name(worker, call.owner, call.key),
        /// Tokens of the prompt, estimated for the decision; `null` while the request is read.
        pub(crate) prompt_tokens: Option<u64> = routed.map(|routed| u64::from(routed.prompt_tokens)),
        /// Milliseconds from the acceptance of the request to the first output; for an answer that is not streamed, to the
        /// first bytes of its body. `null` before that.
        pub(crate) first_token_ms: Option<u64> =
            first_token.map(|first| first.0.saturating_sub(call.accepted.0) / 1000),
        /// Tokens of a stream so far, estimated from their text. `null` for an answer that is not streamed.
        pub(crate) output_tokens: Option<u64> = streamed.filter(|streamed| *streamed).map(|_| call.output_tokens()),
    }
}

view! {
    /// An attempt in progress.
    pub(crate) struct RunningAttemptBody {
        fn new(attempt: AttemptInProgress, catalog: Option<&Catalog>) {
            let endpoint = catalog.and_then(|catalog| Some((catalog, catalog.endpoint(attempt.endpoint)?)));
            let model = endpoint.and_then(|(catalog, endpoint)| catalog.model_of(endpoint));
            let provider = endpoint.and_then(|(catalog, endpoint)| catalog.provider_of(endpoint));
        }

        /// Number of the attempt, from 1.
        pub(crate) n: u32 = attempt.n,
        /// Id of the model, such as `meadow/small`.
        pub(crate) model: Option<String> = model.map(|model| model.id.to_string()),
        /// Slug of the provider: its name in the configuration, in requests and in filters.
        pub(crate) provider_slug: Option<String> = provider.map(|provider| provider.slug.to_string()),
    }
}
