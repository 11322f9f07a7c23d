//! One case per thing an upstream may do to an answer: each ends in the one right outcome, plain and streamed.

use std::{io::Write as _, time::Duration};

use pointsman_transport::{Connection, TransportLimits};

use crate::{
    scripted::{Script, Upstream, refused_address},
    upstream_calls::{check, client, client_within, limits, ok, outcome, plain, saying, streamed},
};

/// A head that announces chunks.
const CHUNKED: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

#[actix_web::test]
async fn a_regular_answer_comes_whole() {
    check(&saying(&ok("hello")), "hello").await;
    check(&saying(&ok("")), "").await;
    check(&saying(&format!("{CHUNKED}5\r\nhello\r\n4\r\n you\r\n0\r\n\r\n")), "hello you").await;
    check(&saying(&format!("{CHUNKED}5;a=b\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n")), "hello").await;
}

#[actix_web::test]
async fn pieces_of_any_size_come_whole() {
    let (answer, gap) = (format!("{CHUNKED}5\r\nhello\r\n4\r\n you\r\n0\r\n\r\n"), Duration::from_micros(200));
    for piece in [1, 2, 3, 7, 50] {
        check(&Script::new().request().trickle(answer.clone(), piece, gap), "hello you").await;
        check(&Script::new().request().trickle(ok("hello"), piece, gap), "hello").await;
    }
}

#[actix_web::test]
async fn a_megabyte_comes_whole() {
    let body = "0123456789abcdef".repeat(65_536);
    check(&saying(&ok(&body)), &body).await;
    check(&saying(&format!("{CHUNKED}100000\r\n{body}\r\n0\r\n\r\n")), &body).await;
}

#[actix_web::test]
async fn nobody_listening_is_a_connect_failure() {
    let client = client(&format!("http://{}", refused_address()));
    assert_eq!(outcome(&client, plain("{}")).await, "connect");
    assert_eq!(outcome(&client, streamed("{}")).await, "connect");
}

#[actix_web::test]
async fn a_close_or_reset_before_the_head_is_a_reset_and_no_refused_connection() {
    check(&Script::new().request().fin(), "reset").await;
    check(&Script::new().request().reset(), "reset").await;
    check(&Script::new().reset(), "reset").await;
}

#[actix_web::test]
async fn a_close_or_reset_inside_the_head_is_a_reset() {
    let half = "HTTP/1.1 200 OK\r\ncontent-le";
    check(&Script::new().request().send(half).fin(), "reset").await;
    check(&Script::new().request().send(half).pause(Duration::from_millis(20)).reset(), "reset").await;
}

#[actix_web::test]
async fn a_reset_after_the_head_is_a_reset() {
    let script = |answer: &str| Script::new().request().send(answer).pause(Duration::from_millis(50)).reset();
    check(&script("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf"), "reset after 'half'").await;
    check(&script(&format!("{CHUNKED}4\r\nhalf\r\n")), "reset after 'half'").await;
    check(&script("HTTP/1.1 200 OK\r\n\r\nhalf"), "reset after 'half'").await;
}

#[actix_web::test]
async fn a_body_shorter_than_announced_is_truncated() {
    check(&saying("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf"), "truncated after 'half'").await;
    check(&saying("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"), "truncated").await;
}

#[actix_web::test]
async fn a_chunked_body_without_its_last_chunk_is_truncated_wherever_it_is_cut() {
    check(&saying(CHUNKED), "truncated").await;
    check(&saying(&format!("{CHUNKED}5\r\nhel")), "truncated after 'hel'").await;
    check(&saying(&format!("{CHUNKED}5\r\nhello")), "truncated after 'hello'").await;
    check(&saying(&format!("{CHUNKED}5\r\nhello\r\n")), "truncated after 'hello'").await;
    check(&saying(&format!("{CHUNKED}5\r\nhello\r\n0\r\n")), "truncated after 'hello'").await;
}

