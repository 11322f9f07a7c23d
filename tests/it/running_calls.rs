//! The calls in progress, as administrators see them: from admission to whatever end.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    console_login::Browser,
    generation_lists::ADMIN,
    harness::{KEY, TestGateway},
    hostile::{CHUNKED, chunk, events, finish, text},
    patience::{PATIENCE, eventually},
    raw_client::RawClient,
    scripted::{Gate, Script, Upstream},
    world::{Model, World, and, ask, completion, http, refusal},
};

/// A gateway with an administrator in front of `acme/small` at `slow` and `spare`.
async fn gateway(slow: &Upstream, spare: &Upstream, config: &str) -> TestGateway {
    let model = Model::new("acme/small").at("slow", "0.000001", "0.000001").at("spare", "0.00001", "0.00001");
    let world = if config.contains("[routing]") { World::default() } else { World::new() };
    world
        .with(config)
        .provider("slow", slow.address())
        .provider("spare", spare.address())
        .model(&model)
        .with("[[keys]]\nname = \"admin\"\nenv = \"ADMIN\"\nscopes = [\"admin\"]\n")
        .variable("ADMIN", ADMIN)
        .variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")
        .start()
        .await
}

fn slow_first(streamed: bool) -> Value {
    and(ask("acme/small"), json!({"stream": streamed, "provider": {"order": ["slow", "spare"]}}))
}

async fn running(gateway: &TestGateway) -> Value {
    let bearer = format!("Bearer {ADMIN}");
    gateway.admin().call(Method::GET, "/api/v1/admin/running", &[("authorization", &bearer)], None).await.expect(200)
}

/// Waits until the only call in progress is in this phase, and gives it.
async fn only(gateway: &TestGateway, phase: &str) -> Value {
    let page = eventually(
        format!("one call that is {phase}"),
        async || running(gateway).await,
        |page| page["total"] == 1 && page["data"][0]["phase"] == phase,
    )
    .await;
    assert_eq!((page["data"].as_array().unwrap().len(), &page["in_flight"]), (1, &json!(1)), "{page}");
    page["data"][0].clone()
}

async fn nothing(gateway: &TestGateway) {
    let page = eventually("no call", async || running(gateway).await, |page| page["total"] == 0).await;
    assert_eq!(page["data"], json!([]));
}

/// A plain answer of which the first bytes come at once, the rest behind the gate.
fn held_answer(said: &Gate, gate: &Gate) -> Script {
    let answer = http(200, &completion("Over the hills"));
    let (begin, rest) = answer.split_at(answer.len() - 9);
    Script::new().request().wait(said).send(begin.to_owned()).wait(gate).send(rest.to_owned())
}

#[actix_web::test]
async fn a_plain_call_is_listed_from_its_admission_to_its_end() {
    let (said, gate) = (Gate::new(), Gate::new());
    let (slow, spare) = (Upstream::start([held_answer(&said, &gate)]), Upstream::start([]));
    let gateway = gateway(&slow, &spare, "").await;
    nothing(&gateway).await;
    let mut client = RawClient::chat(&gateway, &slow_first(false)).await;
    assert!(slow.eventually(PATIENCE, |log| log.requests.len() == 1).await);

    let call = only(&gateway, "waiting").await;
    let attempts = json!([{"n": 1, "model": "acme/small", "provider_slug": "slow"}]);
    assert_eq!((&call["attempts"], &call["failed_attempts"]), (&attempts, &json!(0)), "{call}");
    assert_eq!((&call["model"], &call["provider_slug"]), (&json!("acme/small"), &json!("slow")), "{call}");
    assert_eq!((&call["requested_model"], &call["key"]), (&json!("acme/small"), &json!("test")), "{call}");
    assert_eq!((&call["streamed"], &call["output_tokens"]), (&json!(false), &Value::Null), "{call}");
    assert!(call["prompt_tokens"].as_u64().unwrap() > 0 && call["first_token_ms"].is_null(), "{call}");
    assert!(call["created_at"].as_str().unwrap().ends_with('Z') && call["age_ms"].is_u64(), "{call}");

    said.open();
    let answering = only(&gateway, "answering").await;
    assert!(answering["first_token_ms"].as_u64() <= answering["age_ms"].as_u64(), "{answering}");
    gate.open();
    client.until("Over the hills").await;
    assert_eq!(call["id"], client.generation());
    nothing(&gateway).await;
}

#[actix_web::test]
async fn tokens_of_a_stream_are_counted_while_it_runs() {
    let (more, end) = (Gate::new(), Gate::new());
    let script = Script::new().request().send(format!("{CHUNKED}{}", chunk(&text("Over the hills"))));
    let script = script.wait(&more).send(chunk(&text(&"and far away ".repeat(20)))).wait(&end);
    let script = script.send(chunk(&finish("stop"))).send(chunk("data: [DONE]\n\n")).send("0\r\n\r\n");
    let (slow, spare) = (Upstream::start([script]), Upstream::start([]));
    let gateway = gateway(&slow, &spare, "").await;
    let mut client = RawClient::chat(&gateway, &slow_first(true)).await;

    let call = only(&gateway, "streaming").await;
    assert_eq!((&call["streamed"], &call["output_tokens"]), (&json!(true), &json!(4)), "14 bytes: {call}");
    assert!(call["first_token_ms"].is_u64(), "{call}");
    more.open();
    eventually(
        "more tokens",
        async || only(&gateway, "streaming").await["output_tokens"].clone(),
        |tokens| *tokens == json!(69),
    )
    .await;
    end.open();
    client.until("[DONE]").await;
    assert_eq!(call["id"], client.generation());
    nothing(&gateway).await;
}

