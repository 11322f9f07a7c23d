//! JSON answers that are sent in one piece, and the members they share with streams.

use std::{
    io,
    time::{SystemTime, UNIX_EPOCH},
};

use actix_web::{HttpResponse, body::SizedStream, http::header::ContentType, web::Bytes};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::{counters::End, load::Fate, provider::Turn, refusal::Refusal};

/// Sends a JSON body of `tokens` output tokens in one piece, at the time when its last token would be generated.
pub(super) async fn send_json(mut turn: Turn, tokens: u32, body: String) -> Result<HttpResponse, Refusal> {
    match turn.draw.fate {
        Fate::Fails => return Err(turn.fail().await),
        Fate::Hangs { .. } => turn.hang().await,
        Fate::Answers | Fate::IsCut { .. } => {}
    }
    turn.pass(turn.draw.first_token + turn.telling(tokens)).await;
    let mut response = turn.accepted();
    response.insert_header(ContentType::json());
    if let Fate::IsCut { after } = turn.draw.fate {
        return Ok(response.body(cut_body(turn, body.into(), after)));
    }
    turn.ends(End::Completed);
    Ok(response.body(body))
}

/// A body that announces its whole length and ends after the share `after` of it.
fn cut_body(
    mut turn: Turn,
    body: Bytes,
    after: f64,
) -> SizedStream<impl futures_util::Stream<Item = io::Result<Bytes>> + 'static> {
    turn.ends(End::Truncated);
    let length = body.len();
    let kept = ((length as f64 * after) as usize).min(length.saturating_sub(1));
    let start = stream::iter([Ok(body.slice(..kept))]);
    let end = stream::once(async move {
        // Suspending once lets the first part leave; the server drops what is unsent when a body fails.
        tokio::task::yield_now().await;
        drop(turn);
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
