//! What spending limits count is what the ledger holds, to the last unit, and a verification of a running gateway says so.

use actix_web::http::Method;
use futures_util::future::{join, join_all};
use pointsman_domain::Usd;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::TestGateway,
    issued_keys::{ADMIN, call, chat, issue, world},
    world::saying,
};

async fn verified(gateway: &TestGateway) -> Value {
    let path = "/api/v1/admin/ledger/verification";
    call(&gateway.admin(), Method::GET, path, ADMIN, None).await.expect(200)["data"].take()
}

#[actix_web::test]
async fn a_verification_compares_what_limits_count_with_the_records_also_while_calls_go_on() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    let put = async |path: &str, body: Value| {
        call(&gateway.admin(), Method::PUT, &format!("/api/v1/admin/{path}"), ADMIN, Some(body)).await.expect(200)
    };
    put("teams/lab", json!({ "limit": 1000 })).await;
    put("accounts/blue", json!({ "team": "lab" })).await;
    let mut keys = Vec::new();
    for (name, account) in [("one", "blue"), ("two", "blue"), ("three", "red")] {
        keys.push(issue(&gateway, json!({ "name": name, "account": account })).await);
    }
    let load = keys.iter().flat_map(|key| [key, key]).map(async |(text, _)| {
        for _ in 0..15 {
            chat(&gateway, text, json!({ "max_tokens": 5 })).await.expect(200);
        }
    });
    let (found, _) = join(verified(&gateway), join_all(load)).await;
    assert_eq!(found["faults"], json!([]), "while calls go on");

    let found = verified(&gateway).await;
    assert_eq!(found["faults"], json!([]));
    let all = gateway.inner().shared().access.registry.holders.named_budgets();
    assert_eq!(found["spending_compared"], json!(all.len()), "keys, accounts and the team");

    let number = keys[0].1["hash"].as_str().unwrap();
    let (_, of_key) = all.iter().find(|(name, _)| name.ends_with(number)).unwrap();
    of_key.add_to_total(Usd::from_femto(1));
    let found = verified(&gateway).await;
    let expected = format!("the key {number} has spent $5.100000000000001 by its limit, and $5.1 by the records");
    assert_eq!((&found["fault_count"], &found["faults"]), (&json!(1), &json!([expected])));
}
