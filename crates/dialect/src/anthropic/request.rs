//! Writes a conversation as the body of `POST /v1/messages`.
//!
//! `messages` comes last and nothing before it depends on later turns, so that the body for a conversation is a prefix of
//! the body for the same conversation with one more turn.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::Endpoint;

use super::{
    betas::required_betas,
    cache_breakpoints::CacheBreakpoints,
    messages::block_messages,
    parameters::{ApiVersion, Parameters},
    platform,
    tools::ToolPlan,
};
use crate::{
    claude::{
        models::{Capabilities, NAMES, capabilities},
        schema,
        thinking::{self, Circumstances, ThinkingPlan, lacks_reasoning_of_open_turn},
    },
    json::push_member,
    neutral::{
        AnswerFormat, Conversation, ToolNames, TranslatedRequest, UnsupportedFields, alternating_turns,
        turns_with_instructions,
    },
};

/// A prompt may be longer than estimated by this part of the estimate: a tenth.
const ESTIMATE_MARGIN: u32 = 10;

/// The body and the headers for an endpoint, as its platform wants them. What the endpoint cannot carry is named in `unsupported`.
pub(crate) fn write_request(
    conversation: &Conversation<'_>,
    endpoint: &Endpoint,
    unsupported: &mut UnsupportedFields,
) -> TranslatedRequest {
    let betas = required_betas(conversation, endpoint);
    let headers = (!betas.is_empty()).then(|| ("anthropic-beta".into(), betas.join(",")));
    let written = write_request_for(conversation, endpoint, ApiVersion::default(), unsupported);
    let (body, headers) = platform::adapted(written.body, headers.into_iter().collect(), endpoint);
    TranslatedRequest { body, headers, ..written }
}

/// The body for an endpoint in a version of the API.
pub(crate) fn write_request_for(
    conversation: &Conversation<'_>,
    endpoint: &Endpoint,
    version: ApiVersion,
    unsupported: &mut UnsupportedFields,
) -> TranslatedRequest {
    let capabilities = &capabilities(&endpoint.upstream_model);
    let names = ToolNames::new(conversation, NAMES);
    let turns = if endpoint.takes_instructions {
        turns_with_instructions(conversation, unsupported)
    } else {
        alternating_turns(conversation, unsupported)
    };
    let tools = ToolPlan::new(conversation, capabilities, unsupported);
    // Required: without a limit of the client, it is that of the model or of the endpoint.
    let most = longest_answer(endpoint, capabilities);
    let max_tokens = conversation.limit_within(most, unsupported).unwrap_or(most);
    let circumstances = Circumstances {
        max_tokens,
        forces_tool: tools.forces_tool(),
        lacks_reasoning: lacks_reasoning_of_open_turn(&turns),
        budgets: endpoint.effort_budgets,
    };
    let thinking = thinking::plan(&conversation.reasoning, capabilities, circumstances, unsupported);
    let parameters = Parameters::new(conversation, capabilities, version, thinking.is_on(), unsupported);
    let at_top = parameters.has_cache_control();
    let mut breakpoints = CacheBreakpoints::new(&tools.tools, &conversation.system, &turns, at_top);

    let mut out = BytesMut::with_capacity(1_024);
    push!(out; br#"{"model":"#, endpoint.upstream_model, br#","max_tokens":"#, max_tokens);
    if conversation.stream {
        push_member(&mut out, b"stream", b"true");
    }
    parameters.push(&mut out);
    conversation.push_stop(b"stop_sequences", usize::MAX, |text| !text.is_blank(), &mut out, unsupported);
    thinking.push(&mut out);
    let instruction = push_output_config(&conversation.format, thinking, capabilities, &mut out, unsupported);
    tools.push(capabilities, &names, &mut breakpoints, &mut out, unsupported);
    let mut messages = block_messages(&names, &mut breakpoints, &mut out, unsupported);
    messages.push_system(&conversation.system, instruction.as_deref());
    messages.push(&turns);
    out.put_u8(b'}');
    TranslatedRequest { body: out.freeze(), names, ..TranslatedRequest::default() }
}

/// Longest answer of a model at an endpoint, tokens.
fn longest_answer(endpoint: &Endpoint, capabilities: &Capabilities) -> u64 {
    capabilities.max_output.min(u64::from(endpoint.limits.longest_answer())).max(1)
}

/// Limits the answer of a client that did not to what the prompt leaves of the context window, where the model's limit is above
/// that: the API refuses a prompt and a limit that do not fit together.
pub(crate) fn limit_to_context(conversation: &mut Conversation<'_>, endpoint: &Endpoint, prompt_tokens: u32) {
    if conversation.max_tokens.is_some() {
        return;
    }
    let prompt = prompt_tokens.saturating_add(prompt_tokens / ESTIMATE_MARGIN);
    let room = u64::from(endpoint.limits.context_length.saturating_sub(prompt)).max(1);
    let most = longest_answer(endpoint, &capabilities(&endpoint.upstream_model));
    conversation.max_tokens = (room < most).then_some(room);
}

/// Appends `output_config`: effort and schema. Returns an instruction for what the API has no member for.
fn push_output_config(
    format: &AnswerFormat<'_>,
    thinking: ThinkingPlan,
    capabilities: &Capabilities,
    out: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) -> Option<String> {
    let lowered = match format {
        AnswerFormat::Schema { schema, .. } if capabilities.structured_output => schema::lower(*schema).ok(),
        _ => None,
    };
    let instruction = if lowered.is_none() { format.instruction(unsupported) } else { None };
    if lowered.is_some() || thinking.effort.is_some() {
        push_member(out, b"output_config", b"{");
        if let Some(effort) = thinking.effort {
            push!(out; br#""effort":"#, effort.as_str());
        }
        if let Some(schema) = lowered {
            out.put_slice(if thinking.effort.is_some() { b",\"format\":" } else { b"\"format\":" });
            push!(out; br#"{"type":"json_schema","schema":"#, schema, b"}");
        }
        out.put_u8(b'}');
    }
    instruction
}
