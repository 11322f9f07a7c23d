//! Reads a chat body into the neutral form, for an endpoint of another dialect.
//!
//! The body has passed [`super::request`], so the frame of everything is right; what nevertheless does not fit is left out.

mod messages;
mod tools;

pub(crate) use self::tools::choice as tool_choice;

use std::borrow::Cow;

use crate::{
    json::{Cursor, JsonFault, Raw},
    neutral::{
        AnswerFormat, Conversation, Effort, EscapedText, Parameter, Reasoning, ToolChoice, Turn, UnsupportedFields,
    },
    openai::request::gateway_members::is_for_gateway,
};

/// Reads a chat body.
///
/// # Errors
/// When the text is not a JSON object.
pub(crate) fn read_conversation(body: &str) -> Result<Conversation<'_>, JsonFault> {
    let mut cursor = Cursor::new(body);
    let mut reader = Reader::default();
    reader.object(&mut cursor)?;
    cursor.end()?;
    if let Some(extra) = reader.extra_body.take().filter(|extra| extra.is_object()) {
        reader.object(&mut Cursor::over(extra))?;
    }
    Ok(reader.finish())
}

/// What these members of a body ask for, without its messages.
pub(crate) fn read_members<'a>(members: Vec<(Cow<'a, [u8]>, Raw<'a>)>) -> Conversation<'a> {
    let mut reader = Reader::default();
    members.into_iter().for_each(|(name, value)| reader.member(name, value));
    reader.finish()
}

#[derive(Default)]
struct Reader<'a> {
    turns: Option<Vec<Turn<'a>>>,
    tools: Option<Raw<'a>>,
    functions: Option<Raw<'a>>,
    tool_choice: Option<Raw<'a>>,
    function_call: Option<Raw<'a>>,
    parallel_tool_calls: Option<bool>,
    format: Option<Raw<'a>>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    stop: Vec<EscapedText<'a>>,
    reasoning: Reasoning,
    stream: bool,
    parameters: Vec<Parameter<'a>>,
    extra_body: Option<Raw<'a>>,
    /// Members of messages, parts and tools that have no neutral form.
    unsupported: UnsupportedFields,
}

impl<'a> Reader<'a> {
    /// Reads the object that comes next. Messages, which are most of it, are read as they are passed.
    fn object(&mut self, cursor: &mut Cursor<'a>) -> Result<(), JsonFault> {
        let other = cursor.each_member(|cursor, key| {
            let name = key.name();
            if *name == *b"messages" && self.turns.is_none() && cursor.peek()? == b'[' {
                self.turns = Some(messages::turns(cursor, &mut self.unsupported)?);
                return Ok(());
            }
            let value = cursor.value()?;
            if !value.is_null() {
                self.member(name, value);
            }
            Ok(())
        })?;
        if other.is_some() { Err(JsonFault::Invalid) } else { Ok(()) }
    }

    fn member(&mut self, name: Cow<'a, [u8]>, value: Raw<'a>) {
        match &*name {
            b"model" | b"messages" => {}
            b"tools" => self.tools = self.tools.or(Some(value)),
            b"functions" => self.functions = self.functions.or(Some(value)),
            b"tool_choice" => self.tool_choice = self.tool_choice.or(Some(value)),
            b"function_call" => self.function_call = self.function_call.or(Some(value)),
            b"parallel_tool_calls" => self.parallel_tool_calls = Some(value.bytes() == b"true"),
            b"response_format" => self.format = self.format.or(Some(value)),
            b"max_tokens" => self.max_tokens = value.count(),
            b"max_completion_tokens" => self.max_completion_tokens = value.count(),
            b"stop" => self.stop = texts(value),
            b"stream" => self.stream = value.bytes() == b"true",
            b"reasoning_effort" => self.reasoning.effort = effort(value).or(self.reasoning.effort),
            b"reasoning" => self.reasoning(value),
            b"include_reasoning" => self.reasoning.exclude |= value.bytes() == b"false",
            b"extra_body" => self.extra_body = Some(value),
            _ => self.parameter(name, value),
        }
    }

