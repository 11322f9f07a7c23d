//! Requests whose length can be read in two ways. Whoever stands before the gateway may have read the other one: so
//! what is ambiguous is refused and its connection closed, and no byte of it is ever taken for a further request.

use serde_json::json;

use crate::{
    enemy::{Attack, PATH, check, check_old_stream, good_body, head, old_chat, serves_as_before, statuses},
    harness::KEY,
    patience::PATIENCE,
    raw_client::RawClient,
    scripted::{Gate, Script, Upstream},
    world::{Model, World, ask, completion, http, one_model, raw, stream_of},
};

/// A whole further request, as somebody would smuggle it in.
fn smuggled() -> String {
    format!("{}{}", head(&format!("content-length: {}\r\n", good_body().len())), good_body())
}

/// A request framed so, with the last chunk and a smuggled request where its body should be.
fn framed<'a>(name: &'a str, framing: &str, expected: &'a [u16]) -> Attack<'a> {
    (name, format!("{}0\r\n\r\n{}", head(framing), smuggled()), expected)
}

#[actix_web::test]
async fn two_framings_at_once() {
    check(&[
        framed("a length, then chunks", "content-length: 4\r\ntransfer-encoding: chunked\r\n", &[400]),
        framed("chunks, then a length", "transfer-encoding: chunked\r\ncontent-length: 4\r\n", &[400]),
        framed("a length of zero, and chunks", "content-length: 0\r\ntransfer-encoding: chunked\r\n", &[400]),
        framed("odd case", "Content-LENGTH: 4\r\nTransfer-ENCODING: Chunked\r\n", &[400]),
    ])
    .await;
}

#[actix_web::test]
async fn lengths_that_are_none() {
    check(&[
        framed("two different ones", "content-length: 4\r\ncontent-length: 5\r\n", &[400]),
        framed("the same one twice", "content-length: 5\r\ncontent-length: 5\r\n", &[400]),
        framed("a list", "content-length: 5, 5\r\n", &[400]),
        framed("with a plus", "content-length: +5\r\n", &[400]),
        framed("negative", "content-length: -1\r\n", &[400]),
        framed("hexadecimal", "content-length: 0x5\r\n", &[400]),
        framed("with a fraction", "content-length: 5.0\r\n", &[400]),
        framed("empty", "content-length: \r\n", &[400]),
        framed("over 64 bits", "content-length: 99999999999999999999999\r\n", &[400]),
        framed("with a parameter", "content-length: 5;x\r\n", &[400]),
        framed("with a form feed", "content-length: \x0c5\r\n", &[400]),
        framed("in other digits", "content-length: ٥\r\n", &[400]),
    ])
    .await;
}

#[actix_web::test]
async fn transfer_codings_that_are_not_chunked() {
    check(&[
        framed("twice", "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", &[400]),
        framed("twice in a list", "transfer-encoding: chunked, chunked\r\n", &[400]),
        framed("with another behind", "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n", &[400]),
        framed("with another before", "transfer-encoding: gzip, chunked\r\n", &[400]),
        framed("identity and a length", "transfer-encoding: identity\r\ncontent-length: 5\r\n", &[400]),
        framed("misspelt", "transfer-encoding: xchunked\r\n", &[400]),
        framed("quoted", "transfer-encoding: \"chunked\"\r\n", &[400]),
        framed("with a parameter", "transfer-encoding: chunked;q=1\r\n", &[400]),
        framed("behind a vertical tab", "transfer-encoding: \x0bchunked\r\n", &[400]),
        framed("empty", "transfer-encoding: \r\ncontent-length: 5\r\n", &[400]),
    ])
    .await;
}

