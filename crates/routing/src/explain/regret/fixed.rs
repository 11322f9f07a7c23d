//! Every endpoint alone, in hindsight: what the requests would have come to had all gone there first.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_domain::EndpointId;

use super::{
    figure::RegretFigure,
    hindsight::{Expected, Prospect},
    request::Request,
    scales::Scales,
};
use crate::{
    decide::noise::quantile,
    explain::estimate::{
        Diagnostics, FEWEST_FAILURES, Finding, LEAST_PROBABILITY, Observation, Observations, TrafficShift,
        TrafficShifts, about_missing, about_sample, about_shifts, effective_failures,
        estimators::{Point, difference},
    },
};

/// Probability outside of all intervals together.
const ALPHA: f64 = 0.05;

/// The endpoints alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Fixed {
    /// Endpoints of which enough is known to compare them. Intervals allow for that many.
    pub compared: usize,
    /// The best of them.
    pub best: Option<FixedEndpoint>,
    /// The others, each with the first rule that refuses it.
    pub refused: BTreeMap<EndpointId, Finding>,
}

/// One endpoint alone.
#[derive(Debug, Clone, PartialEq)]
pub struct FixedEndpoint {
    /// Which.
    pub endpoint: EndpointId,
    /// Dollars, failures and seconds that requests came to beyond it; negative where it is worse. `None` where refused.
    pub figures: [Option<RegretFigure>; 3],
    /// Why figures are refused.
    pub refusals: Vec<Finding>,
}

/// One endpoint before the best one is known.
struct Estimated {
    endpoint: EndpointId,
    points: [Result<Point, Vec<Finding>>; 3],
}

impl Fixed {
    pub(super) fn new(requests: &[&Request], scales: &Scales, worth: Expected) -> Fixed {
        let possible = requests.iter().flat_map(|request| &request.reviewed.possible);
        let endpoints: BTreeSet<EndpointId> = possible.map(|(choice, ..)| choice.endpoint).collect();
        let has_chance = requests.iter().any(|request| has_chance(request));
        let shifts = shifts(requests);
        let all = endpoints.into_iter().map(|endpoint| {
            let own = shifts.iter().find(|shift| shift.endpoint == endpoint).map_or(&[][..], std::slice::from_ref);
            let point = |measure| point(endpoint, requests, scales, measure, (own, has_chance));
            Estimated { endpoint, points: [0, 1, 2].map(point) }
        });
        let (mut known, mut refused) = (Vec::new(), BTreeMap::new());
        for estimated in all {
            match estimated.regret(worth) {
                Ok(regret) => known.push((regret, estimated)),
                Err(finding) => drop(refused.insert(estimated.endpoint, finding)),
            }
        }
        let compared = known.len();
        let best = known.into_iter().max_by(|(one, _), (other, _)| one.total_cmp(other));
        Fixed { compared, best: best.map(|(_, best)| best.shown(compared)), refused }
    }
}

/// How the traffic of each endpoint would grow if it had all of it.
fn shifts(requests: &[&Request]) -> Vec<TrafficShift> {
    let mut shifts = TrafficShifts::default();
    for (choice, probability, load) in requests.iter().flat_map(|request| &request.reviewed.possible) {
        shifts.add(choice.endpoint, [*probability, 1.0], *load);
    }
    // Names are added by those who show it: rules look at numbers.
    shifts.growing(requests.len())
}

/// Whether another choice was possible.
fn has_chance(request: &Request) -> bool {
    let is_open = |probability: f64| (LEAST_PROBABILITY..1.0 - LEAST_PROBABILITY).contains(&probability);
    request.reviewed.possible.iter().any(|(_, probability, _)| is_open(*probability))
}

impl Estimated {
    /// What the policy came to beyond it, by the objective; the first rule that refuses it, if one does.
    fn regret(&self, worth: Expected) -> Result<f64, Finding> {
        let mut sum = 0.0;
        for (point, worth) in self.points.iter().zip(worth).filter(|(_, worth)| *worth > 0.0) {
            match point {
                Ok(point) => sum -= worth * point.value,
                Err(refusals) => return Err(refusals.first().cloned().unwrap_or(Finding::FewEffective(0.0))),
            }
        }
        Ok(sum)
    }

    fn shown(self, compared: usize) -> FixedEndpoint {
        let z = quantile(1.0 - 0.5 * ALPHA / compared.max(1) as f64);
        let figure = |point: &Point| RegretFigure {
            value: -point.value,
            interval: [-point.value - z * point.error, -point.value + z * point.error],
        };
        let figures = self.points.each_ref().map(|point| point.as_ref().ok().map(figure));
        let mut refusals: Vec<Finding> = Vec::new();
        for finding in self.points.into_iter().filter_map(Result::err).flatten() {
            if !refusals.contains(&finding) {
                refusals.push(finding);
            }
        }
        FixedEndpoint { endpoint: self.endpoint, figures, refusals }
    }
}

/// The change if all requests went there, or the rules that refuse it.
fn point(
    endpoint: EndpointId,
    requests: &[&Request],
    scales: &Scales,
    measure: usize,
    (shifts, has_chance): (&[TrafficShift], bool),
) -> Result<Point, Vec<Finding>> {
    let observed = requests.iter().filter_map(|request| observation(endpoint, request, scales, measure));
    let all = Observations::new(observed.collect());
    if all.is_empty() {
        return Err(vec![Finding::Missing(1.0)]);
    }
    let diagnostics = Diagnostics::new(&all);
    let [mut refusals, _] = about_sample(&diagnostics, has_chance);
    if measure == FAILURES {
        // Failures have a rule of their own.
        refusals.retain(|finding| !matches!(finding, Finding::FewEffective(_)));
        let failures = effective_failures(&all);
        refusals.extend((failures < FEWEST_FAILURES).then_some(Finding::FewFailures(failures)));
    }
    // A request that failed has no time, which is no fault of its record.
    if measure == SPEND {
        let missing = 1.0 - all.len() as f64 / requests.len().max(1) as f64;
        let [more, _] = about_missing(missing, None);
        refusals.extend(more);
    } else {
        let [more, _] = about_shifts(shifts);
        refusals.extend(more);
    }
    let point = difference(&all);
    let is_known = refusals.is_empty() && point.value.is_finite() && point.error.is_finite();
    if is_known { Ok(point) } else { Err(refusals) }
}

const SPEND: usize = 0;
const FAILURES: usize = 1;

fn observation(endpoint: EndpointId, request: &Request, scales: &Scales, measure: usize) -> Option<Observation> {
    let reviewed = &request.reviewed;
    let of = |choice: Prospect| scales.now(reviewed, choice).get(measure).copied();
    let outcome = reviewed.outcome.get(measure).copied().flatten()?;
    let predicted = of(reviewed.made)?;
    let found = reviewed.possible.iter().find(|(choice, ..)| choice.endpoint == endpoint);
    let expected = found.map_or(Some(predicted), |(choice, ..)| of(*choice))?;
    let probability = found.map_or(0.0, |(_, probability, _)| *probability);
    let is_supported = probability >= LEAST_PROBABILITY;
    let is_made = is_supported && reviewed.made.endpoint == endpoint;
    Some(Observation {
        cluster: request.cluster,
        weight: if is_made { probability.recip() } else { 0.0 },
        outcome,
        predicted,
        own: predicted,
        expected: if is_supported { expected } else { 0.0 },
        expected_unsupported: if is_supported { 0.0 } else { expected },
        unsupported: if is_supported { 0.0 } else { 1.0 },
    })
}
