//! JSON of the trace that a generation belongs to.

use pointsman_domain::{Generation, span_of};
use serde::Serialize;

use crate::state::traces::sampler::trace_of_record;

/// Ids of a generation's trace and of its spans, as OpenTelemetry writes them: lower-case hexadecimal digits.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct TraceContextBody {
    /// Id of the trace: that of the client's `traceparent`, or else the generation's own.
    pub(crate) trace_id: String,
    /// Id of the client's span; `null` without a valid `traceparent`.
    pub(crate) parent_span_id: Option<String>,
    /// Id of the generation's own span; `null` if none was sent: the generation has not ended, traces were off, or it
    /// was not kept (`traces.sample_ratio`).
    pub(crate) span_id: Option<String>,
    /// Whether the client keeps the trace; `null` without a valid `traceparent`.
    pub(crate) sampled: Option<bool>,
}

impl TraceContextBody {
    /// The trace of a generation. `None` if its client sent none and it has no span.
    pub(crate) fn of(generation: &Generation) -> Option<TraceContextBody> {
        let parent = generation.trace_parent;
        let has_span = generation.served.is_some();
        if parent.is_none() && !has_span {
            return None;
        }
        Some(TraceContextBody {
            trace_id: format!("{:032x}", trace_of_record(generation)),
            parent_span_id: parent.map(|parent| format!("{:016x}", parent.span)),
            span_id: has_span.then(|| format!("{:016x}", span_of(generation.id, 0))),
            sampled: parent.map(|parent| parent.sampled),
        })
    }
}

#[cfg(test)]
mod tests {
    use pointsman_domain::{ServedTime, TraceParent, trace_of};
    use serde_json::json;

    use super::*;
    use crate::api::{route_samples::generation, samples::catalog};

    #[test]
    fn a_generation_belongs_to_its_clients_trace_and_has_a_span_if_it_was_kept() {
        let mut generation = generation(&catalog());
        let shown = |generation: &Generation| serde_json::to_value(TraceContextBody::of(generation)).unwrap();
        assert_eq!(shown(&generation), json!(null));
        generation.trace_parent = TraceParent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        let client = json!({
            "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "parent_span_id": "00f067aa0ba902b7", "span_id": null,
            "sampled": true,
        });
        assert_eq!(shown(&generation), client);
        generation.served = Some(ServedTime { from_us: 1, until_us: 2 });
        let span = format!("{:016x}", span_of(generation.id, 0));
        assert_eq!(shown(&generation)["span_id"], json!(span));
        generation.trace_parent = None;
        let own = format!("{:032x}", trace_of(generation.id));
        let expected = json!({ "trace_id": own, "parent_span_id": null, "span_id": span, "sampled": null });
        assert_eq!(shown(&generation), expected);
    }
}
