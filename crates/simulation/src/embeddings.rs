//! Embeddings, in OpenAI's form, in Google's, and in those of the families at Amazon Bedrock.
//!
//! A vector depends on the text alone, so that a model has the same vectors at all of its providers. Every word adds to some
//! places of it, and its length is 1: texts that share words have similar vectors.

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{HeaderName, HeaderValue},
    web::{Bytes, Data},
};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use pointsman_domain::{Dialect, Modality};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    ProviderSettings, SimulatedModel, json_response::send_json, provider::Provider, rejection::Rejection, words,
};

/// Numbers of a vector, unless the request asks for fewer or more.
const DIMENSIONS: u32 = 256;

/// Most numbers of a vector.
const MAX_DIMENSIONS: u32 = 3072;

/// What Cohere's vectors may be for.
const INPUT_TYPES: [&str; 4] = ["search_document", "search_query", "classification", "clustering"];

/// Weight of the whole text beside that of each of its words: the same words in another order give another vector.
const TEXT_WEIGHT: f32 = 0.25;

#[derive(Debug, Deserialize)]
struct EmbeddingBody {
    model: Option<String>,
    input: Option<Input>,
    dimensions: Option<u32>,
    encoding_format: Option<String>,
}

/// Texts, or token ids.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<u32>),
    TokenLists(Vec<Vec<u32>>),
}

impl Input {
    /// Each input as a text, with its tokens. A token id is a word.
    fn texts(self) -> Vec<(String, u32)> {
        let text = |text: String| {
            let tokens = words::tokens(&text);
            (text, tokens)
        };
        let ids = |ids: Vec<u32>| {
            let words: Vec<String> = ids.iter().map(u32::to_string).collect();
            (words.join(" "), u32::try_from(ids.len()).unwrap_or(u32::MAX))
        };
        match self {
            Input::Text(one) => vec![text(one)],
            Input::Texts(texts) => texts.into_iter().map(text).collect(),
            Input::Tokens(one) => vec![ids(one)],
            Input::TokenLists(lists) => lists.into_iter().map(ids).collect(),
        }
    }
}

/// Answers `POST /embeddings`.
pub(super) async fn create(
    provider: Data<Provider>,
    request: HttpRequest,
    body: Bytes,
) -> Result<HttpResponse, Rejection> {
    provider.record_request();
    let settings = provider.settings();
    if !matches!(settings.dialect, Dialect::OpenAi | Dialect::Responses) {
        return Err(Rejection::UnknownPath { method: request.method().to_string(), path: request.path().to_owned() });
    }
    let body: EmbeddingBody = serde_json::from_slice(&body).map_err(|_| Rejection::BrokenJson)?;
    let model = model(&settings, body.model.as_deref().ok_or(Rejection::Missing("model"))?)?;
    let inputs = body.input.ok_or(Rejection::Missing("input"))?.texts();
    let dimensions = dimensions(body.dimensions)?;
    check_length(model, &inputs)?;
    let as_base64 = body.encoding_format.as_deref() == Some("base64");
    let entry = |(index, (text, _)): (usize, &(String, u32))| {
        let vector = vector(text, dimensions);
        let shown = if as_base64 { json!(base64(&vector)) } else { json!(vector) };
        json!({ "object": "embedding", "index": index, "embedding": shown })
    };
    let data: Vec<Value> = inputs.iter().enumerate().map(entry).collect();
    let mut answer = json!({ "object": "list", "data": data, "model": model.id });
    if let Some(answer) = answer.as_object_mut().filter(|_| settings.reports_usage) {
        let tokens = inputs.iter().fold(0_u32, |sum, (_, tokens)| sum.saturating_add(*tokens));
        answer.insert("usage".to_owned(), json!({ "prompt_tokens": tokens, "total_tokens": tokens }));
    }
    send_json(provider.admit(&settings, &model.id)?, 1, answer.to_string()).await
}

