//! Every failure that a caller was shown, one by one: what was tried, and whether a healthy endpoint was there.

use std::fmt::{self, Write};

use crate::{
    engine::{self, Run},
    figures, oracle,
    request::Aim,
    rules::Kind,
    scenario::Scenario,
    table::Plan,
    world::World,
};

/// Runs the plan's first rule and the oracle, and writes the failures of both.
///
/// # Errors
/// None but those of `out`.
pub fn write(plan: &Plan, out: &mut impl Write) -> fmt::Result {
    let kind = plan.rules.first().copied().unwrap_or(Kind::Pointsman);
    for aim in &plan.aims {
        for scenario in &plan.scenarios {
            for seed in &plan.seeds {
                let world = World::with(plan.traffic, *scenario, *aim, *seed);
                let own = engine::run(&world, &mut *kind.rule(&world, &plan.policy));
                for (name, run) in [(kind.name(), &own), ("oracle", &oracle::run(&world))] {
                    each(name, (*scenario, *aim, *seed), &world, run, out)?;
                }
            }
        }
    }
    Ok(())
}

fn each(
    name: &str,
    (scenario, aim, seed): (Scenario, Aim, u64),
    world: &World,
    run: &Run,
    out: &mut impl Write,
) -> fmt::Result {
    for id in figures::shown(run) {
        let (request, served) = (&world.requests[id], &run.served[id]);
        write!(out, "{name} {} {} {seed}: request {id} ", scenario.name(), aim.name())?;
        write!(out, "({}, {}) ", request.objective.as_str(), if request.streamed { "streamed" } else { "plain" })?;
        write!(out, "at {:.1} s, {} endpoints healthy, tried", served.at, served.healthy)?;
        for attempt in run.attempts.iter().filter(|attempt| attempt.request == id) {
            let state = if attempt.healthy { "healthy" } else { "unhealthy" };
            write!(out, " {} ({state}, {:.2} s", attempt.endpoint, attempt.at - served.at)?;
            match attempt.failed {
                Some(failed) => write!(out, " to {:.2} s)", failed - served.at)?,
                None => write!(out, ")")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}
