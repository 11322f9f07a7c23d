//! The list of refused calls.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    console_login::Browser,
    folder::Folder,
    harness::TestGateway,
    issued_keys::{ADMIN, call, chat, issue, world},
    world::{and, ask, column, saying},
};

async fn refused(gateway: &TestGateway, query: &str) -> Value {
    call(&gateway.admin(), Method::GET, &format!("/api/v1/admin/refused{query}"), ADMIN, None).await.expect(200)
}

#[actix_web::test]
async fn refused_calls_are_listed_with_reason_key_team_and_model_but_no_text() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    let put = async |path: &str, body: Value| {
        call(&gateway.admin(), Method::PUT, &format!("/api/v1/admin/{path}"), ADMIN, Some(body)).await.expect(200)
    };
    put("teams/lab", json!({ "limit": 5 })).await;
    put("accounts/blue", json!({ "team": "lab" })).await;
    let (ci, _) = issue(&gateway, json!({ "name": "ci", "account": "blue", "limit": 0.2 })).await;
    let (narrow, _) = issue(&gateway, json!({ "name": "narrow", "blocked_models": ["acme/*"] })).await;
    let (slow, _) = issue(&gateway, json!({ "name": "slow", "requests_per_minute": 1 })).await;

    assert_eq!(chat(&gateway, &ci, json!({ "max_tokens": 90 })).await.status, 402);
    assert_eq!(chat(&gateway, &narrow, json!({})).await.status, 403);
    chat(&gateway, &slow, json!({ "max_tokens": 5 })).await.expect(200);
    assert_eq!(chat(&gateway, &slow, json!({ "max_tokens": 5 })).await.status, 429);
    let long = format!("acme/{}", "x".repeat(100));
    let unknown = call(&gateway, Method::POST, "/api/v1/chat/completions", &ci, Some(and(ask(&long), json!({})))).await;
    assert!((400..500).contains(&unknown.status), "{}", unknown.text());
    assert_eq!(chat(&gateway, "sk-nobody-knows-this-key", json!({})).await.status, 401);

    let all = refused(&gateway, "").await;
    assert_eq!(column(&all["data"], "reason").len(), 5, "{all}");
    assert!(!all.to_string().contains("Which way?"), "{all}");
    let [stranger, strange, late, blocked, spent] = &all["data"].as_array().unwrap()[..] else { panic!("{all}") };
    assert_eq!((&stranger["key"], &stranger["status"]), (&Value::Null, &json!(401)));
    assert_eq!(strange["model"].as_str().map(str::len), Some(64), "{strange}");
    assert_eq!((&late["key"], &late["status"], &late["model"]), (&json!("slow"), &json!(429), &Value::Null));
    assert_eq!((&blocked["key"], &blocked["reason"]), (&json!("narrow"), &json!("model_not_allowed_for_key")));
    assert_eq!((&spent["key"], &spent["account"], &spent["team"]), (&json!("ci"), &json!("blue"), &json!("lab")));
    assert_eq!((&spent["reason"], &spent["model"]), (&json!("key_limit"), &json!("acme/small")));
    assert!(spent["request_id"].as_str().unwrap().starts_with("req-"));

    assert_eq!(column(&refused(&gateway, "?key=ci").await["data"], "key"), ["ci", "ci"]);
    let one = refused(&gateway, "?reason=key_limit&limit=1").await;
    assert_eq!(column(&one["data"], "reason"), ["key_limit"]);
    assert!(column(&one["reasons"], "reason").contains(&"model_not_allowed_for_key"), "counts are of all: {one}");
    let disable = "/api/v1/admin/accounts/blue/disable";
    call(&gateway.admin(), Method::POST, disable, ADMIN, None).await.expect(200);
    assert_eq!(chat(&gateway, &ci, json!({})).await.status, 401);
    let shut_out = refused(&gateway, "?key=ci&reason=disabled_account").await;
    let named = ["key", "account", "team"].map(|name| shut_out["data"][0][name].as_str());
    assert_eq!(named, [Some("ci"), Some("blue"), Some("lab")], "{shut_out}");
    let wrong = call(&gateway.admin(), Method::GET, "/api/v1/admin/refused?status=402", ADMIN, None).await;
    assert_eq!(wrong.status, 400);
}

#[actix_web::test]
async fn the_overview_leads_to_the_page_of_refused_calls() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    let (ci, _) = issue(&gateway, json!({ "name": "ci", "limit": 0.2 })).await;
    assert_eq!(chat(&gateway, &ci, json!({ "max_tokens": 90 })).await.status, 402);
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    let overview = browser.page("/console/").await;
    assert!(overview.contains("href=\"refused?reason=key_limit\""), "{overview}");
    let page = browser.page("/console/refused?reason=key_limit").await;
    for part in ["Refused calls", "key limit", ">ci<", "acme/small", "402"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let empty = browser.page("/console/refused?reason=team_limit").await;
    assert!(empty.contains("No refused call is kept that passes these filters."), "{empty}");
}
