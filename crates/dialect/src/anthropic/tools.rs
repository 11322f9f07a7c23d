//! `tools` and `tool_choice`.

use bytes::{BufMut as _, BytesMut};

use super::cache_breakpoints::CacheBreakpoints;
use crate::{
    claude::{
        models::Capabilities,
        schema::{self, object_schema},
    },
    json::{push_comma, push_member, push_string_member},
    neutral::{
        CUSTOM_INPUT_SCHEMA, Conversation, EscapedText, Tool, ToolChoice, ToolKind, ToolNames, UnsupportedFields,
        description_of_custom,
    },
};

/// The tools to declare, and which of them the model may or must call.
#[derive(Debug)]
pub(super) struct ToolPlan<'c, 'a> {
    pub(super) tools: Vec<&'c Tool<'a>>,
    choice: Choice<'c, 'a>,
    /// Whether the client allows one call at most.
    is_single: bool,
}

#[derive(Debug, Clone, Copy)]
enum Choice<'c, 'a> {
    Unsaid,
    Auto,
    None,
    Any,
    Tool(&'c EscapedText<'a>),
}

impl<'c, 'a> ToolPlan<'c, 'a> {
    pub(super) fn new(
        conversation: &'c Conversation<'a>,
        capabilities: &Capabilities,
        unsupported: &mut UnsupportedFields,
    ) -> ToolPlan<'c, 'a> {
        let mut tools: Vec<&Tool<'_>> = conversation.tools.iter().collect();
        let mut choice = match &conversation.tool_choice {
            ToolChoice::Unspecified => Choice::Unsaid,
            ToolChoice::Auto => Choice::Auto,
            ToolChoice::None => Choice::None,
            ToolChoice::Required => Choice::Any,
            ToolChoice::Named(name) => Choice::Tool(name),
            ToolChoice::Allowed { required, names } => {
                unsupported.emulate("tool_choice");
                let is_allowed = |tool: &&Tool<'_>| names.iter().any(|name| name.unescaped() == tool.name.unescaped());
                tools.retain(is_allowed);
                if *required { Choice::Any } else { Choice::Auto }
            }
        };
        let forces = matches!(choice, Choice::Any | Choice::Tool(_));
        if forces && (tools.is_empty() || !capabilities.forces_tools) {
            unsupported.drop("tool_choice");
            choice = Choice::Auto;
        }
        ToolPlan { tools, choice, is_single: conversation.parallel_tool_calls == Some(false) }
    }

    /// Whether the model must call a tool.
    pub(super) fn forces_tool(&self) -> bool {
        matches!(self.choice, Choice::Any | Choice::Tool(_))
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
            push_comma(out);
            out.put_slice(b"{\"name\":");
            names.sent(&tool.name).push_quoted(out);
            push_definition(tool, capabilities, out, unsupported);
            breakpoints.push(tool.cache_control, "tools[]", out, unsupported);
            out.put_u8(b'}');
        }
        out.put_u8(b']');
        self.push_choice(names, out);
    }

    fn push_choice(&self, names: &ToolNames, out: &mut BytesMut) {
        let kind: &[u8] = match self.choice {
            Choice::Unsaid if !self.is_single => return,
            Choice::Unsaid | Choice::Auto => b"\"auto\"",
            Choice::None => b"\"none\"",
            Choice::Any => b"\"any\"",
            Choice::Tool(_) => b"\"tool\"",
        };
        push_member(out, b"tool_choice", b"{\"type\":");
        out.put_slice(kind);
        if let Choice::Tool(name) = self.choice {
            names.sent(name).push_member(out, b"name");
        }
        if self.is_single && !matches!(self.choice, Choice::None) {
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
    if tool.kind == ToolKind::Custom {
        return push_custom(tool, out, unsupported);
    }
    if let Some(description) = tool.description.as_ref().filter(|text| !text.is_blank()) {
        description.push_member(out, b"description");
    }
    // The API follows a schema strictly only in the form that it also wants for answers.
    let strict = tool.strict == Some(true);
    let lowered = tool
        .parameters
        .filter(|_| strict && capabilities.structured_output)
        .and_then(|schema| schema::lower(schema).ok());
    match lowered {
        Some(lowered) => {
            push_member(out, b"input_schema", &lowered);
            push_member(out, b"strict", b"true");
        }
        None => {
            if strict {
                unsupported.drop("tools[].function.strict");
            }
            push_member(out, b"input_schema", &object_schema(tool.parameters, unsupported));
        }
    }
}

/// A tool with free-form input is declared as a function with one text; the decoder turns its calls back.
fn push_custom(tool: &Tool<'_>, out: &mut BytesMut, unsupported: &mut UnsupportedFields) {
    unsupported.emulate("tools[].custom");
    let description = description_of_custom(tool);
    if !description.is_empty() {
        push_string_member(out, b"description", &description);
    }
    push_member(out, b"input_schema", CUSTOM_INPUT_SCHEMA);
}
