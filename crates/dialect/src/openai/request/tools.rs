//! The functions a model may call, and how it is told to choose among them.
//!
//! Declarations go by in one pass: their frame is checked, their bytes are counted, their names are kept.
//! What a schema says is between client and model.

use std::borrow::Cow;

use pointsman_domain::Invalid;

use super::{
    fault,
    json::{self, Object, required_string},
    json_type::JsonType,
    stopped::{Stopped, once},
};
use crate::{
    json::{Cursor, Raw},
    neutral::{self, EscapedText, Path, Tool, ToolKind, shown},
};

/// Longest name of a function, characters.
const MAX_NAME_CHARS: usize = 128;
const NAME_RULE: &str = "Each function needs a unique, non-empty name of at most 128 characters.";

/// The functions that were declared.
#[derive(Default)]
pub(super) struct DeclaredTools<'a> {
    /// The names of those that are understood, in order.
    pub(super) names: Vec<Cow<'a, str>>,
    /// Positions of the others, which only an endpoint that speaks chat can take, as they are.
    unknown: Vec<usize>,
    /// Whether any is a function, not a tool with free-form input.
    pub(super) has_functions: bool,
    /// Whether any takes free-form input.
    pub(super) has_custom: bool,
    /// Bytes of names, descriptions and schemas.
    pub(super) bytes: usize,
    /// The mistake of sending the first that is not understood, or a choice that is not, to an endpoint that does not speak chat.
    pub(super) not_understood: Option<Invalid>,
}

impl<'a> DeclaredTools<'a> {
    /// The tools of another API. At most so many are allowed.
    pub(super) fn from_tools(tools: &'a [Tool<'a>], most: usize) -> Result<DeclaredTools<'a>, Invalid> {
        let path = Path::Field("tools");
        if tools.len() > most {
            return Err(fault::refused(&path, format!("'{path}' may hold at most {most} elements.")));
        }
        let mut declared = DeclaredTools::default();
        for tool in tools {
            let name = tool.name.unescaped();
            declared.has_functions |= tool.kind == ToolKind::Function;
            declared.has_custom |= tool.kind == ToolKind::Custom;
            declared.bytes += name.len()
                + tool.description.as_ref().map_or(0, EscapedText::text_bytes)
                + tool.parameters.map_or(0, |schema| schema.written().len());
            declared.names.push(name);
        }
        let too_long = declared.names.iter().position(|name| !fits(name));
        match too_long.or_else(|| json::first_repeated(&declared.names)) {
            Some(tool) => Err(fault::refused(&path.item(tool).member("name"), NAME_RULE)),
            None => Ok(declared),
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.names.len() + self.unknown.len()
    }

    /// The position of the tool with the name at a position of `names`.
    fn position(&self, name: usize) -> usize {
        self.unknown.iter().fold(name, |position, unknown| position + usize::from(*unknown <= position))
    }
}

/// Reads the value of `tools` that comes next, with at most so many elements; whether it is there at all.
pub(super) fn read_tools<'a>(
    cursor: &mut Cursor<'a>,
    declared: &mut DeclaredTools<'a>,
    path: &Path<'_>,
    most: usize,
) -> Result<bool, Stopped> {
    let read = cursor.each_element(|cursor, tool| {
        if tool == most {
            return Err(fault::refused(path, format!("'{path}' may hold at most {most} elements.")).into());
        }
        read_tool(cursor, declared, &path.item(tool))
    })?;
    match read {
        Err(other) if other.is_null() => return Ok(false),
        Err(other) => return Err(fault::wrong_type(path, "an array", JsonType::of(other)).into()),
        Ok(_) => {}
    }
    match json::first_repeated(&declared.names) {
        Some(name) => {
            let tool = path.item(declared.position(name));
            let function = tool.member("function");
            Err(fault::refused(&function.member("name"), NAME_RULE).into())
        }
        None => Ok(true),
    }
}

