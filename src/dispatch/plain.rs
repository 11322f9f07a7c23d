//! An answer in one piece: chat or images. Nothing reaches the client before it is whole and checked.

use std::time::Instant;

use pointsman_actors::dialect::Answer;

use crate::{
    clock,
    dispatch::{
        Work,
        attempt::Attempt,
        call::Target,
        draft::Draft,
        fault,
        images::ImageBounds,
        walk::{Verdict, Walk},
    },
    error::ApiError,
    gateway::Worker,
    upstream::UpstreamError,
};

/// Walks the plan until an endpoint gives a whole answer.
///
/// # Errors
/// What the client is told when none does; the record then says so too.
pub async fn answer(
    worker: &Worker,
    work: &Work,
    mut walk: Walk,
    mut draft: Draft,
) -> Result<(Answer, Draft), ApiError> {
    loop {
        let Some(mut attempt) = walk.next().await else {
            draft.fail(None);
            return Err(walk.give_up().of_generation(draft.id()));
        };
        let Some(target) = Target::of(worker, &walk.routed, &attempt) else {
            draft.fail(None);
            return Err(ApiError::internal().of_generation(draft.id()));
        };
        let outgoing = work.upstream_body(&walk.routed.catalog, target.endpoint);
        draft.attempt_began(&attempt, target.slug(), outgoing.dropped);
        match one(worker, &target, work, outgoing.bytes, &mut attempt, &mut draft, walk.plain_deadline()).await {
            Ok(answer) => {
                draft.attempt_ended(attempt.completed(&answer.outcome.usage));
                draft.complete(answer.outcome.clone());
                return Ok((answer, draft));
            }
            Err(error) => {
                let position = attempt.position;
                draft.attempt_lost(attempt.failed(&error, draft.id()));
                if let Verdict::Stop(error) = walk.failed(position, &error) {
                    draft.fail(None);
                    return Err(error.of_generation(draft.id()));
                }
            }
        }
    }
}

async fn one(
    worker: &Worker,
    target: &Target<'_>,
    work: &Work,
    body: bytes::Bytes,
    attempt: &mut Attempt,
    draft: &mut Draft,
    deadline: Instant,
) -> Result<Answer, UpstreamError> {
    let response = target.client.send(target.plain_call(work, body, deadline)).await?;
    let now = clock::now();
    attempt.connected(&response.timing);
    attempt.first_token(now);
    draft.first_output(now);
    let whole = response.body.collect().await.map_err(fault::behind_head)?;
    let context = target.answer_context(draft.record(), work);
    let bounds = ImageBounds::new(worker, deadline);
    work.rewrite(&whole, &context, target, bounds).await.map_err(fault::behind_head)
}
