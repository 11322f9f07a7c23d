//! Latency targets: attainment by time window, and the margin that follows from it.
//!
//! A target is one bound on one percentile of the time to the first token (`{"p95": 0.8}`), set by an alias or by
//! requests, under one objective. [`LatencyTargets`] records how each request under it ended. It reports the error
//! budget left, and the margin by which decisions read the bound stricter (`decide::preferences`).
//!
//! The margin is a multiplicative controller: a miss raises its logarithm by `gain × p`, a request in time lowers it
//! by `gain × (1 − p)`, so it settles where the share of misses is the allowed one. That corrects predictions that are
//! too low, whatever the cause. For `cheapest` the margin may fall somewhat below 1; the budget is then spent on
//! cheaper endpoints. An unused margin decays.

mod window;

use std::time::Duration;

use parking_lot::Mutex;
use pointsman_domain::{
    AttemptRecord, FailureKind, Generation, GenerationStatus, Objective, Percentile, Preference, Source, Sourced,
    TargetPolicy, Tick,
};

use self::window::TargetWindows;

pub use window::{DAY_SLOT, Tally, WINDOWS};

/// Targets of requests that are kept; the least recently used is dropped first. Callers choose their values.
const MOST_ASKED: usize = 64;
/// Targets of aliases that are kept, above what a configuration sensibly holds.
const MOST_CONFIGURED: usize = 256;
/// Half-life of the logarithm of an unused margin.
const FADING: f64 = 300.0;

/// All targets. Shared by all workers; the lock is held for a short search.
#[derive(Default)]
pub struct LatencyTargets(Mutex<Vec<Target>>);

/// The preferred latency of a request: each of its bounds is a target.
#[derive(Debug, Clone, Copy)]
pub struct RequestedTarget<'a> {
    /// The requested alias or model.
    pub name: &'a str,
    /// The objective of the request.
    pub objective: Objective,
    /// The bounds in seconds, and their source.
    pub preference: Sourced<Preference>,
}

/// How long a client waited for its first token, and how the wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstTokenWait {
    /// The token came after this time.
    FirstToken(Duration),
    /// The request failed after this time: always a miss.
    Failed(Duration),
    /// The client left after this time: a miss if the bound had passed, else not counted.
    Left(Duration),
}

/// Report of one target.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetReport {
    /// The requested alias or model.
    pub name: Box<str>,
    /// The objective of the requests.
    pub objective: Objective,
    /// Whether an alias or requests set it.
    pub source: Source,
    /// The percentile.
    pub percentile: Percentile,
    /// The bound.
    pub bound: Duration,
    /// Factor by which decisions read the bound stricter (above 1) or laxer (below 1).
    pub margin: f64,
    /// Counts of requests for each of [`WINDOWS`].
    pub windows: [Tally; WINDOWS.len()],
    /// The last day in slots of [`DAY_SLOT`], oldest first.
    pub day: Vec<Tally>,
}

struct Target {
    name: Box<str>,
    objective: Objective,
    /// Set by an alias, so that targets of callers cannot displace it.
    configured: bool,
    percentile: Percentile,
    bound: Duration,
    /// Logarithm of the margin, and its last change.
    ln_margin: f64,
    moved: Tick,
    /// When a request last used it.
    asked: Tick,
    windows: TargetWindows,
}

impl LatencyTargets {
    /// The margin for a request now: the highest of its targets.
    pub fn margin(&self, requested: &RequestedTarget<'_>, now: Tick) -> f64 {
        let targets = self.0.lock();
        let ln_margins = requested.bounds().map(|(percentile, bound)| {
            let known = targets.iter().find(|target| target.is(requested, percentile, bound));
            known.map_or(0.0, |target| target.ln_margin_at(now))
        });
        libm::exp(ln_margins.reduce(f64::max).unwrap_or(0.0))
    }

    /// Records how a request ended.
    pub fn observe(&self, requested: &RequestedTarget<'_>, waited: FirstTokenWait, policy: &TargetPolicy, now: Tick) {
        let mut targets = self.0.lock();
        for (percentile, bound) in requested.bounds() {
            let Some(missed) = waited.misses(bound) else { continue };
            let known = targets.iter().position(|target| target.is(requested, percentile, bound));
            let position = known.unwrap_or_else(|| enter(&mut targets, Target::new(requested, percentile, bound, now)));
            if let Some(target) = targets.get_mut(position) {
                target.observe(missed, waited.is_late(bound), policy, now);
            }
        }
    }

