//! Which tools a simulated model calls, and with what.
//!
//! * `tool_choice: "none"`, no tools, or a tool's result as the last message: none, it answers in words.
//!   The last holds even for a forced choice, so that every round trip comes to an end.
//! * A named function: that one.
//! * `required`: the tool that shares most words with the user's last message, else the first.
//! * `auto`: the tool that shares most words; none shares any: the only tool if there is just one, else words.
//!
//! A text with several places ("in Paris and Tokyo") makes one call per place, unless
//! `parallel_tool_calls` is false.

use std::collections::HashSet;

use rand::RngExt;
use serde_json::Value;

use super::{
    Dice,
    mentions::Mentions,
    request::{ChatBody, Function, ToolChoice},
    schema,
};

/// The most calls one answer makes.
const MOST_CALLS: usize = 4;

/// Characters of a call id after its prefix.
const ID_CHARS: usize = 24;

/// Words too common to say anything about a tool.
const COMMON: [&str; 32] = [
    "the", "and", "for", "with", "from", "that", "this", "what", "which", "who", "how", "are", "was", "were", "you",
    "your", "can", "could", "would", "will", "please", "get", "give", "tell", "use", "using", "given", "any", "all",
    "its", "into", "about",
];

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolCall {
    pub(super) id: String,
    pub(super) name: String,
    /// JSON text, as the wire carries it.
    pub(super) arguments: String,
}

/// The calls that answer `body`; empty when it is answered in words.
pub(super) fn calls(body: &ChatBody, dice: &mut Dice) -> Vec<ToolCall> {
    let question = body.question();
    let Some(function) = choose(body, &question) else { return Vec::new() };
    let mentions = Mentions::of(&question);
    let parallel = body.parallel_tool_calls.unwrap_or(true);
    let readings = if parallel { readings(function, mentions) } else { vec![mentions] };
    readings.iter().map(|mentions| call(function, mentions, dice)).collect()
}

/// The function to call, if any.
fn choose<'a>(body: &'a ChatBody, question: &str) -> Option<&'a Function> {
    let functions = || body.tools().iter().map(|tool| &tool.function);
    if body.messages().last().is_some_and(|message| message.role == "tool") {
        return None;
    }
    let fitting = || {
        let asked = telling_words(question);
        let scored = functions().map(|function| (shared(function, &asked), function)).filter(|(score, _)| *score > 0);
        // The first of equals: clients list the tool they mean most first.
        scored.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, function)| function)
    };
    match &body.tool_choice {
        Some(ToolChoice::Named { function: named }) => functions().find(|function| function.name == named.name),
        Some(ToolChoice::Mode(mode)) if mode == "none" => None,
        Some(ToolChoice::Mode(mode)) if mode == "required" => fitting().or_else(|| functions().next()),
        _ => fitting().or_else(|| functions().next().filter(|_| body.tools().len() == 1)),
    }
}

/// How many words of the question stand in the function's name or description; a name counts double.
fn shared(function: &Function, asked: &HashSet<String>) -> usize {
    let name = telling_words(&function.name);
    let description = telling_words(function.description.as_deref().unwrap_or_default());
    2 * asked.intersection(&name).count() + asked.intersection(&description).count()
}

/// The words of a text that tell it from others, in small letters. `get_weather` has two words, one tells.
fn telling_words(text: &str) -> HashSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().count() > 2);
    words.map(str::to_lowercase).filter(|word| !COMMON.contains(&word.as_str())).collect()
}

/// The mentions once for each place, if the function takes exactly one; else as they are.
fn readings(function: &Function, mentions: Mentions) -> Vec<Mentions> {
    let properties = function.parameters.as_ref().and_then(|schema| schema.get("properties")?.as_object());
    let text = |property: &Value| property.get("type").and_then(Value::as_str) == Some("string");
    let takes = properties.into_iter().flatten().filter(|(name, p)| schema::asks_for_a_place(name) && text(p)).count();
    if takes != 1 || mentions.places.len() < 2 {
        return vec![mentions];
    }
    let places = mentions.places.iter().take(MOST_CALLS);
    places.map(|place| Mentions { places: vec![place.clone()], ..mentions.clone() }).collect()
}

fn call(function: &Function, mentions: &Mentions, dice: &mut Dice) -> ToolCall {
    let arguments = function.parameters.as_ref().map(|parameters| schema::fit(parameters, mentions));
    let arguments = arguments.filter(Value::is_object).map_or_else(|| "{}".to_owned(), |value| value.to_string());
    ToolCall { id: format!("call_{}", random_name(dice, ID_CHARS)), name: function.name.clone(), arguments }
}

/// `length` random letters and digits.
pub(super) fn random_name(dice: &mut Dice, length: usize) -> String {
    dice.sample_iter(rand::distr::Alphanumeric).take(length).map(char::from).collect()
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
        let calls = calls(&body, &mut Dice::seed_from_u64(1));
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
    fn several_places_make_several_calls_unless_parallel_calls_are_off() {
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
    fn a_result_is_answered_in_words_even_when_a_tool_is_forced() {
        let more = json!({ "tool_choice": "required", "messages": [
            { "role": "user", "content": "Weather in Oslo?" },
            { "role": "tool", "tool_call_id": "call_1", "content": "rain" },
        ] });
        assert_eq!(ask("", &["get_weather"], more), "");
    }
}
