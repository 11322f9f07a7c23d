//! Custom tools at upstreams that know functions only: a tool with free-form input is declared as a function with one text.

use std::borrow::Cow;

use super::{
    conversation::Tool,
    text::{EscapedText, json_value},
};
use crate::json::Raw;

/// The schema of the function that stands for a custom tool.
pub(crate) const CUSTOM_INPUT_SCHEMA: &[u8] =
    b"{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},\"required\":[\"input\"]}";

/// The description of the function that stands for a custom tool: what the tool does, and the grammar of its input. Empty
/// if there is neither.
pub(crate) fn description_of_custom(tool: &Tool<'_>) -> String {
    let description = tool.description.as_ref().map_or(Cow::Borrowed(""), EscapedText::unescaped);
    let parts = [&*description, &*grammar(tool.grammar)];
    let parts: Vec<&str> = parts.into_iter().filter(|text| !text.is_empty()).collect();
    parts.join("\n")
}

/// The free-form input in the arguments of a function that stands for a custom tool; arguments of another form as they are.
pub(crate) fn custom_input(arguments: &str) -> EscapedText<'static> {
    let input = json_value(arguments).and_then(|value| value.member(b"input")).and_then(EscapedText::of);
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
