//! Decisions, cells and statistics together, in virtual time: what a stream of requests sees when endpoints slow
//! down, die, hang, queue or say 429.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use pointsman_domain::{
    Candidate, Decision, EventKind, Evidence, ExcludedEndpoint, ExclusionReason, Failure, FailureKind, Objective,
    Query, RoutingPolicy, Tick,
};
use pointsman_routing::{
    decide::decide,
    stats::{Claim, LiveBoard, LiveView, Snapshot, Statistics, splitmix64},
};

use crate::routing_world::World;

/// How an endpoint treats a request that arrives at a moment and finds so many others.
enum Fate {
    /// First token after, last byte after.
    Answers(f64, f64),
    /// Fails so, after.
    Fails(FailureKind, u16, f64),
}

type Behavior = Box<dyn Fn(f64, u32, f64) -> Fate>;

/// Steady: a first token, a total, and a spread of 30 %.
fn steady(first: f64, total: f64) -> Behavior {
    Box::new(move |_, _, noise| Fate::Answers(first * noise, total * noise))
}

/// What will happen, and when.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Arrival(u64),
    FirstToken(usize),
    End(usize),
    Publish,
}

/// One attempt under way.
struct Attempt {
    claim: Option<Claim>,
    plan: Decision,
    /// Which of the plan's candidates it is.
    place: usize,
    tried: u32,
    end: EventKind,
}

struct Run {
    statistics: Statistics,
    board: LiveBoard,
    snapshot: Snapshot,
    view: LiveView,
    query: Query,
    behaviors: Vec<Behavior>,
    queue: BinaryHeap<Reverse<(Tick, u64, Due)>>,
    attempts: Vec<Attempt>,
    order: u64,
    /// Every fourth request has the same objective, each another one; the seed of the arrivals.
    mixed: Option<u64>,
    tally: Tally,
}

/// What came of it.
#[derive(Default)]
struct Tally {
    /// (when, endpoint, whether it was the first attempt, how it ended)
    dispatched: Vec<(f64, u32)>,
    failed: Vec<(f64, u32)>,
    served: Vec<(f64, f64)>,
    /// Requests in flight at endpoints that a decision excluded as saturated.
    saturated: Vec<u32>,
    unserved: usize,
}

impl Tally {
    /// The share of attempts in a span of time that went to an endpoint.
    fn share(&self, endpoint: u32, from: f64, to: f64) -> f64 {
        let within = || self.dispatched.iter().filter(move |(at, _)| (from..to).contains(at));
        within().filter(|(_, index)| *index == endpoint).count() as f64 / within().count().max(1) as f64
    }

    fn failures(&self, endpoint: u32, from: f64, to: f64) -> usize {
        self.failed.iter().filter(|(at, index)| *index == endpoint && (from..to).contains(at)).count()
    }

    fn mean_time(&self, from: f64, to: f64) -> f64 {
        let times: Vec<f64> = self.served.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, t)| *t).collect();
        times.iter().sum::<f64>() / times.len().max(1) as f64
    }
}

fn secs(tick: Tick) -> f64 {
    tick.0 as f64 / 1e6
}

fn tick(seconds: f64) -> Tick {
    Tick((seconds * 1e6) as u64)
}

/// A log-normal factor with σ = 0.3, the same for the same number.
fn noise(number: u64) -> f64 {
    let uniform = |i| (splitmix64(number * 12 + i) >> 11) as f64 / (1_u64 << 53) as f64;
    (0.3 * ((0..12).map(uniform).sum::<f64>() - 6.0)).exp()
}

impl Run {
    /// `world` names the endpoints; `rate` requests a second arrive for `seconds`.
    fn of(world: &str, objective: Objective, behaviors: Vec<Behavior>, rate: f64, seconds: f64) -> Tally {
        Run::with(world, objective, behaviors, (rate, seconds), None)
    }

    fn with(
        world: &str,
        objective: Objective,
        behaviors: Vec<Behavior>,
        (rate, seconds): (f64, f64),
        mixed: Option<u64>,
    ) -> Tally {
        let world = World::of(world);
        let query = Query { max_tokens: Some(20), prompt_tokens: 100, ..world.query(objective, "") };
        let mut statistics = Statistics::new(world.snapshot.catalog.clone(), world.snapshot.policy.clone());
        let mut run = Run {
            snapshot: statistics.snapshot(1),
            statistics,
            board: LiveBoard::new(world.catalog(), 7),
            view: LiveView::default(),
            query,
            behaviors,
            queue: BinaryHeap::new(),
            attempts: Vec::new(),
            order: 0,
            mixed,
            tally: Tally::default(),
        };
        for number in 0..(rate * seconds) as u64 {
            let jitter = noise(number ^ 0xabcd ^ mixed.unwrap_or(0) << 20) / rate;
            run.at(tick(number as f64 / rate + jitter), Due::Arrival(number));
        }
        (0..(seconds * 20.0) as u64 + 2000).for_each(|n| run.at(tick(n as f64 * 0.05), Due::Publish));
        while let Some(Reverse((now, _, due))) = run.queue.pop() {
            run.happen(now, due);
        }
        run.tally
    }

