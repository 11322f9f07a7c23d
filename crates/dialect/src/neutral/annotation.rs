//! Citations as elements of `annotations`.

use bytes::BytesMut;

/// A citation of a page. `start` and `end`: what it supports, in characters of the text of the answer. `title` and `url` are
/// JSON strings, quotes included.
pub(crate) fn url_citation(start: u64, end: u64, title: &[u8], url: &[u8]) -> Vec<u8> {
    let mut json = BytesMut::new();
    push!(json; br#"{"type":"url_citation","url_citation":{"start_index":"#, start, br#","end_index":"#, end,
        br#","title":"#, title, br#","url":"#, url, b"}}");
    json.to_vec()
}
