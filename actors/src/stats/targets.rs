//! Whether latency targets are met: what clients saw, window by window, and the margin that follows from it.
//!
//! A target is one bound on one percentile of the time to the first token (`{"p95": 0.8}`), asked for by an alias or by
//! requests, under one objective. [`LatencyTargets`] hears how each request under it ended and answers two questions:
//! how much of the error budget is left, and how much stricter than the bound a decision should be (`decide::wishes`).
//!
//! The margin is a multiplicative controller: a miss raises its logarithm by `gain × p`, a request in time lowers it by
//! `gain × (1 − p)`, so it rests exactly where the share of misses is the allowed one. Predictions that are too
//! hopeful, whatever the cause, are corrected by what came of them. For `cheapest` the margin may fall somewhat below 1:
//! then the budget is spent on endpoints that are nearly good enough. A margin nobody needs fades.

mod window;

use std::time::Duration;

use parking_lot::Mutex;

use self::window::Windows;
use crate::domain::{Objective, Percentile, Preference, Source, Sourced, TargetPolicy, Tick};
pub use window::{Tally, WINDOWS};

/// Targets of requests that are kept; those that were not asked for longest leave first. Values come from callers.
const MOST_ASKED: usize = 64;
/// Targets of aliases that are kept: as many as a configuration sensibly holds.
const MOST_CONFIGURED: usize = 256;
/// After this long without a request a margin has lost half of its logarithm.
const FADING: f64 = 300.0;

/// All targets. Shared by all workers; its lock is held for a short search.
#[derive(Default)]
pub struct LatencyTargets(Mutex<Vec<Target>>);

/// A wish as a request has it: every bound of it is a target.
#[derive(Debug, Clone, Copy)]
pub struct RequestedTarget<'a> {
    /// The alias or model asked for.
    pub name: &'a str,
    /// The objective under which it is held.
    pub objective: Objective,
    /// The bounds, seconds, and who set them.
    pub preference: Sourced<Preference>,
}

/// How long a client waited for its first token, and whether it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstTokenWait {
    /// It came after this long.
    FirstToken(Duration),
    /// The request failed after this long: a miss, whenever it was.
    Failed(Duration),
    /// The client left after this long without one: a miss if the bound had passed, else nobody knows.
    Left(Duration),
}

/// How one target stands.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetReport {
    /// The alias or model it was asked for with.
    pub name: Box<str>,
    /// The objective under which it is held.
    pub objective: Objective,
    /// Whether an alias asks for it, or requests themselves.
    pub source: Source,
    /// Which percentile.
    pub percentile: Percentile,
    /// Its bound.
    pub bound: Duration,
    /// How much stricter than the bound decisions are; below 1: laxer.
    pub margin: f64,
    /// What came of the requests, window by window of [`WINDOWS`].
    pub windows: [Tally; WINDOWS.len()],
}

struct Target {
    name: Box<str>,
    objective: Objective,
    /// Set by an alias: callers cannot push it out.
    configured: bool,
    percentile: Percentile,
    bound: Duration,
    /// Logarithm of the margin, and when it was last moved.
    strain: f64,
    moved: Tick,
    /// When it was last asked for.
    asked: Tick,
    windows: Windows,
}

impl LatencyTargets {
    /// How much stricter than its bounds the wish should be read now: the most any of its targets needs.
    #[must_use]
    pub fn margin(&self, wish: &RequestedTarget<'_>, now: Tick) -> f64 {
        let targets = self.0.lock();
        let strains = wish.bounds().map(|(percentile, bound)| {
            let known = targets.iter().find(|target| target.is(wish, percentile, bound));
            known.map_or(0.0, |target| target.strain_at(now))
        });
        libm::exp(strains.reduce(f64::max).unwrap_or(0.0))
    }

    /// Takes in how a request with that wish ended.
    pub fn observe(&self, wish: &RequestedTarget<'_>, waited: FirstTokenWait, policy: &TargetPolicy, now: Tick) {
        let mut targets = self.0.lock();
        for (percentile, bound) in wish.bounds() {
            let Some(missed) = waited.misses(bound) else { continue };
            let known = targets.iter().position(|target| target.is(wish, percentile, bound));
            let place = known.unwrap_or_else(|| enter(&mut targets, Target::new(wish, percentile, bound, now)));
            if let Some(target) = targets.get_mut(place) {
                target.observe(missed, waited.is_late(bound), policy, now);
            }
        }
    }

    /// How every target stands, those of aliases first, each kind by name, objective, percentile and bound.
    #[must_use]
    pub fn report(&self, now: Tick) -> Vec<TargetReport> {
        let mut reports: Vec<_> = self.0.lock().iter().map(|target| target.report(now)).collect();
        reports.sort_by(|a, b| a.order().cmp(&b.order()));
        reports
    }
}

