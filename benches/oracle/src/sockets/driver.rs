//! Asks what a world asks, at the moments it asks it, whoever routes.

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    rc::Rc,
    time::Duration,
};

use tokio::{
    task::{JoinSet, LocalSet},
    time::sleep_until,
};

use super::{
    call::{Clocks, Failed, Line},
    gateway,
    stage::Clock,
};
use crate::{
    bucket::Bucket,
    engine::truth,
    loss::{Served, Yardsticks},
    request::{Request, TOTAL},
    rule::{ATTEMPTS, Ask, Begin, News, Report, Rule},
    world::{ENDPOINTS, World},
};

/// Providers of the convention take requests there.
const PROVIDER_PATH: &str = "/v1/chat/completions";
/// How long the gateway may take beyond its own limit, virtual seconds.
const GRACE: f64 = 30.0;

/// Who routes.
pub enum Way {
    /// A rule in this process; these are the providers.
    Here(Box<dyn Rule>, Vec<SocketAddr>),
    /// A gateway.
    There(SocketAddr),
}

/// Asks everything and waits for every answer. Blocks.
pub fn drive(world: World, way: Way, start: u64) -> std::io::Result<Vec<Served>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let driver = Rc::new(Driver::new(world, way, Clock::starting_at(start)));
    LocalSet::new().block_on(&runtime, async {
        let mut asked = JoinSet::new();
        for request in driver.world.requests.clone() {
            sleep_until(driver.clock.at(request.at)).await;
            let driver = Rc::clone(&driver);
            asked.spawn_local(async move { driver.ask(&request).await });
        }
        let mut served = asked.join_all().await;
        served.sort_by(|a, b| a.at.total_cmp(&b.at));
        Ok(served)
    })
}

struct Driver {
    world: World,
    clock: Clock,
    lines: Vec<Line>,
    /// `None` where a gateway routes.
    rule: Option<RefCell<Box<dyn Rule>>>,
    in_flight: Cell<[u32; ENDPOINTS]>,
    /// What the providers' own buckets must look like: for the clairvoyant.
    buckets: Cell<[Bucket; ENDPOINTS]>,
    attempts: Cell<usize>,
}

/// An attempt under way.
#[derive(Clone, Copy)]
struct Attempt {
    number: usize,
    endpoint: usize,
    started: f64,
}

impl Driver {
    fn new(world: World, way: Way, clock: Clock) -> Driver {
        let (rule, lines) = match way {
            Way::Here(rule, providers) => (Some(RefCell::new(rule)), (providers, PROVIDER_PATH)),
            Way::There(address) => (None, (vec![address], gateway::PATH)),
        };
        Driver {
            world,
            clock,
            lines: lines.0.into_iter().map(|address| Line::new(address, lines.1)).collect(),
            rule,
            in_flight: Cell::default(),
            buckets: Cell::default(),
            attempts: Cell::new(0),
        }
    }

    async fn ask(&self, request: &Request) -> Served {
        let healthy = (0..ENDPOINTS).filter(|endpoint| self.world.truth(*endpoint, request.at, 1).is_healthy(request));
        let body = body(request);
        let mut served = Served {
            at: request.at,
            seconds: 0.0,
            cost: 0.0,
            answered: false,
            healthy: healthy.count(),
            attempts: 0,
            first: None,
            bad: 1.0,
            first_token: None,
        };
        served.answered = match &self.rule {
            Some(rule) => self.walk(rule, request, &body).await,
            None => {
                let until = self.clock.at(request.at + TOTAL + GRACE);
                let called = self.lines[0].call(request, &body, Clocks { first: until, total: until }, || {}).await;
                called.is_ok()
            }
        };
        served.seconds = self.clock.now() - request.at;
        served
    }

