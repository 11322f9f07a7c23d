//! The guard on upstream connections: however an answer is cut into reads, the same status and content pass and the same fault
//! is found, though with a fault less content may pass before it; no interim head passes; and a connection is used again only
//! behind exactly one whole answer.

use pointsman_transport::examine;

/// See the module.
pub(crate) fn check(bytes: &[u8]) {
    let whole = examine([bytes.to_vec()]);
    let cut = examine(super::pieces::cut(bytes));
    assert_eq!((&whole.status, &whole.fault, whole.reusable), (&cut.status, &cut.fault, cut.reusable), "cut by chance");
    let is_prefix = cut.content.starts_with(&whole.content) || whole.content.starts_with(&cut.content);
    assert!(
        if whole.fault.is_none() { whole.content == cut.content } else { is_prefix },
        "{whole:?}, cut by chance {cut:?}"
    );
    assert!(whole.status.is_none_or(|status| status >= 200), "{whole:?}");
    if whole.reusable {
        assert!(whole.fault.is_none(), "{whole:?}");
        // A head and chunks end with a line feed.
        let ends = !whole.content.is_empty() && bytes.ends_with(&whole.content) || bytes.ends_with(b"\n");
        assert!(ends, "bytes behind the answer were ignored: {whole:?}");
    }
}
