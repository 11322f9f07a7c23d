//! All rules through the same world, once over sockets and once in the simulator.
//!
//! Over sockets they run at the same time, each with providers of its own: they hardly use the machine, and whatever
//! else disturbs it disturbs all of them.

use std::{ffi::OsString, fmt::Write as _, io, net::SocketAddr};

use pointsman_domain::Objective;

use super::{
    child::Process,
    driver::{Way, drive},
    gateway::Gateway,
    provider::Entry,
    stage::{Show, Stage, micros_now, policy},
};
use crate::{
    engine::{self, Run},
    loss::{Served, losses},
    oracle,
    rules::Kind,
    sheet::Sheet,
    world::{ENDPOINTS, World},
};

/// Who takes part: the anchors, Pointsman, and what the field does.
const KINDS: [Kind; 7] =
    [Kind::Oracle, Kind::Random, Kind::Pointsman, Kind::Greedy, Kind::LastTen, Kind::PeakEwma, Kind::Price];
/// Microseconds from the moment everybody is told to the start of the world.
const COUNTDOWN: u64 = 300_000;
/// Rules whose simulated regrets are closer than this have no order that a single run could show.
const TIE: f64 = 0.05;

/// What came out.
#[derive(Debug)]
pub struct Outcome {
    /// A table per scenario, and one over all.
    pub sheets: Vec<Sheet>,
    /// Failures that callers of Pointsman were shown.
    pub shown: usize,
    /// Orders against another rule that were the simulator's, of all.
    pub as_simulated: (usize, usize),
}

/// How one rule did.
struct Score {
    kind: Kind,
    simulated: f64,
    measured: f64,
    shown: usize,
}

/// Runs everything. `progress` is told before each world.
///
/// # Errors
/// Processes that cannot be started, sockets that cannot be had.
pub fn run(show: &Show, progress: &mut dyn FnMut(&str)) -> io::Result<Outcome> {
    let title = format!("Over sockets, seed {}, {} s per run", show.seed, show.seconds);
    let header = ["scenario", "requests", "failures shown by Pointsman", "orders as simulated"];
    let mut summary = Sheet::new(title, header);
    let mut outcome = Outcome { sheets: Vec::new(), shown: 0, as_simulated: (0, 0) };
    for objective in &show.objectives {
        for scenario in &show.scenarios {
            let stage = Stage { scenario: *scenario, objective: *objective, seed: show.seed, seconds: show.seconds };
            let name = format!("{}, {}", scenario.name(), objective.as_str());
            progress(&name);
            let scores = scores(show, &stage)?;
            let (agreed, all) = agreement(&scores);
            let shown = scores.iter().find(|score| score.kind == Kind::Pointsman).map_or(0, |score| score.shown);
            outcome.shown += shown;
            outcome.as_simulated = (outcome.as_simulated.0 + agreed, outcome.as_simulated.1 + all);
            let requests = stage.world().requests.len().to_string();
            summary.row([name.clone(), requests, shown.to_string(), format!("{agreed} of {all}")]);
            outcome.sheets.push(sheet(&name, &scores));
        }
    }
    outcome.sheets.insert(0, summary);
    Ok(outcome)
}

fn scores(show: &Show, stage: &Stage) -> io::Result<Vec<Score>> {
    std::thread::scope(|scope| {
        let running = KINDS.map(|kind| scope.spawn(move || score(show, stage, kind)));
        let ended = running.map(|run| run.join().unwrap_or_else(|_| Err(io::Error::other("a run died"))));
        ended.into_iter().collect()
    })
}

fn score(show: &Show, stage: &Stage, kind: Kind) -> io::Result<Score> {
    let world = stage.world();
    let simulated = match kind {
        Kind::Oracle => oracle::run(&world),
        kind => engine::run(&world, &mut *kind.rule(&world, &policy())),
    };
    let served = measured(show, stage, &world, kind)?;
    let shown = served.iter().filter(|served| !served.answered).count();
    let run = Run { served, ..Run::default() };
    Ok(Score {
        kind,
        simulated: loss(&world, stage.objective, &simulated),
        measured: loss(&world, stage.objective, &run),
        shown,
    })
}

/// Mean loss of a request.
fn loss(world: &World, objective: Objective, run: &Run) -> f64 {
    let (sum, count) = losses(world, &run.served)[objective as usize];
    sum / count.max(1) as f64
}

