//! Spans that were sent to a collector, and spans that were lost.

use prometheus::{IntCounter, IntCounterVec};

use super::instruments::Instruments;

pointsman_domain::named! {
    /// Why spans were lost.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum SpanLoss {
        /// Too many waited: the collector is slower than they come, or away.
        QueueFull = "queue_full",
        /// The collector was not reached, did not answer in time or refused them.
        Collector = "collector",
    }
}

/// Counts of spans. Clones count together.
#[derive(Clone)]
pub struct SpanCounts {
    sent: IntCounter,
    dropped: IntCounterVec,
}

impl SpanCounts {
    pub(super) fn new(make: &Instruments<'_>) -> Result<SpanCounts, prometheus::Error> {
        let dropped = "Spans of kept generations that no collector got";
        let counts = SpanCounts {
            sent: make.counter("spans_sent_total", "Spans that the collector accepted")?,
            dropped: make.counters("spans_dropped_total", dropped, &["reason"])?,
        };
        for loss in SpanLoss::ALL {
            let _ = counts.dropped.with_label_values(&[loss.as_str()]);
        }
        Ok(counts)
    }

    /// Counts spans that the collector accepted.
    pub fn sent(&self, spans: usize) {
        self.sent.inc_by(spans as u64);
    }

    /// Counts lost spans.
    pub fn dropped(&self, spans: usize, loss: SpanLoss) {
        self.dropped.with_label_values(&[loss.as_str()]).inc_by(spans as u64);
    }
}
