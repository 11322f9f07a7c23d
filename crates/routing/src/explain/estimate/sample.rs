//! Recorded requests of one configuration as a sample, and what they say about another one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use pointsman_domain::EndpointId;

use super::{
    diagnostics::{Diagnostics, effective_failures},
    estimators::{
        self, Clipped, Point, Z95, clipped, difference, direct_method, doubly_robust, doubly_robust_supported, ips,
        relative_difference, snips, snips_difference,
    },
    finding::{Finding, about_missing, about_sample, about_shifts, about_unrated, is_thin},
    intervals::{clopper_pearson, confidence_sequence},
    observation::{Observation, Observations},
    traffic_shift::{TrafficShift, TrafficShifts},
};
use crate::explain::diff::{
    LEAST_CLUSTERS,
    units::{from_nano, from_pico},
    weighted_quantiles,
};

/// Effective failures from which on their share has an interval like other figures ...
pub(in crate::explain) const FEWEST_FAILURES: f64 = 10.0;
/// ... and below which only an upper bound is said.
const BARELY_A_FAILURE: f64 = 3.0;
/// Share of the requests from which on a part of them is looked at.
const LEAST_SLICE: f64 = 0.01;
/// Fewest requests of an endpoint whose missing outcomes are compared with those of others.
const FEWEST_OF_ENDPOINT: u64 = 100;
/// Standard errors by which shares of two endpoints must differ.
const SURELY: f64 = 3.0;
/// The percentile of times that is estimated.
const PERCENTILE: f64 = 0.95;

pointsman_domain::named! {
    /// What is estimated.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Measure {
        /// Dollars of a request, all attempts together.
        Spend = "spend",
        /// Whether the client was shown a failure.
        Failures = "failures",
        /// Seconds to the first content of a stream.
        FirstToken = "first_token",
        /// The 95th percentile of the same.
        FirstTokenP95 = "first_token_p95",
        /// Seconds to the end of the answer.
        Total = "total",
        /// How much of the rated answers is accepted.
        Acceptance = "acceptance",
    }
}

/// Kinds of outcomes of each request; the percentile is one of the times.
const OUTCOMES: usize = 4;

impl Measure {
    /// Whether the difference is one of shares, not a share of the figure before.
    #[must_use]
    pub const fn is_absolute(self) -> bool {
        matches!(self, Measure::Failures | Measure::Acceptance)
    }

    /// Whether it follows from the load of endpoints.
    const fn depends_on_load(self) -> bool {
        !matches!(self, Measure::Spend | Measure::Acceptance)
    }

    /// `None`: what somebody said of the answer later.
    const fn outcome(self) -> Option<usize> {
        match self {
            Measure::Spend => Some(0),
            Measure::Failures => Some(1),
            Measure::FirstToken | Measure::FirstTokenP95 => Some(2),
            Measure::Total => Some(3),
            Measure::Acceptance => None,
        }
    }
}

/// One outcome of a request beside what was predicted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measured {
    /// Requests of this kind have none.
    NotApplicable,
    /// It is not known.
    Missing,
    /// It is known.
    Known {
        /// What it came to.
        outcome: f64,
        /// The prediction for the choice.
        predicted: f64,
        /// The prediction under its own policy.
        own: f64,
        /// The prediction under the other policy, over choices that were made, too.
        expected: f64,
        /// The same over those that were hardly ever made.
        expected_unsupported: f64,
    },
}

