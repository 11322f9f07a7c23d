//! `tools` and `tool_choice`.

use bytes::{BufMut as _, BytesMut};

use super::image_tool::{push_image_tool, wants_image, wants_only_image};
use crate::{
    json::{Raw, push_comma, push_member},
    neutral::{
        Conversation, EscapedText, Tool, ToolChoice, ToolKind, ToolNames, UnsupportedFields, with_lone_references,
    },
};

/// Appends the tools and how the model chooses among them.
pub(super) fn push_tools(
    conversation: &Conversation<'_>,
    names: &ToolNames,
    out: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) {
    let wants_image = wants_image(conversation);
    if conversation.tools.is_empty() && wants_image {
        push_member(out, b"tools", b"[");
        push_image_tool(conversation, out, unsupported);
        out.put_u8(b']');
        if wants_only_image(conversation) {
            push_member(out, b"tool_choice", b"{\"type\":\"image_generation\"}");
        } else if matches!(conversation.tool_choice, ToolChoice::None) {
            push_member(out, b"tool_choice", b"\"none\"");
        }
        return;
    }
    if conversation.tools.is_empty() {
        let is_void = matches!(conversation.tool_choice, ToolChoice::Unspecified | ToolChoice::Auto | ToolChoice::None);
        if !is_void {
            unsupported.drop("tool_choice");
        }
        return;
    }
    push_member(out, b"tools", b"[");
    for tool in &conversation.tools {
        push_comma(out);
        push_tool(tool, names, out, unsupported);
    }
    if wants_image {
        push_comma(out);
        push_image_tool(conversation, out, unsupported);
    }
    out.put_u8(b']');
    push_choice(conversation, names, out, unsupported);
    if let Some(parallel) = conversation.parallel_tool_calls {
        push_member(out, b"parallel_tool_calls", if parallel { b"true" } else { b"false" });
    }
}

fn push_tool(tool: &Tool<'_>, names: &ToolNames, out: &mut BytesMut, unsupported: &mut UnsupportedFields) {
    push_type_and_name(tool.kind, &tool.name, names, out);
    if let Some(description) = &tool.description {
        description.push_member(out, b"description");
    }
    match tool.kind {
        ToolKind::Function => {
            match tool.parameters.filter(|schema| schema.is_filled()) {
                None => push_member(out, b"parameters", b"{\"type\":\"object\",\"properties\":{}}"),
                Some(schema) if tool.strict == Some(true) => {
                    let schema = with_lone_references(schema, "tools[].function.parameters", unsupported);
                    push_member(out, b"parameters", &schema);
                }
                Some(schema) => push_member(out, b"parameters", schema.bytes()),
            }
            // Chat is not strict unless it is told to be; this API is.
            push_member(out, b"strict", if tool.strict == Some(true) { b"true" } else { b"false" });
        }
        ToolKind::Custom => push_format(tool.grammar, out),
    }
    if tool.cache_control.is_some() {
        unsupported.drop("tools[].cache_control");
    }
    out.put_u8(b'}');
}

/// Appends the form of a custom tool's input. Chat wraps the grammar in another object.
fn push_format(format: Option<Raw<'_>>, out: &mut BytesMut) {
    let Some(format) = format else { return };
    let Some(grammar) = format.member(b"grammar").filter(|grammar| grammar.is_object()) else {
        return push_member(out, b"format", format.bytes());
    };
    push_member(out, b"format", b"{\"type\":\"grammar\"");
    for (key, value) in grammar.members().filter(|(key, _)| *key.name() != *b"type") {
        push_member(out, key.inner(), value.bytes());
    }
    out.put_u8(b'}');
}

fn push_choice(
    conversation: &Conversation<'_>,
    names: &ToolNames,
    out: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) {
    let word: &[u8] = match &conversation.tool_choice {
        ToolChoice::Unspecified => return,
        ToolChoice::Auto => b"\"auto\"",
        ToolChoice::None => b"\"none\"",
        ToolChoice::Required => b"\"required\"",
        ToolChoice::Named(name) => match kind_of(conversation, name) {
            Some(kind) => {
                push_member(out, b"tool_choice", b"");
                push_type_and_name(kind, name, names, out);
                return out.put_u8(b'}');
            }
            None => return unsupported.drop("tool_choice"),
        },
        ToolChoice::Allowed { required, names: allowed } => {
            let mode: &[u8] = if *required { b"\"required\"" } else { b"\"auto\"" };
            push!(out; br#","tool_choice":{"type":"allowed_tools","mode":"#, mode, br#","tools":["#);
            for name in allowed {
                let Some(kind) = kind_of(conversation, name) else { continue };
                push_comma(out);
                push_type_and_name(kind, name, names, out);
                out.put_u8(b'}');
            }
            return out.put_slice(b"]}");
        }
    };
    push_member(out, b"tool_choice", word);
}

/// Appends `{"type":…,"name":…`.
fn push_type_and_name(kind: ToolKind, name: &EscapedText<'_>, names: &ToolNames, out: &mut BytesMut) {
    out.put_slice(match kind {
        ToolKind::Function => b"{\"type\":\"function\"",
        ToolKind::Custom => b"{\"type\":\"custom\"",
    });
    names.sent(name).push_member(out, b"name");
}

fn kind_of(conversation: &Conversation<'_>, name: &EscapedText<'_>) -> Option<ToolKind> {
    let name = name.unescaped();
    conversation.tools.iter().find(|tool| tool.name.unescaped() == name).map(|tool| tool.kind)
}
