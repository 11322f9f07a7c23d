//! Heads of calls to a provider.

use actix_http::{
    Method,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use pointsman_dialect::UpstreamHeaders;

use super::{
    connection::{Connection, ConnectionFault},
    http_client::RequestHead,
};

/// What the paths of Bedrock's calls begin with.
pub(super) const BEDROCK_PATH: &str = "/model/";

/// Makes the head of all calls to `path`.
pub(super) fn prepare(connection: &Connection, path: &str, streamed: bool) -> Result<RequestHead, ConnectionFault> {
    // Bedrock frames its streams in another way, and chooses it by the path.
    let accept = match (streamed, path.starts_with(BEDROCK_PATH)) {
        (false, _) => "application/json",
        (true, false) => "text/event-stream",
        (true, true) => "application/vnd.amazon.eventstream",
    };
    let mut headers = HeaderMap::new();
    for (name, value) in &connection.headers {
        headers.append(name.clone(), value.clone());
    }
    // These overwrite configured headers.
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    if let Some((name, value)) = connection.credentials()? {
        headers.insert(name, value);
    }
    RequestHead::new(connection, (&Method::POST, &connection.uri(path)?), headers, false)
}

/// The headers of one call alone.
pub(super) fn extra(headers: &UpstreamHeaders) -> HeaderMap {
    let mut extra = HeaderMap::new();
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            extra.insert(name, value);
        }
    }
    extra
}
