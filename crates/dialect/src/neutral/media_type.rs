//! Types of media: what APIs tell apart, and how a type is known that a client does not name.

use super::text::EscapedText;

/// What a file is, as far as APIs differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Pdf,
    /// Anything that reads as text, code and data among it.
    Text,
    Image,
    /// A document of Word or Excel.
    Office,
    Sound,
    Video,
    Other,
}

/// The type of a file that only says that it has bytes.
const BYTES: &str = "application/octet-stream";
/// Other names of types.
const SYNONYMS: [(&str, &str); 4] = [
    ("application/x-pdf", "application/pdf"),
    ("image/jpg", "image/jpeg"),
    ("binary/octet-stream", BYTES),
    ("application/binary", BYTES),
];
/// Types of text whose names do not begin with `text/`.
const TEXTS: [&str; 21] = [
    "application/json",
    "application/jsonl",
    "application/x-jsonlines",
    "application/x-ndjson",
    "application/xml",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/javascript",
    "application/x-javascript",
    "application/ecmascript",
    "application/typescript",
    "application/x-typescript",
    "application/x-python",
    "application/x-python-code",
    "application/x-sh",
    "application/x-shellscript",
    "application/x-httpd-php",
    "application/sql",
    "application/x-tex",
    "application/graphql",
];
/// Types of documents of Word and Excel.
const OFFICE: [&str; 4] = [
    "application/msword",
    "application/vnd.ms-excel",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
];
/// Types by the ending of a name.
const ENDINGS: [(&str, &str); 42] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("webp", "image/webp"),
    ("gif", "image/gif"),
    ("pdf", "application/pdf"),
    ("txt", "text/plain"),
    ("log", "text/plain"),
    ("md", "text/markdown"),
    ("markdown", "text/markdown"),
    ("csv", "text/csv"),
    ("html", "text/html"),
    ("htm", "text/html"),
    ("css", "text/css"),
    ("json", "application/json"),
    ("jsonl", "application/jsonl"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("toml", "application/toml"),
    ("js", "text/javascript"),
    ("ts", "application/typescript"),
    ("py", "text/x-python"),
    ("rs", "text/x-rust"),
    ("go", "text/x-go"),
    ("java", "text/x-java"),
    ("c", "text/x-c"),
    ("cpp", "text/x-c++"),
    ("h", "text/x-c"),
    ("sh", "application/x-sh"),
    ("sql", "application/sql"),
    ("tex", "application/x-tex"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("mp3", "audio/mp3"),
    ("wav", "audio/wav"),
    ("mp4", "video/mp4"),
    ("webm", "video/webm"),
    ("mov", "video/quicktime"),
    ("zip", "application/zip"),
];
/// How files of a type begin in base64.
const BEGINNINGS: [(&str, &str); 4] =
    [("JVBERi0", "application/pdf"), ("iVBORw0KGgo", "image/png"), ("/9j/", "image/jpeg"), ("R0lGOD", "image/gif")];

impl FileKind {
    /// The kind of a type, which is in lower case.
    pub(crate) fn from_type(media_type: &str) -> FileKind {
        let is_structured_text = || {
            ["+json", "+xml", "+yaml"].iter().any(|suffix| media_type.ends_with(suffix)) || TEXTS.contains(&media_type)
        };
        match media_type.split_once('/') {
            _ if media_type == "application/pdf" => FileKind::Pdf,
            Some(("image", _)) => FileKind::Image,
            Some(("audio", _)) => FileKind::Sound,
            Some(("video", _)) => FileKind::Video,
            Some(("text", _)) => FileKind::Text,
            _ if is_structured_text() => FileKind::Text,
            _ if OFFICE.contains(&media_type) => FileKind::Office,
            _ => FileKind::Other,
        }
    }
}

/// The type of a file: as the client named it, in lower case, else as its data begin, else as its name ends.
pub(crate) fn type_of_file(given: &str, name: Option<&str>, data: &str) -> String {
    let given = given.trim().to_ascii_lowercase();
    let known = SYNONYMS.iter().find(|(synonym, _)| *synonym == given).map_or(&*given, |(_, known)| *known);
    if !known.is_empty() && known != BYTES {
        return known.to_owned();
    }
    let of_data = BEGINNINGS.iter().find(|(beginning, _)| data.starts_with(beginning)).map(|(_, known)| *known);
    of_data.or_else(|| name.and_then(type_of_name)).unwrap_or(BYTES).to_owned()
}

/// The type of what has this name or address.
pub(crate) fn type_of_name(name: &str) -> Option<&'static str> {
    let (_, ending) = name.split(['?', '#']).next()?.rsplit_once('.')?;
    ENDINGS.iter().find(|(known, _)| ending.eq_ignore_ascii_case(known)).map(|(_, media_type)| *media_type)
}

