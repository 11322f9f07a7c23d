//! All rules in all scenarios: the runs and what they cost. How it is told is in [`crate::sheets`] and
//! [`crate::plot`].

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use pointsman_domain::{Objective, RoutingPolicy};

use crate::{
    engine::{self, Run},
    figures::Figures,
    loss::{Losses, losses},
    oracle,
    request::Aim,
    rules::Kind,
    scenario::Scenario,
    traffic::Traffic,
    world::World,
};

/// What to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Scenarios, in the order of rows.
    pub scenarios: Vec<Scenario>,
    /// Kinds of run, in the order of blocks.
    pub aims: Vec<Aim>,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Where requests come from.
    pub traffic: Traffic,
    /// Rules beside the two anchors, in the order of columns.
    pub rules: Vec<Kind>,
    /// The constants Pointsman runs under.
    pub policy: RoutingPolicy,
}

/// One rule in one scenario, over all seeds.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Which rule.
    pub kind: Kind,
    /// By seed.
    losses: Vec<Losses>,
    /// Over all seeds.
    pub figures: Figures,
}

/// One scenario under one aim.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Which scenario.
    pub scenario: Scenario,
    /// Which objective the requests had.
    pub aim: Aim,
    /// The oracle, random, then the plan's rules.
    pub entries: Vec<Entry>,
}

/// Runs everything, on all cores.
#[must_use]
pub fn run(plan: &Plan) -> Vec<Cell> {
    let cells = plan.aims.iter().flat_map(|aim| plan.scenarios.iter().map(move |scenario| (*scenario, *aim)));
    let jobs: Vec<(Scenario, Aim, u64)> =
        cells.clone().flat_map(|(scenario, aim)| plan.seeds.iter().map(move |seed| (scenario, aim, *seed))).collect();
    let results: Vec<Mutex<Vec<Entry>>> = jobs.iter().map(|_| Mutex::new(Vec::new())).collect();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((job, result)) = pick(&jobs, &results, &next) {
                    let entries = run_one(plan, *job);
                    if let Ok(mut result) = result.lock() {
                        *result = entries;
                    }
                }
            });
        }
    });
    let mut results = results.into_iter().map(|result| result.into_inner().unwrap_or_default());
    let gather = |(scenario, aim)| {
        let entries = results.by_ref().take(plan.seeds.len()).reduce(joined).unwrap_or_default();
        Cell { scenario, aim, entries }
    };
    cells.map(gather).collect()
}

fn pick<'a, J, R>(jobs: &'a [J], results: &'a [R], next: &AtomicUsize) -> Option<(&'a J, &'a R)> {
    let position = next.fetch_add(1, Ordering::Relaxed);
    Some((jobs.get(position)?, results.get(position)?))
}

fn joined(mut all: Vec<Entry>, more: Vec<Entry>) -> Vec<Entry> {
    for (entry, other) in all.iter_mut().zip(more) {
        entry.losses.extend(other.losses);
        entry.figures.add(other.figures);
    }
    all
}

fn run_one(plan: &Plan, (scenario, aim, seed): (Scenario, Aim, u64)) -> Vec<Entry> {
    let world = World::with(plan.traffic, scenario, aim, seed);
    let oracle = oracle::run(&world);
    let entry = |kind: Kind, run: &Run| {
        let figures = Figures::of(&world, run, &oracle);
        Entry { kind, losses: vec![losses(&world, &run.served)], figures }
    };
    let others = [Kind::Random].into_iter().chain(plan.rules.iter().copied());
    let others = others.map(|kind| entry(kind, &engine::run(&world, &mut *kind.rule(&world, &plan.policy))));
    [entry(Kind::Oracle, &oracle)].into_iter().chain(others).collect()
}

