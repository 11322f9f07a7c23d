//! The same decision by somebody who knows what is true of every endpoint at the moment: without noise, breakers and ignorance.

use pointsman_domain::{Decision, Query, RouteError, Tick};
use pointsman_routing::{
    decide::decide_to_serve,
    stats::{Curve, EndpointStats, Estimates, Fit, LiveView, Snapshot},
};

use crate::{
    rule::Ask,
    world::{TOKEN_SIGMA, Truth},
};

/// Observations that make an estimate certain.
const CERTAIN: f64 = 1e6;

/// Decides with the truth in the place of what was learned, except for the lengths of answers.
pub fn decide(snapshot: &Snapshot, query: &Query, ask: &Ask<'_>, now: Tick) -> Result<Decision, RouteError> {
    let told = (0..).zip(&snapshot.endpoints).map(|(at, stats)| told(stats, &(ask.truth)(at, 0)));
    let informed = Snapshot { endpoints: told.collect(), ..snapshot.clone() };
    let mut decision = decide_to_serve(&informed, &LiveView::default(), query, now, None)?;
    // No breaker keeps an attempt back.
    decision.candidates.iter_mut().for_each(|candidate| candidate.panic = true);
    Ok(decision)
}

/// The statistics of somebody who knows. The load of the moment is in the truth already.
fn told(stats: &EndpointStats, truth: &Truth) -> EndpointStats {
    let fit = Fit {
        intercept: libm::log(truth.median),
        prompt_slope: truth.slope / truth.median,
        load_exponent: 0.0,
        variance: truth.sigma * truth.sigma,
        ..stats.estimates.fit
    };
    let estimates = Estimates {
        fit,
        weight: CERTAIN,
        age: 0.0,
        per_token: libm::log(truth.per_token),
        pace_weight: CERTAIN,
        per_token_variance: TOKEN_SIGMA * TOKEN_SIGMA,
        failures: CERTAIN * truth.failure,
        successes: CERTAIN * (1.0 - truth.failure),
        usual_failure: truth.failure,
        ..stats.estimates
    };
    let curve = Curve::new(fit.intercept, fit.variance, estimates.per_token, truth.slope);
    EndpointStats { estimates, curve, ..stats.clone() }
}
