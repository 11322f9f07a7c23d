//! The guard on upstream connections: however an answer is cut into reads, the same head passes or the same fault is
//! found; no interim head passes; and a connection is used again only behind exactly one whole answer.

use pointsman_transport::{ExaminedExchange, examine};

/// See the module.
pub(crate) fn check(bytes: &[u8]) {
    let whole = examine([bytes.to_vec()]);
    let cut = examine(super::pieces::cut(bytes));
    for examined in [&whole, &cut] {
        no_interim_head(examined);
        if examined.reusable {
            assert!(examined.fault.is_none(), "{examined:?}");
            assert!(bytes.ends_with(&examined.passed), "bytes behind the answer were ignored: {examined:?}");
        }
    }
    assert_eq!(whole.fault, cut.fault, "cut by chance");
    if whole.fault.is_none() {
        assert_eq!(String::from_utf8_lossy(&whole.passed), String::from_utf8_lossy(&cut.passed), "cut by chance");
        assert_eq!(whole.reusable, cut.reusable, "cut by chance");
    }
}

fn no_interim_head(examined: &ExaminedExchange) {
    let passed = examined.passed.strip_prefix(b"HTTP/1.1 ").or(examined.passed.strip_prefix(b"HTTP/1.0 "));
    assert!(passed.is_none_or(|rest| !rest.starts_with(b"1")), "{examined:?}");
}
