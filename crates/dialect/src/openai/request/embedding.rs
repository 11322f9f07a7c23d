//! Embedding requests: parsed and forwarded like chat requests, with other fields.

use pointsman_domain::{
    Capability, CapabilitySet, Catalog, Endpoint, Invalid, InvalidReason, Modalities, Modality, Model, Needs,
    RequestedService, RoutingParameters,
};

use super::{
    RequestKind, RequestLimits,
    embedding_fields::VectorFormat,
    fault,
    field_location::FieldLocation,
    fields::Forwarding,
    outgoing::UpstreamBodyBuilder,
    parsed_body::{BodyReader, ParsedBody},
    prompt_size::PromptSize,
    requirements::{unmet_capability, wrong_endpoint},
    restrictions::{self, Restriction},
    stored_metadata,
};
use crate::{
    neutral::{syntax, with_whole_characters},
    outgoing::OutgoingBody,
};
use bytes::Bytes;

/// An embedding request that passed all checks that need no catalog.
#[derive(Debug, Clone)]
pub struct EmbeddingRequest {
    /// The requested model, as text.
    pub model: String,
    /// Number of inputs, and so of vectors.
    pub inputs: usize,
    /// Whether the inputs are token ids, not texts.
    pub token_ids: bool,
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
    /// What it asks for in the fields that change its price.
    pub service: RequestedService,
    envelope: ParsedBody,
}

impl EmbeddingRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// The 400 for a body that is no JSON object, else for its first offending field.
    pub fn parse(mut body: Bytes, limits: &RequestLimits) -> Result<EmbeddingRequest, Invalid> {
        with_whole_characters(&mut body, |body| EmbeddingRequest::read(body, limits))
    }

    fn read(body: &Bytes, limits: &RequestLimits) -> Result<EmbeddingRequest, Invalid> {
        let text = syntax::text(body)?;
        let mut reader = BodyReader::new(text, RequestKind::Embedding, limits);
        reader.read()?;
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
            token_ids: input.tokens > 0,
            format: found.vector_format,
            prompt_tokens: size.tokens(0).saturating_add(u32::try_from(input.tokens).unwrap_or(u32::MAX)),
            unknown_members: found.routing.take_unknown_members(),
            routing: found.routing.finish(),
            user: found.user,
            session_id: found.session_id,
            tags: found.tags,
            trace: found.trace.map(|raw| raw.written().to_owned()),
            service: envelope.service(),
            envelope,
        })
    }

    /// What restricts it, and where that stands in its body. Reads the body again.
    pub fn restrictions(&self) -> Vec<Restriction> {
        restrictions::read(&self.envelope.body)
    }

    /// Names of the members that are not for the gateway alone, sorted.
    pub fn given_names(&self) -> Vec<String> {
        self.envelope.given_names()
    }

    /// What the request cannot do without: a model that makes embeddings, of what was given.
    pub fn needs(&self) -> Needs {
        let output = Modalities::NONE.with(Modality::Embeddings);
        Needs { output, capabilities: self.capabilities(), service: self.service, ..Needs::default() }
    }

    /// The mistake of requesting this model: it makes no embeddings, or none of what was given.
    pub fn unmet(&self, catalog: &Catalog, model: &Model) -> Option<Invalid> {
        if !model.architecture.output.contains(Modality::Embeddings) {
            return Some(wrong_endpoint(model));
        }
        unmet_capability(self.capabilities(), catalog, model)
    }

    fn capabilities(&self) -> CapabilitySet {
        if self.token_ids { CapabilitySet::NONE.with(Capability::TokenIds) } else { CapabilitySet::NONE }
    }

    /// The body for one endpoint.
    pub fn upstream_body(&self, catalog: &Catalog, endpoint: &Endpoint) -> OutgoingBody {
        let mut outgoing = UpstreamBodyBuilder::new(&self.envelope, catalog, endpoint, self.service);
        for (position, member) in self.envelope.members.iter().enumerate() {
            if position == self.envelope.own {
                outgoing.splice.skip();
            }
            match member.forwarding {
                // The answer is converted to what the client asked for.
                Forwarding::Parameter if self.envelope.name(member) == "encoding_format" => {
                    let admitted = outgoing.gates.admits("encoding_format");
                    if admitted { outgoing.splice.keep(member) } else { outgoing.splice.skip() }
                }
                _ => outgoing.member(member),
            }
        }
        outgoing.finish()
    }
}
