//! Tools of a chat body.

use crate::{
    json::Raw,
    neutral::{EscapedText, Tool, ToolChoice, ToolKind, UnsupportedFields},
};

/// The elements of `tools`. `unsupported` gets members without a neutral form.
pub(super) fn declared<'a>(tools: Option<Raw<'a>>, unsupported: &mut UnsupportedFields) -> Vec<Tool<'a>> {
    tools.into_iter().flat_map(Raw::elements).filter_map(|value| tool(value, unsupported)).collect()
}

fn tool<'a>(value: Raw<'a>, unsupported: &mut UnsupportedFields) -> Option<Tool<'a>> {
    let names: [&[u8]; 4] = [b"type", b"function", b"custom", b"cache_control"];
    let [_, declared, custom, breakpoint] = unsupported.pick("tools[]", value.members(), names);
    let cache_control = breakpoint.filter(|breakpoint| !breakpoint.is_null());
    if let Some(custom) = custom.filter(|custom| custom.is_object()) {
        let names: [&[u8]; 3] = [b"name", b"description", b"format"];
        let [name, description, format] = unsupported.pick("tools[].custom", custom.members(), names);
        return Some(Tool {
            name: name.and_then(EscapedText::read)?,
            description: description.and_then(EscapedText::read),
            parameters: None,
            strict: None,
            kind: ToolKind::Custom,
            grammar: format.filter(|format| format.is_object()),
            cache_control,
        });
    }
    let tool = function(declared?, "tools[].function", unsupported)?;
    Some(Tool { cache_control: cache_control.or(tool.cache_control), ..tool })
}

/// A declared function, which stands at `path`.
pub(super) fn function<'a>(value: Raw<'a>, path: &str, unsupported: &mut UnsupportedFields) -> Option<Tool<'a>> {
    let names: [&[u8]; 5] = [b"name", b"description", b"parameters", b"strict", b"cache_control"];
    let [name, description, parameters, strict, breakpoint] = unsupported.pick(path, value.members(), names);
    Some(Tool {
        name: name.and_then(EscapedText::read)?,
        description: description.and_then(EscapedText::read),
        parameters: parameters.filter(|schema| schema.is_object()),
        strict: strict.filter(|strict| !strict.is_null()).map(|strict| strict.bytes() == b"true"),
        kind: ToolKind::Function,
        grammar: None,
        cache_control: breakpoint.filter(|breakpoint| !breakpoint.is_null()),
    })
}

/// `tool_choice`, or the deprecated `function_call`.
pub(crate) fn choice(value: Raw<'_>) -> ToolChoice<'_> {
    if let Some(word) = value.text() {
        return match &*word {
            "none" => ToolChoice::None,
            "required" | "any" => ToolChoice::Required,
            _ => ToolChoice::Auto,
        };
    }
    if let Some(allowed) = value.member(b"allowed_tools") {
        let name = |tool: Raw<'_>| named(tool).map(EscapedText::into_owned);
        let names = allowed.elements_of(b"tools").filter_map(name).collect();
        let required = allowed.member(b"mode").and_then(Raw::text).as_deref() == Some("required");
        return ToolChoice::Allowed { required, names };
    }
    named(value).map_or(ToolChoice::Auto, ToolChoice::Named)
}

/// The name in `{"function":{"name":…}}`, `{"custom":{"name":…}}` or `{"name":…}`.
fn named(value: Raw<'_>) -> Option<EscapedText<'_>> {
    let holder = value.member(b"function").or_else(|| value.member(b"custom")).unwrap_or(value);
    holder.member(b"name").and_then(EscapedText::read)
}
