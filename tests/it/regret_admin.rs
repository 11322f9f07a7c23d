//! `/admin/regret`: a review of recorded decisions as a job of the gateway, and its page.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    console_login::{Browser, token},
    diff_admin::{call, ended_with_records},
    generation_lists::{ADMIN, CALLER, Stage, admin, one_of_each},
    harness::{Reply, TestGateway},
    patience::eventually,
};

async fn begin(gateway: &TestGateway, body: Value) -> Reply {
    call(gateway, ADMIN, Method::POST, "regret", Some(body)).await
}

#[actix_web::test]
async fn a_review_is_begun_shown_and_cancelled_by_its_id_which_is_no_comparison() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    one_of_each(&gateway).await;
    let data = ended_with_records(&gateway, "regret", &json!({"by_day": true})).await;
    assert_eq!((&data["state"], &data["why"]), (&json!("done"), &Value::Null), "{data:#}");
    let report = &data["report"];
    assert_eq!(
        (&report["verdict"], &report["warnings"]),
        (&json!("refused"), &json!([])),
        "four are too few: {report:#}"
    );
    let refusal = report["groups"][0]["refusal"].as_str().unwrap();
    assert!(refusal.contains("4 requests"), "{refusal}");
    let id = data["id"].as_str().unwrap();
    let cancelled = call(&gateway, ADMIN, Method::DELETE, &format!("regret/{id}"), None).await.expect(200);
    assert_eq!(cancelled["data"]["state"], "done", "it had ended");
    admin(&gateway, "regret/regret-0").await.expect(404);
    admin(&gateway, &format!("diff/{id}")).await.expect(404);
    call(&gateway, ADMIN, Method::DELETE, &format!("diff/{id}"), None).await.expect(404);
}

#[actix_web::test]
async fn what_cannot_be_reviewed_is_refused_and_only_administrators_review() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    for body in [json!({"since": "yesterday"}), json!({"since": "2001-01-01"}), json!({"since": i64::MIN.to_string()})]
    {
        let refused = begin(&gateway, body.clone()).await.expect(400);
        assert_eq!(refused["error"]["param"], "since", "{body}: {refused}");
    }
    begin(&gateway, json!({"config": ""})).await.expect(400);
    let denied = call(&gateway, CALLER, Method::POST, "regret", Some(json!({}))).await;
    assert!([401, 403].contains(&denied.status), "{}", denied.status);
}

#[actix_web::test]
async fn the_page_regret_reviews_the_records_and_keeps_what_was_entered() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    one_of_each(&gateway).await;
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    let page = browser.page("/console/regret").await;
    let token = token(&page).to_owned();
    assert_eq!(browser.post("/console/regret", "token=wrong&since=24").await.status, 403);
    let reviewed = async || {
        let begun = browser.post("/console/regret", &format!("token={token}&since=1&alias=&by_day=yes")).await;
        assert_eq!(begun.status, 303, "{}", begun.text());
        let location = begun.header("location").unwrap().to_owned();
        assert!(location.starts_with("regret?id=regret-"), "{location}");
        let place = format!("/console/{location}");
        eventually("it ends", async || browser.page(&place).await, |page| !page.contains("data-refresh")).await
    };
    let is_read = |page: &String| page.contains("came out of their records as they were made");
    let page = eventually("the records are in the database", reviewed, is_read).await;
    assert!(page.contains("Too few requests for figures.") && page.contains("Take a longer --since"), "{page}");
    assert!(page.contains("<option value=\"yes\" selected>"), "{page}");
    assert!(browser.page("/console/regret?id=regret-0").await.contains("no longer kept"));
    let refused = browser.post("/console/regret", &format!("token={token}&since=9999")).await;
    assert!(refused.status == 400 && refused.text().contains("at most a week"), "{}", refused.text());
}
