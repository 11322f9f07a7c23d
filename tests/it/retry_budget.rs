//! When every circuit is open, a request may still try past them, but all requests together only so often: an outage
//! of everything must not multiply the traffic. And how long an attempt is waited for while another could take over.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    harness::{Reply, TestGateway},
    hostile::{body, events, gateway, record_line, stream_of},
    patience::{PATIENCE, eventually},
    scripted::{Gate, Script, Upstream, refused_address},
    world::{error_of, http},
};

/// One failure opens a circuit for longer than any test runs.
const SHUT_FOR_GOOD: &str = "[routing]\nexploration = 0\n[routing.breaker]\nconsecutive = 1\nbase = \"3600s\"\n";

fn failing() -> Upstream {
    Upstream::start([Script::answering(http(500, &json!({"error": {"message": "down"}})))])
}

async fn line(gateway: &TestGateway, reply: &Reply) -> String {
    let id = reply.header("x-generation-id").unwrap();
    record_line(&gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200)["data"])
}

/// Waits until the statistics know the first endpoint: events reach them in batches.
async fn is_measured(gateway: &TestGateway) {
    let preview = async || gateway.post("/api/v1/route/preview", &body(true)).await.expect(200);
    let is_measured = |preview: &Value| preview["candidates"][0]["predicted"]["measured"] == true;
    eventually("it is measured", preview, is_measured).await;
}

#[actix_web::test]
async fn an_outage_of_everything_does_not_multiply_the_traffic() {
    let upstreams = [failing(), failing(), failing()];
    let gateway = gateway(&upstreams.each_ref().map(|upstream| upstream.url("")), SHUT_FOR_GOOD).await;
    let asked = || upstreams.iter().map(|upstream| upstream.log().requests.len()).sum::<usize>();

    assert_eq!(gateway.chat(&body(false)).await.status, 502);
    assert_eq!(asked(), 3, "as long as a circuit is closed, a failover needs no token");

    let mut refused = 0;
    for _ in 0..60 {
        let reply = gateway.chat(&body(false)).await;
        if reply.status == 503 {
            refused += 1;
            let error = error_of(&reply, 503);
            assert_eq!(error["metadata"]["reason"], "all_circuits_open", "{error}");
            assert_eq!(error["availability"]["excluded_by"], json!(["circuit_open"]), "{error}");
            assert!(reply.header("retry-after").unwrap().parse::<u32>().unwrap() > 60, "the first gate to open");
            assert_eq!(line(&gateway, &reply).await, "failed | ");
        }
    }
    let tried = asked() - 3;
    // Twenty tokens were saved up; 61 requests bring in a fifth of one each. What comes in while the bucket is full is
    // lost.
    assert!((20..=32).contains(&tried), "{tried} attempts past open circuits");
    assert!(refused >= 60 - tried, "{refused} refused");
    let metrics = gateway.get("/metrics").await.text();
    assert!(metrics.contains("pointsman_attempts_withheld_total{budget=\"retry\"}"), "{metrics}");
}

#[actix_web::test]
async fn where_nobody_can_be_reached_the_wait_is_that_of_the_first_circuit() {
    let gone = || format!("http://{}", refused_address());
    let gateway = gateway(&[gone(), gone()], SHUT_FOR_GOOD).await;
    assert_eq!(gateway.chat(&body(false)).await.status, 502);
    let reply = gateway.chat(&body(false)).await;
    let error = error_of(&reply, 503);
    assert_eq!(error["metadata"]["reason"], "all_circuits_open", "{error}");
    assert!(reply.header("retry-after").unwrap().parse::<u32>().unwrap() >= 60, "they were tried, and are not there");
}

#[actix_web::test]
async fn attempts_past_open_circuits_say_why_they_were_made() {
    let upstreams = [failing(), failing()];
    let gateway = gateway(&upstreams.each_ref().map(|upstream| upstream.url("")), SHUT_FOR_GOOD).await;
    gateway.chat(&body(false)).await;
    let reply = gateway.chat(&body(false)).await;
    let id = reply.header("x-generation-id").unwrap();
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
    let attempts = record["data"]["route"]["attempts"].as_array().unwrap().clone();
    assert!(attempts.len() == 2 && attempts.iter().all(|attempt| attempt["reason"] == "panic"), "{attempts:?}");
}

