//! How good the predictions of the last hour were, per endpoint.

use std::time::Duration;

use actix_web::HttpResponse;
use maud::{Markup, html};

use super::{
    answer, format,
    layout::{Nav, api_line},
    svg::{
        Caption,
        series::{Point, scatter},
    },
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
/// Endpoints shown at once.
const MOST_ROWS: usize = 100;

/// Shows the accuracy of predictions.
///
/// # Errors
/// 503 when the statistics actor does not answer in time.
pub(super) async fn show(visit: Visit) -> Result<HttpResponse, ApiError> {
    let (frame, worker) = (&visit.frame, &visit.worker);
    worker.shared.event_batchers.flush();
    let calibrations = calibration::read(worker, Duration::ZERO).await?;
    let body = CalibrationsBody::new(&worker.setup.catalog, &calibrations);
    let mut called: Vec<_> = body.data.iter().filter(|row| row.calibration.failures.attempts > 0).collect();
    called.sort_by_key(|row| std::cmp::Reverse(row.calibration.failures.attempts));
    let content = html! {
        h1 { "Calibration" }
        p.lead { "What the gateway predicted in the last " (format::seconds(body.window_secs)) ", beside what happened." }
        @if called.is_empty() {
            p.empty { "No endpoint was called in the last " (format::seconds(body.window_secs)) ": nothing was predicted." }
        } @else {
            (failures(&called))
            (table(&called))
            h2 { "In words" }
            ul.plain { @for row in called.iter().filter(|row| row.calibration.ttft.accuracy.samples >= ENOUGH).take(MOST_ROWS) { li { (sentence(row)) } } }
            @if called.iter().all(|row| row.calibration.ttft.accuracy.samples < ENOUGH) {
                p.muted { "An endpoint has a sentence here once it has " (ENOUGH) " samples." }
            }
        }
        (api_line("/api/v1/health/calibration"))
    };
    Ok(answer::page(frame.page("Calibration", Some(Nav::Calibration), content)))
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
    let points: Vec<Point> = rows
        .iter()
        .map(|row| {
            let (x, y) = shares(row);
            let is_thin = row.calibration.failures.attempts < ENOUGH;
            let title = format!(
                "{} on {}: {} predicted, {} seen",
                row.model,
                row.provider_name,
                format::percent(x),
                format::percent(y)
            );
            let interval =
                (!is_thin).then(|| likely_shares(row.calibration.failures.seen, row.calibration.failures.attempts));
            Point { class: if is_thin { "thin" } else { "point" }, x, y, title, interval }
        })
        .collect();
    let description = format!("{} endpoints; the axes end at {}.", points.len(), format::percent(most));
    html! {
        h2 { "Failures: predicted and seen" }
        div.card.chart-card {
            (scatter(Caption { title: "Predicted and seen shares of failed attempts", description: &description }, &points, most, format::percent))
            div.muted {
                p { "Each point is an endpoint. Across: the share of its attempts that were predicted to fail. Up: the share that did fail. Both axes end at " (format::percent(most)) "." }
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

fn sentence(row: &EndpointBody<'_>) -> String {
    let ttft = &row.calibration.ttft;
    let off = ttft.accuracy.bias.map_or(0.0, percent_off);
    let direction = match off {
        _ if off.abs() < 0.005 => "as said".to_owned(),
        _ if off < 0.0 => format!("{} earlier than said", format::percent(-off)),
        _ => format!("{} later than said", format::percent(off)),
    };
    let within = ttft.within_p95.map_or(String::new(), |share| {
        format!("; {} within the predicted p95 of {}", format::percent(share.value()), ttft.accuracy.samples)
    });
    format!("First tokens of {} on {} come {direction}{within}.", row.model, row.provider_name)
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
