//! What an answer costs beside the ordinary case: costs that the provider reports, and answers that were cut.

use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    hostile::{CHUNKED, chunk, text},
    raw_client::RawClient,
    scripted::{Script, Upstream},
    world::{Model, World, always, and, answer, ask, stream_of},
};

async fn gateway(upstream: &Upstream) -> TestGateway {
    let model = Model::new("acme/small").at("acme", "0.001", "0.002");
    World::new().provider("acme", upstream.address()).model(&model).start().await
}

/// The record of the only generation of this answer.
async fn record(gateway: &TestGateway, id: &str) -> Value {
    gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200)["data"].clone()
}

#[actix_web::test]
async fn the_cost_that_a_provider_reports_stands_beside_ours_and_is_not_billed() {
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 10, "cost": 0.0975});
    let upstream = always(200, &answer(json!({"role": "assistant", "content": "x"}), usage));
    let gateway = gateway(&upstream).await;
    let reply = gateway.chat(&ask("acme/small")).await.expect(200);
    assert_eq!(reply["usage"]["cost"], json!(0.12));
    assert_eq!(reply["usage"]["cost_details"]["upstream_inference_cost"], json!(0.0975));
    let record = record(&gateway, reply["id"].as_str().unwrap()).await;
    assert_eq!((&record["total_cost"], &record["upstream_inference_cost"]), (&json!(0.12), &json!(0.0975)));
    let route = &record["route"];
    assert_eq!((&route["total_cost"], &route["reported_cost"]), (&json!(0.12), &json!(0.0975)));
    assert_eq!(route["attempts"][0]["reported_cost"], json!(0.0975));
    assert_eq!(gateway.get("/api/v1/key").await.expect(200)["data"]["usage"], json!(0.12));
    let metrics = gateway.get("/metrics").await.text();
    for line in ["source=\"computed\"} 0.12", "source=\"reported\"} 0.0975"] {
        assert!(metrics.contains(&format!("pointsman_compared_cost_usd_total{{provider=\"acme\",{line}")), "{metrics}");
    }
}

#[actix_web::test]
async fn a_stream_keeps_the_reported_cost_too() {
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110, "cost": "9.75e-02"});
    let usage = format!("data: {}\n\ndata: [DONE]\n\n", json!({"id": "x", "choices": [], "usage": usage}));
    let body = stream_of(&["x"]);
    let (_, body) = body.split_once("\r\n\r\n").unwrap();
    let body = body.replace("data: [DONE]\n\n", &usage);
    let head = format!("content-type: text/event-stream\r\ncontent-length: {}", body.len());
    let upstream = Upstream::start([Script::answering(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}"))]);
    let gateway = gateway(&upstream).await;
    let text = gateway.chat(&and(ask("acme/small"), json!({"stream": true}))).await.text();
    assert!(text.contains("\"cost\":0.12,") && text.contains("\"upstream_inference_cost\":0.0975"), "{text}");
}

/// 40 prompt and 20 completion tokens reported beside the first word, then ten bytes of text that nobody counted.
fn reported_and_more() -> String {
    let first = text("Hello");
    let mut reported: Value = serde_json::from_str(first.trim_start_matches("data: ")).unwrap();
    reported["usage"] = json!({"prompt_tokens": 40, "completion_tokens": 20});
    format!("{CHUNKED}{}{}", chunk(&format!("data: {reported}\n\n")), chunk(&text("ten  bytes")))
}

/// The one rule for answers that were cut, whoever cut them: the last report, and an estimate of what came after it.
#[actix_web::test]
async fn a_broken_and_a_cancelled_stream_are_billed_by_the_same_rule() {
    for client_leaves in [false, true] {
        let script = Script::new().request().send(reported_and_more());
        let upstream = Upstream::start([if client_leaves { script } else { script.reset() }]);
        let gateway = gateway(&upstream).await;
        let mut client = RawClient::chat(&gateway, &and(ask("acme/small"), json!({"stream": true}))).await;
        client.until("ten  bytes").await;
        let id = client.generation();
        if client_leaves {
            client.hang_up();
            assert!(upstream.eventually(crate::patience::PATIENCE, |log| log.closed.len() == 1).await);
        } else {
            client.until("[DONE]").await;
        }
        let record = record(&gateway, &id).await;
        assert_eq!((&record["tokens_prompt"], &record["tokens_completion"]), (&json!(40), &json!(23)), "{record}");
        assert_eq!(record["total_cost"], json!(0.086));
        assert_eq!(record["usage_estimated"], true);
        let attempt = &record["route"]["attempts"][0];
        assert_eq!((&attempt["cost"], &attempt["estimated"]), (&json!(0.086), &json!(true)));
        assert_eq!((&record["route"]["ledger_cost"], &record["ledger_cost"]), (&json!(0.086), &json!(0.086)));
    }
}

#[actix_web::test]
async fn estimated_usage_is_marked_in_the_answer_and_the_record() {
    let upstream = always(200, &json!({"choices": [{"message": {"content": "Hello there"}}]}));
    let gateway = gateway(&upstream).await;
    let reply = gateway.chat(&ask("acme/small")).await.expect(200);
    assert_eq!(reply["usage"]["estimated"], true);
    let record = record(&gateway, reply["id"].as_str().unwrap()).await;
    assert_eq!(
        (&record["usage_estimated"], &record["route"]["attempts"][0]["estimated"]),
        (&json!(true), &json!(true))
    );
}
