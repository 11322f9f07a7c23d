//! Embeddings at Amazon Bedrock: the bodies that `InvokeModel` passes on to each family of models.

use bytes::{BufMut as _, BytesMut};

use super::{input::EmbeddingFields, vectors::Vectors};
use crate::{
    answer::{AnswerFault, AnswerResult},
    converse,
    json::{Comma, Raw, push_member},
    neutral::EscapedText,
};

/// Cohere wants to know what a vector is for; what is stored is the common case.
const INPUT_TYPE: &[u8] = b"\"search_document\"";
/// Nova's own default, which it wants to be named.
const NOVA_DIMENSIONS: &[u8] = b"3072";

/// A family of models with a form of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AmazonModel {
    /// Amazon's Titan for texts.
    Titan,
    /// Amazon's Titan for images and texts.
    TitanImage,
    /// Amazon's Nova.
    Nova,
    /// Cohere's Embed.
    Cohere,
}

impl AmazonModel {
    /// The family that a name belongs to, with or without a region before it.
    pub(super) fn named(model: &str) -> Option<AmazonModel> {
        const FAMILIES: [(&str, AmazonModel); 4] = [
            ("titan-embed-image", AmazonModel::TitanImage),
            ("titan-embed", AmazonModel::Titan),
            ("cohere.embed", AmazonModel::Cohere),
            ("amazon.nova", AmazonModel::Nova),
        ];
        FAMILIES.into_iter().find(|(name, _)| model.contains(name)).map(|(_, family)| family)
    }

    pub(super) const fn inputs_per_call(self) -> usize {
        match self {
            AmazonModel::Titan | AmazonModel::TitanImage | AmazonModel::Nova => 1,
            AmazonModel::Cohere => 96,
        }
    }

    pub(super) fn push(self, texts: &[EscapedText<'_>], fields: &EmbeddingFields<'_>, out: &mut BytesMut) {
        match self {
            AmazonModel::Titan => {
                out.put_slice(b"{\"inputText\":");
                texts.iter().for_each(|text| text.push_quoted(out));
                push_given(b"dimensions", fields.dimensions, out);
            }
            AmazonModel::TitanImage => {
                out.put_slice(b"{\"inputText\":");
                texts.iter().for_each(|text| text.push_quoted(out));
                if let Some(dimensions) = fields.dimensions {
                    push!(out; br#","embeddingConfig":{"outputEmbeddingLength":"#, dimensions.bytes(), b"}");
                }
            }
            AmazonModel::Nova => {
                out.put_slice(b"{\"taskType\":\"SINGLE_EMBEDDING\"");
                push_member(out, b"singleEmbeddingParams", b"{\"embeddingPurpose\":\"GENERIC_INDEX\"");
                push_member(out, b"embeddingDimension", fields.dimensions.map_or(NOVA_DIMENSIONS, Raw::bytes));
                // A text that is too long is refused, as everywhere, and not cut.
                push_member(out, b"text", b"{\"truncationMode\":\"NONE\",\"value\":");
                texts.iter().for_each(|text| text.push_quoted(out));
                out.put_slice(b"}}");
            }
            AmazonModel::Cohere => {
                out.put_slice(b"{\"texts\":[");
                for text in texts {
                    push!(out; Comma, text);
                }
                push!(out; br#"],"input_type":"#, fields.input_type.map_or(INPUT_TYPE, Raw::bytes));
                push_given(b"truncate", fields.truncate, out);
                push_given(b"output_dimension", fields.dimensions, out);
            }
        }
        out.put_u8(b'}');
    }

    /// `input_tokens`: the count that a header of the answer names.
    pub(super) fn read(self, answer: Raw<'_>, input_tokens: Option<u64>) -> AnswerResult<Vectors<'_>> {
        if let Some(fault) = converse::fault_of_body(answer) {
            return Err(fault);
        }
        let missing = || AnswerFault::malformed("no embedding");
        let counted = |name: &[u8]| answer.member(name).and_then(Raw::count).or(input_tokens);
        Ok(match self {
            AmazonModel::Titan | AmazonModel::TitanImage => Vectors {
                values: vec![answer.member(b"embedding").ok_or_else(missing)?],
                tokens: counted(b"inputTextTokenCount"),
            },
            AmazonModel::Nova => {
                let list = answer.member(b"embeddings").ok_or_else(missing)?;
                let values = list.elements().map(|entry| entry.member(b"embedding").unwrap_or(entry)).collect();
                Vectors { values, tokens: counted(b"inputTokenCount") }
            }
            AmazonModel::Cohere => {
                let given = answer.member(b"embeddings").ok_or_else(missing)?;
                // From its fourth version on by the type of their numbers.
                let list = given.member(b"float").unwrap_or(given);
                Vectors { values: list.elements().collect(), tokens: input_tokens }
            }
        })
    }
}

fn push_given(name: &[u8], value: Option<Raw<'_>>, out: &mut BytesMut) {
    if let Some(value) = value {
        push_member(out, name, value.bytes());
    }
}