    fn at(&mut self, when: Tick, due: Due) {
        self.order += 1;
        self.queue.push(Reverse((when, self.order, due)));
    }

    fn happen(&mut self, now: Tick, due: Due) {
        match due {
            Due::Publish => self.snapshot = self.statistics.snapshot(self.snapshot.version + 1),
            Due::Arrival(number) => {
                if self.mixed.is_some() {
                    self.query.objective.value = Objective::ALL[number as usize % 4];
                }
                self.board.refresh(now, &mut self.view);
                match decide(&self.snapshot, &self.view, &self.query, now, Some(splitmix64(number + 1))) {
                    Ok(plan) => {
                        let saturated = |excluded: &&ExcludedEndpoint| excluded.reason == ExclusionReason::Saturated;
                        let in_flight = |excluded: &ExcludedEndpoint| self.view.endpoint(excluded.index).in_flight;
                        self.tally.saturated.extend(plan.excluded.iter().filter(saturated).map(in_flight));
                        self.walk(now, plan, 0, 0);
                    }
                    Err(_) => self.tally.unserved += 1,
                }
            }
            Due::FirstToken(attempt) => {
                let Some(claim) = &self.attempts[attempt].claim else { return };
                self.board.first_token(claim, now);
                self.statistics.apply(&claim.event(now, EventKind::FirstToken { prompt_tokens: 100 }));
            }
            Due::End(attempt) => self.end(now, attempt),
        }
    }

    /// Claims the next candidate that can be had.
    fn walk(&mut self, now: Tick, plan: Decision, from: usize, tried: u32) {
        if tried >= plan.max_attempts {
            self.tally.unserved += 1;
            return;
        }
        let claim = |(place, candidate): (usize, &Candidate)| {
            Some((place, self.board.claim(candidate.index, now, candidate).ok()?))
        };
        let candidates = plan.candidates.iter().enumerate().skip(from);
        let Some((place, claim)) = candidates.into_iter().find_map(claim) else {
            self.tally.unserved += 1;
            return;
        };
        self.tally.dispatched.push((secs(now), claim.index));
        let fate = self.behaviors[claim.index as usize](secs(now), claim.in_flight, noise(self.order));
        let number = self.attempts.len();
        let (end, after) = match fate {
            Fate::Answers(first, total) => {
                self.at(now.plus(Duration::from_secs_f64(first)), Due::FirstToken(number));
                (completed(first, total), total)
            }
            Fate::Fails(kind, status, after) => {
                let failure = Failure { kind, status: Some(status), retry_after: None, evidence: Evidence::None };
                (EventKind::Failed { failure, had_content: false }, after)
            }
        };
        self.at(now.plus(Duration::from_secs_f64(after)), Due::End(number));
        self.attempts.push(Attempt { claim: Some(claim), plan, place, tried: tried + 1, end });
    }

    fn end(&mut self, now: Tick, attempt: usize) {
        let Attempt { claim, plan, place, tried, end } = &mut self.attempts[attempt];
        let (claim, plan, place, tried, end) = (claim.take(), plan.clone(), *place, *tried, *end);
        let claim = claim.expect("each attempt ends once");
        let (dispatched, index) = (claim.dispatched, claim.index);
        self.statistics.apply(&self.board.finish(claim, now, end, &RoutingPolicy::default()).event);
        match end {
            EventKind::Failed { .. } => {
                self.tally.failed.push((secs(dispatched), index));
                self.walk(now, plan, place + 1, tried);
            }
            _ => self.tally.served.push((secs(plan.tick), now.seconds_since(plan.tick))),
        }
    }
}

fn completed(first: f64, total: f64) -> EventKind {
    EventKind::Completed {
        streamed: true,
        first_token: Duration::from_secs_f64(first),
        total: Duration::from_secs_f64(total),
        prompt_tokens: 100,
        completion_tokens: 20,
        max_tokens: Some(20),
        prompt_ratio: None,
        hidden_tokens: 0,
        cost: Some(0.0),
    }
}

const FOUR: &str = "a/1@w | a/2@x | a/3@y | a/4@z";

/// Three ordinary endpoints beside one with a character of its own.
fn beside(special: Behavior) -> Vec<Behavior> {
    vec![special, steady(0.30, 0.50), steady(0.40, 0.60), steady(0.60, 0.80)]
}

#[test]
fn no_endpoint_below_its_capacity_is_excluded_as_saturated_after_a_cold_start() {
    let world = "a/1@w $5/9 | a/2@x $1/2 | a/3@y $2/4";
    for start in 1..=8 {
        let behaviors = vec![steady(0.13, 1.1), steady(0.29, 1.8), steady(0.21, 1.2)];
        let tally = Run::with(world, Objective::Balanced, behaviors, (4.0, 60.0), Some(start));
        assert!(tally.saturated.is_empty(), "start {start}: excluded with {:?} in flight", tally.saturated);
        assert_eq!(tally.unserved, 0);
    }
}

