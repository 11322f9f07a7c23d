//! Request bodies: declared to be JSON, no larger than the limit, here in time; only then are they read on.

use std::time::Duration;

use actix_web::{HttpRequest, http::header, web};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;

use crate::error::ApiError;

/// The bounds a body is read under.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    /// Most bytes.
    pub bytes: usize,
    /// Longest time for the whole body.
    pub time: Duration,
}

/// Reads the whole body of a JSON call.
///
/// A body that came in one piece, the usual case, is not copied.
///
/// # Errors
/// 415 for another content type, 400 for another charset, 413 over the limit (before reading, when the
/// announced length says so), 408 when it is late, 400 when it breaks off.
pub async fn read_json(request: &HttpRequest, payload: web::Payload, limits: BodyLimits) -> Result<Bytes, ApiError> {
    check_content_type(request)?;
    if announced_length(request).is_some_and(|length| length > limits.bytes as u64) {
        return Err(ApiError::body_too_large(limits.bytes));
    }
    let whole = read(payload, limits.bytes);
    actix_rt::time::timeout(limits.time, whole).await.unwrap_or_else(|_| Err(ApiError::slow_body()))
}

async fn read(mut payload: web::Payload, limit: usize) -> Result<Bytes, ApiError> {
    let Some(first) = payload.next().await else { return Ok(Bytes::new()) };
    let first = first.map_err(|_| ApiError::broken_body())?;
    let mut whole: Option<BytesMut> = None;
    let mut length = first.len();
    while length <= limit {
        let Some(piece) = payload.next().await else {
            return Ok(whole.map_or(first, BytesMut::freeze));
        };
        let piece = piece.map_err(|_| ApiError::broken_body())?;
        length += piece.len();
        whole.get_or_insert_with(|| BytesMut::from(first.as_ref())).extend_from_slice(&piece);
    }
    Err(ApiError::body_too_large(limit))
}

fn announced_length(request: &HttpRequest) -> Option<u64> {
    request.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// `application/json`, any `application/…+json`, or nothing at all; said once, in UTF-8, not compressed.
fn check_content_type(request: &HttpRequest) -> Result<(), ApiError> {
    let headers = request.headers();
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
