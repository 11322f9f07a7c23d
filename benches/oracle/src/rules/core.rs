//! Pointsman itself: the same decision function, statistics and fast cells as the gateway's, driven as its dispatch
//! drives them. What happened is heard of when a worker's tray is emptied, and snapshots are published at most every
//! 50 ms after one another; both at once when a gate moved.

use std::{collections::HashMap, sync::Arc, time::Duration};

use pointsman_actors::event_batches::EventBatcher as Tray;
use pointsman_domain::{
    ApiType, Candidate, Catalog, Decision, Endpoint, EndpointEvent, EndpointId, EventKind, Evidence, Exploration,
    Failure, FailureKind, Finding, Model, Needs, Objective, ParameterNames, Pricing, Provider, ProviderSlug, Query,
    RoutingPolicy, Source, Sourced, Target, Tick, Usd, Weights,
};
use pointsman_routing::{
    decide::{decide_to_serve, first_byte_clock, hedge_after, overdue_after, splitmix64},
    stats::{Claim, LiveBoard, LiveView, Snapshot, Statistics},
};

use super::informed;
use crate::{
    dice::Dice,
    engine::{self, Run},
    request::{FIRST_BYTE, Request, TOTAL},
    rule::{ATTEMPTS, Ask, Begin, Calibration, Late, News, Patience, Report, Rule},
    world::World,
};

/// Shortest time between two snapshots.
const PAUSE: Duration = Duration::from_millis(50);
/// Most tokens in the budgets of panic attempts and of last resorts, which start full, and of hedges, which starts with one.
const RETRY_CAP: f64 = 20.0;
const HEDGE_CAP: f64 = 5.0;

/// Median prompt tokens that are estimated per real one, and the spread (σ of ln) of that: the gateway counts characters.
const ESTIMATED: f64 = 1.25;
const ESTIMATE_SIGMA: f64 = 0.15;

/// The constants a gateway is started with, except that nobody here waits ten minutes for an answer.
#[must_use]
pub fn policy() -> RoutingPolicy {
    let mut policy = RoutingPolicy::default();
    policy.clocks.first_byte = Duration::from_secs_f64(FIRST_BYTE);
    policy.clocks.total = Duration::from_secs_f64(TOTAL);
    policy
}

/// What is taken from the core to see what it is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Without {
    /// Nothing.
    Nothing,
    /// It does not see its own requests in flight, neither when it decides nor when it learns.
    Load,
    /// It does not try what it is not sure of.
    Exploration,
    /// It shows a failure when three attempts failed, like everybody.
    LastResort,
    /// It does not take silence for a sign of trouble.
    Silence,
    /// It does not race a stream that is unusually late.
    Hedging,
    /// It does not race a plain answer that is overdue.
    Races,
    /// It sends as much as before after a 429.
    Pacing,
    /// No number of failures in a row opens a breaker.
    InRow,
    /// It does not try again what it has not heard of for long.
    Staleness,
    /// It does not charge a failure for the time it takes.
    FailureTime,
    /// It waits for a first token as long as the configuration says.
    Clocks,
    /// It does not go past an open breaker.
    PastOpen,
    /// It knows the truth of the moment, like the clairvoyant, and decides as it does otherwise.
    Ignorance,
}

/// What a run of the core leaves in a ledger.
pub struct Logged {
    /// What came of the requests.
    pub run: Run,
    /// Decisions with the numbers of their requests.
    pub decisions: Vec<(usize, Decision)>,
    /// What they were made under.
    pub catalog: Arc<Catalog>,
    /// The constants.
    pub policy: Arc<RoutingPolicy>,
}

/// Another configuration beside a run: it hears what the calls of the run came to, decides every request, and calls nobody.
pub struct Beside {
    /// What it decides under.
    pub catalog: Arc<Catalog>,
    /// The constants.
    pub policy: Arc<RoutingPolicy>,
    /// Its choices with the numbers of the requests; `None` if no endpoint could serve.
    pub choices: Vec<(usize, Option<EndpointId>)>,
    statistics: Statistics,
    snapshot: Snapshot,
}

impl Beside {
    fn new(catalog: Catalog, policy: RoutingPolicy) -> Beside {
        let (catalog, policy) = (Arc::new(catalog), Arc::new(policy));
        let mut statistics = Statistics::new(Arc::clone(&catalog), Arc::clone(&policy));
        Beside { catalog, policy, choices: Vec::new(), snapshot: statistics.snapshot(1), statistics }
    }

