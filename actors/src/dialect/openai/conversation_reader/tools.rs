//! Tools of a chat body.

use crate::dialect::{
    json::Raw,
    neutral::{EscapedText, Tool, ToolChoice, ToolKind},
};

/// The elements of `tools`.
pub(super) fn declared(tools: Option<Raw<'_>>) -> Vec<Tool<'_>> {
    tools.into_iter().flat_map(Raw::elements).filter_map(tool).collect()
}

fn tool(value: Raw<'_>) -> Option<Tool<'_>> {
    let cache_control = value.member(b"cache_control").filter(|mark| !mark.is_null());
    if let Some(custom) = value.member(b"custom").filter(|custom| custom.is_object()) {
        return Some(Tool {
            name: text(custom, b"name")?,
            description: text(custom, b"description"),
            parameters: None,
            strict: None,
            kind: ToolKind::Custom,
            grammar: custom.member(b"format").filter(|format| format.is_object()),
            cache_control,
        });
    }
    let tool = function(value.member(b"function")?)?;
    Some(Tool { cache_control: cache_control.or(tool.cache_control), ..tool })
}

/// A declared function.
pub(super) fn function(value: Raw<'_>) -> Option<Tool<'_>> {
    Some(Tool {
        name: text(value, b"name")?,
        description: text(value, b"description"),
        parameters: value.member(b"parameters").filter(|schema| schema.is_object()),
        strict: value.member(b"strict").filter(|strict| !strict.is_null()).map(|strict| strict.bytes() == b"true"),
        kind: ToolKind::Function,
        grammar: None,
        cache_control: value.member(b"cache_control").filter(|mark| !mark.is_null()),
    })
}

/// `tool_choice`, or the deprecated `function_call`.
pub(super) fn choice(value: Raw<'_>) -> ToolChoice<'_> {
    if let Some(word) = value.text() {
        return match &*word {
            "none" => ToolChoice::None,
            "required" | "any" => ToolChoice::Required,
            _ => ToolChoice::Auto,
        };
    }
    if let Some(allowed) = value.member(b"allowed_tools") {
        let name = |tool: Raw<'_>| named(tool).map(EscapedText::into_owned);
        let names = allowed.member(b"tools").into_iter().flat_map(Raw::elements).filter_map(name).collect();
        let required = allowed.member(b"mode").and_then(Raw::text).as_deref() == Some("required");
        return ToolChoice::Allowed { required, names };
    }
    named(value).map_or(ToolChoice::Auto, ToolChoice::Named)
}

/// The name in `{"function":{"name":…}}`, `{"custom":{"name":…}}` or `{"name":…}`.
fn named(value: Raw<'_>) -> Option<EscapedText<'_>> {
    let holder = value.member(b"function").or_else(|| value.member(b"custom")).unwrap_or(value);
    text(holder, b"name")
}

fn text<'a>(object: Raw<'a>, name: &[u8]) -> Option<EscapedText<'a>> {
    object.member(name).and_then(EscapedText::of)
}
