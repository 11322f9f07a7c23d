//! How good the predictions of the last hour were, per endpoint.

use std::time::Duration;

use actix_web::HttpResponse;
use maud::{Markup, html};
use pointsman_domain::grouped;

use super::{
    answer,
    chart::{self, Chart, Kind, Series},
    format,
    layout::{Nav, api_line},
    quality,
    visit::Visit,
};
use crate::{
    api::{
        health::{
            calibration,
            calibration_view::{AccuracyBody, BoundedBody, CalibrationsBody, EndpointBody},
        },
        number::Figure,
    },
    base::error::ApiError,
};

/// With fewer samples a row is grey.
const ENOUGH: u64 = 30;
/// Share of first tokens within their predicted 95th percentile below which predictions are too short.
const LEAST_KEPT: f64 = 0.93;
/// Endpoints shown at once.
const MOST_ROWS: usize = 100;

/// Shows the accuracy of predictions.
///
/// # Errors
/// 503 when the statistics actor does not answer in time.
pub(super) async fn show(visit: Visit) -> Result<HttpResponse, ApiError> {
    let (frame, worker) = (&visit.frame, &visit.worker);
    worker.shared.actors.event_batchers.flush();
    let calibrations = calibration::read(worker, Duration::ZERO).await?;
    let body = CalibrationsBody::new(&worker.setup.catalog, &calibrations);
    let mut called: Vec<_> = body.data.iter().filter(|row| row.calibration.failures.attempts > 0).collect();
    called.sort_by_key(|row| std::cmp::Reverse(row.calibration.failures.attempts));
    let quality = quality::section(worker).await;
    let content = html! {
        h1 { "Calibration" }
        p.lead { "What the gateway predicted in the last " (format::seconds(body.window_secs)) ", beside what happened." }
        @if called.is_empty() {
            p.empty { "No endpoint was called in the last " (format::seconds(body.window_secs)) ": nothing was predicted." }
        } @else {
            (verdict(&called))
            (failures(&called))
            (table(&called))
        }
        (quality)
        (api_line("/api/v1/health/calibration"))
    };
    Ok(answer::page(frame.page("Calibration", Some(Nav::Calibration), content)))
}

/// Whether first tokens keep what the gateway promises, in one sentence.
fn verdict(rows: &[&EndpointBody<'_>]) -> Markup {
    let known = rows.iter().filter_map(|row| {
        let ttft = &row.calibration.ttft;
        Some((ttft.accuracy.samples as f64, ttft.within_p95?.value()))
    });
    let (samples, within) =
        known.fold((0.0, 0.0), |(all, kept), (samples, share)| (all + samples, kept + samples * share));
    if samples < ENOUGH as f64 {
        let samples = grouped(samples as u128);
        return html! { p.muted { "Too early to judge: " (samples) " first tokens were compared with their predictions; " (ENOUGH) " make a verdict." } };
    }
    let share = within / samples;
    html! {
        p.verdict.warn[share < LEAST_KEPT] {
            (format::percent(share)) " of " (grouped(samples as u128)) " first tokens came within their predicted 95th percentile; 95 % should."
        }
    }
}

/// Predicted against seen shares of failures, a point per endpoint.
fn failures(rows: &[&EndpointBody<'_>]) -> Markup {
    let shares = |row: &EndpointBody<'_>| {
        let failures = &row.calibration.failures;
        let attempts = failures.attempts.max(1) as f64;
        (failures.expected.value() / attempts, failures.seen as f64 / attempts)
    };
    let most = rows.iter().map(|row| shares(row)).fold(0.01, |most: f64, (x, y)| most.max(x).max(y));
    // Room above the greatest, so that no point lies on the edge.
    let most = (most * 1.1).min(1.0);
    let mut rows = rows.to_vec();
    rows.sort_by(|one, other| shares(one).0.total_cmp(&shares(other).0));
    let is_thin = |row: &EndpointBody<'_>| row.calibration.failures.attempts < ENOUGH;
    let points = |name, tone, is_shown: &dyn Fn(&EndpointBody<'_>) -> bool| {
        let y = rows.iter().map(|row| is_shown(row).then(|| shares(row).1));
        Series { filter: None, ..Series::new(name, tone, "", y) }
    };
    let name = |row: &&EndpointBody<'_>| format!("{} on {}", row.model, row.provider_name);
    let interval = |row: &&EndpointBody<'_>| {
        let failures = &row.calibration.failures;
        (!is_thin(row)).then(|| likely_shares(failures.seen, failures.attempts))
    };
    let chart = Chart {
        kind: Kind::Points,
        unit: "%",
        x: rows.iter().map(|row| shares(row).0).collect(),
        bound: Some(most),
        series: vec![
            Series {
                names: rows.iter().map(name).collect(),
                ranges: rows.iter().map(interval).collect(),
                ..points("endpoints", "t1", &|row| !is_thin(row))
            },
            points("too few attempts to judge", "t6", &|row| is_thin(row)),
        ],
        ..Chart::default()
    };
    let description = format!("{} endpoints", rows.len());
    html! {
        h2 { "Failures: predicted and seen" }
        div.chart-card {
            (chart::figure("plot-failures", "Predicted and seen shares of failed attempts", &description, &chart))
            div.muted {
                p { "Each point is an endpoint. Across: the share of its attempts that were predicted to fail. Up: the share that did fail." }
                p { "On the dashed line the prediction was right; above it, more failed than predicted." }
                p { "The upright line through a point is the range in which the true share lies, 95 times of 100. Grey points without one have fewer than " (ENOUGH) " attempts: too few to judge." }
            }
        }
    }
}

