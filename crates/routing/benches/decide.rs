//! What a decision costs, with everything it writes down: `cargo bench -p pointsman-routing --bench decide`.
#![expect(clippy::expect_used, clippy::panic, reason = "a bench may stop at the first surprise")]

#[path = "../tests/it/routing_world/mod.rs"]
mod routing_world;

use std::{hint::black_box, sync::Arc};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use mimalloc::MiMalloc;
use pointsman_domain::{EventKind, Objective, RoutingPolicy, Tick, Weights};
use pointsman_routing::{
    decide::{decide, decide_to_serve, decide_with_terms},
    explain::{
        diff::{Asked, Shadow, Side, Watched},
        reason_sentence,
    },
    stats::{LiveBoard, LiveView, Snapshot},
};
use routing_world::{NOW, World};

/// As in the server: a decision allocates a table of its candidates.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const SIZES: [usize; 3] = [8, 100, 400];

/// Endpoints of many characters; every third is in use, none is shut.
fn world(size: usize) -> World {
    let entry = |i: usize| {
        let (ms, tps, price) = (80 + (i * 37) % 900, 20 + (i * 13) % 300, 1 + (i * 7) % 30);
        let in_flight = if i.is_multiple_of(3) { 1 + i % 5 } else { 0 };
        format!(
            "m{}/x@p{} {ms}ms {tps}tps ${price}/{} k{in_flight} knee8 w{} idle{}",
            i / 4,
            i % 9,
            3 * price,
            i % 40,
            i % 90
        )
    };
    World::of(&(0..size).map(entry).collect::<Vec<_>>().join(" | "))
}

fn decisions(c: &mut Criterion) {
    let mut group = c.benchmark_group("decide");
    for size in SIZES {
        let world = world(size);
        for objective in Objective::ALL {
            let query = world.query(objective, "");
            let mut seed = 0;
            group.bench_function(BenchmarkId::new(objective.as_str(), size), |b| {
                b.iter(|| {
                    seed += 1;
                    decide_to_serve(&world.snapshot, &world.live, black_box(&query), NOW, Some(seed))
                });
            });
        }
        let query = world.query(Objective::Balanced, "");
        group.bench_function(BenchmarkId::new("preview", size), |b| {
            b.iter(|| decide(&world.snapshot, &world.live, black_box(&query), NOW, None));
        });
    }
    group.finish();
}

fn board(c: &mut Criterion) {
    let mut group = c.benchmark_group("board");
    let policy = RoutingPolicy::default();
    for size in SIZES {
        let world = world(size);
        let board = LiveBoard::new(world.catalog(), 1);
        let decision = world.decide(&world.query(Objective::Fastest, "")).expect("a decision");
        let choice = decision.candidates.first().expect("a candidate");
        let held: Vec<_> = decision.candidates.iter().step_by(3).collect();
        held.iter().for_each(|candidate| _ = board.claim(candidate.index, NOW, candidate));
        let mut view = LiveView::default();
        group.bench_function(BenchmarkId::new("view", size), |b| b.iter(|| board.refresh(black_box(NOW), &mut view)));
        let end = EventKind::Cancelled { had_content: true };
        group.bench_function(BenchmarkId::new("claim_and_finish", size), |b| {
            b.iter(|| {
                let claim = board.claim(choice.index, NOW, choice).expect("a claim");
                board.finish(claim, Tick(NOW.0 + 1), end, &policy)
            });
        });
    }
    group.finish();
}

/// What a shadow policy takes of a worker: its decision, the copy of the live state, and the copy of each published snapshot.
fn shadow(c: &mut Criterion) {
    let mut group = c.benchmark_group("shadow");
    for size in SIZES {
        let world = world(size);
        let side = |policy: &Arc<RoutingPolicy>, objective| Side {
            catalog: Arc::clone(&world.snapshot.catalog),
            policy: Arc::clone(policy),
            objective: Some(objective),
        };
        let policy = &world.snapshot.policy;
        let balanced = Weights { latency: 0.2, cost: 0.8, quality: 0.0 };
        let other = Arc::new(RoutingPolicy { balanced, ..RoutingPolicy::clone(policy) });
        let query = world.query(Objective::Balanced, "");
        let decided = || decide_with_terms(&world.snapshot, &world.live, black_box(&query), NOW, Some(7));
        group.bench_function(BenchmarkId::new("terms", size), |b| b.iter(decided));
        let terms = decided().expect("a decision").1;
        let read = |version: u64| Asked {
            query: Box::new(query.clone()),
            snapshot: Arc::new(Snapshot { version, ..world.snapshot.clone() }),
            live: world.live.clone(),
            now: NOW,
            seed: Some(7),
            terms: terms.clone(),
        };
        let made = |policy, objective| {
            let watched = Watched { share: 1.0, alias: None, objective: None, until_ms: None };
            let serving = side(&world.snapshot.policy, Objective::Balanced);
            Shadow::new("other".into(), watched, &side(policy, objective), &serving)
        };
        let (asked, again) = (read(1), read(2));
        let shadows = [
            ("same", made(policy, Objective::Balanced)),
            ("other_weights", made(&other, Objective::Balanced)),
            ("other_objective", made(policy, Objective::Cheapest)),
        ];
        for (name, shadow) in shadows {
            group.bench_function(BenchmarkId::new(name, size), |b| {
                b.iter(|| shadow.decide(black_box(&asked), &[], Some(0)));
            });
        }
        let shadow = made(policy, Objective::Cheapest);
        group.bench_function(BenchmarkId::new("two_with_new_statistics", size), |b| {
            b.iter(|| (shadow.decide(black_box(&asked), &[], Some(0)), shadow.decide(&again, &[], Some(0))));
        });
        group.bench_function(BenchmarkId::new("live_copy", size), |b| b.iter(|| black_box(&world.live).clone()));
    }
    group.finish();
}

fn sentence(c: &mut Criterion) {
    let world = world(100);
    let decision = world.decide(&world.query(Objective::Fastest, "")).expect("a decision");
    c.bench_function("reason_sentence", |b| b.iter(|| reason_sentence(&decision, world.catalog(), &[])));
}

criterion_group!(benches, decisions, board, shadow, sentence);
criterion_main!(benches);
