//! Percent notation for addresses.

use std::fmt::Write as _;

/// The text with everything but letters, digits and `-._~` in percent notation: for one segment of a path, or one name or
/// value of a query string.
pub fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unreserved_characters_stay_as_they_are() {
        assert_eq!(encoded("team/a b-._~0"), "team%2Fa%20b-._~0");
        assert_eq!(encoded("gpt-4o:ä?"), "gpt-4o%3A%C3%A4%3F");
    }
}
