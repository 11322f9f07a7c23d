//! The tool calls an assistant made earlier in the conversation.
//!
//! Only their frame is checked: identifier, name, and that the arguments are a string. What the string
//! says is between model and client; it passes byte for byte.

use pointsman_domain::Invalid;

use super::{
    conversation::{Conversation, MESSAGES},
    fault,
    json_type::JsonType,
    value_visitor::{ArrayReader, LengthVisitor, ObjectReader, SeenKeys, Stopped, TextLength, ValueVisitor},
};
use crate::{json::Raw, neutral::Path};

/// The value of `tool_calls`: how many there are, or `None` when it is null.
pub(super) struct CallListVisitor<'c, 'a> {
    pub(super) conversation: &'c mut Conversation<'a>,
    /// Position of the message.
    pub(super) message: usize,
}

impl<'a> ValueVisitor<'a> for CallListVisitor<'_, 'a> {
    type Out = Option<usize>;

    fn null(self) -> Result<Option<usize>, Stopped> {
        Ok(None)
    }

    fn other(self, got: JsonType) -> Result<Option<usize>, Stopped> {
        let item = MESSAGES.item(self.message);
        Err(self.conversation.stop(fault::wrong_type(&item.member("tool_calls"), "an array", got)))
    }

    fn array(self, mut items: ArrayReader<'_, 'a>) -> Result<Option<usize>, Stopped> {
        let CallListVisitor { conversation, message } = self;
        let mut call = 0;
        while let Some(()) = items.next(CallVisitor { conversation: &mut *conversation, message, call })? {
            call += 1;
        }
        Ok(Some(call))
    }
}

#[derive(Clone, Copy)]
enum CallKey {
    Id,
    Type,
    Function,
    Custom,
    Other,
}

impl CallKey {
    fn of(key: Raw<'_>) -> CallKey {
        match &*key.name() {
            b"id" => CallKey::Id,
            b"type" => CallKey::Type,
            b"function" => CallKey::Function,
            b"custom" => CallKey::Custom,
            _ => CallKey::Other,
        }
    }
}

/// One call.
struct CallVisitor<'c, 'a> {
    conversation: &'c mut Conversation<'a>,
    message: usize,
    call: usize,
}

/// What a call says of itself.
#[derive(Default)]
struct ParsedCall<'a> {
    id: Option<CallId<'a>>,
    function: Option<ParsedFunction>,
    custom: Option<ParsedFunction>,
    kind: CallKind,
    /// Bytes of all other members.
    other_bytes: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum CallKind {
    #[default]
    Function,
    Custom,
    /// What the gateway does not know: only an endpoint that speaks chat can take it, as it is.
    Unknown,
}

impl<'a> ValueVisitor<'a> for CallVisitor<'_, 'a> {
    type Out = ();

    fn other(self, got: JsonType) -> Result<(), Stopped> {
        Err(self.refuse(|path| fault::wrong_type(path, "an object", got)))
    }

    fn object(self, mut members: ObjectReader<'_, 'a>) -> Result<(), Stopped> {
        let mut met = SeenKeys::default();
        let mut call = ParsedCall::default();
        while let Some(key) = members.key()?.map(CallKey::of) {
            let name = match key {
                CallKey::Id => "id",
                CallKey::Type => "type",
                CallKey::Function => "function",
                CallKey::Custom => "custom",
                CallKey::Other => {
                    call.other_bytes += members.raw()?.written().len();
                    continue;
                }
            };
            if !met.first_time(key as u8) {
                return Err(self.refuse(|path| fault::given_twice(&path.member(name))));
            }
            match name {
                "id" => call.id = Some(members.value(CallIdVisitor)?),
                "function" => call.function = Some(members.value(FunctionVisitor)?),
                "custom" => call.custom = Some(members.value(FunctionVisitor)?),
                _ => {
                    let Some(kind) = members.value(CallTypeVisitor)? else {
                        return Err(self.refuse(unsupported));
                    };
                    call.kind = kind;
                }
            }
        }
        self.judge(&call)
    }
}

