//! What is told of a run beside its loss: failures shown, attempts, detection, recovery, calibration.

use pointsman_routing::stats::Curve;

use crate::{
    engine::{Run, Tried},
    rule::Calibration,
    world::{Effect, Event, World},
};

/// A former share below which nothing can be said about losing or regaining it.
const LEAST_SHARE: f64 = 0.1;
/// Seconds before an event over which the former share is taken.
const BEFORE: f64 = 60.0;
/// Requests over which a share is taken afterwards.
const WINDOW: usize = 20;
/// Spread up to which calibration is promised.
const STEADY: f64 = 0.5;

/// Figures of one run, or of several together.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Requests.
    pub requests: usize,
    /// Of these, unanswered: failures that a caller was shown.
    pub shown: usize,
    /// Of these, with a healthy endpoint there when the request arrived.
    pub avoidable: usize,
    /// Of these, with no attempt but at healthy endpoints: they failed as anybody does on a good day.
    pub unlucky: usize,
    /// Attempts.
    pub attempts: usize,
    /// Hedges.
    pub hedges: usize,
    /// Outages that could be timed.
    pub outages: Vec<Outage>,
    /// |ln(actual ÷ predicted)| of first tokens at steady endpoints, and of totals.
    pub first: Vec<f64>,
    /// The same of totals, given the output tokens.
    pub total: Vec<f64>,
    /// First tokens within the predicted 95th percentile, of all.
    pub first_within: (usize, usize),
    /// The same of totals.
    pub total_within: (usize, usize),
    /// Costs of answers within the predicted 80 % range, of all.
    pub cost_within: (usize, usize),
    /// First attempts by the probability of failing that was predicted, in the bins of [`FAILURE_BINS`].
    pub failure_bins: [FailureBin; FAILURE_BINS.len() + 1],
}

/// Upper ends of the bins of predicted failure probability; one more holds what is above.
pub const FAILURE_BINS: [f64; 7] = [0.0005, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3];

/// First attempts of which about the same was predicted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FailureBin {
    /// Attempts.
    pub attempts: usize,
    /// The sum of the predicted probabilities of failing.
    pub predicted: f64,
    /// Of these attempts, failed.
    pub failed: usize,
}

impl FailureBin {
    fn add(&mut self, other: FailureBin) {
        self.attempts += other.attempts;
        self.predicted += other.predicted;
        self.failed += other.failed;
    }
}

/// A dead endpoint that used to be chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outage {
    /// First attempts that failed or lost a race, dispatched after the first failure was read, probes left out.
    pub after_first: usize,
    /// All first attempts that failed or lost a race, probes included.
    pub wasted: usize,
    /// Of these, sent before anybody could know: before the first of them had failed, or was later than the
    /// endpoint's first token is in 95 of 100 cases.
    pub unaware: usize,
    /// Seconds until half the former share was gone; infinite if never.
    pub detected: f64,
    /// Seconds after the end until half of it was back; infinite if never. `None` where the oracle too has gone
    /// elsewhere meanwhile.
    pub recovered: Option<f64>,
}

impl Figures {
    /// The figures of a run.
    #[must_use]
    pub fn of(world: &World, run: &Run, oracle: &Run) -> Figures {
        let mut figures = Figures {
            requests: run.served.len(),
            shown: shown(run).count(),
            avoidable: shown(run).filter(|id| run.served[*id].healthy > 0).count(),
            unlucky: shown(run).filter(|id| is_unlucky(run, *id)).count(),
            attempts: run.attempts.len(),
            hedges: run.attempts.iter().filter(|attempt| attempt.hedge).count(),
            outages: world.events.iter().filter_map(|event| outage(world, run, oracle, event)).collect(),
            ..Figures::default()
        };
        if let Some(calibration) = &run.calibration {
            figures.calibrate(world, calibration);
        }
        figures
    }

    fn calibrate(&mut self, world: &World, calibration: &Calibration) {
        let steady = |of: &[(usize, f64)]| {
            let steady = of.iter().filter(|(endpoint, _)| world.endpoints[*endpoint].sigma <= STEADY);
            steady.map(|(_, ln)| ln.abs()).collect::<Vec<f64>>()
        };
        let within = |of: &[bool]| (of.iter().filter(|within| **within).count(), of.len());
        (self.first, self.total) = (steady(&calibration.first), steady(&calibration.total));
        (self.first_within, self.total_within) = (within(&calibration.first_within), within(&calibration.total_within));
        self.cost_within = within(&calibration.cost_within);
        for (predicted, failed) in &calibration.failures {
            let bin = FAILURE_BINS.iter().take_while(|end| predicted > *end).count();
            self.failure_bins[bin].add(FailureBin { attempts: 1, predicted: *predicted, failed: usize::from(*failed) });
        }
    }

