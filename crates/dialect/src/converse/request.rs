//! Writes a conversation as the body of `Converse` and `ConverseStream`.
//!
//! `messages` comes last and nothing before it depends on later turns, so that the body for a conversation is a prefix of
//! the body for the same conversation with one more turn.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::Endpoint;

use super::{
    cache_points::CachePoints,
    messages::block_messages,
    models::{self, Capabilities, NAMES},
    parameters::{ClaudeRules, Parameters},
    tools::ToolPlan,
};
use crate::{
    claude::{
        models as claude, schema,
        thinking::{Circumstances, lacks_reasoning_of_open_turn},
    },
    json::push_member,
    neutral::{AnswerFormat, Conversation, ToolNames, TranslatedRequest, UnsupportedFields, alternating_turns},
    percent,
};

/// The path of a call, relative to the base address, which is that of the region alone.
pub(crate) fn path(endpoint: &Endpoint, streamed: bool) -> String {
    let method = if streamed { "converse-stream" } else { "converse" };
    format!("/model/{}/{method}", percent::encoded(&endpoint.upstream_model))
}

/// The body for an endpoint. What the endpoint cannot carry is named in `unsupported`.
pub(crate) fn write_request(
    conversation: &Conversation<'_>,
    endpoint: &Endpoint,
    unsupported: &mut UnsupportedFields,
) -> TranslatedRequest {
    let model = &*endpoint.upstream_model;
    let (capabilities, is_claude) = (models::capabilities(model), models::is_claude(model));
    let names = ToolNames::new(conversation, NAMES);
    let turns = alternating_turns(conversation, unsupported);
    let tools = ToolPlan::new(conversation, unsupported);
    let max_tokens = max_tokens(conversation, endpoint, is_claude, unsupported);
    let claude = is_claude.then(|| {
        let circumstances = Circumstances {
            max_tokens: max_tokens.unwrap_or(u64::MAX),
            forces_tool: tools.forces_tool(),
            lacks_reasoning: lacks_reasoning_of_open_turn(&turns),
            budgets: endpoint.effort_budgets,
        };
        ClaudeRules::new(&conversation.reasoning, model, circumstances, unsupported)
    });
    let mut parameters = Parameters::new(conversation, capabilities, claude, unsupported);
    let single_call = if conversation.parallel_tool_calls == Some(false) { tools.single_call(&names) } else { None };
    match &single_call {
        Some(choice) if is_claude => parameters.add(b"tool_choice", choice),
        Some(_) => unsupported.drop("parallel_tool_calls"),
        None => {}
    }
    let mut points = CachePoints::new(capabilities.caches, &conversation.tools, &conversation.system, &turns);

    let mut out = BytesMut::with_capacity(1_024);
    parameters.push(max_tokens, conversation, &mut out, unsupported);
    let instruction = push_format(&conversation.format, capabilities, is_claude, &mut out, unsupported);
    let with_choice = single_call.is_none() || !is_claude;
    tools.push(with_choice, is_claude && capabilities.json_schema, &names, &mut points, &mut out, unsupported);
    let mut messages = block_messages(is_claude, &names, &mut points, &mut out, unsupported);
    messages.push_system(&conversation.system, instruction.as_deref());
    messages.push(&turns);
    out.put_u8(b'}');
    // The first member was written with a comma before it.
    if let Some(first) = out.first_mut() {
        *first = b'{';
    }
    TranslatedRequest { body: out.freeze(), names, ..TranslatedRequest::default() }
}

/// The limit of the client; for a Claude, which has a small default, without one that of the model or of the endpoint.
fn max_tokens(
    conversation: &Conversation<'_>,
    endpoint: &Endpoint,
    is_claude: bool,
    unsupported: &mut UnsupportedFields,
) -> Option<u64> {
    let of_model = if is_claude { claude::capabilities(&endpoint.upstream_model).max_output } else { u64::MAX };
    let most = of_model.min(u64::from(endpoint.limits.longest_answer())).max(1);
    conversation.limit_within(most, unsupported).or(is_claude.then_some(most))
}

/// Appends `outputConfig` with the schema, which is a text there. Returns an instruction for what the model cannot be held to.
fn push_format(
    format: &AnswerFormat<'_>,
    capabilities: Capabilities,
    is_claude: bool,
    out: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) -> Option<String> {
    let sent = match format {
        AnswerFormat::Schema { schema, .. } if !capabilities.json_schema => None,
        AnswerFormat::Schema { name, schema, .. } if is_claude => schema::lower(*schema).ok().map(|sent| (name, sent)),
        AnswerFormat::Schema { name, schema, .. } => Some((name, bytes::Bytes::copy_from_slice(schema.bytes()))),
        AnswerFormat::Text | AnswerFormat::JsonObject => None,
    };
    let Some((name, sent)) = sent else { return format.instruction(unsupported) };
    push_member(
        out,
        b"outputConfig",
        b"{\"textFormat\":{\"type\":\"json_schema\",\"structure\":{\"jsonSchema\":{\"schema\":",
    );
    push!(out; &String::from_utf8_lossy(&sent), br#","name":"#, name, b"}}}}");
    None
}
