//! Recorded attempts, run through statistics and breakers with other constants.

use std::{sync::Arc, time::Duration};

use pointsman_domain::{
    BreakerPolicy, Catalog, Decision, EndpointEvent, EventKind, Failure, FailureKind, Generation, GenerationStatus,
    Objective, RoutingPolicy, StatsPolicy, StickyPolicy, Tick, Usage,
};
use pointsman_routing::{
    decide::decide_to_serve,
    explain::diff::{Admitted, Calibration, Comparison, Grade, OpenLoop, Redecided, Side},
    stats::{LiveBoard, LiveView, Statistics},
};

use crate::{routing_diff::recorded, routing_world::World};

/// Two endpoints alike but for their prices.
const TWO: &str = "acme/a $1/2 | bolt/b $3/6";
/// Unix milliseconds of the first request.
const START_MS: u64 = 1_700_000_000_000;
/// Between two requests.
const STEP_MS: u64 = 250;

/// What an endpoint does to a request: milliseconds to the first token, or a failure.
type Behaviour = fn(endpoint: u32, n: u64) -> Result<u64, FailureKind>;

/// A gateway that serves streamed requests one after the other, and records them.
struct Gateway {
    world: World,
    statistics: Statistics,
    board: LiveBoard,
    behaviour: Behaviour,
}

impl Gateway {
    fn new(policy: RoutingPolicy, behaviour: Behaviour) -> Gateway {
        let world = World::under(TWO, policy);
        let (catalog, policy) = (Arc::clone(&world.snapshot.catalog), Arc::clone(&world.snapshot.policy));
        let board = LiveBoard::new(&catalog, 1);
        Gateway { statistics: Statistics::new(catalog, policy), board, behaviour, world }
    }

    fn serve(&mut self, requests: u64, objective: Objective) -> Vec<Generation> {
        (0..requests).map(|n| self.request(n, objective)).collect()
    }

    fn request(&mut self, n: u64, objective: Objective) -> Generation {
        let created_ms = START_MS + n * STEP_MS;
        let now = Tick(created_ms * 1_000);
        self.world.snapshot = self.statistics.snapshot_at(n, now);
        let mut view = LiveView::default();
        self.board.refresh(now, &mut view);
        let query = pointsman_domain::Query { streamed: true, ..self.world.query(objective, "") };
        let decision = decide_to_serve(&self.world.snapshot, &view, &query, now, Some(n + 1)).expect("a plan");
        let (attempts, served) = self.attempts(&decision, n, now);
        let mut record = recorded(&self.world, Ok(decision), "");
        record.attempts = attempts;
        record.status = if served { GenerationStatus::Completed } else { GenerationStatus::Failed };
        record.streamed = true;
        record.created_ms = i64::try_from(created_ms).unwrap();
        record.usage = Usage { prompt_tokens: 1000, completion_tokens: 100, ..Usage::default() };
        record
    }

    /// Tries the plan until an endpoint answers.
    fn attempts(&mut self, decision: &Decision, n: u64, now: Tick) -> (Vec<pointsman_domain::AttemptRecord>, bool) {
        let course = vec!["ok"; decision.plan().count()].join(", ");
        let template = crate::routing_world::attempts::attempts(&self.world, decision, &course);
        let (mut attempts, mut at) = (Vec::new(), now);
        for (candidate, template) in decision.plan().zip(template) {
            let Ok(claim) = self.board.claim(candidate.index, at, candidate) else { continue };
            let policy = Arc::clone(&self.world.snapshot.policy);
            let answered = (self.behaviour)(candidate.index, n);
            let (first, total) = (answered.unwrap_or(5), answered.map_or(5, |first| first + 40));
            let started_ms = (at - now).as_millis() as u64;
            let mut attempt = template;
            (attempt.started_ms, attempt.duration_ms, attempt.served) = (started_ms, total, answered.is_ok());
            let end = match answered {
                Ok(first) => {
                    let seen = at.plus(Duration::from_millis(first));
                    let change = self.board.first_token(&claim, seen);
                    assert!(change.is_none() || candidate.probe);
                    let prompt_tokens = candidate.inputs.prompt_tokens;
                    self.statistics.apply(&claim.event(seen, EventKind::FirstToken { prompt_tokens }));
                    attempt.first_token_ms = Some(first);
                    completed(first, total)
                }
                Err(kind) => {
                    attempt.error_type = Some(kind.as_str().into());
                    attempt.status = None;
                    EventKind::Failed { failure: Failure::of(kind), had_content: false }
                }
            };
            at = at.plus(Duration::from_millis(if answered.is_ok() { first.max(total) } else { total }));
            let event: EndpointEvent = self.board.finish(claim, at, end, &policy).event;
            self.statistics.apply(&event);
            attempts.push(attempt);
            if answered.is_ok() {
                return (attempts, true);
            }
        }
        (attempts, false)
    }
}

