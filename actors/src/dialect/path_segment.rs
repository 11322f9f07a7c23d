use std::fmt::Write as _;

/// A text as one segment of a path: everything but unreserved characters is escaped.
#[must_use]
pub fn path_segment(text: &str) -> String {
    let mut segment = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            segment.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(segment, "%{byte:02X}");
        }
    }
    segment
}
