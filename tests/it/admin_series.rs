//! Series of the last hour and day, and streams in progress, as administrators read them from a running gateway.

use serde_json::{Value, json};

use crate::{
    generation_lists::{ADMIN, Stage, admin, chat, get, one_of_each},
    harness::KEY,
    openapi::admin_address,
    patience::eventually,
    process::{ConfigFile, Process},
    raw_client::RawClient,
    scripted::{Gate, Upstream},
    world::{Model, World, and, ask, error_of, held_stream, saying},
};

/// The sum of a column.
fn sum(series: &Value, column: &str) -> f64 {
    let slots = series[column].as_array().unwrap_or_else(|| panic!("no {column} in {series}"));
    slots.iter().filter_map(Value::as_f64).sum()
}

fn counts(series: &Value) -> [u64; 4] {
    ["ok", "rescued", "failed", "shed"].map(|column| sum(series, column) as u64)
}

/// The series with these labels.
fn labelled<'a>(body: &'a Value, labels: &Value) -> &'a Value {
    let found = body["series"].as_array().unwrap().iter().find(|series| series["labels"] == *labels);
    found.unwrap_or_else(|| panic!("no {labels} in {body}"))
}

#[actix_web::test]
async fn series_count_each_call_once_by_all_key_provider_and_endpoint() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    one_of_each(&gateway).await;
    let read = async |query: &str| admin(&gateway, &format!("series?{query}")).await.expect(200);

    for (span, slots) in [("1h", 60), ("24h", 1440)] {
        let body = read(&format!("span={span}&by=all")).await;
        assert_eq!((&body["step_s"], body["series"].as_array().unwrap().len()), (&json!(60), 1));
        let all = labelled(&body, &json!({}));
        assert_eq!(counts(all), [2, 1, 1, 0], "{span}");
        for column in ["ok", "rescued", "failed", "shed", "cost", "tokens", "ttft_p50_ms", "ttft_p95_ms"] {
            assert_eq!(all[column].as_array().unwrap().len(), slots, "{column}");
        }
        let page = admin(&gateway, "generations").await.expect(200);
        let rows = page["data"].as_array().unwrap();
        let of_rows = |name: &str| rows.iter().filter_map(|row| row[name].as_f64()).sum::<f64>();
        assert!((sum(all, "cost") - of_rows("cost")).abs() < 1e-9, "{} {}", sum(all, "cost"), of_rows("cost"));
        assert!(sum(all, "cost") > 0.0);
        let tokens = of_rows("prompt_tokens") + of_rows("completion_tokens");
        assert!((sum(all, "tokens") - tokens).abs() < 0.5, "{} {tokens}", sum(all, "tokens"));
        assert!(all["ttft_p95_ms"].as_array().unwrap().iter().any(Value::is_u64));
    }
    let body = read("by=key").await;
    assert_eq!(counts(labelled(&body, &json!({"key": "test"}))), [2, 1, 1, 0]);
    let body = read("by=provider&span=24h").await;
    assert_eq!(counts(labelled(&body, &json!({"provider": "good"}))), [2, 1, 0, 0]);
    let [_, _, failed, _] = counts(labelled(&body, &json!({"provider": "flaky"})));
    assert!(failed >= 2, "{body}");
    let body = read("by=endpoint").await;
    let saved = labelled(&body, &json!({"model": "acme/saved", "provider": "good"}));
    assert_eq!(
        (counts(saved), &body["step_s"], saved["ok"].as_array().unwrap().len()),
        ([0, 1, 0, 0], &json!(10), 360)
    );
}

#[actix_web::test]
async fn a_bad_parameter_of_series_is_refused_with_what_is_allowed() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    for (query, param, allowed) in [
        ("span=2h", "span", "1h, 24h"),
        ("by=team", "by", "all, endpoint, provider, key"),
        ("step=10", "step", "span, by"),
        ("by=endpoint&span=24h", "span", "must be 1h with by=endpoint"),
    ] {
        let error = error_of(&admin(&gateway, &format!("series?{query}")).await, 400);
        assert_eq!(error["param"], param, "{error}");
        assert!(error["message"].as_str().unwrap().contains(allowed), "{error}");
    }
}