    /// Adds another run's.
    pub fn add(&mut self, other: Figures) {
        self.requests += other.requests;
        self.shown += other.shown;
        self.avoidable += other.avoidable;
        self.unlucky += other.unlucky;
        self.attempts += other.attempts;
        self.hedges += other.hedges;
        self.outages.extend(other.outages);
        self.first.extend(other.first);
        self.total.extend(other.total);
        self.first_within = (self.first_within.0 + other.first_within.0, self.first_within.1 + other.first_within.1);
        self.total_within = (self.total_within.0 + other.total_within.0, self.total_within.1 + other.total_within.1);
        self.cost_within = (self.cost_within.0 + other.cost_within.0, self.cost_within.1 + other.cost_within.1);
        self.failure_bins.iter_mut().zip(other.failure_bins).for_each(|(bin, other)| bin.add(other));
    }

    /// Attempts per request.
    #[must_use]
    pub fn attempts_per_request(&self) -> f64 {
        self.attempts as f64 / self.requests.max(1) as f64
    }
}

/// The requests of a run that were not answered.
pub fn shown(run: &Run) -> impl Iterator<Item = usize> {
    run.served.iter().enumerate().filter(|(_, served)| !served.answered).map(|(id, _)| id)
}

fn is_unlucky(run: &Run, id: usize) -> bool {
    let mut attempts = run.attempts.iter().filter(|attempt| attempt.request == id);
    run.served[id].healthy > 0 && run.served[id].attempts > 0 && attempts.all(|attempt| attempt.healthy)
}

/// First attempts, in the order of dispatch.
struct Firsts<'a>(Vec<&'a Tried>);

impl<'a> Firsts<'a> {
    fn of(run: &'a Run) -> Firsts<'a> {
        Firsts(run.attempts.iter().filter(|attempt| attempt.first).collect())
    }

    fn between(&self, from: f64, to: f64) -> &[&'a Tried] {
        let position = |at: f64| self.0.partition_point(|attempt| attempt.at < at);
        &self.0[position(from)..position(to)]
    }
}

fn share(of: &[&Tried], endpoint: usize) -> f64 {
    of.iter().filter(|attempt| attempt.endpoint == endpoint).count() as f64 / of.len().max(1) as f64
}

/// Seconds within which 95 of 100 first tokens come, on a good day and without a prompt.
fn usual_most(world: &World, endpoint: usize) -> f64 {
    let endpoint = &world.endpoints[endpoint];
    endpoint.median * libm::exp(Curve::Z95 * endpoint.sigma)
}

fn outage(world: &World, run: &Run, oracle: &Run, event: &Event) -> Option<Outage> {
    let Event { endpoint, from, to, effect } = *event;
    let dead = match effect {
        Effect::Refuses | Effect::Hangs => true,
        Effect::Fails(share) => share >= 1.0,
        _ => false,
    };
    let firsts = Firsts::of(run);
    let former = share(firsts.between(from - BEFORE, from), endpoint);
    if !dead || former < LEAST_SHARE {
        return None;
    }
    let (during, after) = (firsts.between(from, to), firsts.between(to, f64::INFINITY));
    let until = |of: &[&Tried], since: f64, enough: &dyn Fn(f64) -> bool| {
        let mut windows = of.windows(WINDOW);
        windows.find(|window| enough(share(window, endpoint))).map_or(f64::INFINITY, |window| window[0].at - since)
    };
    let is_wanted = share(Firsts::of(oracle).between(to, to + 2.0 * BEFORE), endpoint) >= LEAST_SHARE;
    let is_lost = |attempt: &Tried| attempt.failed.is_some() || attempt.outrun;
    let wasted = || during.iter().filter(|attempt| attempt.endpoint == endpoint && is_lost(attempt));
    let read = wasted().filter_map(|attempt| attempt.failed).fold(f64::INFINITY, f64::min);
    let known = wasted().next().map_or(read, |first| read.min(first.at + usual_most(world, endpoint)));
    Some(Outage {
        after_first: wasted().filter(|attempt| !attempt.probe && attempt.at > read).count(),
        wasted: wasted().count(),
        unaware: wasted().filter(|attempt| attempt.at <= known).count(),
        detected: until(during, from, &|share| share <= 0.5 * former),
        recovered: is_wanted.then(|| until(after, to, &|share| share >= 0.5 * former)),
    })
}

/// The median of these; 0 of none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    let middle = values.len() / 2;
    if values.is_empty() { 0.0 } else { *values.select_nth_unstable_by(middle, f64::total_cmp).1 }
}
