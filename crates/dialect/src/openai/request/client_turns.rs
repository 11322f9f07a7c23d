//! Messages that came in another API, measured as those of a chat body are.

use pointsman_domain::{Invalid, ReasoningFormat};

use super::{
    conversation_opening::OpeningHasher,
    conversation_summary::{ConversationSummary, MESSAGES},
    fault,
    messages::NO_MESSAGES,
    open_turn::TurnReasoning,
    parts::note_medium,
};
use crate::neutral::{Content, Role, Turn};

/// Measures the messages.
///
/// # Errors
/// The 400 for too many of them, or none.
pub(super) fn measure<'a>(turns: &'a [Turn<'a>], conversation: &mut ConversationSummary<'a>) -> Result<(), Invalid> {
    let most = conversation.max_messages;
    if turns.is_empty() {
        return Err(fault::refused(&MESSAGES, NO_MESSAGES));
    }
    if turns.len() > most {
        return Err(fault::refused(&MESSAGES, format!("'messages' may hold at most {most} elements.")));
    }
    conversation.opening = OpeningHasher::default();
    turns.iter().enumerate().for_each(|(place, turn)| message(turn, place, conversation));
    conversation.tally.messages = turns.len();
    Ok(())
}

fn message<'a>(turn: &'a Turn<'a>, place: usize, conversation: &mut ConversationSummary<'a>) {
    conversation.texts.clear();
    let (mut has_calls, mut format) = (false, ReasoningFormat::Unknown);
    let parts = match turn.parts.first().map(|part| &part.content) {
        Some(Content::ToolResult { parts, .. }) => parts,
        _ => &turn.parts,
    };
    for (position, part) in parts.iter().enumerate() {
        match &part.content {
            Content::Text(text) => {
                conversation.tally.bytes += text.text_bytes();
                conversation.opening.text(|| text.unescaped());
                conversation.texts.push(text.bytes());
            }
            Content::Refusal(text) => conversation.tally.bytes += text.text_bytes(),
            Content::ToolCall { name, arguments, .. } => {
                conversation.tally.bytes += name.text_bytes() + arguments.text_bytes();
                has_calls = true;
            }
            Content::Reasoning(state) if !format.is_bound() => format = state.format,
            medium => note_medium(conversation, medium, (place, position)),
        }
    }
    let ConversationSummary { open_turn, texts, last_user, opening, tally, .. } = &mut *conversation;
    match turn.role {
        Role::Assistant => open_turn.answer(has_calls, Some(TurnReasoning::Of(format))),
        Role::Tool => open_turn.result(),
        Role::User => {
            open_turn.user();
            std::mem::swap(texts, last_user);
        }
        Role::System | Role::Developer => {}
    }
    opening.message(matches!(turn.role, Role::System | Role::Developer), tally);
    conversation.ends_with_answer = turn.role == Role::Assistant && !has_calls;
    conversation.has_calls |= has_calls || turn.role == Role::Tool;
}
