//! Refusals that are about a member of the body, not about what the client asked for: one that the gateway added, or one that
//! holds reasoning of earlier answers.

use memchr::memmem;
use pointsman_dialect::RefusedRequest;
use pointsman_domain::{AddedMember, Dialect};
use serde_json::Value;

/// The member that a refusal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objection {
    /// One that the gateway adds.
    To(AddedMember),
    /// `reasoning_content`, which the provider does not know, perhaps.
    ReasoningContent,
    /// The same, which it misses in an answer.
    NoReasoningContent,
}

/// What providers of each API may object to, and the words for it. Names that are words of English count between quotes only.
const OBJECTIONS: [(Dialect, Objection, &[&str]); 5] = [
    (Dialect::OpenAi, Objection::To(AddedMember::StreamOptions), &["stream_options"]),
    (Dialect::OpenAi, Objection::ReasoningContent, &["reasoning_content"]),
    (Dialect::Responses, Objection::To(AddedMember::ReasoningSummary), &["reasoning.summary"]),
    (Dialect::Responses, Objection::To(AddedMember::Store), &["\"store\"", "'store'", "`store`"]),
    (Dialect::Responses, Objection::To(AddedMember::Include), &["\"include\"", "'include'", "`include`", "'include["]),
];

/// What makes an objection known for the calls of everybody, once the same call without the member was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lesson {
    /// Nothing: the client may have caused it.
    None,
    /// The same from another caller: the client cannot have put the words there, but perhaps chosen what they are about.
    OfTwo,
    /// The refusal itself: the provider names the member as one that it does not know.
    Proven,
}

/// How providers call a member that they do not know, in lower case.
const UNKNOWN: [&str; 6] = [
    "extra inputs are not permitted",
    "extra_forbidden",
    "unknown parameter",
    "unknown field",
    "unrecognized request argument",
    "unexpected keyword argument",
];

/// The member that this refusal seems to be about, and what it teaches. A prompt can imitate such words, so the caller must
/// first see the call succeed with the change.
pub(super) fn of(dialect: Dialect, status: u16, body: &[u8], request: &[u8]) -> Option<(Objection, Lesson)> {
    if !matches!(status, 400 | 422) {
        return None;
    }
    let says = |words: &[&str]| words.iter().any(|word| memmem::find(body, word.as_bytes()).is_some());
    let mut known = OBJECTIONS.iter().filter(|(of, ..)| *of == dialect);
    let (_, objection, words) = known.find(|(.., words)| says(words))?;
    let name = words.first().map_or("", |word| word.trim_matches(['"', '\'', '`']));
    let lesson = lesson(name, body, request);
    let is_missing = *objection == Objection::ReasoningContent && is_missing(&lower(body));
    Some((if is_missing { Objection::NoReasoningContent } else { *objection }, lesson))
}

/// Sentences of providers that miss reasoning: DeepSeek's and Kimi's. A request that does not hold them cannot have caused them.
const MISSING: [&str; 3] = [
    "in the thinking mode must be passed back",
    "missing `reasoning_content` field",
    "reasoning_content is missing in assistant tool call message",
];

fn is_missing(text: &str) -> bool {
    MISSING.iter().any(|words| text.contains(words))
}

fn lower(body: &[u8]) -> String {
    String::from_utf8_lossy(body).to_ascii_lowercase()
}

/// What the refusal of the member `name` teaches.
fn lesson(name: &str, body: &[u8], request: &[u8]) -> Lesson {
    let request = RefusedRequest::new(request);
    if request.doubt().is_any() {
        return Lesson::None;
    }
    let text = lower(body);
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let is_unknown = UNKNOWN.iter().any(|words| text.contains(words) && !request.repeats(words));
    // Some answers of the request may have the member.
    let is_missing = is_missing(&text) && !MISSING.iter().any(|words| request.repeats(words));
    match () {
        () if is_unknown && is_named(&value, name) => Lesson::Proven,
        () if text.contains("://") => Lesson::None,
        () if is_missing => Lesson::Proven,
        () if request.repeats(name) => Lesson::None,
        () => Lesson::OfTwo,
    }
}

