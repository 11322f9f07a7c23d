//! The guard on upstream connections: however an answer is cut into reads, the same status and content pass and the same fault
//! is found; no interim head passes; and a connection is used again only behind exactly one whole answer.

use pointsman_transport::examine;

/// See the module.
pub(crate) fn check(bytes: &[u8]) {
    let whole = examine([bytes.to_vec()]);
    assert_eq!(whole, examine(super::pieces::cut(bytes)), "cut by chance");
    assert!(whole.status.is_none_or(|status| status >= 200), "{whole:?}");
    if whole.reusable {
        assert!(whole.fault.is_none(), "{whole:?}");
        // A head and chunks end with a line feed.
        let ends = !whole.content.is_empty() && bytes.ends_with(&whole.content) || bytes.ends_with(b"\n");
        assert!(ends, "bytes behind the answer were ignored: {whole:?}");
    }
}
