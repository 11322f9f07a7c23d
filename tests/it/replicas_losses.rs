//! What Redis forgets or refuses while replicas go on: shared spending limits hold, and a part that is missing is named.

use std::time::Duration;

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::TestGateway,
    issued_keys::{ADMIN, call, chat, issue},
    patience::eventually,
    replicas::{OwnProcess, replica, store_is},
    replicas_redis::{Pair, call_for_17_cents, report},
    stores::{self, Store},
    world::saying,
};

/// A way in which Redis loses what it knew.
type Loss = fn(&mut Store, &str);

fn flush(redis: &mut Store, _: &str) {
    redis.ask("flushall").unwrap();
}

fn delete(redis: &mut Store, leases: &str) {
    redis.ask(&format!("del {leases}")).unwrap();
}

fn evict(redis: &mut Store, _: &str) {
    redis.ask("config set maxmemory-policy allkeys-lru").unwrap();
    redis.ask("config set maxmemory 1").unwrap();
    // Room is made for a command that needs some.
    redis.ask("set room 1");
    redis.ask("config set maxmemory 0").unwrap();
}

fn restart_empty(redis: &mut Store, _: &str) {
    redis.wipe();
    redis.start();
}

/// The key of Redis with leases of this amount in use, which nobody else has.
fn leases_with(redis: &Store, used: &str) -> Option<String> {
    let keys = redis.ask("keys *:budget:*")?;
    let of = |key: &&str| redis.ask(&format!("hvals {key}")).unwrap_or_default();
    // Kept and used are the same: its replica has nothing to report.
    keys.lines().find(|key| of(key).lines().any(|lease| lease.contains(&format!(":{used}:{used}:")))).map(str::to_owned)
}

/// One replica spends and then rests with nothing to report, Redis loses what it knew, and the other spends what it can.
async fn check(pair: &Pair, redis: &mut Store, loss: Loss, key: &str) {
    let spends = async |gateway: &TestGateway| call_for_17_cents(gateway, key).await.status;
    let mut served = 0;
    while served < 5 {
        let first = async || spends(&pair.two).await;
        eventually("a lease is given", first, |status| *status == 200).await;
        served += 1;
    }
    // The other wants more than is free, so that the first gives back all that it does not use.
    let resting = async || {
        served += u32::from(spends(&pair.one).await == 200);
        leases_with(redis, "850000")
    };
    let leases = eventually("the first keeps what it spent and no more", resting, Option::is_some).await.unwrap();
    assert!(f64::from(served) * 0.17 < 1.9, "the other has something left to spend: {served}");
    loss(redis, &leases);
    // No lease is given for 5 s; then the other learns what was spent.
    let used_up = async || {
        let status = spends(&pair.one).await;
        served += u32::from(status == 200);
        status
    };
    eventually("the limit is used up", used_up, |status| *status == 402).await;
    let spent = f64::from(served) * 0.17;
    assert!(spent <= 2.0, "{spent} of 2 dollars");
    assert!(spent > 2.0 - 0.5, "the limit is used up: {spent}");
}

#[actix_web::test]
async fn a_spending_limit_holds_although_redis_loses_what_an_idle_replica_reported() {
    let (Some(postgres), Some(mut redis)) = (stores::postgres(), stores::redis()) else { return };
    let pair = Pair::start(&postgres, &redis, json!({ "name": "first" })).await;
    let losses: [(&str, Loss); 4] =
        [("flushed", flush), ("deleted", delete), ("evicted", evict), ("restarted", restart_empty)];
    for (name, loss) in losses {
        // The limit of the account is that of all its keys.
        let members = match name {
            "deleted" => {
                let limits = Some(json!({ "limit": 2 }));
                call(&pair.one.admin(), Method::PUT, "/api/v1/admin/accounts/deleted", ADMIN, limits).await.expect(200);
                json!({ "name": name, "account": name })
            }
            _ => json!({ "name": name, "limit": 2 }),
        };
        let (key, _) = issue(&pair.one, members).await;
        let known = async || call(&pair.two, Method::GET, "/api/v1/key", &key, None).await.status;
        eventually("the key is known", known, |status| *status == 200).await;
        check(&pair, &mut redis, loss, &key).await;
    }
}