/// The one whose circuit is open takes no part in the choice. It has recovered meanwhile, and the only sound one fails.
#[actix_web::test]
async fn before_a_failure_is_shown_an_endpoint_behind_an_open_circuit_is_asked() {
    let answer = |text| http(200, &crate::world::completion(text));
    let down = http(500, &json!({"error": {"message": "down"}}));
    let one_then = |once: String, then: String| Script::new().request().send(once).request().send(then);
    let first = Upstream::start([one_then(down.clone(), answer("first")), Script::answering(answer("first"))]);
    let second = Upstream::start([one_then(answer("second"), down)]);
    let gateway = gateway(&[first.url(""), second.url("")], SHUT_FOR_GOOD).await;
    let reply = gateway.chat(&body(false)).await;
    assert_eq!(line(&gateway, &reply).await, "completed | server:500, ok:200");
    let preview = gateway.post("/api/v1/route/preview", &body(false)).await.expect(200);
    let excluded = preview["excluded"].as_array().unwrap();
    assert_eq!((excluded.len(), &excluded[0]["reason"]), (1, &json!("circuit_open")), "{preview}");
    assert_eq!(excluded[0]["standby"], 1, "a preview says who is asked if all candidates fail: {preview}");

    let reply = gateway.chat(&body(false)).await;
    assert_eq!(line(&gateway, &reply).await, "completed | server:500, ok:200");
    let id = reply.header("x-generation-id").unwrap();
    let explained = crate::contract_route::explain(&gateway, id).await;
    let reasons: Vec<_> = explained["attempts"].as_array().unwrap().iter().map(|attempt| &attempt["reason"]).collect();
    assert_eq!(reasons, ["first", "panic"], "{explained}");
    let standby = &explained["excluded"][0];
    assert_eq!((&standby["standby"], &standby["actual"]["attempt"]), (&json!(1), &json!(2)), "{explained}");
    assert_eq!(standby["actual"]["outcome"], "completed", "{explained}");
    assert!(standby["predicted"]["cost"].is_number(), "{explained}");
    assert!(preview["excluded"][0].get("actual").is_none(), "nothing came of it yet: {preview}");
}

#[actix_web::test]
async fn an_empty_budget_stands_in_nobodys_way_as_long_as_a_circuit_is_closed() {
    let (failing, healthy) =
        (failing(), Upstream::start([Script::answering(http(200, &crate::world::completion("x")))]));
    let config = format!("{SHUT_FOR_GOOD}[routing.retry]\nbudget_ratio = 0\n");
    let gateway = gateway(&[failing.url(""), healthy.url("")], &config).await;
    let reply = gateway.chat(&body(false)).await;
    assert_eq!(line(&gateway, &reply).await, "completed | server:500, ok:200");
    for _ in 0..30 {
        gateway.chat(&body(false)).await.expect(200);
    }
}

/// The learned clock: an endpoint that usually takes milliseconds is not waited for a quarter of a minute.
#[actix_web::test]
async fn a_stream_that_hangs_is_left_when_it_is_many_times_later_than_usual() {
    let stream = stream_of(&events("first"));
    let mut usual = Script::new();
    for _ in 0..5 {
        usual = usual.request().send(stream.clone());
    }
    // What comes then is read and never answered.
    let first = Upstream::start([usual.request(), Script::new().request()]);
    let spare = Upstream::start([Script::answering(stream_of(&events("spare")))]);
    let gateway = gateway(&[first.url(""), spare.url("")], "[routing]\nexploration = 0\n").await;
    for _ in 0..5 {
        assert_eq!(gateway.chat(&body(true)).await.content(), "first");
    }
    is_measured(&gateway).await;
    let begun = Instant::now();
    let reply = gateway.chat(&body(true)).await;
    assert_eq!(reply.content(), "spare");
    assert_eq!(line(&gateway, &reply).await, "completed | timeout, ok:200");
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(1900) && took < Duration::from_secs(12), "{took:?}");
}

/// With nobody to take over, late is better than never: the configured clock alone counts.
#[actix_web::test]
async fn a_stream_that_nobody_could_take_over_is_given_the_whole_clock() {
    let gate = Gate::new();
    let stream = stream_of(&events("x"));
    let script = Script::new().request().send(stream.clone()).request().wait(&gate).send(stream);
    let only = Upstream::start([script]);
    let gateway = gateway(&[only.url("")], "").await;
    gateway.chat(&body(true)).await;
    is_measured(&gateway).await;
    let body = body(true);
    let late = async {
        assert!(only.eventually(PATIENCE, |log| log.requests.len() == 2).await);
        actix_web::rt::time::sleep(Duration::from_millis(2300)).await;
        gate.open();
    };
    let (reply, ()) = futures_util::future::join(gateway.chat(&body), late).await;
    assert_eq!(reply.content(), "x", "{}", reply.text());
}
