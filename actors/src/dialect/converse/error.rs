//! Errors of Converse: the body of an answer that is no 200, and the exceptions of a stream.
//!
//! Nothing of them reaches the client from here.

use std::borrow::Cow;

use crate::{
    dialect::{
        answer::AnswerFault,
        json::{Cursor, Raw},
        sanitize::reported_error,
    },
    domain::FailureKind,
};

/// What a message says about a prompt that does not fit, in lower case.
const TOO_LONG: [&str; 4] = [
    "input is too long",
    "prompt is too long",
    "exceeds the maximum number of tokens",
    "input length and `max_tokens` exceed context limit",
];
/// What a message says about credentials that are not valid any more, in lower case.
const CREDENTIALS: [&str; 4] = ["expired", "security token", "signature", "api key"];
/// What a message says about the name of the model, in lower case.
const MODEL: [&str; 3] = ["model identifier is invalid", "with on-demand throughput", "supported on this route"];

/// The failure that an answer of `status` stands for. `error_type`: the header `x-amzn-errortype`.
pub(crate) fn kind_of_response(status: u16, error_type: Option<&str>, body: &[u8]) -> FailureKind {
    let value = std::str::from_utf8(body).ok().and_then(|text| Cursor::new(text).value().ok());
    let text = |name: &[u8]| value.and_then(|value| value.member(name)).and_then(Raw::text).unwrap_or_default();
    let message = match text(b"message") {
        Cow::Borrowed("") => text(b"Message"),
        message => message,
    };
    let in_body = text(b"__type");
    let by_type = kind(name_of(error_type.unwrap_or(&in_body)), &message);
    by_type.unwrap_or_else(|| match status {
        408 => FailureKind::Timeout,
        424 => FailureKind::Server,
        status => FailureKind::of_status(u64::from(status)).unwrap_or(FailureKind::UnexpectedStatus),
    })
}

/// The failure of an exception within a stream.
pub(crate) fn fault_of_exception(name: &str, payload: &[u8]) -> AnswerFault {
    let text = std::str::from_utf8(payload).unwrap_or_default();
    let value = Cursor::new(text).value().ok();
    let message = value.and_then(|value| value.member(b"message")).and_then(Raw::text).unwrap_or(Cow::Borrowed(text));
    fault(name, &message)
}

/// The failure of a 200 whose body is an error: a message, or a type of error, in the place of an answer.
pub(crate) fn fault_of_body(body: Raw<'_>) -> Option<AnswerFault> {
    let text = |name: &[u8]| body.member(name).and_then(Raw::text);
    let kind = text(b"__type").or_else(|| body.member(b"Output").and_then(|output| output.member(b"__type"))?.text());
    let message = text(b"message").or_else(|| text(b"Message"));
    (kind.is_some() || message.is_some())
        .then(|| fault(&kind.unwrap_or_default(), &message.unwrap_or(Cow::Borrowed(""))))
}

fn fault(name: &str, message: &str) -> AnswerFault {
    let name = name_of(name);
    AnswerFault::new(kind(name, message).unwrap_or(FailureKind::Server), reported_error(name))
}

/// The name of an error without the namespace before `#` and the address behind `:`.
fn name_of(error_type: &str) -> &str {
    let name = error_type.split(':').next().unwrap_or_default();
    name.rsplit('#').next().unwrap_or_default().trim()
}

/// What the name of an error says, which is capitalised in heads and not in streams.
fn kind(name: &str, message: &str) -> Option<FailureKind> {
    let message = message.to_ascii_lowercase();
    let mentions = |words: &[&str]| words.iter().any(|words| message.contains(words));
    Some(match name.to_ascii_lowercase().as_str() {
        "validationexception" if mentions(&TOO_LONG) => FailureKind::ContextLength,
        "validationexception" if mentions(&MODEL) => FailureKind::NotFound,
        "validationexception" => FailureKind::BadRequest,
        "accessdeniedexception" if mentions(&CREDENTIALS) => FailureKind::Auth,
        "accessdeniedexception" => FailureKind::Forbidden,
        "unrecognizedclientexception"
        | "expiredtokenexception"
        | "invalidsignatureexception"
        | "incompletesignature"
        | "missingauthenticationtokenexception" => FailureKind::Auth,
        "resourcenotfoundexception" | "unknownoperationexception" => FailureKind::NotFound,
        "modeltimeoutexception" => FailureKind::Timeout,
        "throttlingexception" | "servicequotaexceededexception" => FailureKind::RateLimited,
        "modelnotreadyexception" | "serviceunavailableexception" => FailureKind::Overloaded,
        "modelerrorexception" | "modelstreamerrorexception" | "internalserverexception" | "internalfailure" => {
            FailureKind::Server
        }
        _ => return None,
    })
}
