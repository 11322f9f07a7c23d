//! The wire format of a request, which its errors have, too.

use actix_web::dev::RequestHead;
use pointsman_domain::Dialect;

/// The dialect of a request, by its path; on pages that several dialects have, by its headers.
pub(super) fn of_request(head: &RequestHead) -> Dialect {
    let path = head.uri.path();
    let is_messages = path.ends_with("/messages") || path.contains("/messages/");
    // The last two are pages of that API that are not here.
    let shared = ["/models", "/files", "/complete"];
    let is_shared =
        shared.iter().any(|page| path.ends_with(page)) || path.contains("/models/") || path.contains("/files/");
    if is_messages || (is_shared && head.headers.contains_key("anthropic-version")) {
        return Dialect::Anthropic;
    }
    Dialect::OpenAi
}