impl<'a> CallVisitor<'_, 'a> {
    fn judge(self, call: &ParsedCall<'a>) -> Result<(), Stopped> {
        let mistake = if call.kind == CallKind::Unknown { None } else { self.mistake(call) };
        if let Some(invalid) = mistake {
            return Err(self.conversation.stop(invalid));
        }
        self.conversation.call_ids.push(call.id.map_or("", |id| id.written));
        if call.kind == CallKind::Unknown {
            self.conversation.tally.bytes += call.other_bytes;
            if self.conversation.not_understood.is_none() {
                self.conversation.not_understood = Some(fault::in_prompt(self.at(unsupported)));
            }
        }
        for called in [call.function, call.custom].into_iter().flatten() {
            if let ParsedFunction::Object { name: Some(TextLength::Text(name)), arguments, .. } = called {
                let arguments = if let Some(TextLength::Text(bytes)) = arguments { bytes } else { 0 };
                self.conversation.tally.bytes += name + arguments;
            }
        }
        Ok(())
    }

    fn mistake(&self, call: &ParsedCall<'_>) -> Option<Invalid> {
        let item = MESSAGES.item(self.message);
        let calls = item.member("tool_calls");
        let path = calls.item(self.call);
        string(call.id.map(|id| id.length), &path.member("id")).or_else(|| {
            let (called, member, arguments_of) = match call.kind {
                CallKind::Custom => (call.custom, "custom", "input"),
                _ => (call.function, "function", "arguments"),
            };
            let path = path.member(member);
            match called {
                None | Some(ParsedFunction::Other(JsonType::Null)) => Some(fault::required(&path)),
                Some(ParsedFunction::Other(kind)) => Some(fault::wrong_type(&path, "an object", kind)),
                Some(ParsedFunction::Twice(name)) => Some(fault::given_twice(&path.member(name))),
                Some(ParsedFunction::Object { name, arguments }) => {
                    string(name, &path.member("name")).or_else(|| string(arguments, &path.member(arguments_of)))
                }
            }
        })
    }

    fn refuse(self, word: impl FnOnce(&Path<'_>) -> Invalid) -> Stopped {
        let invalid = self.at(word);
        self.conversation.stop(invalid)
    }

    fn at(&self, word: impl FnOnce(&Path<'_>) -> Invalid) -> Invalid {
        let item = MESSAGES.item(self.message);
        let calls = item.member("tool_calls");
        word(&calls.item(self.call))
    }
}

fn unsupported(call: &Path<'_>) -> Invalid {
    let message = "Only tool calls of the types 'function' and 'custom' are supported.";
    fault::refused(&call.member("type"), message)
}

/// The mistake of a required string that is none.
fn string(value: Option<TextLength>, path: &Path<'_>) -> Option<Invalid> {
    match value {
        Some(TextLength::Text(_)) => None,
        None | Some(TextLength::Other(JsonType::Null)) => Some(fault::required(path)),
        Some(TextLength::Other(kind)) => Some(fault::wrong_type(path, "a string", kind)),
    }
}

/// The `id` of a call.
#[derive(Debug, Clone, Copy)]
struct CallId<'a> {
    length: TextLength,
    /// As it is written; empty if it is no string.
    written: &'a str,
}

struct CallIdVisitor;

impl<'a> ValueVisitor<'a> for CallIdVisitor {
    type Out = CallId<'a>;

    fn text(self, text: Raw<'a>) -> Result<CallId<'a>, Stopped> {
        Ok(CallId { length: TextLength::Text(text.text_bytes()), written: text.inner_text() })
    }

    fn other(self, got: JsonType) -> Result<CallId<'a>, Stopped> {
        Ok(CallId { length: TextLength::Other(got), written: "" })
    }
}

/// The `type` of a call; null is as good as absent. `None` if it is no string.
struct CallTypeVisitor;

impl ValueVisitor<'_> for CallTypeVisitor {
    type Out = Option<CallKind>;

    fn text(self, text: Raw<'_>) -> Result<Option<CallKind>, Stopped> {
        Ok(Some(match text.text().as_deref() {
            Some("function") => CallKind::Function,
            Some("custom") => CallKind::Custom,
            _ => CallKind::Unknown,
        }))
    }

    fn other(self, got: JsonType) -> Result<Option<CallKind>, Stopped> {
        Ok((got == JsonType::Null).then_some(CallKind::Function))
    }
}

/// The `function` of a call.
#[derive(Debug, Clone, Copy)]
enum ParsedFunction {
    /// It is an object with these members.
    Object { name: Option<TextLength>, arguments: Option<TextLength> },
    /// This member stands in it twice.
    Twice(&'static str),
    /// It is something else.
    Other(JsonType),
}

#[derive(Clone, Copy)]
enum FunctionKey {
    Name,
    Arguments,
    Other,
}

impl FunctionKey {
    fn of(key: Raw<'_>) -> FunctionKey {
        match &*key.name() {
            b"name" => FunctionKey::Name,
            b"arguments" | b"input" => FunctionKey::Arguments,
            _ => FunctionKey::Other,
        }
    }
}

struct FunctionVisitor;

impl<'a> ValueVisitor<'a> for FunctionVisitor {
    type Out = ParsedFunction;

    fn other(self, got: JsonType) -> Result<ParsedFunction, Stopped> {
        Ok(ParsedFunction::Other(got))
    }

    fn object(self, mut members: ObjectReader<'_, 'a>) -> Result<ParsedFunction, Stopped> {
        let (mut name, mut arguments, mut twice) = (None, None, None);
        while let Some(key) = members.key()?.map(FunctionKey::of) {
            let (slot, known) = match key {
                FunctionKey::Name => (&mut name, "name"),
                FunctionKey::Arguments => (&mut arguments, "arguments"),
                FunctionKey::Other => {
                    members.raw()?;
                    continue;
                }
            };
            if slot.replace(members.value(LengthVisitor)?).is_some() {
                twice = Some(known);
            }
        }
        Ok(twice.map_or(ParsedFunction::Object { name, arguments }, ParsedFunction::Twice))
    }
}
