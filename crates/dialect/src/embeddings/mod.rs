//! Embeddings: the calls that a request becomes at an endpoint, and their answers in the form of the OpenAI API.
//!
//! Most APIs take fewer inputs in a call than a request may have, so a request may become several calls. All of them make
//! one answer, or none does.

mod amazon;
mod google;
mod input;
mod vectors;

use std::{borrow::Cow, sync::Arc};

use bytes::{BufMut as _, Bytes, BytesMut};
use pointsman_domain::{Catalog, Dialect, Endpoint, Platform, ServiceName};

use self::{
    amazon::AmazonModel,
    google::GoogleMethod,
    input::{EmbeddingFields, EmbeddingInput},
    vectors::Vectors,
};
use super::{
    answer::{AnswerFault, AnswerResult},
    json::{Raw, without_mark},
    neutral::{EscapedText, UnsupportedFields},
    openai::request::EmbeddingRequest,
    outgoing::OutgoingBody,
    percent,
};

/// How an endpoint makes embeddings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EmbeddingApi {
    /// `/embeddings`, which the client's body is spliced for.
    OpenAi,
    Google(GoogleMethod),
    Amazon(AmazonModel),
}

/// The buffered response to one upstream request.
#[derive(Debug, Clone)]
pub struct BufferedAnswer {
    /// Its body.
    pub body: Bytes,
    /// Prompt tokens that a header names.
    pub input_tokens: Option<u64>,
    /// The service tier that a header names.
    pub service_tier: Option<ServiceName>,
}

/// What embeddings of a model can be made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbeddingSupport {
    /// Texts and token ids.
    TextsAndTokens,
    /// Texts.
    Texts,
    /// Nothing: how the model is called does not follow from its name.
    None,
}

/// What embeddings of a model can be made of at a provider of this dialect.
pub fn embedding_support(dialect: Dialect, platform: Platform, upstream_model: &str) -> EmbeddingSupport {
    match EmbeddingApi::choose(dialect, platform, upstream_model) {
        Some(EmbeddingApi::OpenAi) => EmbeddingSupport::TextsAndTokens,
        Some(EmbeddingApi::Google(_) | EmbeddingApi::Amazon(_)) => EmbeddingSupport::Texts,
        None => EmbeddingSupport::None,
    }
}

/// Path of embeddings, relative to the base address of the upstream. All calls of a request have the same.
pub fn embedding_path(endpoint: &Endpoint) -> Arc<str> {
    let model = || percent::encoded(&endpoint.upstream_model);
    match EmbeddingApi::of_endpoint(endpoint) {
        None | Some(EmbeddingApi::OpenAi) => "/embeddings".into(),
        Some(EmbeddingApi::Google(method)) => format!("/models/{}:{}", model(), method.name()).into(),
        Some(EmbeddingApi::Amazon(_)) => format!("/model/{}/invoke", model()).into(),
    }
}

/// The bodies of an embedding request for one endpoint. `None` if its API has no form for the input.
pub fn embedding_body(request: &EmbeddingRequest, catalog: &Catalog, endpoint: &Endpoint) -> Option<OutgoingBody> {
    let gated = request.upstream_body(catalog, endpoint);
    let api = EmbeddingApi::of_endpoint(endpoint)?;
    if api == EmbeddingApi::OpenAi {
        return Some(gated);
    }
    let mut unsupported = UnsupportedFields::default();
    gated.dropped.iter().for_each(|name| unsupported.drop(name));
    let mut bodies = api.bodies(std::str::from_utf8(&gated.bytes).ok()?, endpoint, &mut unsupported)?;
    let bytes = bodies.next()?;
    Some(OutgoingBody { further: bodies.collect(), ..OutgoingBody::without(bytes, unsupported) })
}

/// The responses of all calls, in order, as one of the OpenAI API; numbers are copied as they were written. `inputs`: those of
/// the request.
///
/// # Errors
/// When the upstream reports an error, or a body is no response, or does not hold one vector for each input of its call.
pub fn embeddings_of<'b>(
    answers: &'b [BufferedAnswer],
    inputs: usize,
    endpoint: &Endpoint,
) -> Result<Cow<'b, Bytes>, AnswerFault> {
    match (EmbeddingApi::of_endpoint(endpoint), answers) {
        (None | Some(EmbeddingApi::OpenAi), [answer]) => Ok(Cow::Borrowed(&answer.body)),
        (None | Some(EmbeddingApi::OpenAi), _) => Err(AnswerFault::malformed("not one answer")),
        (Some(api), answers) => api.joined(answers, inputs, api.inputs_per_call(endpoint)).map(Cow::Owned),
    }
}

/// Prompt tokens that these responses, which are not all, were counted with.
pub fn embedding_tokens(answers: &[BufferedAnswer], endpoint: &Endpoint) -> u64 {
    let Some(api) = EmbeddingApi::of_endpoint(endpoint) else { return 0 };
    answers.iter().filter_map(|answer| api.read(answer).ok()?.tokens).sum()
}

