//! Two gateways that share Redis: spending limits and rate limits.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use actix_web::http::Method;
use futures_util::future::join_all;
use serde_json::json;

use crate::{
    folder::Folder,
    harness::{Reply, TestGateway},
    issued_keys::{ADMIN, call, chat, issue},
    patience::eventually,
    replicas::{OwnProcess, replica, store_is},
    scripted::Upstream,
    stores::{self, Store},
    world::{error_of, saying},
};

/// Two gateways that share both stores, and a key with these members that both know.
pub(crate) struct Pair {
    pub(crate) one: TestGateway,
    pub(crate) two: TestGateway,
    pub(crate) key: String,
    _upstream: Upstream,
    _folders: [Folder; 2],
}

impl Pair {
    pub(crate) async fn start(postgres: &Store, redis: &Store, members: serde_json::Value) -> Pair {
        let (upstream, folders) = (saying("Hello"), [Folder::new(), Folder::new()]);
        let [one, two] = &folders;
        let one = replica(&upstream, one, Some(postgres), Some(redis)).start().await;
        let two = replica(&upstream, two, Some(postgres), Some(redis)).start().await;
        for gateway in [&one, &two] {
            store_is(gateway, "postgres", "ok").await;
            store_is(gateway, "redis", "ok").await;
        }
        let (key, _) = issue(&one, members).await;
        let pair = Pair { one, two, key, _upstream: upstream, _folders: folders };
        for gateway in [&pair.one, &pair.two] {
            let known = async || call(gateway, Method::GET, "/api/v1/key", &pair.key, None).await.status;
            eventually("the key is known", known, |status| *status == 200).await;
        }
        pair
    }

    fn both(&self) -> [&TestGateway; 2] {
        [&self.one, &self.two]
    }

    async fn call(&self, gateway: &TestGateway) -> u16 {
        call_for_17_cents(gateway, &self.key).await.status
    }
}

/// A call that costs exactly 17 cents. Its prompt is long enough that it cannot cost more than was reserved for it.
pub(crate) async fn call_for_17_cents(gateway: &TestGateway, key: &str) -> Reply {
    let question = "Which way leads from the harbour to the old lighthouse on the northern cliff, and how long is it?";
    chat(gateway, key, json!({"max_tokens": 5, "messages": [{"role": "user", "content": question}]})).await
}

/// What all records in PostgreSQL cost.
fn spent(postgres: &Store) -> f64 {
    postgres.ask("select coalesce(sum(cost), 0) from pointsman_records").unwrap().parse().unwrap()
}

#[actix_web::test]
async fn one_budget_is_never_overspent_by_two_replicas_and_is_used_up_to_its_end() {
    let (Some(postgres), Some(redis)) = (stores::postgres(), stores::redis()) else { return };
    let pair = Pair::start(&postgres, &redis, json!({ "name": "shared", "limit": 6 })).await;
    let mut served = 0;
    // Redis gives no lease in its first moments.
    let first = async || pair.call(&pair.one).await;
    eventually("a lease is given", first, |status| *status == 200).await;
    served += 1;
    let (mut refused_for_good, mut last) = (0, Vec::new());
    for _ in 0..60 {
        let calls = (0..3).flat_map(|_| pair.both()).map(|gateway| pair.call(gateway));
        let answers = join_all(calls).await;
        served += answers.iter().filter(|status| **status == 200).count();
        last.clone_from(&answers);
        assert!(answers.iter().all(|status| [200, 402, 503].contains(status)), "{answers:?}");
        refused_for_good = if answers.iter().all(|status| *status == 402) { refused_for_good + 1 } else { 0 };
        if refused_for_good == 2 {
            break;
        }
        actix_web::rt::time::sleep(Duration::from_millis(50)).await;
    }
    let kept = redis.ask("keys *budget:key*").unwrap();
    let kept = redis.ask(&format!("hgetall {}", kept.trim())).unwrap();
    assert_eq!(
        refused_for_good, 2,
        "in the end both know that the limit is used up; served {served}; {last:?}; {kept}"
    );
    let all = async || postgres.ask("select count(*) from pointsman_records where cost > 0").unwrap();
    eventually("all records are in PostgreSQL", all, |count| *count == served.to_string()).await;
    let spent = spent(&postgres);
    assert!(spent <= 6.0, "{spent}");
    // A call reserves up to about 0.4 dollars.
    assert!(spent > 6.0 - 0.5, "the rest of a limit does not stay behind in a lease: {spent}");
}