/// The 95 % interval of Wilson for the true share, of which `seen` in `attempts` are a sample.
fn likely_shares(seen: u64, attempts: u64) -> (f64, f64) {
    /// Standard deviations on either side.
    const Z: f64 = 1.96;
    let n = attempts.max(1) as f64;
    let share = seen as f64 / n;
    let scale = 1.0 + Z * Z / n;
    let middle = (share + Z * Z / (2.0 * n)) / scale;
    let half = Z / scale * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

fn table(rows: &[&EndpointBody<'_>]) -> Markup {
    html! {
        h2 { "Endpoints " span.muted { (rows.len()) } }
        div.scroll tabindex="0" {
            table {
                caption { "Bias: how much later than predicted, in the median; with a minus, earlier. Error: how far off, either way. Within p95: should be 95 %." }
                thead {
                    tr {
                        th scope="col" rowspan="2" { "Endpoint" }
                        th.group scope="colgroup" colspan="4" { "First token" } th.group scope="colgroup" colspan="2" { "Whole answer" }
                        th.group scope="colgroup" colspan="2" { "Cost" } th.group scope="colgroup" colspan="3" { "Failures" }
                    }
                    tr {
                        th.r scope="col" { "Samples" } th.r scope="col" { "Bias" } th.r scope="col" { "Error" } th.r scope="col" { "Within p95" }
                        th.r scope="col" { "Bias" } th.r scope="col" { "Within p95" }
                        th.r scope="col" { "Predicted" } th.r scope="col" { "Actual" }
                        th.r scope="col" { "Expected" } th.r scope="col" { "Seen" } th.r scope="col" { "Attempts" }
                    }
                }
                tbody { @for row in rows.iter().take(MOST_ROWS) { (endpoint(row)) } }
            }
        }
        @if rows.len() > MOST_ROWS { p.muted { "and " (rows.len() - MOST_ROWS) " more" } }
    }
}

fn endpoint(row: &EndpointBody<'_>) -> Markup {
    let of = &row.calibration;
    html! {
        tr.none[of.ttft.accuracy.samples < ENOUGH] data-row {
            th.endpoint scope="row" {
                (format::name(row.model, 56)) " " span.at { "on " (format::name(row.provider_name, 32)) }
                @if !row.variant.is_empty() { " " span.tag { (row.variant) } }
            }
            td.r { (format::count(of.ttft.accuracy.samples)) }
            td.r { (bias(&of.ttft.accuracy)) }
            td.r { (error(&of.ttft.accuracy)) }
            td.r { (within(&of.ttft)) }
            td.r { (bias(&of.total.accuracy)) }
            td.r { (within(&of.total)) }
            td.r { (format::estimate(Some(of.cost.predicted_usd.value()))) }
            td.r { (format::estimate(Some(of.cost.actual_usd.value()))) }
            td.r { (format::figure(Some(of.failures.expected.value()), 1)) }
            td.r { (of.failures.seen) }
            td.r { (format::count(of.failures.attempts)) }
        }
    }
}

/// A natural logarithm of actual over predicted, as percent more or less.
fn percent_off(ln: Figure) -> f64 {
    ln.value().exp() - 1.0
}

fn bias(accuracy: &AccuracyBody) -> Markup {
    html! {
        @match accuracy.bias.map(percent_off) {
            None => (format::none()),
            Some(off) => { @if off >= 0.0 { "+" } @else { "−" } (format::percent(off.abs())) }
        }
    }
}

fn error(accuracy: &AccuracyBody) -> Markup {
    html! { @match accuracy.median_error.map(percent_off) { None => (format::none()), Some(off) => { (format::percent(off)) } } }
}

fn within(bounded: &BoundedBody) -> Markup {
    format::share(bounded.within_p95.map(Figure::value))
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

    use super::*;

    #[test]
    fn drawn_intervals_cover_the_truth_in_at_least_93_of_100_buckets() {
        let mut rng = StdRng::seed_from_u64(36);
        let buckets = 4_000;
        let covered = (0..buckets).filter(|_| {
            let (truth, attempts) = (rng.random_range(0.001..0.5), rng.random_range(ENOUGH..2_000));
            let seen = (0..attempts).filter(|_| rng.random_bool(truth)).count() as u64;
            let (low, high) = likely_shares(seen, attempts);
            (low..=high).contains(&truth)
        });
        let share = covered.count() as f64 / f64::from(buckets);
        assert!(share >= 0.93, "{share}");
        assert_eq!(likely_shares(0, 0).0, 0.0);
        assert!(likely_shares(0, 30).1 > 0.1 && likely_shares(30, 30).1 == 1.0);
    }
}
