//! Tools and their choice.

use std::collections::HashSet;

use pointsman_domain::Invalid;

use super::{ChatReader, check_type, mistyped, required};
use crate::{
    json::Raw,
    neutral::{EscapedText, MemberType, Tool, ToolChoice, ToolKind, none_of, optional_member},
    responses::namespaces::Namespaces,
};

/// Members of a function that chat has, or that are written elsewhere.
const OF_FUNCTIONS: [&[u8]; 6] = [b"type", b"name", b"description", b"parameters", b"input_schema", b"strict"];
/// Members of a custom tool.
const OF_CUSTOM: [&[u8]; 4] = [b"type", b"name", b"description", b"format"];
/// Members of a namespace.
const OF_NAMESPACES: [&[u8]; 4] = [b"type", b"name", b"description", b"tools"];
/// Members of a tool in the form of chat: its function or custom tool is an object of its own.
const OF_HOLDERS: [&[u8]; 3] = [b"type", b"function", b"custom"];

/// The tools so far.
#[derive(Debug, Default)]
pub(super) struct DeclaredTools<'a> {
    pub(super) list: Vec<Tool<'a>>,
    names: HashSet<String>,
    pub(super) namespaces: Namespaces,
    /// Path of the first tool that runs at the provider.
    pub(super) hosted: Option<String>,
}

impl DeclaredTools<'_> {
    /// Whether there is none that chat has.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The flat name of a function in a namespace.
    pub(super) fn flat(&mut self, namespace: &str, name: &str) -> String {
        let DeclaredTools { names, namespaces, .. } = self;
        namespaces.flat(namespace, name, |flat| names.contains(flat))
    }
}

impl<'a> ChatReader<'a> {
    /// Adds the tools of a list. Names outside of namespaces come first, because they stay as they are.
    pub(super) fn tools(&mut self, tools: Raw<'a>, path: &str) -> Result<(), Invalid> {
        check_type(tools.is_array(), path, "an array")?;
        let plain = tools.elements().filter(|tool| tool.kind().as_deref() != Some("namespace"));
        self.tools.names.extend(plain.filter_map(|tool| Some(declaration(tool).member(b"name")?.text()?.into_owned())));
        for (index, tool) in tools.elements().enumerate() {
            let path = format!("{path}[{index}]");
            check_type(tool.is_object(), &path, "an object")?;
            match tool.kind().as_deref() {
                Some("function") => self.function((tool, "tools[]"), &path, None)?,
                Some("custom") => self.custom(tool, &path)?,
                Some("namespace") => self.namespace(tool, &path)?,
                Some(kind) => {
                    self.unsupported.drop(&format!("tools[].{kind}"));
                    self.tools.hosted.get_or_insert(format!("{path}.type"));
                }
                None => return Err(required(format!("{path}.type"))),
            }
        }
        Ok(())
    }

    fn namespace(&mut self, tool: Raw<'a>, path: &str) -> Result<(), Invalid> {
        let namespace = name_of(tool, path)?.text().unwrap_or_default();
        let tools = tool.member(b"tools").filter(|tools| tools.is_array());
        let tools = tools.ok_or_else(|| required(format!("{path}.tools")))?;
        self.unsupported.emulate("tools[].namespace");
        self.name_others_of_tool(tool, "tools[]", &OF_NAMESPACES);
        for (index, tool) in tools.elements().enumerate() {
            let path = format!("{path}.tools[{index}]");
            match tool.kind().as_deref() {
                Some("function") => self.function((tool, "tools[].tools[]"), &path, Some(&namespace))?,
                _ => return Err(none_of(format!("{path}.type"), tool.member(b"type"), &["function"])),
            }
        }
        Ok(())
    }

    /// Names the members of a tool that endpoints of other dialects do not get. `place`: where it stands.
    fn name_others_of_tool(&mut self, tool: Raw<'_>, place: &str, known: &[&[u8]]) {
        let (declared, holder) = (declaration(tool), tool.kind().unwrap_or_default());
        let has_own_object = declared.bytes().as_ptr() != tool.bytes().as_ptr();
        let inner = if has_own_object { format!("{place}.{holder}") } else { place.to_owned() };
        let outer = has_own_object.then_some((place, tool, &OF_HOLDERS[..]));
        for (place, object, known) in outer.into_iter().chain([(&*inner, declared, known)]) {
            // What is false is as good as absent.
            let others =
                object.members().filter(|(key, value)| value.bytes() != b"false" && !known.contains(&&*key.name()));
            others.for_each(|(key, value)| self.unsupported.drop_member(place, &key.name(), value));
        }
    }

