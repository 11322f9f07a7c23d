//! Callers that ask for much and read nothing: what the gateway holds for them is bounded, over all of them and for each
//! key, and whoever reads is served as before.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    enemy::{PATH, head},
    harness::{Reply, TestGateway},
    hostile::{CHUNKED, chunk, record_line, text},
    patience::eventually,
    raw_client::RawClient,
    scripted::{Script, Upstream},
    world::{Model, World, and, ask, completion, error_of, http, saying},
};

const OTHER: &str = "sk-other-0123456789abcdef";

/// One large answer: more than the kernel takes off the gateway's hands.
const LARGE: usize = 8 << 20;

/// A gateway with two keys and so many bytes of room, in front of `acme/small`, which says a word, and `acme/large`, at `large`.
async fn gateway(room: usize, small: &Upstream, large: &Upstream, more: &str) -> TestGateway {
    let limits = format!("[limits]\nmax_body = 1048576\nbuffered = {room}\n{more}");
    World::new()
        .with(&limits)
        .with("[[keys]]\nname = \"other\"\nenv = \"OTHER_KEY\"\n")
        .variable("OTHER_KEY", OTHER)
        .provider("acme", small.address())
        .provider("bolt", large.address())
        .model(&Model::new("acme/small").with("context_length = 2000000").at("acme", "0", "0"))
        .model(&Model::new("acme/large").at("bolt", "0", "0"))
        .start()
        .await
}

/// A call with the other key.
async fn other(gateway: &TestGateway, body: &Value) -> Reply {
    let authorization = format!("Bearer {OTHER}");
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    gateway.call(Method::POST, PATH, &headers, Some(body.to_string().into_bytes())).await
}

/// What the gateway says that it holds.
async fn held(gateway: &TestGateway) -> usize {
    let held = gateway.get("/health/ready").await.expect(200)["checks"]["load"]["buffered_bytes"].take();
    usize::try_from(held.as_u64().unwrap()).unwrap()
}

fn content(reply: &Reply) -> usize {
    reply.expect(200)["choices"][0]["message"]["content"].as_str().unwrap().len()
}

#[actix_web::test]
async fn thirty_readers_asleep_on_large_answers_take_no_more_than_their_keys_share_and_others_are_served() {
    let (small, large) =
        (saying("x"), Upstream::start([Script::answering(http(200, &completion(&"x".repeat(LARGE))))]));
    let room = 9 * LARGE;
    let gateway = gateway(room, &small, &large, "").await;
    let (mut asleep, mut refused) = (Vec::new(), Vec::new());
    for _ in 0..30 {
        let mut client = RawClient::connect_with_window(gateway.address, 4096).await;
        client.ask(&ask("acme/large")).await;
        let said = client.until("\r\n\r\n").await;
        let list = if said.starts_with("HTTP/1.1 200") { &mut asleep } else { &mut refused };
        list.push(client);
        assert!(held(&gateway).await <= room / 2, "{} bytes", held(&gateway).await);
    }
    assert_eq!((asleep.len(), refused.len()), (3, 27), "each takes its length twice until it is made");
    assert!((3 * LARGE..4 * LARGE).contains(&held(&gateway).await), "{} bytes", held(&gateway).await);

    // Whoever is refused hears that it is the gateway's room, and the provider is not blamed.
    let reply = gateway.chat(&ask("acme/large")).await;
    let error = error_of(&reply, 503);
    assert_eq!(error["metadata"]["reason"], "overloaded");
    assert!(error["message"].as_str().unwrap().contains("This API key's requests and unread answers"), "{error}");
    assert!(reply.header("retry-after").is_some());
    let id = reply.header("x-generation-id").unwrap();
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200)["data"].take();
    assert_eq!(record_line(&record), "failed | cancelled");
    let health = gateway.get("/api/v1/health/providers/bolt").await.expect(200);
    assert_eq!((&health["data"][0]["in_flight"], &health["data"][0]["circuit"]), (&json!(0), &json!("closed")));

    // Others have their share, and even the sleepers' key has room for what is small.
    assert_eq!(content(&other(&gateway, &ask("acme/large")).await), LARGE);
    assert_eq!(content(&other(&gateway, &ask("acme/small")).await), 1);
    assert_eq!(content(&gateway.chat(&ask("acme/small")).await), 1);

    asleep.into_iter().chain(refused).for_each(RawClient::reset);
    eventually("what nobody will read is let go", async || held(&gateway).await, |held| *held == 0).await;
    assert_eq!(content(&gateway.chat(&ask("acme/large")).await), LARGE);
    eventually("what was read is let go", async || held(&gateway).await, |held| *held == 0).await;
}

