//! `tools` and `toolConfig`.

use bytes::{BufMut as _, BytesMut};

use crate::dialect::{
    json::{push_member, push_string},
    neutral::{Conversation, EscapedText, FieldFates, Tool, ToolChoice, ToolKind, ToolNames},
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
    pub(super) fn of(conversation: &'c Conversation<'a>, fates: &mut FieldFates) -> ToolPlan<'c, 'a> {
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
            ToolChoice::Allowed { required: false, names } => {
                fates.emulate("tool_choice");
                tools.retain(|tool| names.iter().any(|name| name.unescaped() == tool.name.unescaped()));
                Mode::Auto
            }
        };
        if tools.is_empty() && mode == Mode::Any {
            fates.drop("tool_choice");
            mode = Mode::Unsaid;
        }
        ToolPlan { tools, mode, allowed }
    }

    /// Appends `,"tools":[…],"toolConfig":{…}`.
    pub(super) fn push(&self, names: &ToolNames, out: &mut BytesMut, fates: &mut FieldFates) {
        if self.tools.is_empty() {
            return;
        }
        push_member(out, b"tools", b"[{\"functionDeclarations\":[");
        for (place, tool) in self.tools.iter().enumerate() {
            if place > 0 {
                out.put_u8(b',');
            }
            push_declaration(tool, names, out, fates);
        }
        out.put_slice(b"]}]");
        let is_strict = self.tools.iter().any(|tool| tool.strict == Some(true));
        let mode: &[u8] = match self.mode {
            Mode::Unsaid | Mode::Auto if is_strict => b"VALIDATED",
            Mode::Unsaid => return,
            Mode::Auto => b"AUTO",
            Mode::None => b"NONE",
            Mode::Any => b"ANY",
        };
        push_member(out, b"toolConfig", b"{\"functionCallingConfig\":{\"mode\":\"");
        out.put_slice(mode);
        out.put_u8(b'"');
        if !self.allowed.is_empty() {
            push_member(out, b"allowedFunctionNames", b"[");
            for (place, name) in self.allowed.iter().enumerate() {
                if place > 0 {
                    out.put_u8(b',');
                }
                names.sent(name).push_quoted(out);
            }
            out.put_u8(b']');
        }
        out.put_slice(b"}}");
    }
}

fn push_declaration(tool: &Tool<'_>, names: &ToolNames, out: &mut BytesMut, fates: &mut FieldFates) {
    out.put_slice(b"{\"name\":");
    names.sent(&tool.name).push_quoted(out);
    if tool.cache_control.is_some() {
        fates.drop("tools[].cache_control");
    }
    let description = tool.description.as_ref().filter(|text| !text.is_blank());
    match tool.kind {
        ToolKind::Function => {
            if let Some(description) = description {
                push_member(out, b"description", b"");
                description.push_quoted(out);
            }
            if let Some(schema) = tool.parameters {
                push_member(out, b"parametersJsonSchema", schema.bytes());
            }
        }
        // A tool with free-form input is declared as a function with one text; the decoder turns its calls back.
        ToolKind::Custom => {
            fates.emulate("tools[].custom");
            let mut words = description.map(|text| text.unescaped().into_owned()).unwrap_or_default();
            if let Some(grammar) = tool.grammar {
                words.push_str("\nThe input must match this grammar:\n");
                words.push_str(&String::from_utf8_lossy(grammar.bytes()));
            }
            if !words.is_empty() {
                push_member(out, b"description", b"");
                push_string(out, words.trim_start());
            }
            let schema =
                b"{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},\"required\":[\"input\"]}";
            push_member(out, b"parametersJsonSchema", schema);
        }
    }
    out.put_u8(b'}');
}