/// Whether a text is base64 without the head of a data URL, and no address.
pub(crate) fn is_bare_base64(text: &str) -> bool {
    let text = text.trim_ascii_end();
    let data = text.trim_end_matches('=');
    let is_data = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
    // Some break lines, but no address has white space.
    let is_space = |byte: u8| matches!(byte, b'\n' | b'\r' | b'\t' | b' ');
    !data.is_empty() && text.len() - data.len() <= 2 && data.bytes().all(|byte| is_data(byte) || is_space(byte))
}

/// Base64 without the head of a data URL, which some clients send where only the data are wanted.
pub(crate) fn bare_data(data: EscapedText<'_>) -> EscapedText<'_> {
    match data.as_plain() {
        Some(text) => EscapedText::plain(without_head(text)),
        None => EscapedText::escaping(without_head(&data.unescaped())),
    }
}

fn without_head(data: &str) -> &str {
    match data_url(data) {
        Some(DataUrl { is_base64: true, data, .. }) => data,
        _ => data,
    }
}

/// What a data URL has.
pub(crate) struct DataUrl<'u> {
    /// The type and its parameters.
    pub(crate) head: &'u str,
    pub(crate) is_base64: bool,
    pub(crate) data: &'u str,
}

/// Reads a data URL; `None` if it is none.
pub(crate) fn data_url(url: &str) -> Option<DataUrl<'_>> {
    const MARK: &str = ";base64";
    let (_, rest) = url.split_at_checked("data:".len()).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("data:"))?;
    let (head, data) = rest.split_once(',')?;
    let in_base64 = head.len().checked_sub(MARK.len()).and_then(|end| head.split_at_checked(end));
    let in_base64 = in_base64.filter(|(_, mark)| mark.eq_ignore_ascii_case(MARK));
    Some(DataUrl { head: in_base64.map_or(head, |(head, _)| head), is_base64: in_base64.is_some(), data })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Raw;

    #[test]
    fn a_type_is_the_given_one_else_that_of_the_data_else_that_of_the_name() {
        for (given, name, data, expected) in [
            ("Application/X-PDF", None, "", "application/pdf"),
            ("application/octet-stream", Some("a.docx"), "JVBERi0xLjQ", "application/pdf"),
            ("application/octet-stream", Some("main.PY"), "aW1wb3J0", "text/x-python"),
            ("", Some("no ending"), "UEsDBA", "application/octet-stream"),
            ("text/plain", Some("a.pdf"), "JVBERi0", "text/plain"),
            ("", None, "iVBORw0KGgoAAA", "image/png"),
        ] {
            assert_eq!(type_of_file(given, name, data), expected, "{given} {name:?}");
        }
    }

    #[test]
    fn code_and_data_are_text() {
        for text in ["text/x-rust", "application/json", "application/ld+json", "image/svg+xml"] {
            let expected = if text.starts_with("image/") { FileKind::Image } else { FileKind::Text };
            assert_eq!(FileKind::from_type(text), expected, "{text}");
        }
        for other in ["application/zip", "application/octet-stream", "nonsense", ""] {
            assert_eq!(FileKind::from_type(other), FileKind::Other, "{other}");
        }
    }

    #[test]
    fn addresses_are_no_base64() {
        assert!(is_bare_base64("JVBERi0xLjQ=") && is_bare_base64("JVBERi0x\r\nLjQ=\n") && is_bare_base64("ab-_"));
        for other in ["https://a.example/b", "data:text/plain;base64,AA", "gs://b/c", "", "==", "a b.pdf", "file.pdf"] {
            assert!(!is_bare_base64(other), "{other}");
        }
        for written in
            ["data:audio/wav;base64,AAAA", "DATA:audio/wav;BASE64,AAAA", "AAAA", "data:audio\\/wav;base64,AAAA"]
        {
            let quoted = format!("\"{written}\"");
            let data = EscapedText::read(Raw::whole(&quoted).unwrap()).unwrap();
            assert_eq!(bare_data(data).unescaped(), "AAAA", "{written}");
        }
    }
}
