//! What a request needs of a model, and the 400 for a model that does not support it.

use pointsman_domain::{
    Capability, CapabilitySet, Catalog, Dialect, Endpoint, Invalid, InvalidReason, Modalities, Modality, Model,
    NativeFeature, Needs, ParameterNames, ParameterSet,
};

use super::{
    ChatRequest,
    conversation_summary::MESSAGES,
    fields::{Field, Forwarding},
    parsed_fields::{OutputFormat, StrictSchema},
    request_kind::RequestKind,
};
use crate::{
    claude::schema::{MAX_OPTIONAL, Unlowered, lower},
    json::object,
    neutral::{Conversation, Path, UnsupportedFields, shown},
    responses::provider_state::PREVIOUS_RESPONSE_ID,
};

/// Requested features that not every model supports.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestedFeatures {
    /// Kinds of input, each with the message and part that first held it.
    pub(super) inputs: Vec<(Modality, usize, usize)>,
    /// Kinds of output, if any were named.
    pub(super) output: Option<Modalities>,
    /// Whether tools were declared.
    pub(super) tools: bool,
    /// Whether any of them is a function.
    pub(super) functions: bool,
    /// Whether the model must call one.
    pub(super) forced_tool: bool,
    /// Whether reasoning is asked for, or is not to be; `None` if nothing is said.
    pub(super) reasoning: Option<bool>,
    /// Whether the last message is the beginning of the answer.
    pub(super) prefill: bool,
    /// Whether media are given by their address, or as a file uploaded before.
    pub(super) remote_media: bool,
    /// Whether an image is of another type than PNG, JPEG, GIF and WebP.
    pub(super) other_images: bool,
    /// What its media need besides.
    pub(super) media: CapabilitySet,
    /// Whether nothing may be called, though calls stand in the conversation.
    pub(super) no_call_after_calls: bool,
    /// Whether a tool takes free text.
    pub(super) custom_tools: bool,
    /// What the answer is to look like.
    pub(super) format: OutputFormat,
    /// Whether the schema of the answer is to be followed strictly.
    pub(super) strict_schema: bool,
    /// What not every endpoint takes of that schema.
    pub(super) schema_limits: Option<SchemaLimits>,
    /// Whether several calls in one turn are forbidden.
    pub(super) single_calls: bool,
    /// The mistake of sending it to an endpoint that does not speak chat: it has something that the gateway does not understand.
    pub(super) not_understood: Option<Box<Invalid>>,
}

/// What an endpoint may not take of a schema that is to be followed strictly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SchemaLimits {
    /// It refers to itself, or leaves an object open.
    Open,
    /// It has so many optional properties.
    Optional { name: String, count: usize },
}

impl SchemaLimits {
    pub(super) fn find(strict: &StrictSchema<'_>) -> Option<SchemaLimits> {
        match lower(strict.schema) {
            Ok(_) => None,
            Err(Unlowered::Open) => Some(SchemaLimits::Open),
            Err(Unlowered::TooManyOptional(count)) => Some(SchemaLimits::Optional { name: shown(&strict.name), count }),
        }
    }
}

impl RequestedFeatures {
    /// What an endpoint must not refuse.
    fn capabilities(&self) -> CapabilitySet {
        let needed = [
            (Capability::ForcedTool, self.forced_tool),
            (Capability::ToolsWithEffort, self.functions && self.reasoning == Some(true)),
            (Capability::ToolsByDefault, self.functions && self.reasoning.is_none()),
            (Capability::Prefill, self.prefill),
            (Capability::RemoteMedia, self.remote_media),
            (Capability::OtherImages, self.other_images),
            (Capability::NoCallAfterCalls, self.no_call_after_calls),
            (Capability::CustomTools, self.custom_tools),
            (Capability::StrictSchema, self.strict_schema),
            (Capability::StrictSchemaWithTools, self.strict_schema && self.tools),
            (Capability::OpenSchema, matches!(self.schema_limits, Some(SchemaLimits::Open))),
            (Capability::OptionalProperties, matches!(self.schema_limits, Some(SchemaLimits::Optional { .. }))),
            (Capability::SingleCalls, self.single_calls),
        ];
        let needed = needed.into_iter().filter(|(_, needed)| *needed);
        needed.fold(self.media, |all, (one, _)| all.with(one))
    }
}

