//! When the chunks of streams arrive: the first one after its request, each after the upstream wrote it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::{
    http::find,
    upstream::{STAMP, STAMP_DIGITS},
};

/// What all streams of a load had to wait for.
#[derive(Default)]
pub(crate) struct Arrivals {
    /// From each request to the first stamped chunk of its answer.
    pub(crate) first: Vec<Duration>,
    /// From each write of the upstream to the client's read.
    pub(crate) transit: Vec<Duration>,
}

impl Arrivals {
    /// Notes the stamps of `body` that came since `read` bytes of it, of the answer to a request of the moment `sent`. Returns
    /// how much of it is read; a stamp whose end is missing is read with what follows.
    pub(crate) fn note(&mut self, body: &[u8], mut read: usize, sent: Instant) -> usize {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        while let Some((end, written)) = stamp(body, read) {
            if read == 0 {
                self.first.push(sent.elapsed());
            }
            self.transit.push(now.saturating_sub(written));
            read = end;
        }
        read
    }
}

/// The next stamp of `body` behind `read`: where it ends, and its moment.
fn stamp(body: &[u8], read: usize) -> Option<(usize, Duration)> {
    let start = read + find(body.get(read..)?, STAMP.as_bytes())? + STAMP.len();
    let end = start + STAMP_DIGITS;
    let nanos = str::from_utf8(body.get(start..end)?).ok()?.parse().ok()?;
    Some((end, Duration::from_nanos(nanos)))
}
