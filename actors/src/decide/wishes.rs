//! What ranks before any score: the caller's order of providers, then how well its preferences are kept.
//!
//! A preference excludes nobody. Who keeps every bound is of the first grade; who is expected to miss one follows, the
//! nearer to it the earlier, in steps of a tenth, so that cost decides among those that are alike. So where nobody
//! keeps a target, the one that comes nearest serves, not the cheapest.
//!
//! Bounds on latency are read stricter, or laxer, by the margin that the target's history asks for
//! (`Query::latency_margin`).
//! Who was never observed is given the benefit of the doubt, and so is who was out of sight for long while the target
//! is kept, one request at a time: otherwise nobody would ever learn that it could serve.

use super::{case::Case, field::Row, filter::Subject, predict::Forecast};
use crate::{
    domain::{Percentile, Preference, RoutingParameters},
    stats::Curve,
};

/// Bits of a class that hold the grade.
pub(super) const GRADE_BITS: u32 = 8;
/// Width of a grade, ln.
const STEP: f64 = 0.1;
/// The last grade; whatever is farther off is of it too.
const LAST: f64 = 255.0;
/// What is left of the observations of an endpoint that was out of sight for long.
const FORGOTTEN: f64 = 0.5;
/// Margin up to which a target counts as kept.
const AT_EASE: f64 = 1.05;

/// Whether anything but scores ranks endpoints of one target.
pub(super) fn has_wishes(routing: &RoutingParameters) -> bool {
    let prefers = routing.preferred_max_latency.is_some() || routing.preferred_min_throughput.is_some();
    prefers || !routing.provider.order.is_empty()
}

/// The place in `provider.order`, then the grade.
pub(super) fn tier(case: &Case<'_>, row: &Row<'_>) -> u32 {
    let order = &case.query.routing.provider.order;
    let subject = case.catalog.endpoint(row.index).and_then(|endpoint| Subject::of(case.catalog, endpoint));
    let named = |entry: &String| subject.is_some_and(|subject| subject.is_named(entry));
    let place = order.iter().position(named).unwrap_or(order.len());
    u32::try_from(place).unwrap_or(u32::MAX).min(u32::MAX >> GRADE_BITS) << GRADE_BITS | grade(case, row)
}

/// 0 for who is expected to keep every bound.
fn grade(case: &Case<'_>, row: &Row<'_>) -> u32 {
    let (routing, estimates) = (&case.query.routing, &row.stats.estimates);
    let margin = case.query.latency_margin.max(f64::MIN_POSITIVE);
    let forgotten = estimates.weight * case.weight_left < FORGOTTEN && margin < AT_EASE;
    if row.moment.in_flight == 0 && (estimates.observed.is_none() || forgotten) {
        return 0;
    }
    let latency = routing
        .preferred_max_latency
        .map_or(0.0, |latency| lateness(&latency.value, margin, &row.forecast, &row.stats.curve));
    let throughput = routing.preferred_min_throughput.map_or(0.0, |rate| {
        let per_token = row.stats.curve.per_token * libm::exp(row.forecast.load);
        shortfall(&rate.value, per_token, estimates.per_token_variance.sqrt())
    });
    let missed = latency.max(throughput);
    if missed > 0.0 { libm::floor(1.0 + missed / STEP).min(LAST) as u32 } else { 0 }
}

/// How far beyond its bounds a first token is expected, ln; not above 0 when within all of them.
fn lateness(latency: &Preference, margin: f64, forecast: &Forecast, curve: &Curve) -> f64 {
    let late = |(at, bound): (Percentile, f64)| {
        libm::log(forecast.first_token * margin / bound.max(f64::MIN_POSITIVE)) + deviations(at) * curve.sigma
    };
    latency.bounds().map(late).fold(f64::NEG_INFINITY, f64::max)
}

/// How far below its bounds a rate is expected, ln. A percentile of a rate is what so many answers reach at least.
fn shortfall(rate: &Preference, per_token: f64, sigma: f64) -> f64 {
    let short = |(at, bound): (Percentile, f64)| libm::log(bound * per_token) + deviations(at) * sigma;
    rate.bounds().map(short).fold(f64::NEG_INFINITY, f64::max)
}

/// Standard deviations above the median at which a percentile lies.
const fn deviations(at: Percentile) -> f64 {
    match at {
        Percentile::P50 => 0.0,
        Percentile::P75 => 0.6745,
        Percentile::P90 => 1.2816,
        Percentile::P95 => Curve::Z95,
        Percentile::P99 => 2.3263,
    }
}
