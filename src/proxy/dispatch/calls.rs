//! The calls of one attempt at a plain answer: one, or several for more embeddings than an endpoint makes in one call.

use std::cell::RefCell;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use pointsman_base::clock;
use pointsman_dialect::{AnswerFault, BufferedAnswer, SentBody, embedding_tokens};
use pointsman_domain::Usage;
use pointsman_transport::{UpstreamError, UpstreamRequest};

use crate::{
    access::load::{BufferLimitReached, BufferedBytes},
    proxy::dispatch::race::{AttemptHandle, Target, after_head},
};

/// Most calls of one attempt at a time. They count as one against the limit of the provider.
const AT_ONCE: usize = 8;

const TOO_LARGE_TOGETHER: &str = "The embeddings of all inputs together are too large. Send fewer inputs, or the administrator \
     of the gateway can raise limits.upstream_body.";

/// Sends a call with the body `request` and waits for the whole answer. The inner error means that there is no room for it in `held`.
pub(super) async fn answer(
    target: &Target<'_>,
    (call, request): (UpstreamRequest, &SentBody),
    attempt: AttemptHandle<'_>,
    held: &RefCell<BufferedBytes>,
) -> Result<Result<BufferedAnswer, BufferLimitReached>, UpstreamError> {
    let response =
        target.client.send_observed(call, |phases| attempt.update(|attempt| attempt.phases = phases)).await?;
    attempt.update(|attempt| attempt.quota(response.quota, request));
    let (input_tokens, service_tier) = (response.input_tokens, response.service_tier);
    let mut has_begun = false;
    // A head may come long before the work is done. Only bytes of the body show that the provider answers.
    let body = response.body.collect_while(|bytes| {
        if !std::mem::replace(&mut has_begun, true) {
            attempt.record_builder.borrow_mut().first_token(attempt.n, clock::now());
        }
        held.borrow_mut().grow_answer(bytes)
    });
    Ok(body.await.map_err(after_head)?.map(|body| BufferedAnswer { body, input_tokens, service_tier }))
}

/// Sends `first` and the same call with each of the `further` bodies. The answers are in this order. Nothing is repeated: the
/// first failure ends all of them, and what the calls before it were counted with is the usage of the attempt.
pub(super) async fn answers(
    target: &Target<'_>,
    (first, request): (UpstreamRequest, &SentBody),
    further: &[Bytes],
    attempt: AttemptHandle<'_>,
    held: &RefCell<BufferedBytes>,
) -> Result<Result<Vec<BufferedAnswer>, BufferLimitReached>, UpstreamError> {
    let same = first.clone();
    let others = further.iter().map(|body| UpstreamRequest { body: body.clone().into(), ..same.clone() });
    let calls = stream::iter([first].into_iter().chain(others));
    let mut running = calls.map(|call| answer(target, (call, request), attempt, held)).buffered(AT_ONCE);
    let mut answers = Vec::with_capacity(1 + further.len());
    let mut room = target.client.max_body();
    while let Some(answered) = running.next().await {
        let failure = match answered {
            Ok(Err(full)) => return Ok(Err(full)),
            Ok(Ok(answer)) if answer.body.len() <= room => {
                room -= answer.body.len();
                answers.push(answer);
                continue;
            }
            Ok(Ok(_)) => AnswerFault::gateway_limit(TOO_LARGE_TOGETHER).into(),
            Err(error) => error,
        };
        let prompt_tokens = embedding_tokens(&answers, target.endpoint);
        if prompt_tokens > 0 {
            attempt.update(|attempt| attempt.set_usage(Usage { prompt_tokens, ..Usage::default() }));
        }
        return Err(failure);
    }
    Ok(Ok(answers))
}