    /// Reports of all targets: those of aliases first, then by name, objective, percentile and bound.
    pub fn report(&self, now: Tick) -> Vec<TargetReport> {
        let mut reports: Vec<_> = self.0.lock().iter().map(|target| target.report(now)).collect();
        reports.sort_by(|a, b| a.order().cmp(&b.order()));
        reports
    }
}

impl RequestedTarget<'_> {
    /// Reports of its targets as long as no request used them.
    pub fn unasked(&self) -> impl Iterator<Item = TargetReport> {
        self.bounds()
            .map(|(percentile, bound)| Target::new(self, percentile, bound, Tick::default()).report(Tick::default()))
    }

    /// Its bounds, rounded to the milliseconds that are shown.
    fn bounds(&self) -> impl Iterator<Item = (Percentile, Duration)> {
        let whole = |seconds: f64| Duration::from_millis((seconds * 1e3).round().clamp(1.0, 1e9) as u64);
        self.preference.value.bounds().map(move |(percentile, seconds)| (percentile, whole(seconds)))
    }

    fn is_configured(&self) -> bool {
        self.preference.source == Source::Alias
    }
}

impl FirstTokenWait {
    /// The wait of an ended generation that took `elapsed`; `None` while it runs, and where the request itself was wrong,
    /// so that no endpoint could have met a target.
    pub fn of(record: &Generation, elapsed: Duration) -> Option<FirstTokenWait> {
        let first_token = record.latency_ms.map(Duration::from_millis);
        match record.status {
            GenerationStatus::Completed => Some(FirstTokenWait::FirstToken(first_token.unwrap_or(elapsed))),
            GenerationStatus::Failed | GenerationStatus::Truncated => {
                (!is_clients_mistake(record)).then(|| FirstTokenWait::Failed(first_token.unwrap_or(elapsed)))
            }
            GenerationStatus::Cancelled => {
                Some(first_token.map_or(FirstTokenWait::Left(elapsed), FirstTokenWait::FirstToken))
            }
            GenerationStatus::Running => None,
        }
    }

    /// Whether it misses the bound; `None` if that is unknown.
    fn misses(self, bound: Duration) -> Option<bool> {
        match self {
            FirstTokenWait::FirstToken(time) => Some(time > bound),
            FirstTokenWait::Failed(_) => Some(true),
            FirstTokenWait::Left(time) => (time > bound).then_some(true),
        }
    }

    /// Whether a late prediction can be the cause. A failure before the bound has other causes.
    fn is_late(self, bound: Duration) -> Option<bool> {
        match self {
            FirstTokenWait::Failed(time) => (time > bound).then_some(true),
            _ => self.misses(bound),
        }
    }
}

/// Whether an ended generation missed one of its latency targets. Plain answers show no first token, so they have none.
pub fn missed_target(record: &Generation) -> bool {
    let decision = &record.decision;
    let Some(preference) = decision.parameters.preferred_max_latency.filter(|_| record.streamed) else { return false };
    let ends = record.attempts.iter().map(|attempt| attempt.started_ms.saturating_add(attempt.duration_ms));
    let elapsed = Duration::from_millis(ends.max().unwrap_or_default());
    let Some(waited) = FirstTokenWait::of(record, elapsed) else { return false };
    let requested = RequestedTarget { name: "", objective: decision.objective.value, preference };
    requested.bounds().any(|(_, bound)| waited.misses(bound) == Some(true))
}

/// Whether the first output of the attempt that served came later than its predicted 95th percentile. A plain answer shows no
/// first token, and an attempt without measurements has no prediction to be held to.
pub fn slower_than_predicted(record: &Generation) -> bool {
    let Some(served) = record.attempts.iter().rfind(|attempt| attempt.served && record.streamed) else { return false };
    let mut plan = record.decision.plan();
    let predicted = plan.find(|candidate| candidate.index == served.endpoint).map(|candidate| candidate.predicted);
    let seconds = served.first_token_ms.map(|millis| millis as f64 / 1e3);
    predicted
        .filter(|predicted| predicted.measured)
        .zip(seconds)
        .is_some_and(|(predicted, actual)| actual > predicted.first_token_p95)
}

