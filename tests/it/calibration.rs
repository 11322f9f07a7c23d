//! `GET /health/calibration` and its gauges, on a gateway that serves.

use std::time::Duration;

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    hostile::{CHUNKED, chunk, finish, text},
    patience::eventually,
    scripted::{Script, Upstream},
    world::{Model, World, always, answer},
};

fn chat(stream: bool) -> Value {
    let words = json!([{"role": "user", "content": "Which way?"}]);
    json!({"model": "meadow/small", "messages": words, "stream": stream})
}

#[actix_web::test]
async fn after_some_answers_the_page_and_the_metrics_say_how_well_they_were_predicted() {
    let gateway = TestGateway::simulated().await;
    let before = gateway.get("/api/v1/health/calibration").await.expect(200);
    assert_eq!((&before["window_secs"], &before["overall"]["total"]["samples"]), (&3600.into(), &0.into()));
    for n in 0..12 {
        assert_eq!(gateway.chat(&chat(n % 2 == 0)).await.status, 200);
    }
    let shown = gateway.get("/api/v1/health/calibration").await.expect(200);
    let all = &shown["overall"];
    let judged = all["total"]["samples"].as_u64().unwrap();
    assert_eq!(judged + all["unmeasured"].as_u64().unwrap(), 12, "{all}");
    assert_eq!(all["failures"]["attempts"], judged);
    let endpoints = shown["data"].as_array().unwrap();
    let sum: u64 = endpoints.iter().map(|it| it["total"]["samples"].as_u64().unwrap()).sum();
    assert_eq!(sum, judged, "the endpoints add up");
    assert!(endpoints.iter().all(|it| it["provider_slug"].as_str().unwrap().starts_with("sim-")), "only what serves");

    let metrics = gateway.get("/metrics").await.text();
    let counted = metrics.lines().filter(|line| line.starts_with("pointsman_prediction_samples{"));
    let totals: f64 = counted
        .filter(|line| line.contains("of=\"total\""))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum();
    assert!(totals <= judged as f64 && (judged == 0 || totals > 0.0), "{totals} of {judged}");
}

#[actix_web::test]
async fn the_page_asks_for_a_key() {
    let gateway = TestGateway::simulated().await;
    let visitor = [("authorization", "")];
    assert_eq!(gateway.call(Method::GET, "/api/v1/health/calibration", &visitor, None).await.status, 401);
}

#[actix_web::test]
async fn after_a_few_answers_the_predicted_cost_is_that_of_the_tokens_the_model_counts() {
    let usage = json!({"prompt_tokens": 1000, "completion_tokens": 40, "total_tokens": 1040});
    let told = answer(json!({"role": "assistant", "content": "That way."}), usage);
    let upstream = always(200, &told);
    let model = Model::new("acme/small").at("acme", "0.000001", "0.000002");
    let gateway = World::new().provider("acme", upstream.address()).model(&model).start().await;
    let words = json!([{"role": "user", "content": "Which way? ".repeat(520)}]);
    let request = json!({"model": "acme/small", "messages": words, "max_tokens": 40});
    let foreseen = async || {
        let preview = gateway.post("/api/v1/route/preview", &request).await.expect(200);
        let cost = preview["candidates"][0]["predicted"]["cost"].as_f64().unwrap();
        (preview["estimate"]["prompt_tokens"].as_f64().unwrap(), cost)
    };

    let (estimated, before) = foreseen().await;
    assert!(estimated > 1400.0, "{estimated}");
    for _ in 0..8 {
        assert_eq!(gateway.chat(&request).await.status, 200);
    }
    let is_learned = |(tokens, _): &(f64, f64)| (980.0..1030.0).contains(tokens);
    let (_, cost) = eventually("the estimate is corrected", foreseen, is_learned).await;
    let real = 0.001_080;
    assert!(before > 1.3 * real && (cost / real - 1.0).abs() < 0.03, "{before} {cost}");
}

/// A model that thinks in silence bills 600 tokens and shows 20: its rate is that of what it shows.
#[actix_web::test]
async fn tokens_of_hidden_reasoning_are_not_divided_by_the_time_in_which_the_answer_was_shown() {
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 620, "total_tokens": 630,
        "completion_tokens_details": {"reasoning_tokens": 600}});
    let end = json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": usage});
    let shown = Duration::from_millis(100);
    let once = Script::new()
        .request()
        .pause(Duration::from_millis(200))
        .send(format!("{CHUNKED}{}", chunk(&text("That"))))
        .pause(shown)
        .send(format!("{}{}", chunk(&finish("stop")), chunk(&format!("data: {end}\n\n"))))
        .send("0\r\n\r\n");
    let script = Script::new().then(&once).then(&once).then(&once).then(&once);
    let upstream = Upstream::start(vec![script; 4]);
    let model = Model::new("acme/small").at("acme", "0.000001", "0.000002");
    let gateway = World::new().provider("acme", upstream.address()).model(&model).start().await;
    let words = json!([{"role": "user", "content": "Which way?"}]);
    let request = json!({"model": "acme/small", "messages": words, "stream": true});
    for _ in 0..4 {
        let reply = gateway.chat(&request).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    let predicted = async || {
        let preview = gateway.post("/api/v1/route/preview", &request).await.expect(200);
        preview["candidates"][0]["predicted"].clone()
    };
    let is_learned = |predicted: &Value| predicted["measured"] == true;
    let predicted = eventually("the answers are learned", predicted, is_learned).await;
    let rate = predicted["throughput_tps"]["p50"].as_f64().or(predicted["throughput_tps"].as_f64());
    // 20 tokens in a tenth of a second; the billed ones would make 6,200 a second.
    assert!(rate.is_some_and(|rate| rate < 1000.0), "{predicted}");
    let (first, total) = (predicted["ttft_ms"]["p50"].as_f64(), predicted["total_ms"]["p50"].as_f64());
    assert!(first.unwrap() > 150.0 && total.unwrap() < 1500.0, "{predicted}");
}
