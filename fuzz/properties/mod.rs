//! What must hold for any bytes, one property per reader of foreign bytes.
//!
//! Each `check` panics when its property is broken. The same functions are driven by libFuzzer (`fuzz_targets/`) and,
//! over the corpus and mutations of it, by the ordinary tests (`crates/transport/tests/it`).

pub(crate) mod answer;
pub(crate) mod chat_body;
pub(crate) mod client_body;
pub(crate) mod config;
pub(crate) mod guard;
pub(crate) mod json;
pub(crate) mod pieces;
pub(crate) mod responses_body;
pub(crate) mod sse;
pub(crate) mod stream;
pub(crate) mod translated;

/// A property of any bytes.
pub(crate) type Check = fn(&[u8]);

/// Every property by the name of its fuzz target and of its directory in `corpus/`.
#[allow(dead_code, reason = "a fuzz target wants one of them only")]
pub(crate) const TARGETS: [(&str, Check); 14] = [
    ("answer", answer::check),
    ("anthropic", translated::anthropic),
    ("chat_body", chat_body::check),
    ("completion_body", client_body::completion),
    ("config", config::check),
    ("converse", translated::converse),
    ("embedding_body", client_body::embedding),
    ("gemini", translated::gemini),
    ("guard", guard::check),
    ("messages_body", client_body::messages),
    ("responses", translated::responses),
    ("responses_body", responses_body::check),
    ("sse", sse::check),
    ("stream", stream::check),
];
