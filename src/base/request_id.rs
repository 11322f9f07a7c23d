//! The name of one call.

use std::sync::Arc;

use actix_web::{
    HttpMessage, HttpRequest,
    http::header::{HeaderMap, HeaderName},
};

/// The header that carries it, both ways.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The name of one call, on every answer and in the log: the caller's own, if it is well formed, else ours.
#[derive(Debug, Clone)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// The id of a call inside the frame.
    #[must_use]
    pub fn of(request: &HttpRequest) -> RequestId {
        request.extensions().get::<RequestId>().cloned().unwrap_or_else(RequestId::fresh)
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id, shared with whoever keeps it.
    #[must_use]
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// The id of a call with these headers.
    pub(crate) fn chosen_by(headers: &HeaderMap) -> RequestId {
        let well_formed = |text: &&str| {
            (1..=128).contains(&text.len())
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        };
        let sent = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok()).filter(well_formed);
        sent.map_or_else(RequestId::fresh, |text| RequestId(text.into()))
    }

    fn fresh() -> RequestId {
        RequestId(format!("req-{:016x}{:08x}", rand::random::<u64>(), rand::random::<u32>()).into())
    }
}
