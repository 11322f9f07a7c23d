//! Plain answers, chat or images. Nothing reaches the client before the answer is complete and checked.

use std::{cell::RefCell, sync::Arc};

use pointsman_actors::dialect::{Answer, OutgoingBody};

use crate::{
    access::load::{BufferLimitReached, BufferedBytes, KeyBuffer},
    base::{clock, error::ApiError},
    proxy::dispatch::{
        RequestedWork,
        draft::GenerationDraft,
        images::ImageBounds,
        plan_run::PlanRun,
        race::{AttemptHandle, AttemptRunner, Race, Target, after_head},
    },
    state::gateway::Worker,
    upstream::UpstreamError,
};

/// A complete answer.
pub struct PlainAnswer {
    /// The answer.
    pub answer: Answer,
    /// Its bytes in the caller's share, until the client has them.
    pub held: BufferedBytes,
    /// Its record, already posted and as safe as `ledger.durability` asks.
    pub draft: Box<GenerationDraft>,
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
    draft: Box<GenerationDraft>,
    share: &Arc<KeyBuffer>,
) -> Result<PlainAnswer, ApiError> {
    let durable = draft.durable();
    let answered = answer_now(worker, work, &mut plan, draft, share).await;
    durable.wait().await;
    answered
}

/// The same, before the record is safe on disk.
async fn answer_now(
    worker: &Worker,
    work: &RequestedWork,
    plan: &mut PlanRun,
    draft: Box<GenerationDraft>,
    share: &Arc<KeyBuffer>,
) -> Result<PlainAnswer, ApiError> {
    let draft = RefCell::new(draft);
    let race = Race { worker, work, draft: &draft, runner: &PlainRunner { worker, work, share } };
    let (n, output) = race.run(plan).await?;
    let mut draft = draft.into_inner();
    match output {
        Ok((answer, held)) => {
            draft.complete(n, answer.outcome.clone());
            Ok(PlainAnswer { answer, held, draft })
        }
        Err(full) => {
            draft.fail_without_room(n);
            Err(draft.annotate(share.refuse(full)))
        }
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
    type Output = Result<(Answer, BufferedBytes), BufferLimitReached>;

    async fn run(
        &self,
        target: &Target<'_>,
        outgoing: OutgoingBody,
        attempt: AttemptHandle<'_>,
    ) -> Result<Self::Output, UpstreamError> {
        let call = target.plain_call(self.work, &outgoing, attempt.deadline);
        let call = target.with_traceparent(call, attempt);
        let response =
            target.client.send_observed(call, |phases| attempt.update(|attempt| attempt.phases = phases)).await?;
        attempt.update(|attempt| attempt.quota(response.quota));
        let (mut held, mut has_begun) = (self.share.count(), false);
        // A head may come long before the work is done. Only bytes of the body show that the provider answers.
        let body = response.body.collect_while(|bytes| {
            if !std::mem::replace(&mut has_begun, true) {
                attempt.draft.borrow_mut().first_token(attempt.n, clock::now());
            }
            held.grow_answer(bytes)
        });
        let body = match body.await.map_err(after_head)? {
            Ok(body) => body,
            Err(full) => return Ok(Err(full)),
        };
        let context = target.answer_context(attempt.draft.borrow().record(), self.work);
        let translation = outgoing.translation.as_ref();
        let bounds = ImageBounds::new(self.worker, attempt.deadline);
        let answer = self.work.rewrite((&body, &outgoing), &context, target, bounds, &mut held).await;
        if answer.is_err()
            && let Some(usage) = self.work.usage_of_failed_answer(&body, translation, &context)
        {
            attempt.update(|attempt| attempt.set_usage(usage));
        }
        let answer = answer.map_err(after_head)?;
        Ok(answer.map(|answer| (answer, held)))
    }
}
