//! Moves of circuit breakers: in the live feed, in the status, and on the console's page of providers.

use serde_json::{Value, json};

use crate::{
    admin_live::Feed,
    console_login::Browser,
    generation_lists::{ADMIN, Stage, admin, chat},
    harness::{KEY, TestGateway},
    patience::eventually,
    world::{ask, provider_key},
};

/// The provider of this slug in the status.
async fn provider(gateway: &TestGateway, slug: &str) -> Value {
    let status = admin(gateway, "status").await.expect(200);
    let providers = status["data"]["providers"].as_array().unwrap();
    providers.iter().find(|provider| provider["slug"] == slug).unwrap_or_else(|| panic!("{slug}: {status}")).clone()
}

#[actix_web::test]
async fn a_breaker_that_opens_is_told_live_and_drawn_at_its_provider_and_at_no_other() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    assert_eq!(provider(&gateway, "flaky").await["breakers"], json!([]), "nothing has moved");
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    assert!(!browser.page("/console/providers").await.contains("Circuit breakers in the last hour"));

    let mut feed = Feed::open(&gateway, &[]).await;
    assert!(feed.next("tick").await.is_some());
    for _ in 0..12 {
        chat(&gateway, KEY, &ask("acme/broken")).await;
    }
    let (number, moved) = feed.next("breaker").await.unwrap();
    assert!(number.is_some(), "a client that comes back gets it again");
    assert_eq!(
        (&moved["provider_slug"], &moved["model"], &moved["from"], &moved["to"], &moved["status"]),
        (&json!("flaky"), &json!("acme/broken"), &json!("closed"), &json!("open"), &json!(500)),
        "{moved}"
    );
    assert!(moved["until"].as_str() > moved["at"].as_str(), "{moved}");

    let flaky = provider(&gateway, "flaky").await;
    let breaker = flaky["breakers"].as_array().unwrap().iter().find(|breaker| breaker["model"] == "acme/broken");
    let phases = breaker.unwrap()["phases"].as_array().unwrap();
    assert_eq!((&phases[0]["circuit"], &phases[1]["circuit"]), (&json!("closed"), &json!("open")), "{flaky}");
    assert_eq!(phases[0]["until"], phases[1]["from"]);
    assert_eq!(provider(&gateway, "good").await["breakers"], json!([]));

    let page = browser.page("/console/providers").await;
    assert_eq!(page.matches("Circuit breakers in the last hour").count(), 1, "{page}");
    let (_, strip) = page.split_once("<title>Breaker of acme/broken at Flaky</title>").unwrap();
    assert!(strip.split_once("</svg>").unwrap().0.contains("class=\"open\""), "{strip}");
    let (_, table) = page.split_once("States of circuit breakers in the last hour").unwrap();
    assert!(table.contains("<td>open</td>"), "{table}");
}

#[actix_web::test]
async fn an_open_breaker_becomes_half_open_and_its_phases_leave_no_gap() {
    let stage = Stage::new();
    let world = stage.world().variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0");
    let gateway = world.start().await;
    for _ in 0..12 {
        chat(&gateway, KEY, &ask("acme/broken")).await;
    }
    let look = async || provider(&gateway, "flaky").await["breakers"][0]["phases"].clone();
    let is_half_open =
        |phases: &Value| phases.as_array().is_some_and(|all| all.last().is_some_and(|p| p["circuit"] == "half_open"));
    let phases = eventually("an open breaker lets a probe pass", look, is_half_open).await;
    let phases = phases.as_array().unwrap();
    for (before, after) in phases.iter().zip(&phases[1..]) {
        assert_eq!(before["until"], after["from"], "no gap: {phases:?}");
        assert_ne!(before["circuit"], after["circuit"], "{phases:?}");
    }
}

#[actix_web::test]
async fn the_page_of_providers_names_the_variable_of_a_key_and_never_the_key() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    let good = provider(&gateway, "good").await;
    assert_eq!((&good["key_from"], &good["oldest_price_date"]), (&json!("GOOD_KEY"), &Value::Null), "{good}");
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    let page = browser.page("/console/providers").await;
    assert!(page.contains("from <code>GOOD_KEY</code>, set"), "{page}");
    for secret in [provider_key("good"), provider_key("flaky")] {
        assert!(!page.contains(&secret) && !good.to_string().contains(&secret));
    }
}

#[actix_web::test]
async fn prices_with_a_date_show_the_oldest_one_at_their_provider() {
    let stage = Stage::new();
    let endpoint = |month: &str| {
        format!(
            "[[models]]\nid = \"acme/of-{month}\"\ncontext_length = 1000\n[[models.endpoints]]\nprovider = \"good\"\n\
             upstream_model = \"m\"\nusd_per_million = {{ prompt = \"1\", completion = \"2\", source = \"a price list\", \
             date = \"{month}\" }}\n"
        )
    };
    let world = stage.world().with(&endpoint("2026-10")).with(&endpoint("2026-03"));
    let gateway = world.variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0").start().await;
    let date = provider(&gateway, "good").await["oldest_price_date"].clone();
    assert!(date.as_str().is_some_and(|date| date.starts_with("2026-03")), "{date}");
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    assert!(browser.page("/console/providers").await.contains("the oldest is of 2026-03"));
}
