//! Clients over TLS are under the same clocks and bounds as all others, and under one more: they must say hello.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::client::TlsStream;

use crate::{
    enemy::PATH,
    hostile::{CHUNKED, chunk, text},
    patience::{self, PATIENCE, takes_less_than},
    raw_client::RawClient,
    scripted::{Script, Upstream},
    server_tls::{Encrypted, send_chat, until, world},
    world::saying,
};

/// How many connections a gateway counts.
fn connections(encrypted: &Encrypted) -> usize {
    encrypted.gateway.inner().setup().admission.load().read().connections
}

/// Everything up to the end of the connection, however it ends.
async fn rest(client: &mut TlsStream<TcpStream>) -> String {
    let mut said = Vec::new();
    let _ = timeout(PATIENCE, client.read_to_end(&mut said)).await.expect("the connection ends");
    String::from_utf8_lossy(&said).into_owned()
}

#[derive(Clone, Copy, Debug)]
enum Leaving {
    /// With the farewell of TLS.
    InOrder,
    /// The connection just ends.
    Fin,
    Reset,
}

async fn leave(mut client: TlsStream<TcpStream>, how: Leaving) {
    match how {
        // The gateway may be the first to close: then the farewell fails, and the client is gone all the same.
        Leaving::InOrder => drop(client.shutdown().await),
        Leaving::Fin => {}
        Leaving::Reset => {
            socket2::SockRef::from(client.get_ref().0).set_linger(Some(Duration::ZERO)).unwrap();
        }
    }
}

/// The figure of `enemy_leaving`, over TLS.
#[actix_web::test]
async fn whoever_leaves_takes_the_upstream_along_within_a_fifth_of_a_second() {
    const FIGURE: Duration = Duration::from_millis(200);
    let begun = format!("{CHUNKED}{}", chunk(&text("Hello")));
    for (script, streamed, content) in [
        (Script::new().request(), true, None),
        (Script::new().request(), false, None),
        (Script::new().request().send(begun), true, Some("Hello")),
    ] {
        for how in [Leaving::InOrder, Leaving::Fin, Leaving::Reset] {
            takes_less_than(FIGURE, format!("{how:?}, {content:?}"), async || {
                let upstream = Upstream::start([script.clone()]);
                let encrypted = Encrypted::new(world(&upstream)).await;
                let mut client = encrypted.client().await;
                send_chat(&mut client, streamed).await;
                match content {
                    Some(content) => drop(until(&mut client, content).await),
                    None => assert!(upstream.eventually(PATIENCE, |log| log.requests.len() == 1).await),
                }
                let left = Instant::now();
                leave(client, how).await;
                assert!(upstream.eventually(PATIENCE, |log| log.closed.len() == 1).await, "{how:?}, {content:?}");
                upstream.log().closed[0].saturating_duration_since(left)
            })
            .await;
        }
    }
}

#[actix_web::test]
async fn a_head_that_does_not_end_ends_its_connection() {
    let upstream = saying("x");
    let encrypted = Encrypted::new(world(&upstream).with("[timeouts]\nclient_header = \"500ms\"\n")).await;
    for said in ["", "GET /health HTTP/1.1\r\n"] {
        let mut client = encrypted.client().await;
        let begun = Instant::now();
        client.write_all(said.as_bytes()).await.unwrap();
        let answer = rest(&mut client).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    }
}

