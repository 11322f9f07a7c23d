//! The request body for an upstream of the same dialect.
//!
//! The client's bytes with the fewest changes: the upstream's name of the model, no gateway fields, no parameters that
//! the endpoint does not list (they are reported as dropped), and the few fields that the gateway adds. Messages are
//! copied byte for byte, except for a role or an image address that the endpoint does not understand.

use pointsman_domain::{AddedMember, Catalog, Endpoint, ParameterSet, RequestedService};

use super::{
    ChatRequest,
    fields::Forwarding,
    parsed_body::{BodyMember, ParsedBody},
    parsed_fields::OutputFormat,
    splice::{Splice, string},
};
use crate::{
    json::object,
    neutral::{Effort, UnsupportedFields},
    openai::conversation_reader::requested_reasoning,
    outgoing::OutgoingBody,
};

pub(super) const MAX_TOKENS: &str = "max_tokens";
pub(super) const MAX_COMPLETION_TOKENS: &str = "max_completion_tokens";
pub(super) const REASONING_EFFORT: &str = "reasoning_effort";

/// Parameters that one endpoint accepts.
#[derive(Debug, Clone, Copy)]
pub(super) struct ParameterGates<'c> {
    pub(super) catalog: &'c Catalog,
    pub(super) endpoint: &'c Endpoint,
    /// Whether the answer is to follow a schema, which may be honoured under a name of its own.
    pub(super) has_schema: bool,
}

impl ParameterGates<'_> {
    /// Whether a gated name is open; `None` when the name is not gated.
    pub(super) fn open(&self, name: &str) -> Option<bool> {
        self.catalog.parameters.gate(name).map(|gate| self.accepted().covers(gate))
    }

    fn accepted(&self) -> ParameterSet {
        self.catalog.parameters.accepted(self.endpoint.parameters)
    }

    /// Whether a known parameter is sent.
    pub(super) fn admits(&self, name: &str) -> bool {
        self.open(name).unwrap_or(true)
    }

    /// Whether a field that is forwarded so is sent.
    pub(super) fn takes(&self, forwarding: Forwarding, name: &str) -> bool {
        match forwarding {
            Forwarding::Unknown => self.open(name).unwrap_or(self.endpoint.forwards_unknown_fields),
            Forwarding::ResponseFormat if self.has_schema && self.open("structured_outputs") == Some(true) => true,
            _ => self.admits(name),
        }
    }
}

/// Builds the body for one endpoint.
pub(super) struct UpstreamBodyBuilder<'e, 'c> {
    pub(super) gates: ParameterGates<'c>,
    pub(super) splice: Splice<'e>,
    envelope: &'e ParsedBody,
    unsupported: UnsupportedFields,
    has_model: bool,
    /// Fields that ask for a service without a price.
    unpriced: Vec<&'static str>,
}

impl<'e, 'c> UpstreamBodyBuilder<'e, 'c> {
    pub(super) fn new(
        envelope: &'e ParsedBody,
        catalog: &'c Catalog,
        endpoint: &'c Endpoint,
        service: RequestedService,
    ) -> UpstreamBodyBuilder<'e, 'c> {
        let splice = Splice::new(envelope, endpoint.knows_developer_role);
        UpstreamBodyBuilder {
            gates: ParameterGates { catalog, endpoint, has_schema: false },
            splice,
            envelope,
            unsupported: UnsupportedFields::default(),
            has_model: false,
            unpriced: service.unpriced(endpoint.pricing.as_deref()).collect(),
        }
    }

    /// Copies a member, or leaves it out where the endpoint's support matters and is missing.
    pub(super) fn member(&mut self, member: &BodyMember) {
        match member.forwarding {
            Forwarding::Consumed | Forwarding::Absent => self.splice.skip(),
            Forwarding::Always => self.splice.keep(member),
            Forwarding::Model => {
                self.has_model = true;
                self.splice.revalue(member, &self.gates.endpoint.upstream_model);
            }
            forwarding => {
                let name = self.envelope.name(member);
                let is_unpriced = self.unpriced.iter().any(|field| *field == name);
                let admitted = self.gates.takes(forwarding, &name) && !is_unpriced;
                if admitted { self.splice.keep(member) } else { self.drop(&name) }
            }
        }
    }

    /// Leaves a parameter out and says so.
    pub(super) fn drop(&mut self, name: &str) {
        self.splice.skip();
        self.unsupported.drop(name);
    }

    /// Says that the meaning of a parameter is produced by other means.
    pub(super) fn emulate(&mut self, name: &str) {
        self.unsupported.emulate(name);
    }

    /// Ends the body with what is added to every one.
    pub(super) fn finish(mut self) -> OutgoingBody {
        if !self.has_model {
            let name = &self.gates.endpoint.upstream_model;
            self.splice.add("model", |out| string(out, name));
        }
        if let Some(metadata) = &self.envelope.metadata {
            self.splice.add_written(metadata);
        }
        OutgoingBody::without(self.splice.finish(), self.unsupported)
    }
}

impl ChatRequest {
    /// The body for one endpoint.
    pub fn upstream_body(&self, catalog: &Catalog, endpoint: &Endpoint) -> OutgoingBody {
        self.limited_body(catalog, endpoint, None)
    }