#[actix_web::test]
async fn header_lines_that_can_be_read_in_two_ways() {
    check(&[
        framed("a space before the colon", "transfer-encoding : chunked\r\n", &[400]),
        framed("a tab before the colon", "transfer-encoding\t: chunked\r\n", &[400]),
        framed("a folded line", "x-fold: a\r\n transfer-encoding: chunked\r\n", &[400]),
        framed("a folded value", "transfer-encoding:\r\n chunked\r\n", &[400]),
        framed("a bare CR in a value", "x-cr: a\rtransfer-encoding: chunked\r\n", &[400]),
        framed("a null in a value", "x-null: a\0\r\ncontent-length: 5\r\n", &[400]),
        framed("a null in a name", "content-len\0gth: 5\r\n", &[400]),
        framed("a line without a colon", "transfer-encoding chunked\r\n", &[400]),
        framed("a name that is empty", ": chunked\r\n", &[400]),
        framed("a name in quotes", "\"content-length\": 5\r\n", &[400]),
        framed("a name beyond ASCII", "content-lengtħ: 5\r\n", &[400]),
    ])
    .await;
}

/// A chunked body as it should be, with one thing wrong.
fn chunked<'a>(name: &'a str, body: &str, expected: &'a [u16]) -> Attack<'a> {
    (name, format!("{}{body}", head("transfer-encoding: chunked\r\n")), expected)
}

#[actix_web::test]
async fn chunks_that_are_none() {
    let (body, size) = (good_body(), format!("{:x}", good_body().len()));
    let behind = smuggled();
    check(&[
        chunked("no hexadecimal number", "zz\r\n{}\r\n0\r\n\r\n", &[400]),
        chunked("longer than announced", "2\r\n{}XX0\r\n\r\n", &[400]),
        chunked("over 64 bits", "ffffffffffffffffff\r\n{}", &[400]),
        chunked("just over 64 bits", "10000000000000002\r\n{}\r\n0\r\n\r\n", &[400]),
        chunked("negative", "-2\r\n{}\r\n0\r\n\r\n", &[400]),
        chunked("with a plus", "+2\r\n{}\r\n0\r\n\r\n", &[400]),
        chunked("with 0x", "0x2\r\n{}\r\n0\r\n\r\n", &[400]),
        chunked("no size at all", "\r\n{}\r\n0\r\n\r\n", &[400]),
        chunked("a bare LF behind the size", &format!("{size}\n{body}\r\n0\r\n\r\n{behind}"), &[400]),
        chunked("a bare CR behind the size", &format!("{size}\r{body}\r\n0\r\n\r\n{behind}"), &[400]),
        chunked("a bare LF behind the chunk", &format!("{size}\r\n{body}\n0\r\n\r\n{behind}"), &[400]),
        chunked("nothing behind the chunk", &format!("{size}\r\n{body}0\r\n\r\n{behind}"), &[400]),
        chunked("a bare LF inside an extension", &format!("{size};a\nb\r\n{body}\r\n0\r\n\r\n"), &[400]),
        chunked("a bare CR inside an extension", &format!("{size};a\rb\r\n{body}\r\n0\r\n\r\n"), &[400]),
        chunked("a null inside an extension", &format!("{size};a\0b\r\n{body}\r\n0\r\n\r\n"), &[400]),
        chunked("a trailer, which is lawful", &format!("{size}\r\n{body}\r\n0\r\nx-trailer: 1\r\n\r\n"), &[200]),
        chunked("two sizes", &format!("{size} {size}\r\n{body}\r\n0\r\n\r\n{behind}"), &[400]),
    ])
    .await;
}

#[actix_web::test]
async fn chunks_as_odd_as_they_may_be() {
    let body = good_body();
    let size = format!("{:X}", body.len());
    check(&[
        chunked("an extension", &format!("{size};name=\"va;lue\"\r\n{body}\r\n0;last\r\n\r\n"), &[200]),
        chunked("leading zeros", &format!("000000{size}\r\n{body}\r\n0\r\n\r\n"), &[200]),
        chunked(
            "a request behind the last chunk",
            &format!("{size}\r\n{body}\r\n0\r\n\r\n{}", smuggled()),
            &[200, 200],
        ),
    ])
    .await;
}

