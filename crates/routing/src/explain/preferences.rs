//! The text for preferred latencies and throughputs.

use pointsman_domain::{Decision, Preference};

use super::formatting::{seconds, significant};

/// `preferred_max_latency (p95 0.8 s, margin 1.2) and preferred_min_throughput (p50 50 tok/s)`; empty without any.
pub(crate) fn preference_text(decision: &Decision) -> String {
    let latency = decision.parameters.preferred_max_latency.map(|latency| {
        let margin = significant(decision.latency_margin, 3);
        let margin = if margin == "1" { String::new() } else { format!(", margin {margin}") };
        format!("preferred_max_latency ({}{margin})", bounds_text(latency.value, seconds))
    });
    let throughput = decision.parameters.preferred_min_throughput.map(|throughput| {
        let bounds = bounds_text(throughput.value, |bound| format!("{} tok/s", significant(bound, 3)));
        format!("preferred_min_throughput ({bounds})")
    });
    latency.into_iter().chain(throughput).collect::<Vec<String>>().join(" and ")
}

fn bounds_text(preference: Preference, write: fn(f64) -> String) -> String {
    let bounds = preference.bounds().map(|(percentile, bound)| format!("{} {}", percentile.as_str(), write(bound)));
    bounds.collect::<Vec<String>>().join(", ")
}
