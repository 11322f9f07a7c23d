//! Why the transport guard exists: what awc alone makes of irregular answers.
//!
//! These tests pin another crate's behaviour on purpose. When one of them fails, awc has learned to do better and the
//! matching part of the guard may go.

use std::time::Duration;

use crate::scripted::{Gate, Script, Upstream};

fn bare_client() -> awc::Client {
    awc::Client::builder().disable_redirects().timeout(Duration::from_secs(5)).finish()
}

#[actix_web::test]
async fn awc_alone_hands_the_previous_calls_answer_to_the_next_call_after_an_interim_head() {
    let upstream = Upstream::start([Script::new()
        .request()
        .send("HTTP/1.1 100 Continue\r\n\r\n")
        .request()
        .send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nalice")]);
    let client = bare_client();

    let alice = client.post(upstream.url("/")).send_body("from alice").await.unwrap();
    assert_eq!(alice.status(), 100, "the interim head is taken for the answer");
    drop(alice);

    let mut bob = client.post(upstream.url("/")).send_body("from bob").await.unwrap();
    assert_eq!(bob.body().await.unwrap(), "alice", "and bob is given what alice asked for");
    assert_eq!(upstream.connections(), 1);
}

#[actix_web::test]
async fn awc_alone_takes_a_cut_body_for_a_whole_one() {
    let upstream =
        Upstream::start([Script::new().request().send("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf").fin()]);

    let mut answer = bare_client().post(upstream.url("/")).send_body("{}").await.unwrap();

    assert_eq!(answer.body().await.unwrap(), "half");
}

#[actix_web::test]
async fn awc_alone_takes_bytes_after_a_body_for_the_next_answer() {
    let (late, sent) = (Gate::new(), Gate::new());
    let upstream = Upstream::start([Script::new()
        .request()
        .send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfirst")
        .wait(&late)
        .send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstale")
        .open(&sent)]);
    let client = bare_client();

    let mut first = client.post(upstream.url("/")).send_body("{}").await.unwrap();
    assert_eq!(first.body().await.unwrap(), "first");
    // The bytes reach the kernel without the runtime having looked at the socket in between.
    late.open();
    sent.pass();

    let mut second = client.post(upstream.url("/")).send_body("{}").await.unwrap();
    assert_eq!(second.body().await.unwrap(), "stale");
}