fn read_tool<'a>(cursor: &mut Cursor<'a>, declared: &mut DeclaredTools<'a>, path: &Path<'_>) -> Result<(), Stopped> {
    let (mut kind, mut function, mut custom, mut other_bytes) = (None, None, None, 0);
    let other = cursor.each_member(|cursor, key| match &*key.name() {
        b"type" => once(&mut kind, cursor.value()?, path, key),
        b"function" => once(&mut function, Function::read(cursor, &path.member("function"))?, path, key),
        b"custom" => once(&mut custom, Function::read(cursor, &path.member("custom"))?, path, key),
        _ => {
            other_bytes += cursor.value()?.written().len();
            Ok(())
        }
    })?;
    if let Some(other) = other {
        return Err(fault::wrong_type(path, "an object", JsonType::of(other)).into());
    }
    declared.has_functions |= function.is_some();
    declared.has_custom |= custom.is_some();
    let of = path.member("type");
    let kind = kind.and_then(json::given).ok_or_else(|| fault::required(&of))?;
    let (function, member) = match &*json::text(kind, &of)? {
        "function" => (function, "function"),
        "custom" => (custom, "custom"),
        other => {
            let unknown = fault::not_one_of(&of, other, &["function", "custom"]);
            declared.bytes += other_bytes;
            declared.unknown.push(declared.count());
            declared.not_understood.get_or_insert(unknown);
            return Ok(());
        }
    };
    let path = path.member(member);
    let function = function.filter(|function| !function.other.is_some_and(Raw::is_null));
    let (name, bytes) = function.ok_or_else(|| fault::required(&path))?.judge(&path)?;
    declared.bytes += name.len() + bytes;
    declared.names.push(name);
    Ok(())
}

/// What a function says of itself.
#[derive(Default)]
struct Function<'a> {
    name: Option<Raw<'a>>,
    parameters: Option<Raw<'a>>,
    description: Option<Raw<'a>>,
    /// What stands there instead.
    other: Option<Raw<'a>>,
}

impl<'a> Function<'a> {
    fn read(cursor: &mut Cursor<'a>, path: &Path<'_>) -> Result<Function<'a>, Stopped> {
        let mut function = Function::default();
        let other = cursor.each_member(|cursor, key| {
            let value = cursor.value()?;
            match &*key.name() {
                b"name" => once(&mut function.name, value, path, key),
                b"description" => once(&mut function.description, value, path, key),
                b"parameters" => once(&mut function.parameters, value, path, key),
                _ => Ok(()),
            }
        })?;
        Ok(Function { other, ..function })
    }

    /// Checks a declaration, and gives its name and the bytes of the rest.
    fn judge(self, path: &Path<'_>) -> Result<(Cow<'a, str>, usize), Invalid> {
        if let Some(other) = self.other {
            return Err(fault::wrong_type(path, "an object", JsonType::of(other)));
        }
        let name = self.name(&path.member("name"))?;
        let schema = self.parameters.and_then(json::given);
        if let Some(raw) = schema {
            json::object(raw, &path.member("parameters"))?;
        }
        let description = self.description.and_then(json::given);
        if description.is_some() {
            required_string(description, &path.member("description"))?;
        }
        Ok((name, description.map_or(0, Raw::text_bytes) + schema.map_or(0, |raw| raw.written().len())))
    }

    fn name(&self, path: &Path<'_>) -> Result<Cow<'a, str>, Invalid> {
        let Some(raw) = self.name.and_then(json::given) else {
            let mut invalid = fault::required(path);
            NAME_RULE.clone_into(&mut invalid.message);
            return Err(invalid);
        };
        let name = json::text(raw, path)?;
        if fits(&name) { Ok(name) } else { Err(fault::refused(path, NAME_RULE)) }
    }
}

fn fits(name: &str) -> bool {
    !name.is_empty() && (name.len() <= MAX_NAME_CHARS || name.chars().count() <= MAX_NAME_CHARS)
}

/// What a tool of another API says of itself.
pub(super) fn pieces<'a>(tool: &'a Tool<'_>) -> impl Iterator<Item = &'a [u8]> {
    let texts = [Some(&tool.name), tool.description.as_ref()].into_iter().flatten().map(EscapedText::bytes);
    texts.chain([tool.parameters, tool.grammar].into_iter().flatten().map(Raw::bytes))
}

/// How strongly a request insists on tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ToolChoice {
    /// The model may call or not.
    #[default]
    Free,
    /// The model must not call.
    Forbidden,
    /// The model must call some function, or this one.
    Forced,
}

