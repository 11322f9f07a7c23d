//! The class of a task in the record of a decision: who may name it, what it is found from, and that it stays.

use actix_web::http::Method;
use pointsman_ledger::directory::Directory;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::TestGateway,
    issued_keys::{self, ADMIN, call, issue},
    scripted::Upstream,
    world::{Model, World, and, ask, saying},
};

const CODER: &str = "sk-coder-0a1b2c3d4e5f6a7b";
const PROSE: &str = "Which of the two roads through the mountains is open in winter?";
const PROGRAM: &str = "Explain: fn main() { let a = f(b); }";

async fn start(upstream: &Upstream, folder: &Folder) -> TestGateway {
    let data = folder.at("data");
    World::new()
        .provider("acme", upstream.address())
        .model(&Model::new("acme/small").taking(&["tools", "structured_outputs"]).at("acme", "0.000001", "0.000001"))
        .with("[[keys]]\nname = \"coder\"\nenv = \"CODER\"\ntask = \"code\"\n")
        .with("[[aliases]]\nname = \"sums\"\ntask = \"math\"\n")
        .with("[routing.sticky]\nmin_prompt_tokens = 1\n")
        .with(&format!("[ledger]\ndata_dir = {:?}\n", data.to_str().unwrap()))
        .variable("CODER", CODER)
        .start()
        .await
}

fn says(text: &str) -> Value {
    json!({ "messages": [{ "role": "user", "content": text }] })
}

/// The explanation of a chat.
async fn explained(gateway: &TestGateway, key: &str, body: Value) -> Value {
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let sent = Some(body.to_string().into_bytes());
    let answer = gateway.call(Method::POST, "/api/v1/chat/completions", &headers, sent).await.expect(200);
    let path = format!("/api/v1/route/explain?generation_id={}", answer["id"].as_str().unwrap());
    gateway.call(Method::GET, &path, &headers[..1], None).await.expect(200)
}

/// Class and source of the task of a chat of the ordinary key.
async fn class(gateway: &TestGateway, body: Value) -> [String; 2] {
    class_for(gateway, crate::harness::KEY, body).await
}

async fn class_for(gateway: &TestGateway, key: &str, body: Value) -> [String; 2] {
    let class = &explained(gateway, key, body).await["task_class"];
    ["name", "source"].map(|member| class[member].as_str().unwrap().to_owned())
}

fn named(task: &str) -> Value {
    json!({ "metadata": { "task": task } })
}

#[actix_web::test]
async fn the_client_names_the_class_else_the_key_else_the_alias_else_features_tell_it() {
    let (upstream, folder) = (saying("This way."), Folder::new());
    let gateway = start(&upstream, &folder).await;
    let prose = || and(ask("acme/small"), says(PROSE));
    assert_eq!(class(&gateway, prose()).await, ["general", "default"]);
    assert_eq!(class(&gateway, and(prose(), says(PROGRAM))).await, ["code", "features"]);
    let on_alias = and(prose(), json!({ "model": "service/sums" }));
    assert_eq!(class(&gateway, on_alias.clone()).await, ["math", "alias"]);
    assert_eq!(class_for(&gateway, CODER, on_alias.clone()).await, ["code", "key"]);
    assert_eq!(class_for(&gateway, CODER, and(on_alias, named("creative"))).await, ["creative", "metadata"]);
}

#[actix_web::test]
async fn tools_and_schemas_tell_the_class_before_any_text() {
    let (upstream, folder) = (saying("This way."), Folder::new());
    let gateway = start(&upstream, &folder).await;
    let tool = json!({ "tools": [{ "type": "function", "function": { "name": "look", "parameters": {} } }] });
    let schema = json!({ "response_format": {
        "type": "json_schema",
        "json_schema": { "name": "way", "schema": { "type": "object" } },
    }});
    let program = || and(ask("acme/small"), says(PROGRAM));
    assert_eq!(class(&gateway, and(program(), tool.clone())).await, ["tools", "features"]);
    let explained = explained(&gateway, crate::harness::KEY, and(and(program(), tool), schema)).await;
    let expected = json!({ "name": "structured", "source": "features", "features": ["schema", "tools"] });
    assert_eq!(explained["task_class"], expected);
    assert_eq!(
        explained["safe_set"],
        json!([{ "model": "acme/small", "provider_name": "Acme", "provider_slug": "acme" }])
    );
    assert_eq!(explained["exploration_share"], 0.0);
}