/// Whether the request failed because of its content.
fn is_clients_mistake(record: &Generation) -> bool {
    use FailureKind::{BadRequest, ContextLength, TooLarge, Unprocessable};
    let decisive =
        record.attempts.iter().rfind(|attempt| attempt.error_type.as_deref() != Some(AttemptRecord::LOST_RACE));
    let last = decisive.and_then(|attempt| attempt.error_type.as_deref());
    last.is_some_and(|error| {
        [BadRequest, ContextLength, TooLarge, Unprocessable].iter().any(|kind| kind.as_str() == error)
    })
}

/// Adds a target and returns its position. At the limit it replaces the least recently used one of its kind.
fn enter(targets: &mut Vec<Target>, target: Target) -> usize {
    let most = if target.configured { MOST_CONFIGURED } else { MOST_ASKED };
    let kind = |other: &Target| other.configured == target.configured;
    if targets.iter().filter(|other| kind(other)).count() >= most {
        let oldest = targets.iter().enumerate().filter(|(_, other)| kind(other)).min_by_key(|(_, other)| other.asked);
        if let Some((position, _)) = oldest {
            targets.swap_remove(position);
        }
    }
    targets.push(target);
    targets.len() - 1
}

impl Target {
    fn new(requested: &RequestedTarget<'_>, percentile: Percentile, bound: Duration, now: Tick) -> Target {
        Target {
            name: requested.name.into(),
            objective: requested.objective,
            configured: requested.is_configured(),
            percentile,
            bound,
            ln_margin: 0.0,
            moved: now,
            asked: now,
            windows: TargetWindows::default(),
        }
    }

    fn is(&self, requested: &RequestedTarget<'_>, percentile: Percentile, bound: Duration) -> bool {
        self.percentile == percentile
            && self.bound == bound
            && self.objective == requested.objective
            && self.configured == requested.is_configured()
            && *self.name == *requested.name
    }

    /// Logarithm of the margin, decayed since its last change.
    fn ln_margin_at(&self, now: Tick) -> f64 {
        self.ln_margin * libm::exp2(-now.seconds_since(self.moved) / FADING)
    }

    fn observe(&mut self, missed: bool, late: Option<bool>, policy: &TargetPolicy, now: Tick) {
        self.asked = now;
        self.windows.add(now, missed);
        let Some(late) = late else { return };
        let allowed = self.percentile.missable() * (1.0 - policy.reserve);
        let step = if late { 1.0 - allowed } else { -allowed };
        let most = libm::log(policy.max_margin.max(1.0));
        // Only `cheapest` gains by spending the budget.
        let thrifty = self.objective == Objective::Cheapest;
        let least = if thrifty { libm::log(policy.min_margin.clamp(f64::MIN_POSITIVE, 1.0)) } else { 0.0 };
        self.ln_margin = (self.ln_margin_at(now) + policy.gain * step).clamp(least, most);
        self.moved = now;
    }

    fn report(&self, now: Tick) -> TargetReport {
        TargetReport {
            name: self.name.clone(),
            objective: self.objective,
            source: if self.configured { Source::Alias } else { Source::TopLevel },
            percentile: self.percentile,
            bound: self.bound,
            margin: libm::exp(self.ln_margin_at(now)),
            windows: self.windows.read(now),
            day: self.windows.day(now),
        }
    }
}

impl TargetReport {
    fn order(&self) -> (bool, &str, &'static str, Percentile, Duration) {
        let asked = self.source != Source::Alias;
        (asked, &self.name, self.objective.as_str(), self.percentile, self.bound)
    }

    /// Allowed misses in the window.
    pub fn allowed(&self, window: &Tally) -> f64 {
        self.percentile.missable() * window.requests() as f64
    }

    /// Share of the allowed misses that is left: 1 without misses, below 0 if there were too many; `None` without a
    /// request.
    pub fn budget_left(&self, window: &Tally) -> Option<f64> {
        (window.requests() > 0).then(|| 1.0 - window.missed as f64 / self.allowed(window))
    }

    /// How many times faster than allowed misses happen; `None` without a request.
    pub fn burn_rate(&self, window: &Tally) -> Option<f64> {
        (window.requests() > 0).then(|| window.missed as f64 / self.allowed(window))
    }
}

#[cfg(test)]
mod tests;
