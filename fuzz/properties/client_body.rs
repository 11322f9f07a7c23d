//! The readers of requests of the Messages API, of completions of texts and of embeddings: what they take becomes a chat, or bodies
//! of calls; what they refuse, they refuse with words.

use bytes::Bytes;
use pointsman_dialect::{ChatPurpose, ClientReader, EmbeddingRequest, RequestLimits, StateKey, embedding_body};
use pointsman_domain::{Catalog, Dialect, Endpoint, EndpointId, Invalid};

static KEY: StateKey = StateKey::new([7; 32]);

/// Requests of the Messages API.
pub(crate) fn messages(body: &[u8]) {
    read(|reader, body| reader.counted_messages(body, &Vec::new()).map(drop), body);
    read(|reader, body| reader.messages(body, None, &Vec::new()).map(drop), body);
}

/// Requests for the completion of a text.
pub(crate) fn completion(body: &[u8]) {
    read(|reader, body| reader.completion(body).map(drop), body);
}

/// The whole way of a request to a chat.
pub(crate) fn read(read: impl Fn(ClientReader<'_>, Bytes) -> Result<(), Invalid>, body: &[u8]) {
    let limits = RequestLimits::default();
    let reader = ClientReader { state_key: &KEY, purpose: ChatPurpose::Chat, limits: &limits };
    if let Err(invalid) = read(reader, Bytes::copy_from_slice(body)) {
        said(&invalid);
    }
}

/// Requests for embeddings.
pub(crate) fn embedding(body: &[u8]) {
    let request = match EmbeddingRequest::parse(Bytes::copy_from_slice(body), &RequestLimits::default()) {
        Ok(request) => request,
        Err(invalid) => return said(&invalid),
    };
    let catalog = Catalog::default();
    for (dialect, model) in [
        (Dialect::OpenAi, "v"),
        (Dialect::Gemini, "gemini-embedding-001"),
        (Dialect::Converse, "amazon.titan-embed-text-v2:0"),
        (Dialect::Converse, "cohere.embed-v4:0"),
    ] {
        let id = EndpointId::new("acme/vectors", "maker", "");
        let endpoint = Endpoint { dialect, ..Endpoint::with_defaults(id, 0, 0, model) };
        let Some(outgoing) = embedding_body(&request, &catalog, &endpoint) else {
            assert!(request.token_ids, "a text has a form everywhere");
            continue;
        };
        let further = outgoing.further.iter().map(|body| &**body);
        for sent in std::iter::once(&*outgoing.bytes).chain(further) {
            let text = std::str::from_utf8(sent).expect("an upstream is sent UTF-8");
            assert!(super::json::read(text).is_none_or(|sent| sent.is_object()), "{text}");
        }
    }
}

fn said(invalid: &Invalid) {
    assert!(!invalid.message.is_empty() && !invalid.message.contains(char::is_control), "{invalid:?}");
}
