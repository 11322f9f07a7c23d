//! A hostile client's words, and what must become of them: one case per line, all on connections of their own.

use futures_util::future::join_all;
use serde_json::Value;

use crate::{
    harness::{KEY, TestGateway},
    world::{ask, completion, one_model, raw},
};

/// Where a hostile request hurts most.
pub(crate) const PATH: &str = "/api/v1/chat/completions";

/// The head of a chat request with a good key; `more` are further header lines, each ended with CR LF.
pub(crate) fn head(more: &str) -> String {
    format!(
        "POST {PATH} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\n{more}\r\n"
    )
}

/// The body of a chat request that can be served.
pub(crate) fn good_body() -> String {
    ask("acme/small").to_string()
}

/// The status of each answer in a raw byte stream, interim ones included.
pub(crate) fn statuses(answer: &str) -> Vec<u16> {
    answer.split("HTTP/1.").skip(1).filter_map(|rest| rest.get(2..5)?.parse().ok()).collect()
}

/// The next caller is served as if nothing had been.
pub(crate) async fn serves_as_before(gateway: &TestGateway) {
    gateway.chat(&ask("acme/small")).await.expect(200);
}

/// What a client says, and the status of each answer it must get; none: the connection is closed without a word.
pub(crate) type Attack<'a> = (&'a str, String, &'a [u16]);

/// Runs every case against one gateway at once: the answers are those of the table, no answer is a 5xx, the upstream
/// is asked exactly as often as 200 was answered, and the gateway serves on.
pub(crate) async fn check(cases: &[Attack<'_>]) {
    let (gateway, upstream) = one_model(&completion("x")).await;
    let answers = join_all(cases.iter().map(|(_, bytes, _)| raw(gateway.address, bytes.as_bytes()))).await;
    let mut wrong = Vec::new();
    for ((name, _, expected), answer) in cases.iter().zip(&answers) {
        let statuses = statuses(answer);
        assert!(statuses.iter().all(|status| *status < 500), "{name}: {answer}");
        if statuses != *expected {
            wrong.push(format!("{name}: {statuses:?} instead of {expected:?}\n"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.concat());
    let chats = cases.iter().filter(|(_, bytes, _)| bytes.contains(PATH));
    let served = chats.flat_map(|(_, _, expected)| *expected).filter(|status| **status == 200).count();
    assert_eq!(upstream.requests().len(), served, "requests that reached the provider");
    serves_as_before(&gateway).await;
}

/// A chat request of a client that knows no chunks; `more` are further header lines.
pub(crate) fn old_chat(body: &Value, more: &str) -> String {
    let body = body.to_string();
    format!("{}{body}", head(&format!("content-length: {}\r\n{more}", body.len())).replace("HTTP/1.1", "HTTP/1.0"))
}

/// A whole stream that ends with its connection, and nothing in it but events.
pub(crate) fn check_old_stream(answer: &str) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {answer}"));
    assert!(head.starts_with("HTTP/1.0 200 "), "{head}");
    for line in ["transfer-encoding", "content-length", "connection: keep-alive"] {
        assert!(!head.contains(line), "{head}");
    }
    assert!(body.starts_with("data: {") && body.ends_with("data: [DONE]\n\n"), "{body}");
    let blocks = body.trim_end().split("\n\n");
    assert!(blocks.into_iter().all(|block| block.starts_with("data: ") || block.starts_with(": ")), "{body}");
}
