//! What would have happened, as JSON: a figure for each outcome, or why there is none.

use std::collections::BTreeMap;

use pointsman_domain::EndpointId;
use pointsman_routing::explain::{
    diff::LEAST_CLUSTERS,
    estimate::{
        Bound, CostOfChance, Diagnostics, Estimated, Finding, Measure, SliceOfSample, TrafficShift,
        estimators::{Clipped, Point},
    },
};
use serde::Serialize;

use super::run::{Compared, DiffRequest, RecordedSample};
use crate::api::models::measurements::rfc_3339;

/// Endpoints that get more traffic that are listed.
const MOST_LISTED: usize = 5;
const HOUR_MS: i64 = 3_600_000;

/// What would have happened under another configuration.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct EstimateReport {
    /// `answered`: every figure has an estimate or a bound, apart from acceptance, of which few answers may tell; `refused`: one has none.
    pub verdict: &'static str,
    /// The other configuration.
    pub after: String,
    /// Decisions that came out of their records bit for bit as they were made.
    pub self_tested: u64,
    /// Keys that differ and change only what happens after a choice: nothing here tells their effect.
    pub not_covered: Vec<String>,
    /// The records by the configuration that made them, the one with most of them first. They are not mixed.
    pub samples: Vec<SampleBody>,
    /// What to know before the figures are believed.
    pub warnings: Vec<String>,
}

/// Records that one configuration made.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SampleBody {
    /// When the oldest was admitted. RFC 3339, UTC.
    pub from: Option<String>,
    /// When the latest was admitted.
    pub until: Option<String>,
    /// How much of them speaks about the other configuration.
    pub support: SupportBody,
    pub figures: Vec<EstimateBody>,
    /// What it cost that part of the choice was left to chance.
    pub chance: ChanceBody,
    /// The same by objective, alias, class and hour.
    pub slices: Vec<SliceBody>,
    /// Endpoints that would get more traffic.
    pub traffic: Vec<TrafficBody>,
}

/// Expected figures of the choices that were made, less those of the choices without noise and draws.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ChanceBody {
    /// Dollars per 1,000 requests.
    pub spend: f64,
    /// Difference of shares.
    pub failures: f64,
    /// Seconds per request.
    pub total: f64,
}

/// Diagnostics.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SupportBody {
    pub requests: usize,
    /// Groups of requests that depend on each other (a session, or a key within five minutes).
    pub clusters: usize,
    /// Requests whose choice the other configuration could have made, too.
    pub matched: usize,
    /// How many requests of the other configuration itself would say as much.
    pub effective: f64,
    /// Must be 1, less what is unsupported: it tests the recorded probabilities.
    pub mean_weight: f64,
    pub mean_weight_error: Option<f64>,
    /// Share of choices of the other configuration that were hardly ever made.
    pub unsupported: f64,
    pub largest_weight: f64,
    /// Part of all weight that one request in a hundred carries.
    pub top_share: f64,
}

/// One figure.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct EstimateBody {
    /// `spend` (dollars per 1,000 requests), `failures` (share), `first_token`, `first_token_p95`, `total` (seconds), `acceptance`
    /// (share of the rated answers).
    pub figure: &'static str,
    /// Requests that have this outcome.
    pub requests: usize,
    /// As recorded.
    pub before: f64,
    /// Estimated under the other configuration: doubly robust, of the percentile and of acceptance by weights. `null` if refused.
    pub after: Option<f64>,
    /// Change as a share, of failures and acceptance the difference of the shares. `null` if refused.
    pub change: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<[f64; 2]>,
    /// The same for those who look again and again.
    pub any_time_interval: Option<[f64; 2]>,
    /// What can be said of the figure itself instead of a change.
    pub bound: Option<BoundBody>,
    /// Other estimators, to check.
    pub others: Option<OthersBody>,
    /// What a reader should remember.
    pub sentence: String,
    pub refusals: Vec<String>,
    pub warnings: Vec<String>,
}

/// A range of a figure.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct BoundBody {
    /// `few_failures`, `at_most` or `unsupported`.
    pub kind: &'static str,
    pub least: f64,
    pub most: f64,
}

/// Estimates beside the headline, with standard errors.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct OthersBody {
    /// By the model alone, which cannot see its own error.
    pub predicted: f64,
    pub ips: PointBody,
    pub snips: PointBody,
    pub doubly_robust: PointBody,
    /// Doubly robust with no weight above the square root of the requests.
    pub clipped: PointBody,
    /// By how much that limit may have moved it at most.
    pub clipped_bias: f64,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct PointBody {
    pub value: Option<f64>,
    pub error: Option<f64>,
}

/// Part of the requests.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SliceBody {
    /// `objective`, `alias`, `class` or `hour`.
    pub dimension: &'static str,
    pub value: String,
    pub requests: usize,
    pub effective: f64,
    pub unsupported: f64,
}

