//! `toolConfig`: the tools, and which of them the model may or must call.

use bytes::{BufMut as _, BytesMut};

use super::cache_points::CachePoints;
use crate::{
    claude::schema::{self, object_schema},
    json::{push_member, push_string_member},
    neutral::{
        CUSTOM_INPUT_SCHEMA, Content, Conversation, EscapedText, Tool, ToolChoice, ToolKind, ToolNames,
        UnsupportedFields, description_of_custom, has_tool_history,
    },
};

/// The tools to declare, and the choice among them.
#[derive(Debug)]
pub(super) struct ToolPlan<'c, 'a> {
    tools: Vec<&'c Tool<'a>>,
    /// Names of calls in the history, if no tool is declared: the API wants them declared all the same.
    of_history: Vec<&'c EscapedText<'a>>,
    choice: Choice<'c, 'a>,
}

#[derive(Debug, Clone, Copy)]
enum Choice<'c, 'a> {
    Unsaid,
    Auto,
    Any,
    Tool(&'c EscapedText<'a>),
}

impl<'c, 'a> ToolPlan<'c, 'a> {
    pub(super) fn new(conversation: &'c Conversation<'a>, unsupported: &mut UnsupportedFields) -> ToolPlan<'c, 'a> {
        let mut tools: Vec<&Tool<'_>> = conversation.tools.iter().collect();
        let mut choice = match &conversation.tool_choice {
            ToolChoice::Unspecified => Choice::Unsaid,
            ToolChoice::Auto => Choice::Auto,
            ToolChoice::Required => Choice::Any,
            ToolChoice::Named(name) => Choice::Tool(name),
            // There is no word for it: without tools nothing is called.
            ToolChoice::None if !has_tool_history(conversation) => {
                if !tools.is_empty() {
                    unsupported.emulate("tool_choice");
                }
                tools.clear();
                Choice::Unsaid
            }
            // Such a request should not have come here.
            ToolChoice::None => {
                unsupported.drop("tool_choice");
                Choice::Unsaid
            }
            ToolChoice::Allowed { required, names } => {
                unsupported.emulate("tool_choice");
                tools.retain(|tool| names.iter().any(|name| name.unescaped() == tool.name.unescaped()));
                if *required { Choice::Any } else { Choice::Auto }
            }
        };
        let of_history = if tools.is_empty() { called_names(conversation) } else { Vec::new() };
        if tools.is_empty() && matches!(choice, Choice::Any | Choice::Tool(_)) {
            unsupported.drop("tool_choice");
            choice = Choice::Unsaid;
        }
        if !of_history.is_empty() {
            unsupported.emulate("tools");
        }
        ToolPlan { tools, of_history, choice }
    }

    /// Whether the model must call a tool.
    pub(super) fn forces_tool(&self) -> bool {
        matches!(self.choice, Choice::Any | Choice::Tool(_))
    }

    /// The choice as the Messages API writes it, where it also says that one call is the most.
    pub(super) fn single_call(&self, names: &ToolNames) -> Option<BytesMut> {
        if self.tools.is_empty() {
            return None;
        }
        let mut out = BytesMut::new();
        out.put_slice(b"{\"type\":");
        match self.choice {
            Choice::Unsaid | Choice::Auto => out.put_slice(b"\"auto\""),
            Choice::Any => out.put_slice(b"\"any\""),
            Choice::Tool(name) => {
                out.put_slice(b"\"tool\",\"name\":");
                names.sent(name).push_quoted(&mut out);
            }
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
                Choice::Unsaid => {}
                Choice::Auto => push_member(out, b"toolChoice", b"{\"auto\":{}}"),
                Choice::Any => push_member(out, b"toolChoice", b"{\"any\":{}}"),
                Choice::Tool(name) => {
                    push_member(out, b"toolChoice", b"{\"tool\":{\"name\":");
                    names.sent(name).push_quoted(out);
                    out.put_slice(b"}}");
                }
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
    if tool.kind == ToolKind::Custom {
        // A tool with free-form input is declared as a function with one text; the decoder turns its calls back.
        unsupported.emulate("tools[].custom");
        let description = description_of_custom(tool);
        if !description.is_empty() {
            push_string_member(out, b"description", &description);
        }
        return push_schema(CUSTOM_INPUT_SCHEMA, out);
    }
    // The API refuses a blank description.
    if let Some(description) = tool.description.as_ref().filter(|text| !text.is_blank()) {
        description.push_member(out, b"description");
    }
    let is_strict = tool.strict == Some(true);
    let lowered = tool.parameters.filter(|_| is_strict && can_be_strict).and_then(|schema| schema::lower(schema).ok());
    if let Some(lowered) = lowered {
        push_schema(&lowered, out);
        return push_member(out, b"strict", b"true");
    }
    push_schema(&object_schema(tool.parameters, unsupported), out);
    if is_strict {
        unsupported.drop("tools[].function.strict");
    }
}

fn push_schema(schema: &[u8], out: &mut BytesMut) {
    push_member(out, b"inputSchema", b"{\"json\":");
    out.put_slice(schema);
    out.put_u8(b'}');
}
