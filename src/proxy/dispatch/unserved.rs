//! A valid request for which no endpoint is called: every one is failing, limited or busy, or its budget cannot be known.
//!
//! That is a failure for the client, so it has a record with the decision and its exclusions, and counts as a failed
//! generation. A mistake in the request, and a limit of the caller, leave no record: those are counted by their reason.

use std::sync::Arc;

use pointsman_actors::router::Routed;
use pointsman_base::clock;
use pointsman_domain::{Generation, GenerationStatus, Waited};

use super::{durable::Durable, record_builder::post_ended};
use crate::{
    access::admission::Admitted,
    base::error::ApiError,
    state::{gateway::Worker, running::RunningRequest},
};

/// Why a request is not served.
pub struct Unserved {
    /// The client's error.
    pub error: ApiError,
    /// What was decided, if the request is recorded.
    routed: Option<Box<Routed>>,
    waited: Option<Waited>,
}

impl From<ApiError> for Unserved {
    fn from(error: ApiError) -> Unserved {
        Unserved { error, routed: None, waited: None }
    }
}

impl Unserved {
    /// `error`, after the decision `routed` and this wait. Recorded if neither the request nor a limit of the caller is to blame.
    pub(super) fn after(error: ApiError, waited: Option<Waited>, routed: impl FnOnce() -> Routed) -> Unserved {
        let is_recorded = error.is_failure_of_a_valid_request();
        Unserved { error, routed: is_recorded.then(|| Box::new(routed())), waited }
    }

    /// Ends the call. If the request is recorded, the error names its generation, and the record is as safe as
    /// `ledger.durability` asks. Callers box the future, so that it does not enlarge that of every call.
    pub async fn end(
        self,
        worker: &Worker,
        admitted: &Admitted,
        call: RunningRequest,
        record: impl FnOnce(&Routed, &RunningRequest) -> Generation,
    ) -> ApiError {
        let Some(routed) = self.routed else { return self.error };
        let mut record = record(&routed, &call);
        record.status = GenerationStatus::Failed;
        record.waited = self.waited;
        record.team = admitted.caller().account.team.load_full().map(|team| Arc::clone(&team.name));
        let took = clock::now() - call.accepted();
        drop(call);
        let (id, durable) = (record.id, Durable::default());
        durable.set(post_ended(worker, &mut Arc::new(record), took, None));
        durable.wait().await;
        self.error.of_generation(id)
    }
}
