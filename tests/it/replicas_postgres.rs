//! PostgreSQL behind a pooler, databases and rows that it refuses, and sums that come late.

use actix_web::http::Method;
use pointsman_domain::{Generation, GenerationId};
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::{KEY, TestGateway},
    issued_keys::{ADMIN, call, chat, generation_of, issue, world, write},
    patience::eventually,
    replicas::{OwnProcess, replica, store_is},
    stores::{self, Store},
    world::saying,
};

/// The number of requests in the activity of all replicas.
async fn requests(gateway: &TestGateway) -> (Value, f64) {
    let page = gateway.get("/api/v1/activity").await.expect(200);
    let rows = page["data"].as_array().unwrap().iter();
    (page["replicas"].clone(), rows.map(|row| row["requests"].as_f64().unwrap()).sum())
}

async fn records(postgres: &Store, wanted: usize) {
    let count = async || postgres.ask("select count(*) from pointsman_records").unwrap_or_default();
    eventually("all records are in PostgreSQL", count, |count| *count == wanted.to_string()).await;
}

/// Three gateways with two connections to PostgreSQL between them.
async fn check_pooler(settings: &str) {
    let Some(postgres) = stores::postgres() else { return };
    let Some(pooler) = stores::pgbouncer(&postgres, &format!("pool_mode = transaction\n{settings}")) else { return };
    let (upstream, folders) = (saying("Hello"), [Folder::new(), Folder::new(), Folder::new()]);
    let mut gateways = Vec::new();
    for folder in &folders {
        gateways.push(replica(&upstream, folder, Some(&pooler), None).start().await);
    }
    for gateway in &gateways {
        store_is(gateway, "postgres", "ok").await;
    }
    let mut ids = Vec::new();
    for round in 0..5 {
        let (key, _) = issue(&gateways[round % 3], json!({ "name": format!("key-{round}") })).await;
        for gateway in &gateways {
            let known = async || call(gateway, Method::GET, "/api/v1/key", &key, None).await.status;
            eventually("the key is known everywhere", known, |status| *status == 200).await;
            let answer = chat(gateway, &key, json!({"max_tokens": 5})).await.expect(200);
            ids.push((key.clone(), answer["id"].as_str().unwrap().to_owned()));
        }
    }
    records(&postgres, ids.len()).await;
    for gateway in &gateways {
        for (key, id) in &ids {
            let show = format!("/api/v1/generation?id={id}");
            let shown = async || call(gateway, Method::GET, &show, key, None).await.status;
            eventually("every replica shows it", shown, |status| *status == 200).await;
        }
        let activity = async || {
            let page = call(&gateway.admin(), Method::GET, "/api/v1/admin/activity", ADMIN, None).await.expect(200);
            let rows = page["data"].as_array().unwrap().iter();
            rows.map(|row| row["requests"].as_f64().unwrap()).sum::<f64>()
        };
        eventually("every replica counts all calls", activity, |sum| *sum == 15.0).await;
        let outages = "pointsman_shared_store_outages_total{store=\"postgres\"} 0";
        let metrics = gateway.get("/metrics").await.text();
        assert!(metrics.contains(outages), "{metrics}{}", pooler.log());
    }
}

#[actix_web::test]
async fn three_replicas_share_postgres_through_two_connections_of_pgbouncer_in_transaction_mode() {
    check_pooler("").await;
}

#[actix_web::test]
async fn pgbouncer_in_transaction_mode_may_discard_everything_after_each_transaction() {
    check_pooler("server_reset_query_always = 1").await;
}

#[actix_web::test]
async fn pgbouncer_in_statement_mode_is_refused_at_connecting_and_the_log_says_why() {
    let Some(postgres) = stores::postgres() else { return };
    let Some(pooler) = stores::pgbouncer(&postgres, "pool_mode = statement") else { return };
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let process = OwnProcess::new(&upstream, &folder, Some(&pooler), None).start();
    process.says("transaction blocks not allowed in statement pooling mode", 1).await;
    store_is(&process.gateway(), "postgres", "away").await;
    chat(&process.gateway(), KEY, json!({"max_tokens": 5})).await.expect(200);
}

#[actix_web::test]
async fn a_database_that_cannot_hold_every_text_is_refused_at_connecting_and_the_log_says_what_is_needed() {
    let Some(postgres) = stores::postgres() else { return };
    for (encoding, is_taken) in [("LATIN1", false), ("EUC_JP", false), ("SQL_ASCII", true)] {
        let name = encoding.to_lowercase();
        postgres.ask(&format!("create database {name} encoding '{encoding}' locale 'C' template template0")).unwrap();
        let (upstream, folder) = (saying("Hello"), Folder::new());
        let mut process = OwnProcess::new(&upstream, &folder, Some(&postgres), None);
        process.set("POSTGRES_URL", &postgres.url().replace("/postgres?", &format!("/{name}?")));
        let process = process.start();
        let gateway = process.gateway();
        let (key, _) = issue(&gateway, json!({ "name": "Ключ 鍵" })).await;
        chat(&gateway, &key, json!({"max_tokens": 5})).await.expect(200);
        if is_taken {
            let sent = async || gateway.get("/health").await.expect(200)["stores"]["postgres"].clone();
            let is_sent = |store: &Value| store["state"] == "ok" && store["waiting"] == 0;
            let store = eventually("the change of the key is sent", sent, is_sent).await;
            assert_eq!(store["refused_rows"], Value::Null, "{store}");
        } else {
            process.says(&format!("the database has the encoding {encoding}"), 1).await;
            store_is(&gateway, "postgres", "away").await;
        }
    }
}

