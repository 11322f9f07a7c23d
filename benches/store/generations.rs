//! Generations as the gateway records them: requests of all objectives, decided among eight endpoints that learn from each
//! answer.

#[path = "../../crates/routing/tests/it/routing_world/mod.rs"]
mod routing_world;
#[path = "../../tests/it/served_generation.rs"]
mod served_generation;

use std::{sync::Arc, time::Duration};

use pointsman_domain::{Catalog, EndpointEvent, EventKind, GateEvent, Generation, Objective, Query, Tick};
use pointsman_routing::{
    decide::{decide_to_serve, splitmix64},
    stats::{LiveEndpoint, Statistics},
};
use routing_world::World;
use served_generation::served;

/// Requests before the first that is recorded.
const BEFORE: usize = 500;

/// So many generations, ten a second. Statistics are published with every request of `publish_every`.
pub fn recorded(count: usize, publish_every: usize) -> Vec<Generation> {
    let entries: Vec<_> =
        (0..8).map(|i| format!("m{}/x@p{} ${}/{}", i / 2, i % 4, 1 + i * 7 % 30, 3 + i * 5 % 30)).collect();
    let mut world = World::of(&entries.join(" | "));
    let (catalog, policy) = (Arc::clone(&world.snapshot.catalog), Arc::clone(&world.snapshot.policy));
    let mut statistics = Statistics::new(Arc::clone(&catalog), Arc::clone(&policy));
    let mut generations = Vec::new();
    for number in 0..BEFORE + count {
        let chance = |salt: u64| splitmix64(number as u64 ^ salt << 32);
        let now = Tick(1_000_000_000 + number as u64 * 100_000 + chance(1) % 50_000);
        for (at, cell) in (2..).zip(&mut world.live.endpoints) {
            *cell = LiveEndpoint { in_flight: (chance(at) % 4) as u32, used: true, ..LiveEndpoint::default() };
        }
        let query = Query {
            prompt_tokens: 50 + (chance(20) % 4000) as u32,
            max_tokens: [None, Some(1000)][(chance(21) % 2) as usize],
            ..world.query(Objective::ALL[(chance(22) % 4) as usize], "")
        };
        let decision =
            decide_to_serve(&world.snapshot, &world.live, &query, now, Some(chance(23))).expect("a decision");
        // The choice answers, and so does another endpoint, asked by another worker.
        for index in [decision.candidates[0].index, (chance(24) % 8) as u32] {
            answer(&mut statistics, &catalog, index, now, chance(25 + u64::from(index)));
        }
        if number % publish_every == 0 {
            world.snapshot = statistics.snapshot_at(number as u64, now);
        }
        if number >= BEFORE {
            generations.push(served(decision, &catalog, &policy, number as u64));
        }
    }
    generations
}

fn answer(statistics: &mut Statistics, catalog: &Catalog, index: u32, now: Tick, chance: u64) {
    let first_token = Duration::from_micros(80_000 + 40_000 * u64::from(index) + chance % 150_000);
    let total = first_token + Duration::from_micros(300_000 + chance / 7 % 2_000_000);
    let completed = EventKind::Completed {
        streamed: true,
        first_token,
        total,
        prompt_tokens: 50 + (chance % 4000) as u32,
        completion_tokens: 20 + (chance / 11 % 400) as u32,
        max_tokens: None,
        prompt_ratio: Some(0.9 + (chance % 200) as f64 / 1000.0),
        hidden_tokens: 0,
        cost: Some(0.001),
    };
    statistics.apply(&EndpointEvent {
        endpoint: catalog.endpoints[index as usize].id,
        at: now,
        dispatched: Tick(now.0 - total.as_micros() as u64),
        in_flight: 1,
        predicted: pointsman_domain::Prediction::NONE,
        expected: 0.3,
        gate: GateEvent::Unmoved,
        kind: completed,
    });
}
