//! Three attempts may fail by chance while another endpoint would answer: then it is asked, out of a budget of its own, and
//! the caller sees no failure.

use serde_json::{Value, json};

use crate::{
    harness::{Reply, TestGateway},
    hostile::{events, gateway, record_line, stream_of},
    patience::{PATIENCE, eventually},
    scripted::{Gate, Script, Upstream},
    world::{Model, World, completion, error_of, http, saying},
};

/// Plain answer or stream.
fn answer(streamed: bool) -> Vec<u8> {
    if streamed { stream_of(&events("here")).into() } else { http(200, &completion("here")).into() }
}

/// Answers one request and then plays the script.
fn once_sound(streamed: bool, then: Script) -> Upstream {
    Upstream::start([Script::new().request().send(answer(streamed)).fin(), then])
}

fn sound(streamed: bool) -> Upstream {
    once_sound(streamed, Script::answering(answer(streamed)))
}

fn failing(streamed: bool) -> Upstream {
    once_sound(streamed, Script::answering(http(500, &json!({"error": {"message": "down"}}))))
}

/// A request that tries the providers in their order.
fn body(streamed: bool) -> Value {
    let order: Vec<_> = (0..12).map(|number| format!("p{number}")).collect();
    json!({"model": "acme/small", "stream": streamed, "messages": [{"role": "user", "content": "Hello?"}],
        "provider": {"order": order}})
}

/// A gateway that had an answer of each of them.
async fn before(upstreams: &[Upstream], further: &str, streamed: bool) -> TestGateway {
    let urls: Vec<_> = upstreams.iter().map(|upstream| upstream.url("")).collect();
    let gateway = gateway(&urls, &format!("[routing]\nexploration = 0\n{further}")).await;
    for number in 0..upstreams.len() {
        let mut body = body(streamed);
        body["provider"] = json!({"only": [format!("p{number}")]});
        assert_eq!(gateway.chat(&body).await.status, 200);
    }
    let preview = async || gateway.post("/api/v1/route/preview", &body(streamed)).await.expect(200);
    let is_measured = |preview: &Value| {
        let mut candidates = preview["candidates"].as_array().unwrap().iter();
        candidates.all(|candidate| candidate["predicted"]["measured"] == true)
    };
    eventually("all are measured", preview, is_measured).await;
    gateway
}

async fn record(gateway: &TestGateway, reply: &Reply) -> Value {
    let id = reply.header("x-generation-id").unwrap();
    gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200)["data"].clone()
}

/// How often they were asked, the first answer left out.
fn asked(upstreams: &[Upstream]) -> Vec<usize> {
    upstreams.iter().map(|upstream| upstream.log().requests.len() - 1).collect()
}

#[actix_web::test]
async fn when_three_attempts_failed_whoever_is_left_is_asked_before_a_failure_is_shown() {
    for streamed in [false, true] {
        let failing = || failing(streamed);
        let upstreams = [failing(), failing(), failing(), failing(), sound(streamed)];
        let gateway = before(&upstreams, "", streamed).await;
        let reply = gateway.chat(&body(streamed)).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(reply.text().contains("here"), "{}", reply.text());
        assert_eq!(reply.header("x-route-attempts"), Some("5"));
        let record = record(&gateway, &reply).await;
        let failed = ["server:500"; 4].join(", ");
        assert_eq!(record_line(&record), format!("completed | {failed}, ok:200"));
        let attempts = record["route"]["attempts"].as_array().unwrap().iter();
        let reasons: Vec<_> = attempts.map(|attempt| attempt["reason"].as_str().unwrap()).collect();
        assert_eq!(reasons, ["first", "fallback", "fallback", "last_resort", "last_resort"]);
    }
}

#[actix_web::test]
async fn there_are_as_many_last_resorts_as_configured_and_none_where_a_request_is_tried_once() {
    for (retry, tried) in [("last_resort = 0", 3), ("last_resort = 1", 4), ("max_attempts = 1", 1), ("", 5)] {
        let upstreams = [(); 6].map(|()| failing(false));
        let gateway = before(&upstreams, &format!("[routing.retry]\n{retry}\n"), false).await;
        let error = error_of(&gateway.chat(&body(false)).await, 502);
        assert_eq!(error["metadata"]["previous_errors"].as_array().unwrap().len(), tried, "{retry}: {error}");
        assert_eq!(asked(&upstreams).iter().sum::<usize>(), tried, "{retry}");
    }
}

