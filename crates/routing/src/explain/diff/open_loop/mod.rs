//! Recorded traffic run through the statistics, breakers and paces of two configurations, so that decisions follow from them: for
//! keys that work over time, which no single record answers.
//!
//! [`OpenLoop`] takes the records in the order of admission. The attempts that they hold ([`attempt`]) happen again, at the times at
//! which they happened, in two worlds ([`world`]): one under the configuration before, one under that after. Each decision is
//! made in both. The loop is open because the attempts stay as recorded: what an endpoint would have answered to other requests
//! is not known. [`Nearness`] says how near the first world comes to what was recorded.

mod attempt;
mod kept;
mod nearness;
mod world;

use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeSet, BinaryHeap},
    sync::Arc,
    time::Duration,
};

use pointsman_domain::{Decision, Generation, Query, RoutingPolicy, Tick};

use self::{
    attempt::{Attempt, WaitEnd},
    kept::KeptFigures,
    world::World,
};
use super::{
    calibration::Calibration,
    comparison::{Comparison, Redecided, figures},
    remake::{Grade, Planned},
};

pub use nearness::Nearness;

/// A process that starts has earlier ticks than its predecessor had: by more than this, as records may be out of order by less.
const RESTARTED_US: u64 = 10_000_000;

/// Both worlds, and what has yet to happen in them.
pub struct OpenLoop {
    worlds: Option<[World; 2]>,
    kept: KeptFigures,
    steps: BinaryHeap<Reverse<Step>>,
    /// Steps and attempts so far, for their numbers.
    count: u64,
    /// Tick of the last record in its own process.
    process: Tick,
    nearness: Nearness,
}

/// A record, and who asked.
#[derive(Debug, Clone, Copy)]
pub struct Admitted<'r> {
    /// The record.
    pub generation: &'r Generation,
    /// The account, or a number in its place.
    pub caller: u64,
    /// Whether its decision is wanted, or only what its attempts tell.
    pub is_wanted: bool,
}

/// Something that happens in both worlds.
struct Step {
    at: Tick,
    number: u64,
    what: What,
}

enum What {
    Dispatched(Arc<Attempt>),
    FirstToken(Arc<Attempt>),
    Ended(Arc<Attempt>),
    Waited(Box<WaitEnd>),
}

impl OpenLoop {
    /// Before the first record.
    #[must_use]
    pub fn new() -> OpenLoop {
        OpenLoop {
            worlds: None,
            kept: KeptFigures::default(),
            steps: BinaryHeap::new(),
            count: 0,
            process: Tick::default(),
            nearness: Nearness::default(),
        }
    }

    /// Takes the next record in the order of admission. Gives its decision in both worlds if that is wanted, and if the request
    /// can be read under both configurations.
    pub fn step(
        &mut self,
        admitted: Admitted<'_>,
        comparison: &Comparison,
        calibration: &Calibration,
    ) -> Option<Redecided> {
        let Admitted { generation, caller, is_wanted } = admitted;
        let admission = Tick(u64::try_from(generation.created_ms).unwrap_or_default().saturating_mul(1_000));
        // A request that waited for an endpoint was decided again then.
        let now = admission.plus(Duration::from_millis(generation.waited.map_or(0, |waited| waited.ms)));
        self.follow(comparison, &generation.decision);
        self.happen(now);
        self.kept.learn(&generation.decision);
        // Also the others tell how near the loop is.
        let made = self.decide(generation, comparison, now);
        self.enter(generation, caller, admission);
        let [from, to] = made.filter(|_| is_wanted)?;
        Some(redecided(&from, &to, comparison, calibration))
    }

    /// How near the first world comes to what was recorded, so far.
    #[must_use]
    pub const fn nearness(&self) -> &Nearness {
        &self.nearness
    }

    /// Both worlds take the configurations that belong to a record.
    fn follow(&mut self, comparison: &Comparison, decision: &Decision) {
        let has_restarted = decision.tick.0.saturating_add(RESTARTED_US) < self.process.0;
        self.process = if has_restarted { decision.tick } else { self.process.max(decision.tick) };
        let sides = comparison.sides();
        let worlds = self.worlds.get_or_insert_with(|| sides.each_ref().map(World::new));
        for (world, side) in worlds.iter_mut().zip(sides) {
            world.follow(side);
            if has_restarted {
                world.restart();
            }
        }
    }

