//! All rules in all scenarios: the runs, and the table of what they cost.

use std::{
    fmt::{self, Write},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use pointsman_actors::domain::{Objective, RoutingPolicy};

use crate::{
    engine::{self, Run},
    figures::{Figures, median},
    loss::{Yardsticks, loss},
    request::Aim,
    rules::Kind,
    scenario::Scenario,
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
    /// Rules beside the two anchors, in the order of columns.
    pub rules: Vec<Kind>,
    /// The constants Pointsman runs under.
    pub policy: RoutingPolicy,
}

/// Mean losses by objective: sum and number.
type Losses = [(f64, usize); 4];

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
    let world = World::draw(scenario, aim, seed);
    let oracle = engine::run(&world, &mut *Kind::Oracle.rule(&world, &plan.policy));
    let entry = |kind: Kind, run: &Run| {
        let figures = Figures::of(&world, run, &oracle);
        Entry { kind, losses: vec![losses(&world, run)], figures }
    };
    let others = [Kind::Random].into_iter().chain(plan.rules.iter().copied());
    let others = others.map(|kind| entry(kind, &engine::run(&world, &mut *kind.rule(&world, &plan.policy))));
    [entry(Kind::Oracle, &oracle)].into_iter().chain(others).collect()
}

/// The losses of a run, by objective.
#[must_use]
pub fn losses(world: &World, run: &Run) -> Losses {
    let mut losses = Losses::default();
    for (request, served) in world.requests.iter().zip(&run.served) {
        let yardsticks = Yardsticks::of(world, request, f64::from(request.answer));
        let (sum, count) = &mut losses[request.objective as usize];
        *sum += loss(request.objective, served, &yardsticks);
        *count += 1;
    }
    losses
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

    /// The position of a rule.
    #[must_use]
    pub fn position(&self, kind: Kind) -> Option<usize> {
        self.entries.iter().position(|entry| entry.kind == kind)
    }
}

/// The table as text: a block per aim with the regret of every rule, then Pointsman's other figures.
///
/// # Errors
/// None but those of `out`.
pub fn write(plan: &Plan, cells: &[Cell], out: &mut impl Write) -> fmt::Result {
    let seeds = (plan.seeds.first().copied().unwrap_or(0), plan.seeds.last().copied().unwrap_or(0));
    writeln!(out, "Normalised regret (0 = oracle, 1 = random), seeds {} to {}.", seeds.0, seeds.1)?;
    for aim in &plan.aims {
        let block: Vec<&Cell> = cells.iter().filter(|cell| cell.aim == *aim).collect();
        write_regrets(*aim, &block, out)?;
        if plan.rules.contains(&Kind::Pointsman) {
            write_figures(*aim, &block, out)?;
        }
    }
    Ok(())
}

fn write_regrets(aim: Aim, block: &[&Cell], out: &mut impl Write) -> fmt::Result {
    let Some(first) = block.first() else { return Ok(()) };
    write!(out, "\n{:<12}", aim.name())?;
    for entry in &first.entries[2..] {
        write!(out, "{:>13}", entry.kind.name())?;
    }
    writeln!(out)?;
    for cell in block {
        write!(out, "{:<12}", cell.scenario.name())?;
        (2..cell.entries.len()).try_for_each(|position| write!(out, "{:>13.3}", cell.regret(position)))?;
        writeln!(out)?;
    }
    let all = |position: usize| block.iter().map(move |cell| cell.regret(position));
    write!(out, "{:<12}", "mean")?;
    (2..first.entries.len())
        .try_for_each(|position| write!(out, "{:>13.3}", all(position).sum::<f64>() / block.len() as f64))?;
    write!(out, "\n{:<12}", "worst")?;
    (2..first.entries.len())
        .try_for_each(|position| write!(out, "{:>13.3}", all(position).fold(f64::NEG_INFINITY, f64::max)))?;
    writeln!(out)
}

fn write_figures(aim: Aim, block: &[&Cell], out: &mut impl Write) -> fmt::Result {
    writeln!(
        out,
        "\n{:<12}{:>8}{:>10}{:>9}{:>10}{:>8}{:>10}{:>11}{:>8}{:>8}{:>8}{:>8}",
        format!("{}:", aim.name()),
        "shown",
        "attempts",
        "hedges",
        "after 1st",
        "wasted",
        "detect s",
        "recover s",
        "|ft|",
        "|total|",
        "ft<95",
        "tot<95"
    )?;
    for cell in block {
        let Some(position) = cell.position(Kind::Pointsman) else { continue };
        let figures = &cell.entries[position].figures;
        let share = |(within, of): (usize, usize)| 100.0 * within as f64 / of.max(1) as f64;
        write!(
            out,
            "{:<12}{:>8}{:>10.3}{:>9}",
            cell.scenario.name(),
            figures.shown,
            figures.attempts_per_request(),
            figures.hedges
        )?;
        write_outages(figures, out)?;
        writeln!(
            out,
            "{:>8.2}{:>8.2}{:>8.1}{:>8.1}",
            median(&figures.first),
            median(&figures.total),
            share(figures.first_within),
            share(figures.total_within)
        )?;
    }
    Ok(())
}

fn write_outages(figures: &Figures, out: &mut impl Write) -> fmt::Result {
    let outages = &figures.outages;
    if outages.is_empty() {
        return write!(out, "{:>10}{:>8}{:>10}{:>11}", "-", "-", "-", "-");
    }
    let most = |of: fn(&crate::figures::Outage) -> usize| outages.iter().map(of).max().unwrap_or(0);
    let typical = |of: fn(&crate::figures::Outage) -> Option<f64>| {
        let times: Vec<f64> = outages.iter().filter_map(of).collect();
        median(&times)
    };
    write!(
        out,
        "{:>10}{:>8}{:>10.1}{:>11.1}",
        most(|outage| outage.after_first),
        most(|outage| outage.wasted),
        typical(|outage| Some(outage.detected)),
        typical(|outage| outage.recovered)
    )
}