#[actix_web::test]
async fn chunks_that_are_none_are_malformed() {
    check(&saying(&format!("{CHUNKED}five\r\nhello\r\n")), "malformed").await;
    check(&saying(&format!("{CHUNKED}-5\r\nhello\r\n")), "malformed").await;
    check(&saying(&format!("{CHUNKED}ffffffffffffffffff\r\nhello\r\n")), "malformed").await;
    check(&saying(&format!("{CHUNKED}5\r\nhello\r\nfive\r\n")), "malformed").await;
}

#[actix_web::test]
async fn interim_heads_before_the_answer_are_dropped() {
    let continues = "HTTP/1.1 100 Continue\r\n\r\n";
    let hints = "HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n";
    check(&saying(&format!("{continues}{}", ok("hello"))), "hello").await;
    check(&saying(&format!("HTTP/1.1 102 Processing\r\n\r\n{}", ok("hello"))), "hello").await;
    check(&saying(&format!("{}{}", hints.repeat(8), ok("hello"))), "hello").await;
    let apart = Script::new().request().send(hints).pause(Duration::from_millis(20)).send(ok("hello"));
    check(&apart, "hello").await;
}

#[actix_web::test]
async fn interim_heads_instead_of_an_answer_are_none() {
    check(&saying("HTTP/1.1 100 Continue\r\n\r\n"), "reset").await;
    check(&saying(&"HTTP/1.1 102 Processing\r\n\r\n".repeat(9)), "malformed").await;
    let trickle = Script::new().request().trickle("HTTP/1.1 102 P\r\n\r\n".repeat(100), 18, Duration::from_millis(1));
    check(&trickle, "malformed").await;
}

#[actix_web::test]
async fn switching_protocols_ends_at_once_and_does_not_hang() {
    let answer = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n";
    check(&Script::new().request().send(answer), "unexpected_status 101").await;
}

#[actix_web::test]
async fn statuses_that_are_no_answer_are_none() {
    check(&saying("HTTP/1.1 204 No Content\r\n\r\n"), "unexpected_status 204").await;
    check(&saying("HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n"), "unexpected_status 304").await;
    check(&saying("HTTP/1.1 999 Odd\r\ncontent-length: 2\r\n\r\n{}"), "unexpected_status 999").await;
    check(&saying("HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}"), "unexpected_status 201").await;
    check(&saying("HTTP/1.1 206 Partial\r\ncontent-length: 2\r\n\r\n{}"), "unexpected_status 206").await;
}

#[actix_web::test]
async fn no_redirect_is_followed() {
    let elsewhere = Upstream::start([Script::answering(ok("stolen"))]);
    for status in [301, 302, 303, 307, 308] {
        let answer = format!("HTTP/1.1 {status} Go\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", elsewhere.url("/v1"));
        check(&saying(&answer), &format!("unexpected_status {status}")).await;
    }
    assert_eq!(elsewhere.connections(), 0, "the prompt stays where it was sent");
}

#[actix_web::test]
async fn lengths_that_are_double_signed_or_no_number_are_malformed() {
    let with = |headers: &str| saying(&format!("HTTP/1.1 200 OK\r\n{headers}\r\n\r\nhello"));
    check(&with("content-length: 5\r\ncontent-length: 5"), "malformed").await;
    check(&with("content-length: 5\r\ncontent-length: 6"), "malformed").await;
    check(&with("content-length: +5"), "malformed").await;
    check(&with("content-length: -5"), "malformed").await;
    check(&with("content-length: 5, 5"), "malformed").await;
    check(&with("content-length: 99999999999999999999999"), "malformed").await;
    check(&with("content-length: five"), "malformed").await;
}

