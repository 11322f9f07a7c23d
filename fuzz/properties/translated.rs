//! Answers of the APIs other than chat: any bytes become a plain answer and a stream of our form, or a reason without control
//! characters and an error chunk. Clients of other APIs get a stream that ends once.

use std::sync::LazyLock;

use bytes::Bytes;
use pointsman_dialect::{
    ChatPurpose, ChatRequest, ChatStream, ClientReader, ClientRequest, OutgoingBody, ProviderState, RequestLimits,
    StateKey, chat_body, rewrite_whole,
};
use pointsman_domain::{Catalog, Dialect, Endpoint, EndpointId};
use serde_json::Value;

/// Declares a tool whose calls are turned back, and one whose name is.
const BODY: &str = r#"{"model":"acme/small","messages":[{"role":"user","content":"Hi"}],"tools":[
    {"type":"custom","custom":{"name":"patch"}},{"type":"function","function":{"name":"1st tool"}}]}"#;
const KEY: StateKey = StateKey::new([7; 32]);

static ANTHROPIC: LazyLock<OutgoingBody> = LazyLock::new(|| outgoing(Dialect::Anthropic, "claude-x"));
static CONVERSE: LazyLock<OutgoingBody> = LazyLock::new(|| outgoing(Dialect::Converse, "anthropic.claude-x"));
static GEMINI: LazyLock<OutgoingBody> = LazyLock::new(|| outgoing(Dialect::Gemini, "gemini-3.8-flash"));
static RESPONSES: LazyLock<OutgoingBody> = LazyLock::new(|| outgoing(Dialect::Responses, "gpt-5.6"));
static CLIENTS: LazyLock<[ClientRequest; 2]> = LazyLock::new(clients);

/// Anthropic's Messages API.
pub(crate) fn anthropic(bytes: &[u8]) {
    check(&ANTHROPIC, bytes);
}

/// Amazon Bedrock's Converse.
pub(crate) fn converse(bytes: &[u8]) {
    check(&CONVERSE, bytes);
}

/// Google's Gemini API.
pub(crate) fn gemini(bytes: &[u8]) {
    check(&GEMINI, bytes);
}

/// OpenAI's Responses API.
pub(crate) fn responses(bytes: &[u8]) {
    check(&RESPONSES, bytes);
}

/// What is sent to an endpoint of this API.
fn outgoing(dialect: Dialect, model: &str) -> OutgoingBody {
    let id = EndpointId::new("acme/small", "maker", "");
    let endpoint = Endpoint { dialect, ..Endpoint::with_defaults(id, 0, 0, model) };
    let request = ChatRequest::parse(Bytes::from_static(BODY.as_bytes()), ChatPurpose::Chat, &RequestLimits::default());
    chat_body(&request.expect("a chat"), &Catalog::default(), &endpoint, None).expect("it is translated")
}

fn clients() -> [ClientRequest; 2] {
    let limits = RequestLimits::default();
    let reader = ClientReader { state_key: &KEY, purpose: ChatPurpose::Chat, limits: &limits };
    let message = br#"{"model":"acme/small","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}"#;
    let response = br#"{"model":"acme/small","input":"Hi"}"#;
    let chats = [
        reader.messages(Bytes::from_static(message), None, &Vec::new()),
        reader.responses(Bytes::from_static(response), || ProviderState::Refused, true),
    ];
    chats.map(|chat| ClientRequest::clone(&chat.expect("a request").client.expect("of another API")))
}

fn check(outgoing: &'static OutgoingBody, bytes: &[u8]) {
    match rewrite_whole(&Bytes::copy_from_slice(bytes), outgoing, None, &super::answer::context()) {
        Ok(answer) => super::answer::in_our_form(&answer.body),
        Err(fault) => assert!(!fault.detail.chars().any(char::is_control), "{fault:?}"),
    }
    let stream =
        |client| ChatStream::between(Some(outgoing), client, super::answer::context(), super::stream::options());
    super::stream::check_with(bytes, || stream(None), super::stream::in_our_form);
    for client in &*CLIENTS {
        super::stream::check_with(bytes, || stream(Some(client)), in_form_of_events);
    }
}

/// Events whose name is the type of their data, the last of which is the only one that ends a stream.
fn in_form_of_events(run: &super::stream::Run) {
    let text = std::str::from_utf8(&run.out).expect("a client is sent UTF-8");
    let mut ends = 0;
    for event in text.split_terminator("\n\n") {
        let (name, data) = event.split_once('\n').unwrap_or_else(|| panic!("no two lines: {event:?}"));
        let name = name.strip_prefix("event: ").unwrap_or_else(|| panic!("no name: {event:?}"));
        let data = data.strip_prefix("data: ").unwrap_or_else(|| panic!("no data: {event:?}"));
        assert!(!data.contains(['\n', '\r']) && ends == 0, "{text}");
        let is_end = ["message_stop", "error", "response.completed", "response.incomplete", "response.failed"];
        ends += usize::from(is_end.contains(&name));
        let Some(data) = super::json::read(data) else { continue };
        assert_eq!(data["type"], Value::from(name), "{event}");
    }
    assert_eq!(ends, 1, "{text}");
    let says_failed = text.contains("event: error\n") || text.contains("event: response.failed\n");
    assert!(says_failed || !run.failed, "{text}");
}
