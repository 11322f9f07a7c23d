//! The functions a model may call, and how it is told to choose among them.
//!
//! Declarations go by in one pass: their frame is checked, their bytes are counted, their names are kept.
//! What a schema says is between client and model.

use std::borrow::Cow;

use pointsman_domain::Invalid;

use super::{
    fault,
    json::{self, Object},
    json_type::JsonType,
    value_visitor::{ArrayReader, LengthVisitor, ObjectReader, SeenKeys, Stopped, TextLength, ValueVisitor, stop},
};
use crate::{
    json::Raw,
    neutral::{Path, shown},
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
    /// The mistake of sending the first that is not understood to an endpoint that does not speak chat.
    pub(super) not_understood: Option<Invalid>,
    /// The mistake that stopped the pass.
    pub(super) fault: Option<Invalid>,
}

impl DeclaredTools<'_> {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.names.len() + self.unknown.len()
    }

    /// The position of the tool with the name at a position of `names`.
    fn position(&self, name: usize) -> usize {
        self.unknown.iter().fold(name, |position, unknown| position + usize::from(*unknown <= position))
    }
}

/// The value of `tools`: whether it is there at all.
pub(super) struct ToolListVisitor<'t, 'a> {
    pub(super) declared: &'t mut DeclaredTools<'a>,
    pub(super) path: Path<'t>,
    /// Most functions that may be declared.
    pub(super) most: usize,
}

impl<'a> ValueVisitor<'a> for ToolListVisitor<'_, 'a> {
    type Out = bool;

    fn null(self) -> Result<bool, Stopped> {
        Ok(false)
    }

    fn other(self, got: JsonType) -> Result<bool, Stopped> {
        Err(stop(&mut self.declared.fault, fault::wrong_type(&self.path, "an array", got)))
    }

    fn array(self, mut items: ArrayReader<'_, 'a>) -> Result<bool, Stopped> {
        let ToolListVisitor { declared, path, most } = self;
        while let Some(()) = items.next(ToolVisitor { declared: &mut *declared, list: path })? {
            if declared.count() > most {
                let message = format!("'{path}' may hold at most {most} elements.");
                return Err(stop(&mut declared.fault, fault::refused(&path, message)));
            }
        }
        match json::first_repeated(&declared.names) {
            Some(name) => {
                let tool = path.item(declared.position(name));
                let function = tool.member("function");
                Err(stop(&mut declared.fault, fault::refused(&function.member("name"), NAME_RULE)))
            }
            None => Ok(true),
        }
    }
}

#[derive(Clone, Copy)]
enum ToolKey {
    Type,
    Function,
    Custom,
    Other,
}

impl ToolKey {
    fn of(key: Raw<'_>) -> ToolKey {
        match &*key.name() {
            b"type" => ToolKey::Type,
            b"function" => ToolKey::Function,
            b"custom" => ToolKey::Custom,
            _ => ToolKey::Other,
        }
    }
}

/// One declaration.
struct ToolVisitor<'t, 'a> {
    declared: &'t mut DeclaredTools<'a>,
    list: Path<'t>,
}

impl<'a> ValueVisitor<'a> for ToolVisitor<'_, 'a> {
    type Out = ();

    fn other(self, got: JsonType) -> Result<(), Stopped> {
        let path = self.list.item(self.declared.count());
        Err(stop(&mut self.declared.fault, fault::wrong_type(&path, "an object", got)))
    }

    fn object(self, mut members: ObjectReader<'_, 'a>) -> Result<(), Stopped> {
        let path = self.list.item(self.declared.count());
        let (mut kind, mut function, mut custom, mut other_bytes) = (None, None, None, 0);
        while let Some(key) = members.key()?.map(ToolKey::of) {
            let twice = match key {
                ToolKey::Type => kind.replace(members.raw()?).map(|_| "type"),
                ToolKey::Function => function.replace(members.value(FunctionVisitor)?).map(|_| "function"),
                ToolKey::Custom => custom.replace(members.value(FunctionVisitor)?).map(|_| "custom"),
                ToolKey::Other => {
                    other_bytes += members.raw()?.written().len();
                    None
                }
            };
            if let Some(name) = twice {
                return Err(stop(&mut self.declared.fault, fault::given_twice(&path.member(name))));
            }
        }
        self.declared.has_functions |= function.is_some();
        self.declared.has_custom |= custom.is_some();
        match judge(kind, function, custom, &path) {
            Ok(Ok((name, bytes))) => {
                self.declared.bytes += name.len() + bytes;
                self.declared.names.push(name);
                Ok(())
            }
            Ok(Err(unknown)) => {
                self.declared.bytes += other_bytes;
                self.declared.unknown.push(self.declared.count());
                self.declared.not_understood.get_or_insert(unknown);
                Ok(())
            }
            Err(invalid) => Err(stop(&mut self.declared.fault, invalid)),
        }
    }
}

