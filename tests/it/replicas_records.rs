//! Records that replicas share: what nobody may learn of foreign ones, and by whose clock old ones are deleted.

use actix_web::http::Method;
use serde_json::json;

use crate::{
    folder::Folder,
    harness::{KEY, TestGateway},
    issued_keys::{chat, issue},
    patience::eventually,
    replicas::{replica, store_is},
    stores::{self, Store},
    world::saying,
};

/// An id that no record has.
pub(crate) const UNKNOWN: &str = "gen-1763629500-AbCdEfGhIjKlMnOpQrStUv";

/// All that an answer says, but for the time at which it was given.
pub(crate) async fn answer(gateway: &TestGateway, key: &str, path: &str) -> (u16, String, Vec<(String, String)>) {
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str()), ("x-request-id", "the-same")];
    let reply = gateway.call(Method::GET, path, &headers, None).await;
    let headers = reply.headers.iter().filter(|(name, _)| *name != "date");
    (reply.status, reply.text(), headers.map(|(name, value)| (name.clone(), value.clone())).collect())
}

#[actix_web::test]
async fn foreign_and_unknown_ids_are_answered_alike_byte_for_byte_with_postgres_and_without() {
    let Some(mut postgres) = stores::postgres() else { return };
    let (upstream, one, two) = (saying("Hello"), Folder::new(), Folder::new());
    let here = replica(&upstream, &one, Some(&postgres), None).start().await;
    let there = replica(&upstream, &two, Some(&postgres), None).start().await;
    for gateway in [&here, &there] {
        store_is(gateway, "postgres", "ok").await;
    }
    let (foreign, _) = issue(&here, json!({ "name": "foreign" })).await;
    let own = async |gateway: &TestGateway| {
        let answer = chat(gateway, KEY, json!({ "max_tokens": 5 })).await.expect(200);
        answer["id"].as_str().unwrap().to_owned()
    };
    let records = [own(&here).await, own(&there).await];
    let paths = ["generation?id=", "route/explain?generation_id=", "route/replay?generation_id="];
    for (expected, is_away) in [(404, false), (503, true)] {
        if is_away {
            postgres.kill();
            store_is(&here, "postgres", "away").await;
        }
        for path in paths.map(|path| format!("/api/v1/{path}")) {
            let unknown = answer(&here, &foreign, &format!("{path}{UNKNOWN}")).await;
            assert_eq!(unknown.0, expected, "{path}: {}", unknown.1);
            for id in &records {
                assert_eq!(answer(&here, &foreign, &format!("{path}{id}")).await, unknown, "{path}");
            }
            // The record of its own ledger is its owner's, also without PostgreSQL.
            assert_eq!(answer(&here, KEY, &format!("{path}{}", records[0])).await.0, 200, "{path}");
        }
    }
}

/// Lets all connections from now on read this time from PostgreSQL's clock.
fn set_clock(postgres: &Store, time: &str) {
    let function = format!(
        "create or replace function public.clock_timestamp() returns timestamptz language sql as
         'select pg_catalog.clock_timestamp() + interval ''{time}'''"
    );
    // A function that is named first hides the server's own.
    let path = "alter database postgres set search_path = public, pg_catalog";
    for statement in [function.as_str(), path] {
        postgres.ask(statement).unwrap();
    }
    let is_set = format!("select abs(extract(epoch from clock_timestamp() - now() - interval '{time}')) < 3600");
    assert_eq!(postgres.ask(&is_set).as_deref(), Some("t"), "{time}");
}

#[actix_web::test]
async fn a_clock_that_is_ahead_deletes_no_shared_record_whether_it_is_a_replicas_or_the_servers() {
    let Some(postgres) = stores::postgres() else { return };
    let (upstream, folders) = (saying("Hello"), [Folder::new(), Folder::new(), Folder::new()]);
    let [first, behind, ahead] = folders.each_ref().map(|folder| replica(&upstream, folder, Some(&postgres), None));
    let first = first.start().await;
    store_is(&first, "postgres", "ok").await;
    let ids = async || postgres.ask("select encode(id, 'hex') from pointsman_records order by created_ms").unwrap();
    for wanted in [1, 2] {
        chat(&first, KEY, json!({ "max_tokens": 5 })).await.expect(200);
        eventually("the record is in PostgreSQL", ids, |ids| ids.lines().count() == wanted).await;
    }
    let both = ids().await;
    let sums = async || postgres.ask("select count(*) from pointsman_sums").unwrap();
    eventually("the sums are in PostgreSQL", sums, |sums| sums != "0").await;
    // Records are kept for thirty days. By the clock of the replicas, the first is forty days old.
    let oldest = "id = (select id from pointsman_records order by created_ms limit 1)";
    let forty_days_ms = 40 * 86_400_000_i64;
    postgres.ask(&format!("update pointsman_records set created_ms = created_ms - {forty_days_ms} where {oldest}"));

    // A replica deletes before it says for the first time that PostgreSQL is there.
    set_clock(&postgres, "-20 days");
    let behind = behind.start().await;
    store_is(&behind, "postgres", "ok").await;
    assert_eq!(ids().await, both, "the replica's clock is twenty days ahead of the server's");

    set_clock(&postgres, "20 years");
    let ahead = ahead.start().await;
    store_is(&ahead, "postgres", "ok").await;
    assert_eq!(Some(ids().await.as_str()), both.lines().nth(1), "what is old by both clocks is deleted, and no more");
    assert_ne!(sums().await, "0", "nor are the sums");
}
