//! Words of the wire as words for people, and the tone in which they are shown.

/// A status of a generation: class and word.
pub(super) fn status(status: &str) -> (&'static str, &str) {
    match status {
        "completed" => ("good", "completed"),
        "failed" => ("bad", "failed"),
        "cancelled" => ("warn", "cancelled by the client"),
        "running" => ("info", "running"),
        other => ("", other),
    }
}

/// The outcome of an attempt: class and sign.
pub(super) fn outcome(outcome: &str) -> (&'static str, &'static str) {
    match outcome {
        "completed" => ("good", "✓"),
        "cancelled" | "lost_race" => ("", "–"),
        _ => ("bad", "✗"),
    }
}

/// The condition of an endpoint or provider: class.
pub(super) fn condition(condition: &str) -> &'static str {
    match condition {
        "healthy" => "good",
        "degraded" => "warn",
        "down" => "bad",
        _ => "",
    }
}

/// The state of a circuit breaker: class.
pub(super) fn circuit(circuit: &str) -> &'static str {
    match circuit {
        "closed" => "good",
        "half_open" => "warn",
        "open" => "bad",
        _ => "",
    }
}

/// Where a parameter comes from.
pub(super) fn source(source: &str) -> &str {
    match source {
        "default" => "the default",
        "metadata" => "the request's metadata",
        "header" => "a header",
        "top_level" | "request" | "body" => "the request",
        "alias" => "the alias",
        "key" => "the key",
        other => other,
    }
}

/// With a capital letter at the beginning.
pub(super) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A name of the wire with spaces: `failure_time` is `failure time`.
pub(super) fn spaced(name: &str) -> String {
    name.replace('_', " ")
}
