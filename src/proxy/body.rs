//! Request bodies: declared to be JSON, no larger than the limit, here in time; only then are they read on.
//!
//! Every byte is counted in the caller's `KeyBuffer` before it is kept, so that no number of clients can make the gateway hold more
//! than it may.

use std::time::Instant;

use actix_web::{
    HttpRequest,
    http::header::{self, HeaderMap},
    web,
};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;

use crate::{
    access::{body_limits::BodyLimits, load::BufferedBytes},
    base::error::ApiError,
};

/// Room made at once for a body that announces its length; a larger one has to come before it gets more.
const MOST_AT_ONCE: usize = 1024 * 1024;

/// Reads the whole body of a JSON call. The bytes count as buffered until the last slice of them is dropped.
///
/// A body that came in one piece, the usual case, is not copied.
///
/// # Errors
/// 415 for another content type, 400 for another charset, 413 over the limit (before reading, when the
/// announced length says so), 503 when too much is buffered already, 408 when it is late or too slow, 400 when it
/// breaks off.
pub async fn read_json(request: &HttpRequest, payload: web::Payload, limits: BodyLimits) -> Result<Bytes, ApiError> {
    check_head(request.headers(), limits.bytes)?;
    let announced = announced_length(request.headers()).unwrap_or_default();
    limits.buffer.fits(announced).map_err(|full| limits.buffer.refuse(full))?;
    Reading { payload, begun: Instant::now(), announced, received: 0, count: limits.buffer.count(), limits }
        .whole()
        .await
}

/// What a head says of its body that nobody has to read for it to be refused.
///
/// # Errors
/// 415 for another content type, 400 for another charset, 413 over `most` bytes.
pub(crate) fn check_head(headers: &HeaderMap, most: usize) -> Result<(), ApiError> {
    check_content_type(headers)?;
    match announced_length(headers) {
        Some(announced) if announced > most => Err(ApiError::body_too_large(most)),
        _ => Ok(()),
    }
}

/// A body under way.
struct Reading {
    payload: web::Payload,
    limits: BodyLimits,
    begun: Instant,
    /// Bytes the head promises; 0 where it says nothing.
    announced: usize,
    received: usize,
    count: BufferedBytes,
}

impl Reading {
    async fn whole(mut self) -> Result<Bytes, ApiError> {
        let Some(first) = self.piece().await? else { return Ok(Bytes::new()) };
        let Some(second) = self.piece().await? else { return Ok(self.count.body(first)) };
        let known = first.len() + second.len();
        let mut whole = BytesMut::with_capacity(self.announced.min(MOST_AT_ONCE).max(known));
        whole.extend_from_slice(&first);
        whole.extend_from_slice(&second);
        // Both are windows into the server's read buffer, which it can use again only without them.
        drop((first, second));
        while let Some(piece) = self.piece().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(self.count.body(whole.freeze()))
    }

    /// The next piece, counted.
    async fn piece(&mut self) -> Result<Option<Bytes>, ApiError> {
        let by = self.limits.pace.next_by(self.begun, self.received);
        let next = tokio::time::timeout_at(by.into(), self.payload.next()).await;
        let Some(piece) = next.map_err(|_| ApiError::slow_body())? else { return Ok(None) };
        let piece = piece.map_err(|_| ApiError::broken_body())?;
        self.received += piece.len();
        if self.received > self.limits.bytes {
            return Err(ApiError::body_too_large(self.limits.bytes));
        }
        self.count.grow_body(piece.len()).map_err(|full| self.limits.buffer.refuse(full))?;
        Ok(Some(piece))
    }
}

fn announced_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// `application/json`, any `application/…+json`, or nothing at all; said once, in UTF-8, not compressed.
fn check_content_type(headers: &HeaderMap) -> Result<(), ApiError> {
    if headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
        return Err(ApiError::unsupported_encoding());
    }
    let mut values = headers.get_all(header::CONTENT_TYPE);
    let Some(value) = values.next() else { return Ok(()) };
    if values.next().is_some() {
        return Err(ApiError::unsupported_media_type());
    }
    let text = value.to_str().map_err(|_| ApiError::unsupported_media_type())?;
    if text == "application/json" {
        return Ok(());
    }
    let mut parts = text.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
    if essence != "application/json" && !essence.ends_with("+json") {
        return Err(ApiError::unsupported_media_type());
    }
    let charset = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"').to_ascii_lowercase())
    });
    match charset.as_deref() {
        None | Some("utf-8" | "utf8" | "us-ascii") => Ok(()),
        Some(_) => Err(ApiError::unsupported_charset()),
    }
}

/// The text of a header, cleaned of control characters and cut: for the ledger.
#[must_use]
pub fn header_text(request: &HttpRequest, name: &str) -> Option<String> {
    let text = request.headers().get(name)?.to_str().ok()?;
    let clean: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
    (!clean.is_empty()).then_some(clean)
}