    fn choose(&mut self, request: usize, view: &LiveView, query: &Query, now: Tick, seed: u64) {
        let query = Query { weights: self.policy.balanced, ..query.clone() };
        let decided = decide_to_serve(&self.snapshot, view, &query, now, Some(seed));
        let choice = decided.ok().and_then(|decision| Some(decision.candidates.first()?.endpoint));
        self.choices.push((request, choice));
    }
}

/// The routing core.
pub struct Core {
    pub(super) policy: RoutingPolicy,
    statistics: Statistics,
    snapshot: Snapshot,
    /// When it was published, and when the next one is due.
    published: Tick,
    due: Option<Tick>,
    /// What happened and was not handed on yet, and when it is.
    tray: Vec<EndpointEvent>,
    leaves: Option<Tick>,
    board: LiveBoard,
    view: LiveView,
    /// What the next decision is asked, but for what stands in the request.
    pub(super) query: Query,
    seed: u64,
    decisions: HashMap<usize, Decision>,
    claims: HashMap<usize, (Claim, bool)>,
    retries: f64,
    resorts: f64,
    hedges: f64,
    calibration: Calibration,
    without: Without,
    /// Decisions to be made again later, with the number of the request: every so many requests.
    kept: Vec<(usize, Decision)>,
    keep_every: usize,
    beside: Option<Beside>,
}

impl Core {
    pub fn new(world: &World, mut policy: RoutingPolicy, without: Without) -> Core {
        match without {
            Without::Exploration => policy.exploration = 0.0,
            Without::LastResort => policy.retry.last_resort = 0,
            Without::Hedging => policy.hedge.objectives.clear(),
            Without::Pacing => policy.pacing = false,
            Without::InRow => policy.breaker.consecutive = 1_000_000,
            Without::Staleness => policy.staleness = 0.0,
            Without::FailureTime => policy.failure_time = Duration::ZERO,
            _ => {}
        }
        let catalog = Arc::new(catalog(world));
        let mut statistics = Statistics::new(Arc::clone(&catalog), Arc::new(policy.clone()));
        Core {
            snapshot: statistics.snapshot(1),
            statistics,
            published: Tick::default(),
            due: None,
            tray: Vec::new(),
            leaves: None,
            board: LiveBoard::new(&catalog, world.seed),
            view: LiveView::default(),
            query: query(),
            seed: splitmix64(world.seed),
            decisions: HashMap::new(),
            claims: HashMap::new(),
            retries: RETRY_CAP,
            resorts: RETRY_CAP,
            hedges: 1.0,
            calibration: Calibration::default(),
            without,
            kept: Vec::new(),
            keep_every: usize::MAX,
            beside: None,
            policy,
        }
    }

    /// Runs through a world and gives back every so many of its decisions, with what they were made under.
    pub fn decisions(world: &World, policy: RoutingPolicy, every: usize) -> (Vec<Decision>, RoutingPolicy) {
        let logged = Core::logged(world, policy, every);
        (logged.decisions.into_iter().map(|(_, decision)| decision).collect(), Arc::unwrap_or_clone(logged.policy))
    }

    /// The same, with what came of them.
    pub fn logged(world: &World, policy: RoutingPolicy, every: usize) -> Logged {
        Core { keep_every: every, ..Core::new(world, policy, Without::Nothing) }.run(world).0
    }

    /// Every so many decisions of a run in which a share of the choices is drawn at random, and what came of it. `luck` changes what is
    /// left to chance.
    pub fn drawn(world: &World, policy: RoutingPolicy, share: f64, luck: u64, every: usize) -> Logged {
        let core = Core::new(world, policy, Without::Nothing);
        let exploration = Exploration { share, max_extra_cost: 1.0, max_extra_first_token: 100.0 };
        let (query, seed) = (Query { exploration, ..core.query.clone() }, splitmix64(core.seed ^ luck));
        Core { query, seed, keep_every: every, ..core }.run(world).0
    }

    /// All decisions of a run, and what the configuration as `change` leaves it would have chosen at each of them.
    pub fn logged_beside(
        world: &World,
        policy: RoutingPolicy,
        change: impl FnOnce(&mut Catalog, &mut RoutingPolicy),
    ) -> (Logged, Option<Beside>) {
        let core = Core::new(world, policy, Without::Nothing);
        let (mut catalog, mut other) = (Catalog::clone(&core.snapshot.catalog), core.policy.clone());
        change(&mut catalog, &mut other);
        Core { keep_every: 1, beside: Some(Beside::new(catalog, other)), ..core }.run(world)
    }

