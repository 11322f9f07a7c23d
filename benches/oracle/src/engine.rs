//! The virtual-time simulation of one rule in one world: arrivals, attempts, failover, hedges, clocks.
//!
//! Nothing here chooses an endpoint. Everybody gets the same requests, the same fates, at most three attempts per
//! request, each at another endpoint, and fails over only before the first content.

use std::{cmp::Reverse, collections::BinaryHeap};

use pointsman_domain::FailureKind;

use crate::{
    bucket::Bucket,
    loss::{Served, Yardsticks},
    request::{Request, TOTAL},
    rule::{ATTEMPTS, Ask, Begin, Calibration, Late, News, Patience, Report, Rule},
    world::{ENDPOINTS, Fate, Fault, Truth, World},
};

/// What is kept of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    /// By request.
    pub served: Vec<Served>,
    /// In the order of dispatch.
    pub attempts: Vec<Tried>,
    /// How well the rule's predictions held.
    pub calibration: Option<Calibration>,
}

/// An attempt, afterwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tried {
    /// When it was dispatched, seconds.
    pub at: f64,
    /// Where.
    pub endpoint: usize,
    /// Of which request.
    pub request: usize,
    /// Whether it was the request's first.
    pub first: bool,
    /// Whether it was a breaker's probe.
    pub probe: bool,
    /// Whether it raced another one.
    pub hedge: bool,
    /// Whether nothing was wrong with the endpoint.
    pub healthy: bool,
    /// When it failed, if it did, seconds.
    pub failed: Option<f64>,
    /// How it failed.
    pub failure: Option<FailureKind>,
    /// Whether it was taken away because another one won the race.
    pub outrun: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Arrival(usize),
    FirstToken(usize),
    End(usize),
    Race(usize, Late),
}

/// An attempt under way.
struct Attempt {
    request: usize,
    endpoint: usize,
    started: f64,
    first: Option<f64>,
    /// When the last token would come, if it would.
    total: f64,
    end: News,
    live: bool,
}

/// A request under way.
#[derive(Default)]
struct Walk {
    order: Vec<usize>,
    position: usize,
    attempts: u32,
    live: Vec<usize>,
    cost: f64,
    raced: bool,
    ended: bool,
}

/// Runs a rule through a world.
#[must_use]
pub fn run(world: &World, rule: &mut dyn Rule) -> Run {
    let mut engine = Engine {
        world,
        queue: BinaryHeap::with_capacity(64),
        order: 0,
        in_flight: [0; ENDPOINTS],
        buckets: [Bucket::default(); ENDPOINTS],
        attempts: Vec::with_capacity(world.requests.len()),
        walks: Vec::with_capacity(world.requests.len()),
        run: Run::default(),
    };
    engine.arrive_next(0);
    while let Some(Reverse((micros, _, due))) = engine.queue.pop() {
        engine.happen(micros as f64 / 1e6, due, rule);
    }
    engine.run.calibration = rule.calibration().cloned();
    engine.run
}

struct Engine<'w> {
    world: &'w World,
    queue: BinaryHeap<Reverse<(u64, u64, Due)>>,
    order: u64,
    in_flight: [u32; ENDPOINTS],
    buckets: [Bucket; ENDPOINTS],
    attempts: Vec<Attempt>,
    walks: Vec<Walk>,
    run: Run,
}

