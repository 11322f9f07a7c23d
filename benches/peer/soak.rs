//! Load at a steady rate for a while, with everything that goes wrong in it, and what the process grew by meanwhile.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::{task::JoinSet, time::sleep};

use crate::{
    Failure, Options,
    call::{Caller, Kind, Seen},
    process::{descriptors, resident},
    say,
};

/// Share of the time after which memory is taken to have settled: pools, caches and the ledger are full then.
const WARM_UP: f64 = 0.4;
const SAMPLE: Duration = Duration::from_millis(250);
/// Parts that the settled time is cut into. What counts of each is the least memory seen: what is in use for a moment
/// comes and goes, what leaked is there at the quietest moment, too.
const PARTS: usize = 12;
/// How long the process may take to let go of everything.
const SETTLING: Duration = Duration::from_secs(3);

/// The model with a broken endpoint before a healthy one, and the one with nothing else.
const GUARDED: &str = "bench/guarded";
const BROKEN: &str = "bench/broken";

#[derive(Default)]
struct Tally {
    calls: u64,
    whole: u64,
    left: u64,
    /// Failures of calls that a healthy endpoint stood behind.
    failures: BTreeMap<String, u64>,
    /// Failures of calls that nothing healthy stood behind: expected.
    expected: u64,
    times: Vec<Duration>,
    /// Seconds since the start, and KiB.
    memory: Vec<(f64, f64)>,
}

/// Prints one line, `calls=… errors=… rss_slope_mb_h=… fds_before=… fds_after=…`, and one per kind of error. Calm
/// load asks only what must be answered; otherwise clients leave, and a provider without a spare is asked too.
pub(crate) async fn run(options: &Options, calm: bool) -> Result<(), Failure> {
    // One call, so that what is only ever opened once is open.
    drop(Caller::new(options).call(GUARDED, Kind::Plain).await?);
    let fds_before = descriptors(options.pid)?;
    let tally = Rc::new(RefCell::new(Tally::default()));
    let begun = Instant::now();
    let options: &'static Options = Box::leak(Box::new(options.clone()));
    let mut tasks = JoinSet::new();
    for number in 0..options.connections {
        let tally = Rc::clone(&tally);
        tasks.spawn_local(async move { drive(options, number, calm, begun, &tally).await });
    }
    let sampled = Rc::clone(&tally);
    let sampler = tokio::task::spawn_local(async move {
        loop {
            sleep(SAMPLE).await;
            if let Ok(kib) = resident(options.pid) {
                sampled.borrow_mut().memory.push((begun.elapsed().as_secs_f64(), kib as f64));
            }
        }
    });
    while let Some(driven) = tasks.join_next().await {
        driven?;
    }
    sampler.abort();
    let seconds = begun.elapsed().as_secs_f64();
    sleep(SETTLING).await;
    report(&mut tally.borrow_mut(), seconds, (fds_before, descriptors(options.pid)?))
}

async fn drive(options: &Options, number: usize, calm: bool, begun: Instant, tally: &RefCell<Tally>) {
    let mut caller = Caller::new(options);
    let pause = Duration::from_secs_f64(options.connections as f64 / options.rate.max(1.0));
    let mut next = begun + pause.mul_f64(number as f64 / options.connections.max(1) as f64);
    for turn in number.. {
        if begun.elapsed() >= options.duration {
            return;
        }
        sleep(next.saturating_duration_since(Instant::now())).await;
        next = (next + pause).max(Instant::now());
        let (model, kind) = match turn % 8 {
            0 if !calm => (GUARDED, Kind::Left),
            1 if !calm => (BROKEN, Kind::Plain),
            2 if !calm => (BROKEN, Kind::Stream),
            3 | 4 => (GUARDED, Kind::Stream),
            _ => (GUARDED, Kind::Plain),
        };
        let sent = Instant::now();
        let seen = caller.call(model, kind).await.unwrap_or_else(|failure| {
            caller = Caller::new(options);
            Seen::Failed(format!("no answer: {failure}"))
        });
        tally.borrow_mut().note(model, seen, sent.elapsed());
    }
}

impl Tally {
    fn note(&mut self, model: &str, seen: Seen, took: Duration) {
        self.calls += 1;
        match seen {
            Seen::Whole => self.whole += 1,
            Seen::Left => self.left += 1,
            Seen::Failed(how) if model == BROKEN && !how.starts_with("no answer") => self.expected += 1,
            Seen::Failed(how) => *self.failures.entry(how).or_default() += 1,
        }
        if model == GUARDED {
            self.times.push(took);
        }
    }
}

fn report(tally: &mut Tally, seconds: f64, (fds_before, fds_after): (u64, u64)) -> Result<(), Failure> {
    tally.times.sort_unstable();
    let p99 = tally.times.get(tally.times.len() * 99 / 100).map_or(0, Duration::as_micros);
    let (slope, error) = slope(&quietest(&tally.memory, seconds * WARM_UP, seconds));
    let hourly = 3600.0 / 1024.0;
    let last = tally.memory.last().map_or(0.0, |(_, kib)| *kib);
    say(&format!(
        "calls={} rate={:.0} whole={} left={} refused={} errors={} p99_us={p99} rss_kib={last:.0} \
         rss_slope_mb_h={:.2} rss_slope_error_mb_h={:.2} fds_before={fds_before} fds_after={fds_after}",
        tally.calls,
        tally.calls as f64 / seconds,
        tally.whole,
        tally.left,
        tally.expected,
        tally.failures.values().sum::<u64>(),
        slope * hourly,
        error * hourly,
    ))?;
    for (how, count) in &tally.failures {
        say(&format!("error {count} x {how}"))?;
    }
    Ok(())
}

/// The least of each part of the time from `begin` to `end`.
fn quietest(points: &[(f64, f64)], begin: f64, end: f64) -> Vec<(f64, f64)> {
    let part = (end - begin) / PARTS as f64;
    let least = |number: usize| {
        let from = begin + part * number as f64;
        let within = points.iter().filter(|(second, _)| (from..from + part).contains(second));
        within.copied().min_by(|one, other| one.1.total_cmp(&other.1))
    };
    (0..PARTS).filter_map(least).collect()
}

/// The slope of a straight line through the points by least squares, and its standard error.
fn slope(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len().max(1) as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
    let (x, y) = (x / count, y / count);
    let over: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let under: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    if under <= 0.0 || count < 3.0 {
        return (0.0, f64::INFINITY);
    }
    let slope = over / under;
    let off: f64 = points.iter().map(|point| (point.1 - y - slope * (point.0 - x)).powi(2)).sum();
    (slope, (off / (count - 2.0) / under).sqrt())
}
