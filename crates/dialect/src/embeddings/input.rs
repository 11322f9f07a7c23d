//! The texts of an embedding request, and what is said about their vectors.

use std::borrow::Cow;

use crate::{
    json::Raw,
    neutral::{EscapedText, UnsupportedFields},
};

/// A request as other APIs than OpenAI's need it.
pub(super) struct EmbeddingInput<'b> {
    /// In order, at least one.
    pub(super) texts: Vec<EscapedText<'b>>,
    pub(super) fields: EmbeddingFields<'b>,
    /// Names of fields that no API has.
    pub(super) others: Vec<Cow<'b, [u8]>>,
}

/// Fields that an API may have, as they were written.
#[derive(Default)]
pub(super) struct EmbeddingFields<'b> {
    /// How many numbers a vector has.
    pub(super) dimensions: Option<Raw<'b>>,
    /// Cohere's own: what the vectors are for.
    pub(super) input_type: Option<Raw<'b>>,
    /// Cohere's own: where a text that is too long is cut.
    pub(super) truncate: Option<Raw<'b>>,
}

impl<'b> EmbeddingInput<'b> {
    /// `None` if the input is not text.
    pub(super) fn read(body: &'b str) -> Option<EmbeddingInput<'b>> {
        let body = Raw::whole(body).ok()?;
        let input = body.member(b"input")?;
        let texts: Vec<EscapedText<'b>> = match EscapedText::read(input) {
            Some(text) => vec![text],
            None => input.elements().map(EscapedText::read).collect::<Option<_>>()?,
        };
        if texts.is_empty() {
            return None;
        }
        let (mut fields, mut others) = (EmbeddingFields::default(), Vec::new());
        for (key, value) in body.members().filter(|(_, value)| !value.is_null()) {
            let name = key.name();
            match &*name {
                // The gateway itself writes vectors in the format that the client wants.
                b"model" | b"input" | b"encoding_format" => {}
                b"dimensions" if value.count().is_some() => fields.dimensions = Some(value),
                b"input_type" if value.is_string() => fields.input_type = Some(value),
                b"truncate" if value.is_string() => fields.truncate = Some(value),
                _ => others.push(name),
            }
        }
        Some(EmbeddingInput { texts, fields, others })
    }
}

impl EmbeddingFields<'_> {
    /// Leaves out what only Cohere has.
    pub(super) fn drop_cohere(&mut self, unsupported: &mut UnsupportedFields) {
        let given = [("input_type", self.input_type.take()), ("truncate", self.truncate.take())];
        given.into_iter().filter(|(_, value)| value.is_some()).for_each(|(name, _)| unsupported.drop(name));
    }
}
