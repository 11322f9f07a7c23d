//! Refusals that are about a member of the body, not about what the client asked for: one that the gateway added, or one that
//! holds reasoning of earlier answers.

use memchr::memmem;
use pointsman_domain::{AddedMember, Dialect};

/// The member that a refusal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objection {
    /// One that the gateway adds.
    To(AddedMember),
    /// `reasoning_content`, which the provider misses or does not know.
    ReasoningContent,
}

/// What providers of each API may object to, and the words for it. Names that are words of English count between quotes only.
const OBJECTIONS: [(Dialect, Objection, &[&str]); 5] = [
    (Dialect::OpenAi, Objection::To(AddedMember::StreamOptions), &["stream_options"]),
    (Dialect::OpenAi, Objection::ReasoningContent, &["reasoning_content"]),
    (Dialect::Responses, Objection::To(AddedMember::ReasoningSummary), &["reasoning.summary"]),
    (Dialect::Responses, Objection::To(AddedMember::Store), &["\"store\"", "'store'", "`store`"]),
    (Dialect::Responses, Objection::To(AddedMember::Include), &["\"include\"", "'include'", "`include`", "'include["]),
];

/// What a refusal with this body is about, if it may be such a member. A prompt can make it seem so: whoever asks again must
/// see that it helps before anything is made of it.
pub(super) fn of(dialect: Dialect, status: u16, body: &[u8]) -> Option<Objection> {
    if !matches!(status, 400 | 422) {
        return None;
    }
    let says = |words: &[&str]| words.iter().any(|word| memmem::find(body, word.as_bytes()).is_some());
    let mut known = OBJECTIONS.iter().filter(|(of, ..)| *of == dialect);
    known.find(|(.., words)| says(words)).map(|(_, objection, _)| *objection)
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
                Some(Objection::ReasoningContent),
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
            assert_eq!(of(dialect, status, body.as_bytes()), expected, "{body}");
        }
    }
}