#[actix_web::test]
async fn without_redis_a_lease_lasts_until_it_is_used_up_and_keys_without_a_budget_go_on() {
    let (Some(postgres), Some(mut redis)) = (stores::postgres(), stores::redis()) else { return };
    let pair = Pair::start(&postgres, &redis, json!({ "name": "limited", "limit": 100 })).await;
    let (free, _) = issue(&pair.one, json!({ "name": "free" })).await;
    let first = async || pair.call(&pair.one).await;
    eventually("a lease is given", first, |status| *status == 200).await;
    redis.kill();
    store_is(&pair.one, "redis", "away").await;
    let mut served = 0;
    let refused = loop {
        let reply = chat(&pair.one, &pair.key, json!({"max_tokens": 5})).await;
        if reply.status != 200 {
            break reply;
        }
        served += 1;
        assert!(served < 50, "a lease has an end");
    };
    assert!(served >= 3, "a block is 2 % of the limit, about 11 calls: {served}");
    let error = error_of(&refused, 503);
    assert_eq!(error["metadata"]["reason"], "budget_lease_used_up", "{error}");
    assert_eq!(refused.header("retry-after"), Some("1"));
    chat(&pair.one, &free, json!({"max_tokens": 5})).await.expect(200);

    // It comes back without its data.
    redis.wipe();
    redis.start();
    let again = async || pair.call(&pair.one).await;
    eventually("a lease is given again", again, |status| *status == 200).await;
    let kept = redis.ask("keys *budget*").unwrap();
    assert!(kept.contains("budget:key:"), "{kept}");
}

#[actix_web::test]
async fn what_a_killed_replica_had_not_used_of_its_lease_comes_back() {
    let (Some(postgres), Some(redis)) = (stores::postgres(), stores::redis()) else { return };
    let (upstream, one_folder, two_folder) = (saying("Hello"), Folder::new(), Folder::new());
    let short = |mut process: OwnProcess| {
        process.set("POINTSMAN__SHARED__LEASE_EXPIRY", "2s");
        process.set("POINTSMAN__SHARED__BUDGET_BLOCK", "1.0");
        process
    };
    let one = short(OwnProcess::new(&upstream, &one_folder, Some(&postgres), Some(&redis)));
    let two = short(OwnProcess::new(&upstream, &two_folder, Some(&postgres), Some(&redis)));
    let (mut one, two) = (one.start(), two.start());
    // A call reserves about 0.34 dollars. When the kill comes while one is in progress, half of what it leaves must suffice for another.
    let (key, _) = issue(&one.gateway(), json!({ "name": "shared", "limit": 2 })).await;
    // It leases the whole limit.
    let first = async || call_for_17_cents(&one.gateway(), &key).await.status;
    eventually("a lease is given", first, |status| *status == 200).await;
    one.signal("KILL");
    one.end().await;
    let other = async || call_for_17_cents(&two.gateway(), &key).await.status;
    let leases = || redis.ask(&format!("hgetall {}", redis.ask("keys *budget:key:*")?));
    let other_and_leases = async || (other().await, leases());
    eventually("the other replica gets what was left", other_and_leases, |(status, _)| *status == 200).await;
    let mut served = 2;
    while other().await == 200 {
        served += 1;
    }
    assert!(f64::from(served) * 0.17 <= 2.0, "{served}");
}

