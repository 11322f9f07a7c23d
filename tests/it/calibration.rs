//! `GET /health/calibration` and its gauges, on a gateway that serves.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::harness::TestGateway;

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
