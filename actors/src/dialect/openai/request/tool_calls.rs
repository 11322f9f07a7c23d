//! The tool calls an assistant made earlier in the conversation.
//!
//! Only their frame is checked: identifier, name, and that the arguments are a string. What the string
//! says is between model and client; it passes byte for byte.

use serde::{
    Deserialize,
    de::{Error, IgnoredAny, MapAccess, SeqAccess},
};

use super::{
    conversation::{Conversation, MESSAGES},
    fault,
    json_type::JsonType,
    path::Path,
    value_visitor::{LengthVisitor, SeenKeys, TextLength, ValueVisitor, VisitorSeed},
};
use crate::domain::Invalid;

/// The value of `tool_calls`: how many there are, or `None` when it is null.
pub(super) struct CallListVisitor<'c, 'a> {
    pub(super) conversation: &'c mut Conversation<'a>,
    /// Position of the message.
    pub(super) message: usize,
}

impl<'a> ValueVisitor<'a> for CallListVisitor<'_, 'a> {
    type Out = Option<usize>;

    fn null<E: Error>(self) -> Result<Option<usize>, E> {
        Ok(None)
    }

    fn other<E: Error>(self, got: JsonType) -> Result<Option<usize>, E> {
        let item = MESSAGES.item(self.message);
        Err(self.conversation.stop(fault::wrong_type(&item.member("tool_calls"), "an array", got)))
    }

    fn array<A: SeqAccess<'a>>(self, mut items: A) -> Result<Option<usize>, A::Error> {
        let CallListVisitor { conversation, message } = self;
        let mut call = 0;
        while let Some(()) =
            items.next_element_seed(VisitorSeed(CallVisitor { conversation: &mut *conversation, message, call }))?
        {
            call += 1;
        }
        Ok(Some(call))
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum CallKey {
    Id,
    Type,
    Function,
    Custom,
    #[serde(other)]
    Other,
}

/// One call.
struct CallVisitor<'c, 'a> {
    conversation: &'c mut Conversation<'a>,
    message: usize,
    call: usize,
}

/// What a call says of itself.
#[derive(Default)]
struct ParsedCall {
    id: Option<TextLength>,
    function: Option<ParsedFunction>,
    custom: Option<ParsedFunction>,
    is_custom: bool,
}

impl<'a> ValueVisitor<'a> for CallVisitor<'_, 'a> {
    type Out = ();

    fn other<E: Error>(self, got: JsonType) -> Result<(), E> {
        Err(self.refuse(|path| fault::wrong_type(path, "an object", got)))
    }

    fn object<A: MapAccess<'a>>(self, mut members: A) -> Result<(), A::Error> {
        let mut met = SeenKeys::default();
        let mut call = ParsedCall::default();
        while let Some(key) = members.next_key::<CallKey>()? {
            let name = match key {
                CallKey::Id => "id",
                CallKey::Type => "type",
                CallKey::Function => "function",
                CallKey::Custom => "custom",
                CallKey::Other => {
                    members.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if !met.first_time(key as u8) {
                return Err(self.refuse(|path| fault::given_twice(&path.member(name))));
            }
            match name {
                "id" => call.id = Some(members.next_value_seed(VisitorSeed(LengthVisitor))?),
                "function" => call.function = Some(members.next_value_seed(VisitorSeed(FunctionVisitor))?),
                "custom" => call.custom = Some(members.next_value_seed(VisitorSeed(FunctionVisitor))?),
                _ => {
                    let Some(is_custom) = members.next_value_seed(VisitorSeed(CallTypeVisitor))? else {
                        return Err(self.refuse(|path| {
                            fault::refused(
                                &path.member("type"),
                                "Only tool calls of the types 'function' and 'custom' are supported.",
                            )
                        }));
                    };
                    call.is_custom = is_custom;
                }
            }
        }
        self.judge(&call)
    }
}

impl CallVisitor<'_, '_> {
    fn judge<E: Error>(self, call: &ParsedCall) -> Result<(), E> {
        if let Some(invalid) = self.mistake(call) {
            return Err(self.conversation.stop(invalid));
        }
        let called = if call.is_custom { call.custom } else { call.function };
        if let Some(ParsedFunction::Object { name: Some(TextLength::Text(name)), arguments, .. }) = &called {
            let arguments = if let Some(TextLength::Text(bytes)) = arguments { *bytes } else { 0 };
            self.conversation.tally.bytes += name + arguments;
        }
        Ok(())
    }

    fn mistake(&self, call: &ParsedCall) -> Option<Invalid> {
        let item = MESSAGES.item(self.message);
        let calls = item.member("tool_calls");
        let path = calls.item(self.call);
        string(call.id, &path.member("id")).or_else(|| {
            let (called, member, arguments_of) = match call.is_custom {
                true => (call.custom, "custom", "input"),
                false => (call.function, "function", "arguments"),
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

    fn refuse<E: Error>(self, word: impl FnOnce(&Path<'_>) -> Invalid) -> E {
        let item = MESSAGES.item(self.message);
        let calls = item.member("tool_calls");
        let invalid = word(&calls.item(self.call));
        self.conversation.stop(invalid)
    }
}

/// The mistake of a required string that is none.
fn string(value: Option<TextLength>, path: &Path<'_>) -> Option<Invalid> {
    match value {
        Some(TextLength::Text(_)) => None,
        None | Some(TextLength::Other(JsonType::Null)) => Some(fault::required(path)),
        Some(TextLength::Other(kind)) => Some(fault::wrong_type(path, "a string", kind)),
    }
}

/// Whether a `type` is that of a custom call; null is as good as absent. `None` for a type that is not supported.
struct CallTypeVisitor;

impl ValueVisitor<'_> for CallTypeVisitor {
    type Out = Option<bool>;

    fn text<E: Error>(self, text: &str) -> Result<Option<bool>, E> {
        Ok(["function", "custom"].contains(&text).then_some(text == "custom"))
    }

    fn other<E: Error>(self, got: JsonType) -> Result<Option<bool>, E> {
        Ok((got == JsonType::Null).then_some(false))
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

#[derive(Clone, Copy, Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum FunctionKey {
    Name,
    #[serde(alias = "input")]
    Arguments,
    #[serde(other)]
    Other,
}

struct FunctionVisitor;

impl<'a> ValueVisitor<'a> for FunctionVisitor {
    type Out = ParsedFunction;

    fn other<E: Error>(self, got: JsonType) -> Result<ParsedFunction, E> {
        Ok(ParsedFunction::Other(got))
    }

    fn object<A: MapAccess<'a>>(self, mut members: A) -> Result<ParsedFunction, A::Error> {
        let (mut name, mut arguments, mut twice) = (None, None, None);
        while let Some(key) = members.next_key::<FunctionKey>()? {
            let (slot, known) = match key {
                FunctionKey::Name => (&mut name, "name"),
                FunctionKey::Arguments => (&mut arguments, "arguments"),
                FunctionKey::Other => {
                    members.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if slot.replace(members.next_value_seed(VisitorSeed(LengthVisitor))?).is_some() {
                twice = Some(known);
            }
        }
        Ok(twice.map_or(ParsedFunction::Object { name, arguments }, ParsedFunction::Twice))
    }
}
