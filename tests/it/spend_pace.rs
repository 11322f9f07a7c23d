//! The spend pace of an alias through a whole gateway: its mean cost, and where it is shown.

use std::fs;

use actix_web::http::Method;
use serde_json::Value;

use crate::{
    folder::Folder,
    harness::TestGateway,
    issued_keys::{ADMIN, call},
    patience::eventually,
    scripted::Upstream,
    world::{Model, World, ask, saying},
};

/// An answer of 17 tokens costs $0.017 for a thousand by the small model, ten times as much by the large one.
const ALIAS: &str = "[[aliases]]\nname = \"paced\"\ntask = \"code\"\nobjective = \"balanced\"\n\
                     weights = { latency = 0, cost = 0, quality = 1 }\nspend_pace = \"0.08\"\n";
const CEILING: f64 = 0.00008;

fn world(upstream: &Upstream) -> World {
    world_with(upstream, ALIAS)
}

fn world_with(upstream: &Upstream, alias: &str) -> World {
    let scored = |id: &str, code: f64, price: &str| {
        let quality =
            format!("quality = {{ source = \"own-eval\", date = 2026-11-02, code = {{ score = {code}, n = 225 }} }}");
        Model::new(id).at("acme", price, price).with(&quality)
    };
    World::new()
        .provider("acme", upstream.address())
        .model(&scored("acme/small", 0.71, "0.000001"))
        .model(&scored("acme/large", 0.95, "0.00001"))
        .with(alias)
}

/// Dollars of so many answers, how many of them are of the large model, and the id of the last one.
async fn spent(gateway: &TestGateway, calls: usize) -> (f64, usize, String) {
    let (mut dollars, mut large, mut last) = (0.0, 0, String::new());
    for _ in 0..calls {
        let reply = gateway.chat(&ask("service/paced")).await;
        reply.expect(200);
        last = reply.header("x-generation-id").unwrap().to_owned();
        let answer = reply.json();
        dollars += answer["usage"]["cost"].as_f64().unwrap();
        large += usize::from(answer["model"] == "acme/large");
    }
    (dollars, large, last)
}

async fn pace(gateway: &TestGateway) -> Value {
    let page = gateway.get("/api/v1/health/slo").await.expect(200);
    assert_eq!(page["spend_paces"].as_array().unwrap().len(), 1, "{page}");
    page["spend_paces"][0].clone()
}

#[actix_web::test]
async fn an_alias_keeps_its_mean_cost_with_the_best_mix_of_models_and_says_so() {
    let upstream = saying("Done.");
    let gateway = world(&upstream).start().await;
    let unused = pace(&gateway).await;
    assert_eq!((&unused["alias"], &unused["calls"]), (&Value::from("service/paced"), &Value::from(0)), "{unused}");
    assert_eq!((&unused["recent_usd_per_1000"], unused["usd_per_1000"].as_f64()), (&Value::Null, Some(0.08)));
    let metrics = gateway.get("/metrics").await.text();
    assert!(metrics.contains("pointsman_spend_pace_multiplier{") && !metrics.contains("pointsman_spend_pace_ratio{"));

    let (begun, _, _) = spent(&gateway, 10).await;
    assert!(begun <= 10.0 * CEILING + 0.00017, "it begins with what is cheap: {begun}");
    let (dollars, large, last) = spent(&gateway, 240).await;
    let mean = (begun + dollars) / 250.0;
    assert!((mean / CEILING - 1.0).abs() < 0.1, "mean {mean}");
    assert!((60..140).contains(&large), "both models serve, the large one in two of five: {large}");

    let told = pace(&gateway).await;
    assert_eq!(told["calls"], 250, "{told}");
    assert!((told["recent_usd_per_1000"].as_f64().unwrap() / mean / 1000.0 - 1.0).abs() < 0.01, "{told}");
    let metrics = gateway.get("/metrics").await.text();
    assert!(metrics.contains("pointsman_spend_pace_ratio{alias=\"service/paced\"} "), "{metrics}");

    let explained = gateway.get(&format!("/api/v1/route/explain?id={last}")).await.expect(200);
    let reason = explained["decision_reason"].as_str().unwrap();
    assert!(reason.contains("the spend pace asks"), "{reason}");
    let replay = gateway.get(&format!("/api/v1/route/replay?generation_id={last}")).await.expect(200);
    assert_eq!(replay["data"]["identical"], true, "{replay}");

    world(&upstream).with("[routing.sticky]\nttl = \"6m\"").take_over(&gateway).await;
    assert_eq!(pace(&gateway).await["calls"], 250, "a reload changes nothing");
}