impl ChatRequest {
    /// What an endpoint must support. The output of a chat without `modalities` is text.
    pub fn needs(&self, names: &ParameterNames) -> Needs {
        let demands = &self.demands;
        let gate = |name: &str, wanted: bool| names.gate(name).filter(|_| wanted).unwrap_or_default();
        let mut parameters = gate("tools", demands.tools)
            .union(gate("tool_choice", demands.forced_tool))
            .union(gate("response_format", matches!(demands.format, OutputFormat::JsonObject | OutputFormat::Unknown)));
        if self.routing.provider.require_parameters {
            let given = self.given_fields();
            let gates = given.iter().filter_map(|(field, name, _)| self.gate_of(*field, name, names));
            parameters = gates.fold(parameters, ParameterSet::union);
        }
        let schema = demands.format == OutputFormat::JsonSchema;
        Needs {
            native: self.native_feature().map(|(dialect, field)| NativeFeature { dialect, field: field.into() }),
            input: demands.inputs.iter().map(|(modality, ..)| *modality).collect(),
            output: demands.output.unwrap_or(Modalities::TEXT),
            parameters,
            lost: Vec::new(),
            service: self.service,
            capabilities: self.capabilities(),
            any_parameter: gate("structured_outputs", schema).union(gate("response_format", schema)),
        }
    }

    /// Whether the endpoint serves the functions of the request only if it is told not to reason.
    pub(crate) fn takes_tools_only_without_reasoning(&self, endpoint: &Endpoint) -> bool {
        let cured = endpoint.effort_none_cures;
        !cured.is_empty() && !self.demands.capabilities().common(cured).is_empty()
    }

