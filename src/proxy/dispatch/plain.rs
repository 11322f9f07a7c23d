//! An answer in one piece: chat or images. Nothing reaches the client before it is whole and checked.

use std::{cell::RefCell, sync::Arc};

use bytes::Bytes;
use pointsman_actors::dialect::Answer;

use crate::{
    access::load::{BufferLimitReached, BufferedBytes, KeyBuffer},
    base::{clock, error::ApiError},
    proxy::dispatch::{
        Work,
        call::Target,
        draft::GenerationDraft,
        fault,
        images::ImageBounds,
        race::{Ask, Lane, Race},
        walk::Walk,
    },
    state::gateway::Worker,
    upstream::UpstreamError,
};

/// A whole answer, its bytes counted for its caller.
pub struct Served {
    /// The answer.
    pub answer: Answer,
    /// What it counts for until its client has it.
    pub held: BufferedBytes,
    /// Its record, which is out.
    pub draft: GenerationDraft,
}

/// Walks the plan until an endpoint gives a whole answer.
///
/// # Errors
/// What the client is told when none does, or when there is no room in `share` for what one gives; the record then says
/// so too.
pub async fn answer(
    worker: &Worker,
    work: &Work,
    mut walk: Walk,
    draft: GenerationDraft,
    share: &Arc<KeyBuffer>,
) -> Result<Served, ApiError> {
    let draft = RefCell::new(draft);
    let race = Race { worker, work, draft: &draft, ask: &Whole { worker, work, share } };
    let (n, got) = race.run(&mut walk).await?;
    let mut draft = draft.into_inner();
    match got {
        Ok((answer, held)) => {
            draft.complete(n, answer.outcome.clone());
            Ok(Served { answer, held, draft })
        }
        Err(full) => {
            draft.find_no_room(n);
            Err(draft.told(share.refuse(full)))
        }
    }
}

/// Waits for whole answers.
struct Whole<'a> {
    worker: &'a Worker,
    work: &'a Work,
    share: &'a Arc<KeyBuffer>,
}

impl Ask for Whole<'_> {
    /// That there is no room for an answer is no failure of whoever gave it, and asking another would not help.
    type Got = Result<(Answer, BufferedBytes), BufferLimitReached>;

    async fn ask(&self, target: &Target<'_>, body: Bytes, lane: Lane<'_>) -> Result<Self::Got, UpstreamError> {
        let call = target.plain_call(self.work, body, lane.deadline);
        let response = target.client.send_noting(call, |phases| lane.note(|attempt| attempt.phases = phases)).await?;
        lane.note(|attempt| attempt.quota(response.quota));
        let (mut held, mut has_begun) = (self.share.count(), false);
        // A head may come long before the work is done: only what comes behind it is a sign of life.
        let whole = response.body.collect_while(|bytes| {
            if !std::mem::replace(&mut has_begun, true) {
                lane.note(|attempt| attempt.first_token(clock::now()));
            }
            held.grow_answer(bytes)
        });
        let whole = match whole.await.map_err(fault::behind_head)? {
            Ok(whole) => whole,
            Err(full) => return Ok(Err(full)),
        };
        let context = target.answer_context(lane.draft.borrow().record(), self.work);
        let bounds = ImageBounds::new(self.worker, lane.deadline);
        let answer = self.work.rewrite(&whole, &context, target, bounds, &mut held).await;
        if answer.is_err()
            && let Some(usage) = self.work.usage_of_failed_answer(&whole, &context)
        {
            lane.note(|attempt| attempt.took(usage));
        }
        let answer = answer.map_err(fault::behind_head)?;
        Ok(answer.map(|answer| (answer, held)))
    }
}
