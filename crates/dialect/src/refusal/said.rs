//! What an error body says, whatever its shape: codes, a message, perhaps a status.

use std::borrow::Cow;

use crate::{
    json::{Cursor, Raw},
    sanitize::{NAME_CHARS, clean},
};

/// Characters of a message that are read.
const MESSAGE_CHARS: usize = 1_000;

/// The contents of an error.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// A status that the body itself names.
    pub status: Option<u16>,
    /// Codes, types and reasons, in lower case, the most specific first.
    pub codes: Vec<String>,
    /// The same as the provider wrote them, statuses among them.
    pub names: Vec<String>,
    pub message: String,
    /// The message of the provider behind this one, as an aggregator repeats it. Its codes are about another account.
    pub inner_message: String,
}

impl Said {
    /// Reads the body of an answer. `amazon_type`: the type of the error in a header of Amazon.
    pub(super) fn of_body(body: &[u8], amazon_type: Option<&str>) -> Said {
        let text = String::from_utf8_lossy(body);
        let mut said = match Cursor::new(&text).value() {
            Ok(value) => Said::read(value),
            // A page of HTML says nothing that is meant for programs.
            Err(_) if text.trim_start().starts_with('<') => Said::default(),
            Err(_) => Said { message: clean(&text, MESSAGE_CHARS).into_owned(), ..Said::default() },
        };
        if let Some(name) = amazon_type {
            said.names.insert(0, amazon_name(name).to_owned());
            said.codes.insert(0, amazon_name(name).to_ascii_lowercase());
        }
        said
    }

    /// Reads an error, or what holds it in a member `error`, or `base_resp` of MiniMax, or as the first of a list.
    pub(super) fn read(value: Raw<'_>) -> Said {
        let whole = value.elements().next().filter(|_| value.is_array()).unwrap_or(value);
        let inner = whole.member(b"error").filter(|error| error.is_object() || error.is_string());
        let inner = inner.or_else(|| whole.member(b"base_resp").filter(|answer| answer.is_object()));
        let error = inner.unwrap_or(whole);
        let mut said = Said::default();
        for name in [&b"code"[..], b"type", b"status", b"status_code"] {
            said.note(error.member(name));
        }
        let details = error.member(b"details");
        said.note(details.and_then(|details| details.member(b"error_code")));
        for detail in details.into_iter().flat_map(Raw::elements) {
            said.note(detail.member(b"reason"));
        }
        said.note(error.member(b"innererror").and_then(|inner| inner.member(b"code")));
        if error.member(b"status_msg").is_some() {
            // Bare numbers mean something else at other providers.
            said.codes.iter_mut().for_each(|code| code.insert_str(0, "minimax."));
        }
        let metadata = error.member(b"metadata");
        said.note(metadata.and_then(|metadata| metadata.member(b"error_type")));
        if metadata.and_then(|metadata| metadata.member(b"reasons")).is_some_and(Raw::is_array) {
            said.codes.push("metadata.reasons".to_owned());
        }
        if inner.is_some() {
            said.note(whole.member(b"code"));
            said.note(whole.member(b"error_type"));
        } else {
            said.note(whole.member(b"error_type"));
            let amazon = whole.member(b"__type").or_else(|| whole.member(b"Output")?.member(b"__type"));
            if let Some(name) = amazon.and_then(Raw::text) {
                said.names.push(amazon_name(&name).to_owned());
                said.codes.push(amazon_name(&name).to_ascii_lowercase());
            }
        }
        let messages = [
            error.member(b"message"),
            error.member(b"status_msg"),
            Some(error),
            whole.member(b"message"),
            whole.member(b"Message"),
            whole.member(b"detail"),
            whole.member(b"detail").and_then(|detail| detail.member(b"error")),
        ];
        let message = messages.into_iter().flatten().find_map(sentence).unwrap_or_default();
        said.message = clean(&message, MESSAGE_CHARS).into_owned();
        if let Some(raw) = metadata.and_then(|metadata| metadata.member(b"raw")).and_then(sentence) {
            let inner = Cursor::new(&raw).value().ok().filter(|inner| inner.is_object() || inner.is_array());
            said.inner_message = match inner {
                Some(inner) => Said::read(inner).message,
                None => clean(&raw, MESSAGE_CHARS).into_owned(),
            };
        }
        said
    }

    /// The provider's own code. A status says less than the word beside it.
    pub(super) fn code(&self) -> Option<&String> {
        let is_word = |name: &&String| !matches!(name.parse::<u16>(), Ok(400..=599));
        self.names.iter().find(is_word).or_else(|| self.names.first())
    }

    /// Codes come as words, as numbers and as numbers in strings; a number of three digits is a status.
    fn note(&mut self, value: Option<Raw<'_>>) {
        let Some(value) = value else { return };
        let text = value.text().filter(|text| !text.is_empty()).or_else(|| Some(value.count()?.to_string().into()));
        let Some(text) = text.filter(|text| text.len() <= NAME_CHARS) else { return };
        self.names.push(text.to_string());
        match text.parse::<u16>() {
            Ok(status @ 400..=599) => _ = self.status.get_or_insert(status),
            _ => self.codes.push(text.to_ascii_lowercase()),
        }
    }
}

/// A message: a string, or the first `msg` of FastAPI's list of objects.
fn sentence(value: Raw<'_>) -> Option<Cow<'_, str>> {
    if value.is_array() {
        return value.elements().next()?.member(b"msg").and_then(sentence);
    }
    value.text().filter(|text| !text.is_empty())
}

/// The name of an error without the namespace before `#` and the address behind `:`.
fn amazon_name(error_type: &str) -> &str {
    let name = error_type.split(':').next().unwrap_or_default();
    name.rsplit('#').next().unwrap_or_default().trim()
}