impl EmbeddingApi {
    fn of_endpoint(endpoint: &Endpoint) -> Option<EmbeddingApi> {
        EmbeddingApi::choose(endpoint.dialect, endpoint.platform, &endpoint.upstream_model)
    }

    /// `None` if the model is Amazon's to call and its name does not say how.
    fn choose(dialect: Dialect, platform: Platform, model: &str) -> Option<EmbeddingApi> {
        match (dialect, platform) {
            (Dialect::Gemini, platform) => Some(EmbeddingApi::Google(GoogleMethod::choose(platform, model))),
            (Dialect::Converse, _) | (Dialect::Anthropic, Platform::Bedrock) => {
                AmazonModel::named(model).map(EmbeddingApi::Amazon)
            }
            (Dialect::OpenAi | Dialect::Responses | Dialect::Anthropic, _) => Some(EmbeddingApi::OpenAi),
        }
    }

    /// Most inputs of one call. An API that takes a list may be configured to take a shorter or a longer one.
    fn inputs_per_call(self, endpoint: &Endpoint) -> usize {
        let known = match self {
            EmbeddingApi::OpenAi => usize::MAX,
            EmbeddingApi::Google(method) => method.inputs_per_call(),
            EmbeddingApi::Amazon(model) => model.inputs_per_call(),
        };
        endpoint.inputs_per_call.filter(|_| known > 1).map_or(known, |configured| configured.max(1) as usize)
    }

    /// The bodies of all calls. Fields without a place in this API are named in `unsupported`. `None` if the input is not text.
    fn bodies<'b>(
        self,
        body: &'b str,
        endpoint: &'b Endpoint,
        unsupported: &mut UnsupportedFields,
    ) -> Option<impl Iterator<Item = Bytes> + use<'b>> {
        let EmbeddingInput { texts, mut fields, others } = EmbeddingInput::read(body)?;
        for name in others {
            unsupported.drop(&String::from_utf8_lossy(&name));
        }
        if !matches!(self, EmbeddingApi::Amazon(AmazonModel::Cohere)) {
            fields.drop_cohere(unsupported);
        }
        let most = self.inputs_per_call(endpoint);
        let calls = texts.len().div_ceil(most);
        Some((0..calls).map(move |call| {
            let texts = texts.get(call * most..).unwrap_or_default();
            self.body(texts.get(..most).unwrap_or(texts), &fields, &endpoint.upstream_model)
        }))
    }

    fn body(self, texts: &[EscapedText<'_>], fields: &EmbeddingFields<'_>, model: &str) -> Bytes {
        let bytes: usize = texts.iter().map(|text| text.bytes().len() + 128).sum();
        let mut out = BytesMut::with_capacity(bytes + 256);
        match self {
            EmbeddingApi::OpenAi => {}
            EmbeddingApi::Google(method) => method.push(texts, fields, model, &mut out),
            EmbeddingApi::Amazon(kind) => kind.push(texts, fields, &mut out),
        }
        out.freeze()
    }

    fn read(self, answer: &BufferedAnswer) -> AnswerResult<Vectors<'_>> {
        let text = std::str::from_utf8(&answer.body).map_err(|_| AnswerFault::malformed("not valid UTF-8"))?;
        let body = Raw::whole(without_mark(text))?;
        let vectors = match self {
            EmbeddingApi::OpenAi => return Err(AnswerFault::malformed("not one answer")),
            EmbeddingApi::Google(method) => method.read(body)?,
            EmbeddingApi::Amazon(model) => model.read(body, answer.input_tokens)?,
        };
        if vectors.values.iter().all(|values| values.is_array()) {
            Ok(vectors)
        } else {
            Err(AnswerFault::malformed("an embedding without values"))
        }
    }

    fn joined(self, answers: &[BufferedAnswer], inputs: usize, per_call: usize) -> AnswerResult<Bytes> {
        let length: usize = answers.iter().map(|answer| answer.body.len()).sum();
        let mut out = BytesMut::with_capacity(length + 32 * inputs + 128);
        let (mut written, mut tokens) = (0, Some(0));
        out.put_slice(b"{\"data\":[");
        for answer in answers {
            let vectors = self.read(answer)?;
            // Vectors of one call would else take the places of the next one's.
            let expected = per_call.min(inputs.saturating_sub(written));
            if vectors.values.len() != expected {
                return Err(AnswerFault::malformed("not one embedding for each input of a call"));
            }
            for values in vectors.values {
                out.put_slice(if written > 0 { b",{\"index\":" } else { b"{\"index\":" });
                push!(out; written as u64, br#","embedding":"#, values.bytes(), b"}");
                written += 1;
            }
            tokens = tokens.zip(vectors.tokens).map(|(sum, more)| sum + more);
        }
        out.put_u8(b']');
        if let Some(tokens) = tokens {
            push!(out; br#","usage":{"prompt_tokens":"#, tokens, br#","total_tokens":"#, tokens, b"}");
        }
        out.put_u8(b'}');
        Ok(out.freeze())
    }
}

#[cfg(test)]
mod tests;
