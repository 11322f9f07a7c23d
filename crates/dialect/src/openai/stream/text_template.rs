//! What the chunks of one stream have in common that differ only in their text, most of a stream.

use bytes::{BufMut as _, BytesMut};

use crate::json::{Cursor, Raw};

/// Longest chunk that becomes a template.
const MAX_BYTES: usize = 16 * 1024;
/// Templates without use in succession after which none is made: some providers pad every chunk with other bytes.
const MOST_UNUSED: u8 = 8;

/// The last rewritten chunk with a text and nothing else to count, as received and as rewritten.
///
/// A chunk with the same bytes around another text becomes the same bytes around that text: what is written also depends on what
/// came before, but that is changed only by chunks that are no such ones, and they end the template.
#[derive(Debug, Default)]
pub(super) struct TextTemplate {
    upstream: BytesMut,
    ours: BytesMut,
    /// Where the text stands in each, quotes included.
    upstream_text: (usize, usize),
    ours_text: (usize, usize),
    unused: u8,
}

impl TextTemplate {
    /// The text of a chunk that differs from the template only in it. It is not empty, and its characters are whole.
    pub(super) fn text_of<'a>(&mut self, data: &'a [u8]) -> Option<Raw<'a>> {
        if self.upstream.is_empty() {
            return None;
        }
        let (start, end) = self.upstream_text;
        let (before, after) = (self.upstream.get(..start)?, self.upstream.get(end..)?);
        let written = data.strip_prefix(before)?.strip_suffix(after)?;
        let mut cursor = Cursor::new(simdutf8::basic::from_utf8(written).ok()?);
        let text = cursor.string().ok().filter(|text| text.bytes().len() == written.len())?.filled_string()?;
        if cursor.has_lone_surrogate() {
            return None;
        }
        self.unused = 0;
        Some(text)
    }

    /// Appends the rewritten chunk with this text.
    pub(super) fn write(&self, text: Raw<'_>, out: &mut BytesMut) {
        let (start, end) = self.ours_text;
        let [before, after] = [self.ours.get(..start), self.ours.get(end..)].map(Option::unwrap_or_default);
        out.reserve(before.len() + text.bytes().len() + after.len());
        push!(out; before, text.bytes(), after);
    }

    /// Replaces the template by a chunk around its `text`, or ends it if there is none.
    pub(super) fn learn(&mut self, text: Option<Raw<'_>>, upstream: &[u8], ours: &[u8]) {
        self.upstream.clear();
        let Some(text) = text.filter(|_| self.unused < MOST_UNUSED && upstream.len() <= MAX_BYTES) else { return };
        self.unused += 1;
        let start = (text.bytes().as_ptr() as usize).wrapping_sub(upstream.as_ptr() as usize);
        // A text that is also written elsewhere, such as a name, does not tell its place.
        let mut found = memchr::memmem::find_iter(ours, text.bytes());
        let (Some(place), None) = (found.next(), found.next()) else { return };
        let length = text.bytes().len();
        (self.upstream_text, self.ours_text) = ((start, start + length), (place, place + length));
        self.upstream.put_slice(upstream);
        self.ours.clear();
        self.ours.put_slice(ours);
    }
}
