//! Counting the tokens of a prompt where the API of an endpoint does so without an inference.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::{Bytes, BytesMut};
use pointsman_domain::{Catalog, Dialect, Endpoint, Platform};

use super::{
    json::{Cursor, Raw, Splice, SpliceAction, object, push_u64, quoted, with_first_member},
    neutral::UpstreamHeaders,
    openai::request::ChatRequest,
    percent, responses,
    translation::chat_body,
};

/// Members of a message request that its count refuses.
const NOT_COUNTED: [&[u8]; 9] = byte_names![
    max_tokens stop_sequences stream temperature top_p top_k metadata service_tier inference_geo
];
/// Members of a Converse request that are counted.
const OF_CONVERSE: [&[u8]; 4] = [b"messages", b"system", b"toolConfig", b"additionalModelRequestFields"];
/// Members of a Gemini request that are counted at Vertex AI.
const OF_VERTEX: [&[u8]; 4] = [b"contents", b"systemInstruction", b"tools", b"generationConfig"];
/// Members of a Responses request that are counted.
const OF_RESPONSES: [&[u8]; 10] = byte_names![
    model input instructions parallel_tool_calls personality reasoning text tool_choice tools truncation
];
/// A limit for a body that has none, where one is required. It has no effect on a count.
const MAX_TOKENS: u64 = 1_024;

/// A call that asks for the number of prompt tokens.
#[derive(Debug, Clone)]
pub struct CountRequest {
    /// Its path, relative to the base address of the upstream.
    pub path: Arc<str>,
    /// Its body.
    pub body: Bytes,
    /// Its headers.
    pub headers: UpstreamHeaders,
}

/// Whether an API is known to count the tokens of this model. The configuration overrides it.
pub fn counts_tokens(dialect: Dialect, upstream_model: &str) -> bool {
    match dialect {
        Dialect::OpenAi => false,
        // Others serve models of their own in the same format, mostly without a count.
        Dialect::Responses => responses::models::has_name_of_openai(upstream_model),
        Dialect::Anthropic | Dialect::Converse => upstream_model.contains("claude"),
        Dialect::Gemini => true,
    }
}

/// The call that counts the prompt of a request at one endpoint. `None` if its API counts none, or has no form for the request.
pub fn count_request(request: &ChatRequest, catalog: &Catalog, endpoint: &Endpoint) -> Option<CountRequest> {
    if !endpoint.counts_tokens {
        return None;
    }
    let outgoing = chat_body(request, catalog, endpoint, None)?;
    let body = std::str::from_utf8(&outgoing.bytes).ok()?;
    let model = percent::encoded(&endpoint.upstream_model);
    let (path, body) = match (endpoint.dialect, endpoint.platform) {
        (Dialect::OpenAi, _) => return None,
        (Dialect::Responses, _) => {
            ("/responses/input_tokens".into(), retained(body, |name| OF_RESPONSES.contains(&name))?)
        }
        (Dialect::Anthropic, Platform::Native) => ("/messages/count_tokens".into(), retained(body, is_counted)?),
        (Dialect::Anthropic, Platform::Vertex) => {
            let body = with_first_member(&retained(body, is_counted)?, b"model", &quoted(&endpoint.upstream_model));
            ("/models/count-tokens:rawPredict".into(), body)
        }
        (Dialect::Anthropic, Platform::Bedrock) => (bedrock_path(&model), invocation(body, endpoint)?),
        (Dialect::Converse, _) => {
            let body = retained(body, |name| OF_CONVERSE.contains(&name))?;
            (bedrock_path(&model), Bytes::from([b"{\"input\":{\"converse\":", &*body, b"}}"].concat()))
        }
        (Dialect::Gemini, platform) => {
            let body = match platform {
                Platform::Vertex => retained(body, |name| OF_VERTEX.contains(&name))?,
                Platform::Native | Platform::Bedrock => {
                    let name = quoted(&format!("models/{}", endpoint.upstream_model));
                    let body = with_first_member(body.as_bytes(), b"model", &name);
                    Bytes::from([b"{\"generateContentRequest\":", &*body, b"}"].concat())
                }
            };
            (format!("/models/{model}:countTokens").into(), body)
        }
    };
    Some(CountRequest { path, body, headers: outgoing.headers })
}

/// The number of prompt tokens in the response to such a call.
pub fn counted_tokens(answer: &[u8]) -> Option<u64> {
    let mut cursor = Cursor::new(std::str::from_utf8(answer).ok()?);
    let answer = cursor.value().ok()?;
    // The name of Anthropic and OpenAI, Amazon's and Google's.
    let counts: [Option<Raw<'_>>; 3] = answer.pick([b"input_tokens", b"inputTokens", b"totalTokens"]);
    counts.into_iter().flatten().find_map(Raw::count).filter(|count| *count > 0)
}

fn is_counted(name: &[u8]) -> bool {
    !NOT_COUNTED.contains(&name)
}

fn bedrock_path(model: &str) -> Arc<str> {
    format!("/model/{model}/count-tokens").into()
}

/// The object with those of its members only.
fn retained(body: &str, is_kept: impl Fn(&[u8]) -> bool) -> Option<Bytes> {
    let mut splice = Splice::new(body);
    splice.members(
        object(body).ok()?,
        |key, _, _| if is_kept(&key.name()) { SpliceAction::Kept } else { SpliceAction::Cut },
    );
    Some(splice.finish())
}

/// The body of a model that is called as its maker wants it, packed as Amazon wants it.
fn invocation(body: &str, endpoint: &Endpoint) -> Option<Bytes> {
    let body = match object(body).ok()?.member(b"max_tokens") {
        Some(_) => Bytes::copy_from_slice(body.as_bytes()),
        None => {
            let mut most = BytesMut::new();
            push_u64(&mut most, endpoint.limits.max_completion_tokens.map_or(MAX_TOKENS, u64::from));
            with_first_member(body.as_bytes(), b"max_tokens", &most)
        }
    };
    let mut out = BytesMut::from(&b"{\"input\":{\"invokeModel\":{\"body\":\""[..]);
    push!(out; STANDARD.encode(body).as_bytes(), br#""}}}"#);
    Some(out.freeze())
}

#[cfg(test)]
mod tests;
