//! Embeddings at AI Studio and at Vertex AI.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::Platform;

use super::{input::EmbeddingFields, vectors::Vectors};
use crate::{
    answer::{AnswerFault, AnswerResult},
    gemini,
    json::{Raw, push_member},
    neutral::EscapedText,
};

/// The method of a model that makes embeddings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GoogleMethod {
    /// All models at AI Studio.
    Batch,
    /// Gemini models and open models at Vertex AI.
    Content,
    /// All others at Vertex AI.
    Predict,
}

impl GoogleMethod {
    pub(super) fn choose(platform: Platform, model: &str) -> GoogleMethod {
        match platform {
            Platform::Native | Platform::Bedrock => GoogleMethod::Batch,
            // Google's own SDK tells them apart in this way.
            Platform::Vertex if model.contains("gemini") || model.contains("maas") => GoogleMethod::Content,
            Platform::Vertex => GoogleMethod::Predict,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            GoogleMethod::Batch => "batchEmbedContents",
            GoogleMethod::Content => "embedContent",
            GoogleMethod::Predict => "predict",
        }
    }

    /// Most inputs of one call, as Google's documentation and errors name them.
    pub(super) const fn inputs_per_call(self) -> usize {
        match self {
            GoogleMethod::Batch => 100,
            GoogleMethod::Content => 1,
            GoogleMethod::Predict => 250,
        }
    }

    pub(super) fn push(self, texts: &[EscapedText<'_>], fields: &EmbeddingFields<'_>, model: &str, out: &mut BytesMut) {
        match self {
            GoogleMethod::Batch => push_batch(texts, fields, model, out),
            GoogleMethod::Content => push_content(texts, fields, out),
            GoogleMethod::Predict => push_instances(texts, fields, out),
        }
    }

    pub(super) fn read(self, answer: Raw<'_>) -> AnswerResult<Vectors<'_>> {
        if let Some(fault) = gemini::fault(answer) {
            return Err(fault);
        }
        if self == GoogleMethod::Predict {
            return predictions(answer);
        }
        let list = answer.member(b"embeddings").filter(|list| list.is_array());
        let values = match (list, answer.member(b"embedding")) {
            (Some(list), _) => list.elements().map(values_of).collect(),
            (None, Some(only)) => vec![values_of(only)],
            (None, None) => return Err(AnswerFault::malformed("no list of embeddings")),
        };
        let usage = answer.member(b"usageMetadata").and_then(|usage| usage.member(b"promptTokenCount"));
        Ok(Vectors { values, tokens: usage.and_then(Raw::count) })
    }
}

fn push_text(text: &EscapedText<'_>, out: &mut BytesMut) {
    push!(out; br#"{"parts":[{"text":"#, text, b"}]}");
}

fn push_batch(texts: &[EscapedText<'_>], fields: &EmbeddingFields<'_>, model: &str, out: &mut BytesMut) {
    let model = format!("models/{model}");
    out.put_slice(b"{\"requests\":[");
    for (place, text) in texts.iter().enumerate() {
        out.put_slice(if place > 0 { b",{\"model\":" } else { b"{\"model\":" });
        push!(out; model, br#","content":"#);
        push_text(text, out);
        if let Some(dimensions) = fields.dimensions {
            push_member(out, b"outputDimensionality", dimensions.bytes());
        }
        out.put_u8(b'}');
    }
    out.put_slice(b"]}");
}

fn push_content(texts: &[EscapedText<'_>], fields: &EmbeddingFields<'_>, out: &mut BytesMut) {
    out.put_slice(b"{\"content\":");
    texts.iter().for_each(|text| push_text(text, out));
    if let Some(dimensions) = fields.dimensions {
        push!(out; br#","embedContentConfig":{"outputDimensionality":"#, dimensions.bytes(), b"}");
    }
    out.put_u8(b'}');
}

fn push_instances(texts: &[EscapedText<'_>], fields: &EmbeddingFields<'_>, out: &mut BytesMut) {
    out.put_slice(b"{\"instances\":[");
    for (place, text) in texts.iter().enumerate() {
        out.put_slice(if place > 0 { b",{\"content\":" } else { b"{\"content\":" });
        push!(out; text, b"}");
    }
    out.put_u8(b']');
    if let Some(dimensions) = fields.dimensions {
        push!(out; br#","parameters":{"outputDimensionality":"#, dimensions.bytes(), b"}");
    }
    out.put_u8(b'}');
}

/// The numbers of a vector, which an object is around.
fn values_of(vector: Raw<'_>) -> Raw<'_> {
    vector.member(b"values").unwrap_or(vector)
}

fn predictions(answer: Raw<'_>) -> AnswerResult<Vectors<'_>> {
    let list = answer.member(b"predictions").filter(|list| list.is_array());
    let list = list.ok_or(AnswerFault::malformed("no list of predictions"))?;
    let (mut values, mut tokens) = (Vec::new(), Some(0));
    for prediction in list.elements() {
        let vector = prediction.member(b"embeddings").unwrap_or(prediction);
        values.push(values_of(vector));
        let counted = vector.member(b"statistics").and_then(|about| about.member(b"token_count")).and_then(Raw::count);
        tokens = tokens.zip(counted).map(|(sum, more)| sum + more);
    }
    Ok(Vectors { values, tokens })
}
