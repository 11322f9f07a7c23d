//! Citations as elements of `annotations`.

use bytes::{BufMut as _, BytesMut};

use crate::json::{push_count, push_member, push_u64};

/// A citation of a page. `start` and `end`: what it supports, in characters of the text of the answer. `title` and `url` are
/// JSON strings, quotes included.
pub(crate) fn url_citation(start: u64, end: u64, title: &[u8], url: &[u8]) -> Vec<u8> {
    let mut json = BytesMut::new();
    json.put_slice(b"{\"type\":\"url_citation\",\"url_citation\":{\"start_index\":");
    push_u64(&mut json, start);
    push_count(&mut json, b"end_index", end);
    push_member(&mut json, b"title", title);
    push_member(&mut json, b"url", url);
    json.put_slice(b"}}");
    json.to_vec()
}
