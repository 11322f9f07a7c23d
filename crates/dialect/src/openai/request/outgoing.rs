//! The request body for an upstream of the same dialect.
//!
//! The client's bytes with the fewest changes: the upstream's name of the model, no gateway fields, no parameters that
//! the endpoint does not list (they are reported as dropped), and the few fields that the gateway adds. Messages are
//! copied byte for byte, except for a role or an image address that the endpoint does not understand.

use std::{io::Write, sync::Arc};

use pointsman_domain::{AddedMember, Catalog, Endpoint, ParameterSet, RequestedService};

use super::{
    ChatRequest,
    fields::{Field, Forwarding},
    parsed_body::{BodyMember, ParsedBody},
    parsed_fields::OutputFormat,
    request_kind::RequestKind,
    splice::{Splice, string},
};
use crate::{json::object, neutral::Effort, openai::conversation_reader::requested_reasoning, outgoing::OutgoingBody};

pub(super) const MAX_TOKENS: &str = "max_tokens";
pub(super) const MAX_COMPLETION_TOKENS: &str = "max_completion_tokens";
pub(super) const REASONING_EFFORT: &str = "reasoning_effort";
/// Most dropped names that are reported: they travel in a header, and the client chooses them.
const MAX_LISTED: usize = 64;

/// Parameters that one endpoint accepts.
#[derive(Debug, Clone, Copy)]
pub(super) struct ParameterGates<'c> {
    pub(super) catalog: &'c Catalog,
    pub(super) endpoint: &'c Endpoint,
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

    /// Whether a field of chat is sent. A JSON schema may also be honoured under a name of its own.
    pub(super) fn takes(&self, name: &str, has_schema: bool) -> bool {
        match Field::named(RequestKind::Chat, name).forwarding() {
            Forwarding::Unknown => self.admits_unknown(name),
            Forwarding::ResponseFormat if has_schema && self.open("structured_outputs") == Some(true) => true,
            _ => self.admits(name),
        }
    }

    /// Whether an unknown parameter is sent.
    fn admits_unknown(&self, name: &str) -> bool {
        self.open(name).unwrap_or(self.endpoint.forwards_unknown_fields)
    }
}

/// Builds the body for one endpoint.
pub(super) struct UpstreamBodyBuilder<'e, 'c> {
    pub(super) gates: ParameterGates<'c>,
    pub(super) splice: Splice<'e>,
    envelope: &'e ParsedBody,
    dropped: Vec<Arc<str>>,
    emulated: Vec<Arc<str>>,
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
            gates: ParameterGates { catalog, endpoint },
            splice,
            envelope,
            dropped: Vec::new(),
            emulated: Vec::new(),
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
                let unknown = forwarding == Forwarding::Unknown;
                let admitted = if unknown { self.gates.admits_unknown(&name) } else { self.gates.admits(&name) };
                let admitted = admitted && !self.unpriced.iter().any(|field| *field == name);
                if admitted { self.splice.keep(member) } else { self.drop(&name) }
            }
        }
    }

    /// Leaves a parameter out and says so.
    pub(super) fn drop(&mut self, name: &str) {
        self.splice.skip();
        if self.dropped.len() < MAX_LISTED {
            self.dropped.push(listed(name));
        }
    }

    /// Says that the meaning of a parameter is produced by other means.
    pub(super) fn emulate(&mut self, name: &str) {
        self.emulated.push(listed(name));
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
        OutgoingBody { dropped: self.dropped, emulated: self.emulated, ..OutgoingBody::new(self.splice.finish()) }
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
                Forwarding::ResponseFormat if self.schema_admitted(&outgoing.gates) => outgoing.splice.keep(member),
                _ => outgoing.member(member),
            }
        }
        if let Some(lower) = lower.filter(|_| outgoing.gates.admits(MAX_TOKENS)) {
            let name = if endpoint.wants_max_completion_tokens { MAX_COMPLETION_TOKENS } else { MAX_TOKENS };
            // Writing to memory cannot fail.
            outgoing.splice.add(name, |out| drop(write!(out, "{lower}")));
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
                // Displayed floats are plain decimals, and writing to memory cannot fail.
                outgoing.splice.add(name, |out| drop(write!(out, "{value}")));
            }
        }
        outgoing.finish()
    }

    /// A JSON schema may also be honoured under a name of its own.
    fn schema_admitted(&self, gates: &ParameterGates<'_>) -> bool {
        self.demands.format == OutputFormat::JsonSchema && gates.open("structured_outputs") == Some(true)
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
        outgoing.emulated.push("reasoning".into());
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
    let gates = ParameterGates { catalog, endpoint };
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

/// A name as a header and a record may show it.
fn listed(name: &str) -> Arc<str> {
    let fit = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') { c } else { '?' };
    name.chars().take(64).map(fit).collect::<String>().into()
}