    fn run(mut self, world: &World) -> (Logged, Option<Beside>) {
        let run = engine::run(world, &mut self);
        let catalog = Arc::clone(&self.snapshot.catalog);
        (Logged { run, decisions: self.kept, catalog, policy: Arc::new(self.policy) }, self.beside)
    }

    /// The id of an endpoint.
    pub(super) fn id(&self, endpoint: usize) -> EndpointId {
        self.snapshot.catalog.endpoints[endpoint].id
    }

    /// Copies the fast cells, as far as they are not taken away.
    fn look(&mut self, now: Tick) {
        self.board.refresh(now, &mut self.view);
        for endpoint in &mut self.view.endpoints {
            match self.without {
                Without::Load => endpoint.in_flight = 0,
                Without::Silence => endpoint.silent = false,
                _ => {}
            }
        }
    }

    /// What a gateway did by itself until now, in its order: published, emptied the tray, published that.
    fn catch_up(&mut self, now: Tick) {
        self.publish_if_due(self.leaves.unwrap_or(now).min(now));
        if let Some(leaves) = self.leaves.filter(|leaves| *leaves <= now) {
            self.empty_tray(leaves);
        }
        self.publish_if_due(now);
    }

    fn publish_if_due(&mut self, now: Tick) {
        if let Some(due) = self.due.filter(|due| *due <= now) {
            self.publish(due);
        }
    }

    fn empty_tray(&mut self, now: Tick) {
        self.leaves = None;
        for event in self.tray.drain(..) {
            self.statistics.apply(&event);
            if let Some(beside) = &mut self.beside {
                beside.statistics.apply(&event);
            }
        }
        self.due = self.due.or(Some(now.max(self.published.plus(PAUSE))));
    }

    fn publish(&mut self, now: Tick) {
        (self.published, self.due) = (now, None);
        self.snapshot = self.statistics.snapshot(self.snapshot.version + 1);
        if let Some(beside) = &mut self.beside {
            beside.snapshot = beside.statistics.snapshot(self.snapshot.version);
        }
    }

    fn learn(&mut self, mut event: EndpointEvent) {
        self.catch_up(event.at);
        if self.without == Without::Load {
            event.in_flight = 1;
        }
        self.tray.push(event);
        if event.is_urgent() {
            self.empty_tray(event.at);
            self.publish(event.at);
        } else {
            self.leaves = self.leaves.or(Some(event.at.plus(Tray::MAX_AGE)));
        }
    }

    /// Prompt tokens of a request as the gateway estimates them.
    fn estimate(&self, request: &Request) -> u32 {
        let z = Dice::new(self.seed, request.id as u64).normal();
        (f64::from(request.prompt) * ESTIMATED * libm::exp(ESTIMATE_SIGMA * z)).round() as u32
    }

    fn candidate(&self, request: usize, endpoint: usize) -> Option<&Candidate> {
        self.decisions.get(&request)?.plan().find(|candidate| candidate.index as usize == endpoint)
    }

    fn hedges(&self, objective: Objective) -> bool {
        self.policy.hedge.objectives.contains(&objective)
    }

    /// Compares a first attempt's end with how likely it was to fail. A 429 is no fault.
    fn compare_failure(&mut self, report: &Report<'_>) {
        let failed = match report.news {
            News::Completed => false,
            News::Failed { kind, .. } if kind != FailureKind::RateLimited => true,
            _ => return,
        };
        if let Some(predicted) = self.candidate(report.request.id, report.endpoint).map(|candidate| candidate.predicted)
        {
            self.calibration.failures.push((predicted.failure, failed));
        }
    }

    /// Compares a first attempt's answer with what was predicted of it.
    fn compare(&mut self, report: &Report<'_>) {
        let Some(candidate) = self.candidate(report.request.id, report.endpoint) else { return };
        let (predicted, cost_range) = (candidate.predicted, candidate.cost_range());
        let calibration = &mut self.calibration;
        if let Some(first) = report.first.map(|first| first - report.started) {
            calibration.first.push((report.endpoint, libm::log(first / predicted.first_token_p50)));
            calibration.first_within.push(first <= predicted.first_token_p95);
        }
        let (prompt, answer) = (f64::from(report.request.prompt), f64::from(report.request.answer));
        if let Some(stats) = self.snapshot.endpoints.get(report.endpoint) {
            let cost = stats.prices.cost(prompt, answer, 0.0);
            calibration.cost_within.push((cost_range[0]..=cost_range[1]).contains(&cost));
        }
        let total = report.now - report.started;
        let given = predicted.first_token_p50 + answer / predicted.tokens_per_second;
        calibration.total.push((report.endpoint, libm::log(total / given)));
        calibration.total_within.push(total <= given * predicted.total_p95 / predicted.total_p50);
    }
}

