//! What a refused request holds, as far as it casts doubt on what the refusal says.
//!
//! A client chooses every word of its request but the upstream name of the model. A provider that repeats such words says
//! nothing of its own. Read only after a refusal.

use std::cell::OnceCell;

use super::words::plain;
use crate::json::{Cursor, Raw};

/// Most characters at the start of a message that are looked for in a request.
const START: usize = 16;

/// Members that name something that belongs to the client: a file, a store, an earlier answer.
const RESOURCES: [&[u8]; 26] = [
    b"file_id",
    b"file_ids",
    b"fileId",
    b"file_uri",
    b"fileUri",
    b"file_url",
    b"previous_response_id",
    b"conversation",
    b"conversation_id",
    b"vector_store_id",
    b"vector_store_ids",
    b"container",
    b"container_id",
    b"cachedContent",
    b"cached_content",
    b"batch_id",
    b"thread_id",
    b"assistant_id",
    b"prompt_id",
    b"server_url",
    b"connector_id",
    b"guardrailIdentifier",
    b"guardrailVersion",
    b"data_sources",
    b"skill_id",
    b"voice_id",
];
/// The same, if they hold an object.
const OBJECTS: [&[u8]; 7] =
    [b"container", b"conversation", b"prompt", b"s3Location", b"guardrailConfig", b"voice", b"fileData"];
/// Members that hold an address.
const ADDRESSES: [&[u8]; 5] = [b"url", b"image_url", b"uri", b"audio_url", b"video_url"];
/// Members that name a model. At the top it is the upstream name, which the gateway wrote.
const MODELS: [&[u8]; 4] = [b"model", b"models", b"model_id", b"modelId"];

/// The body of a request, read when it is needed.
pub(super) struct Request<'a> {
    body: &'a [u8],
    value: OnceCell<Option<Raw<'a>>>,
}

impl<'a> Request<'a> {
    pub(super) fn new(body: &'a [u8]) -> Request<'a> {
        Request { body, value: OnceCell::new() }
    }

    fn value(&self) -> Option<Raw<'a>> {
        *self.value.get_or_init(|| Cursor::new(std::str::from_utf8(self.body).ok()?).value().ok())
    }

    /// Whether the request names a resource of its own, so that a refusal may be about that.
    pub(super) fn names_a_resource(&self) -> bool {
        self.value().is_some_and(|value| {
            any_member(value, &mut |name, value, is_top| {
                let is_named = value.text().is_some_and(|text| !text.is_empty()) || value.elements().next().is_some();
                let is_address = || value.text().is_some_and(|text| text.contains("://"));
                (RESOURCES.contains(&name) && is_named)
                    || (OBJECTS.contains(&name) && value.is_object())
                    || (ADDRESSES.contains(&name) && is_address())
                    || (name == b"mcp_servers" && value.is_array())
                    || (MODELS.contains(&name) && !is_top && value.is_string())
            })
        })
    }

    /// Whether the beginning of a message that follows `pattern` stands in the request too. `message`: as [`plain`] gives it.
    pub(super) fn holds_start_of(&self, message: &str, pattern: &str) -> bool {
        // A shorter text of the client may be all that the pattern begins with, but for the name of the model.
        let fixed = pattern.split(['*', '$']).next().unwrap_or_default().split("''").next().unwrap_or_default();
        let fixed = if fixed.contains('{') { "" } else { fixed.trim_end() };
        let most = match fixed.chars().count() {
            0 => START,
            count => count.min(START),
        };
        let end = message.char_indices().nth(most).map_or(message.len(), |(at, _)| at);
        self.holds(message.get(..end).unwrap_or_default())
    }

    /// Whether the request names another model than the upstream one, and `message` repeats that name.
    pub(super) fn names_model_of(&self, message: &str, quoted: &[String]) -> bool {
        let Some(value) = self.value() else { return false };
        let nested = any_member(value, &mut |name, value, is_top| {
            let repeats =
                |value: Raw<'_>| value.text().is_some_and(|text| !text.is_empty() && message.contains(&plain(&text)));
            MODELS.contains(&name) && !is_top && (repeats(value) || value.elements().any(repeats))
        });
        nested || quoted.iter().any(|word| self.holds(word))
    }

    fn holds(&self, text: &str) -> bool {
        let is_in = |value: &str| plain(value).contains(text);
        !text.is_empty()
            && self.value().is_some_and(|value| {
                any_member(value, &mut |name, value, is_top| {
                    let is_ours = is_top && name == b"model";
                    std::str::from_utf8(name).is_ok_and(is_in)
                        || (!is_ours && value.text().is_some_and(|value| is_in(&value)))
                })
            })
    }
}

/// Whether a member of `value`, or of what it holds, passes. Elements of a list have the name of the list.
fn any_member(value: Raw<'_>, test: &mut dyn FnMut(&[u8], Raw<'_>, bool) -> bool) -> bool {
    value.members().any(|(key, value)| {
        let name = key.name();
        test(&name, value, true) || any_below(&name, value, test)
    })
}

fn any_below(name: &[u8], value: Raw<'_>, test: &mut dyn FnMut(&[u8], Raw<'_>, bool) -> bool) -> bool {
    let within = value.members().any(|(key, value)| {
        let name = key.name();
        test(&name, value, false) || any_below(&name, value, test)
    });
    within || value.elements().any(|value| test(name, value, false) || any_below(name, value, test))
}
