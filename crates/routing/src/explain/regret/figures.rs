//! What requests came to beyond better decisions, and its parts.

use pointsman_domain::Objective;

use super::{
    figure::RegretFigure,
    fixed::Fixed,
    hindsight::{Expected, Reviewed},
    request::{Group, Request},
    scales::Scales,
};
use crate::explain::{
    diff::{Grade, LEAST_CLUSTERS, Restriction},
    estimate::{
        LEAST_PROBABILITY, Observation, Observations,
        estimators::{Point, recorded},
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
        let parts = Yardstick::ALL.map(|yardstick| {
            let most_weight = (requests.len() as f64).sqrt();
            let of = |measure: usize| {
                let value = |request: &Request| part(yardstick, &request.reviewed, scales, measure, most_weight);
                figure(requests, measure, value)
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

/// Positions of dollars, failures and seconds.
const MEASURES: [usize; 3] = [0, 1, 2];

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

fn clusters(requests: &[&Request]) -> usize {
    requests.chunk_by(|one, other| one.cluster == other.cluster).count()
}