fn completed(first: u64, total: u64) -> EventKind {
    EventKind::Completed {
        streamed: true,
        first_token: Duration::from_millis(first),
        total: Duration::from_millis(total),
        prompt_tokens: 1000,
        completion_tokens: 100,
        max_tokens: None,
        prompt_ratio: Some(1.0),
        hidden_tokens: 0,
        cost: None,
    }
}

fn looped(records: &[Generation], after: RoutingPolicy) -> (OpenLoop, Vec<Redecided>) {
    let catalog = Arc::clone(&records.first().expect("a record").catalog);
    looped_through(records, catalog, after)
}

/// The same with another catalog after the change.
fn looped_through(records: &[Generation], catalog: Arc<Catalog>, after: RoutingPolicy) -> (OpenLoop, Vec<Redecided>) {
    let first = records.first().expect("a record");
    // A configuration names an objective, which is no change where decisions name their own.
    let side = Side { catalog, policy: Arc::new(after), objective: Some(Objective::Balanced) };
    let comparison = Comparison::new(&first.catalog, &first.policy, None, &side);
    let calibration = Calibration::default();
    let mut open_loop = OpenLoop::new();
    let step =
        |generation| open_loop.step(Admitted { generation, caller: 1, is_wanted: true }, &comparison, &calibration);
    let made = records.iter().filter_map(step).collect();
    (open_loop, made)
}

/// The first endpoint is quick for a minute and slow for a minute; the second one is even.
fn in_waves(endpoint: u32, n: u64) -> Result<u64, FailureKind> {
    let is_slow = (n * STEP_MS / 60_000) % 2 == 1;
    Ok(match (endpoint, is_slow) {
        (0, true) => 900,
        (0, false) => 100,
        _ => 300,
    })
}

/// The first endpoint fails twice in a row now and then.
fn in_pairs(endpoint: u32, n: u64) -> Result<u64, FailureKind> {
    if endpoint == 0 && n % 40 < 2 && n > 80 { Err(FailureKind::Server) } else { Ok(150) }
}

fn with_stats(stats: StatsPolicy) -> RoutingPolicy {
    RoutingPolicy { stats, ..RoutingPolicy::default() }
}

#[test]
fn under_the_constants_that_were_running_the_recorded_choices_come_out_and_nothing_moves() {
    for (behaviour, objective) in
        [(in_waves as Behaviour, Objective::Fastest), (in_pairs as Behaviour, Objective::Cheapest)]
    {
        let records = Gateway::new(RoutingPolicy::default(), behaviour).serve(2_000, objective);
        let (open_loop, made) = looped(&records, RoutingPolicy::default());
        let nearness = open_loop.nearness();
        assert!(nearness.is_near(), "{nearness:?}");
        assert!(nearness.alike_share() > 0.97 && nearness.estimated_share() > 0.9, "{nearness:?}");
        assert!(nearness.times_apart() < 0.05 && nearness.failures_apart() < 0.01, "{nearness:?}");
        assert!(made.iter().all(|made| made.from == made.to && made.before == made.after));
    }
}

#[test]
fn an_answer_that_was_set_aside_is_left_out_because_the_figures_are_those_of_the_second() {
    let mut records = Gateway::new(RoutingPolicy::default(), in_waves).serve(20, Objective::Cheapest);
    let first = &mut records[5].attempts[0];
    (first.served, first.cause) = (false, Some("schema".into()));
    let (open_loop, _) = looped(&records, RoutingPolicy::default());
    assert_eq!((open_loop.nearness().attempts, open_loop.nearness().unplaced), (19, 1));
}

