//! Whether a client may read the body of a refusal: not if it tells the state of the gateway's account, wherever that stands.

use super::{
    request::{MOST_LOOK_UPS, RefusedRequest},
    table::{ABOUT_US, OURS},
    words::{plain, unquoted},
};
use crate::json::{Cursor, Raw};

/// Whether a text in lower case, without what it quotes, is about the gateway's account.
pub(super) fn is_about_us(text: &str) -> bool {
    ABOUT_US.iter().any(|words| text.contains(words))
}

/// Whether a name or a value of the body is about the gateway's account. What the request holds too tells its client nothing.
pub(super) fn speaks_about_us(body: &[u8], request: &RefusedRequest<'_>) -> bool {
    let text = String::from_utf8_lossy(body);
    let mut search = Search { request, looked_up: 0 };
    match Cursor::new(&text).value() {
        Ok(value) => search.any_text(value),
        Err(_) => search.is_news(&text),
    }
}

struct Search<'a, 'r> {
    request: &'a RefusedRequest<'r>,
    /// Texts that were looked up in the request.
    looked_up: usize,
}

impl<'r> Search<'_, 'r> {
    fn any_text(&mut self, value: Raw<'_>) -> bool {
        let in_members = value.members().any(|(key, value)| {
            let name = key.name();
            let name = String::from_utf8_lossy(&name);
            let is_about_us = !value.is_null() && is_about_us(&plain(&name.replace('_', " ")));
            (is_about_us && !self.knows(|request| request.has_name(&name))) || self.any_text(value)
        });
        in_members
            || value.elements().any(|value| self.any_text(value))
            || value.text().is_some_and(|text| match Cursor::new(&text).value() {
                Ok(inner) if inner.is_object() || inner.is_array() => self.any_text(inner),
                _ => self.is_news(&text),
            })
    }

    fn is_news(&mut self, text: &str) -> bool {
        let text = plain(text);
        (is_about_us(&unquoted(&text)) && !self.knows(|request| request.holds(&text))) || self.names_ours(&text)
    }

    /// Whether the text, or what it quotes, has the name of a project or resource that does not stand in the request.
    fn names_ours(&mut self, text: &str) -> bool {
        let mut names = OURS.iter().flat_map(|start| text.match_indices(start)).filter_map(|(at, _)| {
            let ends = |c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`' | ',' | ';' | ')' | '\\');
            Some(text.get(at..)?.split(ends).next()?.trim_end_matches(['.', ':']))
        });
        names.any(|name| !self.knows(|request| request.holds(name)))
    }

    /// Whether the client's request is found to hold something. Each look-up reads all of it, so their number is bounded.
    fn knows(&mut self, holds: impl FnOnce(&RefusedRequest<'r>) -> bool) -> bool {
        self.looked_up += 1;
        self.looked_up <= MOST_LOOK_UPS && holds(self.request)
    }
}
