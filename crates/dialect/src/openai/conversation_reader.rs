//! Reads a chat body into the neutral form, for an endpoint of another dialect.
//!
//! The body has passed [`super::request`], so the frame of everything is right; what nevertheless does not fit is left out.

mod messages;
mod tools;

pub(crate) use self::messages::ContentPart;

use std::borrow::Cow;

use crate::{
    json::{Cursor, JsonFault, Raw},
    neutral::{
        AnswerFormat, Conversation, Effort, EscapedText, Parameter, Part, Reasoning, ToolChoice, Turn,
        UnsupportedFields,
    },
};

/// Reads a part of a message.
pub(crate) fn read_part<'a>(part: Raw<'a>, unsupported: &mut UnsupportedFields) -> Option<Part<'a>> {
    ContentPart::read(&mut Cursor::over(part), unsupported).ok().map(|part| part.part(unsupported))
}

/// The conversation of a chat body, as writers get it.
#[cfg(test)]
pub(crate) fn read_settled(body: &str) -> Conversation<'_> {
    let mut reader = ConversationReader::default();
    for (key, value) in crate::json::object(body).unwrap().members().filter(|(_, value)| !value.is_null()) {
        reader.member(key.text().unwrap(), value.written()).unwrap();
    }
    let mut conversation = reader.finish();
    conversation.settle_turns();
    conversation
}

/// Reads the members of a chat body, one by one.
#[derive(Default)]
pub(crate) struct ConversationReader<'a> {
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
    /// Members of messages, parts and tools that have no neutral form.
    unsupported: UnsupportedFields,
}

impl<'a> ConversationReader<'a> {
    /// Reads a member that is not null. Messages, which are most of a body, are read in one pass.
    ///
    /// # Errors
    /// When the value is no JSON.
    pub(crate) fn member(&mut self, name: Cow<'a, str>, value: &'a str) -> Result<(), JsonFault> {
        if name == "messages" {
            self.turns = Some(messages::turns(&mut Cursor::new(value), &mut self.unsupported)?);
            return Ok(());
        }
        let value = Raw::whole(value).map_err(|_| JsonFault::Invalid)?;
        match &*name {
            "model" => {}
            "tools" => self.tools = Some(value),
            "functions" => self.functions = Some(value),
            "tool_choice" => self.tool_choice = Some(value),
            "function_call" => self.function_call = Some(value),
            "parallel_tool_calls" => self.parallel_tool_calls = Some(value.bytes() == b"true"),
            "response_format" => self.format = Some(value),
            "max_tokens" => self.max_tokens = value.count(),
            "max_completion_tokens" => self.max_completion_tokens = value.count(),
            "stop" => self.stop = texts(value),
            "stream" => self.stream = value.bytes() == b"true",
            "reasoning_effort" => self.reasoning.effort = effort(value).or(self.reasoning.effort),
            "reasoning" => self.reasoning(value),
            "include_reasoning" => self.reasoning.exclude |= value.bytes() == b"false",
            _ => self.parameters.push(Parameter::new(name, value)),
        }
        Ok(())
    }

    fn reasoning(&mut self, value: Raw<'a>) {
        let asked = requested_reasoning(value);
        let reasoning = &mut self.reasoning;
        reasoning.effort = asked.effort.or(reasoning.effort);
        reasoning.max_tokens = asked.max_tokens.or(reasoning.max_tokens);
        reasoning.enabled = asked.enabled.or(reasoning.enabled);
        reasoning.exclude |= asked.exclude;
    }

    /// What the members ask for.
    pub(crate) fn finish(mut self) -> Conversation<'a> {
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
        Conversation {
            system: Vec::new(),
            turns: self.turns.unwrap_or_default(),
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
        }
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
    Effort::from_name(&value.text()?)
}

/// A string, or the strings of an array.
fn texts(value: Raw<'_>) -> Vec<EscapedText<'_>> {
    match EscapedText::read(value) {
        Some(text) => vec![text],
        None => value.elements().filter_map(EscapedText::read).collect(),
    }
}

fn format(value: Raw<'_>) -> AnswerFormat<'_> {
    match value.kind().as_deref() {
        Some("json_object") => AnswerFormat::JsonObject,
        Some("json_schema") => schema_format(value).unwrap_or(AnswerFormat::JsonObject),
        _ => AnswerFormat::Text,
    }
}

fn schema_format(value: Raw<'_>) -> Option<AnswerFormat<'_>> {
    let described = value.member(b"json_schema")?;
    Some(AnswerFormat::Schema {
        name: described.member(b"name").and_then(EscapedText::read).unwrap_or(EscapedText::plain("output")),
        description: described.member(b"description").and_then(EscapedText::read),
        schema: described.member(b"schema").filter(|schema| schema.is_object())?,
        strict: described.member(b"strict").filter(|strict| !strict.is_null()).map(|strict| strict.bytes() == b"true"),
    })
}

#[cfg(test)]
mod tests;
