//! Results of calls that do not follow their calls at once, and choices of tools where there are none.

use pointsman_dialect::ChatRequest;
use pointsman_domain::Dialect;
use serde_json::{Value, json};

use crate::world::{catalog, of_agent, of_chat, of_messages, of_responses, sent_of};

/// The texts, calls (`c:`) and results (`r:`, with `!` if they were made here) of a body, in order.
fn told(dialect: Dialect, body: &Value) -> Vec<String> {
    let list = match dialect {
        Dialect::Gemini => &body["contents"],
        Dialect::Responses => &body["input"],
        Dialect::OpenAi | Dialect::Anthropic | Dialect::Converse => &body["messages"],
    };
    let mut out = Vec::new();
    for message in list.as_array().unwrap() {
        if message["role"] == "tool" || message["type"] == "function_call_output" || message["type"] == "function_call"
        {
            part(message, &mut out);
            continue;
        }
        match [&message["content"], &message["parts"]].into_iter().find(|content| !content.is_null()) {
            Some(Value::String(text)) => out.push(text.clone()),
            Some(content) => content.as_array().unwrap().iter().for_each(|one| part(one, &mut out)),
            None => {}
        }
        message["tool_calls"].as_array().into_iter().flatten().for_each(|call| part(call, &mut out));
    }
    out.iter().map(|text| text.trim_start_matches("<system>").trim_end_matches("</system>").to_owned()).collect()
}

fn part(part: &Value, out: &mut Vec<String>) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let results = ["/tool_call_id", "/tool_use_id", "/functionResponse/name", "/toolResult/toolUseId"];
    let calls = ["/functionCall/name", "/toolUse/toolUseId", "/function/name", "/name"];
    let first = |paths: &[&str]| paths.iter().find_map(|path| part.pointer(path).and_then(text));
    let is_output = part["type"] == "function_call_output";
    let result = first(&results).or_else(|| text(&part["call_id"]).filter(|_| is_output));
    if let Some(id) = result {
        let made = if part.to_string().contains("[no result]") { "!" } else { "" };
        // An id that comes again gets another end.
        out.push(format!("r:{}{made}", id.split('_').next().unwrap()));
    } else if let Some(id) = first(&calls) {
        out.push(format!("c:{id}"));
    } else if let Some(text) = text(&part["text"]) {
        out.push(text);
    }
}

/// Checks what endpoints of all dialects but the client's own are sent.
#[track_caller]
fn check(chat: &ChatRequest, client: Dialect, expected: &str) {
    let catalog = catalog();
    for dialect in Dialect::ALL.into_iter().filter(|dialect| *dialect != client) {
        let outgoing = sent_of(&catalog, dialect, chat);
        let body: Value = serde_json::from_slice(&outgoing.bytes).unwrap();
        // Converse gets an id of its own for a call whose id came before.
        let told = told(dialect, &body).join(" ").replace("_2_387f912c", "");
        assert_eq!(told, expected, "{dialect:?}: {body}");
    }
}

/// Messages of a client of Messages, in short: `a` begins an answer, `u` a message of the user, `s` one of the system; `c:id` is
/// a call, `r:id` a result, anything else a text.
fn turns(text: &str) -> Value {
    let message = |message: &str| {
        let (role, parts) = message.split_once(' ').unwrap();
        let role = match role {
            "a" => "assistant",
            "s" => "system",
            _ => "user",
        };
        let blocks = parts.split(' ').map(|part| match part.split_once(':') {
            Some(("c", id)) => json!({"type": "tool_use", "id": id, "name": id, "input": {}}),
            Some((_, id)) => json!({"type": "tool_result", "tool_use_id": id, "content": "18"}),
            None => json!({"type": "text", "text": part}),
        });
        json!({"role": role, "content": blocks.collect::<Vec<_>>()})
    };
    text.split(" | ").map(message).collect()
}

