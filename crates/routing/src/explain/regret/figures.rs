//! What requests came to beyond better decisions, and its parts.

use std::collections::BTreeMap;

use pointsman_domain::{EndpointId, Objective};

use super::{
    figure::RegretFigure,
    fixed::Fixed,
    hindsight::{Expected, Prospect, Reviewed},
    request::{Group, Request},
    scales::Scales,
};
use crate::explain::{
    diff::{Grade, LEAST_CLUSTERS, Restriction},
    estimate::{
        Finding, LEAST_PROBABILITY, Observation, Observations, TrafficShift, TrafficShifts, about_shifts,
        clopper_pearson,
        estimators::{Point, Z95, recorded},
    },
};

/// Fewest requests of a group that something is said about.
pub const LEAST_GROUP: usize = 200;

pointsman_domain::named! {
    /// A difference between two ways to decide.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Yardstick {
        /// Beyond choices without chance and restrictions that know the next minute.
        Total = "total",
        /// Beyond choices without chance.
        Exploration = "exploration",
        /// Of these, beyond choices without restrictions.
        Restrictions = "restrictions",
        /// Of these, beyond choices that know the next minute.
        Ignorance = "ignorance",
        /// What is left of the total.
        Rest = "rest",
    }
}

/// What lifting one restriction alone would bring.
#[derive(Debug, Clone, PartialEq)]
pub struct Restricted {
    /// Which.
    pub restriction: Restriction,
    /// Requests that it holds for.
    pub requests: usize,
    /// Dollars, failures and seconds for each request of the group.
    pub figures: [Option<RegretFigure>; 3],
}

/// What the requests of a group came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Regret {
    /// Which.
    pub group: Group,
    /// Their number.
    pub requests: usize,
    /// Groups of them that depend on each other.
    pub clusters: usize,
    /// The first and the last, Unix milliseconds.
    pub window_ms: [i64; 2],
    /// Mean dollars, failures and seconds as they were.
    pub before: [Option<f64>; 3],
    /// Total and parts, with dollars, failures and seconds. The parts sum to the total.
    pub parts: [(Yardstick, [Option<RegretFigure>; 3]); 5],
    /// Share of the requests whose choice without restrictions is not certain.
    pub partial: f64,
    /// Share of the requests with an endpoint that the next minute does not tell of.
    pub unforeseen: f64,
    /// What each restriction alone costs.
    pub restricted: Vec<Restricted>,
    /// Endpoints that could not carry what would move to them, so that the total, ignorance and the rest are unknown.
    pub refusals: Vec<(EndpointId, Finding)>,
    /// The endpoints alone.
    pub fixed: Fixed,
}

impl Regret {
    pub(super) fn new(group: Group, requests: &[&Request], scales: &Scales) -> Regret {
        let share = |is: &dyn Fn(&Reviewed) -> bool| {
            requests.iter().filter(|request| is(&request.reviewed)).count() as f64 / requests.len().max(1) as f64
        };
        let before = MEASURES.map(|measure| Some(mean(requests, measure, |request| outcome(request, measure))?.value));
        let times = || requests.iter().map(|request| request.at_ms);
        let refusals = refusals(requests);
        let parts = Yardstick::ALL.map(|yardstick| {
            let most_weight = (requests.len() as f64).sqrt();
            let of = |measure: usize| {
                let value = |request: &Request| part(yardstick, &request.reviewed, scales, measure, most_weight);
                let figure = figure(requests, measure, value)?;
                match yardstick {
                    Yardstick::Exploration | Yardstick::Restrictions => Some(figure),
                    _ if !refusals.is_empty() => None,
                    _ => Some(widened(figure, requests, scales, measure)),
                }
            };
            (yardstick, MEASURES.map(of))
        });
        Regret {
            fixed: Fixed::new(requests, scales, worth(group.objective, requests, before)),
            group,
            requests: requests.len(),
            clusters: clusters(requests),
            window_ms: [times().min().unwrap_or_default(), times().max().unwrap_or_default()],
            before,
            parts,
            partial: share(&|reviewed| reviewed.grade != Grade::Exact),
            unforeseen: share(&|reviewed| !reviewed.is_foreseen),
            restricted: Restriction::ALL.into_iter().filter_map(|one| restricted(one, requests, scales)).collect(),
            refusals,
        }
    }

    /// Whether there are enough requests to say something.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.requests >= LEAST_GROUP && self.clusters >= LEAST_CLUSTERS
    }

    /// The figures of a yardstick.
    #[must_use]
    pub fn part(&self, wanted: Yardstick) -> [Option<RegretFigure>; 3] {
        self.parts.iter().find(|(yardstick, _)| *yardstick == wanted).map_or([None; 3], |(_, figures)| *figures)
    }
}