/// What a request was: names of a dimension, and its value there.
pub type Labels = Vec<(&'static str, String)>;

/// One recorded request.
#[derive(Debug, Clone)]
pub struct LoggedRequest {
    /// Hash of its id. It orders requests, so that figures have the same bits however they were read.
    pub draw: u64,
    /// The same for requests that depend on each other.
    pub cluster: u64,
    /// The choice that was made.
    pub choice: Option<EndpointId>,
    /// Probability of the choice under the other policy by that under its own.
    pub weight: f64,
    /// Share of choices of the other policy that were hardly ever made.
    pub unsupported: f64,
    /// Whether another choice was possible.
    pub has_chance: bool,
    /// Spend, failure, first token and total.
    pub outcomes: [Measured; OUTCOMES],
}

/// Requests under one configuration.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    requests: Vec<(LoggedRequest, Arc<Labels>)>,
    known: BTreeSet<Arc<Labels>>,
    /// How much of the answer is accepted, of rated requests by their `draw`.
    ratings: BTreeMap<u64, f64>,
    /// Traffic of endpoints.
    pub shifts: TrafficShifts,
    /// By how much the choices that were made were expected to cost, to fail and to last more than those without chance, in trillionths
    /// of dollars and of failures and in nanoseconds.
    chance: [i128; 3],
}

/// By how much requests were expected to come to more because part of the choice was left to chance, per request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostOfChance {
    /// Dollars.
    pub spend: f64,
    /// Failures.
    pub failures: f64,
    /// Seconds to the end of the first attempt.
    pub total: f64,
}

/// A figure under the other policy.
#[derive(Debug, Clone)]
pub struct Estimated {
    /// Which.
    pub measure: Measure,
    /// Requests behind it.
    pub requests: usize,
    /// Weights of the requests that speak about the other policy, and their effective number.
    pub diagnostics: Diagnostics,
    /// As it was.
    pub before: f64,
    /// Under the other policy: `before` with the change, which is doubly robust; of the percentile and of acceptance, by weights.
    pub after: f64,
    /// The change as a share, or of failures as a difference.
    pub change: f64,
    /// 95 % interval of the change; `None` where there is none, see `bound` and `refusals`.
    pub interval: Option<[f64; 2]>,
    /// The same for those who look again and again.
    pub any_time: Option<[f64; 2]>,
    /// What can be said instead.
    pub bound: Option<Bound>,
    /// The other estimators.
    pub others: Option<Others>,
    /// Why it must not be used.
    pub refusals: Vec<Finding>,
    /// What to know before it is used.
    pub warnings: Vec<Finding>,
}

/// Estimates beside the headline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Others {
    /// What the model predicts.
    pub predicted: f64,
    /// Inverse propensity scores.
    pub ips: Point,
    /// The same, self-normalised.
    pub snips: Point,
    /// Doubly robust, with its error.
    pub doubly_robust: Point,
    /// With limited weights.
    pub clipped: Clipped,
}

/// A range of the figure itself under the other policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// So few failures that their share has an exact interval on the effective sample only.
    FewFailures([f64; 2]),
    /// Hardly a failure: at most this share.
    AtMost(f64),
    /// Whatever unsupported choices come to between the least and the greatest outcome.
    Unsupported([f64; 2]),
}

/// Part of the requests.
#[derive(Debug, Clone)]
pub struct SliceOfSample {
    /// Objective, alias, class or hour.
    pub dimension: &'static str,
    /// Which.
    pub value: String,
    /// How much of it speaks about the other policy.
    pub diagnostics: Diagnostics,
}

impl Sample {
    /// Adds a request.
    pub fn add(&mut self, request: LoggedRequest, labels: Labels) {
        let labels = Arc::new(labels);
        let known = self.known.get(&labels).map(Arc::clone).unwrap_or_else(|| {
            self.known.insert(Arc::clone(&labels));
            labels
        });
        self.requests.push((request, known));
    }

    /// Adds what was said of the answers, by the `draw` of their requests. Others are left out.
    pub fn rate(&mut self, ratings: &BTreeMap<u64, f64>) {
        let of = |(request, _): &(LoggedRequest, Arc<Labels>)| Some((request.draw, *ratings.get(&request.draw)?));
        self.ratings.extend(self.requests.iter().filter_map(of));
    }

    /// Adds other requests.
    pub fn merge(&mut self, other: Sample) {
        self.known.extend(other.known);
        self.requests.extend(other.requests);
        self.ratings.extend(other.ratings);
        self.add_chance(other.chance);
        self.shifts.merge(other.shifts);
    }

