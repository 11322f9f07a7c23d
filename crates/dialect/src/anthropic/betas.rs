//! Names in the header `anthropic-beta` without which a written request is refused.

use pointsman_domain::Endpoint;

use crate::{
    claude::models::capabilities,
    neutral::{Content, Conversation, MediaSource, Part, Role, Speaker, UnsupportedFields, turns_with_instructions},
};

/// The betas that the body of [`super::write_request`] for this endpoint needs.
pub(crate) fn required_betas(conversation: &Conversation<'_>, endpoint: &Endpoint) -> Vec<&'static str> {
    let mut betas = Vec::new();
    if conversation.turns.iter().flat_map(|turn| &turn.parts).any(has_file) {
        betas.push("files-api-2025-04-14");
    }
    let tier = conversation.parameter("service_tier").and_then(|tier| tier.text().map(|tier| tier == "fast"));
    if tier == Some(true) && capabilities(&endpoint.upstream_model).fast {
        betas.push("fast-mode-2026-02-01");
    }
    if endpoint.takes_instructions && has_instruction(conversation) {
        betas.push("mid-conversation-system-2026-04-07");
    }
    betas
}

/// Whether a system message is sent in the middle of the conversation.
fn has_instruction(conversation: &Conversation<'_>) -> bool {
    conversation.turns.iter().any(|turn| turn.role == Role::System)
        && turns_with_instructions(conversation, &mut UnsupportedFields::default())
            .iter()
            .any(|turn| turn.speaker == Speaker::System)
}

fn has_file(part: &Part<'_>) -> bool {
    match &part.content {
        Content::Image { source, .. } | Content::File { source, .. } => matches!(source, MediaSource::FileId(_)),
        Content::ToolResult { parts, .. } => parts.iter().any(has_file),
        _ => false,
    }
}
