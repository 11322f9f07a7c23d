//! The tool calls an assistant made earlier in the conversation.
//!
//! Only their frame is checked: identifier, name, and that the arguments are a string. What the string
//! says is between model and client; it passes byte for byte.

use pointsman_domain::Invalid;

use super::{
    conversation_summary::ConversationSummary,
    fault,
    json::{self, required_string},
    json_type::JsonType,
    stopped::{Stopped, once},
};
use crate::{
    json::{Cursor, Raw},
    neutral::Path,
};

/// Reads the value of `tool_calls` that comes next: how many there are, or `None` when it is null.
pub(super) fn read_calls<'a>(
    cursor: &mut Cursor<'a>,
    conversation: &mut ConversationSummary<'a>,
    path: &Path<'_>,
) -> Result<Option<usize>, Stopped> {
    match cursor.each_element(|cursor, call| read_call(cursor, conversation, &path.item(call)))? {
        Ok(count) => Ok(Some(count)),
        Err(other) if other.is_null() => Ok(None),
        Err(other) => Err(fault::wrong_type(path, "an array", JsonType::of(other)).into()),
    }
}

fn read_call<'a>(
    cursor: &mut Cursor<'a>,
    conversation: &mut ConversationSummary<'a>,
    path: &Path<'_>,
) -> Result<(), Stopped> {
    let (mut id, mut kind, mut function, mut custom, mut other_bytes) = (None, None, None, None, 0);
    let other = cursor.each_member(|cursor, key| match &*key.name() {
        b"id" => once(&mut id, cursor.value()?, path, key),
        b"type" => once(&mut kind, cursor.value()?, path, key),
        b"function" => once(&mut function, Called::read(cursor, &path.member("function"))?, path, key),
        b"custom" => once(&mut custom, Called::read(cursor, &path.member("custom"))?, path, key),
        _ => {
            other_bytes += cursor.value()?.written().len();
            Ok(())
        }
    })?;
    if let Some(other) = other {
        return Err(fault::wrong_type(path, "an object", JsonType::of(other)).into());
    }
    let kind = kind.and_then(json::given).map(|kind| kind.text().ok_or_else(|| unsupported(path))).transpose()?;
    let called = match kind.as_deref() {
        None | Some("function") => Some((&function, "function", "arguments")),
        Some("custom") => Some((&custom, "custom", "input")),
        Some(_) => None,
    };
    match called {
        Some((called, member, arguments)) => {
            required_string(id, &path.member("id"))?;
            Called::check(called.as_ref(), &path.member(member), arguments)?;
        }
        // What the gateway does not know: only an endpoint that speaks chat can take it, as it is.
        None => {
            conversation.tally.bytes += other_bytes;
            conversation.not_understood.get_or_insert_with(|| fault::in_prompt(unsupported(path)));
        }
    }
    for called in [function, custom].into_iter().flatten() {
        conversation.tally.bytes += called.text_bytes();
    }
    Ok(())
}

fn unsupported(call: &Path<'_>) -> Invalid {
    let message = "Only tool calls of the types 'function' and 'custom' are supported.";
    fault::refused(&call.member("type"), message)
}

/// The tool that is called, and what it is given.
#[derive(Default)]
struct Called<'a> {
    name: Option<Raw<'a>>,
    arguments: Option<Raw<'a>>,
    /// What stands there instead.
    other: Option<Raw<'a>>,
}

impl<'a> Called<'a> {
    fn read(cursor: &mut Cursor<'a>, path: &Path<'_>) -> Result<Called<'a>, Stopped> {
        let mut called = Called::default();
        let other = cursor.each_member(|cursor, key| {
            let value = cursor.value()?;
            match &*key.name() {
                b"name" => once(&mut called.name, value, path, key),
                b"arguments" | b"input" => once(&mut called.arguments, value, path, key),
                _ => Ok(()),
            }
        })?;
        Ok(Called { other, ..called })
    }

    /// Checks what stands at `path`, where its arguments have this name.
    fn check(called: Option<&Called<'_>>, path: &Path<'_>, arguments: &str) -> Result<(), Invalid> {
        let called = called.filter(|called| !called.other.is_some_and(Raw::is_null));
        let called = called.ok_or_else(|| fault::required(path))?;
        if let Some(other) = called.other {
            return Err(fault::wrong_type(path, "an object", JsonType::of(other)));
        }
        required_string(called.name, &path.member("name"))?;
        required_string(called.arguments, &path.member(arguments)).map(drop)
    }

    fn text_bytes(&self) -> usize {
        self.name.map_or(0, Raw::text_bytes) + self.arguments.map_or(0, Raw::text_bytes)
    }
}
