//! Ten thousand decisions in random worlds, recorded, written as JSON, read back and made again.

#[path = "../../crates/routing/tests/it/routing_world/mod.rs"]
mod routing_world;

use std::{sync::Arc, time::Duration};

use pointsman::proxy::replay::Recorded;
use pointsman_domain::{
    Catalog, Decision, Objective, Preference, Query, RoutingPolicy, Source, Sourced, StickyEndpoint, Weights,
};
use pointsman_ledger::record::{self, ContentHash, RecordWriter, Version, Versions};
use pointsman_routing::{
    decide::{decide_to_serve, splitmix64},
    explain::{reason_sentence, replay},
};
use routing_world::{NOW, World, code};

use crate::served_generation::served;

/// Chance that repeats.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        splitmix64(self.0)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.roll() % most
    }

    /// From 0 to this, with all the digits a float has.
    fn up_to(&mut self, most: f64) -> f64 {
        most * (self.roll() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

fn endpoint(dice: &mut Dice, model: u64, provider: u64, all_shut: bool) -> String {
    let obstacles: &[&str] = if all_shut {
        &["open3", "open9.5", "half2", "paced1.25", "cool4", "half20"]
    } else {
        &["", "", "", "", "", "", "unseen", "unseen", "open3", "half2", "half20", "cool4", "paced1", "disabled"]
    };
    // Twins tie: the same figures at another provider.
    let (ms, tps, dollars) = match dice.below(6) {
        0 => (200.0, 100.0, 1.0),
        _ => (20.0 + dice.up_to(3000.0), 10.0 + dice.up_to(300.0), dice.up_to(9.0)),
    };
    let (w, ok, bad) = (dice.up_to(40.0), dice.up_to(40.0), dice.of(&[0.0, 0.0, 1.5, 7.25]));
    let (k, knee, late, idle) = (dice.below(9), dice.below(16) + 1, dice.up_to(6.0), dice.up_to(900.0));
    let more = format!("slope{} stuck{} cached${}", dice.of(&[0.0, 0.001]), dice.of(&[0, 0, 0, 2]), 0.2 * dollars);
    let quality = match dice.below(4) {
        0 => String::new(),
        1 => format!("rated{},{}", dice.up_to(1.0), dice.up_to(50.0)),
        2 => format!("q{}", dice.up_to(1.0)),
        _ => format!("q{} rated{},{}", dice.up_to(1.0), dice.up_to(1.0), dice.up_to(50.0)),
    };
    format!(
        "m/{model}@p{provider} {ms}ms {tps}tps w{w} ok{ok} bad{bad} ${dollars}/{} k{k} knee{knee} late{late} idle{idle} {more} {quality} {}",
        3.0 * dollars,
        dice.of(obstacles)
    )
}

fn policy(dice: &mut Dice) -> RoutingPolicy {
    let mut policy = RoutingPolicy {
        exploration: dice.of(&[0.0, 0.3, 0.5, 1.7]),
        staleness: dice.up_to(0.5),
        hot_inflation: 1.0 + dice.up_to(4.0),
        failure_time: Duration::from_nanos(dice.below(400_000_000)),
        cheapest_time_value: dice.up_to(0.01),
        reliable_time_share: dice.up_to(0.1),
        per_accepted: dice.one_in(2),
        ..RoutingPolicy::default()
    };
    policy.stats.half_life = Duration::from_nanos(1 + dice.below(200_000_000_000));
    policy.retry.max_attempts = 1 + dice.below(9) as u32;
    policy.clocks.first_content = Duration::from_nanos(1 + dice.below(20_000_000_000));
    policy.clocks.total = Duration::from_nanos(1 + dice.below(60_000_000_000));
    policy.stamped(1 + dice.below(1000))
}

fn query(dice: &mut Dice, world: &World) -> Query {
    let first = world.catalog().models[0].id.as_str().to_owned();
    let models = dice.of(&["", "", &first, "service/auto", "service/free"]).to_owned();
    let mut query = world.query(dice.of(&Objective::ALL), &models);
    if dice.one_in(4) && models == first {
        query.targets.push(pointsman_domain::Target::Alias(0));
    }
    let quality = if dice.one_in(2) { dice.up_to(3.0) } else { 0.0 };
    query.weights = Weights { latency: dice.up_to(3.0), cost: 0.001 + dice.up_to(2.0), quality };
    query.task_class = dice.one_in(2).then(code);
    query.streamed = dice.one_in(2);
    query.prompt_tokens = dice.below(20_000) as u32;
    query.answers = 1 + dice.below(3) as u32;
    query.max_tokens = dice.of(&[None, Some(16), Some(100), Some(3000)]);
    if dice.one_in(3) {
        let endpoints = &world.catalog().endpoints;
        let endpoint = endpoints[dice.below(endpoints.len() as u64) as usize].id;
        query.sticky = Some(StickyEndpoint { endpoint, cached_tokens: dice.below(30_000) as u32 });
    }
    query.routing_mut().provider.allow_fallbacks = !dice.one_in(4);
    query.routing_mut().provider.across_models = dice.one_in(4);
    if dice.one_in(4) {
        query.routing_mut().provider.order = vec!["p3".to_owned(), "p1".to_owned()];
    }
    let wish = |bound| {
        Some(Sourced { value: Preference { p95: Some(bound), ..Preference::default() }, source: Source::TopLevel })
    };
    if dice.one_in(4) {
        query.routing_mut().preferred_max_latency = wish(dice.up_to(3.0));
    }
    if dice.one_in(4) {
        query.routing_mut().preferred_min_throughput = wish(dice.up_to(100.0));
    }
    query
}

/// What the worlds came to: a test of nothing proves nothing.
#[derive(Debug, Default)]
struct Seen {
    decisions: usize,
    noisy: usize,
    explored: usize,
    panic: usize,
    probe: usize,
    tiers: usize,
    tied: usize,
    omitted: usize,
    rivals: usize,
    cached: usize,
}

impl Seen {
    fn count(&mut self, decision: &Decision, tied: usize) {
        let any = |seen: &mut usize, yes: bool| *seen += usize::from(yes);
        any(&mut self.decisions, true);
        any(&mut self.noisy, decision.seed != 0);
        any(&mut self.explored, decision.explored);
        any(&mut self.panic, decision.candidates.iter().any(|candidate| candidate.panic));
        any(&mut self.probe, decision.candidates.iter().any(|candidate| candidate.probe));
        any(&mut self.tiers, decision.candidates.iter().any(|candidate| candidate.inputs.tier > 1));
        any(&mut self.tied, tied > 0);
        any(&mut self.omitted, !decision.omitted.is_empty());
        any(&mut self.rivals, !decision.rivals.is_empty());
        any(&mut self.cached, decision.candidates.iter().any(|candidate| candidate.inputs.cached_tokens > 0));
    }
}

#[test]
fn ten_thousand_recorded_decisions_are_made_again_without_a_difference() {
    let mut seen = Seen::default();
    for number in 0_u64.. {
        if seen.decisions == 10_000 {
            break;
        }
        let dice = &mut Dice(splitmix64(number));
        let most = if dice.one_in(6) { 24 } else { 7 };
        let (count, all_shut) = (1 + dice.below(most), dice.one_in(8));
        let endpoints: Vec<String> = (0..count).map(|n| endpoint(dice, n % 6, n / 6, all_shut)).collect();
        let world = World::under(&endpoints.join(" | "), policy(dice));
        let (query, seed) = (query(dice, &world), if dice.one_in(4) { None } else { Some(dice.roll()) });
        let Ok(kept) = decide_to_serve(&world.snapshot, &world.live, &query, NOW, seed) else { continue };
        let policy = &world.snapshot.policy;
        let again = replay(&kept, policy);
        assert!(again.is_identical(), "world {number}: {:?} {:?}", again.differences, again.lost);

        let written = serde_json::to_string(&Recorded::new(&kept, policy, world.catalog())).unwrap();
        let read: Recorded = serde_json::from_str(&written).unwrap();
        let (decision, policy) = read.decision().unwrap();
        let elsewhere = replay(&decision, &policy);
        assert!(
            elsewhere.is_identical(),
            "world {number}, read back: {:?} {:?}",
            elsewhere.differences,
            elsewhere.lost
        );
        assert_eq!(elsewhere, again, "world {number}");
        seen.count(&kept, again.tied.len());
    }
    let Seen { decisions: _, noisy, explored, panic, probe, tiers, tied, omitted, rivals, cached } = seen;
    let each = [noisy, explored, panic, probe, tiers, tied, omitted, rivals, cached];
    assert!(each.iter().all(|count| *count >= 100), "{seen:?}");
}

/// The versions that one record named, read from their bytes.
struct Named(Version, Version);

impl Versions for Named {
    fn catalog(&self, hash: ContentHash) -> Option<Arc<Catalog>> {
        (hash == self.0.hash).then(|| Arc::new(record::read_catalog(&self.0.bytes).unwrap()))
    }

    fn policy(&self, hash: ContentHash) -> Option<Arc<RoutingPolicy>> {
        (hash == self.1.hash).then(|| Arc::new(record::read_policy(&self.1.bytes).unwrap()))
    }
}

#[test]
fn a_stored_decision_is_read_made_again_explained_and_asked_again_as_if_it_had_never_left_memory() {
    let (mut decisions, mut gates, mut excluded) = (0, 0, 0);
    for number in 0_u64..3000 {
        let dice = &mut Dice(splitmix64(number));
        let (count, all_shut) = (1 + dice.below(16), dice.one_in(8));
        let endpoints: Vec<String> = (0..count).map(|n| endpoint(dice, n % 6, n / 6, all_shut)).collect();
        let world = World::under(&endpoints.join(" | "), policy(dice));
        let (query, seed) = (query(dice, &world), dice.roll());
        let decide = |query: &Query| decide_to_serve(&world.snapshot, &world.live, query, NOW, Some(seed));
        let Ok(decision) = decide(&query) else { continue };
        let generation = served(decision, &world.snapshot.catalog, &world.snapshot.policy, number);
        let (mut bytes, mut again) = (Vec::new(), Vec::new());
        let [catalog, policy] = RecordWriter::default().append(&generation, &mut bytes);
        let read = record::read(&bytes, &Named(catalog.unwrap(), policy.unwrap())).unwrap();
        assert_eq!(read, generation, "world {number}");
        RecordWriter::default().append(&read, &mut again);
        assert_eq!(again, bytes, "world {number}");
        let (kept, was) = (&*read.decision, &*generation.decision);
        assert_eq!(replay(kept, &read.policy), replay(was, &generation.policy), "world {number}");
        let sentences = [
            reason_sentence(kept, &read.catalog, &read.attempts),
            reason_sentence(was, &generation.catalog, &generation.attempts),
        ];
        assert_eq!(sentences[0], sentences[1], "world {number}");
        // What was asked is in the record, too: the same question gets the same decision.
        assert_eq!(kept.query(), query, "world {number}");
        assert_eq!(decide(&kept.query()).as_ref(), Ok(was), "world {number}");
        decisions += 1;
        gates += kept.gates.len();
        excluded += kept.excluded.len();
    }
    assert!(decisions > 2000 && gates > 1000 && excluded > 1000, "{decisions} {gates} {excluded}");
}
