//! Activity: sums of requests, tokens and cost from the durable ledger.

use serde_json::{Value, json};

use crate::{
    generation_lists::{Stage, admin, chat, get, one_of_each},
    harness::KEY,
    world::{Model, World, ask, error_of, saying},
};

const OTHER: &str = "sk-other-0a1b2c3d4e5f6a7b";
const CALLER: &str = "sk-caller-0a1b2c3d4e5f6a7";

/// The rows of this model added up. Midnight may come while a test runs.
fn sums(page: &Value, model: &str) -> (u64, u64, u64, u64) {
    let rows = page["data"].as_array().unwrap().iter().filter(|row| row["model"] == model);
    let count = |row: &Value, name: &str| row[name].as_u64().unwrap_or_else(|| panic!("no {name}: {row}"));
    rows.fold((0, 0, 0, 0), |sum, row| {
        (
            sum.0 + count(row, "requests"),
            sum.1 + count(row, "failed"),
            sum.2 + count(row, "prompt_tokens"),
            sum.3 + count(row, "completion_tokens"),
        )
    })
}

#[actix_web::test]
async fn activity_counts_requests_failures_tokens_and_cost_per_model_provider_and_key() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    one_of_each(&gateway).await;
    chat(&gateway, KEY, &ask("acme/small")).await.expect(200);
    chat(&gateway, OTHER, &ask("acme/small")).await.expect(200);
    for group in ["", "?group=day", "?group=hour&tz_offset_minutes=-330"] {
        let reply = gateway.get(&format!("/api/v1/activity{group}")).await;
        let page = reply.expect(200);
        assert_eq!(sums(&page, "acme/small"), (2, 0, 24, 10), "{group}");
        assert_eq!(sums(&page, "acme/broken"), (1, 1, 0, 0), "{group}");
        assert_eq!(sums(&page, "acme/saved"), (1, 0, 12, 5), "{group}");
        assert!(reply.text().contains(r#""cost":0.0017}"#), "the dear one: {}", reply.text());
        for row in page["data"].as_array().unwrap() {
            assert_eq!(row["key"], "test");
            let failed = row["model"] == "acme/broken";
            assert_eq!(row["provider_slug"], if failed { Value::Null } else { json!("good") }, "{row}");
            assert!(row["start"].as_str().unwrap() >= page["since"].as_str().unwrap(), "{row}");
        }
    }
    let of_other = get(&gateway, OTHER, "/api/v1/activity").await.expect(200);
    assert_eq!(sums(&of_other, "acme/small"), (1, 0, 12, 5));
    assert_eq!(sums(&of_other, "acme/broken"), (0, 0, 0, 0));

    assert_eq!(sums(&admin(&gateway, "activity").await.expect(200), "acme/small"), (3, 0, 36, 15));
    assert_eq!(admin(&gateway, "activity?key=other").await.expect(200)["data"], of_other["data"]);
    assert_eq!(gateway.get("/api/v1/activity?until=2026-01-01").await.expect(200)["data"], json!([]));
}

#[actix_web::test]
async fn the_activity_of_a_day_runs_from_its_local_midnight() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    chat(&gateway, KEY, &ask("acme/small")).await.expect(200);
    for (offset, midnight) in [(0, "T00:00:00.000Z"), (330, "T18:30:00.000Z"), (-720, "T12:00:00.000Z")] {
        let page = gateway.get(&format!("/api/v1/activity?tz_offset_minutes={offset}")).await.expect(200);
        let row = &page["data"][0];
        assert!(row["start"].as_str().unwrap().ends_with(midnight), "{offset}: {row}");
        assert!(page["since"].as_str().unwrap().ends_with(midnight), "{offset}: {page}");
        assert_eq!(row["date"].as_str().unwrap().len(), 10);
    }
}

#[actix_web::test]
async fn bad_parameters_a_missing_scope_and_a_missing_ledger_are_told_apart() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    for (param, query) in [
        ("group", "group=week"),
        ("tz_offset_minutes", "tz_offset_minutes=20"),
        ("tz_offset_minutes", "tz_offset_minutes=900"),
        ("since", "since=2026-01-01&until=2026-12-01"),
        ("since", "since=now"),
        ("until", "since=2026-02-01T00:07:00Z&until=2026-02-01T00:05:00Z"),
        ("key", "key=other"),
        ("model", "model=acme/small"),
    ] {
        let error = error_of(&gateway.get(&format!("/api/v1/activity?{query}")).await, 400);
        assert_eq!(error["param"], param, "{query}");
    }
    assert_eq!(error_of(&get(&gateway, CALLER, "/api/v1/activity").await, 403)["metadata"]["reason"], "scope");

    let upstream = saying("Hello");
    let world = World::new().provider("good", upstream.address());
    let gateway = world.model(&Model::new("acme/small").at("good", "0", "0")).start().await;
    let error = error_of(&gateway.get("/api/v1/activity").await, 404);
    assert_eq!(error["metadata"]["reason"], "no_durable_ledger");
}