    pub(super) fn add_chance(&mut self, more: [i128; 3]) {
        self.chance.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }

    /// What chance cost: exact, as far as predictions are, for records hold the choice without it.
    #[must_use]
    pub fn cost_of_chance(&self) -> CostOfChance {
        let [spend, failures, total] = self.chance;
        let requests = self.len().max(1) as f64;
        CostOfChance {
            spend: from_pico(spend) / requests,
            failures: from_pico(failures) / requests,
            total: from_nano(total) / requests,
        }
    }

    /// Number of requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Brings the requests into an order of their own.
    pub fn sort(&mut self) {
        self.requests.sort_by_key(|(request, _)| (request.cluster, request.draw));
    }

    /// Whether another choice of any request was possible.
    #[must_use]
    pub fn has_chance(&self) -> bool {
        self.requests.iter().any(|(request, _)| request.has_chance)
    }

    /// How much of the sample speaks about the other policy.
    #[must_use]
    pub fn diagnostics(&self) -> Diagnostics {
        Diagnostics::new(&Observations::new(self.requests.iter().map(|(request, _)| request.weight_alone()).collect()))
    }

    /// Every figure. The sample must be sorted. `name` gives endpoints their names.
    #[must_use]
    pub fn estimates(&self, name: impl Fn(EndpointId) -> String) -> Vec<Estimated> {
        let named = |shift: TrafficShift| TrafficShift { name: name(shift.endpoint), ..shift };
        let shifts: Vec<TrafficShift> = self.shifts.growing(self.len()).into_iter().map(named).collect();
        let thin = self.thin_slices();
        Measure::ALL.into_iter().filter_map(|measure| self.estimate(measure, &shifts, &thin)).collect()
    }

    fn estimate(&self, measure: Measure, shifts: &[TrafficShift], thin: &[Finding]) -> Option<Estimated> {
        let all = self.observations(measure);
        if all.is_empty() {
            return None;
        }
        let diagnostics = Diagnostics::new(&all);
        let about_others = if measure == Measure::Acceptance { about_unrated } else { about_missing };
        let mut findings = vec![
            about_sample(&diagnostics, self.has_chance()),
            about_others(self.missing(measure), self.missing_by_endpoint(measure)),
        ];
        if measure.depends_on_load() {
            findings.push(about_shifts(shifts));
        }
        let [mut refusals, mut warnings] = findings.into_iter().reduce(|[mut one, mut two], [more, other]| {
            one.extend(more);
            two.extend(other);
            [one, two]
        })?;
        if measure == Measure::Failures {
            // Their own number counts, below.
            refusals.retain(|finding| !matches!(finding, Finding::FewEffective(_)));
            warnings.retain(|finding| !matches!(finding, Finding::FewEffective(_)));
        } else if refusals.is_empty() {
            warnings.extend_from_slice(thin);
        }
        let bound = bound(measure, &all, &diagnostics, &refusals);
        let said = match measure {
            Measure::FirstTokenP95 => of_percentile(&all),
            _ => of_mean(measure, &all),
        };
        let Said { before, after, change, interval, any_time, others } = said;
        let is_said = refusals.is_empty() && bound.is_none() && diagnostics.clusters >= LEAST_CLUSTERS;
        Some(Estimated {
            measure,
            requests: all.len(),
            diagnostics,
            before,
            after,
            change,
            interval: interval.filter(|_| is_said),
            any_time: any_time.filter(|_| is_said),
            bound,
            others,
            refusals,
            warnings,
        })
    }

    /// Nothing is predicted of what somebody will say.
    fn measured(&self, request: &LoggedRequest, measure: Measure) -> Measured {
        let none =
            |outcome| Measured::Known { outcome, predicted: 0.0, own: 0.0, expected: 0.0, expected_unsupported: 0.0 };
        match measure.outcome() {
            Some(at) => request.outcomes.get(at).copied().unwrap_or(Measured::NotApplicable),
            None => self.ratings.get(&request.draw).copied().map_or(Measured::Missing, none),
        }
    }

