//! Chooses the tools that a simulated model calls, and their arguments.
//!
//! * `tool_choice: "none"`, no tools, or a tool result as the last message: no call, the answer is text. A tool result
//!   overrides a forced choice, so that a conversation ends.
//! * A named function: that function.
//! * `required`: the tool with the most words of the user's last message, else the first tool.
//! * `auto`: the tool with the most words of that message. If no tool has any, a single tool is called, else the answer is
//!   text.
//!
//! A question with several names ("Weather in Paris and Tokyo?") causes one call per name, if the function takes exactly one
//! text and `parallel_tool_calls` is not false.

use std::collections::HashSet;

use rand::RngExt;
use serde_json::Value;

use super::{
    Rng,
    request::{ChatBody, Function, ToolChoice},
    schema,
};

/// Maximum number of calls in an answer.
const MAX_CALLS: usize = 4;

/// Characters of a call id after its prefix.
const ID_CHARS: usize = 24;

/// Common words that do not identify a tool.
const STOP_WORDS: [&str; 32] = [
    "the", "and", "for", "with", "from", "that", "this", "what", "which", "who", "how", "are", "was", "were", "you",
    "your", "can", "could", "would", "will", "please", "get", "give", "tell", "use", "using", "given", "any", "all",
    "its", "into", "about",
];

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolCall {
    pub(super) id: String,
    pub(super) name: String,
    /// JSON text.
    pub(super) arguments: String,
}

/// The tool calls for `body`; empty when the answer is text.
pub(super) fn calls(body: &ChatBody, rng: &mut Rng) -> Vec<ToolCall> {
    let question = body.question();
    let Some(function) = choose(body, &question) else { return Vec::new() };
    let names = names(&question);
    let is_parallel = body.parallel_tool_calls.unwrap_or(true) && takes_one_text(function);
    match names.as_slice() {
        [] => vec![call(function, &question, rng)],
        [name, ..] if !is_parallel => vec![call(function, name, rng)],
        names => names.iter().take(MAX_CALLS).map(|name| call(function, name, rng)).collect(),
    }
}

/// The function to call, if any.
fn choose<'a>(body: &'a ChatBody, question: &str) -> Option<&'a Function> {
    let functions = || body.tools().iter().map(|tool| &tool.function);
    if body.messages().last().is_some_and(|message| message.role == "tool") {
        return None;
    }
    let fitting = || {
        let asked = keywords(question);
        let scored = functions().map(|function| (shared(function, &asked), function)).filter(|(score, _)| *score > 0);
        // The first of equal scores: clients list the preferred tool first.
        scored.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, function)| function)
    };
    match &body.tool_choice {
        Some(ToolChoice::Named { function: named }) => functions().find(|function| function.name == named.name),
        Some(ToolChoice::Mode(mode)) if mode == "none" => None,
        Some(ToolChoice::Mode(mode)) if mode == "required" => fitting().or_else(|| functions().next()),
        _ => fitting().or_else(|| functions().next().filter(|_| body.tools().len() == 1)),
    }
}

/// Number of words of the question in the function's name or description. Words in the name count double.
fn shared(function: &Function, asked: &HashSet<String>) -> usize {
    let name = keywords(&function.name);
    let description = keywords(function.description.as_deref().unwrap_or_default());
    2 * asked.intersection(&name).count() + asked.intersection(&description).count()
}

/// The words of a text without stop words, in small letters. `get_weather` has the keyword `weather`.
fn keywords(text: &str) -> HashSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().count() > 2);
    words.map(str::to_lowercase).filter(|word| !STOP_WORDS.contains(&word.as_str())).collect()
}

/// The capitalised words of a question but the first, which may be a name.
fn names(question: &str) -> Vec<&str> {
    let words = question.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).skip(1);
    words.filter(|word| word.len() > 1 && word.starts_with(char::is_uppercase)).collect()
}

fn takes_one_text(function: &Function) -> bool {
    let properties = function.parameters.as_ref().and_then(|schema| schema.get("properties")?.as_object());
    let is_text = |property: &&Value| property.get("type").and_then(Value::as_str) == Some("string");
    properties.into_iter().flat_map(|all| all.values()).filter(is_text).count() == 1
}

/// A call whose texts are `text`.
fn call(function: &Function, text: &str, rng: &mut Rng) -> ToolCall {
    let arguments = function.parameters.as_ref().map(|parameters| schema::fit(parameters, text));
    let arguments = arguments.filter(Value::is_object).map_or_else(|| "{}".to_owned(), |value| value.to_string());
    ToolCall { id: format!("call_{}", random_name(rng, ID_CHARS)), name: function.name.clone(), arguments }
}

/// `length` random letters and digits.
pub(super) fn random_name(rng: &mut Rng, length: usize) -> String {
    rng.sample_iter(rand::distr::Alphanumeric).take(length).map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use serde_json::json;

    use super::*;

    fn ask(question: &str, tools: &[&str], more: Value) -> String {
        let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
        let tool = |name: &&str| {
            json!({ "type": "function", "function": {
            "name": name, "description": format!("Get the current {} of a city", name.replace("get_", "")),
            "parameters": schema,
        } })
        };
        let mut body = json!({
            "messages": [{ "role": "user", "content": question }],
            "tools": tools.iter().map(tool).collect::<Vec<_>>(),
        });
        body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        let body: ChatBody = serde_json::from_value(body).unwrap();
        let calls = calls(&body, &mut Rng::seed_from_u64(1));
        calls.iter().map(|call| format!("{}{}", call.name, call.arguments)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_tool_that_fits_the_question_is_called() {
        let both = ["get_weather", "get_time"];
        let auto = json!({});
        let required = json!({ "tool_choice": "required" });
        let named = json!({ "tool_choice": { "type": "function", "function": { "name": "get_time" } } });
        let none = json!({ "tool_choice": "none" });

        assert_eq!(ask("Weather in Oslo?", &both, auto.clone()), r#"get_weather{"city":"Oslo"}"#);
        assert_eq!(ask("What is the time in Oslo?", &both, auto.clone()), r#"get_time{"city":"Oslo"}"#);
        assert_eq!(ask("Hello!", &both, auto.clone()), "");
        assert_eq!(ask("Hello!", &["get_time"], auto), r#"get_time{"city":"Hello!"}"#);
        assert_eq!(ask("Hello!", &both, required), r#"get_weather{"city":"Hello!"}"#);
        assert_eq!(ask("Weather in Oslo?", &both, named), r#"get_time{"city":"Oslo"}"#);
        assert_eq!(ask("Weather in Oslo?", &both, none), "");
    }

    #[test]
    fn several_names_make_several_calls_unless_parallel_calls_are_off() {
        let question = "Weather in Oslo and Rome?";
        assert_eq!(
            ask(question, &["get_weather"], json!({})),
            r#"get_weather{"city":"Oslo"} get_weather{"city":"Rome"}"#
        );
        assert_eq!(
            ask(question, &["get_weather"], json!({ "parallel_tool_calls": false })),
            r#"get_weather{"city":"Oslo"}"#
        );
    }

    #[test]
    fn a_tool_result_is_answered_with_text_even_when_a_tool_is_forced() {
        let more = json!({ "tool_choice": "required", "messages": [
            { "role": "user", "content": "Weather in Oslo?" },
            { "role": "tool", "tool_call_id": "call_1", "content": "rain" },
        ] });
        assert_eq!(ask("", &["get_weather"], more), "");
    }
}
