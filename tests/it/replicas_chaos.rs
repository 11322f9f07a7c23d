//! Stores and replicas that are killed and brought back while requests come in.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    time::{Duration, Instant},
};

use actix_web::rt::time::sleep;
use futures_util::future::join_all;
use serde_json::json;

use crate::{
    folder::Folder,
    harness::{KEY, TestGateway},
    issued_keys::{chat, issue},
    patience::eventually,
    replicas::{OwnProcess, store_is},
    scripted::Upstream,
    stores::{self, Store},
    world::saying,
};

/// Calls in progress at each gateway.
const CALLERS: usize = 4;

/// Calls at some gateways, one after the other, until it is told to end.
#[derive(Default)]
struct Load {
    ended: Cell<bool>,
    /// No call is in progress any more.
    finished: Cell<bool>,
    /// Ids of all answers that were read to their end.
    ids: RefCell<BTreeSet<String>>,
    /// Statuses of all other answers.
    failed: RefCell<Vec<u16>>,
    longest: Cell<Duration>,
}

impl Load {
    async fn on(&self, gateways: &[TestGateway], keys: &[&str]) {
        let callers = gateways.iter().flat_map(|gateway| (0..CALLERS).map(move |number| (gateway, number)));
        let call = |(gateway, number): (&TestGateway, usize)| {
            let gateway = TestGateway::at(gateway.address);
            async move {
                while !self.ended.get() {
                    let begun = Instant::now();
                    // Long enough that a call cannot cost more than was reserved for it.
                    let question = "Which way leads from the harbour to the old lighthouse on the northern cliff, and how long is it?";
                    let more = json!({"max_tokens": 5, "messages": [{"role": "user", "content": question}]});
                    let reply = chat(&gateway, keys[number % keys.len()], more).await;
                    self.longest.set(self.longest.get().max(begun.elapsed()));
                    match reply.status {
                        200 => drop(self.ids.borrow_mut().insert(reply.json()["id"].as_str().unwrap().to_owned())),
                        status => self.failed.borrow_mut().push(status),
                    }
                    sleep(Duration::from_millis(5)).await;
                }
            }
        };
        join_all(callers.map(call)).await;
        self.finished.set(true);
    }
}

/// The ids of all records in PostgreSQL: seconds, and the characters behind them.
fn stored(postgres: &Store) -> BTreeSet<String> {
    let ids = postgres.ask("select encode(id, 'hex') from pointsman_records").unwrap_or_default();
    let id = |hex: &str| {
        let seconds = u64::from_str_radix(hex.get(..16)?, 16).ok()?;
        let bytes = (16..hex.len()).step_by(2).filter_map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok());
        let tail: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        Some(format!("gen-{seconds}-{}", String::from_utf8(tail).ok()?))
    };
    ids.lines().filter_map(id).collect()
}

async fn all_stored(postgres: &Store, ids: &BTreeSet<String>) {
    let missing = async || ids.difference(&stored(postgres)).count();
    eventually("every answer that was read has its record in PostgreSQL", missing, |missing| *missing == 0).await;
}

fn own(upstream: &Upstream, folder: &Folder, postgres: &Store, redis: &Store) -> OwnProcess {
    OwnProcess::new(upstream, folder, Some(postgres), Some(redis))
}

