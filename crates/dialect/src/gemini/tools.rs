//! `tools` and `toolConfig`.

use bytes::{BufMut as _, BytesMut};

use super::{models::Capabilities, schema};
use crate::{
    json::{Comma, Raw, push_comma, push_member},
    neutral::{Conversation, EscapedText, Tool, ToolChoice, ToolNames, UnsupportedFields, with_lone_references},
};

/// The functions to declare, and which of them the model may or must call.
pub(super) struct ToolPlan<'c, 'a> {
    tools: Vec<&'c Tool<'a>>,
    mode: Mode,
    /// The only functions that may be called.
    allowed: Vec<&'c EscapedText<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Unsaid,
    Auto,
    None,
    Any,
}

impl<'c, 'a> ToolPlan<'c, 'a> {
    pub(super) fn new(conversation: &'c Conversation<'a>, unsupported: &mut UnsupportedFields) -> ToolPlan<'c, 'a> {
        let mut tools: Vec<&Tool<'_>> = conversation.tools.iter().collect();
        let mut allowed = Vec::new();
        let mut mode = match &conversation.tool_choice {
            ToolChoice::Unspecified => Mode::Unsaid,
            ToolChoice::Auto => Mode::Auto,
            ToolChoice::None => Mode::None,
            ToolChoice::Required => Mode::Any,
            ToolChoice::Named(name) => {
                allowed.push(name);
                Mode::Any
            }
            ToolChoice::Allowed { required: true, names } => {
                allowed.extend(names);
                Mode::Any
            }
            ToolChoice::Allowed { required: false, .. } => {
                (tools, _) = conversation.allowed_tools(unsupported);
                Mode::Auto
            }
        };
        if tools.is_empty() && mode == Mode::Any {
            unsupported.drop("tool_choice");
            mode = Mode::Unsaid;
        }
        ToolPlan { tools, mode, allowed }
    }

    /// Appends `,"tools":[…],"toolConfig":{…}`.
    pub(super) fn push(
        &self,
        names: &ToolNames,
        capabilities: Capabilities,
        out: &mut BytesMut,
        unsupported: &mut UnsupportedFields,
    ) {
        if self.tools.is_empty() {
            return;
        }
        push_member(out, b"tools", b"[{\"functionDeclarations\":[");
        for tool in self.tools.iter() {
            push_comma(out);
            push_declaration(tool, names, capabilities, out, unsupported);
        }
        out.put_slice(b"]}]");
        let wants_strict = self.tools.iter().any(|tool| tool.strict == Some(true));
        let is_strict = wants_strict && capabilities.validates_calls;
        if wants_strict && !is_strict {
            unsupported.drop("tools[].function.strict");
        }
        let mode: &[u8] = match self.mode {
            Mode::Unsaid | Mode::Auto if is_strict => b"VALIDATED",
            Mode::Unsaid => return,
            Mode::Auto => b"AUTO",
            Mode::None => b"NONE",
            Mode::Any => b"ANY",
        };
        push!(out; br#","toolConfig":{"functionCallingConfig":{"mode":""#, mode, br#"""#);
        if !self.allowed.is_empty() {
            push_member(out, b"allowedFunctionNames", b"[");
            for name in self.allowed.iter() {
                push!(out; Comma, names.sent(name));
            }
            out.put_u8(b']');
        }
        out.put_slice(b"}}");
    }
}

fn push_declaration(
    tool: &Tool<'_>,
    names: &ToolNames,
    capabilities: Capabilities,
    out: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) {
    push!(out; br#"{"name":"#, names.sent(&tool.name));
    if tool.cache_control.is_some() {
        unsupported.drop("tools[].cache_control");
    }
    tool.push_description(out, unsupported);
    // The API wants the schema of an object.
    if let Some(schema) = tool.function_schema().filter(|schema| schema.is_filled()) {
        push_parameters(schema, capabilities, out, unsupported);
    }
    out.put_u8(b'}');
}

/// Appends the schema of the arguments, as it is where the model takes it so.
fn push_parameters(
    schema: Raw<'_>,
    capabilities: Capabilities,
    out: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) {
    if capabilities.json_schema {
        let schema = with_lone_references(schema, "tools[].function.parameters", unsupported);
        return push_member(out, b"parametersJsonSchema", &schema);
    }
    match schema::lower(schema) {
        Some(lowered) => push_member(out, b"parameters", &lowered),
        // A function without arguments has no schema there.
        None if schema::has_no_members(schema) => {}
        None => unsupported.drop("tools[].function.parameters"),
    }
}
