//! What an envelope holds of another provider's reasoning: its data, and what they belong to.

use crate::neutral::EscapedText;

/// Between data and id. Neither has one: data are base64, ids are words.
const SEPARATOR: char = '\n';

/// Data and the id of the item or call they belong to, as one text.
pub(super) fn packed_state(data: &EscapedText<'_>, id: Option<&EscapedText<'_>>) -> String {
    let data = data.unescaped();
    match id.map(EscapedText::unescaped).filter(|id| !id.is_empty() && !id.contains(SEPARATOR)) {
        Some(id) => format!("{data}{SEPARATOR}{id}"),
        None => data.into_owned(),
    }
}

/// The data and the id in a packed text.
pub(super) fn unpacked_state(state: &str) -> (&str, Option<&str>) {
    match state.rsplit_once(SEPARATOR) {
        Some((data, id)) if !id.is_empty() => (data, Some(id)),
        _ => (state, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_id_come_back() {
        for (data, id) in [("AbC=", Some("call_1")), ("AbC=", None), ("", Some("rs_1")), ("", None)] {
            let packed = packed_state(&EscapedText::escaping(data), id.map(EscapedText::escaping).as_ref());
            assert_eq!(unpacked_state(&packed), (data, id));
        }
    }
}
