//! The verdict of a running gateway.

use serde_json::{Value, json};

use crate::{
    generation_lists::{Stage, admin, chat},
    harness::KEY,
    world::ask,
};

#[actix_web::test]
async fn the_verdict_counts_calls_while_all_is_well() {
    let stage = Stage::new();
    let world = stage.world().variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0");
    let gateway = world.start().await;
    chat(&gateway, KEY, &ask("acme/small")).await.expect(200);
    let verdict = admin(&gateway, "verdict").await.expect(200)["data"].clone();
    assert_eq!((&verdict["severity"], &verdict["code"]), (&json!("ok"), &json!("all_well")), "{verdict}");
    let sentence = verdict["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("All well: 5 of 5 endpoints take calls, "), "{sentence}");
    assert!(sentence.ends_with(" in the last hour."), "{sentence}");
}

#[actix_web::test]
async fn the_verdict_names_endpoints_that_keep_failing() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    for _ in 0..12 {
        chat(&gateway, KEY, &ask("acme/broken")).await;
    }
    let verdict = admin(&gateway, "verdict").await.expect(200)["data"].clone();
    assert_eq!(verdict["severity"], "warning", "{verdict}");
    let notices = verdict["notices"].as_array().unwrap();
    let codes: Vec<&str> = notices.iter().filter_map(|notice| notice["code"].as_str()).collect();
    assert!(codes.contains(&"endpoints_down") || codes.contains(&"endpoints_degraded"), "{verdict}");
    let sentences: Vec<&str> = notices.iter().filter_map(|notice| notice["sentence"].as_str()).collect();
    assert!(sentences.iter().any(|sentence| sentence.contains("acme/broken at ")), "{verdict}");
    assert!(notices.iter().all(Value::is_object));
}

/// The clock of a whole gateway is the real one, so the date is old.
#[actix_web::test]
async fn prices_that_nobody_compared_for_90_days_are_told() {
    let stage = Stage::new();
    let dated = "[[models]]\nid = \"acme/dated\"\ncontext_length = 100000\nendpoints = [{ provider = \"good\", upstream_model = \"d\", \
                 usd_per_million = { prompt = \"1\", completion = \"2\", source = \"a list\", date = \"2025-01\" } }]";
    let world = stage.world().variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0").with(dated);
    let gateway = world.start().await;
    let verdict = admin(&gateway, "verdict").await.expect(200)["data"].clone();
    assert_eq!((&verdict["severity"], &verdict["code"]), (&json!("warning"), &json!("prices_old")), "{verdict}");
    assert!(verdict["sentence"].as_str().unwrap().starts_with("Prices are older than 90 days: good."), "{verdict}");
}