impl Engine<'_> {
    fn at(&mut self, when: f64, due: Due) {
        self.order += 1;
        self.queue.push(Reverse(((when * 1e6) as u64, self.order, due)));
    }

    fn arrive_next(&mut self, id: usize) {
        if let Some(request) = self.world.requests.get(id) {
            self.at(request.at, Due::Arrival(id));
        }
    }

    fn happen(&mut self, now: f64, due: Due, rule: &mut dyn Rule) {
        match due {
            Due::Arrival(id) => {
                self.arrive_next(id + 1);
                self.arrive(now, id, rule);
            }
            Due::FirstToken(attempt) if self.attempts[attempt].live => self.first_token(now, attempt, rule),
            Due::End(attempt) if self.attempts[attempt].live => self.end(now, attempt, rule),
            Due::Race(attempt, late) if self.attempts[attempt].live => self.race(now, attempt, late, rule),
            Due::FirstToken(_) | Due::End(_) | Due::Race(..) => {}
        }
    }

    fn arrive(&mut self, now: f64, id: usize, rule: &mut dyn Rule) {
        let (world, in_flight, buckets) = (self.world, self.in_flight, self.buckets);
        let request = &world.requests[id];
        let yardsticks = Yardsticks::of(world, request, request.expected_answer);
        let truth = |endpoint: usize, more: u32| truth(world, &buckets, endpoint, now, in_flight[endpoint] + 1 + more);
        let order = rule.choose(&Ask {
            now,
            request,
            in_flight: &in_flight,
            truth: &truth,
            cost: &|endpoint| world.cost(endpoint, request, request.expected_answer),
            prompt_cost: &|endpoint| world.cost(endpoint, request, 0.0),
            typical: (yardsticks.time, yardsticks.cost),
        });
        self.run.served.push(Served {
            at: now,
            seconds: 0.0,
            cost: 0.0,
            answered: false,
            healthy: (0..world.endpoints.len()).filter(|endpoint| truth(*endpoint, 0).is_healthy(request)).count(),
            attempts: 0,
            first: None,
            bad: 1.0,
            first_token: None,
        });
        self.walks.push(Walk { order, ..Walk::default() });
        self.go_on(now, id, false, rule);
    }

    /// Tries the next endpoint of the plan; without one, and nothing else under way, the request has failed.
    fn go_on(&mut self, now: f64, id: usize, hedge: bool, rule: &mut dyn Rule) {
        let request = &self.world.requests[id];
        while let Some(endpoint) = self.next(now, id, rule) {
            let (attempt, walk) = (self.attempts.len(), &self.walks[id]);
            let another = walk.attempts + 1 < ATTEMPTS && walk.position < walk.order.len();
            let begin = Begin { now, request, attempt, before: walk.attempts, endpoint, another };
            if let Some(patience) = rule.begin(&begin) {
                return self.dispatch(now, id, endpoint, patience, hedge, rule);
            }
        }
        if self.walks[id].live.is_empty() {
            self.conclude(now, id, false, rule);
        }
    }

    /// The next endpoint of the plan, while attempts and time are left.
    fn next(&mut self, now: f64, id: usize, rule: &dyn Rule) -> Option<usize> {
        let walk = &mut self.walks[id];
        let endpoint = *walk.order.get(walk.position)?;
        let may = walk.attempts < ATTEMPTS || rule.may_go_on(id, endpoint, walk.attempts);
        if !may || now >= self.world.requests[id].at + TOTAL {
            return None;
        }
        walk.position += 1;
        Some(endpoint)
    }

    fn dispatch(&mut self, now: f64, id: usize, endpoint: usize, patience: Patience, hedge: bool, rule: &mut dyn Rule) {
        let request = &self.world.requests[id];
        let attempt = self.attempts.len();
        self.in_flight[endpoint] += 1;
        let truth = truth(self.world, &self.buckets, endpoint, now, self.in_flight[endpoint]);
        let walk = &mut self.walks[id];
        walk.attempts += 1;
        walk.live.push(attempt);
        if walk.attempts == 1 {
            self.run.served[id].first = Some(endpoint);
            self.run.served[id].bad = truth.bad(request);
        }
        let first = walk.attempts == 1;
        let (probe, healthy) = (patience.probe, truth.is_healthy(request));
        let tried = Tried {
            at: now,
            endpoint,
            request: id,
            first,
            probe,
            hedge,
            healthy,
            failed: None,
            failure: None,
            outrun: false,
        };
        self.run.attempts.push(tried);
        let (first, total, end) = self.future(now, id, endpoint, &truth, patience);
        self.attempts.push(Attempt { request: id, endpoint, started: now, first: None, total, end, live: true });
        self.tell(now, attempt, News::Began, rule);
        if let Some(first) = first {
            self.at(first, Due::FirstToken(attempt));
        }
        for (after, late) in [(patience.hedge_after, Late::Unusually), (patience.overdue_after, Late::Overdue)] {
            if let Some(after) = after {
                self.at(now + after, Due::Race(attempt, late));
            }
        }
        self.at(total, Due::End(attempt));
    }

    /// When a stream's first token comes, when the attempt ends, and how.
    fn future(
        &mut self,
        now: f64,
        id: usize,
        endpoint: usize,
        truth: &Truth,
        patience: Patience,
    ) -> (Option<f64>, f64, News) {
        let request = &self.world.requests[id];
        let bucket = self.buckets[endpoint].at(now, self.world.limit(endpoint, now));
        self.buckets[endpoint] = bucket.asked();
        if !bucket.admits() {
            let retry_after = bucket.retry_after();
            let Fate::Fails { kind, status, after } = Fault::Limited.fate(0.0) else { return (None, now, News::Began) };
            return (None, now + after, News::Failed { kind, status, retry_after });
        }
        let deadline = request.at + TOTAL;
        let clock = self.clock(now, id, patience);
        let late = News::Failed { kind: FailureKind::Timeout, status: None, retry_after: None };
        match self.world.fate(request, endpoint, truth) {
            Fate::Hangs => (None, clock, late),
            Fate::Fails { kind, status, after } if now + after < clock => {
                (None, now + after, News::Failed { kind, status, retry_after: None })
            }
            Fate::Fails { .. } => (None, clock, late),
            Fate::Answers { first, total } if request.streamed => match (now + first, now + total) {
                (first, _) if first > clock => (None, clock, late),
                (first, total) if total > deadline => {
                    let end = News::Failed { kind: FailureKind::Deadline, status: None, retry_after: None };
                    (Some(first), deadline, end)
                }
                (first, total) => (Some(first), total, News::Completed),
            },
            Fate::Answers { total, .. } if now + total > clock => (None, clock, late),
            Fate::Answers { total, .. } => (None, now + total, News::Completed),
        }
    }

    /// When an attempt without a sign of life is given up.
    fn clock(&self, now: f64, id: usize, patience: Patience) -> f64 {
        let (request, walk) = (&self.world.requests[id], &self.walks[id]);
        let deadline = request.at + TOTAL;
        if request.streamed {
            return (now + patience.first_byte).min(deadline);
        }
        let another = walk.attempts < ATTEMPTS && walk.position < walk.order.len();
        if another { now + 0.5 * (deadline - now) } else { deadline }
    }

    fn first_token(&mut self, now: f64, attempt: usize, rule: &mut dyn Rule) {
        self.attempts[attempt].first = Some(now);
        let served = &mut self.run.served[self.attempts[attempt].request];
        served.first_token = served.first_token.or(Some(now - served.at));
        self.tell(now, attempt, News::FirstToken, rule);
        self.cancel_others(now, attempt, rule);
    }

    fn end(&mut self, now: f64, attempt: usize, rule: &mut dyn Rule) {
        let Attempt { request: id, end, first, .. } = self.attempts[attempt];
        self.leave(attempt);
        self.tell(now, attempt, end, rule);
        if end == News::Completed {
            let request = &self.world.requests[id];
            let cost = self.world.cost(self.attempts[attempt].endpoint, request, f64::from(request.answer));
            self.walks[id].cost += cost;
            self.cancel_others(now, attempt, rule);
            return self.conclude(now, id, true, rule);
        }
        self.run.attempts[attempt].failed = Some(now);
        if let News::Failed { kind, .. } = end {
            self.run.attempts[attempt].failure = Some(kind);
        }
        self.walks[id].cost += self.taken_in(now, attempt);
        if first.is_some() {
            self.conclude(now, id, false, rule);
        } else if self.walks[id].live.is_empty() {
            self.go_on(now, id, false, rule);
        }
    }

    /// Dollars of an attempt that ended early. What was refused or answered with an error costs nothing; whoever took
    /// it in is paid for the prompt and, plain answers being generated unseen, for about half of what was under way.
    fn taken_in(&self, now: f64, attempt: usize) -> f64 {
        let Attempt { request, endpoint, started, total, end, .. } = self.attempts[attempt];
        let request = &self.world.requests[request];
        let generated = match end {
            News::Failed { kind: FailureKind::Timeout | FailureKind::Deadline, .. } => 0.0,
            News::Failed { .. } => return 0.0,
            _ if request.streamed => 0.0,
            _ => 0.5 * f64::from(request.answer) * ((now - started) / (total - started)).clamp(0.0, 1.0),
        };
        self.world.cost(endpoint, request, generated)
    }

    fn race(&mut self, now: f64, attempt: usize, late: Late, rule: &mut dyn Rule) {
        let Attempt { request: id, first, .. } = self.attempts[attempt];
        let walk = &self.walks[id];
        let alone = walk.live.len() == 1 && first.is_none();
        let may = alone && !walk.raced && walk.position < walk.order.len();
        if may && rule.may_race(id, walk.order[walk.position], walk.attempts, late) {
            self.walks[id].raced = true;
            self.go_on(now, id, true, rule);
        }
    }

    fn cancel_others(&mut self, now: f64, winner: usize, rule: &mut dyn Rule) {
        let id = self.attempts[winner].request;
        for other in self.walks[id].live.clone() {
            if other != winner {
                self.leave(other);
                self.run.attempts[other].outrun = true;
                self.walks[id].cost += self.taken_in(now, other);
                self.tell(now, other, News::Cancelled, rule);
            }
        }
    }

    fn leave(&mut self, attempt: usize) {
        let Attempt { request, endpoint, live, .. } = &mut self.attempts[attempt];
        *live = false;
        self.in_flight[*endpoint] -= 1;
        self.walks[*request].live.retain(|other| *other != attempt);
    }

    fn conclude(&mut self, now: f64, id: usize, answered: bool, rule: &mut dyn Rule) {
        let walk = &mut self.walks[id];
        if std::mem::replace(&mut walk.ended, true) {
            return;
        }
        walk.order = Vec::new();
        let served = &mut self.run.served[id];
        (served.seconds, served.answered) = (now - served.at, answered);
        (served.cost, served.attempts) = (walk.cost, walk.attempts);
        rule.ended(id);
    }

    fn tell(&self, now: f64, attempt: usize, news: News, rule: &mut dyn Rule) {
        let Attempt { request, endpoint, started, first, .. } = self.attempts[attempt];
        let request: &Request = &self.world.requests[request];
        rule.heard(&Report { now, request, attempt, endpoint, started, first, news });
    }
}

/// What is true of an endpoint, its limit included.
#[must_use]
pub fn truth(world: &World, buckets: &[Bucket; ENDPOINTS], endpoint: usize, now: f64, in_flight: u32) -> Truth {
    let truth = world.truth(endpoint, now, in_flight);
    let limit = world.limit(endpoint, now);
    if limit.is_some() && !buckets[endpoint].at(now, limit).admits() {
        return Truth { failure: 1.0, fault: Fault::Limited, ..truth };
    }
    truth
}
