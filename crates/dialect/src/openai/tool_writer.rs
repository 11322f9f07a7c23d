//! Tools of a client of another API, as chat declares them.

use bytes::{BufMut as _, BytesMut};

use crate::{
    json::{Raw, push_comma, push_key, push_member},
    neutral::{EscapedText, Tool, ToolChoice, ToolKind, ToolNames, UnsupportedFields, with_lone_references},
};

/// Appends a declaration, without its end.
pub(crate) fn push_tool(tool: &Tool<'_>, names: &ToolNames, unsupported: &mut UnsupportedFields, out: &mut BytesMut) {
    out.put_u8(b'{');
    push_reference(tool.kind, &tool.name, names, out);
    if let Some(description) = &tool.description {
        description.push_member(out, b"description");
    }
    if let Some(schema) = tool.parameters {
        // OpenAI's strict schemas have nothing beside a reference.
        let schema = match tool.strict {
            Some(true) => with_lone_references(schema, "tools[].function.parameters", unsupported),
            _ => schema.bytes().into(),
        };
        push_member(out, b"parameters", &schema);
    }
    if let Some(format) = tool.grammar {
        push_format(format, out);
    }
    if let Some(strict) = tool.strict {
        push_member(out, b"strict", if strict { b"true" } else { b"false" });
    }
    out.put_u8(b'}');
}

/// Appends the type of a tool, and the object of that name as far as its name.
pub(crate) fn push_reference(kind: ToolKind, name: &EscapedText<'_>, names: &ToolNames, out: &mut BytesMut) {
    out.put_slice(match kind {
        ToolKind::Function => b"\"type\":\"function\",\"function\":{\"name\":",
        ToolKind::Custom => b"\"type\":\"custom\",\"custom\":{\"name\":",
    });
    names.sent(name).push_quoted(out);
}

/// Appends a choice among these tools.
pub(crate) fn push_choice(choice: &ToolChoice<'_>, tools: &[Tool<'_>], names: &ToolNames, out: &mut BytesMut) {
    let kind_of = |name: &EscapedText<'_>| tools.iter().find(|tool| tool.name == *name).map(|tool| tool.kind);
    let push_chosen = |name: &EscapedText<'_>, out: &mut BytesMut| {
        out.put_u8(b'{');
        push_reference(kind_of(name).unwrap_or(ToolKind::Function), name, names, out);
        out.put_slice(b"}}");
    };
    match choice {
        ToolChoice::Unspecified | ToolChoice::Auto => out.put_slice(b"\"auto\""),
        ToolChoice::None => out.put_slice(b"\"none\""),
        ToolChoice::Required => out.put_slice(b"\"required\""),
        ToolChoice::Named(name) => push_chosen(name, out),
        ToolChoice::Allowed { required, names } => {
            let mode = if *required { "required" } else { "auto" };
            let head = format!("{{\"type\":\"allowed_tools\",\"allowed_tools\":{{\"mode\":\"{mode}\",\"tools\":[");
            out.put_slice(head.as_bytes());
            for name in names.iter() {
                push_comma(out);
                push_chosen(name, out);
            }
            out.put_slice(b"]}}");
        }
    }
}

/// Appends the form of a custom tool's input. Chat wraps the grammar in another object.
fn push_format(format: Raw<'_>, out: &mut BytesMut) {
    let is_grammar = format.kind().as_deref() == Some("grammar");
    if !is_grammar || format.member(b"grammar").is_some() {
        return push_member(out, b"format", format.bytes());
    }
    push_member(out, b"format", b"{\"type\":\"grammar\",\"grammar\":{");
    for (key, value) in format.members().filter(|(key, _)| *key.name() != *b"type") {
        push_key(out, key.bytes());
        out.put_slice(value.bytes());
    }
    out.put_slice(b"}}");
}
