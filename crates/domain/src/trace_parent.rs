//! The trace context that a client sends: `traceparent` of the W3C recommendation, version 00.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::id::GenerationId;

/// The span of a client within which a request was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceParent {
    /// Id of the whole trace; never 0.
    pub trace: u128,
    /// Id of the span; never 0.
    pub span: u64,
    /// Whether the client keeps this trace.
    pub sampled: bool,
}

impl TraceParent {
    /// Length of the header in version 00.
    const LENGTH: usize = 55;

    /// Reads the header. `None` if it is invalid: then the request counts as one without a trace.
    ///
    /// Later versions may be longer; what follows the flags is ignored then.
    pub fn parse(text: &str) -> Option<TraceParent> {
        let (known, rest) = text.as_bytes().split_at_checked(TraceParent::LENGTH)?;
        let mut parts = std::str::from_utf8(known).ok()?.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let has_shape = [version.len(), trace.len(), span.len(), flags.len()] == [2, 32, 16, 2];
        let version = lower_hex(version)?;
        let has_end = rest.is_empty() || (version != 0 && rest.starts_with(b"-"));
        if !has_shape || !has_end || version == 0xff {
            return None;
        }
        let (trace, span) = (lower_hex(trace)?, u64::try_from(lower_hex(span)?).ok()?);
        let sampled = lower_hex(flags)? & 1 == 1;
        (trace != 0 && span != 0).then_some(TraceParent { trace, span, sampled })
    }
}

/// When a generation was accepted and when it ended, Unix microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedTime {
    /// When its request was accepted.
    pub from_us: i64,
    /// When it ended.
    pub until_us: i64,
}

impl ServedTime {
    /// The time of a generation that took `took` and ended at `until_us`.
    pub fn ending_at(until_us: i64, took: Duration) -> ServedTime {
        let took = i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
        ServedTime { from_us: until_us.saturating_sub(took), until_us }
    }
}

/// The trace of a generation that belongs to no trace of its client. It follows from the id, so that nothing has to be kept
/// until the spans are made.
pub fn trace_of(id: GenerationId) -> u128 {
    let digest = digest(id, u32::MAX);
    u128::from_be_bytes(digest.first_chunk().copied().unwrap_or_default()).max(1)
}

/// The span of attempt `n` of a generation; that of the generation itself for 0.
pub fn span_of(id: GenerationId, n: u32) -> u64 {
    u64::from_be_bytes(digest(id, n).first_chunk().copied().unwrap_or_default()).max(1)
}

fn digest(id: GenerationId, n: u32) -> [u8; 32] {
    Sha256::new().chain_update(id.as_str()).chain_update(n.to_be_bytes()).finalize().into()
}

/// Whether a trace belongs to the given share of all traces: the same for a trace on every replica, and as the sampler
/// `traceidratio` of OpenTelemetry decides.
pub fn is_in_share(trace: u128, share: f64) -> bool {
    const TRACES: f64 = (1_u64 << 63) as f64;
    let number = (trace as u64) >> 1;
    share >= 1.0 || number < (share.max(0.0) * TRACES) as u64
}

/// The number in lower-case hexadecimal digits; upper-case ones are invalid in this header.
fn lower_hex(digits: &str) -> Option<u128> {
    let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    digits.bytes().all(is_digit).then(|| u128::from_str_radix(digits, 16).ok())?
}

/// The header in version 00.
impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TraceParent { trace, span, sampled } = self;
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", u8::from(*sampled))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_example_of_the_recommendation_is_read() {
        let read = TraceParent::parse(SENT).unwrap();
        let (trace, span) = (0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, 0x00f0_67aa_0ba9_02b7);
        assert_eq!(read, TraceParent { trace, span, sampled: true });
        assert_eq!(read.to_string(), SENT);
        assert!(!TraceParent::parse(&SENT.replace("-01", "-00")).unwrap().sampled);
    }

    #[test]
    fn a_later_version_may_be_longer_and_this_one_may_not() {
        let later = SENT.replacen("00", "01", 1);
        assert_eq!(TraceParent::parse(&format!("{later}-what-follows")), TraceParent::parse(SENT));
        for bad in [format!("{SENT}-"), format!("{SENT}0"), format!("{later}x")] {
            assert_eq!(TraceParent::parse(&bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_no_trace_context_is_ignored() {
        for bad in [
            "",
            "00",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-+1",
            "00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01",
        ] {
            assert_eq!(TraceParent::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_ids_of_a_generation_differ_and_do_not_change() {
        let (one, other) = (GenerationId::new(1, [1; 3]), GenerationId::new(1, [2; 3]));
        let ids = |id| [span_of(id, 0), span_of(id, 1), span_of(id, 2), trace_of(id) as u64];
        let mut all = [ids(one), ids(other)].concat();
        assert_eq!(ids(one), ids(one));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 8);
    }

    #[test]
    fn a_share_of_traces_is_about_that_share() {
        let traces: Vec<u128> = (0..10_000).map(|n| trace_of(GenerationId::new(n, [n; 3]))).collect();
        let count = |share| traces.iter().filter(|trace| is_in_share(**trace, share)).count();
        assert_eq!([count(0.0), count(1.0)], [0, 10_000]);
        assert!(count(0.01).abs_diff(100) < 40, "{}", count(0.01));
        assert!(count(0.5).abs_diff(5000) < 200, "{}", count(0.5));
        let both = traces.iter().filter(|trace| is_in_share(**trace, 0.1) && !is_in_share(**trace, 0.2)).count();
        assert_eq!(both, 0, "a larger share holds the smaller one");
    }

    #[test]
    fn a_generation_began_as_long_before_its_end_as_it_took() {
        let served = ServedTime::ending_at(5_000_000, Duration::from_millis(1500));
        assert_eq!(served, ServedTime { from_us: 3_500_000, until_us: 5_000_000 });
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_ignored(text in "\\PC{0,70}") {
            let _ = TraceParent::parse(&text);
        }

        #[test]
        fn what_is_written_is_read(trace in 1_u128.., span in 1_u64.., sampled in any::<bool>()) {
            let parent = TraceParent { trace, span, sampled };
            prop_assert_eq!(TraceParent::parse(&parent.to_string()), Some(parent));
        }
    }
}