    /// Everything up to `now` happens.
    fn happen(&mut self, now: Tick) {
        let Some(worlds) = &mut self.worlds else { return };
        while self.steps.peek().is_some_and(|Reverse(step)| step.at <= now) {
            let Some(Reverse(step)) = self.steps.pop() else { return };
            for world in worlds.iter_mut() {
                match &step.what {
                    What::Dispatched(attempt) => world.dispatched(attempt, step.at),
                    What::FirstToken(attempt) => world.first_token(attempt, step.at),
                    What::Ended(attempt) => world.ended(attempt, step.at),
                    What::Waited(wait) => world.waited(wait, step.at),
                }
            }
        }
    }

    /// The attempts that are planned in both worlds; none where no endpoint can serve.
    fn decide(&mut self, generation: &Generation, comparison: &Comparison, now: Tick) -> Option<[Vec<Planned>; 2]> {
        let [before, after] = self.worlds.as_mut()?;
        before.publish(now, &mut self.kept, true);
        after.publish(now, &mut self.kept, false);
        let margins = [&*before, &*after].map(|world| world.margin(generation, now));
        let [was, is] = comparison.queries(generation);
        let was = was.map(|query| before.decide(open(query, before.policy()), generation, now));
        let is = is.map(|query| {
            // At the first record both margins are 1, while that of the record is not.
            let latency_margin = query.latency_margin * margins[1] / margins[0];
            after.decide(open(Query { latency_margin, ..query }, after.policy()), generation, now)
        });
        let made = [was, is].map(|made| made.and_then(Result::ok));
        self.nearness.add(&generation.decision, made[0].as_ref(), &self.kept);
        Some(made.map(|made| plan(made.as_ref())))
    }

    /// The attempts of a record will happen.
    fn enter(&mut self, generation: &Generation, caller: u64, admission: Tick) {
        for record in &generation.attempts {
            self.count += 1;
            let Some(attempt) = Attempt::new(generation, record, (self.count, caller), admission) else {
                self.nearness.unplaced += 1;
                continue;
            };
            self.nearness.attempts += 1;
            let attempt = Arc::new(attempt);
            self.push(attempt.dispatched, What::Dispatched(Arc::clone(&attempt)));
            if let Some(at) = attempt.first_token {
                self.push(at, What::FirstToken(Arc::clone(&attempt)));
            }
            self.push(attempt.ended, What::Ended(attempt));
        }
        if let Some(wait) = WaitEnd::new(generation, admission) {
            self.push(wait.at, What::Waited(Box::new(wait)));
        }
    }

    fn push(&mut self, at: Tick, what: What) {
        self.count += 1;
        self.steps.push(Reverse(Step { at, number: self.count, what }));
    }
}

impl Default for OpenLoop {
    fn default() -> OpenLoop {
        OpenLoop::new()
    }
}

fn redecided(from: &[Planned], to: &[Planned], comparison: &Comparison, calibration: &Calibration) -> Redecided {
    let choices = [from, to].map(|plan| plan.first().map(|first| first.endpoint));
    // Nothing was ever observed of an endpoint that is new.
    let is_new = choices[1].is_some_and(|to| !comparison.was_there(to));
    Redecided {
        grade: if is_new { Grade::None } else { Grade::OpenLoop },
        from: choices[0],
        to: choices[1],
        scores: [from, to].map(|plan| plan.first().map_or(f64::NAN, |first| first.score)),
        before: figures(from.iter(), calibration),
        after: figures(to.iter(), calibration),
        cost_ranges: [None; 2],
        unmeasured: BTreeSet::new(),
        is_priced_otherwise: false,
        reason: comparison.only_change().filter(|_| choices[0] != choices[1]).unwrap_or_default(),
        repriced: None,
    }
}

/// A request as a policy reads it: without a conversation that it does not keep, and without draws at random, whose safe set is not
/// the recorded one.
fn open(mut query: Query, policy: &RoutingPolicy) -> Query {
    query.exploration.share = 0.0;
    let sticky = &policy.sticky;
    query.sticky = query.sticky.filter(|_| sticky.enabled && query.prompt_tokens >= sticky.min_prompt_tokens);
    query
}

/// The attempts of a decision, in order.
fn plan(made: Option<&Decision>) -> Vec<Planned> {
    let attempts = made.map_or(0, |made| made.max_attempts.max(1) as usize);
    made.into_iter().flat_map(|made| &made.candidates).take(attempts).map(Planned::of_candidate).collect()
}

impl PartialEq for Step {
    fn eq(&self, other: &Step) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Step {}

impl PartialOrd for Step {
    fn partial_cmp(&self, other: &Step) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Step {
    fn cmp(&self, other: &Step) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}
