//! Requests whose length can be read in two ways. Whoever stands before the gateway may have read the other one: so
//! what is ambiguous is refused and its connection closed, and no byte of it is ever taken for a further request.

use crate::{
    enemy::{Attack, PATH, check, good_body, head, serves_as_before, statuses},
    world::{completion, one_model, raw},
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
