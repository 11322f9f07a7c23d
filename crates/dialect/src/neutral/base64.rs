//! Data in base64 as clients write them: with white space, in the alphabet for URLs, without padding. Providers want none of it.

use bytes::Bytes;

use super::media_type::data_url;
use crate::json::{Raw, Splice, SpliceAction, object, quoted};

/// Where the scheme of an address ends at the latest.
const MAX_SCHEME: usize = 256;

/// Whether the data of a string are not written as providers want them, or are none: a look, which decodes nothing. `is_bare`:
/// they may stand there without the head of a data URL.
pub(crate) fn has_odd_base64(value: Raw<'_>, is_bare: bool) -> bool {
    let has_escapes = value.is_string() && value.text_bytes() + 2 != value.written().len();
    if has_escapes {
        let breaks_lines = |data: &str| data.bytes().any(|byte| byte.is_ascii_control());
        let text = value.text().unwrap_or_default();
        return data_of(&text, is_bare).is_some_and(|data| is_odd(data) || breaks_lines(data));
    }
    data_of(value.inner_text(), is_bare).is_some_and(is_odd)
}

/// Line breaks are not looked for: they are written as escapes.
fn is_odd(data: &str) -> bool {
    !data.len().is_multiple_of(4) || memchr::memchr3(b' ', b'-', b'_', data.as_bytes()).is_some()
}

/// The data of a data URL, or what has no head.
fn data_of(text: &str, is_bare: bool) -> Option<&str> {
    if text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:")) {
        return data_url(text).filter(|url| url.is_base64).map(|url| url.data);
    }
    let is_address = || text.bytes().take(MAX_SCHEME).any(|byte| byte == b':');
    (is_bare && !is_address()).then_some(text)
}

/// The same data in the alphabet of RFC 4648, section 4, padded and without white space; `None` if they are no base64.
fn plain(data: &str) -> Option<String> {
    let mut out = String::with_capacity(data.len() + 3);
    for byte in data.trim_end_matches(|c: char| c == '=' || c.is_ascii_whitespace()).bytes() {
        match byte {
            b'-' => out.push('+'),
            b'_' => out.push('/'),
            b'+' | b'/' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => out.push(char::from(byte)),
            b' ' | b'\n' | b'\r' | b'\t' => {}
            _ => return None,
        }
    }
    let padding = match out.len() % 4 {
        0 => "",
        2 => "==",
        3 => "=",
        _ => return None,
    };
    out.push_str(padding);
    Some(out)
}

/// A body whose images, files and sound are in base64 as providers want them. `None` if nothing changes.
pub(crate) fn with_plain_base64(body: &str) -> Option<Bytes> {
    let mut splice = Splice::new(body);
    let mut has_changed = false;
    mend(object(body).ok()?, &mut splice, &mut has_changed);
    has_changed.then(|| splice.finish())
}

/// Mends the media in an object or a list. Tools, and what a tool is called with, are not the gateway's to change.
fn mend<'a>(value: Raw<'a>, splice: &mut Splice<'a>, has_changed: &mut bool) {
    splice.elements(value, |element, splice| {
        mend_value(element, false, splice, has_changed);
        SpliceAction::Kept
    });
    let [kind, format] = value.pick([b"type", b"format"]);
    let is = |name: &[u8]| kind.is_some_and(|kind| kind.inner() == name);
    splice.members(value, |key, member, splice| {
        match &*key.name() {
            b"tools" | b"metadata" => {}
            b"input" if is(b"tool_use") => {}
            b"url" | b"image_url" | b"video_url" if member.is_string() => {
                mend_value(member, false, splice, has_changed);
            }
            b"file_data" => mend_value(member, true, splice, has_changed),
            b"data" if is(b"base64") || format.is_some() => mend_value(member, true, splice, has_changed),
            _ if member.is_string() => {}
            _ => mend(member, splice, has_changed),
        }
        SpliceAction::Kept
    });
}

fn mend_value<'a>(value: Raw<'a>, is_bare: bool, splice: &mut Splice<'a>, has_changed: &mut bool) {
    if !value.is_string() {
        return mend(value, splice, has_changed);
    }
    let Some(text) = value.text().filter(|_| has_odd_base64(value, is_bare)) else { return };
    let Some(data) = data_of(&text, is_bare) else { return };
    if let Some(plain) = plain(data) {
        let head = text.get(..text.len() - data.len()).unwrap_or_default();
        splice.replace(value, &quoted(&format!("{head}{plain}")));
        *has_changed = true;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::json::Cursor;

    fn mended(body: &Value) -> Value {
        let text = body.to_string();
        with_plain_base64(&text).map_or_else(|| body.clone(), |mended| serde_json::from_slice(&mended).unwrap())
    }

    #[test]
    fn media_are_written_as_providers_want_them() {
        for (written, plain) in
            [("AAAA\nAAAA\r\n", "AAAAAAAA"), ("ab-_", "ab+/"), ("QUI", "QUI="), ("Q Q=\n=", "QQ=="), ("QUJD", "QUJD")]
        {
            let url = |data: &str| format!("data:image/png;base64,{data}");
            for (given, expected) in [
                (json!({"image_url": {"url": url(written)}}), json!({"image_url": {"url": url(plain)}})),
                (json!([{"image_url": url(written)}]), json!([{"image_url": url(plain)}])),
                (json!({"file": {"file_data": url(written)}}), json!({"file": {"file_data": url(plain)}})),
                (json!({"file": {"file_data": written}}), json!({"file": {"file_data": plain}})),
                (
                    json!({"input_audio": {"data": written, "format": "wav"}}),
                    json!({"input_audio": {"data": plain, "format": "wav"}}),
                ),
                (
                    json!({"source": {"type": "base64", "data": written}}),
                    json!({"source": {"type": "base64", "data": plain}}),
                ),
                (json!({"input_references": [url(written)]}), json!({"input_references": [url(plain)]})),
            ] {
                assert_eq!(mended(&json!({"x": given})), json!({"x": expected}), "{written:?}");
            }
        }
    }

    #[test]
    fn what_is_no_base64_or_no_medium_stays() {
        let url = "data:image/png;base64,ab-_";
        for same in [
            json!({"text": url}),
            json!({"type": "tool_use", "input": {"url": url}}),
            json!({"tools": [{"url": url}]}),
            json!({"data": "ab-_", "type": "text"}),
            json!({"url": "https://a.example/a-b_c d"}),
            json!({"file_data": "https://a.example/a-b"}),
            json!({"file_data": "a.pdf"}),
            json!({"url": "data:text/plain,a-b c"}),
            json!({"url": "data:image/png;base64,A"}),
            json!({"url": "data:image/png;base64,%%%%"}),
        ] {
            assert_eq!(mended(&same), same);
        }
    }

    proptest! {
        #[test]
        fn data_mean_the_same_afterwards_and_are_plain(bytes in prop::collection::vec(any::<u8>(), 1..40), at in 0_usize..8) {
            use base64::{Engine as _, engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD}};
            let mut written = URL_SAFE_NO_PAD.encode(&bytes);
            written.insert_str(at.min(written.len()), " \n");
            let expected = STANDARD.encode(&bytes);
            prop_assert_eq!(plain(&written), Some(expected.clone()));
            let quoted = format!("\"data:x/y;base64,{expected}\"");
            prop_assert!(!has_odd_base64(Cursor::new(&quoted).value().unwrap(), false));
        }
    }
}
