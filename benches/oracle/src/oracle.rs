//! The oracle's run of a world: regret 0.

use pointsman_domain::Objective;

use crate::{
    engine::{self, Run},
    loss::{Losses, losses},
    rules::{Restraint, clairvoyant},
    world::World,
};

/// Runs the clairvoyant through a world; where endpoints queue, with every restraint of its family, and keeps the run
/// that cost least.
#[must_use]
pub fn run(world: &World) -> Run {
    let run = |restraint: Restraint| engine::run(world, &mut *clairvoyant(restraint));
    let plain = run(Restraint::PLAIN);
    if !world.queues() {
        return plain;
    }
    let objectives: Vec<Objective> = Objective::ALL
        .into_iter()
        .filter(|objective| world.requests.iter().any(|r| r.objective == *objective))
        .collect();
    let yardstick = losses(world, &plain.served);
    let mut best = (objectives.len() as f64, plain);
    for restraint in Restraint::family(&objectives) {
        let other = run(restraint);
        let relative = relative(&losses(world, &other.served), &yardstick, &objectives);
        if relative < best.0 {
            best = (relative, other);
        }
    }
    best.1
}

/// The sum over the objectives of what a run lost, as a share of what another did.
fn relative(of: &Losses, to: &Losses, objectives: &[Objective]) -> f64 {
    let sum = |losses: &Losses, objective: Objective| losses[objective as usize].0;
    objectives.iter().map(|objective| sum(of, *objective) / sum(to, *objective)).sum()
}
