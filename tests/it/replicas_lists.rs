//! Lists and activity of replicas that share PostgreSQL: each shows the calls of all.

use std::collections::BTreeSet;

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::{KEY, TestGateway},
    issued_keys::{ADMIN, call, chat, issue},
    patience::eventually,
    replicas::{replica, store_is},
    scripted::Upstream,
    stores::{self, Store},
    world::{column, saying},
};

struct Pair {
    gateways: [TestGateway; 2],
    _upstream: Upstream,
    _folders: [Folder; 2],
}

impl Pair {
    async fn start(postgres: &Store) -> Pair {
        let (upstream, folders) = (saying("Hello"), [Folder::new(), Folder::new()]);
        let [one, two] = folders.each_ref().map(|folder| replica(&upstream, folder, Some(postgres), None));
        let gateways = [one.start().await, two.start().await];
        for gateway in &gateways {
            store_is(gateway, "postgres", "ok").await;
        }
        Pair { gateways, _upstream: upstream, _folders: folders }
    }

    /// Calls at both in turn, and waits until all records are in PostgreSQL. Gives their ids.
    async fn call(&self, postgres: &Store, key: &str, count: usize) -> BTreeSet<String> {
        let mut ids = BTreeSet::new();
        for number in 0..count {
            let gateway = &self.gateways[number % 2];
            let reply = chat(gateway, key, json!({"max_tokens": 5})).await.expect(200);
            ids.insert(reply["id"].as_str().unwrap().to_owned());
        }
        let stored = async || postgres.ask("select count(*) from pointsman_records").unwrap().parse::<usize>().unwrap();
        eventually("all records are in PostgreSQL", stored, |stored| *stored >= count).await;
        ids
    }
}

/// The ids on all pages, in their order.
async fn all_pages(gateway: &TestGateway, key: &str, path: &str) -> Vec<String> {
    let (mut ids, mut after) = (Vec::new(), String::new());
    loop {
        let page = call(gateway, Method::GET, &format!("{path}{after}"), key, None).await.expect(200);
        assert_eq!(page["replicas"], "all", "{page}");
        ids.extend(column(&page["data"], "id").into_iter().map(str::to_owned));
        let Some(next) = page["next"].as_str() else { return ids };
        after = format!("&after={next}");
    }
}

#[actix_web::test]
async fn every_replica_lists_the_generations_of_all_page_by_page_each_once_and_the_newest_first() {
    let Some(postgres) = stores::postgres() else { return };
    let pair = Pair::start(&postgres).await;
    let ids = pair.call(&postgres, KEY, 11).await;
    let mut orders = Vec::new();
    for gateway in &pair.gateways {
        let listed = all_pages(gateway, KEY, "/api/v1/generations?limit=3").await;
        assert_eq!(listed.len(), 11);
        assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), ids);
        orders.push(listed);
    }
    assert_eq!(orders[0], orders[1], "both have one order");
    let admin = all_pages(&pair.gateways[0].admin(), ADMIN, "/api/v1/admin/generations?limit=4").await;
    assert_eq!(admin, orders[0]);
    let none = pair.gateways[1].get("/api/v1/generations?status=failed").await.expect(200);
    assert_eq!((&none["data"], &none["next"]), (&json!([]), &Value::Null));
}

#[actix_web::test]
async fn a_list_shows_nobody_the_records_of_another_account_also_of_another_replica() {
    let Some(postgres) = stores::postgres() else { return };
    let pair = Pair::start(&postgres).await;
    let (other, _) = issue(&pair.gateways[0], json!({ "name": "other" })).await;
    let known = async || call(&pair.gateways[1], Method::GET, "/api/v1/key", &other, None).await.status;
    eventually("the key is known", known, |status| *status == 200).await;
    let own = pair.call(&postgres, KEY, 4).await;
    let foreign = pair.call(&postgres, &other, 4).await;
    let stored = async || postgres.ask("select count(*) from pointsman_records").unwrap();
    eventually("all records are in PostgreSQL", stored, |stored| stored == "8").await;
    for gateway in &pair.gateways {
        for (key, ids) in [(KEY, &own), (other.as_str(), &foreign)] {
            let listed = all_pages(gateway, key, "/api/v1/generations?limit=3").await;
            assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), *ids);
        }
    }
}

#[actix_web::test]
async fn the_activity_of_all_replicas_adds_up_at_each() {
    let Some(postgres) = stores::postgres() else { return };
    let pair = Pair::start(&postgres).await;
    pair.call(&postgres, KEY, 5).await;
    let sums = |activity: &Value| {
        let rows = activity["data"].as_array().unwrap();
        let sum = |name: &str| rows.iter().map(|row| row[name].as_f64().unwrap()).sum::<f64>();
        (activity["replicas"].clone(), sum("requests"), sum("prompt_tokens"), (sum("cost") * 100.0).round())
    };
    for gateway in &pair.gateways {
        let shown = async || sums(&gateway.get("/api/v1/activity").await.expect(200));
        // 17 cents each.
        eventually("all calls count", shown, |sums| *sums == (json!("all"), 5.0, 60.0, 85.0)).await;
    }
    let kept = postgres.ask("select count(distinct node) from pointsman_sums").unwrap();
    assert_eq!(kept, "2");
}

#[actix_web::test]
async fn while_postgres_is_away_lists_and_activity_show_the_own_calls_and_say_so() {
    let Some(mut postgres) = stores::postgres() else { return };
    let pair = Pair::start(&postgres).await;
    pair.call(&postgres, KEY, 4).await;
    postgres.kill();
    for gateway in &pair.gateways {
        store_is(gateway, "postgres", "away").await;
        let listed = gateway.get("/api/v1/generations").await.expect(200);
        assert_eq!((listed["data"].as_array().unwrap().len(), &listed["replicas"]), (2, &json!("own")));
        let activity = gateway.get("/api/v1/activity").await.expect(200);
        assert_eq!((&activity["data"][0]["requests"], &activity["replicas"]), (&json!(2), &json!("own")));
    }
}
