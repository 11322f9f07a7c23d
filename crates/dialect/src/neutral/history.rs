//! The history of a conversation for dialects with alternating turns: Anthropic, Gemini and Bedrock.
//!
//! Neighbours of one role are merged, and nothing is ever inserted. The result for a conversation is a prefix of
//! the result for the same conversation with another turn, so that prompt caches stay valid.

use super::{
    conversation::{Content, Conversation, Part, Role, Turn},
    text::EscapedText,
    unsupported_fields::UnsupportedFields,
};

/// Who speaks in an alternating history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// The user, with the results of tool calls.
    User,
    /// The model.
    Assistant,
    /// The author of a system message. Few APIs take one in the middle of a conversation.
    System,
}

/// Consecutive messages of one speaker.
#[derive(Debug, Clone)]
pub(crate) struct AlternatingTurn<'a> {
    /// Who speaks.
    pub(crate) speaker: Speaker,
    /// What, in order.
    pub(crate) parts: Vec<Part<'a>>,
}

/// The turns of `conversation`, alternating. Changes are named in `unsupported`: a later system message
/// becomes a user text `<system>…</system>`; blank texts are left out; a user message without anything else becomes
/// `(empty)`.
pub(crate) fn alternating_turns<'a>(
    conversation: &Conversation<'a>,
    unsupported: &mut UnsupportedFields,
) -> Vec<AlternatingTurn<'a>> {
    turns_of(conversation, false, unsupported)
}

/// The same for an API that takes a system message behind a turn of the user, if it is the last one or the model's answer
/// follows. In other places it becomes a user text.
pub(crate) fn turns_with_instructions<'a>(
    conversation: &Conversation<'a>,
    unsupported: &mut UnsupportedFields,
) -> Vec<AlternatingTurn<'a>> {
    turns_of(conversation, true, unsupported)
}

fn turns_of<'a>(
    conversation: &Conversation<'a>,
    takes_instructions: bool,
    unsupported: &mut UnsupportedFields,
) -> Vec<AlternatingTurn<'a>> {
    let mut history = History { turns: Vec::new(), unsupported };
    let ends_request = if takes_instructions { ends_of_requests(&conversation.turns) } else { Vec::new() };
    for (place, turn) in conversation.turns.iter().enumerate() {
        if turn.is_named {
            history.unsupported.drop("messages[].name");
        }
        match turn.role {
            Role::Assistant => history.assistant(turn),
            Role::Tool => history.speak(Speaker::User, turn.parts.clone()),
            Role::User => history.user(turn),
            Role::System | Role::Developer => {
                if ends_request.get(place) == Some(&true) && history.takes_instruction() {
                    history.instruction(turn);
                } else {
                    history.system(turn);
                }
            }
        }
    }
    history.turns
}

/// Per turn, whether nothing follows it, system messages apart, or an answer of the model.
fn ends_of_requests(turns: &[Turn<'_>]) -> Vec<bool> {
    let mut is_end = true;
    let mut ends: Vec<bool> = turns
        .iter()
        .rev()
        .map(|turn| {
            let before = is_end;
            match turn.role {
                Role::System | Role::Developer => {}
                Role::Assistant if turn.parts.iter().all(Part::is_blank) => {}
                role => is_end = role == Role::Assistant,
            }
            before
        })
        .collect();
    ends.reverse();
    ends
}

struct History<'a, 'f> {
    turns: Vec<AlternatingTurn<'a>>,
    unsupported: &'f mut UnsupportedFields,
}

impl<'a> History<'a, '_> {
    fn assistant(&mut self, turn: &Turn<'a>) {
        let parts: Vec<Part<'a>> = turn.parts.iter().filter(|part| !part.is_blank()).cloned().collect();
        self.speak(Speaker::Assistant, parts);
    }

    fn user(&mut self, turn: &Turn<'a>) {
        let mut parts: Vec<Part<'a>> = turn.parts.iter().filter(|part| !part.is_blank()).cloned().collect();
        if parts.is_empty() {
            self.unsupported.emulate("messages");
            parts.push(Part::new(Content::Text(EscapedText::plain("(empty)"))));
        }
        self.speak(Speaker::User, parts);
    }

    /// Whether the last turn is one of the user, or another instruction.
    fn takes_instruction(&self) -> bool {
        let last = self.turns.last().map(|turn| turn.speaker);
        matches!(last, Some(Speaker::User | Speaker::System))
    }

    fn instruction(&mut self, turn: &Turn<'a>) {
        let is_text = |part: &Part<'a>| matches!(part.content, Content::Text(_));
        if !turn.parts.iter().all(is_text) {
            self.unsupported.drop("messages[].content[]");
        }
        let parts: Vec<Part<'a>> =
            turn.parts.iter().filter(|part| is_text(part) && !part.is_blank()).cloned().collect();
        self.speak(Speaker::System, parts);
    }

    fn system(&mut self, turn: &Turn<'a>) {
        self.unsupported.emulate("messages[].role");
        let unsupported = &mut *self.unsupported;
        let tagged = turn.parts.iter().filter(|part| !part.is_blank()).filter_map(|part| match &part.content {
            Content::Text(text) => {
                let text = format!("<system>{}</system>", text.unescaped());
                Some(Part { content: Content::Text(EscapedText::escaping(&text)), cache_control: part.cache_control })
            }
            _ => {
                unsupported.drop("messages[].content[]");
                None
            }
        });
        let parts: Vec<Part<'a>> = tagged.collect();
        self.speak(Speaker::User, parts);
    }

    fn speak(&mut self, speaker: Speaker, parts: Vec<Part<'a>>) {
        match self.turns.last_mut().filter(|last| last.speaker == speaker) {
            _ if parts.is_empty() => {}
            Some(last) => last.parts.extend(parts),
            None => self.turns.push(AlternatingTurn { speaker, parts }),
        }
    }
}
