//! The awc client below every call to a provider, and the headers of its answers that all callers check.

use std::time::Duration;

use actix_http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap};
use awc::Client;

use super::connector::Connector;

/// An awc client that opens its connections with `connector` and keeps them open as `connector.keep_alive()` says.
pub(super) fn build(connector: Connector) -> Client {
    let (connect, keep_alive) = (connector.timeout(), connector.keep_alive());
    let connector = awc::Connector::new()
        .connector(connector)
        // No limit: awc would hold one permit per stream and queue further calls without an error. `concurrency` limits
        // calls and refuses those above the limit.
        .limit(0)
        // The connector has its own timeout, whose error names the phase. The timeout of awc must be longer.
        .timeout(connect.saturating_mul(2) + Duration::from_secs(1))
        .conn_keep_alive(keep_alive.idle)
        .conn_lifetime(keep_alive.lifetime);
    Client::builder().connector(connector).disable_redirects().no_default_headers().disable_timeout().finish()
}

/// Whether a body has no content encoding.
pub(super) fn is_identity(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_ENCODING).all(|value| {
        let encoding = value.as_bytes().trim_ascii();
        encoding.is_empty() || encoding.eq_ignore_ascii_case(b"identity")
    })
}

/// `content-length` in bytes. The guard has checked that it is a single number.
pub(super) fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}
