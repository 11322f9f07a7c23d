//! The requests of the load generator: chat bodies of a wanted size.

use std::fmt::Write;

use crate::{Failure, Options};

/// What stands in a request for a stream.
pub(crate) const STREAMED: &str = r#""stream":true"#;
/// The model whose streams fall silent after their first chunk.
pub(crate) const HELD_MODEL: &str = "bench-held";
/// The provider's name for the model that answers in the Messages API.
pub(crate) const MESSAGES_MODEL: &str = "bench-messages";
/// The provider's name for the model whose streams come without a pause.
pub(crate) const BURST_MODEL: &str = "bench-burst";
/// The name clients use for the model that answers.
pub(crate) const MODEL: &str = "bench/one";
/// The name clients use for the model that falls silent.
const HELD: &str = "bench/bench-held";

/// Characters of one message of a long conversation.
const MESSAGE: usize = 900;

/// A request, head and body, with a conversation of about `bytes`.
pub(crate) fn question(options: &Options, held: bool) -> Result<Vec<u8>, Failure> {
    if options.get {
        let Options { address, path, key, .. } = options;
        let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\r\n");
        return Ok(head.into_bytes());
    }
    chat(options, if held { HELD } else { &options.model }, options.stream || held)
}

/// The same for a model of choice.
pub(crate) fn chat(options: &Options, model: &str, stream: bool) -> Result<Vec<u8>, Failure> {
    let body = body(options.bytes, stream, model)?;
    let Options { address, path, key, .. } = options;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nuser-agent: bench-peer\r\naccept: */*\r\n\
         authorization: Bearer {key}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    Ok([head.into_bytes(), body.into_bytes()].concat())
}

fn body(bytes: usize, stream: bool, model: &str) -> Result<String, Failure> {
    let mut body = format!(r#"{{"model":"{model}","stream":{stream},"max_tokens":100,"temperature":0.7,"messages":["#);
    let mut number = 0;
    while body.len() + 64 < bytes {
        let role = if number % 2 == 0 { "user" } else { "assistant" };
        let comma = if number == 0 { "" } else { "," };
        let room = MESSAGE.min(bytes - body.len());
        write!(body, r#"{comma}{{"role":"{role}","content":"{}"}}"#, text(room.saturating_sub(40)))?;
        number += 1;
    }
    if number % 2 == 0 {
        let comma = if number == 0 { "" } else { "," };
        write!(body, r#"{comma}{{"role":"user","content":"Go on."}}"#)?;
    }
    body.push_str("]}");
    Ok(body)
}

/// Prose with the escapes and the letters beyond ASCII that real conversations have.
fn text(bytes: usize) -> String {
    const PROSE: &str = concat!(
        r#"A pointsman sets the switch before the train comes, \"not after\" – so says the rule, and whoever "#,
        r#"has seen a train on the wrong track knows why the rule says so.\n"#,
    );
    let mut text = PROSE.repeat(bytes / PROSE.len());
    text.push_str(&"x".repeat(bytes - text.len()));
    text
}
