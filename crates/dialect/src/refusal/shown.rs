//! Whether a client may read the body of a refusal: not if it tells the state of the gateway's account, wherever that stands.

use super::{
    request::Request,
    table::ABOUT_US,
    words::{plain, unquoted},
};
use crate::json::{Cursor, Raw};

/// Whether a text in lower case, without what it quotes, is about the gateway's account.
pub(super) fn is_about_us(text: &str) -> bool {
    ABOUT_US.iter().any(|words| text.contains(words))
}

/// Whether a name or a value of the body is about the gateway's account. What the request holds too tells its client nothing.
pub(super) fn speaks_about_us(body: &[u8], request: &Request<'_>) -> bool {
    let text = String::from_utf8_lossy(body);
    match Cursor::new(&text).value() {
        Ok(value) => any_text(value, request),
        Err(_) => is_news(&text, request),
    }
}

fn any_text(value: Raw<'_>, request: &Request<'_>) -> bool {
    let in_members = value.members().any(|(key, value)| {
        let name = key.name();
        let name = String::from_utf8_lossy(&name);
        let is_about_us = is_about_us(&plain(&name.replace('_', " "))) && !request.has_name(&name);
        (is_about_us && !value.is_null()) || any_text(value, request)
    });
    in_members
        || value.elements().any(|value| any_text(value, request))
        || value.text().is_some_and(|text| match Cursor::new(&text).value() {
            Ok(inner) if inner.is_object() || inner.is_array() => any_text(inner, request),
            _ => is_news(&text, request),
        })
}

fn is_news(text: &str, request: &Request<'_>) -> bool {
    let text = plain(text);
    is_about_us(&unquoted(&text)) && !request.holds(&text)
}