/// Share of the requests that may move to an endpoint that refused some for its limits.
const MOST_TO_LIMITED: f64 = 0.01;
/// Positions of dollars, failures and seconds.
const MEASURES: [usize; 3] = [0, FAILURES, 2];
const FAILURES: usize = 1;

fn outcome(request: &Request, measure: usize) -> Option<f64> {
    request.reviewed.outcome.get(measure).copied().flatten()
}

/// One request's share in a part, in one measure.
fn part(yardstick: Yardstick, reviewed: &Reviewed, scales: &Scales, measure: usize, most_weight: f64) -> Option<f64> {
    let of = |expected: Expected| expected.get(measure).copied();
    let outcome = reviewed.outcome.get(measure).copied().flatten()?;
    let [made, free, foresighted] = reviewed.hindsight;
    let now = |choice| of(scales.now(reviewed, choice));
    let later = |choice| of(scales.later(reviewed, choice));
    let part = |wanted| part(wanted, reviewed, scales, measure, most_weight);
    Some(match yardstick {
        Yardstick::Exploration => now(reviewed.made)? - now(reviewed.calm)?,
        Yardstick::Restrictions => now(reviewed.calm)? - now(reviewed.free)?,
        Yardstick::Ignorance => later(free)? - later(foresighted)?,
        // Doubly robust: where chance made the foresighted choice, its outcome corrects the prediction.
        Yardstick::Total => {
            let weight = if made.endpoint == foresighted.endpoint { weight(reviewed).min(most_weight) } else { 0.0 };
            outcome - later(foresighted)? - weight * (outcome - later(made)?)
        }
        Yardstick::Rest => {
            let known = part(Yardstick::Exploration)? + part(Yardstick::Restrictions)? + part(Yardstick::Ignorance)?;
            part(Yardstick::Total)? - known
        }
    })
}

/// One by the probability of the choice; 0 where that is too small to say something.
fn weight(reviewed: &Reviewed) -> f64 {
    let made = reviewed.possible.iter().find(|(choice, ..)| choice.endpoint == reviewed.made.endpoint);
    made.map(|(_, probability, _)| *probability).filter(|one| *one >= LEAST_PROBABILITY).map_or(0.0, f64::recip)
}

fn restricted(restriction: Restriction, requests: &[&Request], scales: &Scales) -> Option<Restricted> {
    let choice = |reviewed: &Reviewed| {
        let found = reviewed.without.iter().find(|(one, _)| *one == restriction);
        found.map(|(_, choice)| *choice)
    };
    let restricted = requests.iter().filter(|request| choice(&request.reviewed).is_some()).count();
    let of = |measure: usize| {
        figure(requests, measure, |request| {
            let reviewed = &request.reviewed;
            let free = choice(reviewed).unwrap_or(reviewed.calm);
            let [calm, free] = [reviewed.calm, free].map(|choice| scales.now(reviewed, choice).get(measure).copied());
            Some(calm? - free?)
        })
    };
    (restricted > 0).then(|| Restricted { restriction, requests: restricted, figures: MEASURES.map(of) })
}

/// By how much a dollar, a failure and a second count under an objective.
fn worth(objective: Objective, requests: &[&Request], before: [Option<f64>; 3]) -> Expected {
    let [spend, _, seconds] = before.map(|mean| mean.filter(|mean| *mean > 0.0).map_or(0.0, f64::recip));
    match objective {
        Objective::Cheapest => [spend, 0.0, 0.0],
        Objective::Fastest => [0.0, 0.0, seconds],
        Objective::Reliable => [0.0, 1.0, 0.0],
        Objective::Balanced => {
            let time = requests.iter().map(|request| request.time_share).sum::<f64>() / requests.len().max(1) as f64;
            [(1.0 - time) * spend, 0.0, time * seconds]
        }
    }
}

fn figure(requests: &[&Request], measure: usize, value: impl Fn(&Request) -> Option<f64>) -> Option<RegretFigure> {
    let point = mean(requests, measure, value)?;
    let interval = point.interval();
    let is_known = point.value.is_finite() && interval.iter().all(|end| end.is_finite());
    is_known.then_some(RegretFigure { value: point.value, interval })
}

/// The mean over requests with a known outcome, by clusters.
fn mean(requests: &[&Request], measure: usize, value: impl Fn(&Request) -> Option<f64>) -> Option<Point> {
    let known = requests.iter().filter(|request| outcome(request, measure).is_some());
    let values: Vec<Observation> =
        known.filter_map(|request| Some(Observation::plain(request.cluster, value(request)?))).collect();
    (!values.is_empty()).then(|| recorded(&Observations::new(values)))
}

