//! An error that an upstream sends inside a 200: what kind of failure it is, and what our log says about it.
//!
//! Nothing of it reaches the client. The kinds are those its status would have had outside of a 200.

use crate::{
    dialect::{
        answer::AnswerFault,
        json::{Cursor, Raw},
        sanitize::{ERROR_CHARS, NAME_CHARS, clean, name_for_log},
    },
    domain::FailureKind,
};

/// Words in `code`, `type` or `status` that name a kind; matched within the value, the finer ones first.
const WORDS: [(&str, FailureKind); 25] = [
    ("context_length", FailureKind::ContextLength),
    ("context_window", FailureKind::ContextLength),
    ("too_large", FailureKind::TooLarge),
    ("unprocessable", FailureKind::Unprocessable),
    ("rate_limit", FailureKind::RateLimited),
    ("too_many_requests", FailureKind::RateLimited),
    ("resource_exhausted", FailureKind::RateLimited),
    ("throttl", FailureKind::RateLimited),
    ("overloaded", FailureKind::Overloaded),
    ("capacity", FailureKind::Overloaded),
    ("unavailable", FailureKind::Overloaded),
    ("insufficient_quota", FailureKind::Auth),
    ("billing", FailureKind::Auth),
    ("payment", FailureKind::Auth),
    ("authentication", FailureKind::Auth),
    ("unauthenticated", FailureKind::Auth),
    ("invalid_api_key", FailureKind::Auth),
    ("permission", FailureKind::Forbidden),
    ("not_found", FailureKind::NotFound),
    ("content_policy", FailureKind::BadRequest),
    ("content_filter", FailureKind::BadRequest),
    ("moderation_blocked", FailureKind::BadRequest),
    ("invalid_request", FailureKind::BadRequest),
    ("invalid_prompt", FailureKind::BadRequest),
    ("bad_request", FailureKind::BadRequest),
];

/// Whether a member of an answer holds what a content filter noted, which is not for clients.
pub(super) fn is_filter_note(name: &[u8]) -> bool {
    name == b"prompt_filter_results" || name.starts_with(b"content_filter_")
}

/// Whether a member `error` says that something is wrong.
pub(super) fn is_error(error: Raw<'_>) -> bool {
    !(error.is_null() || matches!(error.bytes(), b"false" | b"0" | b"\"\""))
}

/// The failure a member `error` stands for: an object, or just a text.
pub(crate) fn fault(error: Raw<'_>) -> AnswerFault {
    Said::read(error).into_fault()
}

/// The failure an event named `error` stands for, whatever its data looks like.
pub(super) fn fault_of_event(data: &[u8]) -> AnswerFault {
    let Ok(text) = std::str::from_utf8(data) else { return Said::default().into_fault() };
    let said = match Cursor::new(text).value() {
        Ok(value) => Said::read(value.member(b"error").filter(|error| is_error(*error)).unwrap_or(value)),
        Err(_) => Said { message: clean(text, ERROR_CHARS).into_owned(), ..Said::default() },
    };
    said.into_fault()
}

/// What an error says about itself.
#[derive(Debug, Default)]
struct Said {
    status: Option<u64>,
    words: Vec<String>,
    message: String,
}

impl Said {
    fn read(error: Raw<'_>) -> Said {
        let mut said = Said { message: text_of(error, ERROR_CHARS).unwrap_or_default(), ..Said::default() };
        for (key, value) in error.members() {
            match &*key.name() {
                b"code" | b"status" | b"status_code" | b"type" => said.note(value),
                b"message" => said.message = text_of(value, ERROR_CHARS).unwrap_or_default(),
                _ => {}
            }
        }
        said
    }

    /// Codes come as numbers, as numbers in strings and as words.
    fn note(&mut self, value: Raw<'_>) {
        let text = text_of(value, NAME_CHARS);
        let number = value.count().or_else(|| text.as_deref()?.parse().ok());
        match (number, text) {
            (Some(status), _) => self.status = Some(status),
            (None, Some(word)) => self.words.push(word),
            (None, None) => {}
        }
    }

    fn into_fault(self) -> AnswerFault {
        let status = self.status.map(|status| format!(" {status}")).unwrap_or_default();
        let words =
            self.words.iter().filter_map(|word| Some(format!(" [{}]", name_for_log(word)?))).collect::<String>();
        let detail = format!("the upstream reported an error{status}{words}");
        let fault = AnswerFault::new(self.kind(), detail);
        let is_about_content =
            fault.kind == FailureKind::BadRequest && self.words.iter().any(|word| names_content(word));
        AnswerFault { refused_content: is_about_content.then(|| self.message.into()), ..fault }
    }

