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
        insert into pointsman_steps (step) values (3)";
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
    assert_eq!(run(&postgres, "select max(step) from pointsman_steps"), "3", "no step is taken twice or back");
}

#[actix_web::test]
async fn the_queries_of_the_page_about_the_ledger_work_on_postgresql() {
    let Some(postgres) = stores::postgres() else { return };
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = replica(&upstream, &folder, Some(&postgres), None).start().await;
    store_is(&gateway, "postgres", "ok").await;
    one_call(&gateway).await;
    records(&postgres, "1").await;
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/LEDGER.md")).unwrap();
    let queries: Vec<_> = page.split("```sql\n").skip(1).map(|rest| rest.split_once("```").unwrap().0).collect();
    assert_eq!(queries.len(), 8);
    let filled = async || queries.iter().filter(|query| !run(&postgres, query).is_empty()).count();
    eventually("all but the one about failures give rows", filled, |filled| *filled == 7).await;
    let columns =
        |table| format!("select column_name from information_schema.columns where table_name = '{table}' order by 1");
    let sums =
        "select count(*), min(endpoint), sum(cost_nanos) = (select sum(cost_nanos) from activity) from generations";
    assert_eq!(run(&postgres, sums), "1|acme/small@acme|t");
    for view in ["generations", "activity"] {
        let sqlite = rusqlite::Connection::open(folder.at("data/ledger.db")).unwrap();
        let names = format!("select name from pragma_table_info('{view}') order by 1");
        let mut names = sqlite.prepare(&names).unwrap();
        let names: Result<Vec<String>, _> = names.query_map([], |row| row.get(0)).unwrap().collect();
        assert_eq!(run(&postgres, &columns(view)), names.unwrap().join("\n"), "{view}");
    }
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
    assert_eq!(run(&postgres, "select count(*), max(step) from pointsman_steps"), "1|1");
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
