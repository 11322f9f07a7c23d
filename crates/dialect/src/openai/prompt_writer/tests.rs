use pointsman_domain::{EndpointId, ReasoningHistory};
use serde_json::{Value, json};

use super::*;
use crate::{
    neutral::{CHAT_NAMES, Conversation, ReasoningKind, ToolChoice},
    openai::request_writer::write_request,
};

fn endpoint() -> Endpoint {
    Endpoint::with_defaults(EndpointId::new("acme/m", "acme", ""), 0, 0, "m")
}

fn text(text: &'static str) -> Part<'static> {
    Part::new(Content::Text(EscapedText::plain(text)))
}

fn picture() -> Part<'static> {
    let source = MediaSource::Url(EscapedText::plain("https://h/a.png"));
    Part::new(Content::Image { source, detail: None })
}

fn result(id: &'static str, parts: Vec<Part<'static>>, failed: bool) -> Turn<'static> {
    Turn::new(Role::Tool, vec![Part::new(Content::ToolResult { id: EscapedText::plain(id), parts, failed })])
}

fn call(id: &'static str, name: &'static str) -> Part<'static> {
    let [id, name, arguments] = [id, name, "{}"].map(EscapedText::plain);
    Part::new(Content::ToolCall { id, name, arguments, kind: ToolKind::Function })
}