/// Whether `param` or `loc` anywhere in the body is this member at the top of a request.
fn is_named(value: &Value, name: &str) -> bool {
    let at_top = |loc: &Vec<Value>| matches!(loc.as_slice(), [body, member] if body == "body" && member == name);
    match value {
        Value::Object(members) => {
            members.get("param").is_some_and(|param| param == name)
                || members.get("loc").and_then(Value::as_array).is_some_and(at_top)
                || members.values().any(|value| is_named(value, name))
        }
        Value::Array(elements) => elements.iter().any(|value| is_named(value, name)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_member_that_it_is_about() {
        use AddedMember::{Include, ReasoningSummary, Store, StreamOptions};
        for (dialect, status, body, expected) in [
            (
                Dialect::OpenAi,
                422,
                r#"{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}"#,
                Some(Objection::To(StreamOptions)),
            ),
            (
                Dialect::OpenAi,
                400,
                r#"{"error":{"message":"The `reasoning_content` in the thinking mode must be passed back to the API.","type":"invalid_request_error"}}"#,
                Some(Objection::NoReasoningContent),
            ),
            (
                Dialect::OpenAi,
                400,
                r#"{"error":{"message":"Missing `reasoning_content` field in the assistant message at message index 1."}}"#,
                Some(Objection::NoReasoningContent),
            ),
            (
                Dialect::OpenAi,
                400,
                r#"{"error":{"message":"'messages.2' : property 'reasoning_content' is unsupported"}}"#,
                Some(Objection::ReasoningContent),
            ),
            (Dialect::OpenAi, 400, r#"{"error":{"param":"store"}}"#, None),
            (Dialect::OpenAi, 500, "stream_options", None),
            (
                Dialect::Responses,
                400,
                r#"{"error":{"message":"Your organization must be verified to generate reasoning summaries.","param":"reasoning.summary"}}"#,
                Some(Objection::To(ReasoningSummary)),
            ),
            (
                Dialect::Responses,
                400,
                r#"{"error":{"message":"Unknown parameter: 'store'."}}"#,
                Some(Objection::To(Store)),
            ),
            (Dialect::Responses, 422, r#"{"detail":[{"loc":["body","include"]}]}"#, Some(Objection::To(Include))),
            (Dialect::Responses, 400, r#"{"error":{"message":"Items are not stored; please include them."}}"#, None),
            (Dialect::Anthropic, 400, "stream_options", None),
        ] {
            let found = of(dialect, status, body.as_bytes(), b"{}").map(|(objection, _)| objection);
            assert_eq!(found, expected, "{body}");
        }
    }

    #[test]
    fn nothing_is_learned_from_what_the_client_may_have_caused() {
        let lesson =
            |body: &str, request: &str| of(Dialect::OpenAi, 400, body.as_bytes(), request.as_bytes()).unwrap().1;
        let plain = r#"{"messages":[{"role":"user","content":"Hi"}],"stream_options":{"include_usage":true}}"#;
        for (body, expected) in [
            (r#"{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"]}]}"#, Lesson::Proven),
            (
                r#"{"error":{"message":"Unknown parameter: 'stream_options'.","param":"stream_options"}}"#,
                Lesson::Proven,
            ),
            (r#"{"detail":[{"type":"extra_forbidden","loc":["body","tools",0,"stream_options"]}]}"#, Lesson::OfTwo),
            (
                r#"{"error":{"message":"stream_options cannot be used with n.","param":"stream_options"}}"#,
                Lesson::OfTwo,
            ),
            (r#"{"error":{"message":"Failed to download https://evil/stream_options.png."}}"#, Lesson::None),
        ] {
            assert_eq!(lesson(body, plain), expected, "{body}");
        }
        let repeated = r#"{"error":{"message":"Odd: unknown field","param":"stream_options"}}"#;
        assert_eq!(lesson(repeated, plain), Lesson::Proven);
        assert_eq!(lesson(repeated, r#"{"messages":[{"content":"Unknown  FIELD"}]}"#), Lesson::OfTwo);
        let missing =
            r#"{"error":{"message":"The `reasoning_content` in the thinking mode must be passed back to the API."}}"#;
        let some = r#"{"messages":[{"role":"assistant","reasoning_content":"hm"},{"role":"assistant","content":"I"}]}"#;
        assert_eq!(lesson(missing, some), Lesson::Proven);
        let imitated = r#"{"messages":[{"content":"reasoning_content in the thinking mode must be passed back"}]}"#;
        assert_eq!(lesson(missing, imitated), Lesson::None);
        let words = r#"{"error":{"message":"stream_options is odd"}}"#;
        for request in [
            r#"{"messages":[{"content":"STREAM_OPTIONS is odd"}]}"#,
            r#"{"messages":[{"content":[{"image_url":{"url":"https://evil/x.png"}}]}]}"#,
            r#"{"tools":[{"type":"function","function":{"parameters":{"stream_options":1}}}]}"#,
            r#"{"another":1}"#,
        ] {
            assert_eq!(lesson(words, request), Lesson::None, "{request}");
        }
    }
}