#[test]
fn traffic_settles_on_the_fastest_endpoint() {
    let tally = Run::of(FOUR, Objective::Fastest, beside(steady(0.15, 0.30)), 2.0, 300.0);
    assert!(tally.share(0, 60.0, 300.0) > 0.9, "{}", tally.share(0, 60.0, 300.0));
    assert_eq!((tally.unserved, tally.failed.len()), (0, 0));
}

#[test]
fn a_dead_endpoint_costs_three_attempts_and_gets_its_share_back() {
    let dies = |kind, status| -> Behavior {
        Box::new(move |now, _, noise| match now {
            now if (100.0..200.0).contains(&now) => Fate::Fails(kind, status, 0.01),
            _ => Fate::Answers(0.15 * noise, 0.30 * noise),
        })
    };
    for (kind, status) in [(FailureKind::Connect, 0), (FailureKind::Server, 500)] {
        let tally = Run::of(FOUR, Objective::Fastest, beside(dies(kind, status)), 2.0, 400.0);
        assert_eq!(tally.unserved, 0, "{kind:?}");
        assert!(tally.failures(0, 100.0, 103.0) <= 3, "{kind:?}");
        let wasted = tally.failures(0, 100.0, 201.0);
        assert!(wasted <= 10, "{kind:?}: {wasted} wasted");
        let (before, after) = (tally.share(0, 60.0, 100.0), tally.share(0, 270.0, 400.0));
        assert!(after > 0.5 * before, "{kind:?}: {before} before, {after} after");
    }
}

#[test]
fn a_hanging_endpoint_is_left_long_before_its_clock_runs_out() {
    let hangs: Behavior = Box::new(|now, _, noise| match now {
        now if (100.0..160.0).contains(&now) => Fate::Fails(FailureKind::Timeout, 0, 15.0),
        _ => Fate::Answers(0.15 * noise, 0.30 * noise),
    });
    let tally = Run::of(FOUR, Objective::Fastest, beside(hangs), 5.0, 400.0);
    assert_eq!(tally.unserved, 0);
    assert!(tally.failures(0, 100.0, 101.0) <= 6, "{}", tally.failures(0, 100.0, 101.0));
    assert!(tally.failures(0, 101.0, 110.0) <= 2, "{}", tally.failures(0, 101.0, 110.0));
    let wasted = tally.failures(0, 100.0, 160.0);
    assert!(wasted <= 10, "{wasted} wasted");
}

#[test]
fn an_endpoint_that_queues_is_loaded_to_its_knee_and_not_beyond() {
    // The best one serves four at a time; the next best is half as fast and never queues.
    let queues: Behavior = Box::new(|_, in_flight, noise| {
        let stretch = noise * (f64::from(in_flight) / 4.0).max(1.0);
        Fate::Answers(0.2 * stretch, 0.5 * stretch)
    });
    let others = vec![queues, steady(0.4, 1.0), steady(0.5, 1.2), steady(0.6, 1.4)];
    let tally = Run::of(FOUR, Objective::Fastest, others, 20.0, 200.0);
    let (share, time) = (tally.share(0, 60.0, 200.0), tally.mean_time(60.0, 200.0));
    // Eight of the twenty requests a second keep four in flight there; alone it would serve nobody in time.
    assert!((0.25..=0.6).contains(&share), "{share}");
    assert!(time < 1.05, "{time} s, against 1 s without it and no bound with nothing else");
}

#[test]
fn a_rate_limited_endpoint_is_asked_about_as_often_as_it_bears() {
    use std::cell::Cell;
    // A token bucket of five a second and at most five at once.
    let (tokens, last) = (Cell::new(5.0), Cell::new(0.0));
    let limited: Behavior = Box::new(move |now, _, noise| {
        tokens.set((tokens.get() + 5.0 * (now - last.get())).min(5.0_f64));
        last.set(now);
        if tokens.get() < 1.0 {
            return Fate::Fails(FailureKind::RateLimited, 429, 0.02);
        }
        tokens.set(tokens.get() - 1.0);
        Fate::Answers(0.15 * noise, 0.30 * noise)
    });
    let tally = Run::of(FOUR, Objective::Fastest, beside(limited), 10.0, 300.0);
    assert_eq!(tally.unserved, 0);
    let (used, refused) = (tally.share(0, 60.0, 300.0) * 10.0, tally.failures(0, 60.0, 300.0) as f64 / 240.0);
    assert!(used > 2.5, "{used} a second of the five it bears");
    assert!(refused < 0.3, "{refused} refusals a second");
}

#[test]
fn a_brown_out_is_avoided_by_reliable() {
    let browns: Behavior = Box::new(|now, in_flight, noise| {
        let unlucky = ((now * 1e6) as u64).is_multiple_of(3) || in_flight > 90;
        if (50.0..250.0).contains(&now) && unlucky {
            return Fate::Fails(FailureKind::Server, 500, 0.05);
        }
        Fate::Answers(0.15 * noise, 0.30 * noise)
    });
    let tally = Run::of(FOUR, Objective::Reliable, beside(browns), 4.0, 300.0);
    assert_eq!(tally.unserved, 0);
    let wasted = tally.failures(0, 50.0, 250.0);
    assert!(wasted <= 20, "{wasted} of 800 requests failed first");
}
