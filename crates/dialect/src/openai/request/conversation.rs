//! What a request asks one endpoint for, as its dialect is written from it.

use pointsman_domain::{Catalog, Endpoint};

use super::{
    ChatRequest,
    byte_span::value_start,
    fields::{Field, Forwarding},
    outgoing::{MAX_COMPLETION_TOKENS, MAX_TOKENS, ParameterGates, REASONING_EFFORT, default_parameters, is_effort},
    parsed_body::ParsedBody,
    parsed_fields::OutputFormat,
    request_kind::RequestKind,
};
use crate::{
    neutral::{Conversation, Effort, Parameter, Reasoning, UnsupportedFields},
    openai::conversation_reader::ConversationReader,
};

impl ChatRequest {
    /// Everything that is asked for, without what `takes` is false for. It is asked for each field by its name in chat. `None` if the
    /// body is nested too deeply to be translated.
    pub(crate) fn conversation(&self, takes: &mut dyn FnMut(&str) -> bool) -> Option<Conversation<'_>> {
        let Some(source) = &self.message_source else { return self.envelope.conversation(takes) };
        let mut conversation = source.conversation()?;
        conversation.retain(takes);
        Some(conversation)
    }

    /// What the endpoint is asked for. Its `unsupported` has what was left out for the endpoint. `most_output` lowers the limit on
    /// output tokens.
    pub(crate) fn conversation_for(
        &self,
        catalog: &Catalog,
        endpoint: &Endpoint,
        most_output: Option<u32>,
    ) -> Option<Conversation<'_>> {
        let has_schema = self.demands.format == OutputFormat::JsonSchema;
        let gates = ParameterGates { catalog, endpoint, has_schema };
        let unpriced: Vec<&str> = self.service.unpriced(endpoint.pricing.as_deref()).collect();
        let lower = self.lower_than_given(most_output);
        let is_quiet = self.takes_tools_only_without_reasoning(endpoint);
        let mut defaults = default_parameters(catalog, endpoint);
        let mut dropped = UnsupportedFields::default();
        let mut conversation = self.conversation(&mut |name| {
            defaults.retain(|(default, _)| *default != name);
            if is_quiet && is_effort(name) || lower.is_some() && matches!(name, MAX_TOKENS | MAX_COMPLETION_TOKENS) {
                return false;
            }
            let forwarding = Field::named(RequestKind::Chat, name).forwarding();
            let is_taken = gates.takes(forwarding, name) && !self.is_unpriced(name, &unpriced);
            if !is_taken {
                dropped.drop(name);
            }
            is_taken
        })?;
        dropped.dropped().iter().for_each(|name| conversation.unsupported.drop(name));
        if let Some(lower) = lower.filter(|_| gates.admits(MAX_TOKENS)) {
            conversation.max_tokens = Some(u64::from(lower));
        }
        if is_quiet {
            conversation.reasoning = Reasoning { effort: Some(Effort::None), ..Reasoning::default() };
            let name = if self.envelope.gives("reasoning") { "reasoning" } else { REASONING_EFFORT };
            conversation.unsupported.emulate(name);
        }
        // Displayed floats are plain decimals.
        let defaults = defaults.into_iter().map(|(name, value)| Parameter::made(name, value.to_string()));
        conversation.parameters.extend(defaults);
        Some(conversation)
    }

    /// The limit on output tokens that is below that of the client.
    pub(super) fn lower_than_given(&self, most_output: Option<u32>) -> Option<u32> {
        most_output.filter(|most| self.max_tokens.is_none_or(|given| *most < given))
    }

    /// Whether a field asks for a service without a price. The tier of a client of Messages may stand for its `speed`.
    fn is_unpriced(&self, name: &str, unpriced: &[&str]) -> bool {
        let stands_for_speed = || name == "service_tier" && !self.envelope.gives("speed");
        unpriced.iter().any(|field| *field == name || (*field == "speed" && stands_for_speed()))
    }
}

impl ParsedBody {
    fn conversation(&self, takes: &mut dyn FnMut(&str) -> bool) -> Option<Conversation<'_>> {
        let text = std::str::from_utf8(&self.body).ok()?;
        let mut reader = ConversationReader::default();
        for member in &self.members {
            let name = self.name(member);
            let value = text.get(value_start(text.as_bytes(), member.key.end)..member.end)?;
            if value == "null" {
                continue;
            }
            let is_taken = match member.forwarding {
                Forwarding::Consumed | Forwarding::Absent | Forwarding::Model => false,
                Forwarding::MaxTokens if self.gives(MAX_COMPLETION_TOKENS) => false,
                Forwarding::Always => true,
                _ => takes(&name),
            };
            if is_taken {
                reader.member(name, value).ok()?;
            }
        }
        Some(reader.finish())
    }
}