/// What a server is sent for these messages, and what is named.
fn sent(endpoint: &Endpoint, turns: &[Turn<'_>]) -> (Value, UnsupportedFields) {
    let mut unsupported = UnsupportedFields::default();
    let server = ChatServer::new(&Catalog::default(), endpoint, turns);
    let conversation = Conversation { turns: turns.to_vec(), ..Conversation::default() };
    let written = write_request(&conversation, &server, endpoint, true, &mut unsupported);
    let body: Value = serde_json::from_slice(&written.body).unwrap();
    (body["messages"].clone(), unsupported)
}

fn names(list: &[std::sync::Arc<str>]) -> Vec<&str> {
    list.iter().map(|name| &**name).collect()
}

fn messages(turns: &[Turn<'_>]) -> Value {
    sent(&endpoint(), turns).0
}

fn shown() -> Value {
    json!({"type": "image_url", "image_url": {"url": "https://h/a.png"}})
}

#[test]
fn media_of_results_stand_behind_the_results_and_before_what_the_user_says_next() {
    let [first, second] =
        [("a", "1"), ("b", "2")].map(|(id, text)| json!({"role": "tool", "tool_call_id": id, "content": text}));
    let seen = || [result("a", vec![text("1"), picture()], false), result("b", vec![text("2")], false)].to_vec();
    let alone = json!({"role": "user", "content": [shown()]});
    assert_eq!(messages(&seen()), json!([first, second, alone]));
    let mut asked = seen();
    asked.push(Turn::new(Role::User, vec![text("go")]));
    let both = json!({"role": "user", "content": [shown(), {"type": "text", "text": "go"}]});
    assert_eq!(messages(&asked), json!([first, second, both]));
    let mut answered = seen();
    answered.push(Turn::new(Role::Assistant, vec![text("x")]));
    assert_eq!(messages(&answered), json!([first, second, alone, {"role": "assistant", "content": "x"}]));
}

#[test]
fn media_of_instructions_stand_in_a_message_of_the_user_behind_them() {
    let rule = || Turn::new(Role::System, vec![text("rule"), picture()]);
    let said = json!({"role": "system", "content": "rule"});
    let alone = json!({"role": "user", "content": [shown()]});
    assert_eq!(messages(&[rule()]), json!([said, alone]));
    let brief = Turn::new(Role::Developer, vec![text("brief")]);
    assert_eq!(messages(&[rule(), brief]), json!([said, {"role": "developer", "content": "brief"}, alone]));
    assert_eq!(messages(&[Turn::new(Role::System, vec![picture()])]), json!([alone]), "nothing is left of it");
}

#[test]
fn a_failed_result_says_so_in_its_text() {
    let (sent, named) = sent(&endpoint(), &[result("a", vec![text("no")], true)]);
    assert_eq!(sent, json!([{"role": "tool", "tool_call_id": "a", "content": "Error: no"}]));
    assert_eq!(names(named.emulated()), ["messages[].is_error"]);
}

#[test]
fn names_and_ids_fit_wherever_they_stand_and_the_same_stay_the_same() {
    let (name, id) = ("fs.read", "call:1/of a very long name of a call that goes on");
    let state = ReasoningState {
        format: ReasoningFormat::Gemini,
        kind: ReasoningKind::Encrypted,
        text: None,
        sealed: Some(EscapedText::plain("AbC=")),
        id: Some(EscapedText::plain(id)),
    };
    let answer = Turn::new(Role::Assistant, vec![Part::new(Content::Reasoning(state)), call(id, name)]);
    let turns = vec![answer, result(id, vec![text("x")], false)];
    let tool = Tool {
        name: EscapedText::plain(name),
        description: None,
        parameters: None,
        strict: None,
        kind: ToolKind::Function,
        grammar: None,
        cache_control: None,
    };
    let tool_choice = ToolChoice::Allowed { required: false, names: vec![EscapedText::plain(name)] };
    let conversation = Conversation { turns, tools: vec![tool], tool_choice, ..Conversation::default() };
    let server = ChatServer::taking_everything(&conversation.turns);
    let written = write_request(&conversation, &server, &endpoint(), true, &mut UnsupportedFields::default());
    let body: Value = serde_json::from_slice(&written.body).unwrap();
    let [messages, declared, choice] = ["messages", "tools", "tool_choice"].map(|name| body[name].clone());
    let sent = declared[0]["function"]["name"].as_str().unwrap();
    assert!(CHAT_NAMES.fits(sent), "{sent}");
    assert_eq!(messages[0]["tool_calls"][0]["function"]["name"], sent);
    assert_eq!(choice["allowed_tools"]["tools"][0]["function"]["name"], sent);
    assert_eq!(written.names.original(&EscapedText::plain(sent)).unescaped(), name);
    let sent = &messages[1]["tool_call_id"];
    assert!(CLIENT_IDS.fits(sent.as_str().unwrap()), "{sent}");
    assert_eq!([&messages[0]["tool_calls"][0]["id"], &messages[0]["reasoning_details"][0]["id"]], [sent; 2]);
}

#[test]
fn reasoning_goes_back_in_the_member_that_the_endpoint_knows_and_marks_only_where_it_takes_them() {
    let state = |format, text| ReasoningState {
        format,
        kind: ReasoningKind::Text,
        text: Some(EscapedText::plain(text)),
        sealed: None,
        id: None,
    };
    let [own, claude] = [(ReasoningFormat::Unknown, "hm"), (ReasoningFormat::Anthropic, "I")]
        .map(|(format, text)| Part::new(Content::Reasoning(state(format, text))));
    let turns = [Turn::new(Role::Assistant, vec![own, claude, text("a")])];
    for (reasoning_history, expected) in [
        (ReasoningHistory::Content, json!({"reasoning_content": "hm", "role": "assistant", "content": "a"})),
        (ReasoningHistory::Nothing, json!({"role": "assistant", "content": "a"})),
    ] {
        let (sent, named) = sent(&Endpoint { reasoning_history, ..endpoint() }, &turns);
        assert_eq!((&sent[0], names(named.emulated())), (&expected, vec!["reasoning_details"]));
    }
    let mark = crate::json::object(r#"{"type":"ephemeral"}"#).ok();
    let marked = [Turn::new(Role::User, vec![Part { cache_control: mark, ..text("a") }])];
    let (sent, named) = sent(&endpoint(), &marked);
    assert_eq!(sent[0]["content"], json!([{"type": "text", "text": "a"}]));
    assert_eq!(names(named.dropped()), ["messages[].content[].cache_control"]);
}