/// An endpoint that would get more.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct TrafficBody {
    pub endpoint: String,
    /// Its share of the requests.
    pub before: f64,
    pub after: f64,
    /// Mean requests in flight as it was.
    pub in_flight: f64,
    /// Requests in flight from which on it slows down.
    pub knee: f64,
}

impl EstimateReport {
    pub(crate) fn new(compared: &Compared, request: &DiffRequest) -> EstimateReport {
        let name = |endpoint| name(&compared.names, endpoint);
        let mut by_size: Vec<&RecordedSample> = compared.samples.iter().collect();
        by_size.sort_by_key(|one| std::cmp::Reverse(one.sample.len()));
        let of = |one: &RecordedSample| SampleBody::new(one, &request.after.name, name);
        let samples: Vec<SampleBody> = by_size.into_iter().map(of).collect();
        let is_refused = |body: &EstimateBody| !body.refusals.is_empty() && body.figure != Measure::Acceptance.as_str();
        let is_answered =
            samples.first().is_some_and(|first| !first.figures.is_empty() && !first.figures.iter().any(is_refused));
        EstimateReport {
            verdict: if is_answered { "answered" } else { "refused" },
            after: request.after.name.clone(),
            self_tested: compared.self_tested,
            not_covered: compared.uncovered().map(|change| change.key.clone()).collect(),
            warnings: warnings(compared, &samples),
            samples,
        }
    }

    /// Exit code of the command line.
    pub(crate) fn exit_code(&self) -> u8 {
        if self.verdict == "answered" { 0 } else { 2 }
    }
}

fn name(names: &BTreeMap<EndpointId, String>, endpoint: EndpointId) -> String {
    names.get(&endpoint).cloned().unwrap_or_else(|| format!("endpoint {:x}", endpoint.0))
}

fn warnings(compared: &Compared, samples: &[SampleBody]) -> Vec<String> {
    let mut warnings = Vec::new();
    if samples.len() > 1 {
        warnings.push(format!(
            "the records were made under {} configurations that decide differently; each has figures of its own, and only those of \
             the largest count for the exit code",
            samples.len()
        ));
    }
    if compared.changes.iter().any(|change| change.key.starts_with("prices of")) {
        warnings
            .push("prices differ: dollars are those of the records; 'pointsman diff' counts the new prices".to_owned());
    }
    if compared.other_algorithm > 0 {
        let count = compared.other_algorithm;
        warnings.push(format!("{count} records were made by another version of the algorithm and are left out"));
    }
    if compared.unreadable > 0 {
        warnings.push(format!("{} records cannot be read and are left out", compared.unreadable));
    }
    warnings
}

impl SampleBody {
    fn new(one: &RecordedSample, after: &str, name: impl Fn(EndpointId) -> String) -> SampleBody {
        let sample = &one.sample;
        let at = |at: usize| one.window_ms.and_then(|window| window.get(at).copied()).map(rfc_3339);
        let growing = sample.shifts.growing(sample.len());
        let largest = growing.first().map(|shift| (name(shift.endpoint), shift.factor));
        let figures = sample.estimates(&name);
        SampleBody {
            from: at(0),
            until: at(1),
            support: SupportBody::new(&sample.diagnostics()),
            figures: figures.iter().map(|figure| EstimateBody::new(figure, after, largest.as_ref())).collect(),
            chance: ChanceBody::new(sample.cost_of_chance()),
            slices: sample.slices().into_iter().map(SliceBody::new).collect(),
            traffic: growing.into_iter().take(MOST_LISTED).map(|shift| TrafficBody::new(&shift, &name)).collect(),
        }
    }
}

impl ChanceBody {
    fn new(cost: CostOfChance) -> ChanceBody {
        ChanceBody { spend: cost.spend * 1_000.0, failures: cost.failures, total: cost.total }
    }
}

impl SupportBody {
    fn new(diagnostics: &Diagnostics) -> SupportBody {
        SupportBody {
            requests: diagnostics.requests,
            clusters: diagnostics.clusters,
            matched: diagnostics.matched,
            effective: diagnostics.effective,
            mean_weight: diagnostics.mean_weight.value,
            mean_weight_error: finite(diagnostics.mean_weight.error),
            unsupported: diagnostics.unsupported,
            largest_weight: diagnostics.largest,
            top_share: diagnostics.top_share,
        }
    }
}

fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|value| value.is_finite())
}