/// Trailers are not headers: they neither frame nor authorise anything, and are not taken for a request.
#[actix_web::test]
async fn trailers_change_nothing() {
    let (body, size) = (good_body(), format!("{:x}", good_body().len()));
    let trailers = format!("content-length: 5\r\nauthorization: Bearer none\r\nx-trailer: GET {PATH} HTTP/1.1\r\n");
    check(&[chunked("trailers", &format!("{size}\r\n{body}\r\n0\r\n{trailers}\r\n"), &[200])]).await;
}

/// Requests one behind another on a connection are each answered for themselves, in their order.
#[actix_web::test]
async fn pipelined_requests() {
    let nameless = format!("POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{{}}");
    check(&[
        ("three good ones", smuggled().repeat(3), &[200, 200, 200]),
        ("one without a key between", format!("{}{nameless}{}", smuggled(), smuggled()), &[200, 401, 200]),
    ])
    .await;
}

/// Noise behind a request ends the connection, and with it the request if it still runs: whoever sends it does not
/// speak HTTP, and a half-closed connection is not kept.
#[actix_web::test]
async fn noise_behind_a_good_request() {
    let (gateway, upstream) = one_model(&completion("x")).await;
    for noise in ["xyz\r\n\r\n", "GARBAGE\r\n\r\n", "GET\r\n\r\n", "\x16\x03\x01\x02\r\n\r\n"] {
        let answer = raw(gateway.address, format!("{}{noise}", smuggled())).await;
        let statuses = statuses(&answer);
        assert!(matches!(statuses[..], [] | [200] | [200, 400]), "{noise:?}: {answer}");
    }
    assert!(upstream.requests().len() <= 4);
    serves_as_before(&gateway).await;
}

/// An old protocol has no chunks, and whoever sends them anyway is not understood in two ways.
#[actix_web::test]
async fn old_and_other_protocols() {
    let length = format!("content-length: {}\r\n", good_body().len());
    let old = |more: &str| head(more).replace("HTTP/1.1", "HTTP/1.0");
    check(&[
        ("HTTP/1.0 with a length", format!("{}{}", old(&length), good_body()), &[200]),
        ("HTTP/1.0 in chunks", format!("{}0\r\n\r\n", old("transfer-encoding: chunked\r\n")), &[400]),
        ("HTTP/2 without asking", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), &[400]),
        ("HTTP/9.9", "GET / HTTP/9.9\r\nhost: localhost\r\n\r\n".to_owned(), &[400]),
        ("TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n".to_owned(), &[400]),
    ])
    .await;
}

/// A client that knows no chunks sees the events and nothing else, and the end of the connection is their end, also
/// where it asked to keep it.
#[actix_web::test]
async fn a_stream_to_an_http_1_0_client_ends_with_its_connection_and_has_no_chunks() {
    let upstream = Upstream::start([Script::answering(stream_of(&["This ", "way."]))]);
    let world = World::new().provider("acme", upstream.address());
    let gateway = world.model(&Model::new("acme/small").at("acme", "0", "0")).start().await;
    let mut body = ask("acme/small");
    body["stream"] = json!(true);
    for more in ["", "connection: keep-alive\r\n", "connection: close\r\n"] {
        let mut client = RawClient::connect(gateway.address).await;
        client.say(old_chat(&body, more)).await;
        check_old_stream(&client.rest().await);
    }
}

#[actix_web::test]
async fn a_plain_answer_leaves_the_connection_to_an_http_1_0_client_that_asked_to_keep_it() {
    let (gateway, _upstream) = one_model(&completion("x")).await;
    let mut client = RawClient::connect(gateway.address).await;
    for _ in 0..2 {
        client.say(old_chat(&ask("acme/small"), "connection: keep-alive\r\n")).await;
        let head = client.until("\r\n\r\n").await;
        assert!(head.contains("connection: keep-alive") && head.contains("content-length: "), "{head}");
        client.until("\"id\":").await;
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap();
        assert!(length.parse::<usize>().unwrap() > 0, "{head}");
        client.until("}").await;
    }
    serves_as_before(&gateway).await;
}