#[actix_web::test]
async fn length_beside_chunks_and_other_codings_are_malformed() {
    let with = |headers: &str| saying(&format!("HTTP/1.1 200 OK\r\n{headers}\r\n\r\n5\r\nhello\r\n0\r\n\r\n"));
    check(&with("content-length: 5\r\ntransfer-encoding: chunked"), "malformed").await;
    check(&with("transfer-encoding: chunked\r\ntransfer-encoding: chunked"), "malformed").await;
    check(&with("transfer-encoding: gzip, chunked"), "malformed").await;
    check(&with("transfer-encoding: identity"), "malformed").await;
    let old = saying("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    check(&old, "malformed").await;
}

#[actix_web::test]
async fn an_encoded_body_is_malformed_whether_it_is_one_or_only_says_so() {
    let mut bomb = Vec::new();
    write!(bomb, "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\n").unwrap();
    bomb.extend_from_slice(b"\x1f\x8b\x08\x00");
    check(&Script::new().request().send(bomb), "malformed 200").await;
    for encoding in ["gzip", "br", "zstd", "identity, gzip", "x"] {
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: 2\r\n\r\n{{}}");
        check(&saying(&answer), "malformed 200").await;
    }
    check(&saying("HTTP/1.1 200 OK\r\ncontent-encoding: Identity\r\ncontent-length: 2\r\n\r\n{}"), "{}").await;
}

#[actix_web::test]
async fn a_web_page_is_malformed() {
    let page = "HTTP/1.1 200 OK\r\ncontent-type: Text/HTML; charset=utf-8\r\ncontent-length: 4\r\n\r\n<ok>";
    check(&saying(page), "malformed 200").await;
}

#[actix_web::test]
async fn heads_without_end_are_malformed() {
    let huge = format!("HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 2\r\n\r\n{{}}", "a".repeat(100_000));
    check(&saying(&huge), "malformed").await;
    let many = format!("HTTP/1.1 200 OK\r\n{}content-length: 2\r\n\r\n{{}}", "x: a\r\n".repeat(97));
    check(&saying(&many), "malformed").await;
    let endless = Script::new().request().send("HTTP/1.1 200 OK\r\n").repeat(Script::new().send("x".repeat(10_000)));
    check(&endless, "malformed").await;
    let large = format!("HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 2\r\n\r\n{{}}", "a".repeat(60_000));
    check(&saying(&large), "{}").await;
}

#[actix_web::test]
async fn another_protocol_is_malformed() {
    check(&Script::new().send("SSH-2.0-OpenSSH_9.2p1\r\n"), "malformed").await;
    check(&saying("HTTP/2 200 OK\r\n\r\n"), "malformed").await;
    check(&saying("{\"choices\":[]}\r\n"), "malformed").await;
}

#[actix_web::test]
async fn an_answer_without_length_ends_with_its_connection() {
    check(&saying("HTTP/1.0 200 OK\r\n\r\nhello"), "hello").await;
    check(&saying("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello"), "hello").await;
    check(&saying("HTTP/1.1 200 OK\r\n\r\nhello"), "hello").await;
    check(&saying("HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello"), "hello").await;
    check(&saying("HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhell"), "truncated after 'hell'").await;
    check(&saying("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n"), "").await;
}

#[actix_web::test]
async fn bytes_after_the_body_do_not_belong_to_it() {
    check(&saying(&format!("{}surplus", ok("hello"))), "hello").await;
    check(&saying(&format!("{CHUNKED}5\r\nhello\r\n0\r\n\r\nsurplus")), "hello").await;
}

#[actix_web::test]
async fn an_answer_larger_than_allowed_is_a_limit_of_the_gateway() {
    let ten = "0123456789";
    let chunked = format!("{CHUNKED}a\r\n{ten}\r\na\r\n{ten}\r\n0\r\n\r\n");
    let endless = Script::new().request().send(CHUNKED).repeat(Script::new().send(format!("a\r\n{ten}\r\n")));
    for script in [saying(&ok(&ten.repeat(2))), saying(&chunked), endless] {
        assert_eq!(at_most(19, script).await, "gateway_limit");
    }
    assert_eq!(at_most(20, saying(&ok(&ten.repeat(2)))).await, ten.repeat(2));
}

/// What a plain call comes to that allows so many bytes.
async fn at_most(max_body: usize, script: Script) -> String {
    let upstream = Upstream::start([script]);
    let limits = TransportLimits { max_body, ..limits() };
    outcome(&client_within(Connection::new(&upstream.url("")).unwrap(), limits), plain("{}")).await
}
