//! Where media come from, as clients write it: data URLs, addresses, and data without a head.

use super::{
    conversation::MediaSource,
    media_type::{DataUrl, data_url, is_bare_base64, type_of_file},
    text::EscapedText,
};

impl<'a> MediaSource<'a> {
    /// A data URL, or an address. Data that is written without escapes is not copied.
    pub(crate) fn at(text: EscapedText<'a>) -> MediaSource<'a> {
        let media = match text.as_plain() {
            Some(url) => data_of(url, EscapedText::plain),
            None => data_of(&text.unescaped(), EscapedText::escaping),
        };
        media.unwrap_or(MediaSource::Url(text))
    }

    /// Data of a type that stands beside them.
    pub(crate) fn of_type(media_type: &EscapedText<'a>, data: EscapedText<'a>) -> MediaSource<'a> {
        let media_type = match media_type.as_plain().filter(|kind| kind.bytes().all(is_of_type)) {
            Some(kind) => EscapedText::plain(kind),
            None => written_type(&media_type.unescaped()),
        };
        let data = if data.as_plain().is_some() { data } else { EscapedText::escaping(&data.unescaped()) };
        MediaSource::Base64 { media_type, data }
    }

    /// The source of a file, with its type where the client gave only bytes.
    pub(crate) fn typed(self, name: Option<&EscapedText<'a>>) -> MediaSource<'a> {
        let name = name.map(EscapedText::unescaped);
        let typed = |given: &str, data: EscapedText<'a>| {
            let media_type = type_of_file(given, name.as_deref(), &data.unescaped());
            MediaSource::Base64 { media_type: EscapedText::escaping(&media_type), data }
        };
        match self {
            MediaSource::Base64 { media_type, data } => typed(&media_type.unescaped(), data),
            MediaSource::Url(data) if is_bare_base64(&data.unescaped()) => typed("", data),
            other => other,
        }
    }
}

fn data_of<'u, 'a>(url: &'u str, escaped: impl Fn(&'u str) -> EscapedText<'a>) -> Option<MediaSource<'a>> {
    let DataUrl { head, is_base64, data } = data_url(url)?;
    Some(match is_base64 {
        true => MediaSource::Base64 { media_type: written_type(head), data: escaped(data) },
        false => MediaSource::Text { head: escaped(head), text: escaped(data) },
    })
}

/// A type without parameters, in lower case.
fn written_type<'a>(media_type: &str) -> EscapedText<'a> {
    EscapedText::escaping(&media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// Whether the byte may stand in a type that is written so.
fn is_of_type(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'/' | b'-' | b'.' | b'+')
}
