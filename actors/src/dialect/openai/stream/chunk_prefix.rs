//! The beginning that chunks of one stream share.

use bytes::{BufMut as _, BytesMut};

/// Longest beginning worth remembering.
const MAX_BYTES: usize = 16 * 1024;

/// The beginning that chunks of one stream share, as the upstream writes it and as we do.
///
/// Upstreams repeat id, model and the like in each chunk before the choices. A chunk that begins with the very
/// same bytes needs none of them read again: ours are copied, and reading goes on behind them.
#[derive(Debug, Default)]
pub(super) struct ChunkPrefix {
    upstream: BytesMut,
    ours: BytesMut,
}

impl ChunkPrefix {
    /// What follows the shared beginning, if `data` has it. It starts with a key.
    pub(super) fn rest<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        if self.upstream.is_empty() {
            return None;
        }
        data.strip_prefix(&*self.upstream).filter(|rest| rest.first() == Some(&b'"'))
    }

    /// Our spelling of the shared beginning.
    pub(super) fn ours(&self) -> &[u8] {
        &self.ours
    }

    /// Remembers a beginning that ends before a key, if it is not absurdly long.
    pub(super) fn learn(&mut self, upstream: &[u8], ours: &[u8]) {
        self.upstream.clear();
        if upstream.len() > MAX_BYTES {
            return;
        }
        self.upstream.put_slice(upstream);
        self.ours.clear();
        self.ours.put_slice(ours);
    }

    /// Forgets everything: our spelling has changed.
    pub(super) fn forget(&mut self) {
        self.upstream.clear();
    }
}
