//! Request ids.

use std::sync::Arc;

use actix_web::{
    HttpMessage, HttpRequest,
    http::header::{HeaderMap, HeaderName},
};

/// Header with the request id, in requests and answers.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Id of one call, sent with every answer and logged: the id the caller sent, if it is well formed, else a random one.
#[derive(Debug, Clone)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// The id that the middleware gave to `request`.
    pub fn of(request: &HttpRequest) -> RequestId {
        request.extensions().get::<RequestId>().cloned().unwrap_or_else(RequestId::fresh)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id as shared text.
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
        let mut text = *b"req-........................";
        if let Some(digits) = text.last_chunk_mut::<24>() {
            // Two digits a byte always fit.
            let [random @ .., _, _, _, _] = rand::random::<u128>().to_ne_bytes();
            let _ = hex::encode_to_slice(random, digits);
        }
        RequestId(str::from_utf8(&text).unwrap_or_default().into())
    }
}
