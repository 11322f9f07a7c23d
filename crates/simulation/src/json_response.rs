//! JSON answers that are sent in one piece, and the members they share with streams.

use std::{
    io,
    time::{SystemTime, UNIX_EPOCH},
};

use actix_web::{HttpResponse, body::SizedStream, http::header::ContentType, web::Bytes};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::{counters::End, load::Outcome, provider::ActiveRequest, rejection::Rejection};

/// Sends a JSON body of `tokens` output tokens in one piece, at the time when its last token would be generated.
pub(super) async fn send_json(mut active: ActiveRequest, tokens: u32, body: String) -> Result<HttpResponse, Rejection> {
    match active.draw.outcome {
        Outcome::Fails => return Err(active.fail().await),
        Outcome::Hangs { .. } => active.hang().await,
        Outcome::Completes | Outcome::Truncated { .. } => {}
    }
    active.pass(active.draw.first_token + active.generation_time(tokens)).await;
    let mut response = active.accepted();
    response.insert_header(ContentType::json());
    if let Outcome::Truncated { after } = active.draw.outcome {
        return Ok(response.body(cut_body(active, body.into(), after)));
    }
    active.ends(End::Completed);
    Ok(response.body(body))
}

/// A body that announces its full length and ends after the share `after` of it.
fn cut_body(
    mut active: ActiveRequest,
    body: Bytes,
    after: f64,
) -> SizedStream<impl futures_util::Stream<Item = io::Result<Bytes>> + 'static> {
    active.ends(End::Truncated);
    let length = body.len();
    let kept = ((length as f64 * after) as usize).min(length.saturating_sub(1));
    let start = stream::iter([Ok(body.slice(..kept))]);
    let end = stream::once(async move {
        // Yielding lets the server send the first part; it drops unsent bytes when a body fails.
        tokio::task::yield_now().await;
        drop(active);
        Err(io::Error::other("cut off on purpose"))
    });
    SizedStream::new(length as u64, start.chain(Box::pin(end)))
}

/// An image in a chat answer, as providers that generate images in chats send it.
pub(super) fn image(url: &str) -> Value {
    json!({ "type": "image_url", "image_url": { "url": url } })
}

/// Seconds since 1970, as in the member `created`.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs())
}
