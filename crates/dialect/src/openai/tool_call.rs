//! One element of `tool_calls`, in a delta or in a message: read leniently, written in the regular form.
//!
//! The bytes of the arguments' JSON string are copied; how arguments become one object is in
//! [`ToolArguments`](crate::neutral::ToolArguments). Which call of a stream an element belongs to is decided in
//! [`super::tool_calls`].

use bytes::{BufMut as _, BytesMut};

use crate::{
    json::{Raw, push_member},
    neutral::{CLIENT_IDS, EscapedText, ToolCallPiece, ToolKind, settled_arguments},
};

/// The place that a legacy `function_call` takes among the upstream's indices.
pub(super) const LEGACY: u64 = u64::MAX;

/// Whether an id, the inside of its JSON string, is one that every client and every upstream takes: another is replaced.
pub(super) fn is_portable_id(id: &[u8]) -> bool {
    std::str::from_utf8(id).is_ok_and(|id| CLIENT_IDS.fits(id))
}

/// What one element says.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ToolCallPart<'a> {
    /// Its place among the calls, if the upstream gives one.
    pub(super) index: Option<u64>,
    /// Its type, if the upstream gives one.
    kind: Option<Raw<'a>>,
    /// Its id, not empty.
    pub(super) id: Option<Raw<'a>>,
    /// The function's name, not empty.
    pub(super) name: Option<Raw<'a>>,
    /// All or some of the arguments; a string where the upstream keeps to the convention.
    pub(super) arguments: Option<Raw<'a>>,
    /// Whether it calls a custom tool: `custom` and `input` in the place of `function` and `arguments`.
    pub(super) is_custom: bool,
    /// Its other members, for those who know them.
    others: ExtraMembers<'a>,
}

/// Where members of other names stand.
#[derive(Debug, Clone, Copy, Default)]
struct ExtraMembers<'a> {
    element: Option<Raw<'a>>,
    function: Option<Raw<'a>>,
}

impl<'a> ToolCallPart<'a> {
    /// Reads an element; `None` when it is no object.
    pub(super) fn read(element: Raw<'a>) -> Option<ToolCallPart<'a>> {
        let mut part = ToolCallPart::default();
        for (key, value) in element.members() {
            match &*key.name() {
                b"index" => part.index = value.count(),
                b"id" => part.id = value.filled_string(),
                b"type" => part.kind = value.filled_string(),
                b"function" => part.read_function(value, b"arguments"),
                b"custom" if value.is_object() => {
                    part.is_custom = true;
                    part.read_function(value, b"input");
                }
                _ => part.others.element = Some(element),
            }
        }
        element.is_object().then_some(part)
    }

    /// Reads a legacy `function_call`.
    pub(super) fn read_legacy(function: Raw<'a>) -> ToolCallPart<'a> {
        let mut part = ToolCallPart { index: Some(LEGACY), ..ToolCallPart::default() };
        part.read_function(function, b"arguments");
        part
    }

    fn read_function(&mut self, function: Raw<'a>, arguments: &[u8]) {
        for (key, value) in function.members() {
            match &*key.name() {
                b"name" => self.name = value.filled_string(),
                name if name == arguments => self.arguments = Some(value).filter(|value| !value.is_null()),
                _ => self.others.function = Some(function),
            }
        }
    }

    /// Whether it calls a function, as far as it says.
    pub(super) fn is_function(&self) -> bool {
        !self.is_custom && self.kind.is_none_or(|kind| kind.inner() == b"function")
    }

    /// Whether it keeps to the convention of a whole call, so that it may be copied. Calls of another type
    /// than `function` have their own convention.
    pub(super) fn is_whole(&self) -> bool {
        let is_function = self.kind.is_some_and(|kind| kind.inner() == b"function");
        let names_it = self.name.is_some() && self.arguments.is_some_and(Raw::is_string);
        self.id.is_some_and(|id| is_portable_id(id.inner())) && self.kind.is_some() && (names_it || !is_function)
    }

    /// UTF-8 bytes the model produced for it.
    pub(super) fn text_bytes(&self) -> u64 {
        let arguments =
            self.arguments.map_or(0, |raw| if raw.is_string() { raw.text_bytes() } else { raw.bytes().len() });
        (self.name.map_or(0, Raw::text_bytes) + arguments) as u64
    }

    /// Whether it has members of other names.
    pub(super) fn has_others(&self) -> bool {
        self.others.element.is_some() || self.others.function.is_some()
    }

    /// The inside of the arguments' JSON string. Upstreams that send an object mean its text.
    pub(super) fn arguments_text(&self) -> EscapedText<'a> {
        match self.arguments {
            None => EscapedText::plain(""),
            Some(arguments) => {
                EscapedText::read(arguments).unwrap_or_else(|| EscapedText::escaping(arguments.written()))
            }
        }
    }

    /// What it says of a call, but for members of other names.
    pub(super) fn piece(&self) -> ToolCallPiece<'a> {
        ToolCallPiece {
            index: self.index,
            id: self.id.and_then(EscapedText::read),
            name: self.name.and_then(EscapedText::read),
            kind: if self.is_custom { ToolKind::Custom } else { ToolKind::Function },
            arguments: self.arguments_text(),
        }
    }