/// Endpoints that could not carry what the foresighted choices move to them. Requests in flight move along.
fn refusals(requests: &[&Request]) -> Vec<(EndpointId, Finding)> {
    let mut shifts = TrafficShifts::default();
    let mut moved: BTreeMap<EndpointId, Vec<f64>> = BTreeMap::new();
    for Request { reviewed, .. } in requests {
        let [made, _, foresighted] = reviewed.hindsight;
        let is_choice = |endpoint: EndpointId| f64::from(u8::from(endpoint == foresighted.endpoint));
        for (choice, probability, load) in &reviewed.possible {
            // The foresighted choice knows better than the decision from how many requests on the endpoint slows down.
            let is_foreseen = choice.endpoint == foresighted.endpoint && reviewed.load[1] > 0.0;
            let known = if is_foreseen { reviewed.load } else { *load };
            shifts.add(choice.endpoint, [*probability, is_choice(choice.endpoint)], known);
            if choice.endpoint == made.endpoint && made.endpoint != foresighted.endpoint {
                moved.entry(foresighted.endpoint).or_default().push(load[0] + reviewed.load[0]);
            }
        }
        if reviewed.possible.iter().all(|(choice, ..)| choice.endpoint != foresighted.endpoint) {
            shifts.add(foresighted.endpoint, [0.0, 1.0], reviewed.load);
        }
        reviewed.limited.iter().for_each(|endpoint| shifts.add_refusal(*endpoint));
    }
    for (endpoint, loads) in moved {
        shifts.carry(endpoint, loads.iter().sum::<f64>() / loads.len() as f64);
    }
    let growing = shifts.growing(requests.len()).into_iter();
    growing.filter_map(|shift| Some((shift.endpoint, refusal(&shift)?))).collect()
}

/// The rule about shifted traffic, and a stricter one for endpoints that refused requests.
fn refusal(shift: &TrafficShift) -> Option<Finding> {
    let [refusals, _] = about_shifts(std::slice::from_ref(shift));
    let is_limited = shift.was_limited && shift.shares[1] - shift.shares[0] > MOST_TO_LIMITED;
    let in_flight = [shift.in_flight, shift.would_be, shift.knee];
    let limited = is_limited.then(|| Finding::Shifted { endpoint: String::new(), factor: shift.factor, in_flight });
    refusals.into_iter().next().or(limited)
}

/// With what chance in outcomes does not say: what is known of endpoints may be wrong, and failures are rare.
fn widened(figure: RegretFigure, requests: &[&Request], scales: &Scales, measure: usize) -> RegretFigure {
    let RegretFigure { value, interval: [least, most] } = figure;
    let [less, more] = doubt(requests, scales, measure).map(|error| Z95 * error);
    let [rarer, oftener] = if measure == FAILURES { rare(requests) } else { [0.0; 2] };
    let spread = |chance: f64, doubt: f64, rare: f64| (chance * chance + doubt * doubt).sqrt().max(rare);
    RegretFigure {
        value,
        interval: [value - spread(value - least, less, rarer), value + spread(most - value, more, oftener)],
    }
}

/// By how much the mean is less, and more, if what is known of endpoints is off by one standard error. It is taken to be off alike
/// everywhere: what keeps requests away from an endpoint keeps knowledge away each time. Outcomes of the same choice correct it.
fn doubt(requests: &[&Request], scales: &Scales, measure: usize) -> [f64; 2] {
    let mut sums = [0.0; 2];
    for Request { reviewed, .. } in requests {
        let [made, _, foresighted] = reviewed.hindsight;
        let figure = |choice: Prospect| {
            let known = if choice.endpoint == made.endpoint { made } else { choice };
            scales.later(reviewed, known).get(measure).copied().unwrap_or_default()
        };
        sums.iter_mut().zip(reviewed.doubted).for_each(|(sum, one)| *sum += figure(foresighted) - figure(one));
    }
    let [worse, better] = sums.map(|sum| sum / requests.len().max(1) as f64);
    [-worse.min(better).min(0.0), worse.max(better).max(0.0)]
}

/// How far the exact interval of the share of failures reaches below and above it.
fn rare(requests: &[&Request]) -> [f64; 2] {
    let failures = requests.iter().filter_map(|request| outcome(request, FAILURES));
    let (sum, count) = failures.fold((0.0, 0.0), |(sum, count), failure| (sum + failure, count + 1.0));
    let [least, most] = clopper_pearson(sum, count);
    let share = if count > 0.0 { sum / count } else { 0.0 };
    [share - least, most - share]
}

fn clusters(requests: &[&Request]) -> usize {
    requests.chunk_by(|one, other| one.cluster == other.cluster).count()
}