#[actix_web::test]
async fn a_kept_connection_is_closed_when_its_next_head_does_not_come_or_does_not_end() {
    let upstream = saying("x");
    let clocks = world(&upstream).with("[timeouts]\nclient_header = \"500ms\"\n");
    let encrypted = Encrypted::new(clocks.variable("POINTSMAN__SERVER__KEEP_ALIVE", "500ms")).await;
    for next_head in ["", "GET /health HTTP/1.1\r\nhost: localhost\r\n"] {
        let mut client = encrypted.client().await;
        client.write_all(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        until(&mut client, "{\"status\":\"ok\"}").await;
        let begun = Instant::now();
        client.write_all(next_head.as_bytes()).await.unwrap();
        rest(&mut client).await;
        assert!(begun.elapsed() < PATIENCE, "{next_head:?} kept it for {:?}", begun.elapsed());
    }
    patience::until("what was closed no longer counts", || connections(&encrypted) == 0).await;
}

/// Whoever is refused while its body is still on the way must get to read why.
#[actix_web::test]
async fn a_refusal_arrives_although_a_body_was_sent() {
    let upstream = saying("x");
    let encrypted = Encrypted::new(world(&upstream)).await;
    let refused = async || {
        let client = encrypted.client().await;
        let (mut reader, mut writer) = tokio::io::split(client);
        let head = format!(
            "POST {PATH} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer wrong\r\ncontent-type: application/json\r\n\
             content-length: 300000\r\n\r\n"
        );
        let writing = async move {
            let _ = writer.write_all(format!("{head}{}", " ".repeat(300_000)).as_bytes()).await;
            writer
        };
        let mut said = Vec::new();
        let reading = timeout(PATIENCE, reader.read_to_end(&mut said));
        let _ = futures_util::future::join(writing, reading).await;
        let said = String::from_utf8_lossy(&said);
        assert!(said.starts_with("HTTP/1.1 401") && said.ends_with("}}}"), "{said}");
    };
    join_all((0..5).map(|_| refused())).await;
    assert_eq!(upstream.connections(), 0);
}

/// More connections than a worker shakes hands with at once, on which nothing is ever said.
#[actix_web::test]
async fn clients_that_do_not_say_hello_keep_nobody_out_and_are_closed() {
    let upstream = saying("x");
    let encrypted = Encrypted::new(world(&upstream)).await;
    let address = encrypted.gateway.address;
    // A worker waits three seconds for a hello.
    takes_less_than(Duration::from_millis(2_500), "an answer beside silent clients", async || {
        let silent = join_all((0..400).map(|_| RawClient::connect(address))).await;
        let begun = Instant::now();
        let mut client = encrypted.client().await;
        send_chat(&mut client, false).await;
        until(&mut client, "\"usage\"").await;
        let kept_out = begun.elapsed();
        for mut silent in silent {
            assert_eq!(silent.rest().await, "");
        }
        kept_out
    })
    .await;
}

const ALIVE: &str = "{\"status\":\"ok\"}";

/// How long it takes to believe that nobody answers.
const A_WHILE: Duration = Duration::from_millis(300);

/// A client that has asked, in clear, whether the gateway lives.
async fn asking(address: SocketAddr) -> RawClient {
    let mut client = RawClient::connect(address).await;
    client.say("GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    client
}

/// No more connections than configured are taken in; the next one waits in the system's queue until one leaves.
#[actix_web::test]
async fn connections_beyond_the_limit_wait_until_one_leaves() {
    let upstream = saying("x");
    let few = || world(&upstream).variable("POINTSMAN__SERVER__MAX_CONNECTIONS", "3");

    let gateway = few().start().await;
    let mut inside = Vec::new();
    for _ in 0..3 {
        let mut client = asking(gateway.address).await;
        client.until(ALIVE).await;
        inside.push(client);
    }
    let mut waiting = asking(gateway.address).await;
    assert!(!waiting.hears_within(A_WHILE).await, "a fourth connection was taken in");
    inside.pop();
    waiting.until(ALIVE).await;

    let encrypted = Encrypted::new(few()).await;
    let mut inside = join_all((0..3).map(|_| encrypted.client())).await;
    let mut waiting = Box::pin(encrypted.client());
    assert!(timeout(A_WHILE, &mut waiting).await.is_err(), "a fourth connection was taken in");
    inside.pop();
    let mut client = timeout(PATIENCE, waiting).await.unwrap();
    client.write_all(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    until(&mut client, ALIVE).await;
}
