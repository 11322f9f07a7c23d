//! Answers of Amazon Bedrock's Converse: any bytes become a plain answer and a stream of our form, or a reason without
//! control characters and an error chunk.

use std::sync::LazyLock;

use bytes::Bytes;
use pointsman_actors::{
    dialect::{ChatPurpose, ChatRequest, ChatStream, OutgoingBody, RequestLimits, chat_body, rewrite_whole},
    domain::{Catalog, Dialect, Endpoint, EndpointId},
};

/// Declares a tool whose calls are turned back, and one whose name is.
const BODY: &str = r#"{"model":"acme/small","messages":[{"role":"user","content":"Hi"}],"tools":[
    {"type":"custom","custom":{"name":"patch"}},{"type":"function","function":{"name":"1st tool"}}]}"#;

/// What was sent to an endpoint of this API.
static OUTGOING: LazyLock<OutgoingBody> = LazyLock::new(|| {
    let id = EndpointId::of("acme/small", "bedrock", "");
    let endpoint = Endpoint { dialect: Dialect::Converse, ..Endpoint::with_defaults(id, 0, 0, "anthropic.claude-x") };
    let request = ChatRequest::parse(Bytes::from_static(BODY.as_bytes()), ChatPurpose::Chat, &RequestLimits::default());
    chat_body(&request.expect("a chat"), &Catalog::default(), &endpoint, None).expect("it is translated")
});

/// See the module.
pub(crate) fn check(bytes: &[u8]) {
    match rewrite_whole(&Bytes::copy_from_slice(bytes), &OUTGOING, None, &super::answer::context()) {
        Ok(answer) => super::answer::in_our_form(&answer.body),
        Err(fault) => assert!(!fault.detail.chars().any(char::is_control), "{fault:?}"),
    }
    super::stream::check_with(bytes, || {
        ChatStream::between(Some(&OUTGOING), None, super::answer::context(), super::stream::options())
    });
}