    /// The arguments of a whole call, if they have to be written anew to be one object.
    pub(super) fn settled(&self) -> Option<BytesMut> {
        if self.is_function() { settled_arguments(self.arguments_text().bytes()) } else { None }
    }

    /// Appends the members of other names, of the element and of its function.
    pub(super) fn push_others(&self, out: &mut BytesMut) {
        push_others(self.others.element, &[b"index", b"id", b"type", b"function", b"custom"], out)
    }

    /// Appends the members of other names of the function.
    pub(super) fn push_function_others(&self, out: &mut BytesMut) {
        push_others(self.others.function, &[b"name", b"arguments", b"input"], out)
    }
}

/// How a call is introduced: once, with everything that names it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolCallHead<'a> {
    /// Its place; only chunks have one.
    pub(super) index: Option<usize>,
    /// Its id, as the inside of a JSON string.
    pub(super) id: &'a [u8],
    /// The function's name, as the inside of a JSON string.
    pub(super) name: &'a [u8],
    /// Its arguments so far, as the inside of a JSON string.
    pub(super) arguments: &'a [u8],
    /// Whether it calls a custom tool.
    pub(super) is_custom: bool,
}

/// The deprecated form of a call: one function without an id.
#[derive(Debug, Default)]
pub(super) struct FunctionCall {
    /// The inside of the JSON string of the name, or of a piece of it.
    pub(super) name: Option<Vec<u8>>,
    /// The inside of the JSON string of the arguments.
    pub(super) arguments: BytesMut,
}

impl FunctionCall {
    /// The value of `function_call`. `None` if nothing is known of the call.
    pub(super) fn value(&self) -> Option<BytesMut> {
        let mut out = BytesMut::from(&b"{"[..]);
        if let Some(name) = &self.name {
            push!(out; br#""name":""#, name, br#"","#);
        } else if self.arguments.is_empty() {
            return None;
        }
        push!(out; br#""arguments":""#, self.arguments, br#""}"#);
        Some(out)
    }
}

/// Appends what is called, with the other members of `part`, and ends the element.
fn push_called(is_custom: bool, name: Option<&[u8]>, arguments: &[u8], part: &ToolCallPart<'_>, out: &mut BytesMut) {
    out.put_slice(if is_custom { b",\"custom\":{" } else { b",\"function\":{" });
    if let Some(name) = name {
        push!(out; br#""name":""#, name, br#"","#);
    }
    out.put_slice(if is_custom { b"\"input\":\"" } else { b"\"arguments\":\"" });
    push!(out; arguments, br#"""#);
    part.push_function_others(out);
    out.put_u8(b'}');
    part.push_others(out);
    out.put_u8(b'}');
}

impl ToolCallHead<'_> {
    /// Appends the whole element, with the thought signature of the call where clients of Google's compatible endpoint look for it.
    pub(super) fn push_signed(&self, signature: Option<&EscapedText<'_>>, out: &mut BytesMut) {
        self.push(&ToolCallPart::default(), out);
        if let Some(signature) = signature {
            out.truncate(out.len() - 1);
            push!(out; br#","extra_content":{"google":{"thought_signature":"#, signature, b"}}}");
        }
    }

    /// Appends the whole element, with the other members of `part`.
    pub(super) fn push(&self, part: &ToolCallPart<'_>, out: &mut BytesMut) {
        out.put_u8(b'{');
        if let Some(index) = self.index {
            push!(out; br#""index":"#, index as u64, b",");
        }
        push!(out; br#""id":""#, self.id);
        out.put_slice(if self.is_custom { b"\",\"type\":\"custom\"" } else { b"\",\"type\":\"function\"" });
        push_called(self.is_custom, Some(self.name), self.arguments, part, out);
    }
}

/// A later piece of a call.
#[derive(Debug)]
pub(super) struct MoreOfCall<'a> {
    pub(super) place: usize,
    pub(super) is_custom: bool,
    /// The inside of the JSON string of a further piece of its name.
    pub(super) name: Option<&'a str>,
    /// The inside of the JSON string of its arguments; may be empty.
    pub(super) arguments: &'a [u8],
}

impl MoreOfCall<'_> {
    /// Appends the element, with the other members of `part`.
    pub(super) fn push(&self, part: &ToolCallPart<'_>, out: &mut BytesMut) {
        push!(out; br#"{"index":"#, self.place as u64);
        push_called(self.is_custom, self.name.map(str::as_bytes), self.arguments, part, out);
    }
}

fn push_others(object: Option<Raw<'_>>, known: &[&[u8]], out: &mut BytesMut) {
    for (key, value) in object.into_iter().flat_map(Raw::members) {
        if !known.contains(&&*key.name()) {
            push_member(out, key.inner(), value.bytes());
        }
    }
}