#[derive(Debug, Deserialize)]
struct BatchBody {
    requests: Vec<BatchEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BatchEntry {
    content: Content,
    output_dimensionality: Option<u32>,
}

#[derive(Debug, Deserialize)]
struct Content {
    parts: Vec<Part>,
}

#[derive(Debug, Deserialize)]
struct Part {
    text: String,
}

/// Answers `POST /models/{id}:batchEmbedContents`. Google tells no usage.
pub(super) async fn create_batch(provider: &Provider, id: &str, body: &[u8]) -> Result<HttpResponse, Rejection> {
    let settings = provider.settings();
    let model = model(&settings, id)?;
    let body: BatchBody = serde_json::from_slice(body).map_err(|_| Rejection::BrokenJson)?;
    let mut vectors = Vec::with_capacity(body.requests.len());
    for BatchEntry { content, output_dimensionality } in body.requests {
        let text: Vec<String> = content.parts.into_iter().map(|part| part.text).collect();
        let input = Input::Text(text.join("\n")).texts();
        check_length(model, &input)?;
        let dimensions = dimensions(output_dimensionality)?;
        vectors.extend(input.iter().map(|(text, _)| json!({ "values": vector(text, dimensions) })));
    }
    send_json(provider.admit(&settings, &model.id)?, 1, json!({ "embeddings": vectors }).to_string()).await
}

/// The body of `InvokeModel`, whose form depends on the family of the model.
#[derive(Debug, Deserialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum InvokeBody {
    Titan {
        input_text: String,
        dimensions: Option<u32>,
    },
    Nova {
        single_embedding_params: NovaParameters,
    },
    #[serde(rename_all = "snake_case")]
    Cohere {
        texts: Vec<String>,
        input_type: String,
        output_dimension: Option<u32>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NovaParameters {
    embedding_dimension: Option<u32>,
    text: NovaText,
}

#[derive(Debug, Deserialize)]
struct NovaText {
    value: String,
}

/// Writes the answer of a family: vectors and tokens of the inputs.
type InvokeAnswer = fn(&[Vec<f32>], u32) -> Value;

/// Answers `POST /model/{id}/invoke` of a model that makes embeddings, as Amazon Bedrock does.
pub(super) async fn invoke(provider: &Provider, id: &str, body: &[u8]) -> Result<HttpResponse, Rejection> {
    let settings = provider.settings();
    let model = model(&settings, id)?;
    let malformed = |fault: serde_json::Error| invalid("body", format!("Malformed input request: {fault}"));
    let (texts, asked, form): (_, _, InvokeAnswer) = match serde_json::from_slice(body).map_err(malformed)? {
        InvokeBody::Titan { input_text, dimensions } => (
            vec![input_text],
            dimensions,
            |vectors, tokens| json!({ "embedding": vectors.first(), "inputTextTokenCount": tokens }),
        ),
        InvokeBody::Nova { single_embedding_params: NovaParameters { embedding_dimension, text } } => {
            (vec![text.value], embedding_dimension, |vectors, tokens| {
                let one = json!({ "embeddingType": "TEXT", "embedding": vectors.first() });
                json!({ "embeddings": [one], "inputTokenCount": tokens })
            })
        }
        InvokeBody::Cohere { texts, input_type, output_dimension } => {
            if !INPUT_TYPES.contains(&&*input_type) {
                return Err(invalid("input_type", format!("#/input_type: {input_type} is not a valid enum value")));
            }
            (texts, output_dimension, |vectors, _| json!({ "embeddings": { "float": vectors } }))
        }
    };
    let inputs = Input::Texts(texts).texts();
    check_length(model, &inputs)?;
    let dimensions = dimensions(asked)?;
    let vectors: Vec<Vec<f32>> = inputs.iter().map(|(text, _)| vector(text, dimensions)).collect();
    let tokens = inputs.iter().fold(0_u32, |sum, (_, tokens)| sum.saturating_add(*tokens));
    let answer = form(&vectors, tokens).to_string();
    let mut response = send_json(provider.admit(&settings, &model.id)?, 1, answer).await?;
    let name = HeaderName::from_static("x-amzn-bedrock-input-token-count");
    response.headers_mut().insert(name, HeaderValue::from(tokens));
    Ok(response)
}

fn model<'s>(settings: &'s ProviderSettings, id: &str) -> Result<&'s SimulatedModel, Rejection> {
    let model = settings.model(id).ok_or_else(|| Rejection::UnknownModel(id.to_owned()))?;
    if model.outputs.contains(Modality::Embeddings) {
        return Ok(model);
    }
    Err(invalid("model", format!("The model '{id}' does not make embeddings.")))
}

