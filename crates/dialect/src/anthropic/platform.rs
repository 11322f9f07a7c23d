//! The Messages API as clouds serve it: the model in the path, the version and the betas in the body.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use pointsman_domain::{Endpoint, Platform};

use crate::{
    json::{Splice, SpliceAction, object, push_string, with_first_member},
    neutral::UpstreamHeaders,
    percent,
};

/// The header that names betas.
const BETA: &str = "anthropic-beta";
/// The header that names the version of the API that a body is written for.
const VERSION: &str = "anthropic-version";
/// The version for which the clouds have names of their own.
const FIRST_VERSION: &str = "2023-06-01";

/// The path of a call, relative to the base address.
pub(crate) fn path(endpoint: &Endpoint, streamed: bool) -> Arc<str> {
    match endpoint.platform {
        Platform::Native => "/messages".into(),
        Platform::Bedrock => {
            let method = if streamed { "invoke-with-response-stream" } else { "invoke" };
            format!("/model/{}/{method}", percent::encoded(&endpoint.upstream_model)).into()
        }
        Platform::Vertex => {
            let method = if streamed { "streamRawPredict" } else { "rawPredict" };
            format!("/models/{}:{method}", percent::encoded(&endpoint.upstream_model)).into()
        }
    }
}

/// The body and the headers of a call as the platform wants them.
pub(crate) fn adapted(body: Bytes, headers: UpstreamHeaders, endpoint: &Endpoint) -> (Bytes, UpstreamHeaders) {
    let own_name = match endpoint.platform {
        Platform::Native => return (body, headers),
        Platform::Bedrock => "bedrock-2023-05-31",
        Platform::Vertex => "vertex-2023-10-16",
    };
    let is_bedrock = endpoint.platform == Platform::Bedrock;
    let Ok(text) = std::str::from_utf8(&body) else { return (body, headers) };
    let Ok(whole) = object(text) else { return (body, headers) };
    let mut splice = Splice::new(text);
    splice.members(whole, |key, _, _| match &*key.name() {
        b"model" | b"anthropic_version" => SpliceAction::Cut,
        b"stream" | b"anthropic_beta" if is_bedrock => SpliceAction::Cut,
        _ => SpliceAction::Kept,
    });
    let mut adapted = splice.finish();
    // Vertex takes betas as a header, as everybody else; neither takes the version as one.
    let (betas, mut headers): (Vec<_>, Vec<_>) = headers.into_iter().partition(|(name, _)| is_bedrock && *name == BETA);
    let asked = headers.iter().find(|(name, _)| *name == VERSION).map(|(_, version)| version.trim());
    let mut version = BytesMut::new();
    push_string(&mut version, asked.filter(|asked| *asked != FIRST_VERSION).unwrap_or(own_name));
    headers.retain(|(name, _)| *name != VERSION);
    if let Some(betas) = list(betas.iter().flat_map(|(_, names)| names.split(','))) {
        adapted = with_first_member(&adapted, b"anthropic_beta", &betas);
    }
    (with_first_member(&adapted, b"anthropic_version", &version), headers)
}

/// The names as a JSON array; `None` without any.
fn list<'n>(names: impl Iterator<Item = &'n str>) -> Option<BytesMut> {
    let mut out = BytesMut::from(&b"["[..]);
    for name in names.map(str::trim).filter(|name| !name.is_empty()) {
        if out.len() > 1 {
            out.extend_from_slice(b",");
        }
        push_string(&mut out, name);
    }
    out.extend_from_slice(b"]");
    (out.len() > 2).then_some(out)
}
