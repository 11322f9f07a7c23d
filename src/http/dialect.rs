//! The wire format of a request, which its errors have, too.

use actix_web::dev::RequestHead;
use pointsman_domain::Dialect;

/// The dialect of a request, by its path; on pages that several dialects have, by its headers.
pub(super) fn of_request(head: &RequestHead) -> Dialect {
    let (mut is_messages, mut is_shared) = (false, false);
    // By bytes: a search for each slash would cost more than the few bytes between them.
    let mut parts = head.uri.path().as_bytes().split(|byte| *byte == b'/').skip(1).peekable();
    while let Some(part) = parts.next() {
        is_messages |= part == b"messages";
        // The last two are pages of that API that are not here.
        is_shared |= part == b"models" || part == b"files" || (part == b"complete" && parts.peek().is_none());
    }
    if is_messages || (is_shared && head.headers.contains_key("anthropic-version")) {
        return Dialect::Anthropic;
    }
    Dialect::OpenAi
}
