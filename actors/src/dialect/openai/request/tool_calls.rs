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
    shape::{As, Measure, Measured, Met, Shape},
};
use crate::domain::Invalid;

/// The value of `tool_calls`: how many there are, or `None` when it is null.
pub(super) struct CallList<'c, 'a> {
    pub(super) conversation: &'c mut Conversation<'a>,
    /// Position of the message.
    pub(super) message: usize,
}

impl<'a> Shape<'a> for CallList<'_, 'a> {
    type Out = Option<usize>;

    fn null<E: Error>(self) -> Result<Option<usize>, E> {
        Ok(None)
    }

    fn other<E: Error>(self, got: JsonType) -> Result<Option<usize>, E> {
        let item = MESSAGES.item(self.message);
        Err(self.conversation.stop(fault::wrong_type(&item.member("tool_calls"), "an array", got)))
    }

    fn array<A: SeqAccess<'a>>(self, mut items: A) -> Result<Option<usize>, A::Error> {
        let CallList { conversation, message } = self;
        let mut call = 0;
        while let Some(()) =
            items.next_element_seed(As(CallShape { conversation: &mut *conversation, message, call }))?
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
    #[serde(other)]
    Other,
}

/// One call.
struct CallShape<'c, 'a> {
    conversation: &'c mut Conversation<'a>,
    message: usize,
    call: usize,
}

/// What a call says of itself.
#[derive(Default)]
struct Call {
    id: Option<Measured>,
    function: Option<FunctionSeen>,
}

impl<'a> Shape<'a> for CallShape<'_, 'a> {
    type Out = ();

    fn other<E: Error>(self, got: JsonType) -> Result<(), E> {
        Err(self.refuse(|path| fault::wrong_type(path, "an object", got)))
    }

    fn object<A: MapAccess<'a>>(self, mut members: A) -> Result<(), A::Error> {
        let mut met = Met::default();
        let mut call = Call::default();
        while let Some(key) = members.next_key::<CallKey>()? {
            let name = match key {
                CallKey::Id => "id",
                CallKey::Type => "type",
                CallKey::Function => "function",
                CallKey::Other => {
                    members.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if !met.first_time(key as u8) {
                return Err(self.refuse(|path| fault::given_twice(&path.member(name))));
            }
            match name {
                "id" => call.id = Some(members.next_value_seed(As(Measure))?),
                "function" => call.function = Some(members.next_value_seed(As(FunctionShape))?),
                _ => {
                    if !members.next_value_seed(As(IsFunction))? {
                        return Err(self.refuse(|path| {
                            fault::refused(&path.member("type"), "Only tool calls of type 'function' are supported.")
                        }));
                    }
                }
            }
        }
        self.judge(&call)
    }
}

impl CallShape<'_, '_> {
    fn judge<E: Error>(self, call: &Call) -> Result<(), E> {
        if let Some(invalid) = self.mistake(call) {
            return Err(self.conversation.stop(invalid));
        }
        if let Some(FunctionSeen::Object { name: Some(Measured::Text(name)), arguments, .. }) = &call.function {
            let arguments = if let Some(Measured::Text(bytes)) = arguments { *bytes } else { 0 };
            self.conversation.tally.bytes += name + arguments;
        }
        Ok(())
    }

    fn mistake(&self, call: &Call) -> Option<Invalid> {
        let item = MESSAGES.item(self.message);
        let calls = item.member("tool_calls");
        let path = calls.item(self.call);
        string(call.id, &path.member("id")).or_else(|| {
            let path = path.member("function");
            match call.function {
                None | Some(FunctionSeen::Other(JsonType::Null)) => Some(fault::required(&path)),
                Some(FunctionSeen::Other(kind)) => Some(fault::wrong_type(&path, "an object", kind)),
                Some(FunctionSeen::Twice(name)) => Some(fault::given_twice(&path.member(name))),
                Some(FunctionSeen::Object { name, arguments }) => {
                    string(name, &path.member("name")).or_else(|| string(arguments, &path.member("arguments")))
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
fn string(value: Option<Measured>, path: &Path<'_>) -> Option<Invalid> {
    match value {
        Some(Measured::Text(_)) => None,
        None | Some(Measured::Other(JsonType::Null)) => Some(fault::required(path)),
        Some(Measured::Other(kind)) => Some(fault::wrong_type(path, "a string", kind)),
    }
}

/// Whether a `type` is `function`, or null as good as absent.
struct IsFunction;

impl Shape<'_> for IsFunction {
    type Out = bool;

    fn text<E: Error>(self, text: &str) -> Result<bool, E> {
        Ok(text == "function")
    }

    fn other<E: Error>(self, got: JsonType) -> Result<bool, E> {
        Ok(got == JsonType::Null)
    }
}

/// The `function` of a call.
#[derive(Debug, Clone, Copy)]
enum FunctionSeen {
    /// It is an object with these members.
    Object { name: Option<Measured>, arguments: Option<Measured> },
    /// This member stands in it twice.
    Twice(&'static str),
    /// It is something else.
    Other(JsonType),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum FunctionKey {
    Name,
    Arguments,
    #[serde(other)]
    Other,
}

struct FunctionShape;

impl<'a> Shape<'a> for FunctionShape {
    type Out = FunctionSeen;

    fn other<E: Error>(self, got: JsonType) -> Result<FunctionSeen, E> {
        Ok(FunctionSeen::Other(got))
    }

    fn object<A: MapAccess<'a>>(self, mut members: A) -> Result<FunctionSeen, A::Error> {
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
            if slot.replace(members.next_value_seed(As(Measure))?).is_some() {
                twice = Some(known);
            }
        }
        Ok(twice.map_or(FunctionSeen::Object { name, arguments }, FunctionSeen::Twice))
    }
}
