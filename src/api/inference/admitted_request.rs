//! An admitted call: what all calls that are routed have in common.

use std::{sync::Arc, time::Instant};

use actix_web::{
    HttpResponse,
    web::{Bytes, Payload},
};
use pointsman_actors::router::Routed;
use pointsman_config::Scope;
use pointsman_domain::Query;

use crate::{
    access::{admission::Admitted, lease::Moment, load::KeyBuffer},
    api::{answer::JSON, auth::Authorized},
    base::error::ApiError,
    proxy::dispatch::{
        self, RequestedWork,
        attempt::RequestSize,
        plain::{self, PlainAnswer},
        plan_run::PlanRun,
        record_builder::{GenerationOpening, RecordBuilder},
    },
    state::running::RunningRequest,
};

/// An admitted request.
pub(crate) struct AdmittedRequest {
    pub by: Authorized,
    /// When the call was accepted.
    pub accepted: Instant,
    pub admitted: Admitted,
    /// The caller's share of the buffered bytes.
    pub share: Arc<KeyBuffer>,
    /// Its place among the calls in progress.
    pub running: RunningRequest,
}

impl AdmittedRequest {
    /// Admits a call and reads its body.
    ///
    /// # Errors
    /// 403 without the scope `inference`, 402 or 429 over a limit of the key, 503 under too much load, and those of
    /// [`Authorized::read_json`].
    pub async fn read(by: Authorized, payload: Payload) -> Result<(AdmittedRequest, Bytes), ApiError> {
        let call = AdmittedRequest::admit(by)?;
        let body = call.by.read_json(payload).await?;
        Ok((call, body))
    }

    /// Admits a call whose body is made by the gateway.
    ///
    /// # Errors
    /// As [`AdmittedRequest::read`], without those of the body.
    pub fn admit(by: Authorized) -> Result<AdmittedRequest, ApiError> {
        let accepted = Instant::now();
        let at = Moment::at(accepted);
        by.caller.require(Scope::Inference)?;
        let admitted = by.worker.setup.admission.admit(&by.caller, at)?;
        by.caller.budgets().check()?;
        let share = by.worker.setup.body_limits(&by.caller).buffer;
        let running = by.worker.calls.begin(by.caller.owner, by.caller.id, at);
        Ok(AdmittedRequest { by, accepted, admitted, share, running })
    }

    /// Routes and answers work that is never streamed. Its cost is reserved for a request of the size `worst`.
    ///
    /// # Errors
    /// 4xx when no endpoint may serve it; 4xx, 502, 503 or 504 when no attempt succeeds.
    pub async fn answer(
        self,
        work: RequestedWork,
        query: Box<Query>,
        opening: GenerationOpening,
        (size, worst): (RequestSize, RequestSize),
        ignored: Vec<String>,
    ) -> Result<HttpResponse, ApiError> {
        let AdmittedRequest { by: Authorized { caller, worker, request }, accepted, mut admitted, share, running } =
            self;
        let planned = dispatch::plan(&worker, &work, query, (worst, accepted), &mut admitted).await;
        let (routed, budget, waiting) = match planned {
            Ok(planned) => planned,
            Err(unserved) => {
                let model = Arc::clone(&opening.requested_model);
                let record = |routed: &Routed, call: &RunningRequest| opening.record(&request, routed, call);
                let error = Box::pin(unserved.end(&worker, &admitted, running, record)).await;
                return Err(error.for_model(&model));
            }
        };
        let record = opening.record(&request, &routed, &running);
        let record_builder = RecordBuilder::new(&worker, running, admitted, budget.clone(), record);
        let record_builder = record_builder.with_ignored(ignored);
        let plan = PlanRun::new(&worker, routed, accepted, size, (budget, waiting)).for_caller(caller.owner);
        let PlainAnswer { body, held, record_builder } =
            plain::answer(&worker, &work, plan, record_builder, &share).await?;
        let mut response = HttpResponse::Ok();
        record_builder.write_headers(&mut response);
        Ok(response.insert_header(JSON).body(held.answer(body)))
    }
}