#[actix_web::test]
async fn a_task_that_is_no_class_stays_a_tag_of_the_client() {
    let (upstream, folder) = (saying("This way."), Folder::new());
    let gateway = start(&upstream, &folder).await;
    let body = and(and(ask("acme/small"), says(PROSE)), named("nightly summary"));
    assert_eq!(class(&gateway, body).await, ["general", "default"]);
}

#[actix_web::test]
async fn only_the_last_message_of_the_user_is_looked_at_whatever_the_order_of_its_members() {
    let (upstream, folder) = (saying("This way."), Folder::new());
    let gateway = start(&upstream, &folder).await;
    let conversation = json!({ "messages": [
        { "role": "system", "content": PROGRAM },
        { "role": "user", "content": PROGRAM },
        { "role": "assistant", "content": PROGRAM },
        { "role": "user", "content": [{ "type": "text", "text": "Thank you." }, { "type": "text", "text": PROSE }] },
        { "role": "assistant", "content": PROGRAM },
    ] });
    assert_eq!(class(&gateway, and(ask("acme/small"), conversation)).await, ["general", "default"]);
    let body = format!(
        r#"{{"model":"acme/small","messages":[{{"content":{:?},"role":"user"}},{{"content":{:?},"role":"assistant"}}]}}"#,
        PROGRAM, PROSE
    );
    assert_eq!(class(&gateway, serde_json::from_str(&body).unwrap()).await, ["code", "features"]);
}

#[actix_web::test]
async fn a_conversation_keeps_its_class_unless_the_client_names_another() {
    let (upstream, folder) = (saying("This way."), Folder::new());
    let gateway = start(&upstream, &folder).await;
    let turn = |text: &str, session: &str| and(and(ask("acme/small"), says(text)), json!({ "session_id": session }));
    assert_eq!(class(&gateway, turn(PROGRAM, "one")).await, ["code", "features"]);
    assert_eq!(class(&gateway, turn(PROSE, "one")).await, ["code", "conversation"]);
    assert_eq!(class(&gateway, turn(PROSE, "two")).await, ["general", "default"]);
    assert_eq!(class(&gateway, turn(PROGRAM, "two")).await, ["general", "conversation"]);
    assert_eq!(class(&gateway, and(turn(PROGRAM, "one"), named("vision"))).await, ["vision", "metadata"]);
    assert_eq!(class(&gateway, turn(PROGRAM, "one")).await, ["vision", "conversation"], "this request names none");
}

#[actix_web::test]
async fn an_issued_key_names_the_class_until_it_is_changed_also_rotated_and_after_a_restart() {
    let (upstream, folder) = (saying("This way."), Folder::new());
    let body = || and(ask("acme/small"), and(says(PROSE), json!({ "max_tokens": 5 })));
    let gateway = issued_keys::world(&upstream, &folder).start().await;
    let (text, data) = issue(&gateway, json!({ "name": "ci", "task": "creative" })).await;
    assert_eq!(data["task"], "creative");
    assert_eq!(class_for(&gateway, &text, body()).await, ["creative", "key"]);
    let path = format!("/api/v1/keys/{}", data["hash"].as_str().unwrap());
    let changed = call(&gateway, Method::PATCH, &path, ADMIN, Some(json!({ "task": "math" }))).await.expect(200);
    assert_eq!(changed["data"]["task"], "math");
    let rotated = call(&gateway, Method::POST, &format!("{path}/rotate"), ADMIN, None).await.expect(200);
    let text = rotated["key"].as_str().unwrap();
    assert_eq!(class_for(&gateway, text, body()).await, ["math", "key"]);
    let audit = call(&gateway.admin(), Method::GET, "/api/v1/admin/audit", ADMIN, None).await.expect(200);
    let update = audit["data"].as_array().unwrap().iter().find(|line| line["action"] == "update_key").unwrap();
    assert_eq!(update["changes"], json!([{ "member": "task", "from": "creative", "to": "math" }]));
    gateway.stop().await;
    drop(gateway);

    crate::patience::until("the directory is free", || Directory::open(&folder.at("data")).is_ok()).await;
    let gateway = issued_keys::world(&upstream, &folder).start().await;
    assert_eq!(class_for(&gateway, text, body()).await, ["math", "key"]);
    call(&gateway, Method::PATCH, &path, ADMIN, Some(json!({ "task": null }))).await.expect(200);
    assert_eq!(class_for(&gateway, text, body()).await, ["general", "default"]);
}
