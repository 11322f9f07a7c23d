//! Decisions made again from nothing but their records: every score bit for bit, the order, the choice.

use std::fmt;

use pointsman_domain::{Decision, RoutingPolicy};
use pointsman_routing::explain::replay;

use crate::{request::Aim, rules, scenario::Scenario, table::Plan, world::World};

/// How many decisions came out as recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replayed {
    /// Decisions.
    pub decisions: usize,
    /// Of these, with no difference.
    pub identical: usize,
}

/// Some came out otherwise.
#[derive(Debug)]
pub struct Differences(Replayed);

/// Takes so many decisions, evenly over all worlds of the plan, and makes them again.
///
/// # Errors
/// Decisions that came out otherwise.
pub fn run(plan: &Plan, decisions: usize) -> Result<Replayed, Differences> {
    let aims = plan.aims.iter().flat_map(|aim| plan.scenarios.iter().map(move |scenario| (*scenario, *aim)));
    let worlds: Vec<(Scenario, Aim, u64)> =
        aims.flat_map(|(scenario, aim)| plan.seeds.iter().map(move |seed| (scenario, aim, *seed))).collect();
    let mut replayed = Replayed::default();
    for (number, (scenario, aim, seed)) in worlds.iter().enumerate() {
        let left = (decisions - replayed.decisions).div_ceil(worlds.len() - number);
        let world = World::with(plan.traffic, *scenario, *aim, *seed);
        let (kept, policy) = rules::decisions(&world, plan.policy.clone(), (world.requests.len() / left.max(1)).max(1));
        for decision in kept.iter().take(left) {
            replayed.decisions += 1;
            replayed.identical += usize::from(is_identical(decision, &policy));
        }
    }
    if replayed.identical == replayed.decisions { Ok(replayed) } else { Err(Differences(replayed)) }
}

/// Whether scores, order, choice and chance come out as recorded.
fn is_identical(decision: &Decision, policy: &RoutingPolicy) -> bool {
    replay(decision, policy).is_identical()
}

impl fmt::Display for Replayed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} of {} decisions identical", self.identical, self.decisions)
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "only {}", self.0)
    }
}

impl std::error::Error for Differences {}