impl RequestedTarget<'_> {
    /// How its targets stand as long as no request asked for them.
    pub fn unasked(&self) -> impl Iterator<Item = TargetReport> {
        self.bounds()
            .map(|(percentile, bound)| Target::new(self, percentile, bound, Tick::default()).report(Tick::default()))
    }

    /// Its bounds to the millisecond, so that a target is told from another by what anybody can see.
    fn bounds(&self) -> impl Iterator<Item = (Percentile, Duration)> {
        let whole = |seconds: f64| Duration::from_millis((seconds * 1e3).round().clamp(1.0, 1e9) as u64);
        self.preference.value.bounds().map(move |(percentile, seconds)| (percentile, whole(seconds)))
    }

    fn is_configured(&self) -> bool {
        self.preference.source == Source::Alias
    }
}

impl FirstTokenWait {
    /// Whether that misses the bound; `None` when it cannot be told.
    fn misses(self, bound: Duration) -> Option<bool> {
        match self {
            FirstTokenWait::FirstToken(time) => Some(time > bound),
            FirstTokenWait::Failed(_) => Some(true),
            FirstTokenWait::Left(time) => (time > bound).then_some(true),
        }
    }

    /// Whether lateness was the matter; a failure that came at once has other causes than a hopeful prediction.
    fn is_late(self, bound: Duration) -> Option<bool> {
        match self {
            FirstTokenWait::Failed(time) => (time > bound).then_some(true),
            _ => self.misses(bound),
        }
    }
}

/// Adds a target; among those of its kind the one not asked for longest makes room. Gives its place.
fn enter(targets: &mut Vec<Target>, target: Target) -> usize {
    let most = if target.configured { MOST_CONFIGURED } else { MOST_ASKED };
    let kind = |other: &Target| other.configured == target.configured;
    if targets.iter().filter(|other| kind(other)).count() >= most {
        let oldest = targets.iter().enumerate().filter(|(_, other)| kind(other)).min_by_key(|(_, other)| other.asked);
        if let Some((place, _)) = oldest {
            targets.swap_remove(place);
        }
    }
    targets.push(target);
    targets.len() - 1
}

impl Target {
    fn new(wish: &RequestedTarget<'_>, percentile: Percentile, bound: Duration, now: Tick) -> Target {
        Target {
            name: wish.name.into(),
            objective: wish.objective,
            configured: wish.is_configured(),
            percentile,
            bound,
            strain: 0.0,
            moved: now,
            asked: now,
            windows: Windows::default(),
        }
    }

    fn is(&self, wish: &RequestedTarget<'_>, percentile: Percentile, bound: Duration) -> bool {
        self.percentile == percentile
            && self.bound == bound
            && self.objective == wish.objective
            && self.configured == wish.is_configured()
            && *self.name == *wish.name
    }

    /// The logarithm of the margin, faded by the silence since it was moved.
    fn strain_at(&self, now: Tick) -> f64 {
        self.strain * libm::exp2(-now.seconds_since(self.moved) / FADING)
    }

    fn observe(&mut self, missed: bool, late: Option<bool>, policy: &TargetPolicy, now: Tick) {
        self.asked = now;
        self.windows.add(now, missed);
        let Some(late) = late else { return };
        let allowed = self.percentile.missable() * (1.0 - policy.reserve);
        let step = if late { 1.0 - allowed } else { -allowed };
        let most = libm::log(policy.max_margin.max(1.0));
        // Only what is held at least cost gains anything by spending the budget.
        let thrifty = self.objective == Objective::Cheapest;
        let least = if thrifty { libm::log(policy.min_margin.clamp(f64::MIN_POSITIVE, 1.0)) } else { 0.0 };
        self.strain = (self.strain_at(now) + policy.gain * step).clamp(least, most);
        self.moved = now;
    }

    fn report(&self, now: Tick) -> TargetReport {
        TargetReport {
            name: self.name.clone(),
            objective: self.objective,
            source: if self.configured { Source::Alias } else { Source::TopLevel },
            percentile: self.percentile,
            bound: self.bound,
            margin: libm::exp(self.strain_at(now)),
            windows: self.windows.read(now),
        }
    }
}

impl TargetReport {
    fn order(&self) -> (bool, &str, &'static str, Percentile, Duration) {
        let asked = self.source != Source::Alias;
        (asked, &self.name, self.objective.as_str(), self.percentile, self.bound)
    }

    /// Requests that may miss the bound, of those in the window.
    #[must_use]
    pub fn allowed(&self, window: &Tally) -> f64 {
        self.percentile.missable() * window.requests() as f64
    }

    /// The share of the allowed misses that is left: 1 when there was none, below 0 when there were too many;
    /// `None` without a request.
    #[must_use]
    pub fn budget_left(&self, window: &Tally) -> Option<f64> {
        (window.requests() > 0).then(|| 1.0 - window.missed as f64 / self.allowed(window))
    }

    /// How many times faster than allowed the budget is spent; `None` without a request.
    #[must_use]
    pub fn burn_rate(&self, window: &Tally) -> Option<f64> {
        (window.requests() > 0).then(|| window.missed as f64 / self.allowed(window))
    }
}

#[cfg(test)]
mod tests;
