//! Plain answers, chat or images. Nothing reaches the client before the answer is complete and checked.

use std::{cell::RefCell, pin::pin, slice, sync::Arc, time::Duration};

use actix_rt::time::timeout;
use bytes::Bytes;
use pointsman_dialect::{Answer, BufferedAnswer, Doubt, OutgoingBody};
use pointsman_transport::UpstreamError;

use crate::{
    access::load::{BufferedBytes, KeyBuffer},
    base::error::ApiError,
    proxy::dispatch::{
        RequestedWork, calls,
        cascade::{self, Found, FoundAnswer},
        images::ImageBounds,
        plan_run::PlanRun,
        race::{AttemptHandle, AttemptRunner, Race, Target, after_head, doubted},
        record_builder::RecordBuilder,
    },
    state::gateway::Worker,
};

/// Time for which a call runs before it is recorded as running. A record costs as much as that of its end, so calls that are
/// over in no time have only the latter.
const UNRECORDED: Duration = Duration::from_millis(250);

/// A complete answer.
pub struct PlainAnswer {
    /// The body for the client.
    pub body: Bytes,
    /// Its bytes in the caller's share, until the client has them.
    pub held: BufferedBytes,
    /// Its record, already posted and as safe as `ledger.durability` asks.
    pub record_builder: Box<RecordBuilder>,
}

/// Runs the plan until an endpoint gives a complete answer.
///
/// # Errors
/// The client's error when no endpoint answers, or when `share` has no room for the answer. The record is then posted as
/// failed.
pub async fn answer(
    worker: &Worker,
    work: &RequestedWork,
    mut plan: PlanRun,
    record_builder: Box<RecordBuilder>,
    share: &Arc<KeyBuffer>,
) -> Result<PlainAnswer, ApiError> {
    let durable = record_builder.durable();
    let answered = answer_now(worker, work, &mut plan, record_builder, share).await;
    durable.wait().await;
    answered
}

/// The same, before the record is safe on disk.
async fn answer_now(
    worker: &Worker,
    work: &RequestedWork,
    plan: &mut PlanRun,
    record_builder: Box<RecordBuilder>,
    share: &Arc<KeyBuffer>,
) -> Result<PlainAnswer, ApiError> {
    let record_builder = RefCell::new(record_builder);
    let (n, output) = {
        let race = Race { worker, work, record_builder: &record_builder, runner: &PlainRunner { worker, work, share } };
        let mut running = pin!(answer_of(&race, plan));
        match timeout(UNRECORDED, running.as_mut()).await {
            Ok(ended) => ended?,
            Err(_) => {
                record_builder.borrow_mut().publish_running();
                running.await?
            }
        }
    };
    let mut record_builder = record_builder.into_inner();
    match output {
        Ok(FoundAnswer { answer: Answer { body, outcome }, held, .. }) => {
            record_builder.complete(n, outcome);
            Ok(PlainAnswer { body, held, record_builder })
        }
        Err(full) => {
            record_builder.fail_without_room(n);
            Err(record_builder.annotate(share.refuse(full)))
        }
    }
}

/// Runs the plan until there is an answer, and asks another model if that is broken and its alias has a cascade.
async fn answer_of(race: &Race<'_, PlainRunner<'_>>, plan: &mut PlanRun) -> Result<(u32, Found), ApiError> {
    match race.run(plan).await? {
        // Boxed: few answers are broken.
        (n, Ok(first)) if first.broken.is_some() => Ok(Box::pin(cascade::second_answer(race, plan, n, first)).await),
        found => Ok(found),
    }
}

/// Waits for complete answers.
struct PlainRunner<'a> {
    worker: &'a Worker,
    work: &'a RequestedWork,
    share: &'a Arc<KeyBuffer>,
}

impl AttemptRunner for PlainRunner<'_> {
    /// A missing room for the answer is not the endpoint's failure, and another endpoint would not help. So it ends the race.
    type Output = Found;

    async fn run(
        &self,
        target: &Target<'_>,
        outgoing: OutgoingBody,
        attempt: AttemptHandle<'_>,
    ) -> Result<Self::Output, UpstreamError> {
        let call = target.plain_call(self.work, &outgoing, attempt.deadline);
        let call = target.with_traceparent(call, attempt);
        let held = RefCell::new(self.share.count());
        let of_request = |error| doubted(error, Doubt::of_request(&outgoing.bytes));
        let (one, several);
        let answers = if outgoing.further.is_empty() {
            one = calls::answer(target, (call, &outgoing.bytes), attempt, &held).await.map_err(of_request)?;
            one.as_ref().map(slice::from_ref)
        } else {
            // Boxed, so that this future does not enlarge that of every chat.
            let call = (call, &outgoing.bytes);
            several =
                Box::pin(calls::answers(target, call, &outgoing.further, attempt, &held)).await.map_err(of_request)?;
            several.as_deref()
        };
        let answers = match answers {
            Ok(answers) => answers,
            Err(full) => return Ok(Err(*full)),
        };
        let mut held = held.into_inner();
        let context = {
            let told = answers.first().and_then(|answer| answer.service_tier);
            target.answer_context(attempt.record_builder.borrow().record(), self.work, &outgoing, told)
        };
        let translation = outgoing.translation.as_ref();
        let bounds = ImageBounds::new(self.worker, attempt.deadline);
        let answer = self.work.rewrite((answers, &outgoing), &context, target, bounds, &mut held).await;
        if answer.is_err()
            && let [BufferedAnswer { body, .. }] = answers
            && let Some(usage) = self.work.usage_of_failed_answer(body, translation, &context)
        {
            attempt.update(|attempt| attempt.set_usage(usage));
        }
        let answer = answer.map_err(|error| of_request(after_head(error)))?;
        Ok(answer.map(|answer| {
            let broken = answers.first().and_then(|BufferedAnswer { body, .. }| {
                cascade::verdict(target, attempt, self.work, (body, &outgoing), (&context, &answer.outcome))
            });
            FoundAnswer { answer, held, broken }
        }))
    }
}