    fn kind(&self) -> FailureKind {
        let of_words = self.words.iter().find_map(|word| {
            let word = word.to_ascii_lowercase();
            WORDS.iter().find(|(part, _)| word.contains(part)).map(|(_, kind)| *kind)
        });
        match (self.status.and_then(FailureKind::of_status), of_words) {
            // The finer word for a 400 decides whether a larger context may help.
            (Some(FailureKind::BadRequest), Some(FailureKind::ContextLength)) => FailureKind::ContextLength,
            (Some(kind), _) => kind,
            (None, kind) => kind.unwrap_or(FailureKind::Server),
        }
    }
}

/// Whether a code says that the content was refused.
fn names_content(code: &str) -> bool {
    let code = code.to_ascii_lowercase();
    ["content_filter", "content_policy", "moderation_blocked"].iter().any(|word| code.contains(word))
}

fn text_of(value: Raw<'_>, limit: usize) -> Option<String> {
    value.text().map(|text| clean(&text, limit).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(event: &str, kind: FailureKind) {
        assert_eq!(fault_of_event(event.as_bytes()).kind, kind, "{event}");
    }

    #[test]
    fn an_error_is_classed_like_its_status() {
        check(r#"{"error":{"code":429,"message":"slow down"}}"#, FailureKind::RateLimited);
        check(r#"{"error":{"code":"529"}}"#, FailureKind::Overloaded);
        check(r#"{"error":{"status":502,"type":"invalid_request_error"}}"#, FailureKind::Server);
        check(r#"{"error":{"code":400,"type":"invalid_request_error"}}"#, FailureKind::BadRequest);
        check(r#"{"error":{"code":400,"type":"context_length_exceeded"}}"#, FailureKind::ContextLength);
        check(r#"{"error":{"code":401}}"#, FailureKind::Auth);
    }

    #[test]
    fn an_error_without_a_status_is_classed_by_its_words() {
        check(r#"{"error":{"code":"rate_limit_exceeded"}}"#, FailureKind::RateLimited);
        check(r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#, FailureKind::Overloaded);
        check(r#"{"type":"authentication_error","message":"no"}"#, FailureKind::Auth);
        check(r#"{"error":{"type":"api_error","code":null}}"#, FailureKind::Server);
        check(r#"{"error":"out of memory"}"#, FailureKind::Server);
        check("boom", FailureKind::Server);
        check("", FailureKind::Server);
    }

    #[test]
    fn an_error_about_content_says_why() {
        let why = |event: &str| fault_of_event(event.as_bytes()).refused_content;
        for code in ["content_filter", "content_policy_violation", "moderation_blocked"] {
            assert_eq!(
                why(&format!(r#"{{"error":{{"code":"{code}","message":"Unsafe."}}}}"#)).as_deref(),
                Some("Unsafe.")
            );
        }
        assert_eq!(why(r#"{"error":{"code":"invalid_prompt","message":"No."}}"#), None);
        assert_eq!(why(r#"{"error":{"status":503,"code":"content_filter"}}"#), None, "the filter itself failed");
    }

    #[test]
    fn the_detail_names_the_error_and_quotes_nothing() {
        let detail = |event: &str| fault_of_event(event.as_bytes()).detail;
        let quoted = r#"{"error":{"code":500,"type":"server_error","message":"Cannot process this: my illness"}}"#;
        assert_eq!(detail(quoted), "the upstream reported an error 500 [server_error]");
        assert_eq!(detail(r#"{"error":{"type":"my illness, sk-abcdefghijkl"}}"#), "the upstream reported an error");
        assert_eq!(detail(&format!("\"{}\"", "x".repeat(100_000))), "the upstream reported an error");
    }

    #[test]
    fn only_an_error_that_says_something_is_one() {
        let said = |json: &str| is_error(Cursor::new(json).value().unwrap());
        for quiet in ["null", "false", "0", "\"\""] {
            assert!(!said(quiet), "{quiet}");
        }
        for loud in ["{}", "\"no\"", "true", "500"] {
            assert!(said(loud), "{loud}");
        }
    }
}
