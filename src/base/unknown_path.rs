//! What is wrong with an unknown path, where that can be told.

/// First parts of the paths of inference calls and lists below `/api/v1`.
const CALLS: [&str; 7] = ["chat", "messages", "responses", "completions", "embeddings", "images", "models"];
/// First parts of paths that clients of the OpenAI API may call, and that the gateway does not serve.
const NOT_OFFERED: [&str; 14] = [
    "assistants",
    "audio",
    "batches",
    "containers",
    "conversations",
    "edits",
    "evals",
    "files",
    "fine_tuning",
    "moderations",
    "realtime",
    "threads",
    "uploads",
    "vector_stores",
];

/// A sentence about the mistake. It repeats nothing of the path but words of the lists above.
pub(crate) fn mistake(path: &str) -> String {
    let below = ["/api/v1/", "/v1/", "/api/"].into_iter().find_map(|base| path.strip_prefix(base));
    let first = |path: &str| path.trim_start_matches('/').split('/').next().unwrap_or_default().to_owned();
    let word = first(below.unwrap_or(path));
    if NOT_OFFERED.contains(&word.as_str()) {
        return format!("'{word}' is not offered by this gateway.");
    }
    if below.is_none() && CALLS.contains(&word.as_str()) {
        let call = if word == "chat" { "chat/completions" } else { &word };
        return format!("'/{call}' is at /api/v1/{call}: the base address lacks /api/v1.");
    }
    "This path does not exist.".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_address_without_its_version_and_a_call_that_is_not_offered_are_named() {
        let lacking = "'/chat/completions' is at /api/v1/chat/completions: the base address lacks /api/v1.";
        for (path, sentence) in [
            ("/chat/completions", lacking),
            ("/embeddings", "'/embeddings' is at /api/v1/embeddings: the base address lacks /api/v1."),
            ("/audio/speech", "'audio' is not offered by this gateway."),
            ("/api/v1/files", "'files' is not offered by this gateway."),
            ("/v1/moderations", "'moderations' is not offered by this gateway."),
            ("/api/v1/chat/nothing", "This path does not exist."),
            ("/", "This path does not exist."),
            ("/<script>", "This path does not exist."),
        ] {
            assert_eq!(mistake(path), sentence, "{path}");
        }
    }
}