    /// The body for one endpoint. `most_output` lowers the limit on output tokens.
    pub fn limited_body(&self, catalog: &Catalog, endpoint: &Endpoint, most_output: Option<u32>) -> OutgoingBody {
        let envelope = &self.envelope;
        let lower = self.lower_than_given(most_output);
        let mut outgoing = UpstreamBodyBuilder::new(envelope, catalog, endpoint, self.service);
        outgoing.gates.has_schema = self.demands.format == OutputFormat::JsonSchema;
        let is_quiet = self.takes_tools_only_without_reasoning(endpoint);
        for (position, member) in envelope.members.iter().enumerate() {
            if position == envelope.own {
                // The members of `extra_body` stand elsewhere in the text.
                outgoing.splice.skip();
            }
            match member.forwarding {
                Forwarding::MaxTokens if envelope.gives(MAX_COMPLETION_TOKENS) => outgoing.splice.skip(),
                Forwarding::MaxTokens | Forwarding::MaxCompletionTokens if lower.is_some() => outgoing.splice.skip(),
                Forwarding::MaxTokens | Forwarding::MaxCompletionTokens => limit(&mut outgoing, member),
                Forwarding::Reasoning | Forwarding::Parameter if is_quiet && is_effort(&envelope.name(member)) => {
                    outgoing.splice.skip();
                }
                Forwarding::Reasoning if takes_effort_only(catalog, endpoint) => reasoning(&mut outgoing),
                _ => outgoing.member(member),
            }
        }
        if let Some(lower) = lower.filter(|_| outgoing.gates.admits(MAX_TOKENS)) {
            let name = if endpoint.wants_max_completion_tokens { MAX_COMPLETION_TOKENS } else { MAX_TOKENS };
            outgoing.splice.add(name, |out| out.extend_from_slice(lower.to_string().as_bytes()));
        }
        if is_quiet {
            outgoing.splice.add(REASONING_EFFORT, |out| string(out, Effort::None.as_str()));
            outgoing.emulate(if envelope.gives("reasoning") { "reasoning" } else { REASONING_EFFORT });
        }
        if self.stream && !endpoint.omits.has(AddedMember::StreamOptions) {
            outgoing.splice.add("stream_options", |out| out.extend_from_slice(b"{\"include_usage\":true}"));
        }
        for (name, value) in default_parameters(catalog, endpoint) {
            if !envelope.gives(name) {
                // Displayed floats are plain decimals.
                outgoing.splice.add(name, |out| out.extend_from_slice(value.to_string().as_bytes()));
            }
        }
        outgoing.finish()
    }
}

/// Whether the name is one of those that say how much to reason.
pub(super) fn is_effort(name: &str) -> bool {
    matches!(name, "reasoning" | REASONING_EFFORT | "include_reasoning")
}

/// The limit on output tokens, under the name the endpoint wants.
fn limit(outgoing: &mut UpstreamBodyBuilder<'_, '_>, member: &BodyMember) {
    let new = member.forwarding == Forwarding::MaxCompletionTokens;
    let given = if new { MAX_COMPLETION_TOKENS } else { MAX_TOKENS };
    if !outgoing.gates.admits(given) {
        return outgoing.drop(given);
    }
    match (new, outgoing.gates.endpoint.wants_max_completion_tokens) {
        (false, true) => outgoing.splice.rename(member, MAX_COMPLETION_TOKENS),
        (true, false) => outgoing.splice.rename(member, MAX_TOKENS),
        _ => outgoing.splice.keep(member),
    }
}

/// The object `reasoning` as the effort that comes closest, for an endpoint that knows no other form.
fn reasoning(outgoing: &mut UpstreamBodyBuilder<'_, '_>) {
    if !outgoing.gates.admits("reasoning") {
        return outgoing.drop("reasoning");
    }
    outgoing.splice.skip();
    // A given effort is the same one.
    if outgoing.envelope.gives(REASONING_EFFORT) {
        return;
    }
    let asked = outgoing.envelope.value("reasoning").and_then(|value| std::str::from_utf8(value).ok());
    let asked = asked.and_then(|text| object(text).ok()).map(requested_reasoning).unwrap_or_default();
    if asked.max_tokens.is_some() {
        outgoing.emulate("reasoning");
    }
    if let Some(effort) = asked.closest_effort() {
        outgoing.splice.add(REASONING_EFFORT, |out| string(out, effort.as_str()));
    }
}

/// Whether a chat server gets `reasoning_effort` in the place of `reasoning`.
pub(crate) fn takes_effort_only(catalog: &Catalog, endpoint: &Endpoint) -> bool {
    let lists = |name| catalog.parameters.lists(endpoint.parameters, name);
    endpoint.wants_reasoning_effort || lists(REASONING_EFFORT) && !lists("reasoning")
}

/// The model's own values for parameters that the endpoint takes.
pub(crate) fn default_parameters(catalog: &Catalog, endpoint: &Endpoint) -> Vec<(&'static str, f64)> {
    let Some(defaults) = catalog.model_of(endpoint).and_then(|model| model.default_parameters) else {
        return Vec::new();
    };
    let gates = ParameterGates { catalog, endpoint, has_schema: false };
    let values = [
        ("temperature", defaults.temperature),
        ("top_p", defaults.top_p),
        ("top_k", defaults.top_k),
        ("frequency_penalty", defaults.frequency_penalty),
        ("presence_penalty", defaults.presence_penalty),
        ("repetition_penalty", defaults.repetition_penalty),
    ];
    let taken = |(name, value): (&'static str, Option<f64>)| {
        let value = value.filter(|value| value.is_finite() && gates.admits(name))?;
        Some((name, value))
    };
    values.into_iter().filter_map(taken).collect()
}