impl Cell {
    /// Normalised regret of the entry at a position: over all seeds, so that seeds in which random is hardly worse
    /// than the oracle count for little. Of a mixed run the mean over the four objectives.
    #[must_use]
    pub fn regret(&self, position: usize) -> f64 {
        let objectives: Vec<Objective> = match self.aim {
            Aim::All(objective) => vec![objective],
            Aim::Mixed => Objective::ALL.to_vec(),
        };
        let sum: f64 = objectives.iter().map(|objective| self.regret_of(position, *objective, None)).sum();
        sum / objectives.len() as f64
    }

    /// The same of one seed.
    #[must_use]
    pub fn regret_of(&self, position: usize, objective: Objective, seed: Option<usize>) -> f64 {
        let mean = |entry: &Entry| {
            let seeds = entry.losses.iter().enumerate().filter(|(at, _)| seed.is_none_or(|seed| seed == *at));
            seeds.map(|(_, losses)| losses[objective as usize]).map(|(sum, count)| sum / count.max(1) as f64).sum()
        };
        let (oracle, random, own): (f64, f64, f64) =
            (mean(&self.entries[0]), mean(&self.entries[1]), mean(&self.entries[position]));
        (own - oracle) / (random - oracle)
    }

    /// How much more the entry at one position regrets than that at another, by seed: paired, and relative to how
    /// much worse than the oracle random is over all seeds, so that the mean is the difference of [`Cell::regret`].
    #[must_use]
    pub fn changes(&self, with: usize, without: usize) -> Vec<f64> {
        let objectives: Vec<Objective> = match self.aim {
            Aim::All(objective) => vec![objective],
            Aim::Mixed => Objective::ALL.to_vec(),
        };
        let lost = |position: usize, seed: usize, objective: Objective| {
            let (sum, count) = self.entries[position].losses[seed][objective as usize];
            sum / count.max(1) as f64
        };
        let seeds = self.entries[0].losses.len();
        let change = |seed: usize, objective: Objective| {
            let range: f64 = (0..seeds).map(|seed| lost(1, seed, objective) - lost(0, seed, objective)).sum();
            (lost(without, seed, objective) - lost(with, seed, objective)) * seeds as f64 / range
        };
        let mean = |seed: usize| objectives.iter().map(|objective| change(seed, *objective)).sum::<f64>();
        (0..seeds).map(|seed| mean(seed) / objectives.len() as f64).collect()
    }

    /// How much more the entry at a position lost than the oracle, and how much more random did, per request and seed.
    /// Of a mixed run relative to random, averaged over the objectives, and 1.
    #[must_use]
    pub fn distance(&self, position: usize) -> (f64, f64) {
        let Aim::All(objective) = self.aim else { return (self.regret(position), 1.0) };
        let mean = |entry: &Entry| -> f64 {
            entry
                .losses
                .iter()
                .map(|losses| losses[objective as usize])
                .map(|(sum, count)| sum / count.max(1) as f64)
                .sum()
        };
        let oracle = mean(&self.entries[0]);
        (mean(&self.entries[position]) - oracle, mean(&self.entries[1]) - oracle)
    }

    /// The position of a rule.
    #[must_use]
    pub fn position(&self, kind: Kind) -> Option<usize> {
        self.entries.iter().position(|entry| entry.kind == kind)
    }

    /// The entry of a rule.
    #[must_use]
    pub fn entry(&self, kind: Kind) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.kind == kind)
    }
}

/// Mean and worst regret of a rule over cells; `None` where it did not run.
#[must_use]
pub fn mean_and_worst<'a>(cells: impl IntoIterator<Item = &'a Cell>, kind: Kind) -> Option<(f64, f64)> {
    let regrets = cells.into_iter().map(|cell| Some(cell.regret(cell.position(kind)?)));
    let regrets: Vec<f64> = regrets.collect::<Option<_>>()?;
    let mean = regrets.iter().sum::<f64>() / regrets.len() as f64;
    (!regrets.is_empty()).then(|| (mean, regrets.iter().copied().fold(f64::NEG_INFINITY, f64::max)))
}
