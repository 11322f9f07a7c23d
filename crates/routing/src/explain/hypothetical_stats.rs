//! Estimates of an endpoint, adjusted so that they predict a given figure for a request.

use pointsman_domain::{Catalog, ScoreInputs};

use crate::decide::{
    context::DecisionContext,
    forecast::Forecast,
    live_state::{LiveState, inputs},
};
use crate::stats::{EndpointStats, Estimates, FailureModel};

/// Answers behind an overridden failure probability. At this count the prior changes the ninth digit only.
const OVERRIDE_ANSWERS: f64 = 1e9;

/// One predicted figure and the value it is set to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PredictionOverride {
    /// Median time to the first token, seconds.
    FirstToken(f64),
    /// Output tokens per second.
    TokensPerSecond(f64),
    /// Probability that the request fails or times out; at least the probability of a time-out.
    FailureProbability(f64),
    /// Factor for all prices.
    PriceFactor(f64),
}

/// `stats` of the endpoint at `index`, adjusted so that the prediction for the request equals `target`.
pub(crate) fn adjusted(
    target: PredictionOverride,
    context: &DecisionContext<'_>,
    index: u32,
    stats: &EndpointStats,
) -> EndpointStats {
    let (inputs, forecast) = predicted(context, index, stats);
    let mut estimates = stats.estimates;
    match target {
        PredictionOverride::FirstToken(seconds) => estimates.fit.intercept += libm::log(seconds / forecast.first_token),
        PredictionOverride::TokensPerSecond(rate) => {
            let per_token = stats.curve.per_token * libm::exp(forecast.load);
            estimates.per_token -= libm::log(rate * per_token);
        }
        PredictionOverride::FailureProbability(probability) => {
            set_failure(&mut estimates, &inputs, &forecast, probability)
        }
        PredictionOverride::PriceFactor(factor) => {
            return EndpointStats { prices: stats.prices.times(factor), ..stats.clone() };
        }
    }
    let endpoint = context.catalog.endpoint(index);
    let rebuild = |catalog: &Catalog| Some(EndpointStats::new(catalog, endpoint?, estimates));
    let rebuilt = rebuild(context.catalog).unwrap_or_else(|| stats.clone());
    EndpointStats { prices: stats.prices.clone(), ..rebuilt }
}

/// The prediction for the request without noise and without a circuit breaker.
fn predicted(context: &DecisionContext<'_>, index: u32, stats: &EndpointStats) -> (ScoreInputs, Forecast) {
    let live_state = LiveState::new(context, stats, &context.live.endpoint(index));
    let inputs = ScoreInputs { floor: 0.0, ..inputs(stats, &live_state) };
    let forecast = Forecast::new(&inputs, &stats.curve, &context.rules, None);
    (inputs, forecast)
}

/// Sets failures and successes so that, together with the probability of a time-out, `probability` results.
fn set_failure(estimates: &mut Estimates, inputs: &ScoreInputs, forecast: &Forecast, probability: f64) {
    let fails = FailureModel::probability(inputs.failures, inputs.successes, inputs.usual_failure);
    let no_timeout = (1.0 - forecast.noiseless.failure) / (1.0 - fails);
    let wanted = (1.0 - (1.0 - probability) / no_timeout.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
    // The inverse of `FailureModel::probability`.
    estimates.failures =
        wanted * (OVERRIDE_ANSWERS + FailureModel::PRIOR_WEIGHT) - FailureModel::PRIOR_WEIGHT * inputs.usual_failure;
    estimates.successes = OVERRIDE_ANSWERS - estimates.failures;
}
