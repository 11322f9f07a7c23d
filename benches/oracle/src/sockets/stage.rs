//! What is played: a world and the clock it is lived by.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use pointsman_domain::{Objective, RoutingPolicy};
use tokio::time::Instant;

use crate::{
    request::Aim,
    rules,
    scenario::{self, Scenario},
    world::{HALF_LIFE as ORDINARY_HALF_LIFE, Span, World},
};

/// Virtual seconds in a real one. A timer is right within a millisecond; first tokens take 8 to 40 of them so.
pub const SPEED: f64 = 15.0;
/// Half-life of the statistics, virtual seconds: half the ordinary one, so that a run of some seconds holds several.
const HALF_LIFE: f64 = 30.0;
/// By what the constants of the routing that are times are shorter, before [`SPEED`].
const SHORTER: f64 = HALF_LIFE / ORDINARY_HALF_LIFE;

/// What is to be shown.
#[derive(Debug, Clone)]
pub struct Show {
    /// Scenarios.
    pub scenarios: Vec<Scenario>,
    /// What to ask for, one in each run.
    pub objectives: Vec<Objective>,
    /// Of the worlds.
    pub seed: u64,
    /// Real seconds of each run.
    pub seconds: f64,
    /// Pointsman's binary.
    pub pointsman: PathBuf,
}

/// One world of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stage {
    /// Which trouble.
    pub scenario: Scenario,
    /// What is asked for.
    pub objective: Objective,
    /// Of the world.
    pub seed: u64,
    /// Real seconds.
    pub seconds: f64,
}

impl Stage {
    /// The same for every process that asks.
    pub fn world(&self) -> World {
        let span = Span { half_life: HALF_LIFE, seconds: self.seconds * SPEED };
        scenario::draw(crate::traffic::Traffic::Poisson, self.scenario, Aim::All(self.objective), self.seed, span)
    }
}

/// The constants of the routing in this world, in virtual time: the simulator's, with a shorter memory.
pub fn policy() -> RoutingPolicy {
    let mut policy = rules::policy();
    policy.stats.half_life = policy.stats.half_life.mul_f64(SHORTER);
    policy.breaker.base = policy.breaker.base.mul_f64(SHORTER);
    policy
}

/// Real time that so many virtual seconds take.
pub fn real(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds / SPEED).unwrap_or_default()
}

/// A clock of virtual seconds that all processes of a run agree on.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts at a moment of the system's clock, in microseconds.
    pub fn starting_at(micros: u64) -> Clock {
        let (now, here) = (micros_now(), Instant::now());
        let ahead = Duration::from_micros(micros.saturating_sub(now));
        let behind = Duration::from_micros(now.saturating_sub(micros));
        Clock { start: (here + ahead).checked_sub(behind).unwrap_or(here) }
    }

    /// Virtual seconds since the start; 0 before.
    pub fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64() * SPEED
    }

    /// The real moment of a virtual one.
    pub fn at(&self, seconds: f64) -> Instant {
        self.start + real(seconds)
    }
}

/// The system's clock, in microseconds.
pub fn micros_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}