#[actix_web::test]
async fn streams_that_nobody_reads_take_no_more_than_their_keys_share_and_others_flow() {
    let piece = chunk(&text(&"x".repeat(4096)));
    let endless = Script::new().request().send(CHUNKED).repeat(Script::new().send(piece.repeat(16)));
    let (small, large) = (saying("x"), Upstream::start([endless]));
    let room = 16 << 20;
    let gateway = gateway(room, &small, &large, "[stream]\nbuffer = 4194304\n").await;
    let streamed = and(ask("acme/large"), json!({"stream": true}));
    let mut asleep = Vec::new();
    for _ in 0..8 {
        let mut client = RawClient::connect_with_window(gateway.address, 4096).await;
        client.ask(&streamed).await;
        client.until("\"delta\":").await;
        asleep.push(client);
    }
    // Each might hold four megabytes on its own. Streams take half of their key's share at most, and beyond it one write
    // each; no write is this large.
    let write = 64 << 10;
    let most = room / 4 + 8 * write;
    let full = |held: &usize| (room / 4 - write..=most).contains(held);
    eventually("they hold their share", async || held(&gateway).await, full).await;
    let mut awake = RawClient::connect(gateway.address).await;
    awake.ask_with(OTHER, &streamed).await;
    for _ in 0..1_000 {
        awake.until("\"delta\":").await;
    }
    // A stream of the sleepers' own key flows too, if it is read.
    let mut sibling = RawClient::connect(gateway.address).await;
    sibling.ask(&streamed).await;
    for _ in 0..200 {
        sibling.until("\"delta\":").await;
    }
    // Both have stopped reading by now, and streams of all keys together still leave half of the room.
    assert!(held(&gateway).await <= room / 2, "{} bytes", held(&gateway).await);
    assert_eq!(content(&other(&gateway, &ask("acme/small")).await), 1);
    asleep.into_iter().chain([awake, sibling]).for_each(RawClient::reset);
    eventually("what nobody will read is let go", async || held(&gateway).await, |held| *held == 0).await;
}

#[actix_web::test]
async fn one_key_with_bodies_that_never_end_leaves_room_to_others() {
    let small = saying("x");
    let gateway = gateway(16 << 20, &small, &small, "").await;
    let endless = async || {
        let mut hog = RawClient::connect(gateway.address).await;
        hog.say(format!("{}{}", head("content-length: 1048576\r\n"), " ".repeat(1_000_000))).await;
        hog
    };
    // Two of them fit beside as much that is free; a third does not.
    let mut hogs = Vec::new();
    for bytes in [3_000_000, 6_000_000] {
        hogs.push(endless().await);
        eventually("the body is held", async || held(&gateway).await, |held| *held == bytes).await;
    }
    for _ in 0..6 {
        let mut refused = endless().await;
        refused.until("HTTP/1.1 503").await;
    }
    let large = json!({"model": "acme/small", "messages": [{"role": "user", "content": "x".repeat(1_000_000)}]});
    assert_eq!(content(&other(&gateway, &large).await), 1);
    assert_eq!(error_of(&gateway.chat(&large).await, 503)["metadata"]["reason"], "overloaded");
    hogs.into_iter().for_each(RawClient::reset);
    eventually("what will not come is let go", async || held(&gateway).await, |held| *held == 0).await;
    assert_eq!(content(&gateway.chat(&large).await), 1);
}
