//! `toolConfig`: the tools, and which of them the model may or must call.

use bytes::{BufMut as _, BytesMut};

use super::cache_points::CachePoints;
use crate::{
    claude::schema::{self, object_schema},
    json::push_member,
    neutral::{Content, Conversation, EscapedText, Tool, ToolChoice, ToolNames, UnsupportedFields, has_tool_history},
};

/// The tools to declare, and the choice among them.
#[derive(Debug)]
pub(super) struct ToolPlan<'c, 'a> {
    tools: Vec<&'c Tool<'a>>,
    /// Names of calls in the history, if no tool is declared: the API wants them declared all the same.
    of_history: Vec<&'c EscapedText<'a>>,
    choice: &'c ToolChoice<'a>,
}

impl<'c, 'a> ToolPlan<'c, 'a> {
    pub(super) fn new(conversation: &'c Conversation<'a>, unsupported: &mut UnsupportedFields) -> ToolPlan<'c, 'a> {
        let (mut tools, mut choice) = conversation.allowed_tools(unsupported);
        if matches!(choice, ToolChoice::None) {
            if has_tool_history(conversation) {
                // Such a request should not have come here.
                unsupported.drop("tool_choice");
            } else if !tools.is_empty() {
                // There is no word for it: without tools nothing is called.
                unsupported.emulate("tool_choice");
                tools.clear();
            }
        }
        let of_history = if tools.is_empty() { called_names(conversation) } else { Vec::new() };
        if tools.is_empty() && choice.forces() {
            unsupported.drop("tool_choice");
            choice = &ToolChoice::Unspecified;
        }
        if !of_history.is_empty() {
            unsupported.emulate("tools");
        }
        ToolPlan { tools, of_history, choice }
    }

    /// Whether the model must call a tool.
    pub(super) fn forces_tool(&self) -> bool {
        self.choice.forces()
    }

    /// The choice as the Messages API writes it, where it also says that one call is the most.
    pub(super) fn single_call(&self, names: &ToolNames) -> Option<BytesMut> {
        if self.tools.is_empty() {
            return None;
        }
        let mut out = BytesMut::new();
        out.put_slice(b"{\"type\":");
        match self.choice {
            ToolChoice::Required => out.put_slice(b"\"any\""),
            ToolChoice::Named(name) => push!(out; br#""tool","name":"#, names.sent(name)),
            _ => out.put_slice(b"\"auto\""),
        }
        out.put_slice(b",\"disable_parallel_tool_use\":true}");
        Some(out)
    }

    /// Appends `,"toolConfig":{…}`. `with_choice`: unless the choice is said elsewhere.
    pub(super) fn push(
        &self,
        with_choice: bool,
        can_be_strict: bool,
        names: &ToolNames,
        points: &mut CachePoints,
        out: &mut BytesMut,
        unsupported: &mut UnsupportedFields,
    ) {
        if self.tools.is_empty() && self.of_history.is_empty() {
            return;
        }
        push_member(out, b"toolConfig", b"{\"tools\":[");
        let empty = out.len();
        for name in &self.of_history {
            begin_tool(&names.sent(name), out.len() > empty, out);
            out.put_slice(b",\"inputSchema\":{\"json\":{\"type\":\"object\"}}}}");
        }
        for tool in &self.tools {
            begin_tool(&names.sent(&tool.name), out.len() > empty, out);
            push_definition(tool, can_be_strict, out, unsupported);
            out.put_slice(b"}}");
            points.push(tool.cache_control, "tools[]", out, unsupported);
        }
        out.put_u8(b']');
        if with_choice {
            match self.choice {
                ToolChoice::Auto => push_member(out, b"toolChoice", b"{\"auto\":{}}"),
                ToolChoice::Required => push_member(out, b"toolChoice", b"{\"any\":{}}"),
                ToolChoice::Named(name) => push!(out; br#","toolChoice":{"tool":{"name":"#, names.sent(name), b"}}"),
                ToolChoice::Unspecified | ToolChoice::None | ToolChoice::Allowed { .. } => {}
            }
        }
        out.put_u8(b'}');
    }
}

/// The names of the calls in the history, each once, in order of appearance.
fn called_names<'c, 'a>(conversation: &'c Conversation<'a>) -> Vec<&'c EscapedText<'a>> {
    let mut names: Vec<&EscapedText<'_>> = Vec::new();
    for part in conversation.turns.iter().flat_map(|turn| &turn.parts) {
        if let Content::ToolCall { name, .. } = &part.content
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

fn begin_tool(name: &EscapedText<'_>, with_comma: bool, out: &mut BytesMut) {
    out.put_slice(if with_comma { b",{\"toolSpec\":{\"name\":" } else { b"{\"toolSpec\":{\"name\":" });
    name.push_quoted(out);
}

/// Appends description, schema and strictness of a tool.
fn push_definition(tool: &Tool<'_>, can_be_strict: bool, out: &mut BytesMut, unsupported: &mut UnsupportedFields) {
    tool.push_description(out, unsupported);
    let is_strict = tool.strict == Some(true);
    let lowered = tool.parameters.filter(|_| is_strict && can_be_strict).and_then(|schema| schema::lower(schema).ok());
    if let Some(lowered) = lowered {
        push_schema(&lowered, out);
        return push_member(out, b"strict", b"true");
    }
    push_schema(&object_schema(tool.function_schema(), unsupported), out);
    if is_strict {
        unsupported.drop("tools[].function.strict");
    }
}

fn push_schema(schema: &[u8], out: &mut BytesMut) {
    push!(out; br#","inputSchema":{"json":"#, schema, b"}");
}