impl Rule for Core {
    fn choose(&mut self, ask: &Ask<'_>) -> Vec<usize> {
        let now = tick(ask.now);
        self.catch_up(now);
        for budget in [&mut self.retries, &mut self.resorts] {
            *budget = (*budget + self.policy.retry.budget_ratio).min(RETRY_CAP);
        }
        if self.hedges(ask.request.objective) {
            self.hedges = (self.hedges + self.policy.hedge.budget).min(HEDGE_CAP);
        }
        self.query.objective.value = ask.request.objective;
        self.query.prompt_tokens = self.estimate(ask.request);
        self.query.max_tokens = Some(ask.request.max_tokens);
        self.query.streamed = ask.request.streamed;
        self.look(now);
        let seed = splitmix64(self.seed ^ (ask.request.id as u64 + 1));
        let decided = match self.without {
            Without::Ignorance => informed::decide(&self.snapshot, &self.query, ask, now),
            _ => decide_to_serve(&self.snapshot, &self.view, &self.query, now, Some(seed)),
        };
        if let Some(beside) = &mut self.beside {
            beside.choose(ask.request.id, &self.view, &self.query, now, seed);
        }
        let Ok(decision) = decided else { return Vec::new() };
        let order = decision.plan().map(|candidate| candidate.index as usize).collect();
        if ask.request.id.is_multiple_of(self.keep_every) {
            self.kept.push((ask.request.id, decision.clone()));
        }
        self.decisions.insert(ask.request.id, decision);
        order
    }

    fn begin(&mut self, begin: &Begin<'_>) -> Option<Patience> {
        let candidate = self.candidate(begin.request.id, begin.endpoint)?;
        let is_past = candidate.is_past_open_circuit() && self.without != Without::Ignorance;
        let past = f64::from(u8::from(is_past));
        let resort = f64::from(u8::from(begin.before >= ATTEMPTS));
        if (past > 0.0 && self.without == Without::PastOpen) || self.retries < past || self.resorts < resort {
            return None;
        }
        let claim = self.board.claim(candidate.index, tick(begin.now), candidate).ok()?;
        let hedges = self.hedges(begin.request.objective);
        let streamed = begin.request.streamed;
        let hedge_after = hedges.then(|| hedge_after(candidate, streamed, &self.policy).as_secs_f64());
        let overdue_after =
            (!streamed && self.without != Without::Races).then(|| overdue_after(candidate, &self.policy).as_secs_f64());
        let learned = candidate.predicted.measured && begin.another && self.without != Without::Clocks;
        let first_byte = if learned { first_byte_clock(candidate, &self.policy).as_secs_f64() } else { FIRST_BYTE };
        self.retries -= past;
        self.resorts -= resort;
        let probe = claim.probe;
        self.claims.insert(begin.attempt, (claim, begin.before == 0));
        Some(Patience { first_byte, hedge_after, overdue_after, probe })
    }

    fn may_race(&mut self, request: usize, endpoint: usize, attempts: u32, late: Late) -> bool {
        // What stands in the plan for want of anything better is no help to a request that is only late.
        let sound = self.candidate(request, endpoint).is_some_and(|candidate| !candidate.panic && !candidate.probe);
        if attempts >= ATTEMPTS {
            // It takes its token as it begins.
            return sound && late == Late::Overdue && self.may_go_on(request, endpoint, attempts);
        }
        let budget = match late {
            Late::Unusually => &mut self.hedges,
            Late::Overdue => &mut self.retries,
        };
        let may = sound && *budget >= 1.0;
        *budget -= f64::from(u8::from(may));
        may
    }

    fn may_go_on(&self, request: usize, endpoint: usize, attempts: u32) -> bool {
        let choice = self.decisions.get(&request).and_then(|decision| decision.candidates.first());
        let is_known = choice.is_some_and(|choice| choice.predicted.measured);
        let is_open = |candidate: &Candidate| !candidate.is_past_open_circuit();
        is_known
            && self.candidate(request, endpoint).is_some_and(is_open)
            && self.resorts >= 1.0
            && attempts < ATTEMPTS + self.policy.retry.last_resort
    }

