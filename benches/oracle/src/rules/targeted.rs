//! Latency targets: Pointsman's core under one, and a clairvoyant that holds it at least cost.

use std::{collections::HashMap, time::Duration};

use pointsman_domain::{Objective, Preference, RoutingPolicy, Source, Sourced};
use pointsman_routing::stats::{FirstTokenWait, LatencyTargets, RequestedTarget};

use super::core::{Core, MODEL, Without, tick};
use crate::{
    measured::times,
    rule::{Ask, Begin, Calibration, Late, News, Patience, Report, Rule},
    world::{Fate, World},
};

/// The core under a target of an alias: the margin is read before a decision and the wait recorded at the end, as the server does.
pub struct Targeted {
    core: Core,
    targets: LatencyTargets,
    preference: Sourced<Preference>,
    objective: Objective,
    waits: HashMap<usize, Wait>,
}

/// A request under way.
#[derive(Clone, Copy, Default)]
struct Wait {
    since: f64,
    first_token: Option<f64>,
    now: f64,
    completed: bool,
}

impl Targeted {
    /// Without any history.
    #[must_use]
    pub fn new(world: &World, policy: RoutingPolicy, preference: Preference, objective: Objective) -> Targeted {
        let preference = Sourced { value: preference, source: Source::Alias };
        let mut core = Core::new(world, policy, Without::Nothing);
        core.query.routing_mut().preferred_max_latency = Some(preference);
        Targeted { core, targets: LatencyTargets::default(), preference, objective, waits: HashMap::new() }
    }

    fn requested(&self) -> RequestedTarget<'static> {
        RequestedTarget { name: MODEL, objective: self.objective, preference: self.preference }
    }
}

impl Rule for Targeted {
    fn choose(&mut self, ask: &Ask<'_>) -> Vec<usize> {
        self.core.query.latency_margin = self.targets.margin(&self.requested(), tick(ask.now));
        self.waits.insert(ask.request.id, Wait { since: ask.now, now: ask.now, ..Wait::default() });
        self.core.choose(ask)
    }

    fn begin(&mut self, attempt: &Begin<'_>) -> Option<Patience> {
        self.core.begin(attempt)
    }

    fn may_race(&mut self, request: usize, endpoint: usize, attempts: u32, late: Late) -> bool {
        self.core.may_race(request, endpoint, attempts, late)
    }

    fn may_go_on(&self, request: usize, endpoint: usize, attempts: u32) -> bool {
        self.core.may_go_on(request, endpoint, attempts)
    }

    fn heard(&mut self, report: &Report<'_>) {
        if let Some(wait) = self.waits.get_mut(&report.request.id) {
            wait.now = report.now;
            match report.news {
                News::FirstToken => wait.first_token = wait.first_token.or(Some(report.now - wait.since)),
                News::Completed => wait.completed = true,
                News::Began | News::Failed { .. } | News::Cancelled => {}
            }
        }
        self.core.heard(report);
    }

    fn ended(&mut self, request: usize) {
        if let Some(wait) = self.waits.remove(&request) {
            let time = Duration::from_secs_f64(wait.first_token.unwrap_or(wait.now - wait.since));
            let waited = if wait.completed { FirstTokenWait::FirstToken(time) } else { FirstTokenWait::Failed(time) };
            self.targets.observe(&self.requested(), waited, &self.core.policy.targets, tick(wait.now));
        }
        self.core.ended(request);
    }

    fn calibration(&self) -> Option<&Calibration> {
        self.core.calibration()
    }
}

/// It knows the distribution of every endpoint in every part of a run: the best by objective of those that hold the target alone
/// goes first, the others follow by how often their first tokens are in time.
pub struct Holder {
    /// By part.
    orders: Vec<Vec<usize>>,
    part_seconds: f64,
    able: bool,
}

impl Holder {
    /// For a world of measured calls; a share of `least` of its first tokens within `bound` seconds is what holds the target.
    #[must_use]
    pub fn new(world: &World, least: f64, bound: f64, objective: Objective) -> Holder {
        let mut able = true;
        let mut order = |calls: &Vec<Vec<Fate>>| {
            let in_time: Vec<f64> = calls.iter().map(|calls| in_time(calls, bound)).collect();
            let worth = worths(world, calls, objective);
            let mut order: Vec<usize> = (0..calls.len()).collect();
            order.sort_by(|a, b| in_time[*b].total_cmp(&in_time[*a]));
            let holds = |endpoint: &usize| in_time[*endpoint] >= least;
            let best = order.iter().copied().filter(holds).min_by(|a, b| worth[*a].total_cmp(&worth[*b]));
            able &= best.is_some();
            if let Some(best) = best {
                order.retain(|endpoint| *endpoint != best);
                order.insert(0, best);
            }
            order
        };
        Holder {
            orders: world.calls.iter().map(&mut order).collect(),
            part_seconds: world.span.seconds / world.calls.len().max(1) as f64,
            able,
        }
    }

    /// Whether in every part of the run some endpoint holds the target.
    #[must_use]
    pub fn is_able(&self) -> bool {
        self.able
    }
}

impl Rule for Holder {
    fn choose(&mut self, ask: &Ask<'_>) -> Vec<usize> {
        let part = ((ask.now / self.part_seconds) as usize).min(self.orders.len().saturating_sub(1));
        self.orders[part].clone()
    }
}

/// Share of calls whose first token comes within a bound.
#[must_use]
pub fn in_time(calls: &[Fate], bound: f64) -> f64 {
    calls.iter().filter(|fate| times(fate).0 <= bound).count() as f64 / calls.len().max(1) as f64
}

/// What an objective minds of each endpoint: dollars, or dollars and mean seconds by their medians.
fn worths(world: &World, calls: &[Vec<Fate>], objective: Objective) -> Vec<f64> {
    let costs: Vec<f64> = world.endpoints.iter().map(|endpoint| endpoint.price_in).collect();
    if objective != Objective::Balanced {
        return costs;
    }
    let seconds = |calls: &Vec<Fate>| {
        let answered = || calls.iter().map(|fate| times(fate).1).filter(|total| total.is_finite());
        answered().sum::<f64>() / answered().count().max(1) as f64
    };
    let seconds: Vec<f64> = calls.iter().map(seconds).collect();
    let (time, cost) = (median(&seconds), median(&costs));
    seconds.iter().zip(&costs).map(|(seconds, dollars)| seconds / time + dollars / cost).collect()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
