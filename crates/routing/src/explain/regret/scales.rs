//! Predictions of choices, corrected by what was measured.

use std::collections::BTreeMap;

use pointsman_domain::EndpointId;

use super::{
    hindsight::{Expected, Prospect, Reviewed},
    request::Request,
};
use crate::explain::diff::units::count;

/// Observations that the factor 1 counts for, between measured and predicted.
const PRIOR: f64 = 30.0;
/// How many times the dollars that were expected a request counts for at most: a second attempt may have cost much more.
const MOST_MEASURED: f64 = 10.0;

/// Measured by predicted seconds and failures, by endpoint: for what the decision knew, and for what the next minute knew.
///
/// Dollars are those of the request itself: its tokens, as they were, at the prices of another choice.
pub(super) struct Scales([BTreeMap<EndpointId, Expected>; 2]);

impl Scales {
    pub fn new(requests: &[&Request]) -> Scales {
        let now = scales(requests, |reviewed| reviewed.made);
        let later = scales(requests, |reviewed| reviewed.hindsight[0]);
        Scales([now, later])
    }

    /// What was expected of a choice, corrected.
    pub fn now(&self, reviewed: &Reviewed, choice: Prospect) -> Expected {
        corrected(&self.0[0], [reviewed.made, choice], reviewed.outcome)
    }

    /// What the next minute says of it, corrected.
    pub fn later(&self, reviewed: &Reviewed, choice: Prospect) -> Expected {
        corrected(&self.0[1], [reviewed.hindsight[0], choice], reviewed.outcome)
    }
}

fn corrected(
    scales: &BTreeMap<EndpointId, Expected>,
    [made, choice]: [Prospect; 2],
    [dollars, ..]: [Option<f64>; 3],
) -> Expected {
    let [spend, failure, seconds] = choice.expected;
    let [_, of_failure, of_seconds] = scales.get(&choice.endpoint).copied().unwrap_or([1.0; 3]);
    let measured = dollars.unwrap_or(made.expected[0]) / made.expected[0];
    let of_spend = if measured.is_finite() { measured.min(MOST_MEASURED) } else { 1.0 };
    [spend * of_spend, (failure * of_failure).min(1.0), seconds * of_seconds]
}

/// Sums of outcomes by sums of predictions, drawn to 1.
fn scales(requests: &[&Request], made: impl Fn(&Reviewed) -> Prospect) -> BTreeMap<EndpointId, Expected> {
    let mut sums: BTreeMap<EndpointId, [(u64, f64, f64); 3]> = BTreeMap::new();
    for request in requests {
        let Prospect { endpoint, expected } = made(&request.reviewed);
        let sums = sums.entry(endpoint).or_default();
        for ((sums, outcome), expected) in sums.iter_mut().zip(request.reviewed.outcome).zip(expected) {
            if let Some(outcome) = outcome {
                *sums = (sums.0 + 1, sums.1 + outcome, sums.2 + expected);
            }
        }
    }
    let scale = |(requests, measured, expected): (u64, f64, f64)| {
        let ratio = if expected > 0.0 { measured / expected } else { 1.0 };
        (count(requests) * ratio + PRIOR) / (count(requests) + PRIOR)
    };
    sums.into_iter().map(|(endpoint, sums)| (endpoint, sums.map(scale))).collect()
}
