//! Requests for completions of texts: checked, and read as the chat by which they are measured and routed.

use pointsman_domain::{Invalid, InvalidReason, RequestedService};

use crate::{
    gateway_fields::is_for_gateway,
    json::{MAX_DEPTH, Raw},
    neutral::{
        ClientChat, Content, Conversation, EscapedText, Part, Role, Turn, body_members, given, mistyped, refused, taken,
    },
    openai::conversation_reader::ConversationReader,
};

/// Most log probabilities per token.
const MAX_LOGPROBS: u64 = 5;
/// Most elements of `prompt`.
const MAX_PROMPTS: usize = 2_048;
/// Members that a chat would be judged by.
const OF_CHAT: [&[u8]; 9] = byte_names![
    tools tool_choice parallel_tool_calls functions function_call modalities audio top_logprobs response_format
];

/// Reads a body of `POST /completions`, as the chat that is measured in its place. It may be nested at most `max_depth` deep.
///
/// # Errors
/// The 400 for a body that is no JSON object, else for its first offending field.
pub(crate) fn read_completion_request(body: &[u8], max_depth: usize) -> Result<ClientChat<'_>, Invalid> {
    let mut members = body_members(body, max_depth)?;
    let service = RequestedService::of(|name| given(&members, name)?.text());
    let mut reader = Reader { chat: ClientChat { service, has_parameters: true, ..ClientChat::default() } };
    let missing = || Invalid::field(InvalidReason::MissingField, "prompt", "Missing required parameter: 'prompt'.");
    reader.prompt(taken(&mut members, "prompt").ok_or_else(missing)?)?;
    for (key, value) in members {
        reader.member(key, value)?;
    }
    Ok(reader.chat)
}

/// What a body that was read before asks for.
pub(crate) fn conversation_of(body: &[u8]) -> Option<Conversation<'_>> {
    let ClientChat { conversation, members, .. } = read_completion_request(body, MAX_DEPTH).ok()?;
    let mut parameters = ConversationReader::default();
    for (key, value) in members {
        let name = key.text()?;
        if !is_for_gateway(&name) {
            parameters.member(name, value.written()).ok()?;
        }
    }
    Some(Conversation { turns: conversation.turns, ..parameters.finish() })
}

struct Reader<'a> {
    chat: ClientChat<'a>,
}

impl<'a> Reader<'a> {
    fn member(&mut self, key: Raw<'a>, value: Raw<'a>) -> Result<(), Invalid> {
        match &*key.name() {
            b"suffix" => {
                let suffix = EscapedText::read(value).ok_or_else(|| mistyped("suffix", "a string"))?;
                if !suffix.is_empty() {
                    // It is part of what the model reads.
                    self.message(suffix);
                }
            }
            b"echo" if !matches!(value.bytes(), b"true" | b"false") => return Err(mistyped("echo", "a boolean")),
            b"best_of" if !matches!(value.count(), Some(1..)) => {
                return Err(mistyped("best_of", "an integer of at least 1"));
            }
            b"logprobs" if !matches!(value.count(), Some(0..=MAX_LOGPROBS)) => {
                return Err(mistyped("logprobs", "an integer from 0 to 5"));
            }
            b"echo" | b"best_of" | b"logprobs" => {}
            b"messages" => {
                let message = "'messages' belongs to '/chat/completions': here the text to continue is the 'prompt'.";
                return Err(Invalid::field(InvalidReason::UnsupportedParameter, "messages", message));
            }
            name if OF_CHAT.contains(&name) => {}
            _ => self.chat.members.push((key, value)),
        }
        Ok(())
    }

    /// A text, several texts, or token ids.
    fn prompt(&mut self, prompt: Raw<'a>) -> Result<(), Invalid> {
        if let Some(text) = EscapedText::read(prompt) {
            self.message(text);
            return Ok(());
        }
        let count = prompt.elements().take(MAX_PROMPTS + 1).count();
        let first = prompt.elements().next().ok_or_else(|| mistyped("prompt", PROMPT_TYPES))?;
        if first.is_string() {
            if count > MAX_PROMPTS {
                let message = format!("'prompt' may have at most {MAX_PROMPTS} elements.");
                return Err(refused("prompt", message));
            }
            for (index, text) in prompt.elements().enumerate() {
                let wrong = || mistyped(format!("prompt[{index}]"), "a string like the elements before it");
                self.message(EscapedText::read(text).ok_or_else(wrong)?);
            }
            return Ok(());
        }
        for (index, ids) in prompt.elements().enumerate() {
            let are_ids = match (first.is_array(), ids.is_array()) {
                (true, true) => ids.is_filled() && ids.elements().all(|id| id.count().is_some()),
                (false, false) => ids.count().is_some(),
                _ => false,
            };
            if !are_ids {
                return Err(mistyped(format!("prompt[{index}]"), "a token id or a list of token ids"));
            }
        }
        // What is written here is only measured.
        let measured: String = prompt.written().split_ascii_whitespace().collect();
        self.message(EscapedText::escaping(&measured));
        Ok(())
    }

    fn message(&mut self, text: EscapedText<'a>) {
        self.chat.conversation.turns.push(Turn::new(Role::User, vec![Part::new(Content::Text(text))]));
    }
}

const PROMPT_TYPES: &str = "a string, or a non-empty array of strings, of token ids or of lists of token ids";
