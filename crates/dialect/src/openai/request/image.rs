//! Image requests: parsed and forwarded like chat requests, with other fields.
//!
//! An endpoint that makes images through chat gets a chat request with the prompt as its only message. Its answer is
//! converted to an image answer in `openai::image_answer`.

use std::borrow::Cow;

use bytes::Bytes;
use pointsman_domain::{
    Catalog, Endpoint, Invalid, InvalidReason, Modalities, Modality, Model, Needs, ParameterNames, ParameterSet,
    RequestedService, RoutingParameters, listed_names,
};

use super::{
    RequestKind, RequestLimits, fault,
    field_location::FieldLocation,
    fields::Forwarding,
    image_fields::ImageFormat,
    outgoing::UpstreamBodyBuilder,
    parsed_body::{BodyMember, BodyReader, ParsedBody},
    prompt_size::PromptSize,
    requirements::wrong_endpoint,
    restrictions::{self, Restriction},
    saturated,
    splice::string,
    stored_metadata,
};
use crate::{
    json::Raw,
    neutral::{base64::with_plain_base64, shown, syntax, with_whole_characters},
    outgoing::OutgoingBody,
};

/// Most images of one request.
const MAX_IMAGES: u32 = 10;

/// An image request that passed all checks that need no catalog.
#[derive(Debug, Clone)]
pub struct ImageRequest {
    /// The model or alias asked for, as text.
    pub model: Option<String>,
    /// Further models to fall back to, as text, in order.
    pub models: Vec<String>,
    /// How many images are wanted.
    pub n: u32,
    /// The size asked for, as text.
    pub size: Option<String>,
    /// How the images are to come back.
    pub format: ImageFormat,
    /// Estimated prompt tokens.
    pub prompt_tokens: u32,
    /// Images to start from.
    pub references: u32,
    /// Everything that was said about routing.
    pub routing: RoutingParameters,
    /// Paths of members of `provider` objects that have no effect, the first few of them.
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
    pub(super) envelope: ParsedBody,
}

impl ImageRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// The 400 for a body that is no JSON object, else for its first offending field.
    pub fn parse(mut body: Bytes, limits: &RequestLimits) -> Result<ImageRequest, Invalid> {
        let image = with_whole_characters(&mut body, |body| ImageRequest::read(body, limits))?;
        if image.references > 0
            && let Some(plain) = with_plain_base64(syntax::text(&body)?)
        {
            return ImageRequest::read(&plain, limits);
        }
        Ok(image)
    }

    fn read(body: &Bytes, limits: &RequestLimits) -> Result<ImageRequest, Invalid> {
        let text = syntax::text(body)?;
        let limits = RequestLimits { max_n: MAX_IMAGES, ..limits.clone() };
        let mut reader = BodyReader::new(text, RequestKind::Image, &limits);
        reader.read()?;
        let found = &reader.found;
        if found.model.is_none() && found.models.is_empty() {
            return Err(fault::required(&FieldLocation::TopLevel.path("model")));
        }
        if found.image.prompt.is_none() {
            return Err(fault::required(&FieldLocation::TopLevel.path("prompt")));
        }
        if found.stream {
            let message = "Images are not streamed by this gateway.";
            return Err(Invalid::field(InvalidReason::UnsupportedParameter, "stream", message));
        }
        let metadata = stored_metadata(found);
        let envelope = reader.envelope(body.clone(), metadata);
        Ok(ImageRequest::assemble(reader, envelope, &limits))
    }

    fn assemble(reader: BodyReader<'_>, envelope: ParsedBody, limits: &RequestLimits) -> ImageRequest {
        let mut found = reader.found;
        let references = found.image.references.len();
        let tally = PromptSize { bytes: found.image.prompt_bytes, messages: 1, images: references };
        let size = found.image.size.and_then(Raw::text);
        ImageRequest {
            model: found.model,
            models: found.models,
            n: found.n.map_or(1, saturated),
            size: size.map(Cow::into_owned),
            format: found.image.format,
            prompt_tokens: tally.tokens(limits.tokens_per_image),
            references: u32::try_from(references).unwrap_or(u32::MAX),
            unknown_members: found.routing.take_unknown_members(),
            routing: found.routing.finish(),
            user: found.user,
            session_id: found.session_id,
            tags: found.tags,
            trace: found.trace.map(|raw| raw.written().to_owned()),
            service: envelope.service(),
            envelope,
        }
    }

    /// What restricts it, and where that stands in its body. Reads the body again.
    pub fn restrictions(&self) -> Vec<Restriction> {
        restrictions::read(&self.envelope.body)
    }

    /// What the request cannot do without: a model that makes images, and under
    /// `provider.require_parameters` every gated parameter that was given.
    pub fn needs(&self, names: &ParameterNames) -> Needs {
        let gate = |member: &BodyMember| match member.forwarding {
            Forwarding::Parameter | Forwarding::Unknown => names.gate(&self.envelope.name(member)),
            _ => None,
        };
        let given = self.envelope.members.iter().filter(|_| self.routing.provider.require_parameters);
        Needs {
            native: None,
            output: Modalities::NONE.with(Modality::Image),
            parameters: given.filter_map(gate).fold(ParameterSet::default(), ParameterSet::union),
            service: self.service,
            ..Needs::default()
        }
    }

    /// The mistake of requesting this model: it makes no images, or not of this size.
    pub fn unmet(&self, model: &Model) -> Option<Invalid> {
        if !model.architecture.output.contains(Modality::Image) {
            return Some(wrong_endpoint(model));
        }
        let size = self.size.as_deref().filter(|size| *size != "auto")?;
        if model.image_sizes.is_empty() || model.image_sizes.iter().any(|known| known == size) {
            return None;
        }
        let listed = listed_names(size, model.image_sizes.iter().map(String::as_str));
        let message = format!("Size '{}' is none that model '{}' makes. Allowed: {listed}.", shown(size), model.id);
        Some(Invalid::field(InvalidReason::InvalidValue, "size", message).allowing(&model.image_sizes))
    }

    /// Whether the body gives that field a value.
    pub(crate) fn gives(&self, field: &str) -> bool {
        self.envelope.gives(field)
    }

    /// The body for one endpoint that has the API for images.
    pub fn upstream_body(&self, catalog: &Catalog, endpoint: &Endpoint) -> OutgoingBody {
        let mut outgoing = UpstreamBodyBuilder::new(&self.envelope, catalog, endpoint, self.service);
        for (position, member) in self.envelope.members.iter().enumerate() {
            if position == self.envelope.own {
                outgoing.splice.skip();
            }
            outgoing.member(member);
        }
        // Upstreams have different default formats. Answers of those without the parameter are converted.
        if outgoing.gates.admits("response_format") {
            outgoing.splice.add("response_format", |out| string(out, self.format.as_str()));
        }
        outgoing.finish()
    }
}
