//! Two versions side by side at one PostgreSQL: what a later one adds to the tables.

use serde_json::json;

use crate::{
    folder::Folder,
    harness::{KEY, TestGateway},
    issued_keys::{ADMIN, call, chat, issue},
    patience::eventually,
    replicas::{replica, store_is},
    stores::{self, Store},
    world::{error_of, saying},
};

fn run(postgres: &Store, statement: &str) -> String {
    postgres.ask(statement).unwrap_or_else(|| panic!("{statement}"))
}

async fn records(postgres: &Store, wanted: &str) {
    let count = async || postgres.ask("select count(*) from pointsman_records").unwrap_or_default();
    eventually("all records are in PostgreSQL", count, |count| count == wanted).await;
}

async fn one_call(gateway: &TestGateway) -> String {
    chat(gateway, KEY, json!({"max_tokens": 5})).await.expect(200)["id"].as_str().unwrap().to_owned()
}

#[actix_web::test]
async fn tables_that_a_later_version_extended_are_written_and_read_as_before() {
    let Some(postgres) = stores::postgres() else { return };
    let (upstream, one, two) = (saying("Hello"), Folder::new(), Folder::new());
    let one = replica(&upstream, &one, Some(&postgres), None).start().await;
    store_is(&one, "postgres", "ok").await;
    let later = "
        create table pointsman_later (id bytea primary key);
        alter table pointsman_records add column later text not null default 'unknown';
        alter table pointsman_changes add column later text not null default 'unknown';
        alter table pointsman_sums add column later text not null default 'unknown';
        insert into pointsman_steps (step) values (4)";
    run(&postgres, later);
    let two = replica(&upstream, &two, Some(&postgres), None).start().await;
    store_is(&two, "postgres", "ok").await;
    let ids = [one_call(&one).await, one_call(&two).await];
    records(&postgres, "2").await;
    for gateway in [&one, &two] {
        for id in &ids {
            gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
        }
    }
    let (text, _) = issue(&two, json!({ "name": "ci" })).await;
    let works = async || chat(&one, &text, json!({"max_tokens": 5})).await.status;
    eventually("the key works at the other replica", works, |status| *status == 200).await;
    assert_eq!(run(&postgres, "select max(step) from pointsman_steps"), "4", "no step is taken twice or back");
}

#[actix_web::test]
async fn replicas_that_start_at_one_moment_take_each_step_once() {
    let Some(postgres) = stores::postgres() else { return };
    let (upstream, folders) = (saying("Hello"), [Folder::new(), Folder::new(), Folder::new()]);
    let worlds = folders.each_ref().map(|folder| replica(&upstream, folder, Some(&postgres), None));
    let started = futures_util::future::join_all(worlds.iter().map(|world| world.start())).await;
    for gateway in &started {
        store_is(gateway, "postgres", "ok").await;
        one_call(gateway).await;
    }
    records(&postgres, "3").await;
    assert_eq!(run(&postgres, "select count(*), max(step) from pointsman_steps"), "3|3");
}

#[actix_web::test]
async fn sums_that_an_earlier_version_sent_are_read_and_count_once_when_they_are_sent_again() {
    let Some(postgres) = stores::postgres() else { return };
    let (upstream, one, two) = (saying("Hello"), Folder::new(), Folder::new());
    let one = replica(&upstream, &one, Some(&postgres), None).start().await;
    let two = replica(&upstream, &two, Some(&postgres), None).start().await;
    store_is(&two, "postgres", "ok").await;
    let requests = async || {
        let page = two.get("/api/v1/activity").await.expect(200);
        page["data"].as_array().unwrap().iter().filter_map(|row| row["requests"].as_u64()).sum::<u64>()
    };
    one_call(&one).await;
    eventually("the other replica counts the call", requests, |sum| *sum == 1).await;
    // As an earlier version writes it: five names, and nothing beside the sum.
    run(
        &postgres,
        "update pointsman_sums set more = null, key = convert_to(array_to_string(
            (string_to_array(convert_from(key, 'UTF8'), chr(10)))[1:5], chr(10)), 'UTF8')",
    );
    assert_eq!(requests().await, 1);
    one_call(&one).await;
    eventually("both calls count, each once", requests, |sum| *sum >= 2).await;
    assert_eq!(requests().await, 2);
}

#[actix_web::test]
async fn a_record_in_a_later_format_is_told_from_one_that_does_not_exist() {
    let Some(postgres) = stores::postgres() else { return };
    let (upstream, one, two) = (saying("Hello"), Folder::new(), Folder::new());
    let one = replica(&upstream, &one, Some(&postgres), None).start().await;
    let two = replica(&upstream, &two, Some(&postgres), None).start().await;
    store_is(&two, "postgres", "ok").await;
    let id = one_call(&one).await;
    records(&postgres, "1").await;
    // A record begins with the number of its format, and the hash of its catalog follows.
    run(&postgres, "update pointsman_records set entry = set_byte(entry, position(catalog in entry) - 2, 99)");
    let refused = two.get(&format!("/api/v1/generation?id={id}")).await;
    assert_eq!(error_of(&refused, 503)["metadata"]["reason"], "record_of_later_version");
    let listed = two.get("/api/v1/generations").await.expect(200);
    assert_eq!((&listed["data"], &listed["unreadable_records"]), (&json!([]), &json!(1)));
    let audit =
        call(&two.admin(), actix_web::http::Method::GET, "/api/v1/admin/generations", ADMIN, None).await.expect(200);
    assert_eq!(audit["unreadable_records"], 1);
}
