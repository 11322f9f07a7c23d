//! Ranking before the score: `provider.order`, then the preferred latency and throughput.
//!
//! A preference excludes no endpoint. Endpoints expected to keep every bound have grade 0; the others follow in
//! grades of a tenth by which they miss a bound, so that the score decides within a grade. If all miss a target, the
//! nearest serves, not the cheapest.
//!
//! Latency bounds are read stricter or laxer by the margin of the target (`Query::latency_margin`).
//!
//! An endpoint without observations has grade 0, and so has one with old observations while the target is kept, for
//! one request at a time. Otherwise the gateway would never learn that it can serve.

use pointsman_domain::{Decision, Percentile, Prediction, Preference, ScoreInputs};

use super::{
    context::DecisionContext,
    conversation_model::OTHER_MODEL_GRADE,
    filter::CatalogEndpoint,
    pending_tool_calls::{REASONING_LOST_GRADE, loses_reasoning},
    pooled_endpoint::PooledEndpoint,
    precedence::Precedence,
};
use crate::stats::Curve;

/// Width of a grade, ln.
const STEP: f64 = 0.1;
/// The last grade of a missed bound, also for anything beyond: those after it are [`OTHER_MODEL_GRADE`] and
/// [`REASONING_LOST_GRADE`].
const LAST: u32 = OTHER_MODEL_GRADE - 1;
/// Weight below which observations count as old.
const FORGOTTEN: f64 = 0.5;
/// Margin up to which a target counts as kept.
const AT_EASE: f64 = 1.05;

/// Its precedence with the position in `provider.order` and the grade.
pub(crate) fn preferred(context: &DecisionContext<'_>, candidate: &PooledEndpoint<'_>) -> Precedence {
    let position = order_position(context, candidate.index);
    candidate.precedence.with_preferences(position, grade(context, candidate))
}

/// Position of an endpoint in `provider.order`; behind all if it is not listed.
pub(crate) fn order_position(context: &DecisionContext<'_>, index: u32) -> usize {
    let order = &context.query.routing.provider.order;
    let subject = CatalogEndpoint::at(context.catalog, index);
    let named = |entry: &String| subject.is_some_and(|subject| subject.is_named(entry));
    order.iter().position(named).unwrap_or(order.len())
}

/// The grade; 0 if every bound is expected to be kept.
fn grade(context: &DecisionContext<'_>, candidate: &PooledEndpoint<'_>) -> u32 {
    let (routing, estimates) = (&context.query.routing, &candidate.stats.estimates);
    let margin = context.query.latency_margin.max(f64::MIN_POSITIVE);
    let forgotten = estimates.weight < FORGOTTEN && margin < AT_EASE;
    if candidate.live.in_flight == 0 && (estimates.age.is_infinite() || forgotten) {
        return 0;
    }
    let first_token = (candidate.forecast.first_token * margin, spread(candidate.stats.first_token_p95));
    let latency = routing.preferred_max_latency.map_or(0.0, |latency| lateness(&latency.value, first_token));
    let throughput = routing.preferred_min_throughput.map_or(0.0, |rate| {
        let per_token = candidate.stats.curve.per_token * libm::exp(candidate.forecast.load);
        shortfall(&rate.value, (per_token, estimates.per_token_variance.sqrt()))
    });
    step(latency.max(throughput))
}

/// Grade of a miss by this factor (ln).
fn step(missed: f64) -> u32 {
    if missed > 0.0 { libm::floor(1.0 + missed / STEP).min(f64::from(LAST)) as u32 } else { 0 }
}

/// Grade of a recorded candidate with this prediction, not counting the exception for few observations.
pub(crate) fn grade_with(decision: &Decision, inputs: &ScoreInputs, predicted: &Prediction) -> u32 {
    if loses_reasoning(inputs) {
        return REASONING_LOST_GRADE;
    }
    let (latency, rate) = (decision.parameters.preferred_max_latency, decision.parameters.preferred_min_throughput);
    let latency = latency.map_or(0.0, |latency| lateness(&latency.value, first_token(decision, predicted)));
    let rate = rate.map_or(0.0, |rate| shortfall(&rate.value, per_token(inputs, predicted)));
    step(latency.max(rate))
}

/// A bound that is expected to be missed.
pub(crate) struct MissedPreference {
    pub at: Percentile,
    /// Seconds, or tokens per second.
    pub expected: f64,
    pub bound: f64,
}

/// The latency bound that a recorded candidate is expected to miss by the most.
pub(crate) fn missed_latency(decision: &Decision, predicted: &Prediction) -> Option<MissedPreference> {
    let (_, sigma) = first_token(decision, predicted);
    let missed = |(at, bound)| {
        let expected = predicted.first_token_p50 * libm::exp(deviations(at) * sigma);
        (expected * decision.latency_margin > bound).then_some(MissedPreference { at, expected, bound })
    };
    let bounds = decision.parameters.preferred_max_latency?.value;
    let missed = bounds.bounds().filter_map(missed);
    missed.max_by(|a, b| (a.expected / a.bound).total_cmp(&(b.expected / b.bound)))
}

/// The throughput bound that a recorded candidate is expected to miss by the most.
pub(crate) fn missed_rate(
    decision: &Decision,
    inputs: &ScoreInputs,
    predicted: &Prediction,
) -> Option<MissedPreference> {
    let (_, sigma) = per_token(inputs, predicted);
    let missed = |(at, bound)| {
        let expected = predicted.tokens_per_second / libm::exp(deviations(at) * sigma);
        (expected < bound).then_some(MissedPreference { at, expected, bound })
    };
    let bounds = decision.parameters.preferred_min_throughput?.value;
    let missed = bounds.bounds().filter_map(missed);
    missed.min_by(|a, b| (a.expected / a.bound).total_cmp(&(b.expected / b.bound)))
}

/// Median, multiplied by the margin, and spread (ln) of a recorded candidate's first token.
fn first_token(decision: &Decision, predicted: &Prediction) -> (f64, f64) {
    let (median, p95) = (predicted.first_token_p50, predicted.first_token_p95);
    (median * decision.latency_margin.max(f64::MIN_POSITIVE), spread(p95 / median))
}

/// Spread (ln) of a log-normal first token with this ratio of the 95th percentile to the median. The 95th percentile is
/// the published one, which is learned; other percentiles lie on the log-normal through both.
fn spread(p95_over_median: f64) -> f64 {
    libm::log(p95_over_median) / Curve::Z95
}

/// The same for the time per token.
fn per_token(inputs: &ScoreInputs, predicted: &Prediction) -> (f64, f64) {
    (1.0 / predicted.tokens_per_second, inputs.pace_variance.sqrt())
}

/// Highest ln ratio of an expected first token to its bound; not above 0 if all bounds are kept.
fn lateness(latency: &Preference, (median, sigma): (f64, f64)) -> f64 {
    let late =
        |(at, bound): (Percentile, f64)| libm::log(median / bound.max(f64::MIN_POSITIVE)) + deviations(at) * sigma;
    latency.bounds().map(late).fold(f64::NEG_INFINITY, f64::max)
}

/// Highest ln ratio of a bound on the rate to the expected rate. A percentile of a rate is reached by that share of the
/// answers.
fn shortfall(rate: &Preference, (per_token, sigma): (f64, f64)) -> f64 {
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