    /// The parameters that are sent to endpoints as they are, without the conversation.
    pub(crate) fn parameters(&self) -> Option<Conversation<'_>> {
        let is_plain = |name: &str| {
            matches!(Field::named(RequestKind::Chat, name).forwarding(), Forwarding::Parameter | Forwarding::Unknown)
        };
        let mut parameters = self.conversation(&mut |name| is_plain(name))?;
        parameters.turns.clear();
        parameters.unsupported = UnsupportedFields::default();
        Some(parameters)
    }

    /// The first parameter that the gateway does not know and that no endpoint of the catalog lists.
    pub(crate) fn unknown_parameter(&self, names: &ParameterNames) -> Option<String> {
        let unknown = self.envelope.members.iter().filter(|member| member.forwarding == Forwarding::Unknown);
        let mut unknown = unknown.map(|member| self.envelope.name(member));
        unknown.find(|name| names.gate(name).is_none()).map(|name| name.into_owned())
    }

    /// The fields that were given, each with its name and its path.
    fn given_fields(&self) -> Vec<(Forwarding, String, String)> {
        let mut given = Vec::new();
        for (position, member) in self.envelope.members.iter().enumerate() {
            let name = self.envelope.name(member);
            let path = self.envelope.place(position).path(&name).to_string();
            given.push((member.forwarding, name.into_owned(), path));
        }
        if let Some(source) = &self.message_source
            && let Some(mut conversation) = source.conversation()
        {
            conversation.retain(&mut |name| {
                given.push((Field::named(RequestKind::Chat, name).forwarding(), name.to_owned(), name.to_owned()));
                true
            });
        }
        given
    }

    /// The gate that a given parameter stands under. A JSON schema has two, so it is left to
    /// [`Needs::any_parameter`].
    fn gate_of(&self, field: Forwarding, name: &str, names: &ParameterNames) -> Option<ParameterSet> {
        match field {
            Forwarding::ResponseFormat if self.demands.format == OutputFormat::JsonSchema => None,
            Forwarding::Always | Forwarding::Model | Forwarding::Consumed | Forwarding::Absent => None,
            _ => names.gate(name),
        }
    }

    /// The mistake of asking exactly this model for something that none of its endpoints can do; `None`
    /// when it can do everything that was asked.
    pub fn unmet(&self, catalog: &Catalog, model: &Model) -> Option<Invalid> {
        let needs = self.needs(&catalog.parameters);
        let unmet = self
            .unmet_output(needs.output, model)
            .or_else(|| self.unmet_input(model))
            .or_else(|| self.unmet_parameter(&needs, catalog, model))
            .or_else(|| self.unmet_dialect(catalog, model))
            .or_else(|| self.unmet_schema(needs.capabilities, catalog, model))
            .or_else(|| unmet_capability(needs.capabilities, catalog, model))?;
        let param = unmet.param.as_deref().map(|param| self.client_param(param));
        Some(Invalid { param, ..unmet })
    }

    /// The client's name for a place in a chat body.
    fn client_param(&self, param: &str) -> String {
        self.client.as_deref().map_or_else(|| param.to_owned(), |client| client.shape.param(param))
    }

    /// A feature that only endpoints of the client's dialect have: the dialect and the field.
    fn native_feature(&self) -> Option<(Dialect, &str)> {
        if let Some(mistake) = self.not_understood() {
            return Some((Dialect::OpenAi, mistake.param.as_deref()?));
        }
        let client = self.client.as_deref().filter(|client| client.dialect() != Dialect::OpenAi)?;
        Some((client.dialect(), client.native_feature.as_deref()?))
    }

    fn capabilities(&self) -> CapabilitySet {
        let mut demanded = self.demands.capabilities();
        if !self.routing.provider.require_parameters {
            demanded = demanded.without(Capability::SingleCalls);
        }
        match self.client.as_deref() {
            // At an endpoint with the same API, that API judges the schema and the media.
            Some(client) if client.dialect() == Dialect::Anthropic => {
                let judged = [Capability::OpenSchema, Capability::OptionalProperties, Capability::HttpMedia];
                judged.into_iter().fold(demanded, CapabilitySet::without)
            }
            Some(client) if client.dialect() == Dialect::Responses && self.native_feature().is_none() => {
                demanded.without(Capability::SoundOrVideo)
            }
            _ if self.native_feature().is_some_and(|(_, field)| field == PREVIOUS_RESPONSE_ID) => {
                demanded.with(Capability::KeptResponses)
            }
            // A chat server judges what a client of chat sends.
            None => demanded.without(Capability::FileUrl),
            Some(client) if client.dialect() == Dialect::OpenAi => demanded.with(Capability::LegacyCompletions),
            _ => demanded,
        }
    }

    /// What says more than the name of the capability: the schema, and the limit.
    fn unmet_schema(&self, needed: CapabilitySet, catalog: &Catalog, model: &Model) -> Option<Invalid> {
        let SchemaLimits::Optional { name, count } = self.demands.schema_limits.as_ref()? else { return None };
        let missing = Capability::OptionalProperties;
        let is_lacking = catalog.endpoints_of(model).all(|(_, endpoint)| endpoint.lacks.has(missing));
        let thing = format!(
            "the JSON schema '{name}' with 'strict': true: {count} of its properties are optional, and at most {MAX_OPTIONAL} \
             may be. List them in 'required', or leave 'strict' out"
        );
        (needed.has(missing) && is_lacking).then(|| unsupported(missing.field(), model, &thing))
    }

    /// The mistake of sending a chat to endpoints that do not speak chat: it has something that the gateway does not understand.
    pub fn not_understood(&self) -> Option<&Invalid> {
        self.demands.not_understood.as_deref()
    }

    fn unmet_dialect(&self, catalog: &Catalog, model: &Model) -> Option<Invalid> {
        let (dialect, field) = self.native_feature()?;
        let speaks = |(_, endpoint): (u32, &Endpoint)| endpoint.dialect == dialect;
        let thing = || match self.kind_at(field) {
            Some(kind) if field.contains("tools[") => format!("the tool '{kind}' in '{field}'"),
            Some(kind) => format!("'{kind}' in '{field}'"),
            None => format!("'{field}'"),
        };
        let mistake = || self.not_understood().cloned().unwrap_or_else(|| unsupported(field, model, &thing()));
        (!catalog.endpoints_of(model).any(speaks)).then(mistake)
    }

    /// The text that stands at such a path as `tools[0].type` in the client's body, for the message of an error.
    fn kind_at(&self, path: &str) -> Option<String> {
        let client = self.client.as_deref().filter(|_| path.ends_with(".type"))?;
        let mut found = object(std::str::from_utf8(&client.body).ok()?).ok()?;
        for step in path.split('.') {
            let (name, places) = step.split_once('[').unwrap_or((step, ""));
            found = found.member(name.as_bytes())?;
            for place in places.split_terminator(']') {
                found = found.elements().nth(place.trim_start_matches('[').parse().ok()?)?;
            }
        }
        Some(shown(&found.text()?))
    }

    fn unmet_output(&self, wanted: Modalities, model: &Model) -> Option<Invalid> {
        let missing = wanted.without(model.architecture.output).iter().next()?;
        Some(match self.demands.output {
            Some(_) => unsupported("modalities", model, &format!("{missing} output")),
            None => wrong_endpoint(model),
        })
    }

    fn unmet_input(&self, model: &Model) -> Option<Invalid> {
        let missing = |(modality, ..): &&(Modality, usize, usize)| !model.architecture.input.contains(*modality);
        let (modality, message, part) = self.demands.inputs.iter().find(missing)?;
        let item = MESSAGES.item(*message);
        let content = item.member("content");
        Some(unsupported(&content.item(*part).to_string(), model, &format!("{modality} input")))
    }

    fn unmet_parameter(&self, needs: &Needs, catalog: &Catalog, model: &Model) -> Option<Invalid> {
        let accepted = |endpoint: &Endpoint| catalog.parameters.accepted(endpoint.parameters);
        let fits = |endpoint: &Endpoint| {
            let accepted = accepted(endpoint);
            accepted.covers(needs.parameters) && meets(accepted, needs.any_parameter)
        };
        let mut endpoints = catalog.endpoints_of(model).map(|(_, endpoint)| endpoint);
        let first = endpoints.next()?;
        if fits(first) || endpoints.any(fits) {
            return None;
        }
        // When each endpoint lacks something else, the preferred one says what.
        let all = catalog
            .endpoints_of(model)
            .fold(ParameterSet::default(), |all, (_, endpoint)| all.union(accepted(endpoint)));
        let fits_all = all.covers(needs.parameters) && meets(all, needs.any_parameter);
        let supported = if fits_all { accepted(first) } else { all };
        Some(self.blame(needs, supported, &catalog.parameters, model))
    }

    /// Names the first member of the body that needs what is not supported.
    fn blame(&self, needs: &Needs, supported: ParameterSet, names: &ParameterNames, model: &Model) -> Invalid {
        if !meets(supported, needs.any_parameter) {
            return unsupported("response_format", model, "response_format of type json_schema");
        }
        let missing = needs.parameters.without(supported);
        let given = self.given_fields();
        let lacks = |field: &Forwarding, name: &str| {
            self.gate_of(*field, name, names).is_some_and(|gate| !gate.without(missing).eq(&gate))
        };
        let first = given.iter().find(|(field, name, _)| lacks(field, name)).or(given.first());
        let (name, path) = first.map_or(("", ""), |(_, name, path)| (&**name, &**path));
        unsupported(path, model, &Path::Field(name).to_string())
    }
}