#[test]
fn results_stand_directly_behind_their_calls_whatever_a_client_of_messages_puts_between() {
    for (given, expected) in [
        ("u Hi | a c:t0 c:t1 | u r:t0 wait | u r:t1", "Hi c:t0 c:t1 r:t0 r:t1 wait"),
        ("u Hi | a c:t0 c:t1 | u r:t0 | s rule | u r:t1 go", "Hi c:t0 c:t1 r:t0 r:t1 rule go"),
        ("u Hi | a c:t0 | a c:t1 | u r:t0 r:t1", "Hi c:t0 c:t1 r:t0 r:t1"),
        ("u Hi | a c:t0 | a c:t1 | u r:t1 | u r:t0", "Hi c:t0 c:t1 r:t0 r:t1"),
        ("u Hi | a c:t0 | u wait | u r:t0 go", "Hi c:t0 r:t0 wait go"),
        ("u Hi | a c:t0 | u wait | a c:t1 | u r:t0 r:t1", "Hi c:t0 r:t0 wait c:t1 r:t1"),
        ("u Hi | a c:t0 c:t1 | u r:t0 | a so | u go", "Hi c:t0 c:t1 r:t0 r:t1! so go"),
        ("u Hi | a c:t0 | u r:t0 | a c:t0 | u wait | u r:t0", "Hi c:t0 r:t0 c:t0 r:t0 wait"),
        ("u Hi | a c:t0 | u r:t0 r:t9", "Hi c:t0 r:t0 [tool result t9] 18"),
        ("u Hi | a c:t0 | u r:t9", "Hi c:t0 r:t0! [tool result t9] 18"),
        ("u Hi | a c:t0 c:t1 | u r:t1 r:t9", "Hi c:t0 c:t1 r:t0! r:t1 [tool result t9] 18"),
        ("u Hi | u r:t9", "Hi [tool result t9] 18"),
    ] {
        let words = json!([{"name": "t0", "input_schema": {"type": "object"}}, {"name": "t1", "input_schema": {"type": "object"}}]);
        let body = json!({"model": "acme/m", "max_tokens": 9, "tools": words, "messages": turns(given)});
        check(&of_messages(&body), Dialect::Anthropic, expected);
    }
}

#[test]
fn results_stand_directly_behind_their_calls_whatever_a_client_of_responses_puts_between() {
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": id, "arguments": "{}"});
    let result = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "18"});
    let says = |role: &str, text: &str| json!({"type": "message", "role": role, "content": text});
    let hi = says("user", "Hi");
    for (input, expected) in [
        (json!([hi, call("t0"), says("user", "wait"), result("t0")]), "Hi c:t0 r:t0 wait"),
        (json!([hi, call("t0"), says("developer", "rule"), result("t0")]), "Hi c:t0 r:t0 rule"),
        (
            json!([hi, call("t0"), call("t1"), result("t1"), says("user", "wait"), result("t0")]),
            "Hi c:t0 c:t1 r:t0 r:t1 wait",
        ),
        (json!([hi, call("t0"), says("user", "wait")]), "Hi c:t0 r:t0! wait"),
    ] {
        check(&of_responses(&json!({"model": "acme/m", "input": input})), Dialect::Responses, expected);
    }
}

#[test]
fn a_chat_server_gets_the_history_of_a_chat_client_as_it_is_and_others_in_order() {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": id, "arguments": "{}"}});
    let messages = json!([
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": null, "tool_calls": [call("t0"), call("t1")]},
        {"role": "tool", "tool_call_id": "t0", "content": "18"}, {"role": "user", "content": "wait"},
        {"role": "tool", "tool_call_id": "t1", "content": "18"},
    ]);
    let chat = of_chat(&json!({"model": "acme/m", "messages": messages}).to_string());
    check(&chat, Dialect::OpenAi, "Hi c:t0 c:t1 r:t0 r:t1 wait");
    let own: Value = serde_json::from_slice(&sent_of(&catalog(), Dialect::OpenAi, &chat).bytes).unwrap();
    assert_eq!(own["messages"], messages);
}

#[test]
fn results_of_deprecated_function_calls_stand_directly_behind_their_calls() {
    let says = |role: &str, text: &str| json!({"role": role, "content": text});
    let call =
        |name: &str| json!({"role": "assistant", "content": null, "function_call": {"name": name, "arguments": "{}"}});
    let result = |name: &str| json!({"role": "function", "name": name, "content": "18"});
    let (hi, wait) = (says("user", "Hi"), says("user", "wait"));
    let (t0, r0) = (call("t0"), result("t0"));
    for (messages, expected) in [
        (json!([hi, t0, r0, says("user", "go")]), "Hi c:t0 r:t0 go"),
        (json!([hi, t0, wait, r0]), "Hi c:t0 r:t0 wait"),
        (json!([hi, t0, says("system", "rule"), r0]), "Hi c:t0 r:t0 rule"),
        (json!([hi, t0, call("t1"), r0, result("t1")]), "Hi c:t0 c:t1 r:t0 r:t1"),
        (json!([hi, t0, r0, t0, wait, r0]), "Hi c:t0 r:t0 c:t0 r:t0 wait"),
        (json!([hi, t0, wait]), "Hi c:t0 r:t0! wait"),
        (json!([hi, t0, result("t9")]), "Hi c:t0 r:t0! [tool result t9] 18"),
    ] {
        let chat = of_chat(&json!({"model": "acme/m", "messages": messages}).to_string());
        check(&chat, Dialect::OpenAi, expected);
        let own: Value = serde_json::from_slice(&sent_of(&catalog(), Dialect::OpenAi, &chat).bytes).unwrap();
        assert_eq!(own["messages"], messages, "a chat server gets the body of a chat client as it is");
    }
}