#[actix_web::test]
async fn calls_of_other_models_are_not_paced_and_previews_charge_nothing() {
    let upstream = saying("Done.");
    let gateway = world(&upstream).start().await;
    gateway.chat(&ask("acme/large")).await.expect(200);
    gateway.post("/api/v1/route/preview", &ask("service/paced")).await.expect(200);
    assert_eq!(pace(&gateway).await["calls"], 0);
}

#[actix_web::test]
async fn a_pace_survives_a_restart_unless_its_ceiling_is_another_one_or_its_values_are_not_plausible() {
    let (upstream, folder) = (saying("Done."), Folder::new());
    let path = folder.at("state.json");
    let memory = format!("[routing.memory]\npath = {:?}\nsave_interval = \"100ms\"\n", path.to_str().unwrap());
    let first = world(&upstream).with(&memory).start().await;
    spent(&first, 20).await;
    let read = || fs::read_to_string(&path).unwrap_or_default();
    eventually("it is saved", async || read(), |saved| saved.contains("\"calls\":20,")).await;
    let start = async |text: &str, alias: &str| {
        let later = folder.at("later.json");
        fs::write(&later, text).unwrap();
        let memory = format!("[routing.memory]\npath = {:?}\nsave_interval = \"1h\"\n", later.to_str().unwrap());
        let gateway = world_with(&upstream, alias).with(&memory).start().await;
        let restored = gateway.get("/api/v1/health/memory").await.expect(200)["data"]["restored"]["endpoints"].take();
        assert!(restored.as_u64() > Some(0), "the statistics are there: {text}");
        pace(&gateway).await
    };
    // The cost of the last answer may be saved a moment later than its request.
    let both = async || (start(&read(), ALIAS).await, pace(&first).await);
    eventually("it goes on as it was", both, |(after, before)| after == before).await;
    let saved = read();
    assert_eq!(start(&saved, &ALIAS.replace("0.08", "0.09")).await["calls"], 0, "another ceiling");
    for torn in [saved.replace("\"owed\":", "\"owed\":1e9,\"o\":"), saved.replace("\"owed\":", "\"owe\":")] {
        assert_eq!(start(&torn, ALIAS).await["calls"], 0, "{torn}");
    }
}

#[actix_web::test]
async fn a_ceiling_below_the_cheapest_model_is_told_as_out_of_reach() {
    let upstream = saying("Done.");
    let gateway = world_with(&upstream, &ALIAS.replace("0.08", "0.005"))
        .with("[[keys]]\nname = \"chief\"\nenv = \"CHIEF\"\nscopes = [\"admin\"]\n")
        .variable("CHIEF", ADMIN)
        .variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")
        .start()
        .await;
    let verdict = async || {
        call(&gateway.admin(), Method::GET, "/api/v1/admin/verdict", ADMIN, None).await.expect(200)["data"].take()
    };
    let is_told = |verdict: &Value| {
        let notices = verdict["notices"].as_array().unwrap();
        notices.iter().any(|notice| notice["code"] == "spend_pace_out_of_reach")
    };
    let gauge = async |value: u8| {
        let line = format!("pointsman_spend_pace_out_of_reach{{alias=\"service/paced\"}} {value}");
        let metrics = gateway.get("/metrics").await.text();
        assert!(metrics.lines().any(|shown| shown == line), "{metrics}");
    };
    gauge(0).await;
    spent(&gateway, 3).await;
    assert_eq!(pace(&gateway).await["out_of_reach"], false);
    gauge(0).await;
    assert!(!is_told(&verdict().await));
    spent(&gateway, 60).await;
    let told = pace(&gateway).await;
    assert_eq!((&told["out_of_reach"], told["multiplier"].as_f64()), (&Value::from(true), Some(100.0)), "{told}");
    gauge(1).await;
    let verdict = verdict().await;
    assert!(is_told(&verdict) && verdict.to_string().contains("service/paced"), "{verdict}");
}
