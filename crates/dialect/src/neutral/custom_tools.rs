//! Custom tools at upstreams that know functions only: a tool with free-form input is declared as a function with one text.

use std::borrow::Cow;

use bytes::BytesMut;

use super::{
    conversation::{Tool, ToolKind},
    text::EscapedText,
    unsupported_fields::UnsupportedFields,
};
use crate::json::{Raw, push_string_member};

/// The schema of the function that stands for a custom tool.
const INPUT_SCHEMA: &str =
    "{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},\"required\":[\"input\"]}";

impl<'a> Tool<'a> {
    /// Appends the description of the function that the tool becomes, unless it is blank, which some providers refuse. That of
    /// a custom tool ends with the grammar of its input.
    pub(crate) fn push_description(&self, out: &mut BytesMut, unsupported: &mut UnsupportedFields) {
        if self.kind == ToolKind::Function {
            if let Some(description) = self.description.as_ref().filter(|text| !text.is_blank()) {
                description.push_member(out, b"description");
            }
            return;
        }
        unsupported.emulate("tools[].custom");
        let description = self.description.as_ref().map_or(Cow::Borrowed(""), EscapedText::unescaped);
        let parts = [&*description, &*grammar(self.grammar)];
        let parts: Vec<&str> = parts.into_iter().filter(|text| !text.is_empty()).collect();
        if !parts.is_empty() {
            push_string_member(out, b"description", &parts.join("\n"));
        }
    }

    /// The schema of the function that the tool becomes. The decoders turn calls of a custom tool back.
    pub(crate) fn function_schema(&self) -> Option<Raw<'a>> {
        if self.kind == ToolKind::Custom { Some(Raw::own(INPUT_SCHEMA)) } else { self.parameters }
    }
}

/// The free-form input in the arguments of a function that stands for a custom tool; arguments of another form as they are.
pub(crate) fn custom_input(arguments: &str) -> EscapedText<'static> {
    let input = Raw::whole(arguments).ok().and_then(|value| value.member(b"input")).and_then(EscapedText::read);
    input.map_or_else(|| EscapedText::escaping(arguments), EscapedText::into_owned)
}

/// A sentence about the grammar of the input; empty without one. Chat wraps the grammar in another object.
fn grammar(format: Option<Raw<'_>>) -> String {
    let text = |name: &[u8]| {
        let format = format?;
        let holder = format.member(b"grammar").filter(|grammar| grammar.is_object()).unwrap_or(format);
        holder.member(name)?.text()
    };
    let Some(definition) = text(b"definition") else { return String::new() };
    let syntax = text(b"syntax").map(|syntax| format!("{syntax} ")).unwrap_or_default();
    format!("The input must match this {syntax}grammar:\n{definition}")
}