/// A read of a page; `more` are further header lines.
fn page(method: &str, path: &str, more: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\n{more}\r\n")
}

/// Behind a request that ends its connection nothing is asked any more, be it a further request or noise.
#[actix_web::test]
async fn nothing_behind_a_request_with_connection_close_is_looked_at() {
    let body = good_body();
    let closing =
        |more: &str| format!("{}{body}", head(&format!("content-length: {}\r\nconnection: {more}\r\n", body.len())));
    let chunks = format!(
        "{}{:x}\r\n{body}\r\n0\r\n\r\n",
        head("transfer-encoding: chunked\r\nconnection: close\r\n"),
        body.len()
    );
    let unread = format!("{}{{}}", head("content-length: 2\r\nconnection: close\r\n"));
    check(&[
        ("a further request", format!("{}{}", closing("close"), smuggled()), &[200]),
        ("ten of them", format!("{}{}", closing("Close, x"), smuggled().repeat(10)), &[200]),
        ("noise", format!("{}\0\0\0", closing("keep-alive, close")), &[200]),
        ("half a request", format!("{}{}", closing("close"), head("content-length: 2\r\n")), &[200]),
        ("behind chunks", format!("{chunks}{}", smuggled()), &[200]),
        ("behind a refusal", format!("{unread}{}", smuggled()), &[400]),
        ("behind the second", format!("{}{}{}", smuggled(), closing("close"), smuggled()), &[200, 200]),
    ])
    .await;
    let (gateway, upstream) = one_model(&completion("x")).await;
    let behind_a_page = format!("{}{}", page("GET", "/health", "connection: close\r\n"), smuggled());
    assert_eq!(statuses(&raw(gateway.address, behind_a_page).await), [200]);
    assert_eq!(upstream.connections(), 0);
}

/// An answer is framed as its own request says, whatever is asked behind it meanwhile.
#[actix_web::test]
async fn the_next_request_does_not_change_how_an_answer_is_framed() {
    let gate = Gate::new();
    let upstream = Upstream::start([Script::new().request().wait(&gate).send(http(200, &completion("This way.")))]);
    let world = World::new().provider("acme", upstream.address());
    let gateway = world.model(&Model::new("acme/small").at("acme", "0", "0")).start().await;
    let mut client = RawClient::connect(gateway.address).await;
    let last = page("GET", "/api/v1/key", "connection: close\r\n");
    client.say(format!("{}{}{last}", smuggled(), page("HEAD", "/health", ""))).await;
    assert!(upstream.eventually(PATIENCE, |log| log.requests.len() == 1).await);
    gate.open();
    let said = client.rest().await;
    let answers: Vec<&str> = said.split("HTTP/1.1 200 OK\r\n").skip(1).collect();
    let [chat, health, key] = answers[..] else { panic!("{said}") };
    assert!(chat.contains("This way.") && !chat.contains("connection: close"), "{said}");
    assert!(health.ends_with("\r\n\r\n") && !health.contains("connection: close"), "{said}");
    assert!(key.contains("connection: close") && key.ends_with('}'), "{said}");
}

/// What came while a call ran is asked when it is over, however much it is.
#[actix_web::test]
async fn a_large_request_behind_a_running_call_waits_and_is_answered() {
    let (gateway, upstream) = one_model(&completion("x")).await;
    let mut large = ask("acme/small");
    large["messages"][0]["content"] = json!("a".repeat(300_000));
    let large = large.to_string();
    let large = format!("{}{large}", head(&format!("content-length: {}\r\n", large.len())));
    let mut client = RawClient::connect(gateway.address).await;
    let (mut writer, mut answers) = (large.repeat(3), Vec::new());
    writer.push_str(&page("GET", "/health", "connection: close\r\n"));
    client.say(writer).await;
    let said = client.rest().await;
    answers.extend(statuses(&said));
    assert_eq!((answers.len(), answers.last()), (4, Some(&200)), "{said}");
    assert_eq!(upstream.requests().len(), answers.iter().filter(|status| **status == 200).count() - 1);
}