    fn observations(&self, measure: Measure) -> Observations {
        let of = |(request, _): &(LoggedRequest, Arc<Labels>)| {
            let Measured::Known { outcome, predicted, own, expected, expected_unsupported } =
                self.measured(request, measure)
            else {
                return None;
            };
            let LoggedRequest { cluster, weight, unsupported, .. } = *request;
            Some(Observation { cluster, weight, outcome, predicted, own, expected, expected_unsupported, unsupported })
        };
        Observations::new(self.requests.iter().filter_map(of).collect())
    }

    fn missing(&self, measure: Measure) -> f64 {
        let count = self.missing_counts(measure).into_values();
        let (missing, all) = count.fold((0, 0), |(missing, all), (more, of)| (missing + more, all + of));
        missing as f64 / all.max(1) as f64
    }

    /// Requests without the outcome, and all that should have it, by the choice.
    fn missing_counts(&self, measure: Measure) -> BTreeMap<Option<EndpointId>, (u64, u64)> {
        let mut counts: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for (request, _) in &self.requests {
            let (missing, all) = counts.entry(request.choice).or_default();
            match self.measured(request, measure) {
                Measured::NotApplicable => {}
                Measured::Missing => (*missing, *all) = (*missing + 1, *all + 1),
                Measured::Known { .. } => *all += 1,
            }
        }
        counts
    }

    fn missing_by_endpoint(&self, measure: Measure) -> Option<[f64; 2]> {
        let counts = self.missing_counts(measure);
        let counts = counts.iter().filter(|(choice, (_, all))| choice.is_some() && *all >= FEWEST_OF_ENDPOINT);
        let shares = counts.map(|(_, (missing, all))| (*missing as f64 / *all as f64, *all as f64));
        let shares: Vec<(f64, f64)> = shares.collect();
        let by_share = |one: &&(f64, f64), other: &&(f64, f64)| one.0.total_cmp(&other.0);
        let (least, most) = (shares.iter().min_by(by_share)?, shares.iter().max_by(by_share)?);
        let variance = |(share, all): &(f64, f64)| share * (1.0 - share) / all;
        let is_sure = most.0 - least.0 > SURELY * (variance(least) + variance(most)).sqrt();
        is_sure.then_some([least.0, most.0])
    }

    /// Parts of the requests by objective, alias, class and hour, if there are several.
    #[must_use]
    pub fn slices(&self) -> Vec<SliceOfSample> {
        let dimensions: BTreeSet<&'static str> =
            self.known.iter().flat_map(|labels| labels.iter().map(|(dimension, _)| *dimension)).collect();
        dimensions.into_iter().flat_map(|dimension| self.slices_by(dimension)).collect()
    }

    fn slices_by(&self, dimension: &'static str) -> Vec<SliceOfSample> {
        let mut parts: BTreeMap<&str, Vec<Observation>> = BTreeMap::new();
        for (request, labels) in &self.requests {
            if let Some((_, value)) = labels.iter().find(|(one, _)| *one == dimension) {
                parts.entry(value).or_default().push(request.weight_alone());
            }
        }
        let least = LEAST_SLICE * self.len() as f64;
        let is_one = parts.len() < 2;
        let parts = parts.into_iter().filter(|(_, requests)| !is_one && requests.len() as f64 >= least);
        let slice = |(value, requests): (&str, Vec<Observation>)| SliceOfSample {
            dimension,
            value: value.to_owned(),
            diagnostics: Diagnostics::new(&Observations::new(requests)),
        };
        parts.map(slice).collect()
    }

    fn thin_slices(&self) -> Vec<Finding> {
        let slices = ["objective", "alias", "class"].into_iter().flat_map(|dimension| self.slices_by(dimension));
        let finding = |slice: SliceOfSample| {
            Finding::ThinSlice(format!("{} {}", slice.dimension, slice.value), slice.diagnostics.effective)
        };
        slices.filter(|slice| is_thin(&slice.diagnostics)).map(finding).collect()
    }
}

