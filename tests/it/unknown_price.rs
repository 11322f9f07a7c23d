//! An endpoint whose price nobody knows: never cheap, never within a limit on cost, and its cost is never told as 0.

use serde_json::{Value, json};

use crate::{
    console_login::Browser,
    folder::Folder,
    generation_lists,
    harness::TestGateway,
    issued_keys::{self, ADMIN},
    patience::eventually,
    scripted::{Script, Upstream},
    world::{World, always, and, answer, ask, error_of, stream_of},
};

const MODELS: &str = r#"
[[models]]
id = "acme/dark"
context_length = 100000
supported_parameters = ["max_tokens"]
endpoints = [{ provider = "acme", upstream_model = "dark", pricing = "unknown" }]
[[models]]
id = "acme/both"
context_length = 100000
supported_parameters = ["max_tokens"]
[[models.endpoints]]
provider = "acme"
upstream_model = "both"
pricing = "unknown"
[[models.endpoints]]
provider = "bolt"
upstream_model = "both"
pricing = { prompt = "0.000001", completion = "0.000002" }
"#;

async fn gateway() -> (TestGateway, [Upstream; 2]) {
    let usage = json!({"prompt_tokens": 1000, "completion_tokens": 500});
    let body = answer(json!({"role": "assistant", "content": "x"}), usage);
    let upstreams = [always(200, &body), always(200, &body)];
    let world = World::new().provider("acme", upstreams[0].address()).provider("bolt", upstreams[1].address());
    (world.with(MODELS).start().await, upstreams)
}

fn limits() -> [Value; 4] {
    [
        json!({"objective": "cheapest"}),
        json!({"objective": "fastest", "max_cost": 100}),
        json!({"objective": "fastest", "max_cost_per_1k_tokens": 100}),
        json!({"objective": "fastest", "provider": {"max_price": {"prompt": 1000}}}),
    ]
}

#[actix_web::test]
async fn cheapest_and_every_limit_on_cost_exclude_it_with_a_reason() {
    let (gateway, upstreams) = gateway().await;
    for limit in limits() {
        let preview = gateway.post("/api/v1/route/preview", &and(ask("acme/both"), limit.clone())).await.expect(200);
        assert_eq!(preview["candidates"].as_array().unwrap().len(), 1, "{limit}");
        assert_eq!(preview["candidates"][0]["provider_slug"], "bolt", "{limit}");
        assert_eq!(preview["excluded"][0]["reason"], "price_unknown", "{limit}");
        let served = gateway.chat(&and(ask("acme/both"), limit.clone())).await.expect(200);
        assert_eq!(served["provider"], "Bolt", "{limit}");
        let error = error_of(&gateway.chat(&and(ask("acme/dark"), limit.clone())).await, 404);
        assert_eq!(error["availability"]["excluded_by"], json!(["price_unknown"]), "{limit}");
    }
    assert_eq!(upstreams[0].connections(), 0);
}

#[actix_web::test]
async fn its_cost_is_zero_and_marked_in_answers_and_null_in_records() {
    let (gateway, _upstreams) = gateway().await;
    let preview = gateway.post("/api/v1/route/preview", &ask("acme/dark")).await.expect(200);
    assert_eq!(preview["candidates"][0]["pricing"], Value::Null);
    assert_eq!(preview["candidates"][0]["predicted"]["cost"], Value::Null);
    let reply = gateway.chat(&ask("acme/dark")).await.expect(200);
    assert_eq!((&reply["usage"]["cost"], &reply["usage"]["cost_unknown"]), (&json!(0), &json!(true)));
    let id = reply["id"].as_str().unwrap();
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200)["data"].clone();
    for cost in ["total_cost", "usage"] {
        assert_eq!(record[cost], Value::Null, "{cost}");
    }
    assert_eq!(record["tokens_prompt"], 1000, "the tokens are known");
    let explained = &record["route"];
    for cost in ["total_cost", "cost_breakdown", "ledger_cost"] {
        assert_eq!(explained[cost], Value::Null, "{cost}");
    }
    assert_eq!(explained["attempts"][0]["cost"], Value::Null);
    assert_eq!(explained["usage"]["cost"], Value::Null);
    assert!(explained["decision_reason"].as_str().unwrap().contains("cost unknown"), "{explained}");
    let priced = gateway.chat(&and(ask("acme/both"), json!({"objective": "cheapest"}))).await.expect(200);
    assert_eq!(priced["usage"]["cost"], json!(0.002));
    assert_eq!(priced["usage"].get("cost_unknown"), None);
}