fn dimensions(asked: Option<u32>) -> Result<usize, Rejection> {
    match asked.unwrap_or(DIMENSIONS) {
        wanted @ 1..=MAX_DIMENSIONS => Ok(wanted as usize),
        _ => Err(invalid("dimensions", format!("Invalid 'dimensions': expected 1 to {MAX_DIMENSIONS}."))),
    }
}

fn check_length(model: &SimulatedModel, inputs: &[(String, u32)]) -> Result<(), Rejection> {
    let limit = model.context_length.unwrap_or(u32::MAX);
    match inputs.iter().find(|(_, tokens)| *tokens > limit) {
        None => Ok(()),
        Some((_, tokens)) => {
            let message = format!(
                "This model's maximum context length is {limit} tokens, however you requested {tokens} tokens. \
                 Please reduce your prompt."
            );
            Err(invalid("input", message))
        }
    }
}

fn invalid(param: &str, message: String) -> Rejection {
    Rejection::Invalid { param: Some(param.to_owned()), message }
}

/// The vector of a text, of length 1.
fn vector(text: &str, dimensions: usize) -> Vec<f32> {
    let text = text.to_lowercase();
    let words = text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut vector = vec![0.0_f32; dimensions];
    for (feature, weight) in words.map(|word| (word, 1.0)).chain([(text.as_str(), TEXT_WEIGHT)]) {
        add(&mut vector, feature, weight);
    }
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|number| *number /= length);
    }
    vector
}

/// Adds the weight to eight places, or subtracts it there, as the hash of the feature says.
fn add(vector: &mut [f32], feature: &str, weight: f32) {
    let hash: [u8; 32] = Sha256::digest(feature).into();
    let (hashes, _) = hash.as_chunks::<4>();
    for hash in hashes {
        let hash = u32::from_le_bytes(*hash);
        let place = (hash >> 1) as usize % vector.len().max(1);
        let signed = if hash & 1 == 0 { weight } else { -weight };
        if let Some(number) = vector.get_mut(place) {
            *number += signed;
        }
    }
}

/// Little-endian floats, as OpenAI writes them.
fn base64(vector: &[f32]) -> String {
    BASE64.encode(vector.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn similarity(one: &str, other: &str) -> f32 {
        vector(one, 256).iter().zip(vector(other, 256)).map(|(one, other)| one * other).sum()
    }

    #[test]
    fn texts_that_share_words_are_near_each_other() {
        let question = "Where does the night train to Vienna stop?";
        let answer = "The night train to Vienna stops in Graz.";
        let stranger = "Crème brûlée needs sugar, cream, eggs and patience.";
        assert!(similarity(question, answer) > similarity(question, stranger) + 0.3);
        assert!((similarity(question, question) - 1.0).abs() < 1e-5);
        assert!(similarity("a dog bites a man", "a man bites a dog") < 0.999_9, "the order counts a little");
    }

    #[test]
    fn every_text_has_a_vector_of_length_one() {
        for text in ["!", "…", "a", "東京", &"word ".repeat(1_000)] {
            for dimensions in [1, 2, 256] {
                let vector = vector(text, dimensions);
                let length: f32 = vector.iter().map(|number| number * number).sum();
                assert!(
                    vector.len() == dimensions && ((length - 1.0).abs() < 1e-4 || dimensions < 3),
                    "{text}: {length}"
                );
            }
        }
    }
}
