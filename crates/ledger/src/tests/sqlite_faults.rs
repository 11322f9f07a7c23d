//! Transactions that break inside SQLite: at any of its steps, and when the file may not grow.

use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::model::World;
use crate::database::Ledger;

/// Breaks the transactions of the database from its step `step` on: each one, until it is told otherwise.
fn break_at(ledger: &Ledger, step: Option<u64>) {
    ledger.with_writer(|connection| {
        let handler = step.map(|step| {
            let mut passed = 0;
            move || {
                passed += 1;
                passed > step
            }
        });
        connection.progress_handler(1, handler).unwrap();
    });
}

/// Lets the file have `pages` more pages than now.
fn allow_pages(ledger: &Ledger, pages: Option<i64>) {
    ledger.with_writer(|connection| {
        let now: i64 = connection.query_row("pragma page_count", [], |row| row.get(0)).unwrap();
        let most = pages.map_or(i64::from(u32::MAX - 1), |pages| now + pages);
        let set: i64 = connection.query_row(&format!("pragma max_page_count = {most}"), [], |row| row.get(0)).unwrap();
        assert!(set == most || pages.is_none());
    });
}

fn filled(seed: u64) -> World {
    let mut world = World::new(seed);
    world.step(true);
    let mut noise = StdRng::seed_from_u64(seed);
    for _ in 0..10 {
        let mut entry = world.entry();
        // Not to be compressed: a group of them takes ten pages.
        entry.bytes = vec![0; 16_000];
        noise.fill(&mut entry.bytes[..]);
        world.append(entry, None);
    }
    world
}

#[test]
fn a_commit_that_breaks_at_any_step_of_sqlite_stores_nothing_and_is_made_again() {
    let mut broken = 0;
    for step in (0..).step_by(13) {
        let mut world = filled(20);
        let ledger = world.shared.database().unwrap();
        break_at(&ledger, Some(step));
        world.step(true);
        break_at(&ledger, None);
        if world.shared.trouble.load().is_none() {
            break;
        }
        // What follows the commit can break, too.
        let stored = ledger.state().unwrap().entries;
        assert!(stored == 0 || stored == 10, "{stored} stored, broken at step {step}");
        broken += 1;
        world.heal();
        assert!(ledger.check().unwrap().is_empty());
        world.restart(false);
    }
    assert!(broken > 20, "{broken} commits were broken");
}

#[test]
fn a_file_that_may_not_grow_stores_nothing_and_says_that_the_disk_is_full() {
    let mut refused = 0;
    for pages in 0.. {
        let mut world = filled(21);
        let ledger = world.shared.database().unwrap();
        allow_pages(&ledger, Some(pages));
        world.step(true);
        let trouble = world.shared.trouble.load_full();
        allow_pages(&ledger, None);
        let Some(trouble) = trouble else { break };
        assert!(trouble.reason.contains("full"), "{}", trouble.reason);
        assert_eq!(ledger.state().unwrap().entries, 0, "with {pages} pages");
        refused += 1;
        world.heal();
        assert!(ledger.check().unwrap().is_empty());
        world.restart(false);
    }
    assert!(refused > 5, "{refused} commits were refused");
}

#[test]
fn transactions_that_break_now_and_then_lose_and_double_nothing() {
    for seed in 0..8 {
        let mut world = World::new(seed);
        world.step(true);
        for round in 0..30 {
            let ledger = world.shared.database().unwrap();
            break_at(&ledger, (round % 2 == 0).then_some(seed * 31 + round * 97));
            (0..6).for_each(|_| world.act());
            break_at(&ledger, None);
            // The longest pause between two tries.
            world.pass(Duration::from_secs(2));
        }
        world.heal();
        world.restart(false);
    }
}
