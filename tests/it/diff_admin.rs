//! `/admin/diff`: a comparison as a job of the gateway.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    generation_lists::{ADMIN, CALLER, Stage, admin, one_of_each},
    harness::{Reply, TestGateway},
    patience::eventually,
};

async fn call(gateway: &TestGateway, key: &str, method: Method, path: &str, body: Option<Value>) -> Reply {
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let body = body.map(|body| body.to_string().into_bytes());
    gateway.admin().call(method, &format!("/api/v1/admin/{path}"), &headers, body).await
}

async fn begin(gateway: &TestGateway, body: Value) -> Reply {
    call(gateway, ADMIN, Method::POST, "diff", Some(body)).await
}

#[actix_web::test]
async fn a_comparison_is_begun_shown_and_cancelled_by_its_id() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    one_of_each(&gateway).await;
    // The same configuration, as far as decisions depend on it.
    let config = stage.world().toml().to_owned();
    let compared = async || {
        let begun = begin(&gateway, json!({"config": config, "limits": ["spend > +5%"]})).await.expect(202);
        let id = begun["data"]["id"].as_str().unwrap().to_owned();
        let shown = async || admin(&gateway, &format!("diff/{id}")).await.expect(200)["data"].take();
        eventually("it ends", shown, |data| data["state"] != "running").await
    };
    // The records are in the database a few seconds later.
    let data = eventually("it reads the records", compared, |data| data["report"]["self_tested"] == 4).await;
    assert_eq!(
        (&data["state"], &data["report"]["changed"], &data["why"]),
        (&json!("done"), &json!(0), &json!(null)),
        "{data:#}"
    );
    assert_eq!(data["report"]["verdict"], "no_answer", "four decisions are too few to judge a limit by");
    let id = data["id"].as_str().unwrap();
    let cancelled = call(&gateway, ADMIN, Method::DELETE, &format!("diff/{id}"), None).await.expect(200);
    assert_eq!(cancelled["data"]["state"], "done", "it had ended");
    admin(&gateway, "diff/diff-0").await.expect(404);
}

#[actix_web::test]
async fn what_cannot_be_compared_is_refused_and_only_administrators_compare() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    for (body, param) in [
        (json!({"config": "[routing]\nexploration = -1"}), "config"),
        (json!({"config": "", "since": "yesterday"}), "since"),
        (json!({"config": "", "limits": ["joy > 1%"]}), "limits"),
    ] {
        let refused = begin(&gateway, body).await.expect(400);
        assert_eq!(refused["error"]["param"], param, "{refused}");
    }
    begin(&gateway, json!({"konfig": ""})).await.expect(400);
    let denied = call(&gateway, CALLER, Method::POST, "diff", Some(json!({"config": ""}))).await;
    assert!([401, 403].contains(&denied.status), "{}", denied.status);
}