#[actix_web::test]
async fn sums_say_how_many_unknown_costs_they_leave_out() {
    let usage = json!({"prompt_tokens": 1000, "completion_tokens": 500});
    let upstream = always(200, &answer(json!({"role": "assistant", "content": "x"}), usage));
    let folder = Folder::new();
    let world = issued_keys::world(&upstream, &folder).provider("bolt", upstream.address()).with(MODELS);
    let gateway = world.start().await;
    gateway.chat(&ask("acme/dark")).await.expect(200);
    gateway.chat(&and(ask("acme/both"), json!({"objective": "cheapest"}))).await.expect(200);
    let admin = async |path: &str| generation_lists::get(&gateway.admin(), ADMIN, path).await.expect(200);
    let own = gateway.get("/api/v1/activity").await.expect(200);
    let all = admin("/api/v1/admin/activity").await;
    for (page, model, requests, unknown, cost) in [
        (&own, "acme/dark", 1, 1, json!(0)),
        (&own, "acme/both", 1, 0, json!(0.002)),
        (&all, "acme/dark", 1, 1, json!(0)),
        (&all, "acme/both", 1, 0, json!(0.002)),
    ] {
        let row = page["data"].as_array().unwrap().iter().find(|row| row["model"] == model).unwrap();
        assert_eq!((&row["requests"], &row["unknown_costs"]), (&json!(requests), &json!(unknown)), "{row}");
        assert_eq!(row["cost"].as_f64(), cost.as_f64(), "{row}");
    }
    let sum = |series: &Value, column: &str| -> f64 {
        series[column].as_array().unwrap().iter().filter_map(Value::as_f64).sum()
    };
    for (by, unknown) in [("all", 1.0), ("key", 1.0), ("provider", 1.0), ("endpoint", 1.0)] {
        let body = admin(&format!("/api/v1/admin/series?by={by}")).await;
        let found: f64 = body["series"].as_array().unwrap().iter().map(|series| sum(series, "unknown_costs")).sum();
        assert_eq!(found, unknown, "{by}: {body}");
    }
    // Records are moved into the database some seconds after they were journaled.
    let verified = eventually(
        "both records are stored",
        async || admin("/api/v1/admin/ledger/verification").await["data"].take(),
        |verified| verified["records"] == 2,
    );
    assert_eq!(verified.await["fault_count"], 0);
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    let page = browser.page("/console/spend?by=model").await;
    let (rows, sum) = page.split_once("All together").unwrap();
    assert!(sum.contains(">$0.00200<") && sum.contains(">+ 1 unknown<"), "{sum}");
    let (_, rows) = rows.split_once("<tbody><tr data-row").unwrap();
    assert_eq!(rows.matches("unknown<").count(), 1, "only the row of acme/dark: {rows}");
    assert!(browser.page("/console/").await.contains(">+ 1 unknown<"));
}

#[actix_web::test]
async fn a_stream_marks_an_unknown_cost_too() {
    let upstream = Upstream::start([Script::answering(stream_of(&["x"]))]);
    let gateway = World::new().provider("acme", upstream.address()).provider("bolt", upstream.address()).with(MODELS);
    let gateway = gateway.start().await;
    let text = gateway.chat(&and(ask("acme/dark"), json!({"stream": true}))).await.text();
    assert!(text.contains("\"cost\":0,\"cost_unknown\":true"), "{text}");
}

/// Clients reject `null` there, and "0" would be read as free.
#[actix_web::test]
async fn the_list_of_models_shows_minus_one() {
    let (gateway, _upstreams) = gateway().await;
    let list = gateway.get("/api/v1/models").await.expect(200);
    let models = list["data"].as_array().unwrap();
    let dark = models.iter().find(|model| model["id"] == "acme/dark").unwrap();
    assert!(dark["pricing"].as_object().unwrap().values().all(|price| price == "-1"), "{dark}");
    let endpoints = gateway.get("/api/v1/models/acme/both/endpoints").await.expect(200);
    let prices: Vec<&Value> =
        endpoints["data"]["endpoints"].as_array().unwrap().iter().map(|e| &e["pricing"]["prompt"]).collect();
    assert_eq!(prices, ["-1", "0.000001"]);
    let cheap = gateway.get("/api/v1/models?max_price=1000").await.expect(200);
    assert!(!cheap["data"].as_array().unwrap().iter().any(|model| model["id"] == "acme/dark"), "{cheap}");
}
