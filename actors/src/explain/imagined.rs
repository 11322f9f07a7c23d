//! Estimates of an endpoint, bent until they predict a given figure for a request.

use crate::decide::{
    context::DecisionContext,
    forecast::Forecast,
    live_state::{LiveState, inputs},
};
use crate::{
    domain::{Catalog, Inputs},
    stats::{EndpointStats, Estimates, FailureModel, Prices},
};

/// Answers that an imagined probability of failure rests on: enough for nine digits of it.
const SURE: f64 = 1e9;

/// A prediction that is to come out.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ImaginedPrediction {
    /// Median time to the first token, seconds.
    FirstToken(f64),
    /// Output tokens per second.
    TokensPerSecond(f64),
    /// Probability that the request fails there or runs out of time; not below the latter.
    FailureProbability(f64),
    /// All prices times this.
    PriceFactor(f64),
}

/// `stats` so that the case's request is predicted to fare like `goal` at the endpoint of that position.
pub(crate) fn towards(
    goal: ImaginedPrediction,
    case: &DecisionContext<'_>,
    index: u32,
    stats: &EndpointStats,
) -> EndpointStats {
    let (inputs, forecast) = predicted(case, index, stats);
    let mut estimates = stats.estimates;
    match goal {
        ImaginedPrediction::FirstToken(seconds) => estimates.fit.intercept += libm::log(seconds / forecast.first_token),
        ImaginedPrediction::TokensPerSecond(rate) => {
            let per_token = stats.curve.per_token * libm::exp(forecast.load);
            estimates.per_token -= libm::log(rate * per_token);
        }
        ImaginedPrediction::FailureProbability(probability) => fail(&mut estimates, &inputs, &forecast, probability),
        ImaginedPrediction::PriceFactor(factor) => {
            return EndpointStats { prices: times(stats.prices, factor), ..stats.clone() };
        }
    }
    let endpoint = case.catalog.endpoint(index);
    let remade = |catalog: &Catalog| Some(EndpointStats::new(catalog, case.policy, endpoint?, estimates));
    let remade = remade(case.catalog).unwrap_or_else(|| stats.clone());
    EndpointStats { prices: stats.prices, ..remade }
}

/// What the estimates predict for the case's request, without noise and past any gate.
fn predicted(case: &DecisionContext<'_>, index: u32, stats: &EndpointStats) -> (Inputs, Forecast) {
    let moment = LiveState::of(case, stats, case.live.endpoint(index));
    let inputs = Inputs { floor: 0.0, ..inputs(stats, &moment) };
    let forecast = Forecast::of(&inputs, &stats.curve, &case.rules, None);
    (inputs, forecast)
}

/// Failures and successes such that, with the chance that the clock runs out, this probability results.
fn fail(estimates: &mut Estimates, inputs: &Inputs, forecast: &Forecast, probability: f64) {
    let fails = FailureModel::probability(inputs.failures, inputs.successes, inputs.usual_failure);
    let stays = (1.0 - forecast.calm.failure) / (1.0 - fails);
    let wanted = (1.0 - (1.0 - probability) / stays.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
    // The inverse of `FailureModel::probability`.
    estimates.failures =
        wanted * (SURE + FailureModel::PRIOR_WEIGHT) - FailureModel::PRIOR_WEIGHT * inputs.usual_failure;
    estimates.successes = SURE - estimates.failures;
}

fn times(prices: Prices, factor: f64) -> Prices {
    Prices {
        prompt: prices.prompt * factor,
        cached_saving: prices.cached_saving * factor,
        completion: prices.completion * factor,
        request: prices.request * factor,
        image: prices.image * factor,
    }
}
