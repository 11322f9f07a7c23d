//! Callers with no key, a wrong one, too many, or an odd one: 401 before a byte of the body is read, in one generic
//! text. Which pages want which scope is in `contract_access`, whose generation is whose in `contract_records`.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::{
    enemy::{Attack, PATH, check, good_body},
    harness::KEY,
    patience::eventually,
    raw_client::RawClient,
    world::{completion, one_model},
};

/// A good request with these lines where its key should be.
fn keyed<'a>(name: &'a str, lines: &str, expected: &'a [u16]) -> Attack<'a> {
    let body = good_body();
    let length = body.len();
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nhost: localhost\r\n{lines}content-type: application/json\r\ncontent-length: {length}"
    );
    (name, format!("{head}\r\n\r\n{body}"), expected)
}

#[actix_web::test]
async fn keys_that_are_none() {
    let huge = format!("authorization: Bearer {}\r\n", "k".repeat(30_000));
    let (cut, longer) = (KEY.get(..KEY.len() - 1).unwrap(), format!("{KEY}x"));
    check(&[
        keyed("none", "", &[401]),
        keyed("empty", "authorization: \r\n", &[401]),
        keyed("a scheme alone", "authorization: Bearer\r\n", &[401]),
        keyed("no scheme", &format!("authorization: {KEY}\r\n"), &[401]),
        keyed("another scheme", &format!("authorization: Basic {KEY}\r\n"), &[401]),
        keyed("no space", &format!("authorization: Bearer{KEY}\r\n"), &[401]),
        keyed("wrong", "authorization: Bearer sk-wrong-0123456789abcdef\r\n", &[401]),
        keyed("cut by a letter", &format!("authorization: Bearer {cut}\r\n"), &[401]),
        keyed("longer by a letter", &format!("authorization: Bearer {longer}\r\n"), &[401]),
        keyed("in capitals", &format!("authorization: Bearer {}\r\n", KEY.to_uppercase()), &[401]),
        keyed("in quotes", &format!("authorization: Bearer \"{KEY}\"\r\n"), &[401]),
        keyed("followed by another", &format!("authorization: Bearer {KEY}, {KEY}\r\n"), &[401]),
        keyed("beyond ASCII", "authorization: Bearer sk-schlüssel-0123456789\r\n", &[401]),
        keyed("of 30 kB", &huge, &[401]),
        keyed("in a cookie", &format!("cookie: authorization=Bearer {KEY}\r\n"), &[401]),
        keyed("for a proxy", &format!("proxy-authorization: Bearer {KEY}\r\n"), &[401]),
    ])
    .await;
}

#[actix_web::test]
async fn two_keys() {
    let good = format!("authorization: Bearer {KEY}\r\n");
    check(&[
        keyed("the same twice in one header each", &format!("{good}{good}"), &[401]),
        keyed("a good one, then a wrong one", &format!("{good}authorization: Bearer wrong\r\n"), &[401]),
        keyed("a wrong one, then a good one", &format!("authorization: Bearer wrong\r\n{good}"), &[401]),
        keyed("two that differ", &format!("{good}x-api-key: sk-other-0123456789abcdef\r\n"), &[401]),
        keyed("two in the other header", &format!("x-api-key: {KEY}\r\nx-api-key: {KEY}\r\n"), &[401]),
        keyed("the same in both headers", &format!("{good}x-api-key: {KEY}\r\n"), &[200]),
    ])
    .await;
}

#[actix_web::test]
async fn odd_cases_of_a_good_key() {
    check(&[
        keyed("a scheme in lower case", &format!("authorization: bearer {KEY}\r\n"), &[200]),
        keyed("a scheme in capitals", &format!("AUTHORIZATION: BEARER {KEY}\r\n"), &[200]),
        keyed("further spaces", &format!("authorization: Bearer   {KEY}  \r\n"), &[200]),
        keyed("a tab before it", &format!("authorization:\tBearer {KEY}\r\n"), &[200]),
        keyed("the other header", &format!("X-Api-Key: {KEY}\r\n"), &[200]),
    ])
    .await;
}

/// Nobody without a key makes the gateway wait for a body, read it, or keep it.
#[actix_web::test]
async fn a_caller_without_a_key_is_refused_before_its_body_is_read() {
    let (gateway, upstream) = one_model(&completion("x")).await;
    for framing in ["content-length: 33554432", "content-length: 99999999999", "transfer-encoding: chunked"] {
        let begun = Instant::now();
        let mut client = RawClient::connect(gateway.address).await;
        let head = format!(
            "POST {PATH} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer wrong\r\ncontent-type: text/html\r\n"
        );
        client.say(format!("{head}{framing}\r\n\r\n")).await;
        let said = client.until("}}}").await;
        assert!(said.starts_with("HTTP/1.1 401") && said.contains("www-authenticate: Bearer"), "{said}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
    assert_eq!(gateway.get("/health/ready").await.expect(200)["checks"]["load"]["buffered_bytes"], 0);
    assert_eq!(upstream.connections(), 0);
}

/// Nor does anybody who was refused keep a connection with a body that does not end.
#[actix_web::test]
async fn a_refused_caller_does_not_keep_its_connection_with_a_body_without_end() {
    let (gateway, _upstream) = one_model(&completion("x")).await;
    let each = async |(key, more), framing| {
        let mut client = RawClient::connect(gateway.address).await;
        let head = format!("POST {PATH} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n{more}");
        client.say(format!("{head}{framing}\r\n\r\n")).await;
        let said = client.until("}}}").await;
        assert!(said.starts_with("HTTP/1.1 4") && said.contains("connection: close"), "{said}");
        let what = format!("{key} {more} {framing}: it is no longer read from");
        eventually(what, async || client.say("1\r\nx\r\n").await, |taken| !taken).await;
    };
    let callers = [("wrong", ""), ("wrong", "expect: 100-continue\r\n"), (KEY, "content-encoding: gzip\r\n")];
    let framings = ["content-length: 33554432", "transfer-encoding: chunked"];
    join_all(callers.into_iter().flat_map(|caller| framings.map(|framing| each(caller, framing)))).await;
}

/// A wrong key and no key at all differ in nothing that helps to guess one.
#[actix_web::test]
async fn every_wrong_key_gets_the_same_words() {
    let (gateway, _upstream) = one_model(&completion("x")).await;
    let mut words = Vec::new();
    for key in ["sk-wrong-0123456789abcdef", "sk-test-0123456789abcdeX", "x", "\u{fc}", "Bearer"] {
        let bearer = format!("Bearer {key}");
        let reply =
            gateway.call(actix_web::http::Method::GET, "/api/v1/key", &[("authorization", &bearer)], None).await;
        let error = crate::world::error_of(&reply, 401);
        words.push((error["message"].clone(), error["metadata"]["reason"].clone()));
    }
    assert!(words.windows(2).all(|pair| pair[0] == pair[1]), "{words:?}");
}
