//! Tools and their choice.

use std::collections::HashSet;

use pointsman_domain::Invalid;

use super::{ChatReader, check_type, mistyped, refused, required};
use crate::{
    json::Raw,
    neutral::{EscapedText, MemberType, Tool, ToolChoice, ToolKind, none_of, optional_member},
};

/// Members of a tool that chat has, or that are written elsewhere.
const KNOWN: [&[u8]; 6] = [b"type", b"name", b"description", b"input_schema", b"strict", b"cache_control"];

/// Longest name of a tool, bytes.
const MAX_NAME: usize = 128;

impl<'a> ChatReader<'a> {
    pub(super) fn tools(&mut self, tools: Raw<'a>) -> Result<(), Invalid> {
        check_type(tools.is_array(), "tools", "an array")?;
        let mut names = HashSet::new();
        for (index, tool) in tools.elements().enumerate() {
            let kind = tool.kind();
            if kind.as_deref().is_some_and(|kind| kind != "custom") {
                self.needs_native(format!("tools[{index}].type"));
                self.has_server_tools = true;
                continue;
            }
            let tool = self.tool(tool, index)?;
            if !names.insert(tool.name.clone()) {
                return Err(refused(format!("tools[{index}].name"), "Tool names must be unique."));
            }
            self.conversation.tools.push(tool);
        }
        Ok(())
    }

    /// Whether tools are declared that chat has.
    fn has_tools(&self) -> bool {
        !self.conversation.tools.is_empty()
    }

    fn tool(&mut self, tool: Raw<'a>, index: usize) -> Result<Tool<'a>, Invalid> {
        let path = format!("tools[{index}]");
        check_type(tool.is_object(), &path, "an object")?;
        let name = tool.member(b"name").ok_or_else(|| required(format!("{path}.name")))?;
        let name = name.filled_string().ok_or_else(|| mistyped(format!("{path}.name"), "a non-empty string"))?;
        if name.inner().len() > MAX_NAME || !name.inner().iter().all(is_of_name) {
            let message = format!("'{path}.name' must be at most {MAX_NAME} letters, digits, '_' and '-'.");
            return Err(refused(format!("{path}.name"), message));
        }
        let description = optional_member(tool, &path, "description", MemberType::String)?;
        let schema = tool.member(b"input_schema").ok_or_else(|| required(format!("{path}.input_schema")))?;
        check_type(schema.is_object(), format_args!("{path}.input_schema"), "an object")?;
        let strict = optional_member(tool, &path, "strict", MemberType::Boolean)?;
        for (key, _) in tool.members().filter(|(key, value)| !value.is_null() && !KNOWN.contains(&&*key.name())) {
            self.unsupported.drop(&format!("tools[].{}", String::from_utf8_lossy(&key.name())));
        }
        Ok(Tool {
            name: EscapedText::plain(name.inner_text()),
            description: description.and_then(EscapedText::read),
            parameters: Some(schema),
            strict: strict.map(|strict| strict.bytes() == b"true"),
            kind: ToolKind::Function,
            grammar: None,
            cache_control: tool.member(b"cache_control").filter(|breakpoint| breakpoint.is_object()),
        })
    }

    /// With tools that chat has no form for, no choice is kept that may mean one of them; without any tool, none that chat
    /// servers would refuse.
    pub(super) fn tool_choice(&mut self, choice: Raw<'a>) -> Result<(), Invalid> {
        let chosen = match choice.kind().as_deref() {
            Some("auto" | "none") if !self.has_tools() => ToolChoice::Unspecified,
            Some("auto") => ToolChoice::Auto,
            Some("any") if self.has_server_tools => ToolChoice::Unspecified,
            Some("any") => ToolChoice::Required,
            Some("none") => ToolChoice::None,
            Some("tool") => {
                let name = choice.member(b"name").and_then(Raw::filled_string);
                let name = name.and_then(EscapedText::read).ok_or_else(|| required("tool_choice.name"))?;
                if self.has_server_tools { ToolChoice::Unspecified } else { ToolChoice::Named(name) }
            }
            _ => {
                let allowed = ["auto", "any", "tool", "none"];
                return Err(none_of("tool_choice.type", choice.member(b"type"), &allowed));
            }
        };
        let flag = optional_member(choice, "tool_choice", "disable_parallel_tool_use", MemberType::Boolean)?;
        let is_single = flag.is_some_and(|flag| flag.bytes() == b"true");
        if is_single && self.has_tools() && !matches!(chosen, ToolChoice::None) {
            self.conversation.parallel_tool_calls = Some(false);
        }
        self.conversation.tool_choice = chosen;
        Ok(())
    }
}

fn is_of_name(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}