    fn heard(&mut self, report: &Report<'_>) {
        let Some((claim, first)) = self.claims.remove(&report.attempt) else { return };
        let now = tick(report.now);
        let kind = match report.news {
            News::Began => EventKind::Dispatched,
            News::FirstToken => {
                self.board.first_token(&claim, now);
                EventKind::FirstToken { prompt_tokens: claim.prompt_tokens }
            }
            News::Completed => completed(report, self.estimate(report.request)),
            News::Failed { kind, status, retry_after } => {
                let finding = Finding { words: "", meaning: "the simulated provider refuses" };
                let failure = Failure { kind, status, retry_after, evidence: Evidence::Known(finding) };
                EventKind::Failed { failure, had_content: report.first.is_some() }
            }
            News::Cancelled => EventKind::Cancelled { had_content: report.first.is_some() },
        };
        if first {
            self.compare_failure(report);
        }
        if first && report.news == News::Completed {
            self.compare(report);
        }
        let event = match report.news {
            News::Began | News::FirstToken => {
                let event = claim.event(now, kind);
                self.claims.insert(report.attempt, (claim, first));
                event
            }
            _ => self.board.finish(claim, now, kind, &self.policy).event,
        };
        self.learn(event);
    }

    fn ended(&mut self, request: usize) {
        self.decisions.remove(&request);
    }

    fn calibration(&self) -> Option<&Calibration> {
        Some(&self.calibration)
    }
}

/// `estimated` are the prompt tokens that the decision was made with.
fn completed(report: &Report<'_>, estimated: u32) -> EventKind {
    let since = |at: f64| tick(at) - tick(report.started);
    EventKind::Completed {
        streamed: report.request.streamed,
        first_token: since(report.first.unwrap_or(report.now)),
        total: since(report.now),
        prompt_tokens: report.request.prompt,
        completion_tokens: report.request.answer,
        max_tokens: Some(report.request.max_tokens),
        prompt_ratio: Some(f64::from(report.request.prompt) / f64::from(estimated)),
        hidden_tokens: 0,
        // Held against predictions of cost, which nobody reads here.
        cost: Some(0.0),
    }
}

/// Virtual seconds as the core counts time. It starts at an hour, so that nothing is ever too long ago.
pub(super) fn tick(seconds: f64) -> Tick {
    Tick(3_600_000_000 + (seconds * 1e6) as u64)
}

fn query() -> Query {
    Query {
        api: ApiType::Completions,
        today: Default::default(),
        targets: vec![Target::Model(0)],
        router: None,
        objective: Sourced { value: Objective::Balanced, source: Source::Metadata },
        weights: Weights::default(),
        needs: Needs::default(),
        routing: Arc::default(),
        key_allowed: Vec::new(),
        key_blocked: Vec::new(),
        prompt_tokens: 0,
        images: 0,
        max_tokens: None,
        answers: 1,
        streamed: true,
        sticky: None,
        pending_reasoning: Default::default(),
        task_class: None,
        split: None,
        exploration: Exploration::NONE,
        latency_margin: 1.0,
        quality_per_dollar: 0.0,
    }
}

pub(super) const MODEL: &str = "acme/chat";

#[expect(clippy::expect_used, reason = "names made here, all different")]
pub(crate) fn catalog(world: &World) -> Catalog {
    let slugs: Vec<String> = (0..world.endpoints.len()).map(|position| format!("p{position}")).collect();
    let endpoints = (0_u32..).zip(&world.endpoints).zip(&slugs).map(|((provider, endpoint), slug)| Endpoint {
        pricing: Some(Arc::new(Pricing {
            prompt: Usd::from_f64(endpoint.price_in).unwrap_or_default(),
            completion: Usd::from_f64(endpoint.price_out).unwrap_or_default(),
            input_cache_read: endpoint.price_cached.and_then(Usd::from_f64),
            ..Pricing::default()
        })),
        ..Endpoint::with_defaults(EndpointId::new(MODEL, slug, ""), 0, provider, MODEL)
    });
    let endpoints = endpoints.collect();
    let provider = |slug| Provider::with_defaults(ProviderSlug::new(slug).expect("a slug"));
    let providers = slugs.iter().map(|slug| provider(slug.as_str())).collect();
    let models =
        vec![Model::with_defaults(MODEL.parse().expect("a model id"), (0..world.endpoints.len() as u32).collect())];
    Catalog::new(1, providers, models, endpoints, Vec::new(), &[], ParameterNames::published()).expect("a catalog")
}
