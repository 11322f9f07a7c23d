//! The shortest way through everything: one plain and one streamed completion over simulated providers.

use serde_json::json;

use crate::harness::TestGateway;

#[actix_web::test]
async fn a_stranger_gets_routed_streamed_and_explained_completions() {
    let gateway = TestGateway::simulated().await;
    let body = json!({"model": "service/auto", "messages": [{"role": "user", "content": "Which way?"}]});
    let plain = gateway.chat(&body).await.expect(200);
    assert_eq!(plain["object"], "chat.completion");
    let id = plain["id"].as_str().unwrap();
    let explained = gateway.get(&format!("/api/v1/route/explain?generation_id={id}")).await.expect(200);
    assert_eq!(explained["model"], plain["model"]);
    assert_eq!(explained["total_cost"], plain["usage"]["cost"]);

    let body = json!({"model": "service/auto", "stream": true, "max_tokens": 5,
        "messages": [{"role": "user", "content": "Which way?"}]});
    let streamed = gateway.chat(&body).await;
    assert_eq!(streamed.status, 200, "{}", streamed.text());
    assert!(!streamed.content().is_empty());
    assert!(streamed.text().ends_with("data: [DONE]\n\n"));
}