#[actix_web::test]
async fn after_the_leases_of_one_limit_were_lost_none_is_given_before_all_replicas_have_reported_theirs() {
    let Some(redis) = stores::redis() else { return };
    report(&redis, "idle", [40, 40, 40, 40]);
    let all = async || report(&redis, "busy", [0, 0, 10, 10]);
    eventually("a lease is given", all, |granted| *granted == 60).await;
    redis.ask("del leases").unwrap();
    assert_eq!(report(&redis, "busy", [60, 60, 100, 100]), 60, "the other may have something");
    assert_eq!(report(&redis, "idle", [40, 40, 40, 40]), 40);
    let lost = redis.ask("zscore settled lost").unwrap();
    assert!(lost.starts_with('-'), "the other hears of it: {lost}");
    for _ in 0..30 {
        actix_web::rt::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(report(&redis, "busy", [60, 60, 100, 100]), 60);
    }
    // A limit that nobody used so far needs no such time.
    redis.ask("zrem settled leases").unwrap();
    redis.ask("del leases").unwrap();
    assert_eq!(report(&redis, "busy", [0, 0, 10, 10]), 100);
}

#[actix_web::test]
async fn the_first_call_of_a_limited_key_is_served_once_an_empty_redis_was_connected_for_5_s() {
    let Some(redis) = stores::redis() else { return };
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = replica(&upstream, &folder, None, Some(&redis)).start().await;
    store_is(&gateway, "redis", "ok").await;
    let (key, _) = issue(&gateway, json!({ "name": "limited", "limit": 5 })).await;
    let left_ms = || {
        let settled: f64 = redis.ask("zscore {pointsman}:limits settled").unwrap().parse().unwrap();
        let now: f64 = redis.ask("time").unwrap().lines().next().unwrap().parse().unwrap();
        -settled - now * 1_000.0
    };
    // The time of Redis is told in whole seconds.
    assert!(left_ms() <= 6_000.0);
    crate::patience::until("leases are given", || left_ms() < 0.0).await;
    assert_eq!(call_for_17_cents(&gateway, &key).await.status, 200);
}

/// What `/health` says of Redis.
async fn health(gateway: &TestGateway) -> Value {
    gateway.get("/health").await.expect(200)["stores"]["redis"].clone()
}

#[actix_web::test]
async fn each_command_that_redis_refuses_is_warned_of_once_and_named_or_makes_it_away() {
    let Some(redis) = stores::redis() else { return };
    redis.ask("acl setuser gate on >5ec2e7 ~* &* +@all").unwrap();
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let mut process = OwnProcess::new(&upstream, &folder, None, Some(&redis));
    process.set("REDIS_URL", &redis.url().replace("redis://", "redis://gate:5ec2e7@"));
    let process = process.start();
    let gateway = process.gateway();
    store_is(&gateway, "redis", "ok").await;
    let reconnect = || drop(redis.ask("client kill user gate"));
    for command in ["subscribe", "publish"] {
        redis.ask(&format!("acl setuser gate -{command}")).unwrap();
        reconnect();
        let is_named = |store: &Value| store["refused_commands"] == json!([command]) && store["state"] == "degraded";
        eventually(command, async || health(&gateway).await, is_named).await;
        process.says(&format!("Redis refuses {command}: "), 1).await;
        // Leases do not need it.
        let (key, _) = issue(&gateway, json!({ "name": command, "limit": 5 })).await;
        let served = async || call_for_17_cents(&gateway, &key).await.status;
        eventually("a lease is given", served, |status| *status == 200).await;
        assert_eq!(process.stderr().matches(&format!("Redis refuses {command}: ")).count(), 1);
        redis.ask(&format!("acl setuser gate +{command}")).unwrap();
        reconnect();
        eventually(command, async || health(&gateway).await, |store| store["state"] == "ok").await;
    }
    for command in ["eval", "evalsha", "script", "info", "get", "set", "hset", "hgetall", "zadd", "pexpireat", "time"] {
        redis.ask(&format!("acl setuser gate -{command}")).unwrap();
        reconnect();
        store_is(&gateway, "redis", "away").await;
        process.says(&format!("'{command}"), 1).await;
        for _ in 0..20 {
            let store = health(&gateway).await;
            assert_eq!(store["state"], "away", "{command}: it stays away: {store}");
            actix_web::rt::time::sleep(Duration::from_millis(20)).await;
        }
        redis.ask(&format!("acl setuser gate +{command}")).unwrap();
        store_is(&gateway, "redis", "ok").await;
    }
    chat(&gateway, crate::harness::KEY, json!({"max_tokens": 5})).await.expect(200);
}