    /// Adds a function, given with the place that its members are named by.
    fn function(&mut self, (tool, place): (Raw<'a>, &str), path: &str, namespace: Option<&str>) -> Result<(), Invalid> {
        self.name_others_of_tool(tool, place, &OF_FUNCTIONS);
        let tool = declaration(tool);
        let name = text_of(name_of(tool, path)?);
        let flat = namespace.map(|namespace| EscapedText::escaping(&self.tools.flat(namespace, &name.unescaped())));
        let description = optional_member(tool, path, "description", MemberType::String)?;
        let strict = optional_member(tool, path, "strict", MemberType::Boolean)?;
        let schema = tool.member(b"parameters").or_else(|| tool.member(b"input_schema"));
        let schema = schema.filter(|schema| !schema.is_null());
        check_type(schema.is_none_or(Raw::is_object), format_args!("{path}.parameters"), "an object")?;
        self.tools.list.push(Tool {
            name: flat.unwrap_or(name),
            description: description.map(text_of),
            parameters: schema,
            strict: strict.map(|strict| strict.bytes() == b"true"),
            kind: ToolKind::Function,
            grammar: None,
            cache_control: None,
        });
        Ok(())
    }

    fn custom(&mut self, tool: Raw<'a>, path: &str) -> Result<(), Invalid> {
        self.name_others_of_tool(tool, "tools[]", &OF_CUSTOM);
        let tool = declaration(tool);
        let name = text_of(name_of(tool, path)?);
        let description = optional_member(tool, path, "description", MemberType::String)?;
        self.tools.list.push(Tool {
            name,
            description: description.map(text_of),
            parameters: None,
            strict: None,
            kind: ToolKind::Custom,
            grammar: tool.member(b"format").filter(|format| format.is_object()),
            cache_control: None,
        });
        Ok(())
    }

    pub(super) fn tool_choice(&mut self, choice: Raw<'a>) -> Result<(), Invalid> {
        self.conversation.tool_choice = self.chosen(choice)?;
        Ok(())
    }

    fn chosen(&mut self, choice: Raw<'a>) -> Result<ToolChoice<'a>, Invalid> {
        if let Some(word) = choice.text() {
            return Ok(match &*word {
                // Chat servers refuse it without tools.
                "auto" | "none" if self.tools.is_empty() => ToolChoice::Unspecified,
                // Every tool was one that runs at the provider.
                "required" if self.tools.is_empty() && self.tools.hosted.is_some() => {
                    self.unsupported.drop("tool_choice");
                    ToolChoice::Unspecified
                }
                "auto" => ToolChoice::Auto,
                "none" => ToolChoice::None,
                "required" => ToolChoice::Required,
                _ => return Err(none_of("tool_choice", Some(choice), &["auto", "none", "required"])),
            });
        }
        check_type(choice.is_object(), "tool_choice", "a string or an object")?;
        match choice.kind().as_deref() {
            Some("function" | "custom") => Ok(ToolChoice::Named(self.named(choice, "tool_choice")?)),
            Some("allowed_tools") => self.allowed_tools(choice),
            Some(_) => {
                self.unsupported.drop("tool_choice");
                Ok(ToolChoice::Unspecified)
            }
            None => Err(required("tool_choice.type")),
        }
    }

    fn allowed_tools(&mut self, choice: Raw<'a>) -> Result<ToolChoice<'a>, Invalid> {
        let tools = choice.member(b"tools").filter(|tools| tools.is_array());
        let tools = tools.ok_or_else(|| required("tool_choice.tools"))?;
        let mode = choice.member(b"mode").filter(|mode| mode.is_string());
        let mode = mode.ok_or_else(|| required("tool_choice.mode"))?;
        let required = match mode.text().as_deref() {
            Some("auto") => false,
            Some("required") => true,
            _ => return Err(none_of("tool_choice.mode", Some(mode), &["auto", "required"])),
        };
        let mut names = Vec::new();
        for (index, tool) in tools.elements().enumerate() {
            match tool.kind().as_deref() {
                Some("function" | "custom") => names.push(self.named(tool, &format!("tool_choice.tools[{index}]"))?),
                _ => self.unsupported.drop("tool_choice.tools[]"),
            }
        }
        if self.tools.is_empty() && names.is_empty() {
            self.unsupported.drop("tool_choice");
            return Ok(ToolChoice::Unspecified);
        }
        Ok(ToolChoice::Allowed { required, names })
    }

    /// The name of a tool that is chosen.
    fn named(&mut self, tool: Raw<'a>, path: &str) -> Result<EscapedText<'a>, Invalid> {
        let is_custom = tool.kind().as_deref() == Some("custom");
        let tool = declaration(tool);
        let name = name_of(tool, path)?;
        Ok(match tool.member(b"namespace").and_then(Raw::text).filter(|_| !is_custom) {
            Some(namespace) => EscapedText::escaping(&self.tools.flat(&namespace, &name.text().unwrap_or_default())),
            None => text_of(name),
        })
    }
}

/// Where a tool says what it is: in itself, or in an object of its own, as in chat. Agents mix both forms.
pub(super) fn declaration(tool: Raw<'_>) -> Raw<'_> {
    let inner = [b"function".as_slice(), b"custom"].into_iter().find_map(|name| tool.member(name));
    inner.filter(|inner| inner.is_object()).unwrap_or(tool)
}

/// Whether a tool is declared in the form of this API, not of chat.
pub(crate) fn is_flat(tool: Raw<'_>) -> bool {
    let has = |name: &[u8]| declaration(tool).member(name).is_some();
    (declaration(tool).bytes() == tool.bytes() && has(b"name")) || has(b"input_schema")
}

fn name_of<'a>(tool: Raw<'a>, path: &str) -> Result<Raw<'a>, Invalid> {
    let path = format!("{path}.name");
    match tool.member(b"name") {
        Some(name) if name.filled_string().is_some() => Ok(name),
        Some(_) => Err(mistyped(&path, "a non-empty string")),
        None => Err(required(&path)),
    }
}

/// A string that was checked.
fn text_of(value: Raw<'_>) -> EscapedText<'_> {
    EscapedText::plain(value.inner_text())
}
