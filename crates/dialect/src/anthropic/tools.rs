//! `tools` and `tool_choice`.

use bytes::{BufMut as _, BytesMut};

use super::cache_breakpoints::CacheBreakpoints;
use crate::{
    claude::{
        models::Capabilities,
        schema::{self, object_schema},
    },
    json::{Comma, push_member},
    neutral::{Conversation, Tool, ToolChoice, ToolNames, UnsupportedFields},
};

/// The tools to declare, and which of them the model may or must call.
#[derive(Debug)]
pub(super) struct ToolPlan<'c, 'a> {
    pub(super) tools: Vec<&'c Tool<'a>>,
    choice: &'c ToolChoice<'a>,
    /// Whether the client allows one call at most.
    is_single: bool,
}

impl<'c, 'a> ToolPlan<'c, 'a> {
    pub(super) fn new(
        conversation: &'c Conversation<'a>,
        capabilities: &Capabilities,
        unsupported: &mut UnsupportedFields,
    ) -> ToolPlan<'c, 'a> {
        let (tools, mut choice) = conversation.allowed_tools(unsupported);
        if choice.forces() && (tools.is_empty() || !capabilities.forces_tools) {
            unsupported.drop("tool_choice");
            choice = &ToolChoice::Auto;
        }
        ToolPlan { tools, choice, is_single: conversation.parallel_tool_calls == Some(false) }
    }

    /// Whether the model must call a tool.
    pub(super) fn forces_tool(&self) -> bool {
        self.choice.forces()
    }

    /// Appends `,"tools":[…],"tool_choice":{…}`.
    pub(super) fn push(
        &self,
        capabilities: &Capabilities,
        names: &ToolNames,
        breakpoints: &mut CacheBreakpoints,
        out: &mut BytesMut,
        unsupported: &mut UnsupportedFields,
    ) {
        if self.tools.is_empty() {
            return;
        }
        push_member(out, b"tools", b"[");
        for tool in self.tools.iter() {
            push!(out; Comma, br#"{"name":"#, names.sent(&tool.name));
            push_definition(tool, capabilities, out, unsupported);
            breakpoints.push(tool.cache_control, "tools[]", out, unsupported);
            out.put_u8(b'}');
        }
        out.put_u8(b']');
        self.push_choice(names, out);
    }

    fn push_choice(&self, names: &ToolNames, out: &mut BytesMut) {
        let kind: &[u8] = match self.choice {
            ToolChoice::Unspecified if !self.is_single => return,
            ToolChoice::Unspecified | ToolChoice::Auto | ToolChoice::Allowed { .. } => b"\"auto\"",
            ToolChoice::None => b"\"none\"",
            ToolChoice::Required => b"\"any\"",
            ToolChoice::Named(_) => b"\"tool\"",
        };
        push!(out; br#","tool_choice":{"type":"#, kind);
        if let ToolChoice::Named(name) = self.choice {
            names.sent(name).push_member(out, b"name");
        }
        if self.is_single && !matches!(self.choice, ToolChoice::None) {
            push_member(out, b"disable_parallel_tool_use", b"true");
        }
        out.put_u8(b'}');
    }
}

/// Appends description, schema and strictness of a tool.
fn push_definition(
    tool: &Tool<'_>,
    capabilities: &Capabilities,
    out: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) {
    tool.push_description(out, unsupported);
    // The API follows a schema strictly only in the form that it also wants for answers.
    let strict = tool.strict == Some(true);
    let lowered = tool
        .parameters
        .filter(|_| strict && capabilities.structured_output)
        .and_then(|schema| schema::lower(schema).ok());
    match lowered {
        Some(lowered) => push!(out; br#","input_schema":"#, lowered, br#","strict":true"#),
        None => {
            if strict {
                unsupported.drop("tools[].function.strict");
            }
            push_member(out, b"input_schema", &object_schema(tool.function_schema(), unsupported));
        }
    }
}