/// Checks `tool_choice` against the tools that were declared. A type that the gateway does not know is for endpoints that
/// speak chat.
pub(super) fn tool_choice(raw: Raw<'_>, path: &Path<'_>, tools: &mut DeclaredTools<'_>) -> Result<ToolChoice, Invalid> {
    match JsonType::of(raw) {
        JsonType::Text => {
            let choice = json::choice(raw, path, &["auto", "none", "required"])?;
            match (choice, tools.count()) {
                (2, 0) => Err(undeclared(path, "required")),
                (2, _) => Ok(ToolChoice::Forced),
                (1, _) => Ok(ToolChoice::Forbidden),
                _ => Ok(ToolChoice::Free),
            }
        }
        JsonType::Object => {
            let object = Object::read(raw, path)?;
            let of = path.member("type");
            let kind = object.get("type").ok_or_else(|| fault::required(&of))?;
            match &*json::text(kind, &of)? {
                "allowed_tools" => among(&object, path, tools),
                "function" => forced(&object, "function", path, tools),
                "custom" => forced(&object, "custom", path, tools),
                other => {
                    let unknown = fault::not_one_of(&of, other, &["function", "custom", "allowed_tools"]);
                    tools.not_understood.get_or_insert(unknown);
                    Ok(ToolChoice::Forced)
                }
            }
        }
        other => Err(fault::wrong_type(path, "a string or an object", other)),
    }
}

/// The same for the choice of a client of another API, which stands at `field`.
pub(super) fn choice_among(
    choice: &neutral::ToolChoice<'_>,
    field: &str,
    tools: &DeclaredTools<'_>,
) -> Result<ToolChoice, Invalid> {
    let path = Path::Field(field);
    let declared = |name: &EscapedText<'_>| {
        let name = name.unescaped();
        if tools.names.contains(&name) { Ok(()) } else { Err(undeclared(&path, &name)) }
    };
    match choice {
        neutral::ToolChoice::Unspecified | neutral::ToolChoice::Auto => Ok(ToolChoice::Free),
        neutral::ToolChoice::None => Ok(ToolChoice::Forbidden),
        neutral::ToolChoice::Required if tools.count() == 0 => Err(undeclared(&path, "required")),
        neutral::ToolChoice::Required => Ok(ToolChoice::Forced),
        neutral::ToolChoice::Named(name) => declared(name).map(|()| ToolChoice::Forced),
        neutral::ToolChoice::Allowed { required, names } => {
            names.iter().try_for_each(declared)?;
            Ok(if *required { ToolChoice::Forced } else { ToolChoice::Free })
        }
    }
}

/// Checks a choice among some of the tools.
fn among(choice: &Object<'_>, path: &Path<'_>, declared: &mut DeclaredTools<'_>) -> Result<ToolChoice, Invalid> {
    let at = path.member("allowed_tools");
    let allowed = Object::read(choice.get("allowed_tools").ok_or_else(|| fault::required(&at))?, &at)?;
    let of = at.member("mode");
    let mode = json::choice(allowed.get("mode").ok_or_else(|| fault::required(&of))?, &of, &["auto", "required"])?;
    let list = at.member("tools");
    let tools = json::elements(allowed.get("tools").ok_or_else(|| fault::required(&list))?, &list, usize::MAX)?;
    for (position, tool) in tools.into_iter().enumerate() {
        let at = list.item(position);
        let tool = Object::read(tool, &at)?;
        let of = at.member("type");
        let kind = tool.get("type").ok_or_else(|| fault::required(&of))?;
        match &*json::text(kind, &of)? {
            "function" => drop(forced(&tool, "function", &at, declared)?),
            "custom" => drop(forced(&tool, "custom", &at, declared)?),
            other => {
                declared.not_understood.get_or_insert_with(|| fault::not_one_of(&of, other, &["function", "custom"]));
            }
        }
    }
    Ok(if mode == 0 { ToolChoice::Free } else { ToolChoice::Forced })
}

fn forced(
    choice: &Object<'_>,
    member: &'static str,
    path: &Path<'_>,
    tools: &DeclaredTools<'_>,
) -> Result<ToolChoice, Invalid> {
    let at = path.member(member);
    let function = Object::read(choice.get(member).ok_or_else(|| fault::required(&at))?, &at)?;
    let at = at.member("name");
    let name = json::text(function.get("name").ok_or_else(|| fault::required(&at))?, &at)?;
    if tools.names.contains(&name) { Ok(ToolChoice::Forced) } else { Err(undeclared(path, &name)) }
}

fn undeclared(path: &Path<'_>, name: &str) -> Invalid {
    fault::refused(path, format!("'tool_choice' refers to '{}', which is not in 'tools'.", shown(name)))
}