#[actix_web::test]
async fn a_failed_attempt_is_counted_and_the_next_one_named() {
    let gate = Gate::new();
    let slow = Upstream::start([Script::answering(refusal(500))]);
    let spare = Upstream::start([held_answer(&gate, &gate)]);
    let gateway = gateway(&slow, &spare, "").await;
    let mut client = RawClient::chat(&gateway, &slow_first(false)).await;
    let call = eventually(
        "the second attempt",
        async || running(&gateway).await["data"][0].clone(),
        |call| call["attempts"] == json!([{"n": 2, "model": "acme/small", "provider_slug": "spare"}]),
    )
    .await;
    assert_eq!((&call["failed_attempts"], &call["provider_slug"]), (&json!(1), &json!("spare")), "{call}");
    gate.open();
    client.until("Over the hills").await;
    nothing(&gateway).await;
}

#[actix_web::test]
async fn two_attempts_that_race_are_both_named() {
    let gate = Gate::new();
    let (slow, spare) = (Upstream::start([held_answer(&gate, &gate)]), Upstream::start([held_answer(&gate, &gate)]));
    let config = "[routing]\nexploration = 0\nexpert.prior_ttft = \"20ms\"\nexpert.prior_time_per_token = \"10us\"\n\
                  [routing.hedge]\nobjectives = [\"fastest\"]\nbudget = 1.0\n";
    let gateway = gateway(&slow, &spare, config).await;
    let mut client = RawClient::chat(&gateway, &and(slow_first(false), json!({"objective": "fastest"}))).await;
    let call = eventually(
        "two attempts",
        async || running(&gateway).await["data"][0].clone(),
        |call| call["attempts"].as_array().is_some_and(|attempts| attempts.len() == 2),
    )
    .await;
    let slugs: Vec<_> = call["attempts"].as_array().unwrap().iter().map(|one| one["provider_slug"].clone()).collect();
    assert_eq!((slugs, &call["provider_slug"]), (vec![json!("slow"), json!("spare")], &json!("slow")), "{call}");
    gate.open();
    client.until("Over the hills").await;
    nothing(&gateway).await;
}

#[actix_web::test]
async fn a_request_whose_body_is_on_its_way_is_listed_without_a_model() {
    let (slow, spare) = (Upstream::start([]), Upstream::start([]));
    let gateway = gateway(&slow, &spare, "").await;
    let mut client = RawClient::connect(gateway.address).await;
    let head = format!(
        "POST /api/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\n\
         content-type: application/json\r\ncontent-length: 400\r\n\r\n{{\"model\": "
    );
    assert!(client.say(head).await);
    let call = only(&gateway, "reading").await;
    for member in ["requested_model", "streamed", "model", "prompt_tokens", "first_token_ms", "output_tokens"] {
        assert!(call[member].is_null(), "{member}: {call}");
    }
    assert_eq!((&call["key"], &call["attempts"]), (&json!("test"), &json!([])), "{call}");
    client.hang_up();
    nothing(&gateway).await;
}

#[actix_web::test]
async fn a_call_is_gone_when_its_client_hangs_up_plain_or_streamed() {
    for (streamed, phase) in [(false, "waiting"), (true, "waiting"), (false, "answering"), (true, "streaming")] {
        let gate = Gate::new();
        let script = match phase {
            "waiting" => Script::new().request().wait(&gate),
            "answering" => {
                let said = Gate::new();
                said.open();
                held_answer(&said, &gate)
            }
            _ => Script::new().request().send(format!("{CHUNKED}{}", chunk(&text("Over")))).wait(&gate),
        };
        let (slow, spare) = (Upstream::start([script]), Upstream::start([]));
        let gateway = gateway(&slow, &spare, "").await;
        let client = RawClient::chat(&gateway, &slow_first(streamed)).await;
        only(&gateway, phase).await;
        client.reset();
        nothing(&gateway).await;
        gate.open();
    }
}

#[actix_web::test]
async fn a_call_is_gone_when_its_time_is_up_and_when_every_endpoint_fails() {
    let gate = Gate::new();
    let slow = Upstream::start([Script::new().request().wait(&gate)]);
    let spare = Upstream::start([Script::new().request().wait(&gate)]);
    let gateway = gateway(&slow, &spare, "[timeouts]\ntotal = \"1s\"\n").await;
    for streamed in [false, true] {
        let mut client = RawClient::chat(&gateway, &slow_first(streamed)).await;
        only(&gateway, "waiting").await;
        client.until("HTTP/1.1 504").await;
        nothing(&gateway).await;
    }
    gate.open();
}

#[actix_web::test]
async fn a_refused_call_leaves_nothing_behind() {
    let (slow, spare) = (Upstream::start([]), Upstream::start([]));
    let gateway = gateway(&slow, &spare, "").await;
    gateway.chat(&json!({"model": "acme/small"})).await.expect(400);
    gateway.chat(&ask("acme/unknown")).await.expect(404);
    gateway.post("/api/v1/embeddings", &json!({"model": "acme/small"})).await.expect(400);
    nothing(&gateway).await;
}

#[actix_web::test]
async fn the_overview_shows_what_the_api_lists() {
    let (said, gate) = (Gate::new(), Gate::new());
    said.open();
    let stream = Script::new().request().send(format!("{CHUNKED}{}", chunk(&events("Over the hills")))).wait(&gate);
    let (slow, spare) = (Upstream::start([held_answer(&said, &gate), stream]), Upstream::start([]));
    let gateway = gateway(&slow, &spare, "").await;
    let _plain = RawClient::chat(&gateway, &slow_first(false)).await;
    only(&gateway, "answering").await;
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    let page = browser.page("/console/").await;
    assert!(page.contains("answering") && page.contains("Tokens so far"), "{page}");
    gate.open();
}
