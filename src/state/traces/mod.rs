//! Traces: spans of ended generations for an OpenTelemetry collector.
//!
//! Nothing is traced while a request runs. When a generation has ended, the ledger shows its record to [`Traces`], which
//! keeps or drops it at once ([`sampler`]) and hands it to a thread of its own through a bounded queue. That thread makes
//! the spans with the times in the record (`spans`) and posts them in batches (`exporter`). A collector that is away
//! costs only spans, which are counted. Without an endpoint there is no thread and no queue.

#[cfg(feature = "otel")]
mod exporter;
#[cfg(not(feature = "otel"))]
mod off;
#[cfg(feature = "otel")]
mod queue;
pub mod sampler;
#[cfg(feature = "otel")]
mod spans;

use std::sync::Arc;

use pointsman_domain::{Generation, TraceParent};

use crate::access::keys::HolderNames;

#[cfg(not(feature = "otel"))]
pub use self::off::Traces;
#[cfg(feature = "otel")]
pub use self::queue::Traces;

/// Gives the names of the account and the key with these numbers.
pub type NamesOf = Box<dyn Fn(u64, u64) -> HolderNames + Send + Sync>;

/// What attempt `n` of `record` sends as `traceparent` to a provider that shall have one: its own span, so that the
/// provider's spans become its children. While traces are off, what the client sent.
pub fn parent_for_provider(traces: Option<&Arc<Traces>>, record: &Generation, n: u32) -> Option<TraceParent> {
    match traces {
        Some(traces) => Some(traces.sampler().context(record, n)),
        None => record.trace_parent,
    }
}
