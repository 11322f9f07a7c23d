//! An answer in one piece: chat or images. Nothing reaches the client before it is whole and checked.

use std::cell::RefCell;

use bytes::Bytes;
use pointsman_actors::dialect::Answer;

use crate::{
    clock,
    dispatch::{
        Work,
        call::Target,
        draft::Draft,
        fault,
        images::ImageBounds,
        race::{Ask, Lane, Race},
        walk::Walk,
    },
    error::ApiError,
    gateway::Worker,
    upstream::UpstreamError,
};

/// Walks the plan until an endpoint gives a whole answer.
///
/// # Errors
/// What the client is told when none does; the record then says so too.
pub async fn answer(worker: &Worker, work: &Work, mut walk: Walk, draft: Draft) -> Result<(Answer, Draft), ApiError> {
    let draft = RefCell::new(draft);
    let race = Race { worker, work, draft: &draft, ask: &Whole { worker, work } };
    let (n, answer) = race.run(&mut walk).await?;
    let mut draft = draft.into_inner();
    draft.complete(n, answer.outcome.clone());
    Ok((answer, draft))
}

/// Waits for whole answers.
struct Whole<'a> {
    worker: &'a Worker,
    work: &'a Work,
}

impl Ask for Whole<'_> {
    type Got = Answer;

    async fn ask(&self, target: &Target<'_>, body: Bytes, lane: Lane<'_>) -> Result<Answer, UpstreamError> {
        let call = target.plain_call(self.work, body, lane.deadline);
        let response = target.client.send_noting(call, |phases| lane.note(|attempt| attempt.phases = phases)).await?;
        lane.note(|attempt| attempt.quota(response.quota));
        let now = clock::now();
        lane.note(|attempt| attempt.first_token(now));
        let whole = response.body.collect().await.map_err(fault::behind_head)?;
        let context = target.answer_context(lane.draft.borrow().record(), self.work);
        let bounds = ImageBounds::new(self.worker, lane.deadline);
        let answer = self.work.rewrite(&whole, &context, target, bounds).await;
        if answer.is_err()
            && let Some(usage) = self.work.spent_in_vain(&whole, &context)
        {
            lane.note(|attempt| attempt.took(usage));
        }
        answer.map_err(fault::behind_head)
    }
}
