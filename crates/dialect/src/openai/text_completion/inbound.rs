//! Requests for completions of texts: checked, and written as the chat body by which they are measured and routed.

use bytes::{BufMut as _, Bytes, BytesMut};
use pointsman_domain::{Invalid, InvalidReason};

use crate::{
    json::{Raw, push_member},
    neutral::body_members,
    openai::request::shown,
};

/// Most log probabilities per token.
const MAX_LOGPROBS: u64 = 5;
/// Most elements of `prompt`.
const MAX_PROMPTS: usize = 2_048;
/// Members that a chat would be judged by.
const OF_CHAT: [&[u8]; 9] = [
    b"tools",
    b"tool_choice",
    b"parallel_tool_calls",
    b"functions",
    b"function_call",
    b"modalities",
    b"audio",
    b"top_logprobs",
    b"response_format",
];

/// Reads a body of `POST /completions`, as the chat body that is measured in its place. It may be nested at most `max_depth`
/// deep.
///
/// # Errors
/// The 400 for a body that is no JSON object, else for its first offending field.
pub fn read_completion_request(body: &[u8], max_depth: usize) -> Result<Bytes, Invalid> {
    let mut reader =
        Reader { messages: BytesMut::with_capacity(body.len() + 64), others: BytesMut::new(), has_prompt: false };
    for (key, value) in body_members(body, max_depth)? {
        reader.member(key, value)?;
    }
    if !reader.has_prompt {
        return Err(Invalid::field(InvalidReason::MissingField, "prompt", "Missing required parameter: 'prompt'."));
    }
    let mut chat = BytesMut::with_capacity(reader.messages.len() + reader.others.len() + 16);
    chat.put_slice(b"{\"messages\":[");
    chat.put_slice(&reader.messages);
    chat.put_u8(b']');
    chat.put_slice(&reader.others);
    chat.put_u8(b'}');
    Ok(chat.freeze())
}

struct Reader {
    /// The elements of `messages`.
    messages: BytesMut,
    /// All other members, each with a comma before it.
    others: BytesMut,
    has_prompt: bool,
}

impl Reader {
    fn member(&mut self, key: Raw<'_>, value: Raw<'_>) -> Result<(), Invalid> {
        match &*key.name() {
            b"prompt" => {
                self.has_prompt = true;
                self.prompt(value)?;
            }
            b"suffix" => {
                let suffix =
                    Some(value).filter(|suffix| suffix.is_string()).ok_or_else(|| mistyped("suffix", "a string"))?;
                if suffix.is_filled() {
                    // It is part of what the model reads.
                    self.message(suffix.bytes());
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
            _ => {
                self.others.put_u8(b',');
                self.others.put_slice(key.bytes());
                self.others.put_u8(b':');
                self.others.put_slice(value.bytes());
            }
        }
        Ok(())
    }

    /// A text, several texts, or token ids.
    fn prompt(&mut self, prompt: Raw<'_>) -> Result<(), Invalid> {
        if prompt.is_string() {
            self.message(prompt.bytes());
            return Ok(());
        }
        let count = prompt.elements().take(MAX_PROMPTS + 1).count();
        let first = prompt.elements().next().ok_or_else(|| mistyped("prompt", PROMPT_TYPES))?;
        if first.is_string() {
            if count > MAX_PROMPTS {
                let message = format!("'prompt' may have at most {MAX_PROMPTS} elements.");
                return Err(Invalid::field(InvalidReason::InvalidValue, "prompt", message));
            }
            for (index, text) in prompt.elements().enumerate() {
                if !text.is_string() {
                    return Err(mistyped(&format!("prompt[{index}]"), "a string like the elements before it"));
                }
                self.message(text.bytes());
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
                return Err(mistyped(&format!("prompt[{index}]"), "a token id or a list of token ids"));
            }
        }
        // What is written here is only measured.
        let measured = prompt.bytes().iter().filter(|byte| !byte.is_ascii_whitespace());
        let measured: Vec<u8> = measured.copied().collect();
        self.message(&[b"\"", &*measured, b"\""].concat());
        Ok(())
    }

    /// Appends a message of the user. `text`: a JSON string.
    fn message(&mut self, text: &[u8]) {
        if !self.messages.is_empty() {
            self.messages.put_u8(b',');
        }
        self.messages.put_slice(b"{\"role\":\"user\"");
        push_member(&mut self.messages, b"content", text);
        self.messages.put_u8(b'}');
    }
}

const PROMPT_TYPES: &str = "a string, or a non-empty array of strings, of token ids or of lists of token ids";

fn mistyped(param: &str, expected: &str) -> Invalid {
    let param = shown(param);
    Invalid::field(InvalidReason::InvalidType, param.clone(), format!("'{param}' must be {expected}."))
}