    /// Fails over as the simulator does.
    async fn walk(&self, rule: &RefCell<Box<dyn Rule>>, request: &Request, body: &str) -> bool {
        let order = self.choose(rule, request);
        let deadline = request.at + TOTAL;
        for (before, endpoint) in order.iter().copied().take(ATTEMPTS as usize).enumerate() {
            let attempt = Attempt { number: self.attempts.get(), endpoint, started: self.clock.now() };
            let another = before + 1 < order.len().min(ATTEMPTS as usize);
            let (now, number, before) = (attempt.started, attempt.number, before as u32);
            let begin = Begin { now, request, attempt: number, before, endpoint, another };
            let Some(patience) = rule.borrow_mut().begin(&begin) else { continue };
            self.attempts.set(attempt.number + 1);
            let first = match request.streamed {
                true => (attempt.started + patience.first_byte).min(deadline),
                false if another => attempt.started + 0.5 * (deadline - attempt.started),
                false => deadline,
            };
            let clocks = Clocks { first: self.clock.at(first), total: self.clock.at(deadline) };
            match self.attempt(rule, request, attempt, body, clocks).await {
                Ok(()) => return true,
                Err(Failed { had_content: true, .. }) => return false,
                Err(_) if self.clock.now() >= deadline => return false,
                Err(_) => {}
            }
        }
        false
    }

    fn choose(&self, rule: &RefCell<Box<dyn Rule>>, request: &Request) -> Vec<usize> {
        let (world, in_flight, buckets) = (&self.world, self.in_flight.get(), self.buckets.get());
        let now = self.clock.now();
        let yardsticks = Yardsticks::of(world, request, request.expected_answer);
        rule.borrow_mut().choose(&Ask {
            now,
            request,
            in_flight: &in_flight,
            truth: &|endpoint, more| truth(world, &buckets, endpoint, now, in_flight[endpoint] + 1 + more),
            cost: &|endpoint| world.cost(endpoint, request, request.expected_answer),
            prompt_cost: &|endpoint| world.cost(endpoint, request, 0.0),
            typical: (yardsticks.time, yardsticks.cost),
        })
    }

    async fn attempt(
        &self,
        rule: &RefCell<Box<dyn Rule>>,
        request: &Request,
        attempt: Attempt,
        body: &str,
        clocks: Clocks,
    ) -> Result<(), Failed> {
        let endpoint = attempt.endpoint;
        self.take_place(endpoint);
        let first = Cell::new(None);
        let tell = |news: News| {
            let now = self.clock.now();
            let Attempt { number, started, .. } = attempt;
            rule.borrow_mut().heard(&Report {
                now,
                request,
                attempt: number,
                endpoint,
                started,
                first: first.get(),
                news,
            });
        };
        tell(News::Began);
        let line = &self.lines[endpoint];
        let first_content = || {
            first.set(Some(self.clock.now()));
            tell(News::FirstToken);
        };
        let called = line.call(request, body, clocks, first_content).await;
        let mut in_flight = self.in_flight.get();
        in_flight[endpoint] -= 1;
        self.in_flight.set(in_flight);
        tell(match called {
            Ok(()) => News::Completed,
            Err(Failed { kind, status, .. }) => News::Failed { kind, status, retry_after: None::<Duration> },
        });
        called
    }

    fn take_place(&self, endpoint: usize) {
        let (mut in_flight, mut buckets) = (self.in_flight.get(), self.buckets.get());
        in_flight[endpoint] += 1;
        let now = self.clock.now();
        buckets[endpoint] = buckets[endpoint].at(now, self.world.limit(endpoint, now)).asked();
        self.in_flight.set(in_flight);
        self.buckets.set(buckets);
    }
}

/// The request as a caller would write it. Four bytes make a token, and each message counts for four.
fn body(request: &Request) -> String {
    let Request { id, prompt, max_tokens, streamed, objective, .. } = *request;
    let start = format!("#{id}# ");
    let bytes = (prompt.saturating_sub(4) as usize * 4).saturating_sub(start.len());
    let text = start + &"word ".repeat(bytes.div_ceil(5));
    let (model, objective) = (gateway::MODEL, objective.as_str());
    format!(
        r#"{{"model":"{model}","objective":"{objective}","stream":{streamed},"max_tokens":{max_tokens},"messages":[{{"role":"user","content":"{text}"}}]}}"#
    )
}