    fn reasoning(&mut self, value: Raw<'a>) {
        let asked = requested_reasoning(value);
        let reasoning = &mut self.reasoning;
        reasoning.effort = asked.effort.or(reasoning.effort);
        reasoning.max_tokens = asked.max_tokens.or(reasoning.max_tokens);
        reasoning.enabled = asked.enabled.or(reasoning.enabled);
        reasoning.exclude |= asked.exclude;
    }

    fn parameter(&mut self, name: Cow<'a, [u8]>, value: Raw<'a>) {
        let name = match name {
            Cow::Borrowed(name) => String::from_utf8_lossy(name),
            Cow::Owned(name) => Cow::Owned(String::from_utf8_lossy(&name).into_owned()),
        };
        let is_given = self.parameters.iter().any(|parameter| parameter.name == name);
        if !is_given && !is_for_gateway(&name) {
            self.parameters.push(Parameter { name, value });
        }
    }

    fn finish(mut self) -> Conversation<'a> {
        let unsupported = &mut self.unsupported;
        let mut tools = tools::declared(self.tools, unsupported);
        let functions = self.functions.into_iter().flat_map(Raw::elements);
        tools.extend(functions.filter_map(|value| tools::function(value, "functions[]", unsupported)));
        // The deprecated form has one call in an answer.
        let is_legacy = self.functions.is_some() && self.tools.is_none();
        let tool_choice = match (self.tool_choice, self.function_call) {
            (Some(choice), _) | (None, Some(choice)) => tools::choice(choice),
            (None, None) => ToolChoice::Unspecified,
        };
        let mut conversation = Conversation {
            system: Vec::new(),
            turns: Vec::new(),
            tools,
            tool_choice,
            parallel_tool_calls: self.parallel_tool_calls.or(is_legacy.then_some(false)),
            format: self.format.map_or(AnswerFormat::Text, format),
            max_tokens: self.max_completion_tokens.or(self.max_tokens),
            stop: self.stop,
            reasoning: self.reasoning,
            stream: self.stream,
            parameters: self.parameters,
            unsupported: self.unsupported,
        };
        conversation.set_turns(self.turns.unwrap_or_default());
        conversation
    }
}

/// What the object `reasoning` asks for.
pub(crate) fn requested_reasoning(value: Raw<'_>) -> Reasoning {
    let member = |name: &[u8]| value.member(name).filter(|value| !value.is_null());
    Reasoning {
        effort: member(b"effort").and_then(effort),
        max_tokens: member(b"max_tokens").and_then(Raw::count),
        enabled: member(b"enabled").map(|value| value.bytes() == b"true"),
        exclude: member(b"exclude").is_some_and(|value| value.bytes() == b"true"),
    }
}

fn effort(value: Raw<'_>) -> Option<Effort> {
    Effort::named(&value.text()?)
}

/// A string, or the strings of an array.
fn texts(value: Raw<'_>) -> Vec<EscapedText<'_>> {
    match EscapedText::of(value) {
        Some(text) => vec![text],
        None => value.elements().filter_map(EscapedText::of).collect(),
    }
}

fn format(value: Raw<'_>) -> AnswerFormat<'_> {
    match value.member(b"type").and_then(Raw::text).as_deref() {
        Some("json_object") => AnswerFormat::JsonObject,
        Some("json_schema") => schema_format(value).unwrap_or(AnswerFormat::JsonObject),
        _ => AnswerFormat::Text,
    }
}

fn schema_format(value: Raw<'_>) -> Option<AnswerFormat<'_>> {
    let described = value.member(b"json_schema")?;
    Some(AnswerFormat::Schema {
        name: described.member(b"name").and_then(EscapedText::of).unwrap_or(EscapedText::plain("output")),
        description: described.member(b"description").and_then(EscapedText::of),
        schema: described.member(b"schema").filter(|schema| schema.is_object())?,
        strict: described.member(b"strict").filter(|strict| !strict.is_null()).map(|strict| strict.bytes() == b"true"),
    })
}

#[cfg(test)]
mod tests;