/// Checks one declaration, and gives its name and the bytes of the rest, or the mistake of sending it where nobody understands
/// it.
fn judge<'a>(
    kind: Option<Raw<'a>>,
    function: Option<Result<Function<'a>, JsonType>>,
    custom: Option<Result<Function<'a>, JsonType>>,
    path: &Path<'_>,
) -> Result<Result<(Cow<'a, str>, usize), Invalid>, Invalid> {
    let of = path.member("type");
    let kind = kind.and_then(json::given).ok_or_else(|| fault::required(&of))?;
    let (declared, member) = match &*json::text(kind, &of)? {
        "function" => (function, "function"),
        "custom" => (custom, "custom"),
        _ => {
            let message = "Only tools of the types 'function' and 'custom' are supported.";
            return Ok(Err(fault::refused(&of, message).allowing(["function", "custom"])));
        }
    };
    let path = path.member(member);
    match declared {
        None | Some(Err(JsonType::Null)) => Err(fault::required(&path)),
        Some(Err(kind)) => Err(fault::wrong_type(&path, "an object", kind)),
        Some(Ok(function)) => function.judge(&path).map(Ok),
    }
}

/// What a function says of itself.
#[derive(Default)]
struct Function<'a> {
    name: Option<Raw<'a>>,
    parameters: Option<Raw<'a>>,
    description: Option<TextLength>,
    /// The first name that stands in it twice.
    twice: Option<&'static str>,
}

impl<'a> Function<'a> {
    fn judge(self, path: &Path<'_>) -> Result<(Cow<'a, str>, usize), Invalid> {
        if let Some(name) = self.twice {
            return Err(fault::given_twice(&path.member(name)));
        }
        let name = self.name(&path.member("name"))?;
        let schema = self.parameters.and_then(json::given);
        if let Some(raw) = schema {
            json::object(raw, &path.member("parameters"))?;
        }
        let description = match self.description {
            None | Some(TextLength::Other(JsonType::Null)) => 0,
            Some(TextLength::Text(bytes)) => bytes,
            Some(TextLength::Other(kind)) => {
                return Err(fault::wrong_type(&path.member("description"), "a string", kind));
            }
        };
        Ok((name, description + schema.map_or(0, |raw| raw.written().len())))
    }

    fn name(&self, path: &Path<'_>) -> Result<Cow<'a, str>, Invalid> {
        let Some(raw) = self.name.and_then(json::given) else {
            let mut invalid = fault::required(path);
            NAME_RULE.clone_into(&mut invalid.message);
            return Err(invalid);
        };
        let name = json::text(raw, path)?;
        let fits = !name.is_empty() && (name.len() <= MAX_NAME_CHARS || name.chars().count() <= MAX_NAME_CHARS);
        if fits { Ok(name) } else { Err(fault::refused(path, NAME_RULE)) }
    }
}

#[derive(Clone, Copy)]
enum FunctionKey {
    Name,
    Description,
    Parameters,
    Other,
}

impl FunctionKey {
    fn of(key: Raw<'_>) -> FunctionKey {
        match &*key.name() {
            b"name" => FunctionKey::Name,
            b"description" => FunctionKey::Description,
            b"parameters" => FunctionKey::Parameters,
            _ => FunctionKey::Other,
        }
    }
}

struct FunctionVisitor;

impl<'a> ValueVisitor<'a> for FunctionVisitor {
    type Out = Result<Function<'a>, JsonType>;

    fn other(self, got: JsonType) -> Result<Self::Out, Stopped> {
        Ok(Err(got))
    }

    fn object(self, mut members: ObjectReader<'_, 'a>) -> Result<Self::Out, Stopped> {
        let mut met = SeenKeys::default();
        let mut function = Function::default();
        while let Some(key) = members.key()?.map(FunctionKey::of) {
            let name = match key {
                FunctionKey::Name => {
                    function.name = Some(members.raw()?);
                    "name"
                }
                FunctionKey::Description => {
                    function.description = Some(members.value(LengthVisitor)?);
                    "description"
                }
                FunctionKey::Parameters => {
                    function.parameters = Some(members.raw()?);
                    "parameters"
                }
                FunctionKey::Other => {
                    members.raw()?;
                    continue;
                }
            };
            if !met.first_time(key as u8) {
                function.twice = function.twice.or(Some(name));
            }
        }
        Ok(Ok(function))
    }
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

/// Checks `tool_choice` against the tools that were declared.
pub(super) fn tool_choice(raw: Raw<'_>, path: &Path<'_>, tools: &DeclaredTools<'_>) -> Result<ToolChoice, Invalid> {
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
                _ if !tools.unknown.is_empty() => Ok(ToolChoice::Forced),
                other => Err(fault::not_one_of(&of, other, &["function", "custom", "allowed_tools"])),
            }
        }
        other => Err(fault::wrong_type(path, "a string or an object", other)),
    }
}

/// Checks a choice among some of the tools.
fn among(choice: &Object<'_>, path: &Path<'_>, declared: &DeclaredTools<'_>) -> Result<ToolChoice, Invalid> {
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
            _ if !declared.unknown.is_empty() => {}
            other => return Err(fault::not_one_of(&of, other, &["function", "custom"])),
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