/// Runs the script of leases for a limit of 100, as a replica does: it keeps and used so much, and would like all. Gives what
/// it has then. No lease is given in the first 200 ms of a Redis, and one that is not reported for 100 ms has expired.
pub(crate) fn report(redis: &Store, node: &str, [kept, used, need, ceiling]: [u32; 4]) -> i64 {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/state/replicas/redis/lease.lua");
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let answer = redis.ask(&format!(
        "--eval {script} leases settled , {node} {number} {kept} {used} {used} {need} 100 100 100 200 0 {ceiling}"
    ));
    answer.unwrap().lines().nth(1).unwrap().parse().unwrap()
}

#[actix_web::test]
async fn the_rest_of_a_lease_that_was_reported_once_at_the_first_moment_of_a_redis_comes_back() {
    let Some(redis) = stores::redis() else { return };
    assert_eq!(report(&redis, "gone", [80, 10, 80, 30]), 80, "what it keeps it keeps");
    let rest = async || report(&redis, "here", [0, 0, 50, 50]);
    eventually("the other replica gets what the first cannot have used", rest, |granted| *granted == 70).await;
}

#[actix_web::test]
async fn a_lease_that_was_not_reported_since_redis_started_counts_in_full() {
    let Some(mut redis) = stores::redis() else { return };
    report(&redis, "gone", [80, 10, 80, 30]);
    redis.kill();
    redis.start();
    // As a replica does that sees another start of Redis than before.
    redis.ask("del settled").unwrap();
    let rest = async || report(&redis, "here", [0, 0, 20, 20]);
    eventually("the other replica gets what the first did not keep", rest, |granted| *granted == 20).await;
    for _ in 0..30 {
        actix_web::rt::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(report(&redis, "here", [20, 0, 50, 20]), 20, "the lease of the other may be used up");
    }
}

#[actix_web::test]
async fn a_rate_limit_holds_for_both_replicas_together_and_for_each_alone_without_redis() {
    let (Some(postgres), Some(mut redis)) = (stores::postgres(), stores::redis()) else { return };
    let pair = Pair::start(&postgres, &redis, json!({ "name": "rated" })).await;
    let (key, data) = issue(&pair.one, json!({ "name": "slow" })).await;
    let path = format!("/api/v1/keys/{}", data["hash"].as_str().unwrap());
    call(&pair.one, Method::PATCH, &path, ADMIN, Some(json!({ "requests_per_minute": 6 }))).await.expect(200);
    let known =
        async || call(&pair.two, Method::GET, &path, ADMIN, None).await.json()["data"]["requests_per_minute"].clone();
    eventually("the other replica knows the limit", known, |limit| *limit == json!(6)).await;
    for _ in 0..4 {
        chat(&pair.one, &key, json!({"max_tokens": 5})).await.expect(200);
    }
    actix_web::rt::time::sleep(Duration::from_millis(700)).await;
    let mut there = 0;
    while chat(&pair.two, &key, json!({"max_tokens": 5})).await.status == 200 {
        there += 1;
    }
    assert!((1..=2).contains(&there), "4 of 6 were used at the other replica, {there} here");

    redis.kill();
    store_is(&pair.two, "redis", "away").await;
    let (other, data) = issue(&pair.one, json!({ "name": "other" })).await;
    let path = format!("/api/v1/keys/{}", data["hash"].as_str().unwrap());
    call(&pair.one, Method::PATCH, &path, ADMIN, Some(json!({ "requests_per_minute": 3 }))).await.expect(200);
    let known =
        async || call(&pair.two, Method::GET, &path, ADMIN, None).await.json()["data"]["requests_per_minute"].clone();
    eventually("the other replica knows the limit", known, |limit| *limit == json!(3)).await;
    for gateway in pair.both() {
        for expected in [200, 200, 200, 429] {
            assert_eq!(chat(gateway, &other, json!({"max_tokens": 5})).await.status, expected);
        }
    }
}
