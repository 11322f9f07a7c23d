//! `inferenceConfig`, `serviceTier`, and what only one family of models has a member for.

use bytes::BytesMut;

use super::models::{Capabilities, ReasoningControl};
use crate::{
    claude::{
        models::{self as claude, Sampling, sampled},
        thinking::{Circumstances, ThinkingPlan, plan},
    },
    json::{Raw, push_count, push_member, push_object},
    neutral::{Conversation, Effort, Reasoning, UnsupportedFields},
};

/// Most texts that end an answer.
const MAX_STOPS: usize = 2_500;

/// The parameters that are sent.
#[derive(Debug, Default)]
pub(super) struct Parameters<'a> {
    temperature: Option<&'a [u8]>,
    top_p: Option<&'a [u8]>,
    service_tier: Option<Raw<'a>>,
    /// Members of `additionalModelRequestFields`, each with a comma before it.
    of_family: BytesMut,
}

/// What decides about the parameters of a Claude.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClaudeRules {
    sampling: Sampling,
    thinking: ThinkingPlan,
}

impl ClaudeRules {
    pub(super) fn new(
        reasoning: &Reasoning,
        upstream_model: &str,
        circumstances: Circumstances,
        unsupported: &mut UnsupportedFields,
    ) -> ClaudeRules {
        let capabilities = claude::capabilities(upstream_model);
        let thinking = plan(reasoning, &capabilities, circumstances, unsupported);
        ClaudeRules { sampling: capabilities.sampling, thinking }
    }
}

impl<'a> Parameters<'a> {
    /// Decides about each parameter. `claude`: the rules for a model of that family.
    pub(super) fn new(
        conversation: &'a Conversation<'_>,
        capabilities: Capabilities,
        claude: Option<ClaudeRules>,
        unsupported: &mut UnsupportedFields,
    ) -> Parameters<'a> {
        let mut parameters = Parameters::default();
        for parameter in &conversation.parameters {
            let (name, value) = (&*parameter.name, parameter.value());
            let is_kept = match name {
                "temperature" | "top_p" | "top_k" => parameters.sampling(name, value, claude, unsupported),
                "service_tier" => parameters.tier(value),
                _ => parameter.asks_for_nothing(),
            };
            if !is_kept {
                unsupported.drop(name);
            }
        }
        let is_either = claude.is_some_and(|claude| claude.sampling == Sampling::EitherOf);
        if is_either && parameters.temperature.is_some() && parameters.top_p.take().is_some() {
            unsupported.drop("top_p");
        }
        match claude {
            Some(claude) => {
                claude.thinking.push(&mut parameters.of_family);
                if let Some(effort) = claude.thinking.effort {
                    push!(parameters.of_family; br#","output_config":{"effort":"#, effort.as_str(), b"}");
                }
            }
            None => push_effort(&conversation.reasoning, capabilities, &mut parameters.of_family, unsupported),
        }
        parameters
    }

    /// A further member for this family of models.
    pub(super) fn add(&mut self, name: &[u8], value: &[u8]) {
        push_member(&mut self.of_family, name, value);
    }

    fn sampling(
        &mut self,
        name: &str,
        value: Raw<'a>,
        claude: Option<ClaudeRules>,
        unsupported: &mut UnsupportedFields,
    ) -> bool {
        if claude.is_some_and(|claude| claude.sampling == Sampling::No) {
            return false;
        }
        let is_thinking = claude.is_some_and(|claude| claude.thinking.is_on());
        let Some(sent) = sampled(name, value, is_thinking, unsupported) else { return false };
        match name {
            "temperature" => self.temperature = Some(sent),
            "top_p" => self.top_p = Some(sent),
            // There is no common member for it.
            _ if claude.is_some() => self.add(b"top_k", sent),
            _ => return false,
        }
        true
    }

    fn tier(&mut self, value: Raw<'a>) -> bool {
        match value.text().as_deref() {
            Some("auto") => {}
            Some("default" | "priority" | "flex" | "reserved") => self.service_tier = Some(value),
            _ => return false,
        }
        true
    }

    /// Appends `inferenceConfig`, `serviceTier` and `additionalModelRequestFields`.
    pub(super) fn push(
        &self,
        max_tokens: Option<u64>,
        conversation: &Conversation<'_>,
        out: &mut BytesMut,
        unsupported: &mut UnsupportedFields,
    ) {
        let mut config = BytesMut::new();
        if let Some(max_tokens) = max_tokens {
            push_count(&mut config, b"maxTokens", max_tokens);
        }
        for (name, value) in [(&b"temperature"[..], self.temperature), (b"topP", self.top_p)] {
            if let Some(value) = value {
                push_member(&mut config, name, value);
            }
        }
        conversation.push_stop(b"stopSequences", MAX_STOPS, |text| !text.is_empty(), &mut config, unsupported);
        push_object(out, b"inferenceConfig", &config);
        if let Some(tier) = self.service_tier {
            push!(out; br#","serviceTier":{"type":"#, tier.bytes(), b"}");
        }
        push_object(out, b"additionalModelRequestFields", &self.of_family);
    }
}

/// Appends how much a model of another family reasons.
fn push_effort(
    reasoning: &Reasoning,
    capabilities: Capabilities,
    members: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) {
    if !reasoning.is_on() && !reasoning.is_off() {
        return;
    }
    let wanted = reasoning.wanted_effort().unwrap_or(Effort::Medium);
    let given = wanted.nearest(capabilities.efforts);
    let is_nova_off = capabilities.reasoning == ReasoningControl::Nova && reasoning.is_off();
    let Some(given) = given.filter(|_| !is_nova_off) else {
        // A model that does not reason by itself need not be told.
        if reasoning.is_on() {
            unsupported.drop("reasoning");
        }
        return;
    };
    if given != wanted || reasoning.effort.is_none() {
        unsupported.emulate("reasoning");
    }
    let given = given.as_str();
    match capabilities.reasoning {
        ReasoningControl::None | ReasoningControl::Claude => {}
        ReasoningControl::Nova => {
            let config = format!("{{\"type\":\"enabled\",\"maxReasoningEffort\":\"{given}\"}}");
            push_member(members, b"reasoningConfig", config.as_bytes());
        }
        ReasoningControl::Flat => push_member(members, b"reasoning_effort", format!("\"{given}\"").as_bytes()),
        ReasoningControl::Nested => {
            push_member(members, b"reasoning", format!("{{\"effort\":\"{given}\"}}").as_bytes());
        }
    }
}
