//! Embedding requests: parsed and forwarded like chat requests, with other fields.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    RequestKind, RequestLimits, fault,
    field_location::FieldLocation,
    fields::Fate,
    json,
    json_type::JsonType,
    outgoing::UpstreamBodyBuilder,
    parsed_body::{BodyReader, ParsedBody},
    path::Path,
    prompt_size::PromptSize,
    requirements::wrong_endpoint,
    restrictions::{self, Restriction},
    stored_metadata, syntax,
};
use crate::{
    dialect::outgoing::OutgoingBody,
    domain::{Catalog, Endpoint, Invalid, InvalidReason, Modalities, Modality, Model, Needs, RoutingParameters},
};

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
    inputs: usize,
    /// Bytes of text.
    bytes: usize,
    /// Token ids.
    tokens: usize,
}

impl EmbeddingInput {
    /// Reads `input`: a string, strings, token ids, or lists of token ids.
    pub(super) fn read(raw: &RawValue, path: &Path<'_>) -> Result<EmbeddingInput, Invalid> {
        if JsonType::of(raw) == JsonType::Text {
            return Ok(EmbeddingInput { inputs: 1, bytes: filled(raw, path)?, tokens: 0 });
        }
        // Token ids of one input: there may be more of them than inputs.
        let elements = json::elements(raw, path, usize::MAX)?;
        let Some(first) = elements.first() else {
            return Err(fault::refused(path, format!("'{path}' must not be empty.")));
        };
        if is_number(first) {
            return Ok(EmbeddingInput { inputs: 1, bytes: 0, tokens: token_ids(&elements, path)? });
        }
        if elements.len() > MAX_INPUTS {
            return Err(fault::refused(path, format!("'{path}' may have at most {MAX_INPUTS} entries.")));
        }
        let mut input = EmbeddingInput { inputs: elements.len(), ..EmbeddingInput::default() };
        for (position, element) in elements.iter().enumerate() {
            let path = path.item(position);
            match JsonType::of(element) {
                JsonType::Text => input.bytes += filled(element, &path)?,
                _ => input.tokens += token_ids(&json::elements(element, &path, usize::MAX)?, &path)?,
            }
        }
        Ok(input)
    }
}

/// Bytes of a text that is not empty.
fn filled(raw: &RawValue, path: &Path<'_>) -> Result<usize, Invalid> {
    match json::text(raw, path)?.len() {
        0 => Err(fault::refused(path, format!("'{path}' must not be empty."))),
        bytes => Ok(bytes),
    }
}

fn token_ids(elements: &[&RawValue], path: &Path<'_>) -> Result<usize, Invalid> {
    let is_id = |raw: &&RawValue| !raw.get().is_empty() && raw.get().bytes().all(|byte| byte.is_ascii_digit());
    match elements.iter().position(|raw| !is_id(raw)) {
        Some(position) => {
            let path = path.item(position);
            Err(fault::refused(&path, format!("'{path}' must be a token id.")))
        }
        None if elements.is_empty() => Err(fault::refused(path, format!("'{path}' must not be empty."))),
        None => Ok(elements.len()),
    }
}

fn is_number(raw: &RawValue) -> bool {
    raw.get().starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

/// An embedding request that passed all checks that need no catalog.
#[derive(Debug, Clone)]
pub struct EmbeddingRequest {
    /// The requested model, as text.
    pub model: String,
    /// Number of inputs, and so of vectors.
    pub inputs: usize,
    /// How the vectors are to come back.
    pub format: VectorFormat,
    /// Estimated prompt tokens.
    pub prompt_tokens: u32,
    /// All routing parameters.
    pub routing: RoutingParameters,
    /// Paths of unknown members that have no effect, only the first few.
    pub unknown_members: Vec<String>,
    /// The client's name for its own user.
    pub user: Option<String>,
    /// The conversation this belongs to.
    pub session_id: Option<String>,
    /// The client's own tags from `metadata`.
    pub tags: Vec<(String, String)>,
    /// `trace`, as JSON.
    pub trace: Option<String>,
    envelope: ParsedBody,
}

impl EmbeddingRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// The 400 for a body that is no JSON object, else for its first offending field.
    pub fn parse(body: Bytes, limits: &RequestLimits) -> Result<EmbeddingRequest, Invalid> {
        let text = syntax::text(&body, limits.max_depth)?;
        let mut reader = BodyReader::read(text, RequestKind::Embedding, limits)?;
        let field = |name| FieldLocation::TopLevel.path(name);
        if !reader.found.models.is_empty() {
            let message = "Vectors of different models cannot be compared: name one 'model'.";
            return Err(Invalid::field(InvalidReason::UnsupportedParameter, "models", message));
        }
        let model = reader.found.model.take().ok_or_else(|| fault::required(&field("model")))?;
        let input = reader.found.embedding_input.ok_or_else(|| fault::required(&field("input")))?;
        let metadata = stored_metadata(&reader.found);
        let envelope = reader.envelope(body.clone(), metadata);
        let mut found = reader.found;
        let size = PromptSize { bytes: input.bytes, messages: 0, images: 0 };
        Ok(EmbeddingRequest {
            model,
            inputs: input.inputs,
            format: found.vector_format,
            prompt_tokens: size.tokens(0).saturating_add(u32::try_from(input.tokens).unwrap_or(u32::MAX)),
            unknown_members: found.routing.take_unknown_members(),
            routing: found.routing.finish(),
            user: found.user,
            session_id: found.session_id,
            tags: found.tags,
            trace: found.trace.map(|raw| raw.get().to_owned()),
            envelope,
        })
    }

    /// What restricts it, and where that stands in its body. Reads the body again.
    #[must_use]
    pub fn restrictions(&self) -> Vec<Restriction> {
        restrictions::of(&self.envelope.body)
    }

    /// What the request cannot do without: a model that makes embeddings.
    #[must_use]
    pub fn needs(&self) -> Needs {
        Needs { output: Modalities::NONE.with(Modality::Embeddings), ..Needs::default() }
    }

    /// The mistake of requesting this model: it makes no embeddings.
    #[must_use]
    pub fn unmet(&self, model: &Model) -> Option<Invalid> {
        (!model.architecture.output.contains(Modality::Embeddings)).then(|| wrong_endpoint(model))
    }

    /// The body for one endpoint.
    #[must_use]
    pub fn upstream_body(&self, catalog: &Catalog, endpoint: &Endpoint) -> OutgoingBody {
        let mut outgoing = UpstreamBodyBuilder::new(&self.envelope, catalog, endpoint);
        for (position, member) in self.envelope.members.iter().enumerate() {
            if position == self.envelope.own {
                outgoing.splice.skip();
            }
            match member.fate {
                // The answer is converted to what the client asked for.
                Fate::Parameter if self.envelope.name(member) == "encoding_format" => {
                    let admitted = outgoing.gates.admits("encoding_format");
                    if admitted { outgoing.splice.keep(member) } else { outgoing.splice.skip() }
                }
                _ => outgoing.member(member),
            }
        }
        outgoing.finish()
    }
}
