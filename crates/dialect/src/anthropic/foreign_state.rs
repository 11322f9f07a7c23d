//! What an envelope holds of another provider's reasoning: its data, what they belong to, and a text that the client did not get.

use std::borrow::Cow;

use crate::neutral::EscapedText;

/// Between data and id. Neither has one: data are base64, ids are words.
const SEPARATOR: char = '\n';

/// Before a text that was not shown. Data and id have none.
const OMITTED: char = '\u{2}';

/// The content of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ForeignState<'s> {
    /// The sealed data; empty if there are none.
    pub(super) data: &'s str,
    /// The id of the item or call that they belong to.
    pub(super) id: Option<&'s str>,
    /// The readable text, if the client wanted none; else empty.
    pub(super) omitted: &'s str,
}

/// Data and the id of the item or call they belong to, as one text.
pub(super) fn packed_state(data: &EscapedText<'_>, id: Option<&EscapedText<'_>>) -> String {
    let data = data.unescaped();
    let is_id = |id: &Cow<'_, str>| !id.is_empty() && !id.contains([SEPARATOR, OMITTED]);
    match id.map(EscapedText::unescaped).filter(is_id) {
        Some(id) => format!("{data}{SEPARATOR}{id}"),
        None => data.into_owned(),
    }
}

/// A packed state with the text that the client did not get.
pub(super) fn with_omitted(mut state: String, text: &EscapedText<'_>) -> String {
    if !text.is_empty() {
        state.push(OMITTED);
        state.push_str(&text.unescaped());
    }
    state
}

/// What stands in a packed text.
pub(super) fn unpacked_state(state: &str) -> ForeignState<'_> {
    let (state, omitted) = state.split_once(OMITTED).unwrap_or((state, ""));
    match state.rsplit_once(SEPARATOR) {
        Some((data, id)) if !id.is_empty() => ForeignState { data, id: Some(id), omitted },
        _ => ForeignState { data: state, id: None, omitted },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_id_and_omitted_text_come_back() {
        for (data, id) in [("AbC=", Some("call_1")), ("AbC=", None), ("", Some("rs_1")), ("", None)] {
            for omitted in ["", "hm", "two\nlines\n", "a \"word\" \u{2} é"] {
                let packed = packed_state(&EscapedText::escaping(data), id.map(EscapedText::escaping).as_ref());
                let packed = with_omitted(packed, &EscapedText::escaping(omitted));
                assert_eq!(unpacked_state(&packed), ForeignState { data, id, omitted });
            }
        }
    }
}