/// One rule over sockets.
fn measured(show: &Show, stage: &Stage, world: &World, kind: Kind) -> io::Result<Vec<Served>> {
    let mut providers = Vec::with_capacity(ENDPOINTS);
    for position in 0..ENDPOINTS {
        providers.push(Process::start(arguments(stage, position))?);
    }
    let addresses: io::Result<Vec<SocketAddr>> = providers.iter_mut().map(listening).collect();
    let addresses = addresses?;
    let gateway = match kind {
        Kind::Pointsman => Some(Gateway::start(&show.pointsman, world, &addresses)?),
        _ => None,
    };
    let way = match &gateway {
        Some(gateway) => Way::There(gateway.address),
        None => Way::Here(kind.rule(world, &policy()), addresses),
    };
    let start = micros_now() + COUNTDOWN;
    for provider in &mut providers {
        provider.tell(&format!("start {start}"))?;
    }
    let mut served = drive(stage.world(), way, start)?;
    drop(gateway);
    let mut entries = Vec::new();
    for provider in providers {
        entries.extend(Entry::read(&provider.finish()?));
    }
    settle(&mut served, entries);
    Ok(served)
}

/// How this program is told to be an endpoint.
fn arguments(stage: &Stage, position: usize) -> Vec<OsString> {
    let (scenario, objective) = (stage.scenario.name(), stage.objective.as_str());
    let Stage { seed, seconds, .. } = stage;
    let (seed, seconds, position) = (seed.to_string(), seconds.to_string(), position.to_string());
    ["provider", scenario, objective, &position, "--from-seed", &seed, "--seconds", &seconds]
        .map(OsString::from)
        .to_vec()
}

fn listening(provider: &mut Process) -> io::Result<SocketAddr> {
    provider.wait_for("listening on ")?.parse().map_err(io::Error::other)
}

/// Enters what the providers counted: dollars, and of whoever was asked first what was true there.
fn settle(served: &mut [Served], mut entries: Vec<Entry>) {
    entries.sort_by(|a, b| a.at.total_cmp(&b.at));
    for entry in entries {
        let Some(served) = served.get_mut(entry.request) else { continue };
        if served.attempts == 0 {
            served.bad = entry.bad;
        }
        served.cost += entry.dollars;
        served.attempts += 1;
    }
}

/// In how many cases Pointsman stands to another rule over sockets as it does in the simulator.
fn agreement(scores: &[Score]) -> (usize, usize) {
    let [oracle, random, own, others @ ..] = scores else { return (0, 0) };
    let scale = random.simulated - oracle.simulated;
    let others = || others.iter().chain([random]);
    let clear = |other: &&Score| ((other.simulated - own.simulated) / scale).abs() >= TIE;
    let same = |other: &&Score| (other.simulated > own.simulated) == (other.measured > own.measured);
    (others().filter(clear).filter(same).count(), others().filter(clear).count())
}

fn sheet(name: &str, scores: &[Score]) -> Sheet {
    let header = ["rule", "loss, simulated", "over sockets", "regret, simulated", "over sockets", "failures shown"];
    let mut sheet = Sheet::new(format!("Over sockets: {name}"), header);
    let [oracle, random, ..] = scores else { return sheet };
    let regret = |of: fn(&Score) -> f64, score: &Score| (of(score) - of(oracle)) / (of(random) - of(oracle));
    for score in scores {
        let loss = |loss: f64| if loss < 0.01 { format!("{loss:.6}") } else { format!("{loss:.3}") };
        sheet.row([
            score.kind.name().to_owned(),
            loss(score.simulated),
            loss(score.measured),
            format!("{:.3}", regret(|score| score.simulated, score)),
            format!("{:.3}", regret(|score| score.measured, score)),
            score.shown.to_string(),
        ]);
    }
    sheet
}

impl Outcome {
    /// What to make of it.
    #[must_use]
    pub fn verdict(&self) -> String {
        let (agreed, all) = self.as_simulated;
        let mut text = String::new();
        // Writing to a string cannot fail.
        _ = write!(
            text,
            "{} failures shown by Pointsman; its order against the other rules is the simulator's ",
            self.shown
        );
        _ = writeln!(text, "in {agreed} of {all} cases.");
        text
    }

    /// Whether it is as it must be.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.shown == 0 && self.as_simulated.0 == self.as_simulated.1
    }
}