#[actix_web::test]
async fn a_row_that_postgres_refuses_is_left_out_alone_counted_and_logged() {
    let Some(postgres) = stores::postgres() else { return };
    let (upstream, folders) = (saying("Hello"), [Folder::new(), Folder::new()]);
    let own = OwnProcess::new(&upstream, &folders[0], Some(&postgres), None);
    let process = own.start();
    let gateway = process.gateway();
    store_is(&gateway, "postgres", "ok").await;
    let (bad, _) = issue(&gateway, json!({ "name": "bad" })).await;
    chat(&gateway, &bad, json!({"max_tokens": 5})).await.expect(200);
    records(&postgres, 1).await;
    let label = postgres.ask("select key from pointsman_records").unwrap();
    // As a value that is too long, or of another encoding.
    for (table, check) in [
        ("records", format!("key <> '{label}'")),
        ("sums", format!("key <> '{label}'")),
        ("changes", "change not like '%bad-change%'".to_owned()),
    ] {
        postgres.ask(&format!("alter table pointsman_{table} add check ({check}) not valid")).unwrap();
    }
    for _ in 0..4 {
        chat(&gateway, KEY, json!({"max_tokens": 5})).await.expect(200);
        chat(&gateway, &bad, json!({"max_tokens": 5})).await.expect(200);
    }
    let (refused, _) = issue(&gateway, json!({ "name": "bad-change" })).await;
    let (key, _) = issue(&gateway, json!({ "name": "good-change" })).await;
    records(&postgres, 5).await;
    let two = replica(&upstream, &folders[1], Some(&postgres), None).start().await;
    let known = async || call(&two, Method::GET, "/api/v1/key", &key, None).await.status;
    eventually("the later change takes effect at the other replica", known, |status| *status == 200).await;
    call(&two, Method::GET, "/api/v1/key", &refused, None).await.expect(401);
    let counted = async || requests(&two).await;
    eventually("the other sums are there", counted, |seen| *seen == (json!("all"), 4.0)).await;
    let store = async || gateway.get("/health").await.expect(200)["stores"]["postgres"].clone();
    let is_counted = |store: &Value| store["refused_rows"].as_u64() >= Some(6) && store["waiting"] == 0;
    let seen = eventually("they are counted, and nothing waits", store, is_counted).await;
    assert_eq!(seen["state"], "ok");
    for row in ["refuses a change of a key or an account", "refuses the record ", "refuses a sum of slot "] {
        process.says(row, 1).await;
    }
}

#[actix_web::test]
async fn the_calls_right_before_a_stop_count_in_the_activity_of_the_other_replicas() {
    let Some(postgres) = stores::postgres() else { return };
    let (upstream, folders) = (saying("Hello"), [Folder::new(), Folder::new()]);
    let mut process = OwnProcess::new(&upstream, &folders[0], Some(&postgres), None).start();
    let two = replica(&upstream, &folders[1], Some(&postgres), None).start().await;
    store_is(&process.gateway(), "postgres", "ok").await;
    // Sums are sent at once after the connection, and then seldom.
    let sent = async || postgres.ask("select count(*) from pointsman_sums").unwrap();
    chat(&process.gateway(), KEY, json!({"max_tokens": 5})).await.expect(200);
    eventually("sums are sent", sent, |count| count != "0").await;
    for _ in 0..9 {
        chat(&process.gateway(), KEY, json!({"max_tokens": 5})).await.expect(200);
    }
    process.signal("TERM");
    assert!(process.end().await.success());
    let counted = async || requests(&two).await;
    eventually("all calls count", counted, |seen| *seen == (json!("all"), 10.0)).await;
}

#[actix_web::test]
async fn sums_of_records_that_reach_the_ledger_hours_late_reach_the_other_replicas() {
    const HOUR_MS: i64 = 3_600_000;
    let Some(postgres) = stores::postgres() else { return };
    let (upstream, folders) = (saying("Hello"), [Folder::new(), Folder::new()]);
    let generation = generation_of(&world(&upstream, &Folder::new()).start().await).await;
    // A generation per age, each in a slot that was sent long before it came.
    let of_age = |hours: i64| {
        let created_ms = generation.created_ms - hours * HOUR_MS;
        let id = GenerationId::new(created_ms as u64 / 1_000, [hours as u64, 2, 3]);
        Generation { id, created_ms, ..generation.clone() }
    };
    let two = replica(&upstream, &folders[1], Some(&postgres), None).start().await;
    for (run, late) in [&[][..], &[of_age(1), of_age(5)], &[of_age(20)]].into_iter().enumerate() {
        let names = folders[0].names();
        assert_eq!(names.is_empty(), run == 0, "{names:?}");
        if !late.is_empty() {
            write(&folders[0], late);
        }
        let mut process = OwnProcess::new(&upstream, &folders[0], Some(&postgres), None).start();
        store_is(&process.gateway(), "postgres", "ok").await;
        // The newest slot is sent, so that the ledger has nothing to send of the slots before it.
        chat(&process.gateway(), KEY, json!({"max_tokens": 5})).await.expect(200);
        process.signal("TERM");
        assert!(process.end().await.success());
    }
    let count =
        "select count(distinct slot) from pointsman_sums where slot < (select max(slot) from pointsman_sums) - 3";
    let slots = async || postgres.ask(count).unwrap();
    eventually("the sums of all ages are in PostgreSQL", slots, |slots| slots == "3").await;
    let shown = async || {
        let page = call(&two.admin(), Method::GET, "/api/v1/admin/activity", ADMIN, None).await.expect(200);
        let rows = page["data"].as_array().unwrap().iter();
        rows.map(|row| row["requests"].as_f64().unwrap()).sum::<f64>()
    };
    eventually("the other replica counts them", shown, |sum| *sum == 6.0).await;
}