#[test]
fn a_body_of_responses_at_the_door_of_chat_has_its_results_behind_their_calls_at_chat_servers_too() {
    let says = |role: &str, text: &str| json!({"type": "message", "role": role, "content": text});
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": id, "arguments": "{}"});
    let result = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "18"});
    let hi = says("user", "Hi");
    for (input, expected) in [
        (json!([hi, call("t0"), says("user", "wait"), result("t0")]), "Hi c:t0 r:t0 wait"),
        (json!([hi, call("t0"), says("developer", "rule"), result("t0")]), "Hi c:t0 r:t0 rule"),
        (json!([hi, call("t0"), result("t9")]), "Hi c:t0 r:t0! [tool result t9] 18"),
    ] {
        let chat = of_agent(&json!({"model": "acme/m", "input": input}));
        for dialect in Dialect::ALL {
            let outgoing = sent_of(&catalog(), dialect, &chat);
            let body: Value = serde_json::from_slice(&outgoing.bytes).unwrap();
            assert_eq!(told(dialect, &body).join(" "), expected, "{dialect:?}: {body}");
        }
    }
    let messages = json!([{"role": "user", "content": [{"type": "text", "text": "Hi"}], "name": "n"}]);
    let flat = json!({"model": "acme/m", "messages": messages,
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]});
    let own: Value = serde_json::from_slice(&sent_of(&catalog(), Dialect::OpenAi, &of_agent(&flat)).bytes).unwrap();
    assert_eq!(own["messages"], messages, "messages of a chat client stay as they are");
}

#[test]
fn a_chat_client_with_a_result_of_another_call_gets_no_result_for_the_call_and_a_text_for_the_other() {
    let call = json!({"id": "t0", "type": "function", "function": {"name": "t0", "arguments": "{}"}});
    let messages = json!([
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t9", "content": "18"},
    ]);
    let chat = of_chat(&json!({"model": "acme/m", "messages": messages}).to_string());
    check(&chat, Dialect::OpenAi, "Hi c:t0 r:t0! [tool result t9] 18");
}

/// Prompt caches live on it.
#[test]
fn a_history_with_scattered_results_is_a_prefix_of_the_next_turn() {
    let catalog = catalog();
    let tools = json!([{"name": "t0", "input_schema": {"type": "object"}}]);
    let written = |dialect, given: &str| {
        let body = json!({"model": "acme/m", "max_tokens": 9, "tools": tools, "messages": turns(given)});
        String::from_utf8(sent_of(&catalog, dialect, &of_messages(&body)).bytes.to_vec()).unwrap()
    };
    let first = "u Hi | a c:t0 c:t1 | u r:t0 wait | u r:t1";
    let later = format!("{first} | a so | u go");
    for dialect in Dialect::ALL.into_iter().filter(|dialect| *dialect != Dialect::Anthropic) {
        let (first, later) = (written(dialect, first), written(dialect, &later));
        let list = |body: &str| {
            let start =
                ["\"messages\":[", "\"contents\":[", "\"input\":["].iter().find_map(|name| body.find(name)).unwrap();
            body.split_at(start).1.to_owned()
        };
        let first = list(&first);
        let (told, _) = first.split_at(first.rfind("wait").unwrap());
        assert!(list(&later).starts_with(told), "{dialect:?}");
    }
}

#[test]
fn without_a_tool_a_chat_server_gets_no_choice_of_tools() {
    let hosted = json!([{"type": "web_search"}]);
    let catalog = catalog();
    for (tools, choice) in [(Some(json!([])), json!("auto")), (Some(hosted), json!("auto")), (None, json!("none"))] {
        let mut body = json!({"model": "acme/m", "input": "Hi", "tool_choice": choice, "parallel_tool_calls": false});
        if let Some(tools) = tools {
            body["tools"] = tools;
        }
        let sent = sent_of(&catalog, Dialect::OpenAi, &of_responses(&body));
        let sent: Value = serde_json::from_slice(&sent.bytes).unwrap();
        for name in ["tools", "tool_choice", "parallel_tool_calls"] {
            assert_eq!(sent.get(name), None, "{body}");
        }
    }
    let hi = json!([{"role": "user", "content": "Hi"}]);
    for (kind, tools) in [("auto", Some(json!([]))), ("none", Some(json!([]))), ("auto", None), ("none", None)] {
        let choice = json!({"type": kind, "disable_parallel_tool_use": true});
        let mut body = json!({"model": "acme/m", "max_tokens": 9, "messages": hi, "tool_choice": choice});
        if let Some(tools) = tools {
            body["tools"] = tools;
        }
        let sent = sent_of(&catalog, Dialect::OpenAi, &of_messages(&body));
        let sent: Value = serde_json::from_slice(&sent.bytes).unwrap();
        assert!(sent.get("tool_choice").is_none() && sent.get("parallel_tool_calls").is_none(), "{sent}");
    }
}
