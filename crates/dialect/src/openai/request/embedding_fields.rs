//! The fields that only an embedding request has.

use pointsman_domain::Invalid;

use super::{fault, json, json_type::JsonType};
use crate::{json::Raw, neutral::Path};

/// Most inputs of one request.
const MAX_INPUTS: usize = 2_048;

/// How vectors come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VectorFormat {
    /// As arrays of numbers.
    #[default]
    Float,
    /// As base64 of little-endian 32-bit floats.
    Base64,
}

/// What the field `input` holds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EmbeddingInput {
    pub(super) inputs: usize,
    /// Bytes of text.
    pub(super) bytes: usize,
    /// Token ids.
    pub(super) tokens: usize,
}

impl EmbeddingInput {
    /// Reads `input`: a string, strings, token ids, or lists of token ids.
    pub(super) fn read(raw: Raw<'_>, path: &Path<'_>) -> Result<EmbeddingInput, Invalid> {
        if JsonType::of(raw) == JsonType::Text {
            return Ok(EmbeddingInput { inputs: 1, bytes: filled(raw, path)?, tokens: 0 });
        }
        // Token ids of one input: there may be more of them than inputs.
        let elements = json::elements(raw, path, usize::MAX)?;
        let Some(first) = elements.first() else {
            return Err(fault::refused(path, format!("'{path}' must not be empty.")));
        };
        if is_number(*first) {
            return Ok(EmbeddingInput { inputs: 1, bytes: 0, tokens: token_ids(&elements, path)? });
        }
        if elements.len() > MAX_INPUTS {
            return Err(fault::refused(path, format!("'{path}' may have at most {MAX_INPUTS} entries.")));
        }
        let mut input = EmbeddingInput { inputs: elements.len(), ..EmbeddingInput::default() };
        for (position, element) in elements.iter().enumerate() {
            let path = path.item(position);
            match JsonType::of(*element) {
                JsonType::Text => input.bytes += filled(*element, &path)?,
                _ => input.tokens += token_ids(&json::elements(*element, &path, usize::MAX)?, &path)?,
            }
        }
        Ok(input)
    }
}

/// Bytes of a text that is not empty.
fn filled(raw: Raw<'_>, path: &Path<'_>) -> Result<usize, Invalid> {
    match json::text(raw, path)?.len() {
        0 => Err(fault::refused(path, format!("'{path}' must not be empty."))),
        bytes => Ok(bytes),
    }
}

fn token_ids(elements: &[Raw<'_>], path: &Path<'_>) -> Result<usize, Invalid> {
    let is_id = |raw: &Raw<'_>| !raw.written().is_empty() && raw.written().bytes().all(|byte| byte.is_ascii_digit());
    match elements.iter().position(|raw| !is_id(raw)) {
        Some(position) => {
            let path = path.item(position);
            Err(fault::refused(&path, format!("'{path}' must be a token id.")))
        }
        None if elements.is_empty() => Err(fault::refused(path, format!("'{path}' must not be empty."))),
        None => Ok(elements.len()),
    }
}

fn is_number(raw: Raw<'_>) -> bool {
    raw.written().starts_with(|first: char| first == '-' || first.is_ascii_digit())
}