impl EstimateBody {
    fn new(figure: &Estimated, after: &str, largest: Option<&(String, f64)>) -> EstimateBody {
        // Dollars are shown for a thousand requests.
        let scale = if figure.measure == Measure::Spend { 1_000.0 } else { 1.0 };
        let is_said = figure.refusals.is_empty();
        let sentences = |findings: &[Finding]| findings.iter().map(ToString::to_string).collect();
        EstimateBody {
            figure: figure.measure.as_str(),
            requests: figure.requests,
            before: figure.before * scale,
            after: finite(figure.after * scale).filter(|_| is_said),
            change: finite(figure.change).filter(|_| is_said),
            interval: figure.interval,
            any_time_interval: figure.any_time,
            bound: figure.bound.map(|bound| BoundBody::new(bound, scale)),
            others: figure.others.map(|others| OthersBody {
                predicted: others.predicted * scale,
                ips: PointBody::new(others.ips, scale),
                snips: PointBody::new(others.snips, scale),
                doubly_robust: PointBody::new(others.doubly_robust, scale),
                clipped: PointBody::new(others.clipped.point, scale),
                clipped_bias: bias(others.clipped, scale),
            }),
            sentence: sentence(figure, after, largest),
            refusals: sentences(&figure.refusals),
            warnings: sentences(&figure.warnings),
        }
    }
}

fn bias(clipped: Clipped, scale: f64) -> f64 {
    clipped.bias * scale
}

impl BoundBody {
    fn new(bound: Bound, scale: f64) -> BoundBody {
        let (kind, [least, most]) = match bound {
            Bound::FewFailures(range) => ("few_failures", range),
            Bound::AtMost(most) => ("at_most", [0.0, most]),
            Bound::Unsupported(range) => ("unsupported", range),
        };
        BoundBody { kind, least: least * scale, most: most * scale }
    }
}

impl PointBody {
    fn new(point: Point, scale: f64) -> PointBody {
        PointBody { value: finite(point.value * scale), error: finite(point.error * scale) }
    }
}

impl SliceBody {
    fn new(slice: SliceOfSample) -> SliceBody {
        let hour = |number: &str| number.parse::<i64>().ok().map(|hour| rfc_3339(hour * HOUR_MS));
        SliceBody {
            value: if slice.dimension == "hour" { hour(&slice.value).unwrap_or_default() } else { slice.value },
            dimension: slice.dimension,
            requests: slice.diagnostics.requests,
            effective: slice.diagnostics.effective,
            unsupported: slice.diagnostics.unsupported,
        }
    }
}

impl TrafficBody {
    fn new(shift: &TrafficShift, name: impl Fn(EndpointId) -> String) -> TrafficBody {
        let [before, after] = shift.shares;
        let TrafficShift { in_flight, knee, .. } = *shift;
        TrafficBody { endpoint: name(shift.endpoint), before, after, in_flight, knee }
    }
}

/// Number, interval, effective sample, and what is not covered.
fn sentence(figure: &Estimated, after: &str, largest: Option<&(String, f64)>) -> String {
    let what = match figure.measure {
        Measure::Spend => "spending",
        Measure::Failures => "failures shown",
        Measure::FirstToken => "mean time to the first token",
        Measure::FirstTokenP95 => "95th percentile of the time to the first token",
        Measure::Total => "mean time to the end",
        Measure::Acceptance => "accepted answers",
    };
    let refused = figure.refusals.first().map(|why| format!("Refused, {what} under {after}: {why}."));
    let change = |change: f64| match figure.measure.is_absolute() {
        true => format!("{:+.2} points", change * 100.0),
        false => format!("{:+.1} %", change * 100.0),
    };
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let moved = largest.filter(|(_, factor)| *factor > 1.05).map_or_else(String::new, |(endpoint, factor)| {
        let traffic = match factor.is_finite() {
            true => format!("{factor:.1} times its traffic"),
            false => "traffic that it never had".to_owned(),
        };
        format!(", what the moved traffic does to load and caches ({endpoint} would carry {traffic})")
    });
    let support = format!(
        "From {} requests whose choice it could have made, too (effective {:.0} of {}). Not covered: requests that other answers \
         would have led to{moved}.",
        figure.diagnostics.matched, figure.diagnostics.effective, figure.diagnostics.requests
    );
    let said = match (refused, figure.bound, figure.interval) {
        (Some(refused), Some(Bound::Unsupported([least, most])), _) => {
            let shown = |value: f64| match figure.measure {
                Measure::Spend => format!("${:.4} per 1,000 requests", value * 1_000.0),
                Measure::Failures | Measure::Acceptance => percent(value),
                _ => format!("{value:.2} s"),
            };
            return format!("{refused} It lies between {} and {}. {support}", shown(least), shown(most));
        }
        (Some(refused), ..) => return refused,
        (None, Some(Bound::AtMost(most)), _) => format!("at most {}, as hardly any failure was seen", percent(most)),
        (None, Some(Bound::FewFailures([least, most])), _) => {
            format!("{} to {}: too few failures for a difference", percent(least), percent(most))
        }
        (None, _, Some([least, most])) => {
            format!("{} (95 % interval {} to {})", change(figure.change), change(least), change(most))
        }
        (None, _, None) => format!(
            "{}, without an interval: that needs {LEAST_CLUSTERS} groups of requests that do not depend on each other, and there \
             are {}",
            change(figure.change),
            figure.diagnostics.clusters
        ),
    };
    format!("Had these requests been decided by {after}: {what} {said}. {support}")
}

#[cfg(test)]
mod tests;
