//! The shared prefix of the chunks of one stream.

use bytes::{BufMut as _, BytesMut};

/// Longest prefix that is kept.
const MAX_BYTES: usize = 16 * 1024;

/// The shared prefix of the chunks of one stream, as received and as rewritten.
///
/// Upstreams repeat id, model and similar members in each chunk before the choices. For a chunk that begins with the
/// same bytes the rewritten prefix is copied, and parsing continues after it.
#[derive(Debug, Default)]
pub(super) struct ChunkPrefix {
    upstream: BytesMut,
    ours: BytesMut,
}

impl ChunkPrefix {
    /// The rest of `data` after the shared prefix, if it has this prefix. The rest starts with a key.
    pub(super) fn rest<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        if self.upstream.is_empty() {
            return None;
        }
        data.strip_prefix(&*self.upstream).filter(|rest| rest.first() == Some(&b'"'))
    }

    /// The rewritten prefix.
    pub(super) fn ours(&self) -> &[u8] {
        &self.ours
    }

    /// Stores a prefix that ends before a key, unless it is too long.
    pub(super) fn learn(&mut self, upstream: &[u8], ours: &[u8]) {
        self.upstream.clear();
        if upstream.len() > MAX_BYTES {
            return;
        }
        self.upstream.put_slice(upstream);
        self.ours.clear();
        self.ours.put_slice(ours);
    }

    /// Clears the prefix, because its rewritten form has changed.
    pub(super) fn forget(&mut self) {
        self.upstream.clear();
    }
}