#[actix_web::test]
async fn calls_refused_at_a_limit_of_the_gateway_are_in_the_series_as_shed() {
    let upstream = saying("Hello");
    let gateway = World::new()
        .provider("acme", upstream.address())
        .model(&Model::new("acme/small").at("acme", "0.000001", "0.000001"))
        .with("[[keys]]\nname = \"admin\"\nenv = \"ADMIN\"\nscopes = [\"admin\"]")
        .with("[limits]\nrequests_per_minute = 1")
        .variable("ADMIN", ADMIN)
        .variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")
        .start()
        .await;
    let calls = [chat(&gateway, KEY, &ask("acme/small")).await, chat(&gateway, KEY, &ask("acme/small")).await];
    assert_eq!(calls.map(|call| call.status), [200, 429]);
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        let body = admin(&gateway, "series").await.expect(200);
        if counts(&body["series"][0]) == [1, 0, 0, 1] {
            break;
        }
        assert!(std::time::Instant::now() < limit, "{body}");
        actix_web::rt::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[actix_web::test]
async fn a_stream_in_progress_is_listed_until_it_ends() {
    let gate = Gate::new();
    let upstream = Upstream::start([held_stream(&["One", " two"], &gate)]);
    let gateway = World::new()
        .provider("acme", upstream.address())
        .model(&Model::new("acme/small").at("acme", "0.000001", "0.000001"))
        .with("[[keys]]\nname = \"admin\"\nenv = \"ADMIN\"\nscopes = [\"admin\"]")
        .variable("ADMIN", ADMIN)
        .variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")
        .start()
        .await;
    let none = admin(&gateway, "running").await.expect(200);
    assert_eq!((&none["data"], &none["total"]), (&json!([]), &json!(0)));

    let mut client = RawClient::chat(&gateway, &and(ask("acme/small"), json!({"stream": true}))).await;
    client.until("One").await;
    let body = admin(&gateway, "running").await.expect(200);
    let call = &body["data"][0];
    assert_eq!((&body["total"], &body["in_flight"]), (&json!(1), &json!(1)), "{body}");
    for (name, value) in [("phase", "streaming"), ("key", "test"), ("model", "acme/small"), ("provider_slug", "acme")] {
        assert_eq!(call[name], value, "{call}");
    }
    assert!(call["age_ms"].is_u64() && call["id"].as_str().unwrap().starts_with("gen-"), "{call}");

    gate.open();
    client.until("[DONE]").await;
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while admin(&gateway, "running").await.expect(200)["total"] != 0 {
        assert!(std::time::Instant::now() < limit, "the stream is still listed");
        actix_web::rt::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[actix_web::test]
async fn after_a_restart_the_series_of_the_last_hour_and_day_go_on() {
    let stage = Stage::new();
    let text = format!("{}{}", crate::harness::preamble(), stage.world().toml());
    let config = ConfigFile::new(&text);
    let world = stage.world();
    let mut environment: Vec<(&str, &str)> =
        world.environment().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    environment.extend([
        ("TEST_KEY", KEY),
        ("POINTSMAN__LEDGER__DURABILITY", "group"),
        ("POINTSMAN__ADMIN__BIND", "127.0.0.1:0"),
    ]);
    let start = || Process::start(&["serve", "--config", config.path()], &environment);
    let read = async |process: &Process, query: &str| {
        get(&admin_address(process), ADMIN, &format!("/api/v1/admin/series?{query}")).await.expect(200)
    };
    let all = async |process: &Process| {
        let hour = read(process, "span=1h&by=all").await;
        (counts(&hour["series"][0]), counts(&read(process, "span=24h&by=all").await["series"][0]))
    };

    let mut first = start();
    one_of_each(&first.gateway()).await;
    let before = eventually("all are counted", async || all(&first).await, |(hour, _)| *hour == [2, 1, 1, 0]).await;
    first.signal("TERM");
    assert_eq!(first.end().await.code(), Some(0), "{}", first.stderr());

    let second = start();
    eventually("earlier calls are in the series", async || all(&second).await, |now| *now == before).await;
    chat(&second.gateway(), KEY, &ask("acme/small")).await.expect(200);
    let counted = eventually("and one more", async || all(&second).await, |(hour, _)| *hour != before.0).await;
    assert_eq!(counted, ([3, 1, 1, 0], [3, 1, 1, 0]), "none is counted twice");
    let keys = read(&second, "by=key").await;
    assert_eq!(counts(labelled(&keys, &json!({"key": "test"}))), [3, 1, 1, 0]);
    let saved = read(&second, "by=endpoint").await;
    assert_eq!(counts(labelled(&saved, &json!({"model": "acme/saved", "provider": "good"}))), [0, 1, 0, 0]);
}