impl LoggedRequest {
    /// Without an outcome.
    fn weight_alone(&self) -> Observation {
        Observation {
            cluster: self.cluster,
            weight: self.weight,
            outcome: 0.0,
            predicted: 0.0,
            own: 0.0,
            expected: 0.0,
            expected_unsupported: 0.0,
            unsupported: self.unsupported,
        }
    }
}

/// What can be said instead of an interval of the change.
fn bound(measure: Measure, all: &Observations, diagnostics: &Diagnostics, refusals: &[Finding]) -> Option<Bound> {
    let is_unsupported = |finding: &Finding| matches!(finding, Finding::Unsupported(_) | Finding::NoChance);
    if refusals.iter().any(is_unsupported) && measure != Measure::FirstTokenP95 {
        let outcomes = || all.iter().map(|one| one.outcome);
        let [least, most] = match measure {
            Measure::Failures | Measure::Acceptance => [0.0, 1.0],
            _ => [outcomes().fold(f64::INFINITY, f64::min), outcomes().fold(0.0, f64::max)],
        };
        let [low, high] = doubly_robust_supported(all).interval();
        let unsupported = diagnostics.unsupported;
        let range = [low + unsupported * least, high + unsupported * most];
        let is_known = range.iter().all(|end| end.is_finite());
        return is_known.then_some(Bound::Unsupported(range.map(|end| end.max(0.0))));
    }
    let failures = (measure == Measure::Failures).then(|| effective_failures(all));
    failures.filter(|failures| *failures < FEWEST_FAILURES && refusals.is_empty()).map(|failures| {
        let trials = all.effective(|one| one.weight);
        let share = snips(all).value;
        let interval = clopper_pearson(if share.is_finite() { share * trials } else { 0.0 }, trials);
        if failures < BARELY_A_FAILURE { Bound::AtMost(interval[1]) } else { Bound::FewFailures(interval) }
    })
}

struct Said {
    before: f64,
    after: f64,
    change: f64,
    interval: Option<[f64; 2]>,
    any_time: Option<[f64; 2]>,
    others: Option<Others>,
}

fn of_mean(measure: Measure, all: &Observations) -> Said {
    let is_predicted = measure != Measure::Acceptance;
    let change = match measure {
        Measure::Acceptance => snips_difference(all),
        _ if measure.is_absolute() => difference(all),
        _ => relative_difference(all),
    };
    let requests = all.len() as f64;
    let half = confidence_sequence(change.error * requests.sqrt(), requests);
    let before = estimators::recorded(all).value;
    Said {
        before,
        after: if measure.is_absolute() { before + change.value } else { before * (1.0 + change.value) },
        change: change.value,
        interval: Some(interval(measure, change, all)).filter(|[least, most]| least.is_finite() && most.is_finite()),
        any_time: Some([change.value - half, change.value + half]).filter(|[least, _]| least.is_finite()),
        others: is_predicted.then(|| Others {
            predicted: direct_method(all),
            ips: ips(all),
            snips: snips(all),
            doubly_robust: doubly_robust(all),
            clipped: clipped(all),
        }),
    }
}

/// The interval of a change. Where few failures were seen their spread is told too low as well, so its upper end lies as far off as that
/// of a count of so many (Wilson).
fn interval(measure: Measure, change: Point, all: &Observations) -> [f64; 2] {
    let [least, most] = change.interval();
    if measure != Measure::Failures {
        return [least, most];
    }
    let rarity = Z95 / (2.0 * effective_failures(all).sqrt());
    [least, change.value + (most - change.value) * (rarity + libm::hypot(1.0, rarity))]
}

fn of_percentile(all: &Observations) -> Said {
    let requests: Vec<(u64, f64, f64)> = all.iter().map(|one| (one.cluster, one.outcome, one.weight)).collect();
    let ([before, after], interval) = weighted_quantiles(requests, PERCENTILE);
    Said { before, after, change: after / before - 1.0, interval, any_time: None, others: None }
}
