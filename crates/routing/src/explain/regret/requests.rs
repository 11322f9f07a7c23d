//! What is kept of each request, by alias and objective.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_domain::{EndpointId, Generation, Objective};

use super::{
    figures::Regret,
    hindsight::{Expected, Hindsight, Prospect, Reviewed},
    timeline::Timeline,
};
use crate::explain::{diff::units::count, estimate::Position};

/// Observations that the factor 1 counts for, between measured and predicted.
const PRIOR: f64 = 30.0;
/// How many times the dollars that were expected a request counts for at most: a second attempt may have cost much more.
const MOST_MEASURED: f64 = 10.0;
const DAY_MS: i64 = 24 * 3_600_000;

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// Its request counts.
    Counted,
    /// No endpoint could serve it.
    Unserved,
    /// It does not come out as it was made.
    Different,
}

/// Requests that are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The alias; `None` for fixed models.
    pub alias: Option<Arc<str>>,
    /// The objective.
    pub objective: Objective,
    /// Midnight, Unix milliseconds, UTC; `None` for all days.
    pub day_ms: Option<i64>,
}

/// Requests, with the choices that they could have met.
#[derive(Debug, Clone, Default)]
pub struct Regrets {
    requests: BTreeMap<(Option<Arc<str>>, &'static str), Vec<Request>>,
}

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Request {
    /// Sets requests in an order of their own: sums have the same bits however they were read.
    draw: u64,
    pub cluster: u64,
    pub at_ms: i64,
    objective: Objective,
    /// Weight of time under `balanced`.
    pub latency: f64,
    pub reviewed: Reviewed,
}

impl Regrets {
    /// Adds a recorded request. Its record must have come out as it was made, and `timeline` hold all records.
    pub fn observe(
        &mut self,
        hindsight: &Hindsight,
        generation: &Generation,
        timeline: &Timeline,
        position: Position,
    ) -> Observed {
        let reviewed = match hindsight.review(generation, timeline) {
            Ok(reviewed) => reviewed,
            Err(outcome) => return outcome,
        };
        let decision = &generation.decision;
        let objective = decision.objective.value;
        let group = (decision.router.as_deref().map(Arc::from), objective.as_str());
        self.requests.entry(group).or_default().push(Request {
            draw: position.draw,
            cluster: position.cluster,
            at_ms: generation.created_ms,
            objective,
            latency: decision.weights.latency,
            reviewed,
        });
        Observed::Counted
    }

    /// Adds other requests.
    pub fn merge(&mut self, other: Regrets) {
        for (group, requests) in other.requests {
            self.requests.entry(group).or_default().extend(requests);
        }
    }

    /// What they came to, the group with most requests first; `by_day` adds each day to the whole of its group.
    #[must_use]
    pub fn groups(mut self, by_day: bool) -> Vec<Regret> {
        let mut groups = Vec::new();
        for ((alias, _), requests) in &mut self.requests {
            requests.sort_by_key(|request| (request.cluster, request.draw));
            let requests: Vec<&Request> = requests.iter().collect();
            let Some(objective) = requests.first().map(|request| request.objective) else { continue };
            let scales = Scales::new(&requests);
            let group = |day_ms| Group { alias: alias.clone(), objective, day_ms };
            let whole = Regret::new(group(None), &requests, &scales);
            let mut days: BTreeMap<i64, Vec<&Request>> = BTreeMap::new();
            for request in requests.iter().filter(|_| by_day) {
                days.entry(request.at_ms.div_euclid(DAY_MS)).or_default().push(request);
            }
            let of_day =
                |(day, requests): (i64, Vec<&Request>)| Regret::new(group(Some(day * DAY_MS)), &requests, &scales);
            groups.push((requests.len(), [whole].into_iter().chain(days.into_iter().map(of_day)).collect::<Vec<_>>()));
        }
        groups.sort_by_key(|(requests, _)| std::cmp::Reverse(*requests));
        groups.into_iter().flat_map(|(_, regrets)| regrets).collect()
    }
}

/// Measured by predicted seconds and failures, by endpoint: for what the decision knew, and for what the next minute knew.
///
/// Dollars are those of the request itself: its tokens, as they were, at the prices of another choice.
pub(super) struct Scales([BTreeMap<EndpointId, Expected>; 2]);

impl Scales {
    fn new(requests: &[&Request]) -> Scales {
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
