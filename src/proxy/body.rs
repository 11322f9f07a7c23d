//! Reads request bodies: JSON only, with limits on size, time and pace.
//!
//! Every byte is counted in the caller's `KeyBuffer` before it is buffered, so the memory for all bodies together is bounded.

use std::time::Instant;

use actix_web::{
    HttpRequest,
    http::header::{self, HeaderMap, HeaderName},
    web,
};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;

use crate::{
    access::{body_limits::BodyLimits, load::BufferedBytes},
    base::error::ApiError,
};

/// Most bytes that are allocated for an announced length. The buffer of a longer body grows as the bytes arrive.
const MAX_PREALLOCATED: usize = 1024 * 1024;

/// Reads the whole body of a JSON call. The bytes count as buffered until their last slice is dropped.
///
/// A body that arrives in one piece, the usual case, is not copied.
///
/// # Errors
/// 415 for another content type, 400 for another charset, 413 over the limit (before reading, if the announced length
/// exceeds it), 503 when too much is buffered already, 408 when the body is too slow, 400 when it is cut off.
pub async fn read_json(request: &HttpRequest, payload: web::Payload, limits: BodyLimits) -> Result<Bytes, ApiError> {
    let announced = check_head(request.headers(), limits.bytes)?.unwrap_or_default();
    limits.buffer.fits(announced).map_err(|full| limits.buffer.refuse(full))?;
    BodyReader { payload, started: Instant::now(), announced, received: 0, count: limits.buffer.count(), limits }
        .read_all()
        .await
}

/// Checks the headers that describe the body, before the body is read. Gives its announced length.
///
/// # Errors
/// 415 for another content type, 400 for another charset, 413 over `limit` bytes.
pub(crate) fn check_head(headers: &HeaderMap, limit: usize) -> Result<Option<usize>, ApiError> {
    check_content_type(headers)?;
    match announced_length(headers) {
        Some(announced) if announced > limit => Err(ApiError::body_too_large(limit)),
        announced => Ok(announced),
    }
}

/// Reads one body.
struct BodyReader {
    payload: web::Payload,
    limits: BodyLimits,
    started: Instant,
    /// `content-length` in bytes; 0 without one.
    announced: usize,
    received: usize,
    count: BufferedBytes,
}

impl BodyReader {
    async fn read_all(mut self) -> Result<Bytes, ApiError> {
        let Some(first) = self.next_piece().await? else { return Ok(Bytes::new()) };
        let Some(second) = self.next_piece().await? else { return Ok(self.count.body(first)) };
        let received = first.len() + second.len();
        let mut whole = BytesMut::with_capacity(self.announced.min(MAX_PREALLOCATED).max(received));
        whole.extend_from_slice(&first);
        whole.extend_from_slice(&second);
        // Both are slices of the server's read buffer, which cannot be reused while they exist.
        drop((first, second));
        while let Some(piece) = self.next_piece().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(self.count.body(whole.freeze()))
    }

    /// The next piece, counted in the share.
    async fn next_piece(&mut self) -> Result<Option<Bytes>, ApiError> {
        let deadline = self.limits.pace.next_by(self.started, self.received);
        let next = tokio::time::timeout_at(deadline.into(), self.payload.next()).await;
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

/// Accepts `application/json`, any `application/…+json`, or no content type; at most one header, UTF-8, not compressed.
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

/// The header that names a session.
pub static SESSION_ID: HeaderName = HeaderName::from_static("x-session-id");

/// Longest name of a session, characters; the same as in a body.
pub const MAX_SESSION_CHARS: usize = 256;

/// The text of a header for the ledger, without control characters and cut to [`MAX_SESSION_CHARS`].
pub fn header_text(request: &HttpRequest, name: &HeaderName) -> Option<String> {
    // Printable ASCII, and tabs.
    let text = request.headers().get(name)?.to_str().ok()?;
    let mut clean = text.replace('\t', "");
    clean.truncate(MAX_SESSION_CHARS);
    (!clean.is_empty()).then_some(clean)
}