#[actix_web::test]
async fn without_fallbacks_there_is_no_last_resort_either() {
    let upstreams = [failing(false), failing(false), failing(false), sound(false)];
    let gateway = before(&upstreams, "", false).await;
    let mut body = body(false);
    body["provider"]["allow_fallbacks"] = json!(false);
    assert_eq!(gateway.chat(&body).await.status, 502);
    assert_eq!(asked(&upstreams), [1, 0, 0, 0]);
}

#[actix_web::test]
async fn a_last_resort_that_refuses_the_request_itself_has_the_last_word() {
    let refusing = once_sound(false, Script::answering(http(400, &json!({"error": {"message": "no"}}))));
    let upstreams = [failing(false), failing(false), failing(false), refusing, sound(false)];
    let gateway = before(&upstreams, "", false).await;
    assert_eq!(gateway.chat(&body(false)).await.status, 400);
    assert_eq!(asked(&upstreams), [1, 1, 1, 1, 0]);
}

/// Twenty are saved up. Two requests take ten each, and the next one finds what these brought in: less than one.
#[actix_web::test]
async fn last_resorts_come_out_of_a_budget_of_their_own() {
    let upstreams = [(); 12].map(|()| failing(false));
    let retry = "[routing.retry]\nmax_attempts = 2\nlast_resort = 10\n";
    let gateway = before(&upstreams, retry, false).await;
    for tried in [12, 24, 26] {
        assert_eq!(gateway.chat(&body(false)).await.status, 502);
        assert_eq!(asked(&upstreams).iter().sum::<usize>(), tried);
    }
    let metrics = gateway.get("/metrics").await.text();
    assert!(metrics.contains("pointsman_attempts_withheld_total{budget=\"last_resort\"} 1"), "{metrics}");
}

/// Nothing tells a plain answer that hangs from one at work, so whoever is left races it.
#[actix_web::test]
async fn a_plain_answer_that_hangs_at_the_third_attempt_is_raced_as_a_last_resort() {
    let gate = Gate::new();
    let hanging = once_sound(false, Script::new().request().wait(&gate));
    let upstreams = [failing(false), failing(false), hanging, sound(false)];
    let gateway = before(&upstreams, "", false).await;
    let reply = tokio::time::timeout(PATIENCE, gateway.chat(&body(false))).await.unwrap();
    assert_eq!(reply.expect(200)["choices"][0]["message"]["content"], "here");
    let record = record(&gateway, &reply).await;
    assert_eq!(record_line(&record), "completed | server:500, server:500, lost_race, ok:200");
    assert_eq!(record["route"]["attempts"][3]["reason"], "hedge");
}

/// The choice fails, and its provider has another model at twice the price; the only other provider costs a thousand times
/// as much.
#[actix_web::test]
async fn after_a_failure_another_provider_is_not_taken_at_any_price() {
    let down = http(500, &json!({"error": {"message": "down"}}));
    let first = Script::new().request().send(down).request().send(answer(false)).fin();
    let acme = Upstream::start([first, Script::answering(answer(false))]);
    let bolt = saying("there");
    let cheap = Model::new("acme/one").at("acme", "0.0000001", "0.0000001");
    let second = Model::new("acme/two").at("acme", "0.0000002", "0.0000002");
    let dear = Model::new("bolt/dear").at("bolt", "0.0001", "0.0001");
    let world = World::new().provider("acme", acme.address()).provider("bolt", bolt.address());
    let gateway = world.model(&cheap).model(&second).model(&dear).start().await;
    let words = json!([{"role": "user", "content": "Hello?"}]);
    let request = json!({"model": "service/auto", "objective": "cheapest", "messages": words});
    let reply = gateway.chat(&request).await;
    assert_eq!((reply.status, reply.json()["model"].as_str()), (200, Some("acme/two")), "{}", reply.text());
    assert_eq!(bolt.connections(), 0, "a healthy endpoint of the same provider is at hand");
}