#[actix_web::test]
async fn stores_killed_and_brought_back_under_load_fail_no_request_and_lose_no_record() {
    let (Some(mut postgres), Some(mut redis)) = (stores::postgres(), stores::redis()) else { return };
    let (upstream, folders) = (saying("Hello"), [Folder::new(), Folder::new()]);
    let [one, two] = folders.each_ref().map(|folder| own(&upstream, folder, &postgres, &redis).start());
    let gateways = [one.gateway(), two.gateway()];
    let (issued, _) = issue(&gateways[0], json!({ "name": "without a budget" })).await;
    let known = async || chat(&gateways[1], &issued, json!({"max_tokens": 5})).await.status;
    eventually("the other replica knows the key", known, |status| *status == 200).await;

    let (budgeted, data) = issue(&gateways[0], json!({ "name": "with a budget", "limit": 20 })).await;
    let leased = async || chat(&gateways[0], &budgeted, json!({"max_tokens": 5})).await.status;
    eventually("a lease of its limit is given", leased, |status| *status == 200).await;

    let (load, limited) = (Load::default(), Load::default());
    let chaos = async {
        for round in 0..2 {
            for gateway in &gateways {
                store_is(gateway, "postgres", "ok").await;
                store_is(gateway, "redis", "ok").await;
            }
            postgres.kill();
            sleep(Duration::from_millis(700)).await;
            if round == 1 {
                // Both at a time.
                redis.kill();
                sleep(Duration::from_millis(700)).await;
            }
            store_is(&gateways[0], "postgres", "away").await;
            postgres.start();
            if round == 0 {
                store_is(&gateways[0], "postgres", "ok").await;
                redis.kill();
                store_is(&gateways[1], "redis", "away").await;
            }
            redis.start();
        }
        for gateway in &gateways {
            store_is(gateway, "postgres", "ok").await;
            store_is(gateway, "redis", "ok").await;
        }
        load.ended.set(true);
        limited.ended.set(true);
    };
    let (free, bound) = ([KEY, &issued], [budgeted.as_str()]);
    futures_util::future::join3(load.on(&gateways, &free), limited.on(&gateways, &bound), chaos).await;
    assert_eq!(load.failed.borrow().as_slice(), [] as [u16; 0]);
    let ids = load.ids.take();
    assert!(load.longest.get() < Duration::from_secs(5), "no call waits for a store: {:?}", load.longest.get());
    assert!(ids.len() > 100, "{}", ids.len());
    all_stored(&postgres, &ids).await;

    let refused = limited.failed.take();
    assert!(refused.iter().all(|status| [401, 402, 503].contains(status)), "{refused:?}");
    let served = limited.ids.take();
    all_stored(&postgres, &served).await;
    let of_key = format!("select sum(cost) from pointsman_records where key = '{}'", data["hash"].as_str().unwrap());
    let spent: f64 = postgres.ask(&of_key).unwrap().parse().unwrap();
    assert!(spent <= 20.0, "{spent}");
    let answered = (1 + served.len()) as f64 * 0.17;
    assert!(answered - spent < 1e-9, "what was answered is billed: {answered} and {spent}");
}

#[actix_web::test]
async fn a_replica_killed_under_load_leaves_the_other_unharmed_and_its_records_come_with_its_restart() {
    let (Some(postgres), Some(redis)) = (stores::postgres(), stores::redis()) else { return };
    let (upstream, folders) = (saying("Hello"), [Folder::new(), Folder::new()]);
    let [first, second] = folders.each_ref().map(|folder| own(&upstream, folder, &postgres, &redis));
    let (mut one, two) = (first.start(), second.start());
    let (load, other) = (Load::default(), Load::default());
    let gateways = ([one.gateway()], [two.gateway()]);
    let chaos = async {
        sleep(Duration::from_millis(1_500)).await;
        // Calls of the killed process would fail: its callers stop first, in the middle of its exchange with the stores.
        load.ended.set(true);
        while !load.finished.get() {
            sleep(Duration::from_millis(1)).await;
        }
        one.signal("KILL");
        one.end().await;
        sleep(Duration::from_millis(700)).await;
        other.ended.set(true);
    };
    futures_util::future::join3(load.on(&gateways.0, &[KEY]), other.on(&gateways.1, &[KEY]), chaos).await;
    assert_eq!((load.failed.borrow().len(), other.failed.borrow().len()), (0, 0));
    let _restarted = first.start();
    let ids = load.ids.take();
    all_stored(&postgres, &ids).await;
    all_stored(&postgres, &other.ids.take()).await;
    let id = ids.last().unwrap();
    two.gateway().get(&format!("/api/v1/route/explain?generation_id={id}")).await.expect(200);
}