/// What every endpoint of the model refuses.
pub(super) fn unmet_capability(needed: CapabilitySet, catalog: &Catalog, model: &Model) -> Option<Invalid> {
    let lacks = catalog.endpoints_of(model).map(|(_, endpoint)| endpoint.lacks);
    let missing = needed.common(lacks.reduce(CapabilitySet::common)?).first()?;
    let thing = match missing {
        Capability::ForcedTool => "a 'tool_choice' that forces a call",
        Capability::ToolsWithEffort => "tools while it reasons: leave one of them out",
        Capability::ToolsByDefault => "tools while it reasons: ask for no reasoning, with 'reasoning_effort': 'none'",
        Capability::Prefill => "a conversation that ends with a message of the assistant",
        Capability::TokenIds => "token ids in 'input'",
        Capability::RemoteMedia => "media given by their address or as an uploaded file: send their data",
        Capability::OtherImages => "images of this type: send PNG, JPEG, GIF or WebP",
        Capability::OtherMedia => "sound, videos and files that are neither PDF nor text",
        Capability::SoundOrVideo => "sound and videos",
        Capability::RareMedia => "sound or videos in this format: send WAV, MP3 or MP4",
        Capability::OfficeFiles => "documents of Word and Excel: send a PDF or a text",
        Capability::OtherFiles => "files of this type: send a PDF or a text",
        Capability::FileUrl => "files given by their address: send their data",
        Capability::HttpMedia => "media at an address of http: send their data, or an address of https",
        Capability::NoCallAfterCalls => "'tool_choice': 'none' in a conversation with calls of tools",
        Capability::CustomTools => "tools of the type 'custom': declare a function with a text as its argument",
        Capability::StrictSchema => "a JSON schema with 'strict': true: leave 'strict' out, and check the answer",
        Capability::StrictSchemaWithTools => "a JSON schema with 'strict': true beside tools: leave one of them out",
        Capability::SingleCalls => "'parallel_tool_calls': false",
        Capability::KeptResponses => "'previous_response_id': send the whole conversation in 'input'",
        Capability::OpenSchema => "a JSON schema with 'strict': true that refers to itself or leaves an object open",
        Capability::OptionalProperties => "a JSON schema with 'strict': true and that many optional properties",
        Capability::LegacyCompletions => {
            let message = format!("Model '{}' only chats: send the request to '/chat/completions'.", model.id);
            return Some(Invalid::field(InvalidReason::WrongEndpoint, "model", message));
        }
    };
    Some(unsupported(missing.field(), model, thing))
}

/// Whether the set has at least one of the names; an empty demand is always met.
fn meets(set: ParameterSet, any: ParameterSet) -> bool {
    any.is_empty() || any.without(set) != any
}

fn unsupported(param: &str, model: &Model, thing: &str) -> Invalid {
    let message = format!("Model '{}' does not support {thing}.", model.id);
    Invalid::field(InvalidReason::UnsupportedParameter, param, message)
}

/// The mistake of sending a model's request to another endpoint of the API.
pub(super) fn wrong_endpoint(model: &Model) -> Invalid {
    let message = format!("Model '{}' cannot be used with this endpoint.", model.id);
    Invalid::field(InvalidReason::WrongEndpoint, "model", message)
}