#[test]
fn a_longer_half_life_moves_decisions_as_a_gateway_that_had_it() {
    let longer =
        StatsPolicy { half_life: Duration::from_secs(600), max_weight: 1_000.0, ..RoutingPolicy::default().stats };
    let records = Gateway::new(RoutingPolicy::default(), in_waves).serve(2_400, Objective::Fastest);
    let (open_loop, made) = looped(&records, with_stats(longer));
    assert!(open_loop.nearness().is_near(), "{:?}", open_loop.nearness());
    let really = Gateway::new(with_stats(longer), in_waves).serve(2_400, Objective::Fastest);
    let of_first = |endpoint: Option<pointsman_domain::EndpointId>| {
        endpoint == records[0].catalog.endpoint(0).map(|endpoint| endpoint.id)
    };
    let share = |count: usize| count as f64 / made.len() as f64;
    let was = share(made.iter().filter(|made| of_first(made.from)).count());
    let says = share(made.iter().filter(|made| of_first(made.to)).count());
    let is =
        share(really.iter().filter(|record| of_first(record.decision.plan().next().map(|it| it.endpoint))).count());
    assert!((was - is).abs() > 0.03, "the constant changes something: {was} {is}");
    assert!((says - is).abs() < (was - is).abs(), "was {was}, would be {says}, is {is} where it runs");
}

#[test]
fn a_breaker_that_opens_earlier_keeps_requests_away_from_an_endpoint_that_fails() {
    let policy = RoutingPolicy::default();
    let earlier = RoutingPolicy { breaker: BreakerPolicy { consecutive: 1, ..policy.breaker }, ..policy.clone() };
    let records = Gateway::new(policy, in_pairs).serve(2_000, Objective::Cheapest);
    let (open_loop, made) = looped(&records, earlier);
    assert!(open_loop.nearness().is_near(), "{:?}", open_loop.nearness());
    let moved: Vec<&Redecided> = made.iter().filter(|made| made.from != made.to).collect();
    assert!(moved.len() > 20, "{}", moved.len());
    assert!(moved.iter().all(|made| made.reason == 1), "the only change is the reason");
}

#[test]
fn records_that_lack_what_was_known_are_refused_or_keep_what_they_recorded() {
    let records = Gateway::new(RoutingPolicy::default(), in_waves).serve(2_000, Objective::Fastest);
    let (late, made) = looped(&records[1_900..], RoutingPolicy::default());
    assert!(late.nearness().alike_share() > 0.9, "what is not estimated again is kept: {:?}", late.nearness());
    assert!(made.iter().all(|made| made.from == made.to));
    let (short, _) = looped(&records[1_990..], RoutingPolicy::default());
    assert!(!short.nearness().is_enough() && !short.nearness().is_near());
    // Other replicas made the attempts of most records, which are elsewhere.
    let mut foreign = records.clone();
    foreign.iter_mut().enumerate().filter(|(n, _)| n % 2 == 0).for_each(|(_, record)| {
        record.attempts.iter_mut().for_each(|attempt| attempt.first_token_ms = attempt.first_token_ms.map(|ms| ms / 8));
    });
    let (far, _) = looped(&foreign, RoutingPolicy::default());
    assert!(!far.nearness().is_near(), "{:?}", far.nearness());
}

#[test]
fn fewer_conversations_can_be_said_and_others_cannot() {
    let policy = RoutingPolicy::default();
    let sticky = |sticky: StickyPolicy| {
        let world = World::under(TWO, policy.clone());
        let after = RoutingPolicy { sticky, ..policy.clone() };
        let catalog = &world.snapshot.catalog;
        let side = Side { catalog: Arc::clone(catalog), policy: Arc::new(after), objective: None };
        Comparison::new(catalog, &world.snapshot.policy, None, &side).keeps_other_conversations()
    };
    assert!(!sticky(StickyPolicy { enabled: false, ..policy.sticky }));
    assert!(!sticky(StickyPolicy { min_prompt_tokens: 9_000, ..policy.sticky }));
    assert!(sticky(StickyPolicy { min_prompt_tokens: 9, ..policy.sticky }));
    assert!(sticky(StickyPolicy { ttl: Duration::from_secs(9), ..policy.sticky }));
}

#[test]
fn an_endpoint_that_is_new_has_no_answer_and_is_named() {
    let records = Gateway::new(RoutingPolicy::default(), in_waves).serve(20, Objective::Cheapest);
    let after = World::of(&format!("{TWO} | acme/a@coil $0.1/0.2"));
    let (_, made) = looped_through(&records, Arc::clone(&after.snapshot.catalog), RoutingPolicy::default());
    assert_eq!(made.len(), 20);
    for made in made {
        assert_ne!(made.to, made.from);
        assert_eq!((made.grade, made.unmeasured.into_iter().collect()), (Grade::None, vec![made.to.unwrap()]));
    }
}
