//! The splitter of server-sent events: any bytes, however they are cut into reads, give the same events.

use pointsman_dialect::frame::{EventTooLong, sse::SseSplitter};

const LONGEST: usize = 1024;

/// See the module.
pub(crate) fn check(bytes: &[u8]) {
    let whole = events(std::iter::once(bytes));
    let pieces = super::pieces::cut(bytes);
    assert_eq!(events(pieces.iter().map(Vec::as_slice)), whole, "cut by chance");
    assert_eq!(events(bytes.chunks(1)), whole, "cut at every byte");
}

type Event = (Vec<u8>, bool);

fn events<'a>(reads: impl Iterator<Item = &'a [u8]>) -> (Vec<Event>, Option<Event>, bool) {
    let mut splitter = SseSplitter::new(LONGEST);
    let mut seen: Vec<Event> = Vec::new();
    for read in reads {
        let pushed = splitter.push::<EventTooLong>(read, |event| {
            seen.push((event.data.into_owned(), event.is_error));
            Ok(())
        });
        if pushed.is_err() {
            return (seen, None, true);
        }
    }
    let rest = splitter.unfinished().map(|event| (event.data.into_owned(), event.is_error));
    (seen, rest, false)
}
